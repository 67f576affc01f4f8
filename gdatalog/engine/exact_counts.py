"""Exact counts: columns of 64-bit counts, and larger numbers by their remainders."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from gdatalog.errors import EvaluationError, Span
from gdatalog.limits import Limits
from gdatalog.plan.join_plan import Guard, Join, JoinPlan
from gdatalog.storage.on_device import brought
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie

EXACT = 2.0**62
FLOATS = 2.0**53  # floats add up ints exactly if the sum is less
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
    """The exact sum; no count is negative."""
    rough = float(counts.sum(dtype=np.float64))
    if rough < FLOATS:
        return int(rough)
    return sum(map(int, brought(counts))) if rough >= EXACT else int(counts.sum())


def one_row(total: int) -> tuple[Columns, int]:
    """The row that has a count of 64 bits."""
    short = -(1 << 31) <= total < 1 << 31
    return (np.array([total], dtype=np.int32 if short else np.int64),), 1


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
