"""A cache of variable orders, by the shapes of bodies."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
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
    assumed: dict[object, int] = {}
    given, aggregates, ranges = pattern.given, pattern.aggregates, pattern.ranges
    return (
        len(pattern.names),
        tuple([_atom(atom, assumed) for atom in pattern.atoms]),
        tuple([(each.variable, each.sources) for each in given]),
        tuple([(at, each.needs) for at, each in aggregates.items()]),
        tuple([(at, cut.bounds, *[row[:2] for row in cut.rows]) for at, cut in ranges.items()]),
        (*pattern.links,),
        (*pattern.late,),
        (*pattern.equations,),
        (*pattern.equal,),
        (*pattern.tests,),
        (*pattern.filters,),
        (*pattern.one_sided,),
        (*pattern.below.items(),),
        frozenset(pattern.unequal),
        (*pattern.lower,),
        (pattern.risky, pattern.computed, pattern.outer, pattern.live, pattern.outputs),
        (pattern.bag, pattern.compacts),
        _powers(
            [
                rows,
                *[each.values for each in given],
                *[each.cost for each in aggregates.values()],
                *[cut.values for cut in ranges.values()],
                *[times for cut in ranges.values() for *_, times in cut.rows],
            ]
        ),
    )


def _atom(atom: PatternAtom, known: dict[object, int]) -> Hashable:
    """An atom. Relations with assumed sizes are numbered from 0 in each pattern."""
    size = atom.size
    reads: tuple[Hashable, ...] = (atom.source, atom.kind)
    if size.assumed:
        reads = tuple([known.setdefault(each, len(known)) for each in reads])
    numbers: list[float] = [size.rows]
    sorts: list[bool] = []
    for column in (0,) if atom.mirrored else sorted({*atom.columns.values(), *atom.fixed}):
        powers = atom.of_column(None if atom.mirrored else column).powers
        numbers += (powers[0], powers[2] / max(1.0, powers[1]))
        sorts.append(atom.sorting(column) > FREE)
    return (
        *reads,
        tuple(atom.columns.items()),
        (atom.fixed, atom.tests, atom.ranked, atom.mirrored, atom.ascending, size.assumed),
        _powers(numbers),
        *sorts,
    )


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


def _powers(numbers: Sequence[float]) -> tuple[int, ...]:
    """The powers of four of some numbers."""
    return tuple([frexp(number)[1] >> 1 if number > 0 else -100 for number in numbers])
