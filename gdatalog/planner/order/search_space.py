"""The states that the search for an order goes through, the costs of going on, and its result.

A state is a pair of sets: `rest`, the variables to bind, and `path`, the known ones (bound, and
still needed). Components of the rest without variables of the answer become branches, `exists`
under set semantics and `count` under bag semantics; the cost of a branch depends only on the
variables it reads. An aggregate is a variable too: it has one value, at a cost, once its variables
are bound.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import reduce
from math import inf
from operator import or_
from typing import NamedTuple

from gdatalog.planner.order.cost import NONE, Estimates, LevelCost, Made
from gdatalog.planner.order.formula import TINY
from gdatalog.planner.order.pattern import QueryPattern, bits
from gdatalog.planner.order.sampling import Sampler
from gdatalog.records import dataclass, field
from gdatalog.settings import Thresholds


@dataclass(slots=True)
class Order:
    """The result of the search: ranks of variables, and estimates."""

    rank: dict[str, int] = field(default_factory=dict)
    estimates: dict[str, float] = field(default_factory=dict)  # bindings after each variable
    work: float = 0.0  # values tried, at all levels


class SearchState(NamedTuple):
    """A state of the search: the known variables, and those still to be bound.

    `exists`: one match is enough. `made`: intersections that later levels can reuse. `due`: an
    aggregate that must be computed next.
    """

    path: int
    rest: int
    exists: bool
    made: Made = NONE
    due: int | None = None


class VariableChoice(NamedTuple):
    """The variable to bind next, and the cost of binding all remaining ones.

    `cost` and `work` (values tried) are for the rows that arrive; indexes are built once.
    """

    cost: float
    work: float
    indexes: float
    variable: int

    @property
    def total(self) -> float:
        return self.cost + self.indexes

    def plus(self, later: VariableChoice, share: float) -> VariableChoice:
        """The same with the cost of binding later ones, to which a share of the rows comes."""
        cost, work = self.cost + later.cost * share, self.work + later.work * share
        return VariableChoice(cost, work, self.indexes + later.indexes, self.variable)

    def better(self, other: VariableChoice) -> bool:
        """Whether it costs less, or the same with fewer values tried; tolerant of rounding."""
        total, its = self.cost + self.indexes, other.cost + other.indexes
        if abs(total - its) > 1e-9 * its:
            return total < its
        return self.work < other.work * (1 - 1e-9)


NOTHING = VariableChoice(0.0, 0.0, 0.0, -1)


@dataclass(slots=True)
class Extension:
    """The state and the costs after binding a variable."""

    level: LevelCost
    before: float  # bindings of the path
    tried: float  # values tried, over all rows of the path
    after: float  # bindings with the variable
    rows: float  # bindings that continue
    next: SearchState
    parts: list[tuple[SearchState, float]] = field(default_factory=list)  # branches, their rows
    extra: float = 0.0  # the cost of passing rows on


# Costs, in values tried.
ROW, PROBE, EMIT, UNORDERED, COMPACT = 0.3, 0.1, 0.3, 0.1, 0.5
KEYED = 0.6  # the part of such costs that remains where a key leads to a count's last level
RESTORED = 10.0  # restoring the values of a row's ranks
SORT, FREE = 3.0, 1000  # building a missing index: for each row, after so many free ones


class SearchSpace(ABC):
    """The states of the search for one conjunction's order."""

    def __init__(
        self, pattern: QueryPattern, sampler: Sampler | None, thresholds: Thresholds
    ) -> None:
        self.pattern = pattern
        self.thresholds = thresholds
        self.variables = (pattern.everything & ~pattern.outer).bit_count()
        self.exact = self.variables <= thresholds.ordered_exactly
        self.estimates = Estimates(pattern, sampler, self.exact)
        self._turns: dict[tuple[int, SearchState], Extension] = {}
        self._indexes: dict[tuple[int, int], float] = {}
        holding = self.estimates.formula.holding
        self._shared = sum([1 << at for at, atoms in enumerate(holding) if len(atoms) > 1])
        self._refining = sum([1 << at for at, lists in enumerate(self.estimates.wanted) if lists])

    def candidates(self, place: SearchState) -> list[int]:
        """The variables that can be bound next; preferably connected ones."""
        pattern, estimates = self.pattern, self.estimates
        if place.due is not None:
            return [place.due]
        free = place.rest & ~pattern.computed
        near, fixed = estimates.formula.near, estimates.fixed
        first, found = [], []
        for at in bits(free):
            if not pattern.before[at] & free:
                first.append(at)
                if near[at] & place.path or fixed >> at & 1:
                    found.append(at)
        computed = self._aggregates(place) if pattern.aggregates else []
        if found or not free:
            return [*self._lowest(found, free), *computed]
        if computed and place.path & ~pattern.outer:
            return computed  # before a cross product: it may connect the rest
        if self._computable(place):
            return []  # so may late computations
        sourced = {given.variable for given in pattern.given if not given.sources & ~place.path}
        found = [at for at in first if estimates.formula.holding[at] or at in sourced]
        return [*self._lowest(found, free), *computed]

    def _aggregates(self, place: SearchState) -> list[int]:
        """The aggregates that could be computed next."""
        found = []
        for at, aggregate in self.pattern.aggregates.items():
            if place.rest >> at & 1 and not aggregate.needs & ~place.path:
                found.append(at)
        return found

    def _lowest(self, candidates: list[int], free: int) -> list[int]:
        """The candidates without unbound neighbours of lower rank, if there are any."""
        lower, found = self.pattern.lower, []
        for at in candidates:
            if not lower[at] & free:
                found.append(at)
        return found or candidates

    def tried(self, at: int, place: SearchState) -> float:
        level = self.estimates.level(at, place.path, place.made)
        return self.estimates.rows(place.path) * level.tried

    def near(self, at: int, place: SearchState) -> float:
        """A quick estimate of a variable's cost, including the rows that it leaves."""
        return self.tried(at, place) + self.estimates.rows(place.path | 1 << at, place.path)

    def late(self, place: SearchState) -> SearchState:
        """The state after late computations."""
        known = self._computable(place) or place.rest & self.pattern.computed
        path = self.pattern.closed(place.path | known, place.rest)
        return place._replace(path=path, rest=place.rest & ~path)

    def _computable(self, place: SearchState) -> int:
        """The late computations whose variables are bound."""
        late = (1 << at for at, needs in self.pattern.late if not needs & ~place.path)
        return place.rest & reduce(or_, late, 0)

    def step_cost(self, at: int, place: SearchState, turn: Extension) -> VariableChoice:
        """The cost of binding a variable, without later ones."""
        level = turn.level
        cost = ROW * turn.before + turn.tried * (1 + PROBE * level.others)
        if level.keyed and self.pattern.bag and not turn.next.rest & self._shared:
            cost *= KEYED  # a look-up, without a loop
        cost += turn.extra
        # The work of an aggregate is counted when its branch is planned.
        work = 0.0 if at in self.pattern.aggregates else turn.tried
        key = at, place.path & self.estimates.formula.near[at]
        indexes = self._indexes.get(key)
        if indexes is None:
            indexes = self._indexes[key] = self._index(*key)
        return VariableChoice(cost, work, indexes, at)

    @abstractmethod
    def branch(self, place: SearchState) -> VariableChoice:
        """The cost of a branch, by an order that may not be optimal."""

    def share(self, place: SearchState, rows: float) -> float:
        return rows / max(TINY, self.estimates.rows(place.path))

    def turn(self, at: int, place: SearchState, level: LevelCost | None = None) -> Extension:
        """The state and the costs after binding a variable; `level`: its cost, if it is known."""
        found = self._turns.get((at, place))
        if found is not None:
            return found
        pattern, estimates = self.pattern, self.estimates
        path, rest, exists, made = place.path, place.rest, place.exists, place.made
        bit = 1 << at
        bound = pattern.closed(path | bit, rest, bit) if pattern.equations else path | bit
        left = rest & ~bound
        known = estimates.known
        level = estimates.level(at, path, made) if level is None else level
        before, after = known.get(path), known.get(path | bit)
        before = estimates.rows(path) if before is None else before
        tried = before * level.tried
        after = rows = estimates.rows(path | bit, path) if after is None else after
        if bound != path | bit:
            rows = estimates.rows(bound, path | bit)
        if exists:
            # The search stops at the first witness.
            matches = estimates.whole(path | rest) / max(TINY, before)
            if matches > 1:
                tried, after, rows = tried / matches, after / matches, rows / matches
        elif (
            pattern.bag
            and not left
            and not level.others
            and at not in pattern.aggregates
            and not bit & pattern.live
            and not any(whole & bit and not whole & ~bound for whole in pattern.filters)
            and not any(
                whole & bit and cut != bit and not whole & ~bound
                for whole, cut in pattern.one_sided
            )
        ):
            # The last level of a count is the length of a list.
            tried = before
        if made or self.estimates.wanted[at]:
            made = self._made(at, path, left, made)
        turn = Extension(level, before, tried, after, rows, SearchState(bound, left, exists, made))
        self._turns[at, place] = turn
        if left & ~(pattern.live | pattern.risky):
            self._split(turn)
        if not exists:
            self._emit(turn, at, path)
        return turn

    def _made(self, at: int, path: int, left: int, made: Made) -> Made:
        """The intersections that a remaining variable can reuse."""
        own = () if at in self.pattern.aggregates else self.estimates.made(at, path)
        lists = made.union(own)
        if not lists:
            return made
        asked = [
            wanted
            for other in bits(left & self._refining)
            for wanted in self.estimates.wanted[other]
        ]
        return frozenset(
            (group, parents)
            for group, parents in lists
            # A larger intersection replaces its parts.
            if not any(
                own == group and parents & ~more == 0 != more & ~parents for own, more in lists
            )
            and any(own == group and (parents & some).bit_count() > 1 for own, some in asked)
        )

    def _split(self, turn: Extension) -> None:
        """Turns components without variables of the answer into branches."""
        pattern, estimates = self.pattern, self.estimates
        stay = pattern.live | pattern.risky
        parts = pattern.components(turn.next.rest)
        wide = list(filter(pattern.widens, parts))
        if pattern.bag and len(wide) < 2:
            return
        kept = 0
        found: list[tuple[float, SearchState]] = []
        for part in parts:
            if part & stay or not pattern.widens(part):
                kept |= part
                continue
            reads = pattern.around(part) & turn.next.path
            place = SearchState(reads, part, not pattern.bag)
            rows = max(TINY, estimates.rows(reads, turn.next.path))
            found.append((min(1.0, estimates.whole(reads | part) / rows), place))
        if not found:
            return
        aggregates = self._aggregates(turn.next)
        apart = [(0.0, passed, place) for passed, place in found]
        if len(found) > 1 or aggregates:
            apart = [(self._worth(place, passed), passed, place) for passed, place in found]
        if aggregates and (due := self._tested(turn.next, min(apart)[0], aggregates)) is not None:
            turn.next = turn.next._replace(due=due)
            return
        for _, passed, place in sorted(apart):
            turn.parts.append((place, min(turn.rows, estimates.rows(place.path))))
            turn.rows *= passed
        turn.next = turn.next._replace(rest=kept)

    def _worth(self, place: SearchState, passed: float) -> float:
        """The sort key of a branch."""
        rows = max(TINY, self.estimates.rows(place.path))
        return _worth(self.branch(place).cost / rows, passed)

    def _tested(self, place: SearchState, than: float, aggregates: list[int]) -> int | None:
        """An aggregate whose test should come before the branches."""
        pattern, rows = self.pattern, self.estimates.rows
        found = []
        for at in aggregates:
            after = rows(pattern.closed(place.path | 1 << at, place.rest, 1 << at), place.path)
            passed = min(1.0, after / max(TINY, rows(place.path)))
            if passed < 1:
                found.append((_worth(pattern.aggregates[at].cost, passed), at))
        worth, at = min(found, default=(inf, -1))
        return at if worth < than else None

    def _emit(self, turn: Extension, at: int, path: int) -> None:
        """The cost of passing rows on: to the answer, or to a later level after compaction."""
        pattern = self.pattern
        bound, rest = turn.next.path, turn.next.rest
        if pattern.live & bound and not rest:
            # Consecutive rows of a group are merged.
            grouped = pattern.bag and not pattern.live >> at & 1
            turn.extra += EMIT * (self.estimates.rows(path) if grouped else turn.rows)
        if pattern.live >> at & 1 and not pattern.bag:
            known = path | pattern.computed
            for output in pattern.outputs:
                if not known >> output & 1:
                    if output != at and at not in pattern.aggregates:
                        turn.extra += UNORDERED * turn.after  # the answer has to be sorted
                    break
        if pattern.compacts and rest and bound & ~pattern.live:
            kept = bound & ~pattern.apart_from(rest, bound & ~pattern.live)
            few = self.estimates.rows(kept, bound) if kept != bound else inf
            if few < 0.9 * turn.rows:
                turn.extra += COMPACT * turn.rows
                # Only breadth-first execution compacts: so count it by half.
                turn.rows = (turn.rows + few) / 2
                turn.next = turn.next._replace(path=kept)

    def _index(self, at: int, path: int) -> float:
        """The cost of building missing indexes of atoms whose first column is bound here."""
        sorts: dict[object, int] = {}
        for atom in self.estimates.formula.holding[at]:
            if not atom.fixed and not atom.mask & path:
                column = atom.columns[at]
                rows = atom.sorts.get(column)
                rows = atom.sorting(column) if rows is None else rows
                sorts[atom.source, column] = max(0, rows - FREE)
        return SORT * sum(sorts.values())


def _worth(cost: float, passed: float) -> float:
    """By what one test comes before another: it is cheap, or lets little through."""
    return cost / max(TINY, 1 - passed)
