"""Rows in bundles: those that lie in the same classes of their columns stand together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from gdatalog.cluster.census import codes, count
from gdatalog.cluster.layout import Dim, Source
from gdatalog.cluster.shares import Domain
from gdatalog.plan.cells import Stretch
from gdatalog.plan.nodes import RowTest
from gdatalog.storage.degrees import COMPARE
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array


@dataclass(frozen=True, slots=True)
class Grid:
    """By what the rows of a source are bundled: the fine classes of its dims, so that the bundles
    of any shares are made of runs of them."""

    source: Source
    dims: tuple[Dim, ...]
    domains: tuple[Domain, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.domains[dim.domain].classes for dim in self.dims)


def bundled(rows: Columns, grid: Grid) -> tuple[Columns, Array]:
    """The rows of a source, by its columns, that pass its tests, bundle by bundle in the order of
    their classes; and how many each bundle has."""
    keys = dict(zip(grid.source.columns, rows, strict=True))
    if grid.source.tests:
        kept = np.flatnonzero(mask_of(keys, grid.source.tests))
        if len(kept) < len(rows[0]):
            keys = {at: column[kept] for at, column in keys.items()}
    if not grid.dims:
        return tuple(keys.values()), count(keys, (), grid.domains)
    code = codes(keys, grid.dims, grid.domains)
    size = prod(grid.shape)
    counts = np.bincount(code, minlength=size).astype(np.int64).reshape(grid.shape)
    # Few bits are sorted by counting.
    order = np.argsort(code.astype(np.min_scalar_type(size - 1)), kind="stable")
    return tuple(column[order] for column in keys.values()), counts


def mask_of(keys: Mapping[int, Array], tests: Sequence[RowTest]) -> Array:
    """Which rows pass comparisons of their columns."""
    mask = np.ones(len(next(iter(keys.values()))), dtype=np.bool_)
    for test in tests:
        mask &= COMPARE[test.op](keys[test.left], keys[test.right])
    return mask


Runs = tuple[tuple[int, int], ...]


def ends_of(counts: Array) -> Array:
    """Where bundles end, in their order; and where the first begins."""
    return np.append(0, np.cumsum(counts.ravel()))


def runs_of(ends: Array, shape: tuple[int, ...], spans: Sequence[tuple[int, int]]) -> Runs:
    """Where the rows stand whose classes lie in [low, high), one pair for each dim: as (start,
    stop), ascending; neighbours are one. `shape`: how many classes the dims have."""
    if not spans:
        return ((0, int(ends[-1])),) if ends[-1] else ()
    *outer, (low, high) = spans
    firsts = np.zeros(1, dtype=np.int64)
    for (start, stop), classes in zip(outer, shape[1:], strict=True):
        firsts = ((firsts[:, None] + np.arange(start, stop)) * classes).ravel()
    found: list[tuple[int, int]] = []
    for start, stop in zip(ends[firsts + low].tolist(), ends[firsts + high].tolist(), strict=True):
        if start == stop:
            continue
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return tuple(found)


# In what stretches the keys of some columns must lie.
Box = Mapping[int, Stretch]


def in_boxes(keys: Mapping[int, Array], boxes: Sequence[Box]) -> Array:
    """Which rows lie in one of some boxes."""
    found = np.zeros(len(next(iter(keys.values()))), dtype=np.bool_)
    for box in boxes:
        inside = np.ones(len(found), dtype=np.bool_)
        for column, stretch in box.items():
            inside &= in_stretch(keys[column], stretch)
        found |= inside
    return found


def in_stretch(keys: Array, stretch: Stretch) -> Array:
    inside = np.ones(len(keys), dtype=np.bool_)
    if stretch.low is not None:
        inside &= keys >= stretch.low
    if stretch.high is not None:
        inside &= keys < stretch.high
    return inside
