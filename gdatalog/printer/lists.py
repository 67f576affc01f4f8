"""The lists of a level: cut to ranges, walked in place, or intersected into a buffer.

A buffer is stored with the lists that it intersects and the cuts that it applies. A deeper level
that has all these lists and all these cuts can start from it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gdatalog.plan.join_plan import Comparison, Join, Slot
from gdatalog.plan.nest import TrieNode
from gdatalog.printer.nest import NestPrinter, Point
from gdatalog.printer.nest_state import Range, Walk
from gdatalog.records import dataclass, replace

# The search with which a cut moves the start, or the end, of a range.
STARTS = {">": "upper", ">=": "lower"}
ENDS = {"<": "lower", "<=": "upper"}

# Prefer to walk a root that the next level descends from, since workers split its lists among them,
# unless another root is smaller by more than this factor.
LEADING = 4


@dataclass(slots=True)
class LevelLists:
    """The lists of a level, without duplicates, each with the numbers of the cuts that it implies.

    `roots`: roots of tries, and all nodes of hash tries. Values are looked up in them if there is a
    list to walk.
    """

    lists: dict[TrieNode, set[int]]
    roots: dict[TrieNode, set[int]]
    step: Join

    @staticmethod
    def of(nest: NestPrinter, step: Join) -> LevelLists:
        met = LevelLists({}, {}, step)
        for place, part in enumerate(step.participants):
            node = nest.paths.node(part)
            if nest.above_tally(node):
                continue
            kind = met.lists if node.terms and not nest.hashed(node) else met.roots
            kind.setdefault(node, set()).update(at for p, at in step.implied if p == place)
        if nest.tile:
            # A cut that one list implies holds for the intersection. To apply it to the other lists
            # would take a search, a chain of dependent loads.
            within = set().union(*met.lists.values())
            met.lists = {node: set(within) for node in met.lists}
        return met

    def uncut(self) -> LevelLists:
        """The same lists without the cuts of this level, so that other levels can use a buffer."""
        return LevelLists(self.lists, {}, replace(self.step, cuts=(), variable=""))

    @property
    def nodes(self) -> frozenset[TrieNode]:
        return frozenset(self.lists)


def walk_of(here: Point, met: LevelLists, below: Collection[TrieNode] = ()) -> Walk:
    """The walk over the intersection of a level's lists.

    `below`: the nodes of the next level; the best walk leads to one of them.
    """
    nest, step = here.nest, met.step
    if len(met.lists) < 2:
        # Without lists, walk the smallest root, and look values up in the others.
        term = Slot(step.variable, step.type)

        def length(node: TrieNode) -> int:
            if node.terms:  # a list of a hash trie
                return 0
            values = nest.tries[node.trie].levels[0].size
            return values if node.child(term) in below else LEADING * values

        node = next(iter(met.lists)) if met.lists else min(met.roots, key=length)
        if nest.hashed(node):
            implied = met.roots[node]
            left = tuple(cut for at, cut in enumerate(step.cuts) if at not in implied)
            return Walk(nest.values(node), *here.range_of(node), node, tests=left)
        return Walk(nest.values(node), *_for_task(here, met, node), node)
    if nest.tile and not here.together():
        first, *others = ranges_of(here, met)  # without a buffer, the loop skips values
        return replace(first, others=others)
    if here.spread and start_of(here, met) is None:
        return _shorter(here, met)
    walk = intersection(here, met)
    return walk if here.clip is None else _clipped(here, walk)


def ranges_of(here: Point, met: LevelLists) -> list[Walk]:
    """The ranges to intersect: an existing buffer, and the remaining lists."""
    found = start_of(here, met)
    ranges: list[Walk] = []
    left = met.nodes
    if found is not None:
        covered, start = found
        ranges.append(start)
        left = met.nodes - covered
    for node in in_order(here, left):
        ranges.append(Walk(here.nest.values(node), *_for_task(here, met, node), node))
    return ranges


def two_alike(nest: NestPrinter, met: LevelLists) -> bool:
    """Whether a level meets two lists of one array, of which only the values matter."""
    child = Slot(met.step.variable, met.step.type)
    plain = all(
        node.last
        and not node.trie.weighted
        and not nest.tallied(node)
        and node.child(child) not in nest.placed
        for node in met.lists
    )
    return plain and len(met.lists) == 2 and len({*map(nest.level, met.lists)}) == 1


def _shorter(here: Point, met: LevelLists) -> Walk:
    """The shorter one of two lists of one array; each lane looks its values up in the other."""
    first, second = in_order(here, met.nodes)
    values, text = here.nest.values(first), here.text
    one, other = trimmed(here, met, first), trimmed(here, met, second)
    less = f"{one[1]} - {one[0]} <= {other[1]} - {other[0]}"
    walks = []
    for (low, high), (their_low, their_high) in ((one, other), (other, one)):
        ends = text.name("l"), text.name("h")
        text.line(f"{ends[0]} = {low} if {less} else {their_low}")
        text.line(f"{ends[1]} = {high} if {less} else {their_high}")
        walks.append(Walk(values, *ends))
    return replace(walks[0], within=walks[1])


def _for_task(here: Point, met: LevelLists, node: TrieNode) -> Range:
    """The range of a node's list that satisfies the level's cuts and belongs to the task."""
    text = here.text
    own = trimmed(here, met, node)
    if here.clip is None or here.clip != node:
        return own
    if here.entry:
        with text.block(f"if c0 < {own[0]} or c0 >= {own[1]}"):
            if here.nest.counting is None:  # so have those behind it, down to the next in the range
                start, _ = here.range_of(node)
                behind = f"{start} if c0 < {own[0]} else {own[1]}"
                text.line(f"skip_units(base + total - ({behind}))")
            text.line("continue")
        return "c0", "c1"
    low, high = text.name("l"), text.name("h")
    text.line(f"{low} = max({own[0]}, c0)")
    text.line(f"{high} = min({own[1]}, c1)")
    return low, high


def _clipped(here: Point, walk: Walk) -> Walk:
    """The part of an intersection that lies in the clip of one of its lists."""
    nest, text = here.nest, here.text
    assert here.clip is not None
    values = nest.values(here.clip)
    low, high = text.name("l"), text.name("h")
    text.line(f"{low}, {high} = {walk.low}, {walk.low}")
    with text.block("if c0 < c1"):
        first, last = f"{values}[c0]", f"{values}[c1 - 1]"
        text.line(f"{low} = {nest.call('lower', walk.array, walk.low, walk.high, first)}")
        text.line(f"{high} = {nest.call('upper', walk.array, low, walk.high, last)}")
    return replace(walk, low=low, high=high)


def trimmed(here: Point, met: LevelLists, node: TrieNode) -> Range:
    """The range of a node's list that satisfies the level's cuts."""
    implied = (met.lists if node in met.lists else met.roots)[node]
    left = [
        cut
        for at, cut in enumerate(met.step.cuts)
        if at not in implied or (here.nest.tile and _costs_nothing(here, cut, node))
    ]
    return cut_range(here, here.nest.values(node), here.range_of(node), left, node)


def _costs_nothing(here: Point, cut: Comparison, node: TrieNode) -> bool:
    """Whether a cut's bound is the current position of a loop over this very list."""
    turn = here.turns.get(cut[1].name) if isinstance(cut[1], Slot) else None
    return turn is not None and (turn.array, turn.node) == (here.nest.values(node), node)


