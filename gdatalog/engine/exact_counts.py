"""Exact counts: columns of 64-bit counts, and larger numbers by their remainders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt, log2, prod

import numpy as np

from gdatalog.calls import Limits
from gdatalog.errors import EvaluationError, Span
from gdatalog.plan.effects import all_steps, participants
from gdatalog.plan.join_plan import Branch, Guard, Join, JoinPlan, Tally, TrieRef
from gdatalog.storage.on_device import brought
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie

EXACT = 2.0**62
TABLES = "tables of counts by value"


class SumUnsuited(Exception):
    """Raised if the joins of a sum cannot run as planned."""


class TooWide(SumUnsuited):
    """Raised if a number does not fit into 64 bits."""


class CountOverflow(EvaluationError):
    """A count does not fit into 64 bits. `exact` is its value."""

    def __init__(self, exact: int, span: Span) -> None:
        super().__init__("a count does not fit into 64 bits", span)
        self.exact = exact


def times_each(blocks: Sequence[Columns], width: int, times: int) -> list[Columns]:
    """Multiplies the partial aggregates of groups, which follow `width` keys."""
    if times == 1:
        return list(blocks)
    parts = [part for block in blocks for part in block[width:] if len(part)]
    most = max((max(float(part.max()), -float(part.min())) for part in parts), default=0.0)
    if most * abs(times) >= EXACT:
        raise TooWide
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


def ascends(keys: Array) -> bool:
    return bool((keys[1:] > keys[:-1]).all())


def exact_sum(counts: Array) -> int:
    """The exact sum."""
    if float(counts.sum(dtype=np.float64)) >= EXACT:
        return sum(map(int, brought(counts)))
    return int(counts.sum())


def scanned(join: JoinPlan, tries: Sequence[Trie], limits: Limits) -> int | None:
    """The count of a join that only walks all rows of one index, such as a sum of products of local
    counts; None if it needs loops, or if a number may exceed 64 bits."""
    walked = [step for step in join.steps if isinstance(step, Join)]
    guards = [step for step in join.steps if isinstance(step, Guard)]
    read = [trie for trie in tries if trie.levels]
    levels = read[0].levels if read else ()
    if (
        len(walked) + len(guards) < len(join.steps)
        or len(walked) != len(levels)
        or any(trie.levels != levels for trie in read)
        or any(len({part.trie for part in step.participants}) != len(read) for step in walked)
        or any({cut for _, cut in step.implied} != set(range(len(step.cuts))) for step in walked)
        or join.orbit * prod(max(1, trie.total) for trie in tries) >= EXACT
    ):
        return None
    totals = ((step.weighted, tries[step.trie].total) for step in guards)
    times = join.orbit * prod(total if weighted else min(1, total) for weighted, total in totals)
    weights = [trie.weights for trie in read if trie.weights is not None]
    if not weights or not times:
        return times * (len(levels[-1]) if levels else 1)
    with limits.account.working(TABLES, 2 * weights[0].nbytes):
        return times * int(prod(weights[1:], start=weights[0]).sum(dtype=np.int64))


# Large integers as remainders modulo 31-bit primes.


FIRST_PRIME = (1 << 31) - 1  # products of two remainders have 62 bits


def most_bits(join: JoinPlan, bits_of: Callable[[TrieRef], float]) -> float:
    """An upper bound of the bits of a join's count. `bits_of`: an upper bound of the bits of a
    trie's number of rows."""
    inner: dict[str, set[int]] = {}
    for step in join.steps:
        if isinstance(step, Tally):
            parts = (part for each in all_steps(step.steps) for part in participants(each))
            inner[step.table] = {part.trie for part in parts}
    bits: dict[str, float] = {}
    whole = [0.0] * len(join.tries)
    for at, ref in enumerate(join.tries):  # tallies also read later tries
        if ref.relation not in inner:
            whole[at] = bits_of(ref)
    for table, tries in inner.items():  # in the order of filling
        bits[table] = sum(bits.get(join.tries[at].relation, whole[at]) for at in tries)
    own = set().union(*inner.values())
    several = log2(join.orbit)
    for step in all_steps(join.steps):
        if isinstance(step, Branch) and step.terms:  # the first term is the greatest
            for number in step.terms[0][1]:
                inside = all_steps(step.alternatives[number])
                tries = {part.trie for each in inside for part in participants(each)}
                several += sum(whole[at] for at in tries)
        elif isinstance(step, Branch):
            several += log2(len(step.alternatives))
    return several + sum(
        bits.get(ref.relation, whole[at]) for at, ref in enumerate(join.tries) if at not in own
    )


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
