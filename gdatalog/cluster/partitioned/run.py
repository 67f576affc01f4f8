"""A rule over relations that no worker has whole: cells get the bundles of rows that they need.

Rows lie on the workers' shelves in bundles, by classes of the keys of their columns (`shares.py`).
Workers are dealt cells that need few bundles which they do not have by now (`dealing.py`), and run
them over tries of these. What was too much for a worker is cut: into its blocks, then at keys.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from time import monotonic
from typing import NamedTuple

from gdatalog.cluster.partitioned import foreseeing
from gdatalog.cluster.partitioned.bundles import Grid
from gdatalog.cluster.partitioned.census import Census, fine
from gdatalog.cluster.partitioned.choosing import Choice, choose, expected
from gdatalog.cluster.partitioned.dealing import Dealer
from gdatalog.cluster.partitioned.fragments import (
    MAKING,
    Cuts,
    Tries,
    light,
    run_cells,
    where_to_cut,
)
from gdatalog.cluster.partitioned.holdings import Holdings, Lineage, Others, Part
from gdatalog.cluster.partitioned.layout import Layout
from gdatalog.cluster.partitioned.shares import Shares
from gdatalog.cluster.partitioned.shelves import Gone
from gdatalog.cluster.partitioned.stock import Bundles, Stock
from gdatalog.cluster.pool import Call, Lost, Placed, Stage, TooLarge
from gdatalog.cluster.replicated.run import SpreadRun
from gdatalog.cluster.replicated.tasks import Found, Mode
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
class PartitionedRun(SpreadRun):
    """The run of a rule whose joins are run by workers, each of which has a part of the rows."""

    relation_of: Callable[[str], Relation] = None  # type: ignore[assignment]
    stock: Stock = None  # type: ignore[assignment]
    moved: int = 0  # bytes, from worker to worker
    planned: list[Choice] = field(default_factory=list)

    def told(self) -> Spread:
        spread = foreseeing.told(self.planned, len(self.pool.workers))
        moved = self.moved + self.merged
        return replace(spread, moved=moved, calls=self.calls, on_gpus=self.gpu_calls)

    def _spread(
        self, number: int, mode: Mode, limit: int | None = None
    ) -> Generator[Found, None, None]:
        self.limits.watch.innermost.one_of(number, len(self.plan.joins))
        parted = Parted(self, number, mode, limit)
        try:
            with closing(parted.results()) as results:
                for found in results:
                    self._take(number, mode, found)
                    yield found
        finally:
            self.moved += parted.moved
            parted.let_go()
        if self.report is not None and parted.holdings.layout.sources:
            workers = len(self.pool.workers)
            threads = max(1, parted.slots // workers)
            choice = expected(parted.shares, parted.cells_memory, workers, threads)
            self.planned.append(choice)


class Stays(NamedTuple):
    """What a call found in all cells of a part, and which stays where it ran."""

    found: Found
    part: Part


class Parted:
    """A join over bundles: which there are, and which cells are run next, by whom."""

    def __init__(self, run: PartitionedRun, number: int, mode: Mode, limit: int | None) -> None:
        self.run, self.stock = run, run.stock
        self.number, self.mode, self.limit = number, mode, limit
        self.join: JoinPlan = run.plan.joins[number]
        self.holdings = Holdings(self.stock, run.plan.relation, self.join, Layout.of(self.join))
        self.lineage: Lineage | None = None
        self.moved = 0
        self.memory, self.slots = self.stock.room()
        self.left: deque[Part] = deque()  # what has been dealt, and comes again
        self.busy: dict[str, int] = {}
        self.workers: Mapping[str, int] = {}
        self.looked = -OFTEN

    # --------------------------------------------------------------------------------- bundling

    def _shares(self) -> Shares:
        """Bundles the rows on the workers by fine classes, and chooses of what cells are made."""
        run, holdings = self.run, self.holdings
        layout, bases, samples = self.stock.laid_out(self.join, run.relation_of)
        holdings.lay(layout)
        domains = fine(layout, samples)
        grids = [Grid(*each, domains) for each in zip(layout.sources, layout.dims, strict=True)]
        holdings.bundles = [Bundles(*each) for each in zip(bases, grids, strict=True)]
        counts, widths, self.moved = holdings.count(run.limits)
        census = Census(layout, domains, tuple(counts), tuple(widths))
        choice = choose(census, self.memory // MAKING, self.slots)
        self.cells_memory = choice.memory
        for made in holdings.bundles:
            made.grid = replace(made.grid, domains=choice.shares.domains)
        self.moved += holdings.make(run.limits)
        return choice.shares

    def let_go(self) -> None:
        if self.lineage is not None and self.lineage.origins:
            self.lineage.rest()
        else:
            self.holdings.let_go()

    # ------------------------------------------------------------------------------------ cells

    def results(self) -> Generator[Found, None, None]:
        """What the cells give, as they end."""
        run = self.run
        dealer: Dealer | None = None
        if self.holdings.layout.sources:
            self.shares = self._shares()
            dealer = Dealer(self.shares, max(self.cells_memory, self.shares.largest), self.slots)
        else:  # whatever it reads of relations is only how many rows they have
            self.left.append(Part([EVERYTHING], []))
        sealed, table = run.task(self.number, self.mode, self.limit, self.memory)
        role_of = dict(zip(self.join.tries, self.holdings.layout.roles, strict=True))
        tries = Tries(
            {ref: role.source for ref, role in role_of.items() if role is not None},
            {ref: run.sources.trie_of(ref) for ref, role in role_of.items() if role is None},
            self.memory,
        )
        self.others = Others(sealed, tries, self._ranks(), table)
        self.lineage = lineage = Lineage(self.holdings, self.others, run.limits.memory)
        stage = run.pool.stage(run.plan.relation, run.limits, self._smaller)
        stage.instead = self._instead
        self._send(stage, dealer)
        try:
            for call, given in stage:
                if isinstance(call.tag, Stays):
                    lineage.know(given, call.tag.part)
                    call.tag.found.kept = given
                    yield call.tag.found
                    continue
                value, moved = given.told if call.keep else given
                worker, part = call.tag
                self.busy[worker] -= 1
                self.moved += moved
                if isinstance(value, Gone):
                    self._again(part, value)
                else:
                    self._back(part, value.found, value.cuts)
                self._send(stage, dealer)
                if isinstance(value, Gone) or not value.found.cells:
                    continue
                if value.found.left is None:
                    yield value.found
                else:
                    done = replace(part, cells=part.cells[: value.found.cells], tried=0)
                    stage.add(lineage.call(done, Stays(value.found, done), worker, given))
        finally:
            stage.cancel()

    def _send(self, stage: Stage, dealer: Dealer | None) -> None:
        """Gives workers cells while they have not enough."""
        if monotonic() - self.looked >= OFTEN:
            self.workers, self.looked = self.run.pool.workers, monotonic()
        waiting = True
        for ahead in range(1 + AHEAD):
            for worker, threads in self.workers.items():
                while waiting and self.busy.get(worker, 0) < threads * (1 + ahead):
                    part = self._next(worker, dealer)
                    if part is None:
                        waiting = False
                    else:
                        self.busy[worker] = self.busy.get(worker, 0) + 1
                        stage.add(self._call(worker, part))

    def _next(self, worker: str, dealer: Dealer | None) -> Part | None:
        if self.left:
            return self.left.popleft()
        batch = None if dealer is None else dealer.deal(worker)
        if batch is None:
            return None
        return Part(self.shares.cells(batch.blocks), batch.bundles, batch.blocks)

    def _call(self, worker: str, part: Part) -> Call:
        sealed, tries, ranks, table = self.others
        fragments = self.holdings.fragments(part)
        args = sealed, part.cells, BUDGET, tries, fragments, ranks, table
        return Call(run_cells, args, self.run.keep, worker, (worker, part), light)

    def _ranks(self) -> dict[int, Placed]:
        """The ranks of graphs' vertices, by number of the source, where they become values."""
        found = {}
        for step in self.join.steps:
            role = self.holdings.layout.roles[step.trie] if isinstance(step, Restore) else None
            if role is not None:
                relation = self.run.relation_of(self.holdings.layout.sources[role.source].relation)
                ranking = relation.graph.ranking()
                found[role.source] = self.run.pool.place(id(ranking), ranking, ranking.nbytes)
        return found

    # ------------------------------------------------------------------------- what comes again

    def _again(self, part: Part, gone: Gone) -> None:
        """Makes again what a worker had who is gone, unless that is done."""
        self.looked = -OFTEN
        self.moved += self.holdings.again(part, gone, self.run.limits)
        self.left.append(part)

    def _instead(self, call: Call, lost: Lost) -> Call:
        """What leaves again what was to stay, and is lost before it did."""
        assert isinstance(lost, Gone) and self.lineage is not None
        stays: Stays = call.tag
        self.moved += self.holdings.again(stays.part, lost, self.run.limits)
        return self.lineage.call(stays.part, stays)

    def _back(self, part: Part, found: Found, cuts: Cuts) -> None:
        """What a call has left of its cells, the first of which may have been too hard."""
        left = part.cells[found.cells :]
        if not left:
            return
        if found.error is not None and len(part.blocks) > 1 and not found.cells:
            for block in part.blocks:
                bundles = sorted(self.shares.bundles(block))
                self.left.append(Part([self.shares.cell(block)], bundles, [block]))
            return
        if not found.hard:
            self.left.append(Part(left, part.bundles, refined=part.refined))
            return
        hard, rest = left[0], left[1:]
        if rest:
            self.left.append(Part(rest, part.bundles, refined=part.refined))
        if cuts:
            name, (key, _) = max(cuts.items(), key=lambda cut: cut[1][1])
            told = hard.stretches.get(name, KeyRange())
            for half in (KeyRange(told.low, key), KeyRange(key, told.high)):
                cell = Cell({**hard.stretches, name: half})
                self.left.appendleft(Part([cell], part.bundles, refined=True))
        else:
            assert found.error is not None
            found.error.hint = "workers with more memory; or fewer threads on each, which share it"
            raise found.error

    def _smaller(self, large: TooLarge) -> list[Call]:
        """What to ask where a worker was stopped for the memory that it took."""
        if isinstance(large.call.tag, Stays):
            return []
        worker, part = large.call.tag
        args = (part.cells[0], self.holdings.fragments(part), MemoryLimitError(str(large)))
        return [Call(where_to_cut, args, tag=(worker, part))]
