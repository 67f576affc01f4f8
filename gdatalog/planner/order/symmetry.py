"""Symmetry breaking: finds one of several equivalent solutions, in degree order.

Two rewrites of a conjunction, which preserve all answers:

`in_degree_order` is for chains such as x < y < z over a graph. If every permutation of the chain's
variables maps the rest to itself, any total order of the vertices finds the same sets. So vertices
are ranked by degree, ranks are enumerated, and their values are sorted back into x, y, z (a
`RestoreItem`) before anything else reads them.

`one_of_each` is for counts of all bindings. The automorphisms of the body divide solutions into
orbits. If the values of an orbit of variables are pairwise different, restrictions `<` select one
solution of each orbit, and the count is multiplied. `<` compares degrees if this helps, otherwise
values.

Both need to know whether relations are symmetric or without loops, which only finished relations
tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from gdatalog.plan.join_plan import Slot
from gdatalog.planner import items as n
from gdatalog.planner.comparisons import Comparisons, rising
from gdatalog.planner.order import edges as e
from gdatalog.planner.order.search import PlanInputs
from gdatalog.planner.statistics import RelationStatistics, Statistics
from gdatalog.settings import Thresholds
from gdatalog.values import TypeName


def without_implied(items: Sequence[n.Item], sizes: Statistics) -> tuple[n.Item, ...]:
    """The items without tests `x != y` that an atom or another comparison implies."""
    unequal = [item for item in items if e.operator(item) == "!="]
    if not unequal:
        return tuple(items)
    tests = set(unequal)
    others = [item for item in items if item not in tests]
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


# ----------------------------------------------------------------------- the order of degrees


def in_degree_order(
    items: Sequence[n.Item],
    outer: e.Names,
    live: e.Names,
    bag: bool,
    restores: bool,
    inputs: PlanInputs,
) -> tuple[n.Item, ...]:
    """The items, with the chains over a graph in degree order if that is sound.

    At most one graph is rewritten, since ranks of different graphs do not compare. The caller
    decides whether restoring values pays; without `restores`, nothing that needs it is done.
    """
    if any(isinstance(i, n.RestoreItem) or (isinstance(i, n.AtomItem) and i.ranked) for i in items):
        return tuple(items)
    relations = [item.relation for item in items if isinstance(item, n.AtomItem)]
    for relation, count in Counter(relations).items() if len(relations) > 2 else ():
        if count >= 3:  # a triangle has three
            found = _ranked(items, relation, outer, live, bag, restores, inputs)
            if found is not None:
                return found
    return tuple(items)


def _ranked(
    items: Sequence[n.Item],
    relation: str,
    outer: e.Names,
    live: e.Names,
    bag: bool,
    restores: bool,
    inputs: PlanInputs,
) -> tuple[n.Item, ...] | None:
    """The items with ranks in place of a graph's vertices; None if that is not sound."""
    edges = (item for item in e.edges_in(items) if item.relation == relation)
    atoms = [item for item in edges if item.variables.isdisjoint(outer)]
    near = n.variables_of(atoms)
    tests = [item for item in items if e.operator(item) and item.variables <= near]
    order = e.strict_order([*atoms, *tests], inputs.sizes)
    chains = e.chains_of(order) if order else None
    if not order or chains is None:
        return None
    names = list(dict.fromkeys(name for atom in atoms for name in e.edge_of(atom) or ()))
    own = {*atoms, *tests}
    late = [item for item in items if item not in own]
    needed = (live | n.variables_of(late)) & near
    if (needed and not restores) or not _promising(chains, e.pairs_of(atoms), needed, bag):
        return None
    size = inputs.sizes(relation, "full")
    if not all(_can_wait(item, near, size, inputs.sizes) for item in late) or not e.rankable(size):
        return None
    assert size.graph is not None
    if size.graph.skew < inputs.thresholds.degree_skew:
        return None
    unequal = [item for item in tests if e.operator(item) == "!="]
    rest: list[n.Item] = [*atoms, *unequal]
    rest += [e.comparison("!=", a, b) for a, b in sorted(order)]
    literals = e.literals_of(rest, None)
    assert literals is not None
    symmetries = e.Symmetries(literals, names)
    chained = frozenset([name for chain in chains for name in chain])
    stay = {name: name for name in names if name in chained or name in needed}
    for chain in chains:
        for a, b in pairwise(chain):
            if symmetries.extend({**stay, a: b, b: a}) is None:
                return None
    restored = [chain for chain in chains if not needed.isdisjoint(chain)]
    restored += [(name,) for name in names if name in needed - chained]
    types = e.types_of(atoms)
    return (
        *map(e.ranked, atoms),
        *map(e.ranked, unequal),
        *(e.ranked(e.comparison("<", a, b)) for chain in chains for a, b in pairwise(chain)),
        *(_restore(relation, chain, types) for chain in restored),
        *late,
    )


def _restore(relation: str, names: Sequence[str], types: Mapping[str, TypeName]) -> n.RestoreItem:
    values = tuple([Slot(name, types[name]) for name in names])
    return n.RestoreItem(relation, tuple(map(e.rank, names)), values)


def _promising(
    chains: Sequence[Sequence[str]], near: Collection[e.Names], needed: e.Names, bag: bool
) -> bool:
    """Whether degree order may be faster on skewed degrees."""
    if not any(e.has_triangle(chain, near) for chain in chains):
        return False
    # Under set semantics, the rest of a chain may only need a witness.
    return bag or all(needed.isdisjoint(chain) or needed.issuperset(chain) for chain in chains)


def _can_wait(item: n.Item, names: e.Names, graph: RelationStatistics, sizes: Statistics) -> bool:
    """Whether an item can be evaluated after the values of `names` are restored at no great
    cost."""
    if isinstance(item, n.AtomItem):
        size = sizes(item.relation, item.version)
        vertices = graph.distinct(frozenset((0,)))
        return len(item.variables) == len(item.args) and all(
            isinstance(arg, Slot)
            and (arg.name not in names or 2 * size.distinct(frozenset((at,))) >= vertices)
            for at, arg in enumerate(item.args)
        )
    return isinstance(item, (n.AggregateItem, n.Equation))


# ----------------------------------------------------------------------------- one of each


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
    found = e.restrictions_of(items, sizes, fixed=fixed)
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
    literals = e.literals_of([*atoms, *unequal], None)
    assert literals is not None
    names = e.in_order(atoms)
    near = e.pairs_of(atoms)
    symmetries = e.Symmetries(literals, names)
    found = symmetries.restrictions(
        lambda a, b: frozenset((a, b)) in unlike, lambda a, b: frozenset((a, b)) in near
    )
    share: int | None = found.orbit
    if order:
        moved = frozenset([name for pair in order for name in pair]) | symmetries.moved()
        share = e.share_of(order, [name for name in names if name in moved], found)
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
