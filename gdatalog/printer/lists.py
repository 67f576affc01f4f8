"""The lists of a level: cut to ranges, walked in place, or intersected into a buffer.

A buffer is stored with the lists it intersects and the cuts it applies. A level can start from it
if the level has all these lists and all these cuts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gdatalog.plan import Join, RangeBound, Slot
from gdatalog.plan.nest import TrieNode
from gdatalog.printer.nest_state import Buffer, KnownPositions, NestState, Range
from gdatalog.records import dataclass, field

# The search with which a cut moves the start, or the end, of a range.
STARTS = {">": "upper", ">=": "lower"}
ENDS = {"<": "lower", "<=": "upper"}

# Prefer to walk a root that the next level descends from, unless another root is smaller by more
# than this factor: its lists are what the work is split into.
LEADING = 4


@dataclass(slots=True)
class LevelLists:
    """The lists of a level, without duplicates, each with the cuts (by number) that it implies.

    `roots` are nodes for lookups, if there is a list to walk: roots of tries, and all nodes of hash
    tries.
    """

    lists: dict[TrieNode, set[int]]
    roots: dict[TrieNode, set[int]]

    @staticmethod
    def of(nest: NestState, step: Join) -> LevelLists:
        met = LevelLists({}, {})
        for place, part in enumerate(step.participants):
            node = nest.paths.node(part)
            if nest.above_tally(node):
                continue
            kind = met.lists if node.terms and not nest.hashed(node) else met.roots
            kind.setdefault(node, set()).update(at for p, at in step.implied if p == place)
        if nest.tile:
            # A cut that one list implies holds for the intersection. Applying it to the other lists
            # would cost a search, a chain of dependent loads.
            within = set().union(*met.lists.values())
            met.lists = {node: set(within) for node in met.lists}
        return met

    @property
    def nodes(self) -> frozenset[TrieNode]:
        return frozenset(self.lists)


@dataclass(frozen=True, slots=True)
class Sought:
    """A range of an array, searched for the loop's values by an ascending cursor."""

    array: str
    low: str
    high: str
    node: TrieNode | None = None


@dataclass(slots=True)
class Walk:
    """The range of an array that a level's loop runs over. `node`: the trie node of that range.

    `others`: lists that must contain the value too, if there is no buffer of the intersection: the
    loop leapfrogs. `cuts`: tests of each value, for lists that are not sorted.
    """

    array: str
    low: str
    high: str
    node: TrieNode | None = None
    others: list[Sought] = field(default_factory=list)
    cuts: tuple[RangeBound, ...] = ()


def walk_of(
    nest: NestState,
    step: Join,
    met: LevelLists,
    known: KnownPositions,
    below: Collection[TrieNode] = (),
) -> Walk:
    """The walk over the intersection of a level's lists.

    `below`: the nodes of the next level; the walk should lead to one of them.
    """
    if len(met.lists) < 2:
        # Without lists, walk the smallest root, and look values up in the others.
        term = Slot(step.variable, step.type)

        def length(node: TrieNode) -> int:
            if node.terms:  # a list of a hash trie
                return 0
            values = nest.tries[node.trie].levels[0].size
            return values if node.child(term) in below else LEADING * values

        node = next(iter(met.lists)) if met.lists else min(met.roots, key=length)
        implied = met.lists[node] if met.lists else met.roots[node]
        if nest.hashed(node):
            left = tuple(cut for at, cut in enumerate(step.cuts) if at not in implied)
            return Walk(nest.values(node), *nest.range_of(node, known), node, cuts=left)
        low, high = trimmed(nest, node, step.cuts, implied, known)
        clip = known.clip
        if clip is not None and clip.node == node:
            own, low, high = (low, high), nest.text.name("l"), nest.text.name("h")
            nest.text.line(f"{low} = max({own[0]}, {clip.low})")
            nest.text.line(f"{high} = min({own[1]}, {clip.high})")
        return Walk(nest.values(node), low, high, node)
    if nest.tile and not nest.together(known):
        return leaps(nest, step, met, known)
    walk = intersection(nest, step, met, known)
    return walk if known.clip is None else _clipped(nest, walk, known)


