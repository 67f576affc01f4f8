"""Orders of variables that have been found, for bodies of the same shape.

The search for an order takes most of the time of a plan. Its outcome depends on the shape of a
pattern (which atoms read the same relation, which variables their columns share, what is compared
and asked for), on how large the relations are, and on what is seen of their rows together. What
variables are called does not matter. Sizes count in powers of four: how many rows there are, how
many values a column has, how unevenly the rows are spread over them, and whether an index is there.
Where sizes are only assumed, as of a recursion, any relations may take each other's orders. Others
keep to their own: two relations of the same size may meet a third in few rows or in many.

So a rule whose relations have changed a little is planned anew without a search, and without the
statistics that only a search asks for. Its estimates are those of the plan that was made first.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import frexp

from gdatalog.plan.tuning import Tuning
from gdatalog.planner.order.pattern import PatternAtom, QueryPattern
from gdatalog.planner.order.search import FREE, best_order
from gdatalog.planner.order.search_state import Order

MOST = 1024  # orders that are kept

# Of each variable, by its number: its place in the order, and the bindings that are expected.
Found = tuple[dict[int, int], dict[int, float], float]


class Orders:
    """The orders that a database's plans have taken, those that were used last."""

    def __init__(self) -> None:
        self.searched = 0  # how often an order was looked for
        self._found: dict[Hashable, Found] = {}

    def clear(self) -> None:
        self._found.clear()

    def best(self, pattern: QueryPattern, rows: float, tuning: Tuning) -> Order:
        """The order that costs least, for so many rows from outside."""
        if len(pattern.atoms) < 2:
            return best_order(pattern, rows, tuning)  # which costs hardly more than to look it up
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
    """What is the same where one order serves."""
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
        (pattern.risky, pattern.computed, pattern.outer, pattern.live, pattern.outputs),
        (pattern.bag, pattern.compacts),
        _power(rows),
    )


def _atom(atom: PatternAtom, numbers: dict[object, int]) -> Hashable:
    """An atom. What it reads is a number, from 0 in each pattern, where its size is assumed."""
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
    """In which power of four a number lies."""
    return frexp(number)[1] >> 1 if number > 0 else -100
