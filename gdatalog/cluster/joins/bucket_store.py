"""The rows of relations in buckets on workers, as the driver tracks them.

The rows of a relation are stored in blocks; each join that reads them sorts them into its own
buckets. Dask tasks do all of this, so Dask recomputes what a dead worker had. A worker receives
each bucket that its cells need once, for these and later cells (`BucketExchange`): one task cuts
out slices where the rows are (`sliced`), another concatenates them where they are needed
(`received`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from gdatalog.calls import Limits
from gdatalog.cluster.joins.buckets import (
    MAKING,
    BucketedRows,
    BucketSlice,
    Fragment,
    Grid,
    bucketed,
    counted,
    received,
    sliced,
)
from gdatalog.cluster.joins.layout import Layout, Source
from gdatalog.cluster.joins.shares import Block, Bucket
from gdatalog.cluster.pool import Broadcast, Call, Pool, RemoteValue, TaskStage
from gdatalog.cluster.rows.row_keeper import RowKeeper
from gdatalog.cluster.rows.row_statistics import Way
from gdatalog.cluster.workers import UNLIMITED, room_of
from gdatalog.plan import JoinPlan
from gdatalog.plan.cells import Cell, KeyRange, cuttable, roles
from gdatalog.records import dataclass, field
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import RemoteRows
from gdatalog.storage.row_store import RowStore
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array


@dataclass(slots=True, eq=False)
class CellBatch:
    """Cells to run, the buckets that they need, and their cost. `blocks`: the blocks that the cells
    consist of; empty if the cells are smaller."""

    cells: Sequence[Cell]
    buckets: Sequence[Bucket]
    cost: float
    blocks: Sequence[Block] = ()
    refined: bool = False


class BucketExchange:
    """The buckets of a join, and which worker has which of them. `widths`: the bytes of a row of
    each source."""

    def __init__(
        self,
        join: JoinPlan,
        layout: Layout,
        buckets: Sequence[SourceBuckets],
        widths: Sequence[int],
    ) -> None:
        self.layout = layout
        self.buckets = buckets
        self.widths = widths
        self.bound = _bound(join, layout)
        self._ends = [
            [np.append(0, np.cumsum(told.counts)).tolist() for _, told in each.summaries()]
            for each in buckets
        ]
        # By worker; by bucket and group of its source.
        self._there: dict[str, dict[tuple[Bucket, int], BucketSlice]] = {}

    def forget(self, workers: Collection[str]) -> None:
        """Forgets the slices on all other workers."""
        self._there = {at: some for at, some in self._there.items() if at in workers}

    def fragments(
        self, part: CellBatch, worker: str, workers: Collection[str], stage: TaskStage
    ) -> tuple[list[Fragment], list[RemoteValue]]:
        """The rows that a batch's cells need on a worker, and what the worker must receive."""
        found: list[Fragment] = []
        coming: list[RemoteValue] = []
        for number, source in enumerate(self.layout.sources):
            mine = [bucket for bucket in part.buckets if bucket.source == number]
            slices, kept = self._slices(number, mine, worker, workers, stage)
            if kept is not None:
                coming.append(kept)
            boxes = _boxes(part.cells, self.bound[number]) if part.refined else None
            twice = self.buckets[number].base.twice
            found.append(Fragment(source, tuple(slices), self.bound[number], boxes, twice))
        return found, coming

    def _slices(
        self,
        source: int,
        buckets: Sequence[Bucket],
        worker: str,
        workers: Collection[str],
        stage: TaskStage,
    ) -> tuple[list[BucketSlice], RemoteValue | None]:
        """Some buckets of a source on a worker, and what the worker must receive."""
        there = self._there.setdefault(worker, {})
        slices: list[BucketSlice] = []
        calls: list[RemoteValue] = []
        wanted: list[tuple[Bucket, int, int]] = []
        width = self.widths[source]
        for group, (kept, told) in enumerate(self.buckets[source].summaries()):
            ends = self._ends[source][group]
            ranges = []
            for bucket in buckets:
                at = _place(bucket, told.counts)
                if ends[at] == ends[at + 1]:
                    continue
                if told.home == worker:
                    slices.append(BucketSlice(kept, ends[at], ends[at + 1], width))
                elif (bucket, group) in there:
                    slices.append(there[bucket, group])
                else:
                    ranges.append((ends[at], ends[at + 1]))
                    wanted.append((bucket, group, ends[at + 1] - ends[at]))
            if ranges:
                home = told.home if told.home in workers else None
                calls.append(stage.defer(Call(sliced, (kept, ranges), True, home)))
        if not calls:
            return slices, None
        coming = stage.defer(Call(received, (calls,), True, worker))
        start = 0
        for bucket, group, rows in wanted:
            there[bucket, group] = BucketSlice(coming, start, start + rows, width)
            slices.append(there[bucket, group])
            start += rows
        return slices, coming


