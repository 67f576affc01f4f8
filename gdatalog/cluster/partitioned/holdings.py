"""The bundles that a join's cells need, as they lie on workers' shelves; and what cells gave, made
again where it is lost."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from gdatalog.cluster.partitioned.fragments import Bundled, Fragment, Tries, as_told
from gdatalog.cluster.partitioned.layout import Layout
from gdatalog.cluster.partitioned.shares import Block, Bundle
from gdatalog.cluster.partitioned.shelves import Gone, Piece
from gdatalog.cluster.partitioned.stock import TRIES, Base, Bundles, Stock, unreachable
from gdatalog.cluster.pool import Call, Kept, Lost, Placed
from gdatalog.cluster.pool.calls import Origin
from gdatalog.cluster.replicated.tasks import Sealed
from gdatalog.limits import Limits
from gdatalog.plan.cells import Cell, cuttable, roles
from gdatalog.plan.nodes import JoinPlan
from gdatalog.records import dataclass
from gdatalog.storage.table import Array


@dataclass(slots=True, eq=False)
class Part:
    """Cells that are to be run, and the bundles that they need. `blocks`: those that they are made
    of, or none if the cells are smaller."""

    cells: Sequence[Cell]
    bundles: Sequence[Bundle]
    blocks: Sequence[Block] = ()
    refined: bool = False
    tried: int = 0


class Holdings:
    """The bundles of a join."""

    def __init__(self, stock: Stock, told: str, join: JoinPlan, layout: Layout) -> None:
        self.stock = stock
        self.told = told
        self.join = join
        self.lay(layout)
        self.bundles: list[Bundles] = []
        self._name: str | None = None  # of lots
        self.ends: dict[str, list[int]] = {}  # of bundles, by what lots are known by

    def lay(self, layout: Layout) -> None:
        """What of the join is cut, when that is known."""
        self.layout = layout
        self.bound = _bound(self.join, layout)

    @property
    def name(self) -> str:
        if self._name is None:
            self._name = self.stock.name()
        return self._name

    def count(self, limits: Limits) -> tuple[list[Array], list[int], int]:
        """See `Stock.count`."""
        return self.stock.count(self.name, self.bundles, self.told, limits)

    def make(self, limits: Limits, gone: Gone | None = None) -> int:
        """Bundles what is not yet, or is gone; the bytes that were moved for it."""
        shelves = frozenset[str]() if gone is None else gone.shelves
        return self.stock.make(self.name, self.bundles, self.told, limits, shelves)

    def again(self, part: Part, gone: Gone, limits: Limits) -> int:
        """The same, for a part that cannot be run otherwise."""
        part.tried += 1
        if part.tried > TRIES:
            raise unreachable()
        return self.make(limits, gone)

    def let_go(self) -> None:
        """Has nothing on the shelves any more; it can be made again."""
        if self._name is not None:
            self.stock.let_go([self._name])
            self._name = None
        self.ends.clear()
        self.bundles = [Bundles(each.base, each.grid) for each in self.bundles]

    def fragments(self, part: Part) -> list[Fragment]:
        """The rows that a part's cells need."""
        pieces: list[list[Piece]] = [[] for _ in self.layout.sources]
        for bundle in part.bundles:
            for each in self.bundles[bundle.source].groups:
                piece = self._piece(bundle, each)
                if piece.rows:
                    pieces[bundle.source].append(piece)
        fragments = []
        each_source = zip(self.layout.sources, self.bundles, pieces, self.bound, strict=True)
        for source, made, mine, bound in each_source:
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
            twice = made.base.twice
            fragments.append(Fragment(source, tuple(mine), bound, boxes, twice))
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


class Lineage:
    """What a join's cells gave, and left on workers: they are run again where it is lost.

    When the join is done its bundles go, and so does what is kept of the rows that they were made
    of: how that was made is remembered. `others`: of `as_told`'s arguments those that all calls
    have in common. `memory`: what may be held here.
    """

    def __init__(self, holdings: Holdings, others: Others, memory: int | None) -> None:
        self.holdings = holdings
        self.others = others
        self.memory = memory
        self.origins: weakref.WeakSet[Origin] = weakref.WeakSet()
        self._resting: list[Base] | None = None
        self._lock = Lock()  # results are read by any thread

    def call(
        self, part: Part, tag: Any, worker: str | None = None, kept: Kept | None = None
    ) -> Call:
        """What leaves it there: from what is `kept` of the call that found it, or anew."""
        others = self.others
        args = (
            kept, others.sealed, part.cells, others.tries, self.holdings.fragments(part),
            others.ranks, others.table,
        )  # fmt: skip
        return Call(as_told, args, True, worker, tag)

    def know(self, kept: Kept, part: Part) -> None:
        """From now on this is how something that is kept is made again."""
        kept.recipe = Origin(self, part, weakref.ref(kept))

    def rest(self) -> None:
        """The join is done."""
        self.holdings.let_go()
        self._resting = [each.base.resting() for each in self.holdings.bundles]
        self._lay(self._resting)

    def again(self, lost: Sequence[Origin]) -> list[Any]:
        with self._lock:
            bases: list[Base] = []
            if self._resting is not None:
                stock = self.holdings.stock
                bases = [base.woken(stock.name()) for base in self._resting]
                self._lay(bases)
            try:
                return self._made(lost)
            finally:
                if self._resting is not None:
                    self._lay(self._resting)
                    self.holdings.let_go()
                    self.holdings.stock.let_go(base.name for base in bases)

    def _made(self, lost: Sequence[Origin]) -> list[Any]:
        holdings, limits = self.holdings, Limits(memory=self.memory)
        holdings.make(limits)
        stage = holdings.stock.pool.stage(f"{holdings.told}: lost rows", limits)

        def instead(call: Call, error: Lost) -> Call:
            assert isinstance(error, Gone)
            holdings.again(call.tag.tag, error, limits)
            return self.call(call.tag.tag, call.tag)

        stage.instead = instead
        for origin in lost:
            stage.add(self.call(origin.tag, origin))
        found = {call.tag: kept.future for call, kept in stage}
        return [found[origin] for origin in lost]

    def _lay(self, bases: Sequence[Base]) -> None:
        pairs = zip(self.holdings.bundles, bases, strict=True)
        self.holdings.bundles = [Bundles(base, each.grid) for each, base in pairs]


class Others(NamedTuple):
    """See `as_told`."""

    sealed: Sealed
    tries: Tries
    ranks: Mapping[int, Placed]
    table: Placed | None