def ranges_of(nest: NestState, step: Join, met: LevelLists, known: KnownPositions) -> list[Sought]:
    """The ranges to intersect: an existing buffer, and the remaining lists."""
    found = start_of(nest, step, met, known)
    ranges: list[Sought] = []
    left = met.nodes
    if found is not None:
        covered, buffer, (low, high) = found
        ranges.append(Sought(buffer.array, low, high))
        left = met.nodes - covered
    for node in in_order(nest, left, known):
        low, high = trimmed(nest, node, step.cuts, met.lists[node], known)
        clip = known.clip
        if clip is not None and clip.node == node:
            own, low, high = (low, high), nest.text.name("l"), nest.text.name("h")
            nest.text.line(f"{low} = max({own[0]}, {clip.low})")
            nest.text.line(f"{high} = min({own[1]}, {clip.high})")
        ranges.append(Sought(nest.values(node), low, high, node))
    return ranges


def leaps(nest: NestState, step: Join, met: LevelLists, known: KnownPositions) -> Walk:
    """A walk over one list that skips values missing in the others."""
    first, *others = ranges_of(nest, step, met, known)
    return Walk(first.array, first.low, first.high, first.node, others)


def _clipped(nest: NestState, walk: Walk, known: KnownPositions) -> Walk:
    """The part of an intersection that lies in the clip of one of its lists."""
    text, clip = nest.text, known.clip
    assert clip is not None
    values = nest.values(clip.node)
    low, high = text.name("l"), text.name("h")
    text.line(f"{low}, {high} = {walk.low}, {walk.low}")
    with text.block(f"if {clip.low} < {clip.high}"):
        first, last = f"{values}[{clip.low}]", f"{values}[{clip.high} - 1]"
        text.line(f"{low} = {nest.call('lower', walk.array, walk.low, walk.high, first)}")
        text.line(f"{high} = {nest.call('upper', walk.array, low, walk.high, last)}")
    return Walk(walk.array, low, high)


def trimmed(
    nest: NestState,
    node: TrieNode,
    cuts: Sequence[RangeBound],
    implied: set[int],
    known: KnownPositions,
) -> Range:
    """The range of a node's list that satisfies the cuts."""
    left = [cut for at, cut in enumerate(cuts) if at not in implied]
    return cut_range(nest, nest.values(node), nest.range_of(node, known), left, known, node)


def cut_range(
    nest: NestState,
    array: str,
    whole: Range,
    cuts: Sequence[RangeBound],
    known: KnownPositions,
    node: TrieNode | None = None,
) -> Range:
    """The part of a sorted range that satisfies the cuts."""
    low, high = whole
    for cut in cuts:
        starts = cut.op in STARTS
        turn = known.turns.get(cut.bound.name) if isinstance(cut.bound, Slot) else None
        if turn is not None and (turn.array, turn.node) == (array, node):
            # The bound is the current position of a loop over this very list.
            place = turn.at + (" + 1" if cut.op in (">", "<=") else "")
            found = f"max({low}, {place})" if starts else f"min({high}, {place})"
        else:
            bound = nest.key(cut.bound, known)
            found = nest.call((STARTS if starts else ENDS)[cut.op], array, low, high, bound)
        name = nest.text.name("l" if starts else "h")
        nest.text.line(f"{name} = {found}")
        low, high = (name, high) if starts else (low, name)
    return low, high


def start_of(
    nest: NestState, step: Join, met: LevelLists, known: KnownPositions
) -> tuple[frozenset[TrieNode], Buffer, Range] | None:
    """The existing intersection that covers the most lists of a level, cut to the level's cuts."""

    def serves(nodes: frozenset[TrieNode], buffer: Buffer) -> bool:
        # If the plan says to reuse that level's list, its cuts are implied.
        covered = step.reuse is not None and step.reuse.variable == buffer.variable
        return nodes <= met.nodes and (covered or all(cut in step.cuts for cut in buffer.cuts))

    usable = [found for found in known.buffers.items() if serves(*found)]
    if not usable:
        return None
    nodes, buffer = max(usable, key=lambda found: len(found[0]))
    within = set().union(*(met.lists[node] for node in nodes))
    left = [cut for at, cut in enumerate(step.cuts) if cut not in buffer.cuts and at not in within]
    return nodes, buffer, cut_range(nest, buffer.array, (buffer.low, buffer.end), left, known)


