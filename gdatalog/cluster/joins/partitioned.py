"""A rule over relations that no worker holds whole: each cell gets the buckets that it needs.

Rows are stored on workers in buckets, by key ranges of their columns (`shares.py`). Workers get
cells for which few buckets must move to them (`share_search.py`), and run them over tries of these
buckets. A batch that is too large for a worker is divided: into blocks, then at keys.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from time import monotonic
from typing import Any

from gdatalog.cluster.joins import CellResult, Mode
from gdatalog.cluster.joins.bucket_store import (
    BucketExchange,
    BucketStore,
    CellBatch,
    SourceBuckets,
)
from gdatalog.cluster.joins.buckets import MAKING, Fragment, Grid, Tries, run_cells, where_to_cut
from gdatalog.cluster.joins.layout import Layout
from gdatalog.cluster.joins.replicated import CellScheduler, ReplicatedRun, too_small
from gdatalog.cluster.joins.share_search import Assigner, ShareChoice, choose, expected, spread_of
from gdatalog.cluster.joins.shares import Histogram, Shares, fine
from gdatalog.cluster.pool import Broadcast, Call, TaskStage, TooLarge
from gdatalog.errors import MemoryLimitError
from gdatalog.plan import Restore
from gdatalog.plan.cells import EVERYTHING, Cell, KeyRange
from gdatalog.plan.placement import Spread
from gdatalog.records import replace
from gdatalog.storage.relation import Relation

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
        self.left: deque[CellBatch] = deque()  # batches to run again
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
            self.left.append(CellBatch([EVERYTHING], [], self.total))
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

    def _next(self, worker: str) -> CellBatch | None:
        if self.left:
            return self.left.popleft()
        batch = None if self.assigner is None else self.assigner.next_batch(worker)
        if batch is None:
            return None
        cells = self.shares.cells(batch.blocks)
        return CellBatch(cells, batch.buckets, batch.cost, batch.blocks)

    def _run(self, worker: str, part: CellBatch, stage: TaskStage) -> Call:
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

    def _back(self, part: CellBatch, found: CellResult) -> None:
        """Takes back the cells that a call did not run; the first may have been too hard."""
        left = part.cells[found.cells :]
        if not left:
            return
        if found.error is not None and len(part.blocks) > 1 and not found.cells:
            cost = part.cost / len(part.blocks)
            for block in part.blocks:
                buckets = sorted(self.shares.buckets(block))
                self.left.append(CellBatch([self.shares.cell(block)], buckets, cost, [block]))
            return
        each = part.cost / len(part.cells)
        hard, rest = (left[0], left[1:]) if found.hard else (None, left)
        if rest:
            cost = each * len(rest)
            self.left.append(CellBatch(rest, part.buckets, cost, refined=part.refined))
        if hard is None:
            return
        if not found.cuts:
            assert found.error is not None
            raise too_small(found.error)
        name, (key, _) = max(found.cuts.items(), key=lambda cut: cut[1][1])
        told = hard.stretches.get(name, KeyRange())
        for half in (KeyRange(told.low, key), KeyRange(key, told.high)):
            cell = Cell({**hard.stretches, name: half})
            self.left.appendleft(CellBatch([cell], part.buckets, each / 2, refined=True))

    def _cut(self, large: TooLarge) -> list[Call]:
        """A call that finds where to cut, after a worker ran out of memory."""
        _, part, fragments = large.call.tag
        args = (part.cells[0], fragments, MemoryLimitError(str(large)))
        return [Call(where_to_cut, args, tag=large.call.tag)]
