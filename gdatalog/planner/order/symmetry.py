"""Symmetry breaking: finds one of several equivalent solutions.

`one_of_each` is for counts of all bindings. The automorphisms of the body divide solutions into
orbits. If the values of an orbit of variables are pairwise different, restrictions `<` select one
solution of each orbit, and the count is multiplied. `<` compares degrees if this helps, otherwise
values.

This and `degree_order.py` need to know whether relations are symmetric or without loops, which only
finished relations tell.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gdatalog.planner import items as n
from gdatalog.planner.comparisons import Comparisons, rising
from gdatalog.planner.order import automorphisms
from gdatalog.planner.order import edges as e
from gdatalog.planner.statistics import RelationStatistics, Statistics
from gdatalog.settings import Thresholds


def without_implied(items: Sequence[n.Item], sizes: Statistics) -> tuple[n.Item, ...]:
    """The items without tests `x != y` that an atom or another comparison implies."""
    tests = [item for item in items if isinstance(item, n.TestItem)]
    unequal = [test for test in tests if e.operator(test) == "!="]
    if not unequal:
        return tuple(items)
    tested = set(unequal)
    others = [item for item in items if item not in tested]
    below = Comparisons(others, rising(others, sizes)).below
    loopless = e.unlike_neighbours(others, sizes)
    implied = set()
    for item in unequal:
        a, b = e.ends(item)
        if below.get((a, b)) or below.get((b, a)):
            implied.add(item)
        elif frozenset((a, b)) in loopless and (a, b) not in below and (b, a) not in below:
            implied.add(item)  # together with x <= y it means x < y, which is worth a cut
    return tuple([item for item in items if item not in implied])


def one_of_each(
    items: Sequence[n.Item], sizes: Statistics, thresholds: Thresholds, fixed: Collection[str] = ()
) -> tuple[tuple[n.Item, ...], int]:
    """Items with fewer solutions, and the number of original solutions that each stands for.

    Only for a count of all solutions, or of the solutions for each value of `fixed` variables: the
    choice from an orbit has no meaning.
    """
    counted = any(isinstance(item, n.AtomItem) and item.counted for item in items)
    if any(map(n.item_may_fail, items)) or (len(n.variables_of(items)) < 3 and not counted):
        return tuple(items), 1
    by_degree = None if fixed else _by_degree(items, sizes, thresholds)
    return by_degree or _by_value(items, sizes, fixed)


def _by_value(
    items: Sequence[n.Item], sizes: Statistics, fixed: Collection[str]
) -> tuple[tuple[n.Item, ...], int]:
    """For any body: restrictions compare values, whose type must have an order."""
    types = e.types_of(items)
    found = automorphisms.restrictions_of(items, sizes, fixed=fixed)
    if found is None:
        return tuple(items), 1
    tests = [e.comparison("<", a, b, types[a]) for a, b in found.pairs]
    return (*items, *tests), found.orbit


def _by_degree(
    items: Sequence[n.Item], sizes: Statistics, thresholds: Thresholds
) -> tuple[tuple[n.Item, ...], int] | None:
    """For a body of one graph's edges and comparisons: in degree order.

    Existing comparisons can be dropped if each orbit has the same number of solutions that satisfy
    them, whatever the order.
    """
    atoms = e.edges_in(items)
    tests = [item for item in items if isinstance(item, n.TestItem) and e.operator(item)]
    size = sizes(atoms[0].relation, atoms[0].version) if atoms else None
    if (
        size is None
        or not e.rankable(size)
        or len(atoms) + len(tests) < len(items)
        or len({atom.relation for atom in atoms}) > 1
        or not n.variables_of(tests) <= n.variables_of(atoms)
        or any(atom.ranked for atom in atoms)
    ):
        return None
    order = e.strict_order(items, sizes)
    if order is None:
        return None
    unlike = e.unlike_pairs(items, sizes)
    unequal = [item for item in tests if e.operator(item) == "!="]
    apart = e.unlike_neighbours(atoms, sizes)  # implied by atoms
    unequal += [
        e.comparison("!=", a, b) for a, b in sorted(order) if frozenset((a, b)) not in apart
    ]
    literals = automorphisms.literals_of([*atoms, *unequal], None)
    assert literals is not None
    names = e.in_order(atoms)
    near = e.pairs_of(atoms)
    symmetries = automorphisms.Symmetries(literals, names)
    found = symmetries.restrictions(
        lambda a, b: frozenset((a, b)) in unlike, lambda a, b: frozenset((a, b)) in near
    )
    share: int | None = found.orbit
    if order:
        moved = frozenset([name for pair in order for name in pair]) | symmetries.moved()
        share = automorphisms.share_of(order, [name for name in names if name in moved], found)
    if (
        share is None
        or not found.pairs
        or not _degrees_help(found.pairs, near, atoms, size, thresholds)
    ):
        return None
    tests = [*unequal, *(e.comparison("<", a, b) for a, b in found.pairs)]
    return (*map(e.ranked, atoms), *map(e.ranked, tests)), share


def _degrees_help(
    pairs: Sequence[e.Pair],
    near: Collection[e.Names],
    atoms: Sequence[n.AtomItem],
    size: RelationStatistics,
    thresholds: Thresholds,
) -> bool:
    """Whether degree order is better than the order of values."""
    if "symbol" in e.types_of(atoms).values():
        return True  # symbols have no order that can cut lists
    below = Comparisons([e.comparison("<", a, b) for a, b in pairs]).below
    compared = {frozenset(pair) for pair in below}
    names = sorted({name for pair in pairs for name in pair})
    assert size.graph is not None
    skewed = size.graph.skew >= thresholds.degree_skew
    return skewed and e.has_triangle(names, {pair for pair in near if pair in compared})
