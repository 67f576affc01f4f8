"""A cache of variable orders, by the shape of bodies.

The search takes most of the time of planning. Its result depends on the pattern's shape (which
atoms read the same relation, which variables they share, comparisons, variables of the answer), on
the sizes of relations, and on sampled correlations. Names do not matter. Sizes are compared by
powers of four: rows, distinct values, skew, and whether an index exists. Relations with assumed
sizes, as in a recursion, share orders. Others do not: two relations of the same size may join a
third with few rows or with many.

So a rule whose relations have changed a little is planned again without a search, and without the
statistics that only a search needs. Its estimates are those of the first plan.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import frexp

from gdatalog.plan.tuning import Tuning
from gdatalog.planner.order.pattern import PatternAtom, QueryPattern
from gdatalog.planner.order.search import best_order
from gdatalog.planner.order.search_space import FREE, Order

MOST = 1024  # cached orders

# By variable number: its rank in the order; its expected bindings; and the work.
Found = tuple[dict[int, int], dict[int, float], float]


class Orders:
    """An LRU cache of a database's variable orders."""

    def __init__(self) -> None:
        self.searched = 0  # number of searches
        self._found: dict[Hashable, Found] = {}

    def clear(self) -> None:
        self._found.clear()

    def best(self, pattern: QueryPattern, rows: float, tuning: Tuning) -> Order:
        """The cheapest order, for `rows` outer rows."""
        if len(pattern.atoms) < 2:
            return best_order(pattern, rows, tuning)  # hardly slower than a look-up
        key = shape_of(pattern, rows), tuning
        found = self._found.pop(key, None)
        if found is None:
            self.searched += 1
            order = best_order(pattern, rows, tuning)
            place = {name: at for at, name in enumerate(pattern.names)}
            found = (
                {place[name]: rank for name, rank in order.rank.items()},
                {place[name]: count for name, count in order.estimates.items()},
                order.work,
            )
            while len(self._found) >= MOST:
                del self._found[next(iter(self._found))]
        self._found[key] = found
        ranks, estimates, work = found
        names = pattern.names
        return Order(
            {names[at]: rank for at, rank in ranks.items()},
            {names[at]: count for at, count in estimates.items()},
            work,
        )


def shape_of(pattern: QueryPattern, rows: float) -> Hashable:
    """A key that is equal for patterns which can share an order."""
    numbers: dict[object, int] = {}
    return (
        len(pattern.names),
        tuple(_atom(atom, numbers) for atom in pattern.atoms),
        tuple((given.variable, given.sources, _power(given.values)) for given in pattern.given),
        tuple((at, each.needs, _power(each.cost)) for at, each in pattern.aggregates.items()),
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
        reads = tuple(numbers.setdefault(each, len(numbers)) for each in reads)
    columns = (0,) if atom.mirrored else sorted({*atom.columns.values(), *atom.fixed})
    tests = () if atom.mirrored else atom.tests
    degrees = [size.degrees(column, tests, ranked).powers for column in columns]
    return (
        *reads,
        tuple(atom.columns.items()),
        (atom.fixed, atom.tests, ranked, atom.mirrored, atom.ascending, size.assumed),
        (_power(size.rows), *(_power(powers[0]) for powers in degrees)),
        tuple(_power(powers[2] / max(1.0, powers[1])) for powers in degrees),
        tuple(size.sorting(column, atom.tests, ranked) > FREE for column in columns),
    )


def _power(number: float) -> int:
    """The power of four of a number."""
    return frexp(number)[1] >> 1 if number > 0 else -100