def intersection(nest: NestState, step: Join, met: LevelLists, known: KnownPositions) -> Walk:
    """The intersection of several lists, in a buffer."""
    found = start_of(nest, step, met, known)
    if found is None:
        buffer = fill(nest, met, step.cuts, known, step.variable)
        return Walk(buffer.array, buffer.low, buffer.end)
    nodes, buffer, (low, high) = found
    if nodes == met.nodes:
        return Walk(buffer.array, low, high)
    left = in_order(nest, met.nodes - nodes, known)
    into, length = room(nest, (*nodes, left[0])), nest.text.name("k")
    array = buffer.array
    for node in left:
        ends = trimmed(nest, node, step.cuts, met.lists[node], known)
        meet = nest.call(meeting(nest), array, low, high, nest.values(node), *ends, into)
        nest.text.line(f"{length} = {meet}")
        array, low, high = into, "0", length
    cuts = tuple(dict.fromkeys((*buffer.cuts, *step.cuts)))
    known.buffers[met.nodes] = Buffer(into, length, cuts, step.variable)
    return Walk(into, "0", length)


def fill(
    nest: NestState,
    met: LevelLists,
    cuts: tuple[RangeBound, ...],
    known: KnownPositions,
    variable: str,
) -> Buffer:
    """Intersects lists into a new buffer, which deeper levels may reuse."""
    text = nest.text
    nodes = in_order(nest, met.nodes, known)
    into, length = room(nest, nodes[:2]), text.name("k")
    ranges = {node: trimmed(nest, node, cuts, met.lists[node], known) for node in nodes}
    first = nodes[0]
    array, (low, high) = nest.values(first), ranges[first]
    for node in nodes[1:]:
        args = (array, low, high, nest.values(node), *ranges[node])
        marked = array != into and first in known.marks
        plain = f"{length} = {nest.call(meeting(nest, marked), *args, into)}"
        if marked:
            with text.block(f"if {known.marks[first]}"):
                meet = nest.call("intersect_marked", *args, *marks_of(nest, first), into)
                text.line(f"{length} = {meet}")
            with text.block("else"):
                text.line(plain)
        else:
            text.line(plain)
        array, low, high = into, "0", length
    buffer = Buffer(into, length, tuple(cuts), variable)
    known.buffers[met.nodes] = buffer
    return buffer


def in_order(nest: NestState, nodes: Collection[TrieNode], known: KnownPositions) -> list[TrieNode]:
    """The order in which lists are intersected: marked lists first, since the other list is then
    scanned once with one lookup for each value; then the shortest, which leave few values."""

    def place(node: TrieNode) -> tuple[bool, int, str]:
        longest = nest.tries[node.trie].levels[node.depth].longest
        return node not in known.marks, longest, repr(node)

    return sorted(nodes, key=place)


def room(nest: NestState, nodes: Collection[TrieNode]) -> str:
    """A buffer for an intersection; its size is that of the first two lists, which leave the
    most."""
    levels = tuple(nest.level(node) for node in sorted(nodes, key=repr))
    return nest.arguments.scratch(nest.text.name("buffer"), "buffer", levels)


def marks_of(nest: NestState, node: TrieNode, buffer: str = "") -> tuple[str, str]:
    """The array of marks of a list, and the value that it starts from; or those of a `buffer`,
    whose values are a subset of the list."""
    level = nest.level(node)
    number = nest.marked.setdefault((node, buffer), len(nest.marked))
    name = nest.arguments.scratch(f"marks{number}", "marks", (level,))
    return name, nest.arguments.scalar("base", level)


def meeting(nest: NestState, few: bool = False) -> str:
    """The function that intersects two lists; `few`: for loops that are too short for marks."""
    if nest.intersect in ("leapfrog", "merge"):
        return nest.intersect
    return "leapfrog" if few else "intersect"  # "intersect" takes longer to compile