def _place(bucket: Bucket, counts: Array) -> int:
    """The number of a bucket within a group."""
    return int(np.ravel_multi_index(bucket.classes, counts.shape)) if counts.shape else 0


def _boxes(
    cells: Sequence[Cell], bound: Sequence[Mapping[int, str]]
) -> tuple[Mapping[int, KeyRange], ...]:
    """For each cell and trie, the key ranges of a source's columns that the cell needs."""
    return tuple(
        {column: cell.stretches[name] for column, name in role.items() if name in cell.stretches}
        for cell in cells
        for role in bound
    )


def _bound(join: JoinPlan, layout: Layout) -> list[tuple[Mapping[int, str], ...]]:
    """For each source, the cuttable variable of each column, for each of its tries."""
    names = {slot.name for slot in cuttable(join)}
    found: list[list[Mapping[int, str]]] = [[] for _ in layout.sources]
    for ref, role, told in zip(join.tries, layout.roles, roles(join), strict=True):
        if role is not None:
            known = zip(ref.columns, told, strict=True)
            found[role.source].append({at: name for at, name in known if name in names})
    return list(map(tuple, found))


LARGEST = 4 << 20  # bytes of a block
GROUP = 64 << 20  # bytes of rows that are bucketed together
FEW = 64 << 10  # bytes of rows that are one block
MANY = 16  # key ranges of a column, if rows are bucketed by two
SMALL, MOST_SMALL = 64, 100_000  # sources with at most this fraction of all rows are not divided
SAMPLE = 100_000  # sampled rows, which determine the bounds of key ranges


@dataclass(slots=True)
class BaseRows:
    """The blocks of rows that a source is read from.

    `blocks`: the blocks' values for workers: columns, broadcast on first use, or if `remote` the
    values of parts (`columns_of`). `groups`: which blocks are bucketed together. `edges`: for a
    remote graph, how to read each edge once, and the ranks of its vertices. `twice`: duplicate rows
    may remain and would count twice; equal rows are in one bucket. `sample`: every `step`-th row.
    """

    pool: Pool
    blocks: Sequence[Any]
    sample: Columns
    step: int
    groups: Sequence[range] = ()
    remote: bool = False
    edges: tuple[Way, Broadcast] | None = None
    twice: bool = False
    placed: dict[int, Broadcast] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.groups = self.groups or [range(at, at + 1) for at in range(len(self.blocks))]

    @property
    def nbytes(self) -> int:
        """The estimated bytes of all rows."""
        return self.step * sum(column.nbytes for column in self.sample)

    def given(self, group: int) -> list[Any]:
        """A group's blocks, as arguments of calls."""
        if self.remote:
            return [self.blocks[at] for at in self.groups[group]]
        for at in self.groups[group]:
            if at not in self.placed:
                self.placed[at] = self.pool.broadcast(None, self.blocks[at], once=True)
        return [self.placed[at] for at in self.groups[group]]


@dataclass(slots=True)
class SourceBuckets:
    """The buckets of a source: those of each group of its base.

    `read`: the rows of groups as they were counted, if reading them again would be costly.
    """

    base: BaseRows
    grid: Grid
    groups: list[RemoteValue] = field(default_factory=list)
    read: list[RemoteValue] = field(default_factory=list)

    def count(self, pool: Pool, told: str, limits: Limits) -> tuple[Array, int]:
        """The number of rows in each combination of the grid's key ranges, and the bytes of a
        row."""
        keep = self.base.remote
        calls = [
            Call(counted, (*self._args(at), keep), keep, tag=at, summary=BucketedRows.light)
            for at in range(len(self.base.groups))
        ]
        found = pool.all(calls, told, limits)
        if keep:
            self.read, found = found, [kept.summary for kept in found]
        counts = np.sum([each.counts for each in found], axis=0)
        return counts, max(each.width for each in found)

    def make(self, pool: Pool, told: str, limits: Limits) -> None:
        """Sorts the rows into buckets."""
        calls = [
            Call(bucketed, self._args(at), True, tag=at, summary=BucketedRows.light)
            for at in range(len(self.base.groups))
        ]
        self.groups, self.read = pool.all(calls, told, limits), []

    def _args(self, group: int) -> tuple[Any, ...]:
        if self.read:
            return [self.read[group]], self.grid, None
        return self.base.given(group), self.grid, self.base.edges

    def summaries(self) -> Iterator[tuple[RemoteValue, BucketedRows]]:
        """Each group's buckets, and their summary."""
        for kept in self.groups:
            yield kept, kept.summary


