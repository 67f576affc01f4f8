"""Rows in bundles: those that lie in the same classes of their columns stand together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from gdatalog.cluster.partitioned.census import codes, count
from gdatalog.cluster.partitioned.layout import Dim, Source
from gdatalog.cluster.partitioned.shares import Domain
from gdatalog.plan.cells import KeyRange
from gdatalog.plan.nodes import RowTest
from gdatalog.records import dataclass
from gdatalog.storage.degrees import COMPARE
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array


@dataclass(frozen=True, slots=True)
class Grid:
    """By what the rows of a source are counted, or bundled: the classes of its dims."""

    source: Source
    dims: tuple[Dim, ...]
    domains: tuple[Domain, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.domains[dim.domain].classes for dim in self.dims)


def passing(rows: Columns, source: Source) -> dict[int, Array]:
    """The rows of a source that pass its tests, by its columns."""
    keys = dict(zip(source.columns, rows, strict=True))
    if source.tests:
        kept = np.flatnonzero(mask_of(keys, source.tests))
        if len(kept) < len(rows[0]):
            return {at: column[kept] for at, column in keys.items()}
    return keys


def bundled(keys: Mapping[int, Array], grid: Grid) -> tuple[Columns, Array]:
    """The rows of a source, bundle by bundle in the order of their classes; and how many each
    bundle has."""
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


# In what stretches the keys of some columns must lie.
Box = Mapping[int, KeyRange]


def in_boxes(keys: Mapping[int, Array], boxes: Sequence[Box]) -> Array:
    """Which rows lie in one of some boxes."""
    found = np.zeros(len(next(iter(keys.values()))), dtype=np.bool_)
    for box in boxes:
        inside = np.ones(len(found), dtype=np.bool_)
        for column, stretch in box.items():
            inside &= in_stretch(keys[column], stretch)
        found |= inside
    return found


def in_stretch(keys: Array, stretch: KeyRange) -> Array:
    inside = np.ones(len(keys), dtype=np.bool_)
    if stretch.low is not None:
        inside &= keys >= stretch.low
    if stretch.high is not None:
        inside &= keys < stretch.high
    return inside