def cut_range(
    here: Point, array: str, whole: Range, cuts: Sequence[Comparison], node: TrieNode | None = None
) -> Range:
    """The part of a sorted range that satisfies the cuts."""
    nest = here.nest
    low, high = whole
    for op, bound in cuts:
        starts = op in STARTS
        turn = here.turns.get(bound.name) if isinstance(bound, Slot) else None
        if turn is not None and (turn.array, turn.node) == (array, node):
            # The bound is the current position of a loop over this very list.
            place = turn.at + (" + 1" if op in (">", "<=") else "")
            found = f"max({low}, {place})" if starts else f"min({high}, {place})"
        else:
            helper = (STARTS if starts else ENDS)[op]
            found = nest.call(helper, array, low, high, here.key(bound))
        name = nest.text.name("l" if starts else "h")
        nest.text.line(f"{name} = {found}")
        low, high = (name, high) if starts else (low, name)
    return low, high


def start_of(here: Point, met: LevelLists) -> tuple[frozenset[TrieNode], Walk] | None:
    """The existing intersection that covers the most lists of a level, with these lists; its range
    satisfies the level's cuts."""
    step = met.step

    def serves(nodes: frozenset[TrieNode], buffer: Walk) -> bool:
        # If the plan says to reuse that level's list, its cuts are implied.
        covered = step.reuse is not None and step.reuse.variable == buffer.variable
        return nodes <= met.nodes and (covered or all(cut in step.cuts for cut in buffer.cuts))

    usable = [found for found in here.buffers.items() if serves(*found)]
    if not usable:
        return None
    nodes, buffer = max(usable, key=lambda found: len(found[0]))
    within = set().union(*(met.lists[node] for node in nodes))
    left = [cut for at, cut in enumerate(step.cuts) if cut not in buffer.cuts and at not in within]
    low, high = cut_range(here, buffer.array, (buffer.low, buffer.high), left)
    return nodes, replace(buffer, low=low, high=high)


