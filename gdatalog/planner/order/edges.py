"""Atoms as edges of graphs: their ends, inequalities and orders between them, and ranks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations

from gdatalog.plan import Apply, Slot
from gdatalog.planner.comparisons import Comparisons, rising
from gdatalog.planner.items import AtomItem, Item, TestItem, variables_of
from gdatalog.planner.order import RelationStatistics, Statistics
from gdatalog.planner.rewrite.automorphisms import Pair
from gdatalog.records import replace
from gdatalog.values import TypeName

Names = frozenset[str]


def rankable(size: RelationStatistics) -> bool:
    """Whether a relation is a symmetric graph, or has each edge in one direction by value: then
    `ranked` tries with comparisons can replace it."""
    return size.graph is not None and (bool(size.rises) or size.graph.symmetric)


def edge_of(atom: AtomItem) -> Pair | None:
    """The variables of an atom with two different variables."""
    if len(atom.args) != 2 or len(atom.variables) != 2:
        return None
    a, b = atom.args
    return (a.name, b.name) if isinstance(a, Slot) and isinstance(b, Slot) else None


def operator(item: Item) -> str | None:
    """The operator of a comparison between two variables' keys; None for other items."""
    test = item.test if isinstance(item, TestItem) else None
    if not isinstance(test, Apply) or test.function not in ("<", "<=", ">", ">=", "!="):
        return None
    a, b = test.args
    if not (isinstance(a, Slot) and isinstance(b, Slot)) or a == b:
        return None
    return None if test.function != "!=" and a.type == "symbol" else test.function


def ends(item: Item) -> Pair:
    assert isinstance(item, TestItem) and isinstance(item.test, Apply)
    a, b = item.test.args
    assert isinstance(a, Slot) and isinstance(b, Slot)
    return a.name, b.name


def unlike_neighbours(items: Sequence[Item], sizes: Statistics) -> set[Names]:
    """Pairs of variables that share an atom of a relation without loops."""
    return {
        frozenset(edge)
        for item in items
        if isinstance(item, AtomItem) and (edge := edge_of(item)) is not None
        if sizes(item.relation, item.version).loopless
    }


def unlike_pairs(items: Sequence[Item], sizes: Statistics) -> set[Names]:
    """Pairs of variables that differ in every solution."""
    comparisons = Comparisons(items, rising(items, sizes))
    strict = {frozenset(pair) for pair, strict in comparisons.below.items() if strict}
    return strict | comparisons.unequal | unlike_neighbours(items, sizes)


def strict_order(items: Sequence[Item], sizes: Statistics) -> set[Pair] | None:
    """The strict order of the variables; None if compared variables may be equal."""
    comparisons = Comparisons(items, rising(items, sizes))
    unlike = unlike_pairs(items, sizes)
    if any(
        not strict and frozenset(pair) not in unlike for pair, strict in comparisons.below.items()
    ):
        return None
    return set(comparisons.below)


def chains_of(order: Collection[Pair]) -> list[tuple[str, ...]] | None:
    """The components of an order, if each is a total order; otherwise None."""
    parts: list[set[str]] = []
    for pair in order:
        joined = set(pair).union(*(part for part in parts if not part.isdisjoint(pair)))
        parts = [*(part for part in parts if part.isdisjoint(pair)), joined]
    chains = []
    for part in parts:
        chain = sorted(part, key=lambda name: sum((other, name) in order for other in part))
        if any((a, b) not in order or (b, a) in order for a, b in combinations(chain, 2)):
            return None
        chains.append(tuple(chain))
    return sorted(chains)


def has_triangle(names: Iterable[str], near: Collection[Names]) -> bool:
    return any(
        all(frozenset(pair) in near for pair in combinations(corners, 2))
        for corners in combinations(names, 3)
    )


def types_of(items: Sequence[Item]) -> dict[str, TypeName]:
    """The types of the variables that atoms bind."""
    return {
        arg.name: arg.type
        for item in items
        if isinstance(item, AtomItem)
        for arg in item.args
        if isinstance(arg, Slot)
    }


def in_order(items: Sequence[Item]) -> list[str]:
    """The variables, in the order of the text; variables outside atoms come last."""
    return list(dict.fromkeys([*types_of(items), *sorted(variables_of(items))]))


def comparison(op: str, left: str, right: str, kind: TypeName = "int") -> TestItem:
    return TestItem(Apply(op, (Slot(left, kind), Slot(right, kind)), "bool"))


def rank(name: str) -> str:
    """The variable for the rank of another variable's value; no user's name ends like this."""
    return name + "'"


def ranked(item: Item) -> Item:
    """The same atom or comparison over ranks."""
    if isinstance(item, AtomItem):
        args = tuple(Slot(rank(name), "int") for name in edge_of(item) or ())
        return replace(item, args=args, ranked=True)
    a, b = ends(item)
    op = operator(item)
    assert op is not None
    return comparison(op, rank(a), rank(b))
