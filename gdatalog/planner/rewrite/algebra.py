"""Counts by algebra: a count of a body's bindings as a signed sum of simpler counts. Sums of ints,
and counts grouped by variables, work in the same way.

Tests `x != y` are removed by Moebius inversion over partitions, negated atoms by differences
(`quotients.py`), and each term is counted by variable elimination (`elimination.py`). Alternatively
the tests stay, except those of some last variables, which are counted by list lengths
(`suffix.py`). The cheapest way is used if it is expected to cost less than enumeration.

This is sound only for counts and sums over all bindings of all variables. Bodies that generate
values, have aggregates or can fail are not rewritten.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from math import inf

from gdatalog.plan.join_plan import JoinPlan, Term
from gdatalog.planner import items as n
from gdatalog.planner.build import PlanBuilder
from gdatalog.planner.order.loop_work import work_of
from gdatalog.planner.order.plan_inputs import OutOfSteps, PlanInputs, Steps
from gdatalog.planner.order.symmetry import one_of_each
from gdatalog.planner.rewrite import orbits
from gdatalog.planner.rewrite.elimination import Elimination
from gdatalog.planner.rewrite.parts import are_mixed, is_cyclic, label_of
from gdatalog.planner.rewrite.quotients import Signed, differences, is_difference, quotients
from gdatalog.planner.statistics import Statistics
from gdatalog.records import dataclass, field, replace

MOST_NEGATED = 4
# For one count; then the best sum so far has to do, or enumeration. Half a second of planning.
MOST_STEPS = 300_000
_COUNTED = n.AtomItem | n.TestItem | n.NotItem | n.EitherItem | n.Equation

# For GPUs, which enumerate faster than these estimates assume, but rows of bits less so: each lane
# reads a row of its own, so words that are read together are not neighbours.
SURE, WORD_APART = 1.5, 1.5


@dataclass(frozen=True, slots=True)
class Algebra:
    """Whether counts become signed sums: "auto" by cost, "always" where possible, "quotients" and
    "suffixes" likewise with one kind only, "split" likewise with a split by degree. `tables`: loops
    may keep tables of counts; tables by edge or by vertex may have at most `entries`. `sure`:
    enumeration must cost this many times more than a sum. `word`: the cost of a word of a bitset.
    """

    mode: str
    tables: bool = True
    entries: float = field(default=inf, compare=False)
    sure: float = 1.0
    word: float = field(default=1.0, compare=False)


# Joins, what each is for, and what they cost.
Found = tuple[tuple[JoinPlan, ...], tuple[Term, ...], float]


def signed_sum(
    items: n.Conjunction,
    enumerated: JoinPlan,
    inputs: PlanInputs,
    algebra: Algebra,
    live: tuple[str, ...],
) -> Found | None:
    """The joins of a signed sum, its terms, and its cost; None if `enumerated` is better.

    `live`: the variables that group the count, and those whose values are summed.
    """
    inputs = replace(inputs, steps=Steps(MOST_STEPS))
    sizes, thresholds = inputs.sizes, inputs.thresholds
    forced = algebra.mode != "auto"
    if not _rewritable(items, sizes):
        return None
    enough = work_of(enumerated, sizes, live)
    rows = (sizes(i.relation, i.version).rows for i in items if isinstance(i, n.AtomItem))
    most = max(rows, default=0)

    def found(enough: float) -> Found | None:
        if not forced and enough < thresholds.algebra_from:
            return None
        return _cheaper(items, enough, inputs, algebra, live)

    mixed = are_mixed(items) and is_cyclic(items)
    fewest = thresholds.algebra_walks - mixed
    if most < thresholds.algebra_rows or len(n.variables_of(items)) < fewest:
        return found(enough)
    # Formulas do not see correlations such as clustering, and none between relations: sample walks
    # instead. A sum that costs less than the formulas' estimate does not need them.
    inputs = replace(inputs, thresholds=replace(thresholds, walked_from=-1 if mixed else 0))
    first = found(enough) if enough >= thresholds.algebra_halves else None
    if first is not None:
        return first
    body, orbit = (items, 1) if live else one_of_each(items, sizes, inputs.thresholds)
    walked = PlanBuilder(inputs).counting(body, frozenset(live), orbit)
    work = work_of(walked, sizes, live)
    other = found(max(enough, work))
    if other is None and not forced and mixed and work >= thresholds.algebra_from:
        return (walked,), (Term(label_of(items), 1),), work
    return other


def _cheaper(
    items: n.Conjunction, enough: float, inputs: PlanInputs, algebra: Algebra, live: tuple[str, ...]
) -> Found | None:
    """The cheapest signed sum, if it costs less than `enough`."""
    forced = algebra.mode != "auto"
    large = forced or enough >= inputs.thresholds.algebra_halves
    tables = algebra.tables, live, algebra.entries, algebra.word
    none = Elimination(inputs, *tables)
    sums = _sums(items, inputs, live, large) if algebra.mode != "suffixes" else ()
    best = _cheapest(sums, none, enough, forced)
    with suppress(OutOfSteps):
        if not live and algebra.mode in ("auto", "split"):
            best = _split(items, none, best, enough, algebra.mode == "split") or best
        if algebra.mode not in ("quotients", "split"):
            for terms in _wholes(items):
                found = Elimination(inputs, *tables)
                whole = all(found.whole(times, term, label_of(term)) for times, term in terms)
                if whole and (best is None or found.cost < best.cost):
                    best = found
    if best is None or (best.cost * algebra.sure >= enough and not forced):
        return None
    if not best.joins:  # every term is empty, or they cancel
        return None
    return tuple(best.joins), tuple(best.terms), best.cost


def _cheapest(
    sums: Iterable[list[Signed]], start: Elimination, least: float, forced: bool, times: int = 1
) -> Elimination | None:
    """The cheapest of some signed sums, `times` over, after what `start` has; None if all cost more
    than `least`, unless `forced`."""
    best: Elimination | None = None
    with suppress(OutOfSteps):
        for terms in sums:
            found = start.copied()
            merged = found.isomorphic.merged(terms, found.live)
            for coefficient, term in _large_first(merged):
                found.term(times * coefficient, term, label_of(term))
                found.cost += found.inputs.thresholds.algebra_term
                if found.cost >= (least if best is None else best.cost) and not forced:
                    break
            else:
                if best is None or found.cost < best.cost:
                    best = found
    return best


def _large_first(terms: Iterable[Signed]) -> list[Signed]:
    """Terms with many variables first: small ones may reuse their tables."""
    return sorted(terms, key=lambda each: -len(n.variables_of(each[1])))


def _split(
    items: n.Conjunction, none: Elimination, whole: Elimination | None, enough: float, forced: bool
) -> Elimination | None:
    """The cheapest sum whose largest term is split into the bindings in which some variable is
    light and those in which it is heavy; None if it does not cost much less than the best sum,
    `whole`. If it is still expensive, the light ones are split by another variable."""
    least = enough if whole is None else whole.cost
    if least < none.inputs.thresholds.algebra_split and not forced:
        return None
    bodies = orbits.bodies_to_split(items, none.inputs.sizes)
    if not bodies:
        return None
    with orbits.graph_of(items, none.inputs.sizes).rank_walks():
        return _split_bodies(bodies, none, least, forced)


def _split_bodies(
    bodies: Sequence[tuple[n.Conjunction, int]], none: Elimination, least: float, forced: bool
) -> Elimination | None:
    found: _Halves | None = None
    thresholds = none.inputs.thresholds
    for body, orbit in bodies:
        terms = [(orbit * sign, term) for sign, term in _terms(body, (), none.inputs, ()) or ()]
        if not terms:
            continue
        (times, term), *rest = _large_first(none.isomorphic.merged(terms))
        most = least / thresholds.algebra_split_gain if found is None else found.both.cost
        start = _cheapest([rest], none, most, forced)
        if start is not None:
            found = _halved(term, times, start, most, forced) or found
    best = None if found is None else found.both
    while found is not None and found.both.cost >= thresholds.algebra_split:
        most = found.both.cost / thresholds.algebra_split_again
        found = _halved(found.light, found.times, found.heavy, most, False)
        best = best if found is None else found.both
    return best


@dataclass(frozen=True, slots=True)
class _Halves:
    """A split of a term, `times` over: its light half, and the sums of the heavy half and of both,
    after other terms."""

    light: n.Conjunction
    times: int
    heavy: Elimination
    both: Elimination


def _halved(
    term: n.Conjunction, times: int, start: Elimination, least: float, forced: bool
) -> _Halves | None:
    """The cheapest split of a term, after `start`; None if all cost more than `least`."""
    best: _Halves | None = None
    sums = partial(_sums, inputs=start.inputs, live=(), large=True)
    for ways in orbits.split_by_degree(term, start.inputs):
        for light, heavy in ways:
            first = _cheapest(sums(heavy), start, least, forced, times)
            if first is None:
                break  # hardly another degree is better
            both = _cheapest(sums(light), first, least, forced, times)
            if both is not None and (best is None or both.cost < best.both.cost):
                best = _Halves(light, times, first, both)
                least = min(least, both.cost)
    return best


def _rewritable(items: Sequence[n.Item], sizes: Statistics) -> bool:
    if not all(isinstance(item, _COUNTED) for item in items):
        return False
    if any(map(n.item_may_fail, items)):
        return False
    atoms = [item for item in items if isinstance(item, n.AtomItem)]
    full = all(atom.version == "full" and not atom.ranked for atom in atoms)
    return full and not any(sizes(atom.relation, atom.version).assumed for atom in atoms)


def _sums(
    items: n.Conjunction, inputs: PlanInputs, live: tuple[str, ...], large: bool
) -> Iterator[list[Signed]]:
    """The signed sums to compare: negated atoms kept or as differences, with all symmetry breaking
    or with part of it; for `large` counts also the sum of two equal halves."""
    for expanded in _expansions(items):
        whole = _terms(items, expanded, inputs, live)
        if whole is not None:
            yield whole
        if expanded or live:
            continue
        restricted = orbits.partly_restricted(items, inputs.sizes)
        sums = ([(orbit, body)] for body, orbit in restricted)
        # a half has one test less at most: hopeless if the whole has too many
        halves = orbits.halves(items, inputs) if large and whole is not None else ()
        for bodies in chain(sums, halves):
            each = [
                (times, terms)
                for times, body in bodies
                if (terms := _terms(body, expanded, inputs, live)) is not None
            ]
            if len(each) == len(bodies):
                yield [(times * sign, term) for times, terms in each for sign, term in terms]


def _wholes(items: n.Conjunction) -> Iterator[list[Signed]]:
    """The signed sums with negated atoms as differences and all `!=` kept."""
    negated = [item for item in items if isinstance(item, n.NotItem)]
    if all(map(is_difference, negated)) and len(negated) <= MOST_NEGATED:
        yield differences(items, negated)


def _expansions(items: Sequence[n.Item]) -> list[Collection[n.Item]]:
    """The sets of negated atoms to turn into differences: all, or none."""
    negated = [item for item in items if is_difference(item)]
    return [(), tuple(negated)] if 0 < len(negated) <= MOST_NEGATED else [()]


def _terms(
    items: n.Conjunction, expanded: Collection[n.Item], inputs: PlanInputs, live: tuple[str, ...]
) -> list[Signed] | None:
    terms: list[Signed] = []
    for sign, body in differences(items, expanded):
        found = quotients(body, inputs, live)
        if found is None:
            return None
        terms += [(sign * coefficient, quotient) for coefficient, quotient in found]
    return terms
