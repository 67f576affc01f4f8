"""A rule over relations that no worker has whole: each cell gets the bundles that it needs.

Rows lie on the workers' shelves in bundles, by classes of the keys of their columns (`shares.py`).
A cell is run by a worker to which few of its bundles have to be moved: the longer a worker is at
it the more of them it has.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdatalog.cluster.bundles import Grid, Runs, runs_of
from gdatalog.cluster.census import Census, fine
from gdatalog.cluster.choosing import choose
from gdatalog.cluster.fragments import MAKING, Fragment, Job, NoRoom, run_cell
from gdatalog.cluster.layout import Layout
from gdatalog.cluster.pool import Call, Placed
from gdatalog.cluster.replicated import SpreadRun
from gdatalog.cluster.shares import Block, Bundle, Shares
from gdatalog.cluster.shelves import Gone, Piece
from gdatalog.cluster.stock import TRIES, Bundles, Stock, unreachable
from gdatalog.cluster.work import Task, gathered_within
from gdatalog.errors import MemoryLimitError
from gdatalog.plan.cells import Cell, Stretch, cuttable, roles
from gdatalog.plan.nodes import JoinPlan, Restore
from gdatalog.storage.relation import Relation

AHEAD = 1  # cells that wait at a worker for each that runs
MOST_LOOKED_AT = 2000  # cells of which the next one is chosen
PART = 0.5  # of a worker's memory that its cells have
UNLIMITED = 4 << 30  # the memory of a worker, where nothing limits it


@dataclass(slots=True)
class PartitionedRun(SpreadRun):
    """The run of a rule whose joins are run by workers, each of which has a part of the rows."""

    relation_of: Callable[[str], Relation] = None  # type: ignore[assignment]
    stock: Stock = None  # type: ignore[assignment]

    def _spread(self, number: int, function: Callable[..., Any]) -> Iterator[Any]:
        parted = Parted(self, number, function is gathered_within)
        try:
            yield from parted.results()
        finally:
            parted.let_go()


class Parted:
    """A join over bundles: which there are, and which cell is run next, by whom."""

    def __init__(self, run: PartitionedRun, number: int, aggregates: bool) -> None:
        self.run = run
        self.stock = run.stock
        self.told = run.plan.relation
        self.number = number
        self.aggregates = aggregates
        self.join: JoinPlan = run.plan.joins[number]
        self.layout = Layout.of(self.join)
        self.bundles: list[Bundles] = []
        self.moved = 0
        self.memory, self.slots = self._room()
        self.shares = self._shares()

    def _room(self) -> tuple[int, int]:
        """The memory that a cell can have on each worker, and how many run at once."""
        info = self.stock.pool.connection.client.scheduler_info(n_workers=-1)["workers"].values()
        room = [
            (worker["memory_limit"] or UNLIMITED) * PART / worker["nthreads"] for worker in info
        ]
        return int(min(room, default=UNLIMITED)), sum(worker["nthreads"] for worker in info)

    # --------------------------------------------------------------------------------- bundling

    def _shares(self) -> Shares:
        """Bundles the rows on the workers by fine classes, and chooses of what cells are made."""
        run, layout = self.run, self.layout
        bases = [self.stock.base(run.relation_of(s.relation), s) for s in layout.sources]
        step = max((base.step for base in bases), default=1)
        samples = [
            [base.sample[dim.column][:: max(1, step // base.step)] for dim in dims]
            for base, dims in zip(bases, layout.dims, strict=True)
        ]
        self.domains = fine(layout, samples)
        for base, source, dims in zip(bases, layout.sources, layout.dims, strict=True):
            made = Bundles(base, Grid(source, dims, self.domains))
            self.bundles.append(made)
            self.moved += self.stock.make(made, self.told, run.limits)
        counts = tuple(made.counts for made in self.bundles)
        census = Census(layout, self.domains, counts, tuple(made.width for made in self.bundles))
        chosen = choose(census, self.memory // MAKING, self.slots)
        if chosen is None:
            raise MemoryLimitError("no shares fit")
        return chosen

    def let_go(self) -> None:
        self.stock.let_go(each.lot for made in self.bundles for each in made.blocks)

    # ------------------------------------------------------------------------------------ cells

    def results(self) -> Iterator[Any]:
        """What the cells give, as they end."""
        run = self.run
        task = Task(run.plan, self.number, run.scope.params, self.memory, run.knobs)
        role_of = dict(zip(self.join.tries, self.layout.roles, strict=True))
        counted = {ref: run.sources.trie_of(ref) for ref, role in role_of.items() if role is None}
        sources = {ref: role.source for ref, role in role_of.items() if role is not None}
        job = Job(task, sources, counted, self.aggregates)
        symbols = run.scope.symbols
        table = run.pool.place((id(symbols), len(symbols)), symbols)
        ranks = self._ranks()
        stage = run.pool.stage(self.told, run.limits)
        queue = Queue(self.shares)
        busy: dict[str, int] = {}

        def send() -> None:
            """Gives workers cells while they have not enough."""
            for worker, threads in self.stock.workers.items():
                while busy.get(worker, 0) < threads * (1 + AHEAD):
                    cell = queue.next(worker)
                    if cell is None:
                        return
                    busy[worker] = busy.get(worker, 0) + 1
                    args = (job, cell.cell, self._fragments(cell), ranks, table)
                    stage.add(Call(run_cell, args, worker=worker, tag=(worker, cell)))

        send()
        for call, found in stage:
            worker, cell = call.tag
            busy[worker] -= 1
            self.moved += found.moved
            if isinstance(found.value, Gone):
                self._again(cell, found.value)
                queue.add([cell])
            elif isinstance(found.value, NoRoom):
                queue.add(self._halves(cell, found.value))
            else:
                yield found.value
            send()

    def _ranks(self) -> dict[int, Placed]:
        """The ranks of graphs' vertices, by number of the source, where they become values."""
        found = {}
        for step in self.join.steps:
            role = self.layout.roles[step.trie] if isinstance(step, Restore) else None
            if role is not None:
                relation = self.run.relation_of(self.layout.sources[role.source].relation)
                ranking = relation.graph.ranking()
                found[role.source] = self.run.pool.place(ranking, ranking, ranking.nbytes)
        return found

    def _again(self, cell: Part, gone: Gone) -> None:
        """Makes again what a worker had who is gone, unless that is done."""
        cell.tried += 1
        if cell.tried > TRIES:
            raise unreachable()
        for made in self.bundles:
            homes = {each.lot.home for each in made.blocks}
            if homes & gone.homes:
                self.moved += self.stock.make(made, self.told, self.run.limits, gone.homes)

    def _halves(self, cell: Part, large: NoRoom) -> list[Part]:
        """Two cells in the place of one that was too large."""
        if not large.cuts:
            raise large.error
        name, (key, _) = max(large.cuts.items(), key=lambda cut: cut[1][1])
        told = cell.cell.stretches.get(name, Stretch())
        halves = (Stretch(told.low, key), Stretch(key, told.high))
        return [
            Part(cell.block, Cell({**cell.cell.stretches, name: half}), cell.bundles, refined=True)
            for half in halves
        ]

    def _fragments(self, cell: Part) -> list[Fragment]:
        bound: list[list[dict[int, str]]] = [[] for _ in self.layout.sources]
        names = {slot.name for slot in cuttable(self.join)}
        for ref, role, told in zip(
            self.join.tries, self.layout.roles, roles(self.join), strict=True
        ):
            if role is not None:
                known = zip(ref.columns, told, strict=True)
                bound[role.source].append({at: name for at, name in known if name in names})
        fragments = []
        for at, source in enumerate(self.layout.sources):
            pieces = [
                Piece(each.lot, runs)
                for bundle in sorted(cell.bundles)
                if bundle.source == at
                for each in self.bundles[at].blocks
                if (runs := self._runs(bundle, each.counts))
            ]
            boxes = None
            if cell.refined:
                stretches = cell.cell.stretches
                boxes = tuple(
                    {column: stretches[name] for column, name in role.items() if name in stretches}
                    for role in bound[at]
                )
            fragments.append(Fragment(source, tuple(pieces), tuple(bound[at]), boxes))
        return fragments

    def _runs(self, bundle: Bundle, counts: Any) -> Runs:
        spans = []
        for dim, number in zip(self.layout.dims[bundle.source], bundle.classes, strict=True):
            bounds = self.domains[dim.domain].bounds
            stretch = self.shares.domains[dim.domain].stretch(number)
            low = 0 if stretch.low is None else bisect_left(bounds, stretch.low) + 1
            high = (
                len(bounds) + 1 if stretch.high is None else bisect_left(bounds, stretch.high) + 1
            )
            spans.append((low, high))
        return runs_of(counts, spans)


