"""The parts of a conjunction that share one variable, or both ends of an edge, with the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from gdatalog.plan.join_plan import Branch, Filter, Join, JoinPlan, Seek, Slot, Step, Tally
from gdatalog.planner.comparisons import Comparisons
from gdatalog.planner.components import components
from gdatalog.planner.items import AtomItem, Conjunction, Item, NotItem, TestItem, variables_of
from gdatalog.planner.order.edges import edges_in, pairs_of, types_of
from gdatalog.planner.statistics import Statistics

Names = frozenset[str]
NONE: Names = frozenset()


def label_of(items: Sequence[Item]) -> str:
    """The items as text for people."""
    from gdatalog.plan.format import format_expr

    told = []
    for item in items:
        if isinstance(item, AtomItem):
            args = ", ".join(
                "_" if isinstance(arg, Slot) and arg.name.startswith("~") else format_expr(arg)
                for arg in item.args
            )
            told.append(f"{item.relation.replace('~', chr(39))}({args})")
        elif isinstance(item, TestItem):
            told.append(format_expr(item.test))
        else:
            told.append("a negation" if isinstance(item, NotItem) else "alternatives")
    return ", ".join(told)


def steps_of(items: Sequence[Item]) -> int:
    """About how many steps it takes to plan some items."""
    return len(items) << min(len(variables_of(items)), 8) + 2


def shared_variables(items: Sequence[Item]) -> set[str]:
    """The variables of more than one item."""
    once: set[str] = set()
    more: set[str] = set()
    for item in items:
        more |= once & item.variables
        once |= item.variables
    return more


def neighbours(items: Sequence[Item], names: set[str]) -> dict[str, Names]:
    """The variables that share an item with each variable."""
    near: dict[str, set[str]] = {name: set() for name in names}
    for item in items:
        inside = item.variables & names
        for name in inside:
            near[name] |= inside - {name}
    return {name: frozenset(others) for name, others in near.items()}


def hanging(
    items: Conjunction, keys: Names = NONE, cycles: bool = False
) -> tuple[str, list[Item]] | None:
    """A variable and the smallest part of the items that hangs at it alone, without keys.

    Both the part and the rest have further variables, since a single atom needs no table. With
    `cycles`, the rest of a part with a cycle may be single atoms.
    """
    shared = shared_variables(items) | keys
    found: list[tuple[int, str, list[Item]]] = []
    for whole in components(items, ()):
        for name in sorted(variables_of(whole) & shared):
            for part in components(whole, (name,)):
                inside = variables_of(part) & shared - {name}
                own = set(map(id, part))
                rest = variables_of(item for item in whole if id(item) not in own) & shared
                atoms = all(isinstance(item, AtomItem | TestItem) for item in part)
                kept = rest - {name} or (name in keys and len(part) < len(whole))
                kept = kept or (cycles and len(part) < len(whole) and is_cyclic(part))
                if inside and inside.isdisjoint(keys) and kept and atoms and name in types_of(part):
                    found.append((len(inside), name, part))
    return min(found, key=lambda each: each[:2])[1:] if found else None


def outer_loops(core: Sequence[str], items: Sequence[Item]) -> Iterator[tuple[str, ...]]:
    """Variables, and pairs of them, for an outer loop: pairs next to all of the core, those of
    which one is a vertex of high degree, and those with such a vertex next to neither: these have
    few bindings, or tables with few entries."""
    ranks = variables_of(item for item in items if isinstance(item, AtomItem) and item.ranked)
    limits = Comparisons(items).limits
    few = {name for name in ranks if any(op in (">", ">=") for op, _ in limits.get(name, ()))}
    yield from ((name,) for name in core)
    near = neighbours([item for item in items if isinstance(item, AtomItem)], set(core))
    for a, b in combinations(core, 2):
        whole = max(len(near[a]), len(near[b])) >= len(core) - 1
        if b in near[a] and (whole or few & {a, b} or few - near[a] - near[b]):
            yield (a, b) if len(near[a]) >= len(near[b]) else (b, a)


def hanging_at_edges(
    items: Conjunction, sizes: Statistics, live: Names
) -> Iterator[tuple[AtomItem, list[Conjunction]]]:
    """Edges, and the parts of the items that hang at both ends of each."""
    for atom in edges_in(items):
        size, ends = sizes(atom.relation, atom.version), atom.variables
        if atom.counted or atom.once or not size.symmetric or not size.loopless:
            continue
        others = components([i for i in items if not i.variables <= ends], ends)
        parts = [tuple(part) for part in others if _hangs(part, ends, live)]
        if parts:
            yield atom, parts


def _hangs(part: Sequence[Item], ends: Names, live: Names) -> bool:
    inside = variables_of(part)
    return (
        ends <= inside
        and inside.isdisjoint(live - ends)
        and all(isinstance(item, AtomItem | TestItem) for item in part)
        and not any(isinstance(item, AtomItem) and item.counted for item in part)
        and len(pairs_of(part)) + 1 >= len(frozenset().union(*pairs_of(part)))
    )


def is_cyclic(part: Sequence[Item]) -> bool:
    """Whether a connected part has a cycle of edges."""
    edges = pairs_of(part)
    return len(edges) >= len(frozenset().union(*edges)) > 0


def are_mixed(items: Sequence[Item]) -> bool:
    """Whether edges are of several relations, whose correlation formulas do not know."""
    return len({edge.relation for edge in edges_in(items)}) > 1


def within_bounds(items: Sequence[Item], names: Names) -> Conjunction:
    """The items over some variables, if formulas cannot estimate these: because a variable is
    compared with a constant, or because of several relations; otherwise none."""
    found = tuple(item for item in items if item.variables and item.variables <= names)
    atoms = any(isinstance(item, AtomItem) for item in found)
    return found if atoms and (Comparisons(found).limits or are_mixed(items)) else ()


# ------------------------------------------------------- plans with an outer loop and its tables


def binds(item: Item, name: str, tables: Mapping[str, object]) -> bool:
    """Whether an item is an atom that contains the variable and reads a relation."""
    return isinstance(item, AtomItem) and name in item.variables and is_relation(item, tables)


def is_relation(atom: AtomItem, tables: Mapping[str, object]) -> bool:
    """Whether an atom reads a relation, or a table by edges, which is indexed like one."""
    return atom.relation not in tables or atom.counted > 0


def fills_first(plan: JoinPlan, first: Sequence[str]) -> bool:
    """Whether a plan has the outer loop first, reads each table by its keys alone, and binds each
    key from a list, which bounds its values."""
    bound = [step.variable for step in plan.steps if isinstance(step, Join)]
    filled = [step for step in plan.steps if isinstance(step, Tally)]
    columns = {step.table: tuple(range(len(step.reads) + 1)) for step in filled}
    before = plan.steps[: plan.steps.index(filled[0])]
    in_order = all(
        ref.columns == columns[ref.relation] for ref in plan.tries if ref.relation in columns
    )
    return (
        tuple(bound[: len(first)]) == tuple(first)
        and in_order
        and not any(isinstance(step, Branch) for step in before)
        and all(
            step.key in [inner.variable for inner in step.steps if isinstance(inner, Join)]
            for step in filled
        )
    )


def behind(steps: Sequence[Step], first: Sequence[str]) -> int:
    """The index after the steps that bind the first variables and test them."""
    left, at = set(first), 0
    while at < len(steps) and (left or isinstance(steps[at], Seek | Filter)):
        step = steps[at]
        if isinstance(step, Join):
            left.discard(step.variable)
        at += 1
    return at
