"""The rows of relations in buckets on workers, as the driver tracks them.

The rows of a relation are stored in blocks; each join that reads them sorts them into its own
buckets. Dask tasks do all of this, so Dask recomputes what a dead worker had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import ceil
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from gdatalog.cluster.joins.buckets import (
    BucketedRows,
    Grid,
    bucketed,
    counted,
)
from gdatalog.cluster.joins.layout import Layout, Source
from gdatalog.cluster.pool.broadcast import Broadcast
from gdatalog.cluster.pool.calls import Call, RemoteValue
from gdatalog.cluster.pool.task_stage import Pool
from gdatalog.cluster.rows.graph_degrees import Way
from gdatalog.cluster.rows.row_keeper import RowKeeper
from gdatalog.cluster.workers.own_process import UNLIMITED, room_of
from gdatalog.limits import Limits
from gdatalog.plan.join_plan import JoinPlan
from gdatalog.records import dataclass, field
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import RemoteRows
from gdatalog.storage.row_store import RowStore
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array

LARGEST = 4 << 20  # bytes of a block
GROUP = 64 << 20  # bytes of rows that are bucketed together
ONE_BLOCK_BELOW = 64 << 10  # bytes of rows that are one block
SMALL, MOST_SMALL = 64, 100_000  # sources with at most this fraction of all rows are not divided
SAMPLE = 100_000  # sampled rows, which determine the bounds of key ranges


@dataclass(slots=True)
class BaseRows:
    """The rows that a source is read from, in groups that are bucketed together.

    `groups`: their blocks for workers: columns, broadcast on first use, or if `remote` the values
    of parts (`columns_of`). `edges`: for a remote graph, how to read each edge once, and the ranks
    of its vertices. `twice`: duplicate rows may remain and would count twice; equal rows are in one
    bucket. `sample`: every `step`-th row.
    """

    groups: list[object]
    sample: Columns
    step: int
    remote: bool = False
    edges: tuple[Way, Broadcast] | None = None
    twice: bool = False

    def given(self, pool: Pool) -> list[object]:
        """The groups, as arguments of calls."""
        if not self.remote and not isinstance(self.groups[0], Broadcast):
            self.groups = [pool.broadcast(None, group, once=True) for group in self.groups]
        return self.groups


@dataclass(slots=True)
class SourceBuckets:
    """The buckets of a source: those of each group of its base.

    `read`: the rows of groups as they were counted, if reading them again would be costly.
    """

    base: BaseRows
    grid: Grid
    pool: Pool
    name: str  # the rule's
    limits: Limits
    groups: list[RemoteValue] = field(default_factory=list)
    read: list[RemoteValue] = field(default_factory=list)

    def count(self) -> tuple[Array, int]:
        """The number of rows in each combination of the grid's key ranges, and the bytes of a
        row."""
        keep = self.base.remote
        found = self._each(counted, keep, keep)
        if keep:
            self.read, found = found, [kept.summary for kept in found]
        counts = np.sum([each.counts for each in found], axis=0)
        return counts, max(each.width for each in found)

    def make(self) -> None:
        """Sorts the rows into buckets."""
        self.groups, self.read = self._each(bucketed, True), []

    def _each(self, function: Callable[..., BucketedRows], keep: bool, *more: bool) -> list[Any]:
        """The results of a function for each group."""
        groups: list[object] = [[kept] for kept in self.read] or self.base.given(self.pool)
        edges = None if self.read else self.base.edges
        calls = [
            Call(function, (group, self.grid, edges, *more), keep, summary=BucketedRows.light)
            for group in groups
        ]
        return self.pool.all(calls, self.name, self.limits)


class BucketStore:
    """The base rows of relations on a pool's workers."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._bases: WeakKeyDictionary[RowStore, dict[object, BaseRows]] = WeakKeyDictionary()

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
        return BaseRows([blocks[low:high] for low, high in pairwise(ends)], sample, step)

    def _remote(self, rows: RemoteRows, source: Source, whole: bool) -> BaseRows:
        # Without weights, tries drop duplicates. Equal whole rows are in the same key ranges, so
        # cells find them.
        twice = source.weighted and whole and not source.ranked and rows.known < KnownRows.DISTINCT
        parts = rows.make_distinct() if source.weighted and not twice else rows.parts
        groups: list[object] = [[part.value] for part in parts]
        sample = rows.survey.sample
        step = max(1, rows.at_most // max(1, len(sample[0])))
        if not source.ranked:
            return BaseRows(groups, sample, step, remote=True, twice=twice)
        keeper = rows.keeper
        assert isinstance(keeper, RowKeeper)
        values, way = keeper.edges(rows)
        ranking = rows.ranking
        ends = [ranking.ranks(column) for column in sample]
        placed = self.pool.broadcast(id(ranking), ranking)
        both = (np.concatenate(ends), np.concatenate(ends[::-1]))
        groups = [[value] for value in values]
        return BaseRows(groups, both, step, remote=True, edges=(way, placed))

    def laid_out(
        self, join: JoinPlan, relation_of: Callable[[str], Relation], planned: bool = False
    ) -> tuple[Layout, list[BaseRows], list[list[Array]]]:
        """A join's layout, the base rows of each source, and sampled keys of each of its dims, in
        proportion to the sources' rows. Every cell gets all rows of small sources. `planned`:
        nothing runs yet, so workers need not deduplicate rows."""
        layout, bases = Layout.of(join), []
        for source in layout.sources:
            relation = relation_of(source.relation)
            if planned and not relation.counted:
                source = source._replace(weighted=False)
            bases.append(self.base(relation, source))
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
        parts = max(1, min(workers, size // ONE_BLOCK_BELOW), ceil(size / LARGEST))
        ends = np.linspace(0, count, parts + 1).astype(int).tolist()
        for start, stop in pairwise(ends):
            yield tuple(column[start:stop] for column in rows)