def intersection(here: Point, met: LevelLists) -> Walk:
    """The intersection of several lists, in a buffer."""
    nest, text, step = here.nest, here.text, met.step
    found = start_of(here, met)
    if found is None:
        return fill(here, met)
    nodes, start = found
    if nodes == met.nodes:
        return start
    left = in_order(here, met.nodes - nodes)
    into, length = room(nest, (*nodes, left[0])), text.name("k")
    array, low, high = start.array, start.low, start.high
    for node in left:
        its = nest.values(node), *trimmed(here, met, node)
        text.line(f"{length} = {nest.call(meeting(nest), array, low, high, *its, into)}")
        array, low, high = into, "0", length
    cuts = tuple(dict.fromkeys((*start.cuts, *step.cuts)))
    made = Walk(into, "0", length, cuts=cuts, variable=step.variable)
    here.buffers[met.nodes] = made
    return made


def fill(here: Point, met: LevelLists) -> Walk:
    """Intersects lists into a new buffer, which deeper levels may reuse."""
    nest, text = here.nest, here.text
    nodes = in_order(here, met.nodes)
    into, length = room(nest, nodes[:2]), text.name("k")
    ranges = {node: trimmed(here, met, node) for node in nodes}
    first = nodes[0]
    array, (low, high) = nest.values(first), ranges[first]
    for node in nodes[1:]:
        args = (array, low, high, nest.values(node), *ranges[node])
        marked = first if array != into and first in here.marks else None
        plain = nest.call(meeting(nest, marked is not None), *args, into)
        set_by_marks(here, length, plain, marked, "intersect_marked", args, into)
        array, low, high = into, "0", length
    made = Walk(into, "0", length, cuts=met.step.cuts, variable=met.step.variable)
    here.buffers[met.nodes] = made
    return made


def meet_ahead(here: Point) -> None:
    """On a tile, intersects the lists of the next level that this level's value does not change
    before this level's loop, if these are several but not all."""
    after = here.loops_after(here.at)
    step = here.steps[after[0]] if after else None
    if not here.together() or not isinstance(step, Join):
        return
    nest, met = here.nest, LevelLists.of(here.nest, step)
    same = [node for node in met.lists if here.join.variable not in node.variables]
    if len(same) < 2 or len(same) == len(met.lists) or not all(map(here.has, same)):
        return
    if not any(map(nest.tallied, same)):
        ahead = LevelLists({node: set() for node in same}, {}, step).uncut()
        if start_of(here, ahead) is None:
            found = fill(here, ahead)
            if nest.counting is None:
                with here.text.block(f"if {found.high} == 0"):
                    here.text.line("continue")


def set_by_marks(
    here: Point,
    name: str,
    plain: str,
    marked: TrieNode | None,
    function: str,
    args: Sequence[str],
    *more: str,
) -> None:
    """Prints the assignment of `plain` to a name. If there may be marks of the list `marked`, also
    prints a test for them, and a call of `function` with `args`, the marks and `more`."""
    nest, text = here.nest, here.text
    if marked is None:
        text.line(f"{name} = {plain}")
        return
    with text.block(f"if {here.marks[marked]}"):
        text.line(f"{name} = {nest.call(function, *args, *marks_of(nest, marked), *more)}")
    with text.block("else"):
        text.line(f"{name} = {plain}")


def in_order(here: Point, nodes: Collection[TrieNode]) -> list[TrieNode]:
    """The order in which lists are intersected. Marked lists come first: each value of the other
    list then takes one lookup. Then the shortest, which leave few values."""

    def place(node: TrieNode) -> tuple[bool, int, str]:
        longest = here.nest.tries[node.trie].levels[node.depth].longest
        return node not in here.marks, longest, repr(node)

    return sorted(nodes, key=place)


def room(nest: NestPrinter, nodes: Collection[TrieNode]) -> str:
    """A buffer for an intersection, with room for the values that its first two lists can leave."""
    levels = tuple(nest.level(node) for node in sorted(nodes, key=repr))
    return nest.arguments.scratch(nest.text.name("buffer"), "buffer", levels)


def marks_of(nest: NestPrinter, node: TrieNode, buffer: str = "") -> tuple[str, str]:
    """The array of marks of a list, or of a `buffer` with some of its values; and the value that
    the array starts from."""
    level = nest.level(node)
    number = nest.marked.setdefault((node, buffer), len(nest.marked))
    name = nest.arguments.scratch(f"marks{number}", "marks", (level,))
    return name, nest.arguments.scalar("base", level)


def meeting(nest: NestPrinter, few: bool = False) -> str:
    """The function that intersects two lists; `few`: in a loop with too few turns for marks. The
    lanes of a tile share one that finds the best way by itself."""
    if nest.intersect in ("leapfrog", "merge") and not nest.tile:
        return nest.intersect
    return "leapfrog" if few else "intersect"  # "intersect" takes longer to compile
