"""A rule over relations that no worker holds whole: each cell gets the buckets that it needs.

Rows are stored on workers in buckets, by key ranges of their columns (`shares.py`). Workers get
cells for which few buckets must move to them (`share_search.py`), and run them over tries of these
buckets. A batch that is too large for a worker is divided: into blocks, then at keys. A worker
receives each bucket that its cells need once, for these and later cells (`BucketExchange`): one
task cuts out slices where the rows are (`sliced`), another concatenates them where they are needed
(`received`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from time import monotonic
from typing import Any

import numpy as np

from gdatalog.cluster.joins import CellResult, Mode
from gdatalog.cluster.joins.bucket_store import BucketStore, SourceBuckets
from gdatalog.cluster.joins.buckets import (
    MAKING,
    BucketedRows,
    BucketSlice,
    Fragment,
    Grid,
    Tries,
    passing,
    received,
    run_cells,
    sliced,
    where_to_cut,
)
from gdatalog.cluster.joins.layout import Layout
from gdatalog.cluster.joins.replicated import CellScheduler, ReplicatedRun, too_small
from gdatalog.cluster.joins.share_search import (
    Assigner,
    Batch,
    ShareChoice,
    choose,
    expected,
    spread_of,
)
from gdatalog.cluster.joins.shares import Bucket, Histogram, Shares, count, fine
from gdatalog.cluster.pool import Broadcast, Call, RemoteValue, TaskStage, TooLarge
from gdatalog.errors import MemoryLimitError
from gdatalog.plan import JoinPlan, Restore, RulePlan
from gdatalog.plan.cells import EVERYTHING, Cell, KeyRange, cuttable, roles
from gdatalog.plan.placement import Spread
from gdatalog.records import replace
from gdatalog.storage.relation import Relation
from gdatalog.storage.table import Array

AHEAD = 1  # calls that wait at a worker for each that runs
BUDGET = 5.0  # seconds until a call returns the cells that it has not started
OFTEN = 1.0  # seconds between updates of the list of workers
PREPARED = 0.2  # share of the progress bar for counting and bucketing rows


class PartitionedRun(ReplicatedRun):
    """The run of a rule whose joins run on workers that each have a part of the rows."""

    def __init__(
        self, *given: Any, store: BucketStore, relation_of: Callable[[str], Relation]
    ) -> None:
        super().__init__(*given)
        self.store, self.relation_of = store, relation_of
        self.planned: list[ShareChoice] = []

    def spread(self) -> Spread:
        spread = spread_of(self.planned, len(self.pool.workers))
        return replace(spread, moved=self.moved, calls=self.calls, on_gpus=self.gpu_calls)

    def _scheduler(self, number: int, mode: Mode, limit: int | None) -> CellScheduler:
        return PartitionedJoin(self, number, mode, limit)


class PartitionedJoin(CellScheduler):
    """A join over buckets: chooses the buckets, and which worker runs which cells."""

    def __init__(self, run: PartitionedRun, number: int, mode: Mode, limit: int | None) -> None:
        self.partitioned, self.store = run, run.store
        self.memory, self.slots = self.store.room()
        super().__init__(run, number, mode, limit, self.memory)
        self.left: deque[Batch] = deque()  # batches to run again
        self.busy: dict[str, int] = {}
        self.workers: Mapping[str, int] = {}
        self.looked = -OFTEN
        self.assigner: Assigner | None = None
        self.layout = Layout.of(self.join)
        if self.layout.sources:
            self.shares, self.buckets = self._shares()
            self.total = max(1.0, sum(map(self.shares.cost, self.shares.blocks)))
        else:  # the join only reads the relations' numbers of rows
            self.buckets = BucketExchange(self.join, self.layout, (), ())
            self.left.append(Batch((), (), 0, self.total, [EVERYTHING]))
        role_of = dict(zip(self.join.tries, self.layout.roles, strict=True))
        self.tries = Tries(
            {ref: role.source for ref, role in role_of.items() if role is not None},
            {ref: run.sources.trie_of(ref) for ref, role in role_of.items() if role is None},
            self.memory,
        )
        self.ranks = self._ranks()

    def run(self) -> Generator[CellResult, None, None]:
        with self.limits.watch.innermost.within(PREPARED, 1.0):
            yield from super().run()

    # -------------------------------------------------------------------------------- bucketing

    def _shares(self) -> tuple[Shares, BucketExchange]:
        """Counts rows by fine key ranges, chooses shares, and sorts the rows into buckets."""
        run, pool = self.partitioned, self.pool
        self.layout, bases, samples = self.store.laid_out(self.join, run.relation_of)
        domains = fine(self.layout, samples)
        sources = zip(self.layout.sources, self.layout.dims, strict=True)
        grids = [Grid(*each, domains) for each in sources]
        buckets = [SourceBuckets(*each) for each in zip(bases, grids, strict=True)]
        name, counted = self.name, []
        for at, each in enumerate(buckets):
            with self._preparing(at / (2 * len(buckets))):
                counted.append(each.count(pool, name, run.limits))
        counts, widths = zip(*counted, strict=True)
        census = Histogram(self.layout, domains, counts, widths)
        choice = choose(census, self.memory // MAKING, self.slots)
        for at, each in enumerate(buckets):
            each.grid = replace(each.grid, domains=choice.shares.domains)
            with self._preparing(0.5 + at / (2 * len(buckets))):
                each.make(pool, name, run.limits)
        self.assigner = Assigner(
            choice.shares, max(choice.memory, choice.shares.largest), self.slots
        )
        if run.report is not None:
            workers = len(pool.workers)
            threads = max(1, self.slots // workers)
            run.planned.append(expected(choice.shares, choice.memory, workers, threads))
        return choice.shares, BucketExchange(self.join, self.layout, buckets, widths)

    def _preparing(self, share: float) -> AbstractContextManager[None]:
        """Fixes the progress at this share of the preparations."""
        return self.limits.watch.innermost.within(PREPARED * share, PREPARED * share)

    # ------------------------------------------------------------------------------------ cells

    def _send(self, stage: TaskStage) -> None:
        """Sends cells to workers that have too few."""
        if monotonic() - self.looked >= OFTEN:
            self.workers, self.looked = self.pool.workers, monotonic()
            self.buckets.forget(self.workers)
        waiting = True
        for ahead in range(1 + AHEAD):
            for worker, threads in self.workers.items():
                while waiting and self.busy.get(worker, 0) < threads * (1 + ahead):
                    part = self._next(worker)
                    if part is None:
                        waiting = False
                    else:
                        self.busy[worker] = self.busy.get(worker, 0) + 1
                        stage.add(self._run(worker, part, stage))

    def _next(self, worker: str) -> Batch | None:
        if self.left:
            return self.left.popleft()
        batch = None if self.assigner is None else self.assigner.next_batch(worker)
        return batch and batch._replace(cells=self.shares.cells(batch.blocks))

    def _run(self, worker: str, part: Batch, stage: TaskStage) -> Call:
        fragments, came = self.buckets.fragments(part, worker, self.workers, stage)
        args = (*self._args(part.cells, BUDGET, fragments), came)
        return self._call((worker, part, fragments), run_cells, args, worker)

    def _args(
        self, cells: Sequence[Cell], seconds: float | None, fragments: Sequence[Fragment]
    ) -> tuple[Any, ...]:
        return self.task, cells, seconds, self.tries, fragments, self.ranks, self.symbols

    def _ranks(self) -> dict[int, Broadcast]:
        """The ranks of graphs' vertices, by number of the source, for joins that output
        vertices."""
        found = {}
        for step in self.join.steps:
            role = self.layout.roles[step.trie] if isinstance(step, Restore) else None
            if role is not None:
                relation = self.partitioned.relation_of(self.layout.sources[role.source].relation)
                ranking = relation.graph.ranking()
                found[role.source] = self.pool.broadcast(id(ranking), ranking)
        return found

    # ------------------------------------------------------------------------- what comes again

    def _ended(self, stage: TaskStage, call: Call, found: CellResult) -> tuple[Any, ...]:
        worker, part, fragments = call.tag
        self.busy[worker] -= 1
        self.done += part.cost * found.cells / len(part.cells)
        self._back(part, found)
        return run_cells, *self._args(part.cells[: found.cells], None, fragments)

    def _back(self, part: Batch, found: CellResult) -> None:
        """Takes back the cells that a call did not run; the first may have been too hard."""
        left = part.cells[found.cells :]
        if not left:
            return
        if found.error is not None and len(part.blocks) > 1 and not found.cells:
            cost = part.cost / len(part.blocks)
            for block in part.blocks:
                buckets = tuple(sorted(self.shares.buckets(block)))
                self.left.append(Batch((block,), buckets, 0, cost, [self.shares.cell(block)]))
            return
        part = part._replace(blocks=())
        each = part.cost / len(part.cells)
        hard, rest = (left[0], left[1:]) if found.hard else (None, left)
        if rest:
            self.left.append(part._replace(cells=rest, cost=each * len(rest)))
        if hard is None:
            return
        if not found.cuts:
            assert found.error is not None
            raise too_small(found.error)
        name, (key, _) = max(found.cuts.items(), key=lambda cut: cut[1][1])
        told = hard.stretches.get(name, KeyRange())
        for half in (KeyRange(told.low, key), KeyRange(key, told.high)):
            cell = Cell({**hard.stretches, name: half})
            self.left.appendleft(part._replace(cells=[cell], cost=each / 2, refined=True))

    def _cut(self, large: TooLarge) -> list[Call]:
        """A call that finds where to cut, after a worker ran out of memory."""
        _, part, fragments = large.call.tag
        args = (part.cells[0], fragments, MemoryLimitError(str(large)))
        return [Call(where_to_cut, args, tag=large.call.tag)]


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
            [np.append(0, np.cumsum(kept.summary.counts)).tolist() for kept in each.groups]
            for each in buckets
        ]
        # By worker; by bucket and group of its source.
        self._there: dict[str, dict[tuple[Bucket, int], BucketSlice]] = {}

    def forget(self, workers: Collection[str]) -> None:
        """Forgets the slices on all other workers."""
        self._there = {at: some for at, some in self._there.items() if at in workers}

    def fragments(
        self, part: Batch, worker: str, workers: Collection[str], stage: TaskStage
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
        for group, kept in enumerate(self.buckets[source].groups):
            told: BucketedRows = kept.summary
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


def partitioned_spread(
    plan: RulePlan, relation_of: Callable[[str], Relation], store: BucketStore
) -> Spread:
    """The expected spread of a rule's joins, from samples."""
    choices = [_choice(join, relation_of, store) for join in plan.joins]
    return spread_of([choice for choice in choices if choice is not None], len(store.pool.workers))


def _choice(
    join: JoinPlan, relation_of: Callable[[str], Relation], store: BucketStore
) -> ShareChoice | None:
    """The estimated shares of a join; None if it only counts rows."""
    layout, bases, samples = store.laid_out(join, relation_of, planned=True)
    if not bases:
        return None
    domains = fine(layout, samples)
    rows = []
    for base, source in zip(bases, layout.sources, strict=True):
        keys = passing(dict(enumerate(base.sample)), source.tests)
        rows.append({column: keys[column] for column in source.columns})
    counts = tuple(
        count(keys, dims, domains) * base.step
        for keys, base, dims in zip(rows, bases, layout.dims, strict=True)
    )
    widths = tuple(sum(column.itemsize for column in keys.values()) for keys in rows)
    census = Histogram(layout, domains, counts, widths)
    memory, slots = store.room()
    workers = len(store.pool.workers)
    return choose(census, memory // MAKING, workers, max(1, slots // workers))
