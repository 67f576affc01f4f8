"""Counts by algebra: a rule that counts all bindings of a body, as a signed sum of simpler counts.
Sums of ints, and counts for each value of some variables, are signed sums in the same way.

The tests `x != y` of the body go by inversion over partitions, negated atoms as differences
(`quotients.py`); each term is counted by variable elimination (`elimination.py`). Or they stay, but
for those of some last variables, which are counted by the sizes of lists (`suffix.py`). It is done
where it is expected to cost less than to enumerate the bindings.

Sound for counts and sums over all bindings only: the terms range over the distinct bindings of all
variables. A body that generates values or has aggregates is not rewritten, nor one that can fail.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from math import inf

from gdatalog.plan.nodes import JoinPlan, Term
from gdatalog.plan.tuning import Tuning
from gdatalog.planner.build import PlanBuilder
from gdatalog.planner.items import (
    AtomItem,
    Conjunction,
    EitherItem,
    Equation,
    Item,
    NotItem,
    TestItem,
    item_may_fail,
    variables_of,
)
from gdatalog.planner.order.orders import Orders
from gdatalog.planner.order.sizes import Params, Statistics
from gdatalog.planner.order.symmetry import one_of_each
from gdatalog.planner.order.work import work_of
from gdatalog.planner.rewrite.elimination import Elimination
from gdatalog.planner.rewrite.orbits import halves, partly_restricted
from gdatalog.planner.rewrite.parts import label_of
from gdatalog.planner.rewrite.quotients import Signed, differences, is_difference, quotients
from gdatalog.records import dataclass, field, replace

MOST_NEGATED = 4
_COUNTED = AtomItem | TestItem | NotItem | EitherItem | Equation


# Of a GPU's work: it enumerates fast what these estimates make dear.
SURE = 1.5


@dataclass(frozen=True, slots=True)
class Algebra:
    """Whether counts become sums: "auto" by cost, "always" where it can be done; "quotients" and
    "suffixes" the same, of one kind only. `tables`: loops may keep tables of counts; those by edge
    or by vertex only if they have no more than so many `entries`. `sure`: how many times the work
    of a sum enumeration has to be."""

    mode: str
    tables: bool = True
    entries: float = field(default=inf, compare=False)
    sure: float = 1.0


NEVER = Algebra("never")


def signed_sum(
    items: Conjunction,
    enumerated: JoinPlan,
    sizes: Statistics,
    params: Params | None,
    orders: Orders,
    tuning: Tuning,
    algebra: Algebra,
    keys: tuple[str, ...] = (),
    targets: tuple[str, ...] = (),
) -> tuple[tuple[JoinPlan, ...], tuple[Term, ...], float] | None:
    """The joins of a signed sum, what each is for, and what they cost; None where `enumerated` is
    better.

    `keys`: the variables whose values are counted each by itself. `targets`: those whose values are
    added up, where it is a sum.
    """
    live = tuple(dict.fromkeys((*keys, *targets)))
    forced = algebra.mode not in ("auto", "never")
    if algebra.mode == "never" or not _rewritable(items, sizes):
        return None
    enough = work_of(enumerated, sizes, live)
    rows = (sizes(i.relation, i.version).rows for i in items if isinstance(i, AtomItem))
    most = max(rows, default=0)
    if most >= tuning.algebra_rows and len(variables_of(items)) >= tuning.algebra_walks:
        # Formulas know nothing of how neighbours are joined to each other.
        tuning = replace(tuning, walked_from=0)
        enough = max(enough, _walked(items, sizes, params, orders, tuning, live))
    if not forced and enough < tuning.algebra_from:
        return None
    best: Elimination | None = None
    large = forced or enough >= tuning.algebra_halves
    for terms in _sums(items, sizes, live, large) if algebra.mode != "suffixes" else ():
        found = Elimination(sizes, params, orders, tuning, algebra.tables, live, algebra.entries)
        least = enough if best is None else best.cost
        merged = found.isomorphic.merged(terms, live)
        # What large terms make tables of, small ones may read.
        for coefficient, term in sorted(merged, key=lambda each: -len(variables_of(each[1]))):
            found.term(coefficient, term, label_of(term))
            found.cost += tuning.algebra_term
            if found.cost >= least and not forced:
                break
        else:
            if best is None or found.cost < best.cost:
                best = found
    if not live and algebra.mode != "quotients":
        for terms in _wholes(items):
            found = Elimination(sizes, params, orders, tuning, algebra.tables)
            whole = all(found.whole(times, term, label_of(term)) for times, term in terms)
            if whole and (best is None or found.cost < best.cost):
                best = found
    if best is None or (best.cost * algebra.sure >= enough and not forced):
        return None
    if not best.joins:  # every term is empty, or they cancel
        return None
    return tuple(best.joins), tuple(best.terms), best.cost


def _walked(
    items: Conjunction,
    sizes: Statistics,
    params: Params | None,
    orders: Orders,
    tuning: Tuning,
    live: tuple[str, ...],
) -> float:
    """The work of enumeration, as walks along lists estimate it."""
    body = items if live else one_of_each(items, sizes, tuning)[0]
    builder = PlanBuilder(sizes, (), False, params, orders, tuning)
    steps = builder.whole(body, frozenset(live), True, frozenset(), 1.0)
    return work_of(JoinPlan(builder.tries(), steps, (), True), sizes, live)


def _rewritable(items: Sequence[Item], sizes: Statistics) -> bool:
    if not all(isinstance(item, _COUNTED) for item in items):
        return False
    if any(map(item_may_fail, items)):
        return False
    atoms = [item for item in items if isinstance(item, AtomItem)]
    full = all(atom.version == "full" and not atom.ranked for atom in atoms)
    return full and not any(sizes(atom.relation, atom.version).assumed for atom in atoms)


def _sums(
    items: Conjunction, sizes: Statistics, live: tuple[str, ...], large: bool
) -> Iterator[list[Signed]]:
    """The signed sums that a count can be: with negated atoms as they are or as differences, and
    with one solution of each orbit or with all; of `large` counts also two halves that are alike.
    """
    for expanded in _expansions(items):
        sums: list[list[Signed]] = [[(1, items)]]
        if not expanded and not live:
            sums += [[(orbit, body)] for body, orbit in partly_restricted(items, sizes)]
            sums += halves(items, sizes) if large else ()
        for bodies in sums:
            each = [
                (times, terms)
                for times, body in bodies
                if (terms := _terms(body, expanded, sizes, live)) is not None
            ]
            if len(each) == len(bodies):
                yield [(times * sign, term) for times, terms in each for sign, term in terms]


def _wholes(items: Conjunction) -> Iterator[list[Signed]]:
    """The signed sums of bodies that keep their `!=`, with negated atoms as differences."""
    negated = [item for item in items if isinstance(item, NotItem)]
    if all(map(is_difference, negated)) and len(negated) <= MOST_NEGATED:
        yield differences(items, negated)


def _expansions(items: Sequence[Item]) -> list[Collection[Item]]:
    """Which negated atoms become differences: all of them, or none."""
    negated = [item for item in items if is_difference(item)]
    if not negated or len(negated) > MOST_NEGATED:
        return [()]
    return [subset for size in (0, len(negated)) for subset in combinations(negated, size)]


def _terms(
    items: Conjunction, expanded: Collection[Item], sizes: Statistics, live: tuple[str, ...]
) -> list[Signed] | None:
    terms: list[Signed] = []
    for sign, body in differences(items, expanded):
        found = quotients(body, sizes, live)
        if found is None:
            return None
        terms += [(sign * coefficient, quotient) for coefficient, quotient in found]
    return terms
