"""A cache of variable orders, by the shapes of bodies."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import nullcontext
from math import frexp

from gdatalog.planner.observed import Answer, Observed, Question
from gdatalog.planner.order.pattern import PatternAtom, QueryPattern
from gdatalog.planner.order.search import best_order
from gdatalog.planner.order.search_space import FREE, Order
from gdatalog.records import dataclass
from gdatalog.settings import Thresholds

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
