"""A conjunction as a graph: its edges, and inequalities and orders between them.

Other modules import this one as `e`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations

from gdatalog.plan.join_plan import Apply, Slot
from gdatalog.planner import items as n
from gdatalog.planner.check.walk import connected
from gdatalog.planner.comparisons import Comparisons, rising
from gdatalog.planner.statistics import RelationStatistics, Statistics
from gdatalog.records import replace
from gdatalog.values import TypeName

Names = frozenset[str]


def rankable(size: RelationStatistics) -> bool:
    """Whether a relation is a symmetric graph, or has each edge in one direction by value: then
    `ranked` tries with comparisons can replace it."""
    return size.graph is not None and (bool(size.rises) or size.graph.symmetric)


def edge_of(item: n.Item) -> Pair | None:
    """The variables of an atom with two different variables; None for other items."""
    return item.edge if isinstance(item, n.AtomItem) else None


def edges_in(items: Iterable[n.Item]) -> list[n.AtomItem]:
    return [item for item in items if isinstance(item, n.AtomItem) and item.edge is not None]


def pairs_of(items: Iterable[n.Item]) -> set[Names]:
    """The pairs of variables that edges connect."""
    return {edge.variables for edge in edges_in(items)}


def operator(item: n.Item) -> str | None:
    """The operator of a comparison between two variables' keys; None for other items."""
    match item:
        case n.TestItem(Apply("!=", (Slot(a), Slot(b)))) if a != b:
            return "!="
        case n.TestItem(Apply("<" | "<=" | ">" | ">=" as op, (Slot(a, kind), Slot(b)))) if a != b:
            return None if kind == "symbol" else op
    return None


def ends(item: n.Item) -> Pair:
    match item:
        case n.TestItem(Apply(_, (Slot(a), Slot(b)))):
            return a, b
    raise AssertionError(item)


def unlike_neighbours(items: Sequence[n.Item], sizes: Statistics) -> set[Names]:
    """Pairs of variables that share an atom of a relation without loops."""
    edges = edges_in(items)
    return pairs_of([edge for edge in edges if sizes(edge.relation, edge.version).loopless])


def unlike_pairs(
    items: Sequence[n.Item], sizes: Statistics, known: Comparisons | None = None
) -> set[Names]:
    """Pairs of variables that differ in every solution; `known`: the comparisons of the items."""
    comparisons = known or Comparisons(items, rising(items, sizes))
    strict = {frozenset(pair) for pair, strict in comparisons.below.items() if strict}
    return strict | comparisons.unequal | unlike_neighbours(items, sizes)


def strict_order(items: Sequence[n.Item], sizes: Statistics) -> set[Pair] | None:
    """The strict order of the variables; None if compared variables may be equal."""
    comparisons = Comparisons(items, rising(items, sizes))
    unlike = unlike_pairs(items, sizes, comparisons)
    for pair, strict in comparisons.below.items():
        if not strict and frozenset(pair) not in unlike:
            return None
    return set(comparisons.below)


def chains_of(order: Collection[Pair]) -> list[tuple[str, ...]] | None:
    """The components of an order, if each is a total order; otherwise None."""
    pairs = sorted(order)
    chains = []
    under = Counter([high for _, high in pairs])
    for part in connected(map(frozenset, pairs)):
        names = {name for at in part for name in pairs[at]}
        chain = sorted(names, key=under.__getitem__)
        for pair in combinations(chain, 2):
            if pair not in order or pair[::-1] in order:
                return None
        chains.append(tuple(chain))
    return sorted(chains)


def has_triangle(names: Iterable[str], near: Collection[Names]) -> bool:
    return any(
        all(frozenset(pair) in near for pair in combinations(corners, 2))
        for corners in combinations(names, 3)
    )


def types_of(items: Sequence[n.Item]) -> dict[str, TypeName]:
    """The types of the variables that atoms bind."""
    return {
        arg.name: arg.type
        for item in items
        if isinstance(item, n.AtomItem)
        for arg in item.args
        if isinstance(arg, Slot)
    }


def in_order(items: Sequence[n.Item]) -> list[str]:
    """The variables, in the order of the text; variables outside atoms come last."""
    return list(dict.fromkeys([*types_of(items), *sorted(n.variables_of(items))]))


def comparison(op: str, left: str, right: str, kind: TypeName = "int") -> n.TestItem:
    return n.TestItem(Apply(op, (Slot(left, kind), Slot(right, kind)), "bool"))


def rank(name: str) -> str:
    """The variable for the rank of another variable's value; no user's name ends like this."""
    return name + "'"


def ranked(item: n.Item) -> n.Item:
    """The same atom or comparison over ranks."""
    if isinstance(item, n.AtomItem):
        args = tuple([Slot(rank(name), "int") for name in edge_of(item) or ()])
        return replace(item, args=args, ranked=True)
    a, b = ends(item)
    op = operator(item)
    assert op is not None
    return comparison(op, rank(a), rank(b))


Pair = tuple[str, str]
