"""Buckets of a partitioned join on a worker: it sorts rows into them, and sends slices to others.

Rows of a source in the same key ranges form a bucket. A worker keeps the buckets of some blocks as
one Dask value. Other workers need only some buckets, so slices move: one task cuts them out,
another receives them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from gdatalog.cluster.joins.layout import Dim, Source
from gdatalog.cluster.joins.shares import Domain, codes, count
from gdatalog.cluster.rows.graph_degrees import Way, edges_of
from gdatalog.cluster.rows.shuffle import ShuffleBlock, columns_of
from gdatalog.cluster.workers.own_process import own_address
from gdatalog.cluster.workers.stored_rows import StoredRows
from gdatalog.plan.join_plan import RowTest
from gdatalog.records import dataclass
from gdatalog.storage.graph import Ranking
from gdatalog.storage.row_tests import COMPARE
from gdatalog.storage.rows import Columns, concatenate
from gdatalog.storage.table import Array

# How to read each edge of a graph once, and the ranks of its vertices.
Edges = tuple[Way, Ranking]


@dataclass(frozen=True, slots=True)
class Grid:
    """The key ranges of a source's dims, by which its rows are counted or bucketed."""

    source: Source
    dims: tuple[Dim, ...]
    domains: tuple[Domain, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.domains[dim.domain].classes for dim in self.dims)


def passing(keys: Mapping[int, Array], tests: Sequence[RowTest]) -> Mapping[int, Array]:
    """The rows that pass comparisons of their columns."""
    if not tests:
        return keys
    mask = np.ones(len(next(iter(keys.values()))), dtype=np.bool_)
    for left, op, right in tests:
        mask &= COMPARE[op](keys[left], keys[right])
    return keys if mask.all() else {at: column[mask] for at, column in keys.items()}


def in_buckets(keys: Mapping[int, Array], grid: Grid) -> tuple[Columns, Array]:
    """A source's rows sorted by bucket, and the number of rows in each bucket."""
    if not grid.dims:
        return tuple(keys.values()), count(keys, (), grid.domains)
    code = codes(keys, grid.dims, grid.domains)
    size = prod(grid.shape)
    counts = np.bincount(code, minlength=size).astype(np.int64).reshape(grid.shape)
    # NumPy sorts narrow integers by counting.
    order = np.argsort(code.astype(np.min_scalar_type(size - 1)), kind="stable")
    return tuple(column[order] for column in keys.values()), counts


class Offsets(NamedTuple):
    """A column in transit: rows of a bucket are in few key ranges, so keys are sent as offsets from
    the least key, in as few bytes as possible."""

    least: int
    offsets: Array
    kind: str  # the column's dtype

    @staticmethod
    def of(column: Array) -> Offsets:
        kind = column.dtype.str
        if len(column):
            least, greatest = int(column.min()), int(column.max())
            narrow = np.min_scalar_type(greatest - least)
            if narrow.itemsize < column.dtype.itemsize:
                # Wrap-around keeps the lower bits.
                return Offsets(least, (column - column.dtype.type(least)).astype(narrow), kind)
        return Offsets(0, column, kind)

    def keys(self) -> Array:
        """The column."""
        if self.offsets.dtype == self.kind:
            return self.offsets
        keys: Array = self.offsets.astype(self.kind)
        keys += np.dtype(self.kind).type(self.least)
        return keys


class BucketedRows(NamedTuple):
    """A source's rows sorted by bucket, the number of rows in each bucket, the bytes of a row,
    and the worker that has them. Counted rows are not sorted, and None if they are cheap to read
    again."""

    rows: StoredRows | None
    counts: Array
    width: int
    home: str

    def light(self) -> BucketedRows:
        return self._replace(rows=None)


class ReceivedRows(NamedTuple):
    """Rows of some buckets that a worker received, and how many bytes came from others."""

    rows: StoredRows
    moved: int


def counted(blocks: Sequence[object], grid: Grid, edges: Edges | None, keep: bool) -> BucketedRows:
    """Counts the rows of blocks. `keep`: also keeps the rows."""
    keys = _read(blocks, grid.source, edges)
    counts = count(keys, grid.dims, grid.domains)
    return _told(StoredRows(tuple(keys.values())) if keep else None, counts, keys)


def bucketed(blocks: Sequence[object], grid: Grid, edges: Edges | None) -> BucketedRows:
    """Sorts the rows of blocks into buckets."""
    keys = _read(blocks, grid.source, edges)
    rows, counts = in_buckets(keys, grid)
    return _told(StoredRows(rows), counts, keys)


def _told(rows: StoredRows | None, counts: Array, keys: Mapping[int, Array]) -> BucketedRows:
    return BucketedRows(rows, counts, sum(c.itemsize for c in keys.values()), own_address())


def sliced(of: BucketedRows, ranges: Sequence[tuple[int, int]]) -> ShuffleBlock:
    """Cuts out ranges of rows."""
    assert of.rows is not None
    found = [list(map(Offsets.of, of.rows.read(*each))) for each in ranges]
    nbytes = sum(column.offsets.nbytes for columns in found for column in columns)
    return ShuffleBlock(found, own_address(), nbytes)


def received(slices: Sequence[ShuffleBlock]) -> ReceivedRows:
    """Concatenates the rows of slices."""
    each = [tuple(column.keys() for column in some) for one in slices for some in one.value]
    return ReceivedRows(StoredRows(concatenate(each)), sum(one.moved for one in slices))


def _read(blocks: Sequence[object], source: Source, edges: Edges | None) -> Mapping[int, Array]:
    """The rows of a source in blocks, or in rows kept by `counted`. `edges`: how to read each edge
    once, and the ranks to replace vertices by."""
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
    return passing(dict(zip(source.columns, concatenate(found), strict=True)), source.tests)


def both_ways(left: Array, right: Array) -> Columns:
    """Both directions of edges; self-loops once."""
    apart = left != right
    return np.concatenate([left, right[apart]]), np.concatenate([right, left[apart]])
