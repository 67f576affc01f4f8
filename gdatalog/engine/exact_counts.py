"""Exact counts: columns of 64-bit counts, and larger numbers by their remainders."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, prod

import numpy as np

from gdatalog.calls import Limits
from gdatalog.errors import EvaluationError, Span
from gdatalog.storage.on_device import brought
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array

EXACT = 2.0**62
TABLES = "tables of counts by value"


class CountOverflow(EvaluationError):
    """A count does not fit into 64 bits. `exact` is its value."""

    def __init__(self, exact: int, span: Span) -> None:
        super().__init__("a count does not fit into 64 bits", span)
        self.exact = exact


def times_each(blocks: Sequence[Columns], width: int, times: int) -> list[Columns] | None:
    """Multiplies the partial aggregates of groups, which follow `width` keys; None if a number may
    exceed 64 bits."""
    if times == 1:
        return list(blocks)
    most = max((greatest(part) for block in blocks for part in block[width:]), default=0.0)
    if most * abs(times) >= EXACT:
        return None
    return [(*block[:width], *(times * part for part in block[width:])) for block in blocks]


def once_each(blocks: Sequence[tuple[Array, ...]], limits: Limits) -> tuple[Columns, Array] | None:
    """The ascending keys of blocks and their counts; None if a key occurs more than once."""
    if not blocks:
        return None
    size = sum(column.nbytes for block in blocks for column in block)
    with limits.account.working(TABLES, 2 * size):
        keys, counts = (np.concatenate(column) for column in zip(*blocks, strict=True))
        if not ascends(keys):
            order = np.argsort(keys, kind="stable")  # fast: few ascending runs
            keys, counts = keys[order], counts[order]
    return ((keys,), counts) if ascends(keys) else None


def greatest(numbers: Array) -> float:
    """The greatest absolute value, or 0."""
    return max(float(numbers.max()), -float(numbers.min()), 0.0) if len(numbers) else 0.0


def ascends(keys: Array) -> bool:
    return bool((keys[1:] > keys[:-1]).all())


def exact_sum(counts: Array) -> int:
    """The exact sum."""
    if float(counts.sum(dtype=np.float64)) >= EXACT:
        return sum(map(int, brought(counts)))
    return int(counts.sum())


# Large integers as remainders modulo 31-bit primes.


FIRST_PRIME = (1 << 31) - 1  # products of two remainders have 62 bits


def primes_below(count: int) -> list[int]:
    """The largest primes below 2^31, in descending order."""
    found: list[int] = []
    candidate = FIRST_PRIME
    while len(found) < count:
        if all(candidate % divisor for divisor in range(3, isqrt(candidate) + 1, 2)):
            found.append(candidate)
        candidate -= 2
    return found


def combined(remainders: list[int], primes: list[int]) -> int:
    """The number below the product of the primes with these remainders (Chinese remainder theorem).

    >>> combined([2, 3], [5, 7])
    17
    """
    whole = prod(primes)
    parts = zip(remainders, primes, strict=True)
    return sum(left * (whole // p) * pow(whole // p, -1, p) for left, p in parts) % whole
