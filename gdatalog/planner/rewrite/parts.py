"""The parts of a conjunction that share one variable, or both ends of an edge, with the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, combinations

from gdatalog.plan.join_plan import Slot
from gdatalog.planner.check.walk import connected
from gdatalog.planner.comparisons import Comparisons
from gdatalog.planner.components import components
from gdatalog.planner.items import AtomItem, Conjunction, Item, NotItem, TestItem, variables_of
from gdatalog.planner.order.edges import edges_in, pairs_of, types_of
from gdatalog.planner.statistics import Statistics
from gdatalog.records import dataclass

Names = frozenset[str]
NONE: Names = frozenset()


def label_of(items: Sequence[Item]) -> str:
    """The items as text for people."""
    from gdatalog.plan.labels import format_expr

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
    found = [each for whole in components(items, ()) for each in _separated(whole, shared, keys)]
    for _, name, _, separated in sorted(found, key=lambda each: each[:3]):
        part = separated.items
        some = len(part) < len(separated.whole)
        kept = separated.rest or (some and (name in keys or (cycles and is_cyclic(part))))
        if kept and name in types_of(part):
            return name, part
    return None


@dataclass(frozen=True, slots=True)
class _Separated:
    """A part of connected items: those at some stretches of a walk, by number. `rest`: how many
    further shared variables the other items have."""

    whole: Sequence[Item]
    walk: Sequence[int]
    stretches: Sequence[tuple[int, int]]
    rest: int

    @property
    def items(self) -> list[Item]:
        inside = {at for first, end in self.stretches for at in self.walk[first:end]}
        return [item for at, item in enumerate(self.whole) if at in inside]


def _separated(
    whole: Sequence[Item], shared: Collection[str], keys: Names
) -> Iterator[tuple[int, str, int, _Separated]]:
    """The parts of connected items that each shared variable separates, if they have further shared
    variables, no keys, and only atoms and tests; with the number of these variables, the separating
    one, and the place of the first item.

    One walk over items and variables finds them (Hopcroft and Tarjan, 1973): what is reached from a
    variable, and reaches nothing above it, is a part; so is all the rest.
    """
    names = sorted(variables_of(whole))
    numbers = {name: len(whole) + at for at, name in enumerate(names)}
    near = [[numbers[name] for name in item.variables] for item in whole]
    near += ([] for _ in names)
    for at in range(len(whole)):
        for number in near[at]:
            near[number].append(at)
    walk, places = [0], {0: 0}
    highest, least = [0], [0]  # the first place, and the first item, that is reached from a node
    cuts: dict[int, list[int]] = {}  # where the parts below each variable begin and end
    above, ways = [0], [iter(near[0])]
    while True:
        here = above[-1]
        for other in ways[-1]:
            there = places.setdefault(other, len(walk))
            if there == len(walk):
                walk.append(other)
                highest.append(there)
                least.append(other)
                above.append(there)
                ways.append(iter(near[other]))
                break
            highest[here] = min(highest[here], there)
        else:
            above.pop()
            ways.pop()
            if not above:
                break
            before = above[-1]
            highest[before] = min(highest[before], highest[here])
            least[before] = min(least[before], least[here])
            if highest[here] >= before and walk[before] >= len(whole):
                cuts.setdefault(walk[before], []).extend((here, len(walk)))
    among = [number >= len(whole) and names[number - len(whole)] in shared for number in walk]
    barred = [
        names[number - len(whole)] in keys
        if number >= len(whole)
        else not isinstance(whole[number], AtomItem | TestItem)
        for number in walk
    ]
    before_among, before_barred = [0, *accumulate(among)], [0, *accumulate(barred)]
    for name in names if before_among[-1] > 1 else ():
        if name not in shared:
            continue
        own = cuts.get(numbers[name], [])
        ends = [0, *own, len(walk)]
        beside = list(zip(ends[::2], ends[1::2], strict=True))
        for part in (*([pair] for pair in zip(own[::2], own[1::2], strict=True)), beside):
            size = sum([before_among[end] - before_among[first] for first, end in part])
            bad = sum([before_barred[end] - before_barred[first] for first, end in part])
            if part is beside:
                size, bad = size - 1, bad - (name in keys)
            if size and not bad:
                rest = before_among[-1] - 1 - size
                first_item = 0 if part is beside else least[part[0][0]]
                yield size, name, first_item, _Separated(whole, walk, part, rest)


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


def has_cycle(items: Sequence[Item]) -> bool:
    """Whether some edges are a cycle."""
    edges = sorted(map(sorted, pairs_of(items)))
    variables = {name for edge in edges for name in edge}
    return len(edges) > len(variables) - len(connected(map(frozenset, edges)))


def are_mixed(items: Sequence[Item]) -> bool:
    """Whether edges are of several relations, whose correlation formulas do not know."""
    return len({edge.relation for edge in edges_in(items)}) > 1


def within_bounds(items: Sequence[Item], names: Names) -> Conjunction:
    """The items over some variables, if formulas cannot estimate these: because a variable is
    compared with a constant, or because of several relations; otherwise none."""
    found = tuple([item for item in items if item.variables and item.variables <= names])
    atoms = any(isinstance(item, AtomItem) for item in found)
    return found if atoms and (Comparisons(found).limits or are_mixed(items)) else ()
