"""A rule over relations that no worker holds whole: each cell gets the buckets that it needs.

Rows are stored on workers in buckets, by key ranges of their columns (`shares.py`). Workers get
cells for which few buckets must move to them (`share_search.py`), and run them over tries of these
buckets. A batch that is too large for a worker is divided: into blocks, then at keys. A worker
receives each bucket that its cells need once, for these and later cells (`_fragments`): one
task cuts out slices where the rows are (`sliced`), another concatenates them where they are needed
(`received`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from time import monotonic
from typing import Any

import numpy as np

from gdatalog.cluster.joins.bucket_store import BucketStore, SourceBuckets
from gdatalog.cluster.joins.buckets import BucketedRows, Grid, passing, received, sliced
from gdatalog.cluster.joins.cells import CellResult, Mode
from gdatalog.cluster.joins.cluster_run import Cells, ClusterRun, JoinCalls, too_small
from gdatalog.cluster.joins.fragments import (
    MAKING,
    BucketSlice,
    Fragment,
    Tries,
    run_cells,
    where_to_cut,
)
from gdatalog.cluster.joins.replicated import MorselCells
from gdatalog.cluster.joins.share_search import (
    Assigner,
    Batch,
    ShareChoice,
    choose,
    spread_of,
)
from gdatalog.cluster.joins.shares import Shares, count, fine
from gdatalog.cluster.pool.calls import Call, RemoteValue, TooLarge
from gdatalog.cluster.pool.task_stage import TaskStage
from gdatalog.errors import MemoryLimitError
from gdatalog.plan.cells import Cell, KeyRange, cuttable, roles
from gdatalog.plan.join_plan import JoinPlan, Restore, RulePlan
from gdatalog.plan.placement import Spread
from gdatalog.records import replace
from gdatalog.storage.relation import Relation

AHEAD = 1  # calls that wait at a worker for each that runs
BUDGET = 5.0  # seconds until a call returns the cells that it has not started
OFTEN = 1.0  # seconds between updates of the list of workers
PREPARED = 0.2  # share of the progress bar for counting and bucketing rows


def bucket_cells(
    store: BucketStore, run: ClusterRun, number: int, mode: Mode, limit: int | None
) -> Cells:
    """The cells of a join; one that only reads numbers of rows needs no buckets."""
    if any(ref.columns for ref in run.plan.joins[number].tries):
        return BucketCells(store, run, number, mode, limit)
    return MorselCells(run, number, mode, limit)


class BucketCells:
    """Runs a join over buckets: chooses the buckets, and which worker runs which cells."""

    def __init__(
        self, store: BucketStore, run: ClusterRun, number: int, mode: Mode, limit: int | None
    ) -> None:
        self.store = store
        self.memory, self.slots = store.room()
        self.calls = JoinCalls(run, number, mode, limit, self.memory, in_parts=True)
        self.left: deque[Batch] = deque()  # batches to run again
        self.busy: dict[str, int] = {}
        self.workers: Mapping[str, int] = {}
        self.looked = -OFTEN
        self._bucket()
        most = max(self.choice.memory, self.shares.largest)
        self.assigner = Assigner(self.shares, most, self.slots)
        self.calls.total = max(1.0, sum(map(self.shares.cost, self.shares.blocks)))
        role_of = dict(zip(self.calls.join.tries, self.layout.roles, strict=True))
        self.tries = Tries(
            {ref: role.source for ref, role in role_of.items() if role is not None},
            {ref: run.inputs.sources.trie_of(ref) for ref, role in role_of.items() if role is None},
            self._ranks(),
            self.memory,
        )
        # For each source and trie, the cuttable variable of each column.
        self.bound: list[list[Mapping[int, str]]] = [[] for _ in self.layout.sources]
        names = {slot.name for slot in cuttable(self.calls.join)}
        given = zip(self.calls.join.tries, self.layout.roles, roles(self.calls.join), strict=True)
        for ref, role, told in given:
            if role is not None:
                known = zip(ref.columns, told, strict=True)
                self.bound[role.source].append({at: name for at, name in known if name in names})
        self.ends = [
            [np.append(0, np.cumsum(kept.summary.counts)).tolist() for kept in each.groups]
            for each in self.buckets
        ]
        # What workers have received: by worker, and by source, bucket and group.
        self.there: dict[str, dict[tuple[int, int, int], BucketSlice]] = {}

    def results(self) -> Generator[CellResult, None, None]:
        with self.calls.limits.watch.innermost.within(PREPARED, 1.0):
            yield from self.calls.results(self)

    # -------------------------------------------------------------------------------- bucketing

    def _bucket(self) -> None:
        """Counts rows by fine key ranges, chooses shares, and sorts the rows into buckets."""
        run, pool = self.calls.join_run, self.calls.pool
        self.layout, bases, samples = self.store.laid_out(self.calls.join, run.relation_of)
        domains = fine(self.layout, samples)
        sources = zip(self.layout.sources, self.layout.dims, strict=True)
        grids = [Grid(*each, domains) for each in sources]
        self.buckets = [
            SourceBuckets(*each, pool, self.calls.name, self.calls.limits)
            for each in zip(bases, grids, strict=True)
        ]
        steps, counted = 2 * len(self.buckets), []
        for at, each in enumerate(self.buckets):
            with self._preparing(at / steps):
                counted.append(each.count())
        counts, self.widths = zip(*counted, strict=True)
        census = Shares(self.layout, domains, counts, self.widths)
        workers = len(pool.workers)
        threads = max(1, self.slots // workers)
        self.choice = choose(census, self.memory // MAKING, workers, threads)
        run.choices.append(self.choice)
        run.spread = spread_of(run.choices, workers)
        self.shares = self.choice.shares
        for at, each in enumerate(self.buckets):
            each.grid = replace(each.grid, domains=self.shares.domains)
            with self._preparing(0.5 + at / steps):
                each.make()

    def _preparing(self, share: float) -> AbstractContextManager[None]:
        """Fixes the progress at this share of the preparations."""
        return self.calls.limits.watch.innermost.within(PREPARED * share, PREPARED * share)

    # ------------------------------------------------------------------------------------ cells

    def send(self, stage: TaskStage) -> None:
        """Sends cells to workers that have too few."""
        if monotonic() - self.looked >= OFTEN:
            self.workers, self.looked = self.calls.pool.workers, monotonic()
            self.there = {at: some for at, some in self.there.items() if at in self.workers}
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
        batch = self.assigner.next_batch(worker)
        return batch and batch._replace(cells=self.shares.cells(batch.blocks))

    def _run(self, worker: str, part: Batch, stage: TaskStage) -> Call:
        fragments, came = self._fragments(part, worker, stage)
        args = (*self._args(part.cells, BUDGET, fragments), came)
        return self.calls.call((worker, part, fragments), run_cells, args, worker)

    def _fragments(
        self, part: Batch, worker: str, stage: TaskStage
    ) -> tuple[list[Fragment], list[RemoteValue]]:
        """The rows that a batch's cells need on a worker, and what the worker must receive."""
        found: list[Fragment] = []
        coming: list[RemoteValue] = []
        for number, source in enumerate(self.layout.sources):
            first, end = self.shares.starts[number : number + 2]
            mine = [bucket - first for bucket in part.buckets if first <= bucket < end]
            slices, kept = self._slices(number, mine, worker, stage)
            if kept is not None:
                coming.append(kept)
            boxes = _boxes(part.cells, self.bound[number]) if part.refined else None
            twice = self.buckets[number].base.twice
            found.append(Fragment(source, slices, self.bound[number], boxes, twice))
        return found, coming

    def _slices(
        self, source: int, buckets: Sequence[int], worker: str, stage: TaskStage
    ) -> tuple[list[BucketSlice], RemoteValue | None]:
        """Some of a source's buckets, on a worker, and what the worker must receive."""
        there = self.there.setdefault(worker, {})
        slices: list[BucketSlice] = []
        calls: list[RemoteValue] = []
        wanted: list[tuple[tuple[int, int, int], int]] = []
        width = self.widths[source]
        for group, kept in enumerate(self.buckets[source].groups):
            told: BucketedRows = kept.summary
            ends = self.ends[source][group]
            ranges = []
            for at in buckets:
                key = source, at, group
                if ends[at] == ends[at + 1]:
                    continue
                if told.home == worker:
                    slices.append(BucketSlice(kept, ends[at], ends[at + 1], width))
                elif key in there:
                    slices.append(there[key])
                else:
                    ranges.append((ends[at], ends[at + 1]))
                    wanted.append((key, ends[at + 1] - ends[at]))
            if ranges:
                home = told.home if told.home in self.workers else None
                calls.append(stage.defer(Call(sliced, (kept, ranges), True, home)))
        if not calls:
            return slices, None
        coming = stage.defer(Call(received, (calls,), True, worker))
        start = 0
        for key, rows in wanted:
            there[key] = BucketSlice(coming, start, start + rows, width)
            slices.append(there[key])
            start += rows
        return slices, coming

    def _args(
        self, cells: Sequence[Cell], seconds: float | None, fragments: Sequence[Fragment]
    ) -> tuple[object, ...]:
        return self.calls.task, cells, seconds, self.tries, fragments, self.calls.symbols

    def _ranks(self) -> dict[int, Any]:
        """The ranks of graphs' vertices, by number of the source, for joins that output
        vertices."""
        found = {}
        for step in self.calls.join.steps:
            role = self.layout.roles[step.trie] if isinstance(step, Restore) else None
            if role is not None:
                relation = self.calls.join_run.relation_of(
                    self.layout.sources[role.source].relation
                )
                ranking = relation.graph.ranking()
                found[role.source] = self.calls.pool.broadcast(id(ranking), ranking)
        return found

    # ------------------------------------------------------------------------- what comes again

    def ended(self, stage: TaskStage, call: Call, found: CellResult) -> tuple[object, ...]:
        worker, part, fragments = call.tag
        self.busy[worker] -= 1
        self.calls.done += part.cost * found.cells / len(part.cells)
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
                buckets = self.shares.buckets(block)
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

    def cut(self, large: TooLarge) -> list[Call]:
        """A call that finds where to cut, after a worker ran out of memory."""
        _, part, fragments = large.call.tag
        args = (part.cells[0], fragments, MemoryLimitError(str(large)))
        return [Call(where_to_cut, args, tag=large.call.tag)]


def _boxes(
    cells: Sequence[Cell], bound: Sequence[Mapping[int, str]]
) -> list[Mapping[int, KeyRange]]:
    """For each cell and trie, the key ranges of a source's columns that the cell needs."""
    return [
        {column: cell.stretches[name] for column, name in role.items() if name in cell.stretches}
        for cell in cells
        for role in bound
    ]


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
    counts, widths = [], []
    for base, source, dims in zip(bases, layout.sources, layout.dims, strict=True):
        keys = passing(dict(enumerate(base.sample)), source.tests)
        counts.append(count(keys, dims, domains) * base.step)
        widths.append(sum(keys[column].itemsize for column in source.columns))
    census = Shares(layout, domains, tuple(counts), tuple(widths))
    memory, slots = store.room()
    workers = len(store.pool.workers)
    return choose(census, memory // MAKING, workers, max(1, slots // workers))