@dataclass(slots=True, eq=False)
class Part:
    """A cell that is to be run. `refined`: it is smaller than the block that its bundles are for."""

    block: Block
    cell: Cell
    bundles: frozenset[Bundle]
    refined: bool = False
    tried: int = 0


class Queue:
    """The cells that are to be run, of which each worker is given the one for which the fewest
    bytes have to be moved to it."""

    def __init__(self, shares: Shares) -> None:
        self.shares = shares
        blocks = shares.blocks
        self.cells = [Part(block, shares.cell(block), shares.bundles(block)) for block in blocks]
        self._number: dict[Bundle, int] = {}
        for part in self.cells:
            for bundle in part.bundles:
                self._number.setdefault(bundle, len(self._number))
        self._sizes = np.array([shares.bytes_of(each) for each in self._number], dtype=np.int64)
        self._has: dict[str, Any] = {}

    def add(self, parts: Sequence[Part]) -> None:
        self.cells[:0] = parts

    def next(self, worker: str) -> Part | None:
        if not self.cells:
            return None
        lacks = self._has.setdefault(worker, self._sizes.copy())
        looked = self.cells[:MOST_LOOKED_AT]
        missing = [
            int(lacks[[self._number[bundle] for bundle in part.bundles]].sum()) for part in looked
        ]
        at = int(np.argmin(missing))
        part = self.cells.pop(at)
        for bundle in part.bundles:
            lacks[self._number[bundle]] = 0
        return part