class BucketStore:
    """The base rows of relations on a pool's workers."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._bases: WeakKeyDictionary[RowStore, dict[Any, BaseRows]] = WeakKeyDictionary()

    def room(self) -> tuple[int, int]:
        """The memory that a call has on any worker, and how many calls run at once."""
        info = self.pool.info.values()
        room = [room_of(each["memory_limit"] or UNLIMITED) / each["nthreads"] for each in info]
        return int(min(room, default=UNLIMITED)), sum(each["nthreads"] for each in info) or 1

    def base(self, relation: Relation, source: Source) -> BaseRows:
        """The base rows of a source."""
        kept = self._bases.setdefault(relation.store, {})
        rows = relation.remote
        remote = rows is not None and rows.unfetched
        counts, whole = remote and source.weighted, len(source.columns) == len(relation.types)
        key = (source.ranked and (remote or source.tests), remote, counts, counts and whole)
        base = kept.get(key)
        if base is None:
            if rows is not None and rows.unfetched:
                base = self._remote(rows, source, whole)
            else:
                base = self._here(list(_blocks(relation, source, len(self.pool.workers))))
            kept[key] = base
        return base

    def _here(self, blocks: Sequence[Columns]) -> BaseRows:
        count = sum(len(block[0]) for block in blocks)
        step = max(1, count // SAMPLE)
        parts = zip(*blocks, strict=True)
        sample = tuple(np.concatenate([column[::step] for column in part]) for part in parts)
        room, workers = self.room()
        each = min(GROUP, room // 4)  # bytes of a group; each worker has several
        size = sum(column.nbytes for block in blocks for column in block)
        groups = min(len(blocks), max(workers, ceil(size / max(1, each))))
        ends = np.linspace(0, len(blocks), groups + 1).astype(int).tolist()
        groups_of = [range(low, high) for low, high in pairwise(ends)]
        return BaseRows(self.pool, blocks, sample, step, groups_of)

    def _remote(self, rows: RemoteRows, source: Source, whole: bool) -> BaseRows:
        # Without weights, tries drop duplicates. Equal whole rows are in the same key ranges, so
        # cells find them.
        twice = source.weighted and whole and not source.ranked and rows.known < KnownRows.DISTINCT
        parts = rows.make_distinct() if source.weighted and not twice else rows.parts
        values: list[Any] = [part.value for part in parts]
        sample = rows.survey.sample
        step = max(1, rows.at_most // max(1, len(sample[0])))
        if not source.ranked:
            return BaseRows(self.pool, values, sample, step, remote=True, twice=twice)
        keeper = rows.keeper
        assert isinstance(keeper, RowKeeper)
        values, way = keeper.edges(rows)
        ranking = rows.ranking
        ends = [ranking.ranks(column) for column in sample]
        placed = self.pool.broadcast(id(ranking), ranking)
        both = (np.concatenate(ends), np.concatenate(ends[::-1]))
        return BaseRows(self.pool, values, both, step, remote=True, edges=(way, placed))

    def laid_out(
        self, join: JoinPlan, relation_of: Callable[[str], Relation], planned: bool = False
    ) -> tuple[Layout, list[BaseRows], list[list[Array]]]:
        """A join's layout, the base rows of each source, and sampled keys of each of its dims, in
        proportion to the sources' rows. Every cell gets all rows of small sources. `planned`:
        nothing runs yet, so workers need not deduplicate rows."""

        def bases_of(layout: Layout) -> list[BaseRows]:
            found = []
            for source in layout.sources:
                relation = relation_of(source.relation)
                if planned and not relation.counted:
                    source = source._replace(weighted=False)
                found.append(self.base(relation, source))
            return found

        layout = Layout.of(join)
        bases = bases_of(layout)
        size = sum(base.nbytes for base in bases)
        if size * MAKING > MANY * self.room()[0]:
            layout = Layout.of(join, apart=True)
            bases = bases_of(layout)
        rows = [len(base.sample[0]) * base.step for base in bases]
        small = min(sum(rows) // SMALL, MOST_SMALL)
        layout = layout.whole([at for at, count in enumerate(rows) if count <= small])
        step = max((base.step for base in bases), default=1)
        samples = [
            [base.sample[dim.column][:: max(1, step // base.step)] for dim in dims]
            for base, dims in zip(bases, layout.dims, strict=True)
        ]
        return layout, bases, samples


def _blocks(relation: Relation, source: Source, workers: int) -> Iterator[Columns]:
    """The distinct rows of a relation, or both directions of a graph's edges as ranks, in blocks;
    at least one."""
    if source.ranked:
        graph = relation.statistics.graph_here
        assert graph is not None
        whole = [graph.ranked(source.tests)]
    else:
        whole = relation.blocks() or [tuple(np.empty(0, dtype=np.int32) for _ in relation.types)]
    for rows in whole:
        count, size = len(rows[0]), sum(column.nbytes for column in rows)
        parts = max(1, min(workers, size // FEW), ceil(size / LARGEST))
        ends = np.linspace(0, count, parts + 1).astype(int).tolist()
        for start, stop in pairwise(ends):
            yield tuple(column[start:stop] for column in rows)
