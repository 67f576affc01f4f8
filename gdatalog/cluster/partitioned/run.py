"""A rule over relations that no worker has whole: cells get the buckets of rows that they need.

Rows lie on the workers in buckets, by ranges of the keys of their columns (`shares.py`). Workers
are dealt cells that need few buckets which they do not have by now (`assignment.py`), and run them
over tries of these. What was too much for a worker is cut: into its blocks, then at keys.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from time import monotonic
from typing import NamedTuple

from gdatalog.cluster.partitioned.assignment import Assigner
from gdatalog.cluster.partitioned.bucket_exchange import BucketExchange, CellBatch
from gdatalog.cluster.partitioned.bucket_store import BucketStore, SourceBuckets
from gdatalog.cluster.partitioned.buckets import Grid, light
from gdatalog.cluster.partitioned.cell_tasks import (
    MAKING,
    Cuts,
    Tries,
    of_same_cells,
    run_cells,
    where_to_cut,
)
from gdatalog.cluster.partitioned.histogram import Histogram, fine
from gdatalog.cluster.partitioned.layout import Layout
from gdatalog.cluster.partitioned.share_search import ShareChoice, choose, expected, spread_of
from gdatalog.cluster.partitioned.shares import Shares
from gdatalog.cluster.pool import Broadcast, Call, RemoteValue, TaskStage, TooLarge
from gdatalog.cluster.replicated.run import ReplicatedRun
from gdatalog.cluster.replicated.tasks import CellResult, Mode
from gdatalog.errors import MemoryLimitError
from gdatalog.plan.cells import EVERYTHING, Cell, KeyRange
from gdatalog.plan.nodes import JoinPlan, Restore
from gdatalog.plan.placement import Spread
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.relation import Relation

AHEAD = 1  # calls that wait at a worker for each that runs
BUDGET = 5.0  # seconds, after which a call gives back the cells that it has not come to
OFTEN = 1.0  # seconds between two looks at which workers there are


@dataclass(slots=True)
class PartitionedRun(ReplicatedRun):
    """The run of a rule whose joins are run by workers, each of which has a part of the rows."""

    relation_of: Callable[[str], Relation] = None  # type: ignore[assignment]  # whoever makes a run sets it
    store: BucketStore = None  # type: ignore[assignment]  # whoever makes a run sets it
    moved: int = 0  # bytes, from worker to worker
    planned: list[ShareChoice] = field(default_factory=list)

    def spread(self) -> Spread:
        spread = spread_of(self.planned, len(self.pool.workers))
        moved = self.moved + self.merged
        return replace(spread, moved=moved, calls=self.calls, on_gpus=self.gpu_calls)

    def _spread(
        self, number: int, mode: Mode, limit: int | None = None
    ) -> Generator[CellResult, None, None]:
        self.limits.watch.innermost.one_of(number, len(self.plan.joins))
        parted = PartitionedJoin(self, number, mode, limit)
        try:
            with closing(parted.results()) as results:
                for found in results:
                    self._take(number, mode, found)
                    yield found
        finally:
            self.moved += parted.moved
        if self.report is not None and parted.layout.sources:
            workers = len(self.pool.workers)
            threads = max(1, parted.slots // workers)
            choice = expected(parted.shares, parted.cells_memory, workers, threads)
            self.planned.append(choice)


class RemoteResult(NamedTuple):
    """What a call found in all cells of a part, and which stays where it ran."""

    found: CellResult


class PartitionedJoin:
    """A join over buckets: which there are, and which cells are run next, by whom."""

    def __init__(self, run: PartitionedRun, number: int, mode: Mode, limit: int | None) -> None:
        self.run, self.store = run, run.store
        self.number, self.mode, self.limit = number, mode, limit
        self.join: JoinPlan = run.plan.joins[number]
        self.layout = Layout.of(self.join)
        self.moved = 0
        self.memory, self.slots = self.store.room()
        self.left: deque[CellBatch] = deque()  # what has been dealt, and comes again
        self.busy: dict[str, int] = {}
        self.workers: Mapping[str, int] = {}
        self.looked = -OFTEN

    # -------------------------------------------------------------------------------- bucketing

    def _shares(self) -> tuple[Shares, BucketExchange]:
        """Counts the rows by fine key ranges, chooses what cells are made of, and buckets them."""
        run, pool = self.run, self.run.pool
        self.layout, bases, samples = self.store.laid_out(self.join, run.relation_of)
        domains = fine(self.layout, samples)
        sources = zip(self.layout.sources, self.layout.dims, strict=True)
        grids = [Grid(*each, domains) for each in sources]
        buckets = [SourceBuckets(*each) for each in zip(bases, grids, strict=True)]
        told = run.plan.relation
        counts, widths = zip(*(each.count(pool, told, run.limits) for each in buckets), strict=True)
        census = Histogram(self.layout, domains, counts, widths)
        choice = choose(census, self.memory // MAKING, self.slots)
        self.cells_memory = choice.memory
        for each in buckets:
            each.grid = replace(each.grid, domains=choice.shares.domains)
            each.make(pool, told, run.limits)
        return choice.shares, BucketExchange(self.join, self.layout, buckets, widths)

    # ------------------------------------------------------------------------------------ cells

    def results(self) -> Generator[CellResult, None, None]:
        """What the cells give, as they end."""
        run = self.run
        assigner: Assigner | None = None
        if self.layout.sources:
            self.shares, self.buckets = self._shares()
            assigner = Assigner(
                self.shares, max(self.cells_memory, self.shares.largest), self.slots
            )
        else:  # whatever it reads of relations is only how many rows they have
            self.buckets = BucketExchange(self.join, self.layout, (), ())
            self.left.append(CellBatch([EVERYTHING], []))
        self.sealed, self.table = run.task(self.number, self.mode, self.limit, self.memory)
        role_of = dict(zip(self.join.tries, self.layout.roles, strict=True))
        self.tries = Tries(
            {ref: role.source for ref, role in role_of.items() if role is not None},
            {ref: run.sources.trie_of(ref) for ref, role in role_of.items() if role is None},
            self.memory,
        )
        self.ranks = self._ranks()
        stage = run.pool.stage(run.plan.relation, run.limits, self._smaller)
        self._send(stage, assigner)
        try:
            for call, given in stage:
                if isinstance(call.tag, RemoteResult):
                    call.tag.found.kept = given
                    yield call.tag.found
                    continue
                ran = given.summary if call.keep else given
                worker, part, _ = call.tag
                self.busy[worker] -= 1
                self.moved += ran.moved
                self._back(part, ran.found, ran.cuts)
                self._send(stage, assigner)
                if ran.found.left is not None:
                    stage.add(self._of_same_cells(call, given, ran.found))
                elif ran.found.cells:
                    yield ran.found
        finally:
            stage.cancel()

    def _send(self, stage: TaskStage, assigner: Assigner | None) -> None:
        """Gives workers cells while they have not enough."""
        if monotonic() - self.looked >= OFTEN:
            self.workers, self.looked = self.run.pool.workers, monotonic()
            self.buckets.forget(self.workers)
        waiting = True
        for ahead in range(1 + AHEAD):
            for worker, threads in self.workers.items():
                while waiting and self.busy.get(worker, 0) < threads * (1 + ahead):
                    part = self._next(worker, assigner)
                    if part is None:
                        waiting = False
                    else:
                        self.busy[worker] = self.busy.get(worker, 0) + 1
                        stage.add(self._call(worker, part, stage))

    def _next(self, worker: str, assigner: Assigner | None) -> CellBatch | None:
        if self.left:
            return self.left.popleft()
        batch = None if assigner is None else assigner.next_batch(worker)
        if batch is None:
            return None
        return CellBatch(self.shares.cells(batch.blocks), batch.buckets, batch.blocks)

    def _call(self, worker: str, part: CellBatch, stage: TaskStage) -> Call:
        fragments, came = self.buckets.fragments(part, worker, self.workers, stage)
        args = (
            self.sealed, part.cells, BUDGET, self.tries, fragments, self.ranks, self.table, came,
        )  # fmt: skip
        return Call(run_cells, args, self.run.keep, worker, (worker, part, fragments), light)

    def _of_same_cells(self, call: Call, kept: RemoteValue, found: CellResult) -> Call:
        """What stays of a call: however often it is made again, of the same cells."""
        worker, part, fragments = call.tag
        cells = part.cells[: found.cells]
        args = (kept, self.sealed, cells, self.tries, fragments, self.ranks, self.table)
        return Call(of_same_cells, args, True, worker, RemoteResult(found))

    def _ranks(self) -> dict[int, Broadcast]:
        """The ranks of graphs' vertices, by number of the source, where they become values."""
        found = {}
        for step in self.join.steps:
            role = self.layout.roles[step.trie] if isinstance(step, Restore) else None
            if role is not None:
                relation = self.run.relation_of(self.layout.sources[role.source].relation)
                ranking = relation.graph.ranking()
                found[role.source] = self.run.pool.broadcast(id(ranking), ranking, ranking.nbytes)
        return found

    # ------------------------------------------------------------------------- what comes again

    def _back(self, part: CellBatch, found: CellResult, cuts: Cuts) -> None:
        """What a call has left of its cells, the first of which may have been too hard."""
        left = part.cells[found.cells :]
        if not left:
            return
        if found.error is not None and len(part.blocks) > 1 and not found.cells:
            for block in part.blocks:
                buckets = sorted(self.shares.buckets(block))
                self.left.append(CellBatch([self.shares.cell(block)], buckets, [block]))
            return
        if not found.hard:
            self.left.append(CellBatch(left, part.buckets, refined=part.refined))
            return
        hard, rest = left[0], left[1:]
        if rest:
            self.left.append(CellBatch(rest, part.buckets, refined=part.refined))
        if cuts:
            name, (key, _) = max(cuts.items(), key=lambda cut: cut[1][1])
            told = hard.stretches.get(name, KeyRange())
            for half in (KeyRange(told.low, key), KeyRange(key, told.high)):
                cell = Cell({**hard.stretches, name: half})
                self.left.appendleft(CellBatch([cell], part.buckets, refined=True))
        else:
            assert found.error is not None
            found.error.hint = "workers with more memory; or fewer threads on each, which share it"
            raise found.error

    def _smaller(self, large: TooLarge) -> list[Call]:
        """What to ask where a worker was stopped for the memory that it took."""
        if isinstance(large.call.tag, RemoteResult):
            return []
        _, part, fragments = large.call.tag
        args = (part.cells[0], fragments, MemoryLimitError(str(large)))
        return [Call(where_to_cut, args, tag=large.call.tag)]
