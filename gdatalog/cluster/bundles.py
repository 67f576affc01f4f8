"""Rows in bundles: those that lie in the same classes of their columns stand together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gdatalog.storage.degrees import COMPARE
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array
from gdatalog.storage.trie import RowTest


@dataclass(frozen=True, slots=True)
class Grid:
    """By what rows are bundled: for some columns (by their places) where each class begins but
    the first. Rows that fail the `tests` are left out."""

    places: tuple[int, ...]
    bounds: tuple[tuple[int, ...], ...]
    tests: tuple[RowTest, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(bounds) + 1 for bounds in self.bounds)


def bundled(rows: Columns, grid: Grid) -> tuple[Columns, Array]:
    """The rows, bundle by bundle in the order of their classes, and how many each bundle has."""
    if grid.tests:
        kept = np.flatnonzero(mask_of(rows, grid.tests))
        if len(kept) < len(rows[0]):
            rows = tuple(column[kept] for column in rows)
    if not grid.places:
        return rows, np.array(len(rows[0]), dtype=np.int64)
    size = int(np.prod(grid.shape))
    codes = np.zeros(len(rows[0]), dtype=np.min_scalar_type(size - 1))
    for place, bounds in zip(grid.places, grid.bounds, strict=True):
        codes *= codes.dtype.type(len(bounds) + 1)
        codes += classes_of(rows[place], bounds).astype(codes.dtype)
    counts = np.bincount(codes, minlength=size).astype(np.int64).reshape(grid.shape)
    order = np.argsort(codes, kind="stable")
    return tuple(column[order] for column in rows), counts


def classes_of(keys: Array, bounds: Sequence[int]) -> Array:
    """The class of each key."""
    found: Array = np.searchsorted(np.asarray(bounds, dtype=np.int64), keys, side="right")
    return found


def mask_of(rows: Columns, tests: Sequence[RowTest]) -> Array:
    """Which rows pass comparisons of their columns."""
    mask = np.ones(len(rows[0]), dtype=np.bool_)
    for left, op, right in tests:
        mask &= COMPARE[op](rows[left], rows[right])
    return mask


def runs_of(counts: Array, wanted: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, int]]:
    """Where the rows of some bundles stand among all, as (start, stop); neighbours are one."""
    ends = np.cumsum(counts.ravel())
    codes = sorted(int(np.ravel_multi_index(at, counts.shape)) if at else 0 for at in wanted)
    start = stop = 0
    for code in codes:
        low, high = int(ends[code - 1]) if code else 0, int(ends[code])
        if low == high:
            continue
        if low == stop and stop > start:
            stop = high
            continue
        if stop > start:
            yield start, stop
        start, stop = low, high
    if stop > start:
        yield start, stop


# Of a row: places of columns, each with the stretch [low, high) in which its key must lie.
Box = Mapping[int, tuple[int | None, int | None]]


def in_boxes(rows: Columns, boxes: Sequence[Box]) -> Array:
    """Which rows lie in one of some boxes."""
    found = np.zeros(len(rows[0]), dtype=np.bool_)
    for box in boxes:
        inside = np.ones(len(rows[0]), dtype=np.bool_)
        for place, (low, high) in box.items():
            if low is not None:
                inside &= rows[place] >= low
            if high is not None:
                inside &= rows[place] < high
        found |= inside
    return found
