"""The order in which variables are bound, as a tree, by what it costs.

The search goes over sets: `rest` is to be bound, `path` is what is known on the way (what is
bound, less what nobody needs any more). Where the rest falls into parts that share no literal,
parts that are not asked for become branches: of a set a witness is enough (`exists`), of a bag
how many there are (`count`), and what a branch costs depends on what it reads alone. Up to
`EXACT` variables every order is weighed; beyond, the cheapest next variable is taken. An aggregate
is a variable too: it has one value, at a cost, once what it hangs on is bound.

Above 300 lines because all that is weighed at a place of the search is weighed here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from math import inf
from operator import or_

from gdatalog.planner.cost import Estimates, Made
from gdatalog.planner.formula import TINY
from gdatalog.planner.pattern import Pattern, bits
from gdatalog.planner.places import Choice, Place, Turn
from gdatalog.planner.sampling import Sampler

EXACT = 8
WALK = 2000  # values tried, for each set of variables, that make walks worth their while
# What things cost, in values tried.
ROW, PROBE, EMIT, UNORDERED, COMPACT = 0.3, 0.1, 0.3, 0.1, 0.5
SORT, FREE = 3.0, 1000  # of an index that is not there: for each row, but for so many


@dataclass(slots=True)
class Order:
    """What the search has found: when each variable is bound, and what is expected then."""

    rank: dict[str, int] = field(default_factory=dict)
    estimates: dict[str, float] = field(default_factory=dict)  # bindings after it
    work: float = 0.0  # values tried at all levels


class Search:
    """The search for one conjunction's order."""

    def __init__(self, pattern: Pattern, sampler: Sampler | None = None) -> None:
        self.pattern = pattern
        self.estimates = Estimates(pattern, sampler)
        self._found: dict[Place, Choice] = {}
        self._indexes: dict[tuple[int, int], float] = {}

    def order(self, rows: float) -> Order:
        """The best order, for so many rows from outside."""
        pattern = self.pattern
        order = Order()
        path = pattern.closed(pattern.outer, pattern.everything)
        exists = not pattern.bag and not pattern.live
        scale = rows / max(self.estimates.rows(pattern.outer), TINY)
        place = Place(path, pattern.everything & ~path, exists)
        self._describe(place, scale, order)
        order.work = self._best(place).work * scale
        return order

    # ------------------------------------------------------------------------------ candidates

    def _candidates(self, place: Place) -> list[int]:
        """What may be bound next: what something known leads to, if there is such a thing."""
        pattern, estimates = self.pattern, self.estimates
        if place.due is not None:
            return [place.due]
        free = place.rest & ~pattern.computed
        first = [at for at in bits(free) if not pattern.before[at] & free]
        found = [at for at in first if estimates.joined(at, place.path)]
        computed = self._aggregates(place)
        if found or not free:
            return [*self._lowest(found, free), *computed]
        if computed and place.path & ~pattern.outer:
            return computed  # before a product: it may connect what is left
        if self._computable(place):
            return []  # so may what is computed last
        sourced = {given.variable for given in pattern.given if not given.sources & ~place.path}
        found = [at for at in first if estimates.formula.holding[at] or at in sourced]
        return [*self._lowest(found, free), *computed]

    def _aggregates(self, place: Place) -> list[int]:
        """Those that could be computed next."""
        return [
            at
            for at, aggregate in self.pattern.aggregates.items()
            if place.rest >> at & 1 and not aggregate.needs & ~place.path
        ]

    def _lowest(self, candidates: list[int], free: int) -> list[int]:
        """Without those that have a neighbour of lower rank yet to come, if others are left."""
        lower = self.pattern.lower
        return [at for at in candidates if not lower[at] & free] or candidates

    # ------------------------------------------------------------------------------- the search

    def _best(self, place: Place) -> Choice:
        """What is best bound next, for all bindings of the path."""
        found = self._found.get(place)
        if found is None:
            path, rest = place.path, place.rest
            candidates = self._candidates(place)
            if candidates and rest.bit_count() > EXACT:
                candidates = [min(candidates, key=lambda at: self._near(at, path))]
            # The cheapest first: what costs more at once need not be followed.
            least = {at: self._tried(at, place) for at in candidates}
            found = Choice(inf, inf, 0.0, -1)
            for at in sorted(candidates, key=least.__getitem__):
                if least[at] > found.total and not place.exists and rest != 1 << at:
                    break
                choice = self._choice(at, place, found.total)
                if found.variable < 0 or choice.better(found):
                    found = choice
            if not candidates:
                later = self._late(place)
                known = self._best(later) if later.rest != rest else Choice(0.0, 0.0, 0.0, -1)
                found = known._replace(variable=-1)
            self._found[place] = found
        return found

    def _tried(self, at: int, place: Place) -> float:
        level = self.estimates.level(at, place.path, place.made)
        return self.estimates.rows(place.path) * level.tried

    def _near(self, at: int, path: int) -> float:
        return self.estimates.tried(at, path) + self.estimates.rows(path | 1 << at)

    def _late(self, place: Place) -> Place:
        """What is left when what is computed last has been."""
        known = self._computable(place) or place.rest & self.pattern.computed
        path = self.pattern.closed(place.path | known, place.rest)
        return place._replace(path=path, rest=place.rest & ~path)

    def _computable(self, place: Place) -> int:
        """What is computed last and could be by now."""
        late = (1 << at for at, needs in self.pattern.late if not needs & ~place.path)
        return place.rest & reduce(or_, late, 0)

    def _choice(self, at: int, place: Place, enough: float) -> Choice:
        """Binding a variable next; what it costs need not be known where it is `enough`."""
        estimates = self.estimates
        turn = self._turn(at, place)
        others = estimates.level(at, place.path, place.made).others
        cost = ROW * estimates.rows(place.path) + turn.tried * (1 + PROBE * others) + turn.extra
        # What an aggregate looks at is counted where its own steps are planned.
        work = 0.0 if at in self.pattern.aggregates else turn.tried
        indexes = self._index(at, place.path)
        for below, rows in (*turn.parts, (turn.next, turn.rows)):
            if below.rest and cost + indexes <= enough:
                choice, share = self._best(below), self._share(below, rows)
                cost += choice.cost * share
                work += choice.work * share
                indexes += choice.indexes
        return Choice(cost, work, indexes, at)

    def _share(self, place: Place, rows: float) -> float:
        return rows / max(TINY, self.estimates.rows(place.path))

    def _turn(self, at: int, place: Place) -> Turn:
        pattern, estimates = self.pattern, self.estimates
        path, rest, exists, made = place.path, place.rest, place.exists, place.made
        bit = 1 << at
        bound = pattern.closed(path | bit, rest)
        left = rest & ~bound
        level = estimates.level(at, path, made)
        tried = estimates.rows(path) * level.tried
        after, rows = estimates.rows(path | bit), estimates.rows(bound)
        if exists:
            # Once there is a witness nobody looks on.
            matches = estimates.rows(path | rest) / max(TINY, estimates.rows(path))
            if matches > 1:
                tried, after, rows = tried / matches, after / matches, rows / matches
        elif (
            pattern.bag
            and not left
            and level.single
            and not bit & pattern.live
            and not any(whole & bit and not whole & ~bound for whole in pattern.filters)
        ):
            # The last level of a count is the length of a list, less what has to differ.
            tried = estimates.rows(path)
        turn = Turn(
            tried, after, rows, Place(bound, left, exists, self._made(at, path, left, made))
        )
        self._split(turn)
        if not exists:
            self._emit(turn, at, path)
        return turn

    def _made(self, at: int, path: int, left: int, made: Made) -> Made:
        """The lists that there are now, as far as a variable that is left can refine them."""
        own = () if at in self.pattern.aggregates else self.estimates.made(at, path)
        lists = made.union(own)
        if not lists:
            return made
        asked = [
            wanted
            for other in bits(left)
            for wanted in self.estimates.made(other, self.pattern.everything)
        ]
        return frozenset(
            (group, parents)
            for group, parents in lists
            # One that more leads to is shorter, and serves as well.
            if not any(
                own == group and parents & ~more == 0 != more & ~parents for own, more in lists
            )
            and any(own == group and (parents & some).bit_count() > 1 for own, some in asked)
        )

    def _split(self, turn: Turn) -> None:
        """Parts that are not asked for become branches."""
        pattern, estimates = self.pattern, self.estimates
        parts = pattern.components(turn.next.rest)
        wide = list(filter(pattern.widens, parts))
        if pattern.bag and len(wide) < 2:
            return
        kept = 0
        apart: list[tuple[float, float, Place]] = []
        for part in parts:
            if part & (pattern.live | pattern.risky) or part not in wide:
                kept |= part
                continue
            reads = pattern.around(part) & turn.next.path
            place = Place(reads, part, not pattern.bag)
            rows = max(TINY, estimates.rows(reads))
            passed = min(1.0, estimates.rows(reads | part) / rows)
            apart.append((_worth(self._best(place).cost / rows, passed), passed, place))
        if apart and (due := self._tested(turn.next, min(apart)[0])) is not None:
            turn.next = turn.next._replace(due=due)
            return
        for _, passed, place in sorted(apart):
            turn.parts.append((place, min(turn.rows, estimates.rows(place.path))))
            turn.rows *= passed
        turn.next = turn.next._replace(rest=kept)

    def _tested(self, place: Place, than: float) -> int | None:
        """An aggregate of which a test is better made before the branches are looked into."""
        pattern, rows = self.pattern, self.estimates.rows
        found = []
        for at in self._aggregates(place):
            after = rows(pattern.closed(place.path | 1 << at, place.rest))
            passed = min(1.0, after / max(TINY, rows(place.path)))
            if passed < 1:
                found.append((_worth(pattern.aggregates[at].cost, passed), at))
        worth, at = min(found, default=(inf, -1))
        return at if worth < than else None

    def _emit(self, turn: Turn, at: int, path: int) -> None:
        """What it costs to hand rows on: to the answer, or on as fewer rows."""
        pattern = self.pattern
        bound, rest = turn.next.path, turn.next.rest
        if pattern.live & bound and not rest:
            # Rows of one group that come one after the other are one.
            grouped = pattern.bag and not pattern.live >> at & 1
            turn.extra += EMIT * (self.estimates.rows(path) if grouped else turn.rows)
        if pattern.live >> at & 1 and not pattern.bag:
            missing = [
                output for output in pattern.outputs if not (path | pattern.computed) >> output & 1
            ]
            if missing and missing[0] != at and at not in pattern.aggregates:
                turn.extra += UNORDERED * turn.after  # the answer has to be sorted
        if pattern.compacts and rest:
            kept = bound & (pattern.live | pattern.around(rest))
            few = self.estimates.rows(kept)
            if kept != bound and few < 0.9 * turn.rows:
                turn.extra += COMPACT * turn.rows
                # Rows become one breadth-first only, so they count by half.
                turn.rows = (turn.rows + few) / 2
                turn.next = turn.next._replace(path=kept)

    def _index(self, at: int, path: int) -> float:
        """What sorting takes for atoms whose first column is bound now, without an index yet."""
        key = (at, path & self.estimates.formula.near[at])
        found = self._indexes.get(key)
        if found is None:
            sorts: dict[object, int] = {}
            for atom in self.estimates.formula.holding[at]:
                if not atom.fixed and not atom.mask & path:
                    column = atom.columns[at]
                    rows = atom.size.sorting(column, atom.tests, atom.ranked)
                    sorts[atom.source, column] = max(0, rows - FREE)
            found = self._indexes[key] = SORT * sum(sorts.values())
        return found

    # ------------------------------------------------------------------------------ the outcome

    def _describe(self, place: Place, scale: float, order: Order) -> None:
        """Writes down the tree that was found: `scale` times the path's rows come to it."""
        if not place.rest:
            return
        at = self._best(place).variable
        if at < 0:
            later = self._late(place)
            if later.rest != place.rest:
                rows = self.estimates.rows(place.path) * scale
                self._describe(later, self._share(later, rows), order)
            return
        turn = self._turn(at, place)
        name = self.pattern.names[at]
        order.rank[name] = len(order.rank)
        # Of an aggregate those are told that pass the tests of its value.
        rows = turn.rows if at in self.pattern.aggregates else turn.after
        order.estimates[name] = rows * scale
        for branch, rows in turn.parts:
            self._describe(branch, self._share(branch, rows) * scale, order)
        self._describe(turn.next, self._share(turn.next, turn.rows) * scale, order)


def _worth(cost: float, passed: float) -> float:
    """By what one test comes before another: it is cheap, or lets little through."""
    return cost / max(TINY, 1 - passed)


def best_order(pattern: Pattern, rows: float) -> Order:
    """The best order by formulas; by walks, if that is much work and walks are possible."""
    search = Search(pattern)
    variables = (pattern.everything & ~pattern.outer).bit_count()
    sampler = Sampler(pattern) if 2 < variables <= EXACT else None
    if sampler is None or not sampler.usable:
        return search.order(rows)
    # So many rows of the data take long enough that formulas need not be asked.
    if max(atom.size.rows for atom in pattern.atoms) < WALK << variables:
        order = search.order(rows)
        if order.work < WALK << variables:
            return order
    return Search(pattern, sampler).order(rows)
