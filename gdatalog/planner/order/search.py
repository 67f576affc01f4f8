"""Search for the cheapest order of variables, as a tree.

Up to `Thresholds.ordered_exactly` variables, the search is exhaustive. A single atom needs no
search (`planner/order/atoms.py`).

Beyond, a beam search extends the best prefixes by each variable that can come next. Of prefixes
that lead to the same state only the cheapest is kept. The number of extensions of a level falls
with the number of variables (`TURNS`), so that the search takes about as long for 50 variables as
for 10. With very many variables the search is greedy: it extends only the best prefix, by the few
variables with the least fan-out. During the search, a branch costs what a small beam finds. The
chosen branches are then searched again with the full beam.

Where the head needs few groups of rows compared, the order may start with a variable of the head:
rows with the same values of the first variables then follow each other (`plan/nest.py`), and each
is compared only with its group, which fits the cache, rather than with all rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import nullcontext
from heapq import nsmallest
from math import frexp, inf

from gdatalog.plan.join_plan import Expr
from gdatalog.planner.observed import Answer, Observed, Question
from gdatalog.planner.order.formula import TINY
from gdatalog.planner.order.pattern import PatternAtom, QueryPattern
from gdatalog.planner.order.sampling import Sampler
from gdatalog.planner.order.search_space import (
    FREE,
    NOTHING,
    Order,
    SearchSpace,
    SearchState,
    VariableChoice,
)
from gdatalog.planner.order.single_atom import MOST_ORDERED, single_order
from gdatalog.planner.order.steps import Steps
from gdatalog.planner.passes import PassNotes
from gdatalog.planner.statistics import Looked, Statistics, known_value
from gdatalog.records import dataclass, field
from gdatalog.settings import Thresholds
from gdatalog.values import Value

# Costs of a row, in values tried: deduplicating against all rows, or within its group; and sorting,
# if rows do not come in the order of the head.
ALL, GROUP, SORTED = 25.0, 1.0, 3.0


class Search(SearchSpace):
    """The search for one conjunction's order."""

    def __init__(
        self, pattern: QueryPattern, sampler: Sampler | None, thresholds: Thresholds
    ) -> None:
        super().__init__(pattern, sampler, thresholds)
        self._found: dict[SearchState, VariableChoice] = {}
        self._sketched: dict[SearchState, VariableChoice] = {}
        self._allowed = max(FEWEST, TURNS // max(1, self.variables) ** 2)
        self._of_branch = max(2, self._allowed // 8)

    def order(self, rows: float) -> Order:
        """The best order, for `rows` outer rows."""
        pattern = self.pattern
        path = pattern.closed(pattern.outer, pattern.everything)
        exists = not pattern.bag and not pattern.live
        scale = rows / max(self.estimates.rows(pattern.outer), TINY)
        place = SearchState(path, pattern.everything & ~path, exists)
        if place.rest:
            self.best(place)
            group(self, place, scale)
        return self._described(place, scale)

    def best(self, place: SearchState) -> VariableChoice:
        """The best variable to bind next, and its cost."""
        found = self._found.get(place)
        if found is None and not self.exact:
            found = self._found[place] = extend(self, place, self._allowed, self._found)
        elif found is None:
            # The states that wait for the best choice of the one above them.
            waiting = [self._choosing(place)]
            while waiting:
                below = next(waiting[-1], None)
                if below is None:
                    waiting.pop()
                else:
                    waiting.append(self._choosing(below))
            found = self._found[place]
        return found

    def _choosing(self, place: SearchState) -> Iterator[SearchState]:
        """Finds the best choice at a state. Yields the states whose best choices must be found
        before."""
        known, estimates = self._found, self.estimates
        candidates = self.candidates(place)
        least: dict[int, float] = {}
        if len(candidates) > 1:
            # Cheapest first, to prune the others.
            rows = estimates.rows(place.path)
            for at in candidates:
                least[at] = rows * estimates.level(at, place.path, place.made).tried
            candidates = sorted(least, key=least.__getitem__)
        found, total = VariableChoice(inf, inf, 0.0, -1), inf
        for at in candidates:
            if least and least[at] > total and not place.exists and place.rest != 1 << at:
                break
            turn = self.turn(at, place)
            choice = self.step_cost(at, place, turn)
            for below, rows in (*turn.parts, (turn.next, turn.rows)):
                # The cost is exact only up to that of the best choice.
                if below.rest and choice.cost + choice.indexes <= total:
                    if below not in known:
                        yield below
                    share = rows / max(TINY, estimates.rows(below.path))
                    choice = choice.plus(known[below], share)
            if found.variable < 0 or choice.better(found):
                found, total = choice, choice.cost + choice.indexes
        if not candidates:
            later, after = self.late(place), NOTHING
            if later.rest != place.rest:
                if later not in known:
                    yield later
                after = known[later]
            found = after._replace(variable=-1)
        known[place] = found

    def begin(self, place: SearchState, choice: VariableChoice) -> None:
        """Fixes the choice at a state."""
        self._found[place] = choice

    def branch(self, place: SearchState) -> VariableChoice:
        """The cost of a branch, by an order that may not be optimal."""
        if self.exact:
            return self.best(place)
        found = self._sketched.get(place)
        if found is None:
            found = self._sketched[place] = extend(self, place, self._of_branch, self._sketched)
        return found

    def choice(self, at: int, place: SearchState) -> VariableChoice:
        """The cost of binding a variable next."""
        turn = self.turn(at, place)
        found = self.step_cost(at, place, turn)
        for below, rows in (*turn.parts, (turn.next, turn.rows)):
            if below.rest:
                share = rows / max(TINY, self.estimates.rows(below.path))
                found = found.plus(self.best(below), share)
        return found

    def _described(self, place: SearchState, scale: float) -> Order:
        """The tree that was found, with `scale` rows for each row of the path."""
        order = Order()
        todo = [(place, scale)]
        while todo:
            place, scale = todo.pop()
            if not place.rest:
                continue
            at = self.best(place).variable
            if at < 0:
                later = self.late(place)
                if later.rest != place.rest:
                    rows = self.estimates.rows(place.path) * scale
                    todo.append((later, self.share(later, rows)))
                continue
            turn = self.turn(at, place)
            name = self.pattern.names[at]
            order.rank[name] = len(order.rank)
            order.work += self.step_cost(at, place, turn).work * scale
            # For an aggregate, count the rows that pass the tests of its value.
            rows = turn.rows if at in self.pattern.aggregates else turn.after
            order.estimates[name] = rows * scale
            todo.append((turn.next, self.share(turn.next, turn.rows) * scale))
            todo += [
                (branch, self.share(branch, rows) * scale) for branch, rows in reversed(turn.parts)
            ]
        return order


def best_order(pattern: QueryPattern, rows: float, thresholds: Thresholds) -> Order:
    """The best order by formulas; by samples, if the work is large and sampling is possible."""
    variables = (pattern.everything & ~pattern.outer).bit_count()
    if len(pattern.atoms) == 1 and variables > MOST_ORDERED:
        alone = single_order(pattern, rows)
        if alone is not None:
            return alone
    search = Search(pattern, None, thresholds)
    always, mixed = thresholds.walked_from <= 0, thresholds.walked_from < 0
    few = search.variables <= 2 and not any(cut.ranks for cut in pattern.ranges.values())
    if not search.exact or (few and not mixed):
        return search.order(rows)
    # From this many rows on, sampling pays without a search by formulas first.
    enough = thresholds.walked_from << search.variables
    order = None
    if max([atom.size.rows for atom in pattern.atoms]) < enough:
        order = search.order(rows)
        if order.work < enough:
            return order
    sampler = Sampler(pattern, always, mixed)
    if sampler.usable:
        return Search(pattern, sampler, thresholds).order(rows)
    return order or search.order(rows)


def group(search: Search, place: SearchState, scale: float) -> None:
    """Chooses a variable of the head as the first, if that pays."""
    pattern, thresholds = search.pattern, search.thresholds
    if pattern.bag or not pattern.compacts or not pattern.live or pattern.outer:
        return
    found = search.best(place)
    if found.variable < 0 or pattern.live >> found.variable & 1:
        return
    rows, groups = _given(search, place, found.variable, scale)
    if not groups or rows < thresholds.grouped_from:
        return
    least = found.cost * scale + found.indexes + ALL * rows
    different = search.estimates.whole(pattern.live) * scale
    for at in search.candidates(place):
        few = search.estimates.rows(1 << at) < thresholds.grouped_least
        if few or not pattern.live >> at & 1:
            continue
        choice = search.choice(at, place)
        rows, groups = _given(search, place, at, scale)
        total = choice.cost * scale + choice.indexes + GROUP * rows
        if pattern.outputs[:1] != (at,):
            total += SORTED * min(rows, different)
        if rows <= thresholds.grouped_rows_most * groups and total < least:
            least = total
            search.begin(place, choice)


def _given(search: Search, place: SearchState, at: int, scale: float) -> tuple[float, float]:
    """The number of rows that an order with this first variable gives, and of groups: bindings of
    the head's variables before the first other one. No groups: all rows are distinct."""
    live, groups = search.pattern.live, 0.0
    rows = search.estimates.rows(place.path) * scale
    while place.rest and at >= 0:
        if not live >> at & 1 and not groups:
            groups = max(1.0, rows)
        turn = search.turn(at, place)
        rows = turn.rows * scale
        scale *= search.share(turn.next, turn.rows)
        place = turn.next
        at = search.best(place).variable if place.rest else -1
    return rows, groups


# -------------------------------------------------------------------------------------- beam search


TURNS = 6000  # extensions of a level, before division by the square of the number of variables
FEWEST = 4  # least number of extensions of a level


@dataclass(slots=True, eq=False)
class Prefix:
    """An order of some variables: the state it leads to, and its cost."""

    place: SearchState
    rows: float  # rows that reach it, relative to the bindings of its path
    cost: float
    indexes: float
    before: Prefix | None
    own: VariableChoice  # the cost of its last variable, for each row
    share: float  # share of the rows of the state before

    @property
    def total(self) -> float:
        return self.cost + self.indexes


def extend(
    search: SearchSpace, start: SearchState, allowed: int, found: dict[SearchState, VariableChoice]
) -> VariableChoice:
    """The best choice at a state, with `allowed` extensions of each level; adds the choices at
    later states to `found`."""

    def promise(prefix: Prefix) -> tuple[float, float]:
        """Cost so far plus remaining rows, then remaining rows."""
        rows = prefix.rows * search.estimates.rows(prefix.place.path)
        return prefix.total + rows, rows

    prefixes = [Prefix(start, 1.0, 0.0, 0.0, None, NOTHING, 1.0)]
    best: Prefix | None = None
    while prefixes:
        longer: dict[SearchState, Prefix] = {}
        turns = 0
        for prefix in prefixes:
            if turns >= allowed or (best is not None and prefix.total >= best.total):
                break
            for other in _extended(search, prefix, allowed):
                turns += 1
                place = other.place
                if not place.rest:
                    if best is None or other.total < best.total:
                        best = other
                elif place not in longer or other.total < longer[place].total:
                    longer[place] = other
        prefixes = sorted(longer.values(), key=promise)
    assert best is not None
    return _noted(best, found)


def _extended(search: SearchSpace, prefix: Prefix, allowed: int) -> list[Prefix]:
    place = prefix.place
    candidates = search.candidates(place)
    if not candidates:
        later = search.late(place)
        if later.rest == place.rest:
            later = later._replace(rest=0)  # nothing can bind the rest
        share = search.share(later, search.estimates.rows(place.path)) if later.rest else 1.0
        return [_longer(prefix, later, NOTHING, share)]
    if len(candidates) > allowed:
        candidates = nsmallest(allowed, candidates, key=lambda at: search.near(at, place))
    return [_with(search, prefix, at) for at in candidates]


def _with(search: SearchSpace, prefix: Prefix, at: int) -> Prefix:
    turn = search.turn(at, prefix.place)
    own = search.step_cost(at, prefix.place, turn)
    following, rows = turn.next, turn.rows
    parts = turn.parts
    if parts and not following.rest:
        # Only branches remain: the search continues with the largest.
        following, rows = max(parts, key=lambda part: part[0].rest.bit_count())
        parts = [part for part in parts if part[0] is not following]
    for branch, come in parts:
        own = own.plus(search.branch(branch), search.share(branch, come))
    share = search.share(following, rows) if following.rest else 1.0
    return _longer(prefix, following, own, share)


def _longer(prefix: Prefix, place: SearchState, own: VariableChoice, share: float) -> Prefix:
    cost, indexes = prefix.cost + own.cost * prefix.rows, prefix.indexes + own.indexes
    return Prefix(place, prefix.rows * share, cost, indexes, prefix, own, share)


def _noted(last: Prefix, found: dict[SearchState, VariableChoice]) -> VariableChoice:
    """Records the choices of an order, from its end to its start."""
    choice = NOTHING
    while last.before is not None:
        choice = last.own.plus(choice, last.share)
        last = last.before
        found[last.place] = choice
    return choice


# ------------------------------------------------------------------------- a cache of orders

MOST_KEPT_ORDERS = 1024  # cached orders


class Orders:
    """An LRU cache of a database's variable orders, by the shape of bodies.

    The search takes most of the time of planning. Its result depends on the pattern's shape (which
    atoms read the same relation, which variables they share, comparisons, variables of the answer),
    on the sizes of relations, and on sampled correlations. Names do not matter. Sizes are compared
    by powers of four: rows, distinct values, skew, and whether an index exists. Relations with
    assumed sizes, as in a recursion, share orders. Others do not: two relations of the same size
    may join a third with few rows or with many.

    So a rule whose relations have changed a little is planned again without a search, and without
    the statistics that only a search needs. Its estimates are those of the first plan.
    """

    def __init__(self) -> None:
        self.searched = 0  # number of searches
        self._found: dict[Hashable, FoundOrder] = {}

    def best(
        self,
        pattern: QueryPattern,
        rows: float,
        thresholds: Thresholds,
        observed: Observed | None = None,
    ) -> Order:
        """The cheapest order, for `rows` outer rows. `observed`: what planning looks at."""
        if len(pattern.atoms) < 2:
            return best_order(pattern, rows, thresholds)  # hardly slower than a look-up
        key = shape_of(pattern, rows), thresholds
        found = self._found.pop(key, None)
        if found is None:
            self.searched += 1
            numbers = None if observed is None else _numbers(pattern, rows)
            with nullcontext() if observed is None else observed.apart() as inner:
                order = best_order(pattern, rows, thresholds)
            asked = None if inner is None or not inner.whole else inner.asked
            found = FoundOrder(pattern.names, order, numbers, asked)
            while len(self._found) >= MOST_KEPT_ORDERS:
                self._found.pop(next(iter(self._found)), None)
        elif observed is not None:
            if found.asked is None or found.numbers != _numbers(pattern, rows):
                observed.whole = False  # another search might find another order
            else:
                observed.add(found.asked)
        self._found[key] = found
        order = found.order
        names = dict(zip(found.names, pattern.names, strict=True))
        ranks = {names[name]: rank for name, rank in order.rank.items()}
        estimates = {names[name]: count for name, count in order.estimates.items()}
        return Order(ranks, estimates, order.work)


@dataclass(frozen=True, slots=True)
class FoundOrder:
    """An order, with the names of the pattern that was searched. `numbers`: the exact sizes that
    the search knew; `asked`: its questions about relations, if they were noted."""

    names: list[str]
    order: Order
    numbers: Hashable = None
    asked: Mapping[Question, Answer] | None = None


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """What plans are made from.

    `orders`: variable orders found before. `values`: those of parameters. `looked`: the
    selectivities that depend on these, which planning adds. `notes`: what the passes make of a
    rule, if somebody wants to see it. `steps`: those of a rewriting. `observed`: notes what is
    looked at, if the plan is to be stored.
    """

    sizes: Statistics
    orders: Orders = field(default_factory=Orders)
    thresholds: Thresholds = Thresholds()
    values: Mapping[str, Value] = field(default_factory=dict)
    looked: list[Looked] = field(default_factory=list)
    notes: PassNotes | None = None
    steps: Steps = field(default_factory=Steps, compare=False)
    observed: Observed | None = field(default=None, compare=False)

    def value(self, bound: Expr) -> Value | None:
        """The value of a constant or a parameter, if it is known."""
        return known_value(bound, self.values)


def shape_of(pattern: QueryPattern, rows: float) -> Hashable:
    """A key that is equal for patterns which can share an order."""
    numbers: dict[object, int] = {}
    return (
        len(pattern.names),
        tuple([_atom(atom, numbers) for atom in pattern.atoms]),
        tuple([(given.variable, given.sources, _power(given.values)) for given in pattern.given]),
        tuple([(at, each.needs, _power(each.cost)) for at, each in pattern.aggregates.items()]),
        tuple(
            (at, cut.bounds, _power(cut.values), *((*near, _power(x)) for *near, x in cut.rows))
            for at, cut in pattern.ranges.items()
        ),
        (*pattern.links,),
        (*pattern.late,),
        (*pattern.equations,),
        (*pattern.equal,),
        (*pattern.tests,),
        (*pattern.filters,),
        (*pattern.below.items(),),
        frozenset(pattern.unequal),
        (*pattern.lower,),
        (pattern.risky, pattern.computed, pattern.outer, pattern.live, pattern.outputs),
        (pattern.bag, pattern.compacts),
        _power(rows),
    )


def _atom(atom: PatternAtom, numbers: dict[object, int]) -> Hashable:
    """An atom. Relations with assumed sizes are numbered from 0 in each pattern."""
    size, ranked = atom.size, atom.ranked
    reads: tuple[Hashable, ...] = (atom.source, atom.kind)
    if size.assumed:
        reads = tuple([numbers.setdefault(each, len(numbers)) for each in reads])
    columns = (0,) if atom.mirrored else sorted({*atom.columns.values(), *atom.fixed})
    tests = () if atom.mirrored else atom.tests
    found: list[Hashable] = [
        *reads,
        tuple(atom.columns.items()),
        (atom.fixed, atom.tests, ranked, atom.mirrored, atom.ascending, size.assumed),
        _power(size.rows),
    ]
    for column in columns:
        powers = size.degrees(column, tests, ranked).powers
        found.append(_power(powers[0]))
        found.append(_power(powers[2] / max(1.0, powers[1])))
        found.append(size.sorting(column, atom.tests, ranked) > FREE)
    return tuple(found)


def _numbers(pattern: QueryPattern, rows: float) -> Hashable:
    """The numbers of which a shape has the powers, and all that is known of assumed relations.
    Statistics of other relations are noted when they are read."""
    return (
        rows,
        tuple([given.values for given in pattern.given]),
        tuple([each.cost for each in pattern.aggregates.values()]),
        tuple([(cut.values, cut.rows) for cut in pattern.ranges.values()]),
        tuple([atom.size if atom.size.assumed else atom.size.rows for atom in pattern.atoms]),
    )


def _power(number: float) -> int:
    """The power of four of a number."""
    return frexp(number)[1] >> 1 if number > 0 else -100
