"""Columns of counts: multiplied, added up and put in order, as far as they fit into 64 bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdatalog.calls import Limits
from gdatalog.storage.on_device import brought
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array

EXACT = 2.0**62
TABLES = "tables of counts by value"


def times_each(blocks: Sequence[Columns], width: int, times: int) -> list[Columns] | None:
    """What is gathered of groups in part, behind `width` keys, so many times; None where a number
    may leave 64 bits."""
    if times == 1:
        return list(blocks)
    most = max((greatest(part) for block in blocks for part in block[width:]), default=0.0)
    if most * abs(times) >= EXACT:
        return None
    return [(*block[:width], *(times * part for part in block[width:])) for block in blocks]


def once_each(blocks: Sequence[tuple[Array, ...]], limits: Limits) -> tuple[Columns, Array] | None:
    """The ascending keys of blocks and their counts; None where a key comes more than once."""
    if not blocks:
        return None
    size = sum(column.nbytes for block in blocks for column in block)
    with limits.account.working(TABLES, 2 * size):
        keys, counts = (np.concatenate(column) for column in zip(*blocks, strict=True))
        if not ascends(keys):
            order = np.argsort(keys, kind="stable")  # of few ascending stretches
            keys, counts = keys[order], counts[order]
    return ((keys,), counts) if ascends(keys) else None


def greatest(numbers: Array) -> float:
    """The greatest, or what is as far from 0."""
    return max(float(numbers.max()), -float(numbers.min()), 0.0) if len(numbers) else 0.0


def ascends(keys: Array) -> bool:
    return bool((keys[1:] > keys[:-1]).all())


def exact_sum(counts: Array) -> int:
    """The sum, exactly."""
    if float(counts.sum(dtype=np.float64)) >= EXACT:
        return sum(map(int, brought(counts)))
    return int(counts.sum())
