"""Degree order: ranks in place of the vertices of a chain such as x < y < z over a graph.

If every permutation of the chain's variables maps the rest of the conjunction to itself, any total
order of the vertices finds the same sets. So vertices are ranked by degree, ranks are enumerated,
and their values are sorted back into x, y, z (a `RestoreItem`) before anything else reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from gdatalog.plan.join_plan import Slot
from gdatalog.planner import items as n
from gdatalog.planner.order import automorphisms
from gdatalog.planner.order import edges as e
from gdatalog.planner.order.plan_inputs import PlanInputs
from gdatalog.planner.statistics import RelationStatistics, Statistics
from gdatalog.values import TypeName


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
    atoms = [item for item in items if isinstance(item, n.AtomItem)]
    if n.RestoreItem in map(type, items) or any(atom.ranked for atom in atoms):
        return tuple(items)
    relations = [atom.relation for atom in atoms]
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
    edges = [item for item in e.edges_in(items) if item.relation == relation]
    atoms = [item for item in edges if item.variables.isdisjoint(outer)]
    near = n.variables_of(atoms)
    tests = [item for item in items if e.operator(item) and item.variables <= near]
    order = e.strict_order([*atoms, *tests], inputs.sizes)
    chains = e.chains_of(order) if order else None
    if not order or chains is None:
        return None
    names = list(dict.fromkeys([name for atom in atoms for name in atom.edge or ()]))
    own = set(map(id, (*atoms, *tests)))
    late = [item for item in items if id(item) not in own]
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
    literals = automorphisms.literals_of(rest, None)
    assert literals is not None
    symmetries = automorphisms.Symmetries(literals, names)
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
