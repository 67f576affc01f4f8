"""A rule over relations that no worker has whole: cells get the bundles of rows that they need.

Rows lie on the workers' shelves in bundles, by classes of the keys of their columns (`shares.py`).
Workers are dealt cells that need few bundles which they do not have by now (`dealing.py`), and run
them over tries of these. What was too much for a worker is cut: into its blocks, then at keys.

Above 300 lines, for what becomes of a cell is decided in one place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from time import monotonic

import numpy as np

from gdatalog.cluster.partitioned import foreseeing
from gdatalog.cluster.partitioned.bundles import Grid
from gdatalog.cluster.partitioned.census import Census, fine
from gdatalog.cluster.partitioned.choosing import Choice, choose, expected
from gdatalog.cluster.partitioned.dealing import Dealer
from gdatalog.cluster.partitioned.fragments import (
    MAKING,
    Bundled,
    Cuts,
    Fragment,
    Tries,
    as_told,
    light,
    run_cells,
    where_to_cut,
)
from gdatalog.cluster.partitioned.layout import Layout
from gdatalog.cluster.partitioned.shares import Block, Bundle, Shares
from gdatalog.cluster.partitioned.shelves import Gone, Piece
from gdatalog.cluster.partitioned.stock import TRIES, Bundles, Stock, unreachable
from gdatalog.cluster.pool import Call, Kept, Placed, Stage, TooLarge
from gdatalog.cluster.replicated.run import SpreadRun
from gdatalog.cluster.replicated.tasks import Found, Mode
from gdatalog.engine.spread import Spread
from gdatalog.errors import MemoryLimitError
from gdatalog.plan.cells import EVERYTHING, Cell, Stretch, cuttable, roles
from gdatalog.plan.nodes import JoinPlan, Restore
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
        return replace(spread, moved=self.moved + self.merged, calls=self.calls)

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
        if self.report is not None and parted.layout.sources:
            workers = len(self.pool.workers)
            threads = max(1, parted.slots // workers)
            choice = expected(parted.shares, parted.cells_memory, workers, threads)
            self.planned.append(choice)


@dataclass(slots=True, eq=False)
class Part:
    """Cells that are to be run, and the bundles that they need. `blocks`: those that they are made
    of, or none if the cells are smaller."""

    cells: Sequence[Cell]
    bundles: Sequence[Bundle]
    blocks: Sequence[Block] = ()
    refined: bool = False
    tried: int = 0


class Parted:
    """A join over bundles: which there are, and which cells are run next, by whom."""

    def __init__(self, run: PartitionedRun, number: int, mode: Mode, limit: int | None) -> None:
        self.run, self.stock = run, run.stock
        self.number, self.mode, self.limit = number, mode, limit
        self.join: JoinPlan = run.plan.joins[number]
        self.layout = Layout.of(self.join)
        self.bound = _bound(self.join, self.layout)
        self.bundles: list[Bundles] = []
        self.moved = 0
        self.memory, self.slots = self.stock.room()
        self.left: deque[Part] = deque()  # what has been dealt, and comes again
        self.ends: dict[str, list[int]] = {}  # of bundles, by what lots are known by
        self.busy: dict[str, int] = {}
        self.workers: Mapping[str, int] = {}
        self.looked = -OFTEN

    # --------------------------------------------------------------------------------- bundling

    def _shares(self) -> Shares:
        """Bundles the rows on the workers by fine classes, and chooses of what cells are made."""
        run, told = self.run, self.run.plan.relation
        layout, bases, samples = self.stock.laid_out(self.join, run.relation_of)
        self.layout = layout
        domains = fine(layout, samples)
        grids = [Grid(*each, domains) for each in zip(layout.sources, layout.dims, strict=True)]
        self.bundles = [Bundles(*each) for each in zip(bases, grids, strict=True)]
        counts, widths, self.moved = self.stock.count(self.bundles, told, run.limits)
        census = Census(layout, domains, tuple(counts), tuple(widths))
        choice = choose(census, self.memory // MAKING, self.slots)
        self.cells_memory = choice.memory
        for made in self.bundles:
            made.grid = replace(made.grid, domains=choice.shares.domains)
        self.moved += self.stock.make(self.bundles, told, run.limits)
        return choice.shares

    def let_go(self) -> None:
        self.stock.let_go(lot for made in self.bundles for lot in made.lots)

    # ------------------------------------------------------------------------------------ cells

    def results(self) -> Generator[Found, None, None]:
        """What the cells give, as they end."""
        run = self.run
        dealer: Dealer | None = None
        if self.layout.sources:
            self.shares = self._shares()
            dealer = Dealer(self.shares, max(self.cells_memory, self.shares.largest), self.slots)
        else:  # whatever it reads of relations is only how many rows they have
            self.left.append(Part([EVERYTHING], []))
        self.sealed, self.table = run.task(self.number, self.mode, self.limit, self.memory)
        role_of = dict(zip(self.join.tries, self.layout.roles, strict=True))
        self.tries = Tries(
            {ref: role.source for ref, role in role_of.items() if role is not None},
            {ref: run.sources.trie_of(ref) for ref, role in role_of.items() if role is None},
            self.memory,
        )
        self.ranks = self._ranks()
        stage = run.pool.stage(run.plan.relation, run.limits, self._smaller)
        self._send(stage, dealer)
        try:
            for call, given in stage:
                if isinstance(call.tag, Found):
                    call.tag.kept = given
                    yield call.tag
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
                    stage.add(self._as_told(call, given, value.found))
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
        fragments = self._fragments(part)
        args = (
            self.sealed, part.cells, BUDGET, self.tries, fragments, self.ranks, self.table,
        )  # fmt: skip
        return Call(run_cells, args, self.run.keep, worker, (worker, part), light)

    def _ranks(self) -> dict[int, Placed]:
        """The ranks of graphs' vertices, by number of the source, where they become values."""
        found = {}
        for step in self.join.steps:
            role = self.layout.roles[step.trie] if isinstance(step, Restore) else None
            if role is not None:
                relation = self.run.relation_of(self.layout.sources[role.source].relation)
                ranking = relation.graph.ranking()
                found[role.source] = self.run.pool.place(id(ranking), ranking, ranking.nbytes)
        return found

    # ------------------------------------------------------------------------- what comes again

    def _again(self, part: Part, gone: Gone) -> None:
        """Makes again what a worker had who is gone, unless that is done."""
        part.tried += 1
        if part.tried > TRIES:
            raise unreachable()
        self.looked = -OFTEN
        run = self.run
        self.moved += self.stock.make(self.bundles, run.plan.relation, run.limits, gone.homes)
        self.left.append(part)

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
            told = hard.stretches.get(name, Stretch())
            for half in (Stretch(told.low, key), Stretch(key, told.high)):
                cell = Cell({**hard.stretches, name: half})
                self.left.appendleft(Part([cell], part.bundles, refined=True))
        else:
            assert found.error is not None
            found.error.hint = "workers with more memory; or fewer threads on each, which share it"
            raise found.error

    def _as_told(self, call: Call, kept: Kept, found: Found) -> Call:
        """What stays of a call: however often it is made again, of the same cells."""
        sealed, cells, _, *others = call.args
        worker, _ = call.tag
        return Call(as_told, (kept, found.cells, sealed, cells, *others), True, worker, found)

    def _smaller(self, large: TooLarge) -> list[Call]:
        """What to ask where a worker was stopped for the memory that it took."""
        if isinstance(large.call.tag, Found):
            return []
        worker, part = large.call.tag
        args = (part.cells[0], self._fragments(part), MemoryLimitError(str(large)))
        return [Call(where_to_cut, args, tag=(worker, part))]

    # -------------------------------------------------------------------------------- fragments

    def _fragments(self, part: Part) -> list[Fragment]:
        pieces: list[list[Piece]] = [[] for _ in self.layout.sources]
        for bundle in part.bundles:
            for each in self.bundles[bundle.source].groups:
                piece = self._piece(bundle, each)
                if piece.rows:
                    pieces[bundle.source].append(piece)
        fragments = []
        for source, mine, bound in zip(self.layout.sources, pieces, self.bound, strict=True):
            boxes = None
            if part.refined:
                boxes = tuple(
                    {
                        column: cell.stretches[name]
                        for column, name in role.items()
                        if name in cell.stretches
                    }
                    for cell in part.cells
                    for role in bound
                )
            fragments.append(Fragment(source, tuple(mine), bound, boxes))
        return fragments

    def _piece(self, bundle: Bundle, group: Bundled) -> Piece:
        """The rows of a bundle among those of a group."""
        ends = self.ends.get(group.lot.key)
        if ends is None:
            ends = self.ends[group.lot.key] = np.append(0, np.cumsum(group.counts)).tolist()
        shape = group.counts.shape
        at = int(np.ravel_multi_index(bundle.classes, shape)) if shape else 0
        return Piece(group.lot, ends[at], ends[at + 1])


def _bound(join: JoinPlan, layout: Layout) -> list[tuple[Mapping[int, str], ...]]:
    """For each source what its tries have in their columns, of the variables that can be cut."""
    names = {slot.name for slot in cuttable(join)}
    found: list[list[Mapping[int, str]]] = [[] for _ in layout.sources]
    for ref, role, told in zip(join.tries, layout.roles, roles(join), strict=True):
        if role is not None:
            known = zip(ref.columns, told, strict=True)
            found[role.source].append({at: name for at, name in known if name in names})
    return list(map(tuple, found))
