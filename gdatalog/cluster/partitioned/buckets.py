"""Rows in buckets: the rows of a source that lie in the same key ranges stand together.

A worker buckets the rows of some blocks and keeps them as one value of Dask's. Of these rows others
need only some buckets, so slices move, and not the value: a task cuts them out where they lie, and
another receives them where they are needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from gdatalog.cluster.partitioned.histogram import codes, count
from gdatalog.cluster.partitioned.layout import Dim, Source
from gdatalog.cluster.partitioned.shares import Domain
from gdatalog.cluster.rows.graph_degrees import Way, edges_of
from gdatalog.cluster.rows.parts import columns_of
from gdatalog.cluster.rows.stored_rows import StoredRows
from gdatalog.cluster.workers.worker import own_address
from gdatalog.plan.cells import KeyRange
from gdatalog.plan.nodes import RowTest
from gdatalog.records import dataclass
from gdatalog.storage.degrees import COMPARE
from gdatalog.storage.graph import Ranking
from gdatalog.storage.rows import Columns, concatenate
from gdatalog.storage.table import Array

# How the rows of a graph tell each edge once, and the ranks of its vertices.
Edges = tuple[Way, Ranking]


# ------------------------------------------------------------------------------------------ rows


@dataclass(frozen=True, slots=True)
class Grid:
    """By what the rows of a source are counted, or bucketed: the key ranges of its dims."""

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


def in_buckets(keys: Mapping[int, Array], grid: Grid) -> tuple[Columns, Array]:
    """The rows of a source, bucket by bucket in the order of their key ranges; and how many each
    bucket has."""
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


# In what ranges the keys of some columns must lie.
Box = Mapping[int, KeyRange]


def in_boxes(keys: Mapping[int, Array], boxes: Sequence[Box]) -> Array:
    """Which rows lie in one of some boxes."""
    found = np.zeros(len(next(iter(keys.values()))), dtype=np.bool_)
    for box in boxes:
        inside = np.ones(len(found), dtype=np.bool_)
        for column, keys_in in box.items():
            inside &= in_range(keys[column], keys_in)
        found |= inside
    return found


def in_range(keys: Array, wanted: KeyRange) -> Array:
    """Which keys lie in a range."""
    inside = np.ones(len(keys), dtype=np.bool_)
    if wanted.low is not None:
        inside &= keys >= wanted.low
    if wanted.high is not None:
        inside &= keys < wanted.high
    return inside


class Offsets(NamedTuple):
    """A column as it moves: the rows of a bucket lie in few key ranges, so each key is told by how
    far it is from the least, in as few bytes as that takes."""

    least: int
    offsets: Array
    kind: str  # of the column

    @staticmethod
    def of(column: Array) -> Offsets:
        kind = column.dtype.str
        if len(column):
            least, greatest = int(column.min()), int(column.max())
            narrow = np.min_scalar_type(greatest - least)
            if narrow.itemsize < column.dtype.itemsize:
                # What wraps around has the same lower bits.
                return Offsets(least, (column - column.dtype.type(least)).astype(narrow), kind)
        return Offsets(0, column, kind)

    def keys(self) -> Array:
        """The column."""
        if self.offsets.dtype == self.kind:
            return self.offsets
        keys: Array = self.offsets.astype(self.kind)
        keys += np.dtype(self.kind).type(self.least)
        return keys


# ----------------------------------------------------------------------------------- on a worker


class BucketedRows(NamedTuple):
    """Rows of a source, bucket by bucket, how many each bucket has, the bytes of a row, and the
    worker that has them. Rows that are only counted are in no order, and None if reading them again
    is little work."""

    rows: StoredRows | None
    counts: Array
    width: int
    home: str

    def light(self) -> BucketedRows:
        return self._replace(rows=None)


class ReceivedRows(NamedTuple):
    """Rows of some buckets on the worker that needs them, and how many bytes came from others."""

    rows: StoredRows
    moved: int


class BucketSlices(NamedTuple):
    """Rows of some buckets on their way."""

    columns: list[list[Offsets]]
    made_on: str

    @property
    def nbytes(self) -> int:
        return sum(column.offsets.nbytes for columns in self.columns for column in columns)


def counted(blocks: Sequence[Any], grid: Grid, edges: Edges | None, keep: bool) -> BucketedRows:
    """Counts the rows of blocks; `keep`: they stay."""
    keys = _read(blocks, grid.source, edges)
    counts = count(keys, grid.dims, grid.domains)
    return _told(StoredRows(tuple(keys.values())) if keep else None, counts, keys)


def bucketed(blocks: Sequence[Any], grid: Grid, edges: Edges | None) -> BucketedRows:
    """The rows of blocks in buckets."""
    keys = _read(blocks, grid.source, edges)
    rows, counts = in_buckets(keys, grid)
    return _told(StoredRows(rows), counts, keys)


def _told(rows: StoredRows | None, counts: Array, keys: Mapping[int, Array]) -> BucketedRows:
    return BucketedRows(rows, counts, sum(c.itemsize for c in keys.values()), own_address())


def sliced(of: BucketedRows, ranges: Sequence[tuple[int, int]]) -> BucketSlices:
    """Some ranges of the rows."""
    assert of.rows is not None
    found = [list(map(Offsets.of, of.rows.read(*each))) for each in ranges]
    return BucketSlices(found, own_address())


def received(slices: Sequence[BucketSlices]) -> ReceivedRows:
    """The rows of slices, one after the other."""
    each = [tuple(column.keys() for column in some) for one in slices for some in one.columns]
    here = own_address()
    return ReceivedRows(
        StoredRows(concatenate(each)), sum(one.nbytes for one in slices if one.made_on != here)
    )


def _read(blocks: Sequence[Any], source: Source, edges: Edges | None) -> dict[int, Array]:
    """The rows of a source that blocks have: those that were counted; or the values of parts.
    `edges`: how these tell each edge once, and the ranks that are wanted in place of vertices."""
    if isinstance(blocks[0], BucketedRows):
        assert blocks[0].rows is not None
        return dict(zip(source.columns, blocks[0].rows.read(), strict=True))
    found: list[Columns] = []
    for block in blocks:
        if edges is not None:
            way, ranking = edges
            found.append(both_ways(*map(ranking.ranks, edges_of(block, way))))
        else:
            found.append(columns_of(block, source.columns))
    return passing(concatenate(found), source)


def both_ways(left: Array, right: Array) -> Columns:
    """Edges, each once, both ways."""
    apart = left != right
    return np.concatenate([left, right[apart]]), np.concatenate([right, left[apart]])
