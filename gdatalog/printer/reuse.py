"""Reuses work: hoists it out of loops, and caches intersections by edge.

**Hoisting.** Before a loop, the function looks up the ranges of lists that deeper levels read, and
computes the intersections that do not depend on the loop. It marks a list that each turn
intersects, if there are enough turns to pay for that. In the loop, it prefetches lookups of later
turns in large roots.

**Caches by edge.** Loops may reach the same edge from many outer bindings, and would intersect the
lists of its two ends each time. So the first intersection is cached, without cuts. A worker has one
array of intersections, each preceded by its length, and one array of their starts, by the edge's
position in its trie. When the array of intersections is full, the cache is emptied. On a GPU, a
kernel computes the intersections of all edges first (`gpu_ops/walk.py`), and tiles only read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from gdatalog.plan.effects import all_steps
from gdatalog.plan.join_plan import Join, Seek, Slot, Step, Tally
from gdatalog.plan.nest import TrieNode, entries, measurable, recoding
from gdatalog.printer.lists import LevelLists, fill, marks_of
from gdatalog.printer.measure import both, last_pair
from gdatalog.printer.nest import NestPrinter, Point
from gdatalog.printer.nest_state import KeptIntersection, Walk
from gdatalog.records import replace

# A list is marked if it is shorter than a factor times the number of turns: WORTH if each turn
# intersects the list, WORTH_DEEP if a loop inside each turn does.
WORTH, WORTH_DEEP = 16, 128
FAR = 1 << 20  # size (rounded to a power of four) of a root that exceeds the near caches


def look_ahead(here: Point, walk: Walk) -> list[TrieNode | frozenset[TrieNode]]:
    """Hoists work before the loop of the next step, a level; returns the lists that are marked."""
    nest, text, steps = here.nest, here.text, here.steps
    mine = LevelLists.of(nest, here.join).nodes
    for inside in all_steps(here.later):
        if isinstance(inside, Join):
            for node in LevelLists.of(nest, inside).lists:
                if here.has(node):
                    here.range_of(node)
    marked: list[TrieNode | frozenset[TrieNode]] = []
    recoded: set[int] = set()
    for place in range(here.at + 1, len(steps)):
        later = steps[place]
        if not isinstance(later, Join) or place in recoded:
            continue
        kept = nest.kept.get(id(later))
        if kept is not None:
            known = [node for node in sorted(kept.nodes, key=repr) if here.has(node)]
            if len(known) == 1 and _markable(here, known[0]):
                marked.append(known[0])  # marked when it is first intersected
                here.marks[known[0]] = text.name("marked")
                text.line(f"{here.marks[known[0]]} = False")
            continue
        if here.recodes():
            group = recoding(steps, nest.paths, place)
            if group is not None and nest.recodable(group):
                recoded.update(group.levels)
                continue
        met = LevelLists.of(nest, later)
        pair = last_pair(here, place) if here.leaf.counts else None
        if pair is not None:
            met = both(nest, pair)
            recoded.update(range(place, len(steps)))  # a pair is always last
        known = [node for node in met.lists if here.has(node)]
        if len(met.lists) < 2:
            continue
        if nest.tile and not here.together():
            continue  # single lanes have no buffers
        if len(known) == len(met.lists) and pair is None:
            if not met.nodes <= mine and met.nodes not in here.buffers:
                fill(here, met.uncut())
                if (
                    not nest.tile
                    and measurable(steps, place)
                    and place + 1 < len(steps)
                    and not later.cuts
                    and all(map(nest.marks_fit, met.lists))
                ):
                    marked.append(_mark_buffer(here, met))
        elif len(known) == 1 and _markable(here, known[0]):
            marked.append(known[0])
            deep = any(isinstance(step, Join) for step in steps[here.at + 1 : place])
            _mark(here, known[0], walk, WORTH_DEEP if deep else WORTH)
    return marked


def _markable(here: Point, node: TrieNode) -> bool:
    """Whether a list may be marked. There is no room for marks of thousands of tiles."""
    wanted = not here.nest.tile and here.nest.intersect in ("auto", "mark")
    return wanted and node not in here.marks and here.nest.marks_fit(node)


def _mark(here: Point, node: TrieNode, walk: Walk, worth: int) -> None:
    nest, text = here.nest, here.text
    low, high = here.range_of(node)
    flag = text.name("marked")
    turns = f"{walk.high} - {walk.low}"
    enough = f"{turns} > 1 and ({turns}) * {worth} > {high} - {low}"
    text.line(f"{flag} = {'True' if nest.intersect == 'mark' else enough}")
    with text.block(f"if {flag}"):
        text.line(nest.call("mark", nest.values(node), low, high, *marks_of(nest, node)))
    here.marks[node] = flag


def _mark_buffer(here: Point, met: LevelLists) -> frozenset[TrieNode]:
    """Marks the values of an intersection that single values are looked up in."""
    nest, buffer = here.nest, here.buffers[met.nodes]
    marks = marks_of(nest, min(met.lists, key=repr), buffer.array)
    nest.text.line(nest.call("mark", buffer.array, buffer.low, buffer.high, *marks))
    here.buffers[met.nodes] = replace(buffer, marks=marks)
    return met.nodes


def close_marks(here: Point, marked: Sequence[TrieNode | frozenset[TrieNode]]) -> None:
    """Clears the marks, after the loop."""
    nest = here.nest
    for node in marked:
        if isinstance(node, frozenset):
            buffer = here.buffers[node]
            assert buffer.marks is not None
            nest.text.line(
                nest.call("unmark", buffer.array, buffer.low, buffer.high, *buffer.marks)
            )
            continue
        low, high = here.range_of(node)
        with nest.text.block(f"if {here.marks[node]}"):
            nest.text.line(nest.call("unmark", nest.values(node), low, high, *marks_of(nest, node)))
        del here.marks[node]


def fetch_ahead(here: Point, walk: Walk, turn: str) -> None:
    """Prints prefetches for lookups of later values in large roots, whose addresses a processor
    cannot predict. The list that follows in memory is likely to be the next to walk."""
    nest, arguments, step = here.nest, here.nest.arguments, here.join
    term = Slot(step.variable, step.type)
    parts = list(step.participants)
    for later in all_steps(here.later):
        if isinstance(later, Seek) and later.value == term:
            parts += later.participants
    for node in dict.fromkeys(map(nest.paths.node, parts)):
        if not nest.direct or node.terms or nest.tallied(node) or nest.hashed(node):
            continue
        level, (first, *below) = nest.level(node), nest.tries[node.trie].levels
        if not first.dense or first.size < FAR:
            continue
        leads = nest.leads_on(node)
        kind = "weighed" if nest.weighs(node) else "starts" if leads else "index"
        array = arguments.of_trie(level.trie, kind)
        sought = walk.array, turn, arguments.scalar("low", level), array
        nest.text.line(nest.call("fetch_sought", *sought))
        if leads and below[0].size >= FAR:
            its = nest.values(node.child(term))
            nest.text.line(nest.call("fetch_children", *sought, its))


# Caches of intersections: the common values of the lists of an edge's two ends, by edge.


LOPSIDED = 8  # a list this many times as long as the other is searched, not marked
AGAIN = 2  # least expected visits of an edge, for a cache to pay
# The same on a GPU, where all intersections cost no more than one visit of each edge. Estimates are
# too low for graphs with many triangles.
AGAIN_TOGETHER = 1 / 128


def find_kept(nest: NestPrinter) -> dict[int, KeptIntersection]:
    """Intersections to cache, by the id of a step. There are caches only in loops with tables of
    counts, whose memory is charged."""
    steps, found = nest.join.steps, dict[int, KeptIntersection]()
    tallied = any(isinstance(step, Tally) for step in steps)
    recoded = any(recoding(steps, nest.paths, at) is not None for at in range(len(steps)))
    if not tallied or recoded:
        return found
    edges = entries(nest.join)
    again = AGAIN_TOGETHER if nest.tile else AGAIN
    for step, rows in _met(steps, 0.0, nest.tile > 0):
        nodes = [node for node in map(nest.paths.node, step.participants) if _is_list(nest, node)]
        for pair in combinations(dict.fromkeys(nodes), 2):
            names = tuple(
                term.name for node in pair for term in node.terms if isinstance(term, Slot)
            )
            edge = edges.get(names) or edges.get(names[::-1])
            if edge is None or nest.tallied(edge) or nest.hashed(edge):
                continue
            if rows >= again * nest.tries[edge.trie].levels[1].size:
                found.setdefault(id(step), KeptIntersection(frozenset(pair), edge, len(found)))
    return found


def _met(steps: Sequence[Step], rows: float, fills: bool) -> Iterator[tuple[Join, float]]:
    """The levels, and the expected number of rows that reach each. `fills`: with the levels that
    fill tables."""
    for step in steps:
        if isinstance(step, Tally) and fills:
            yield from _met(step.steps, rows, fills)
        elif isinstance(step, Join):
            yield step, rows
            rows = step.estimate


def _is_list(nest: NestPrinter, node: TrieNode) -> bool:
    """Whether the node is the list of one variable's value."""
    other = nest.tallied(node) or nest.hashed(node) or node.trie.weighted
    return node.depth == 1 and node.last and not other and isinstance(node.terms[0], Slot)


def fetch(here: Point, walk: Walk, cursors: Mapping[TrieNode, str]) -> None:
    """Prints, before the loop of the next step, a prefetch of the cached lists that the step after
    it reads, since a processor cannot predict their addresses."""
    nest, own = here.nest, here.join
    kept = nest.kept.get(id(here.later[0])) if here.later else None
    if kept is None or nest.tile:
        return
    edges = {node.child(Slot(own.variable, own.type)): node for node in cursors}
    node = edges.get(kept.edge)
    if node is None:
        return
    starts, array = _arrays(nest, kept)
    _, high = here.range_of(node)
    at = nest.values(node), cursors[node], high
    here.text.line(nest.call("fetch_kept", walk.array, walk.low, walk.high, *at, starts, array))


def _arrays(nest: NestPrinter, kept: KeptIntersection) -> tuple[str, str]:
    """The array of starts, and the array of lists."""
    level = (nest.level(TrieNode(kept.edge.trie, kept.edge.terms[:-1])),)
    ends = {term: at for at, term in enumerate(kept.edge.terms)}
    lists = tuple(map(nest.level, sorted(kept.nodes, key=lambda node: ends[node.terms[0]])))
    starts = nest.arguments.scratch(f"kept{kept.number}", "kept", level)
    return starts, nest.arguments.scratch(f"lists{kept.number}", "lists", (*lists, *level))


def recall(here: Point) -> None:
    """Prints the lookup of the level's cached intersection, if it has one."""
    nest, text, step = here.nest, here.text, here.join
    kept = nest.kept.get(id(step))
    if kept is None or not here.positions.get(kept.edge):
        return
    place = here.positions[kept.edge]
    starts, array = _arrays(nest, kept)
    top, low, high = f"top{kept.number}", text.name("l"), text.name("h")
    if nest.tile:
        text.line(f"{low} = {nest.call('at', starts, place)}")
        text.line(f"{high} = {nest.call('at', starts, f'{place} + 1')}")
        here.buffers[kept.nodes] = Walk(array, low, high)
        return
    nest.prologue.append(f"{top} = np.int64(0)")
    text.line(f"{low} = {nest.call('at', starts, place)}")
    with text.block(f"if {low} == 0"):
        inner = here.inner()  # ranges printed here are out of scope after the block
        _mark_kept(inner, kept)
        buffer = fill(inner, LevelLists({node: set() for node in kept.nodes}, {}, step).uncut())
        call = nest.call("keep_list", buffer.array, buffer.high, starts, place, array, top)
        text.line(f"{top} = {call}")
        text.line(f"{low} = {nest.call('at', starts, place)}")
    text.line(f"{high} = {low} + np.int64({nest.call('at', array, f'{low} - 1')})")
    here.buffers[kept.nodes] = Walk(array, low, high)


def _mark_kept(here: Point, kept: KeptIntersection) -> None:
    """Marks the list that is invariant in the loop, unless it is far shorter than the other."""
    nest = here.nest
    for node in kept.nodes & here.marks.keys():
        (other,) = kept.nodes - {node}
        low, high = here.range_of(node)
        start, end = here.range_of(other)
        flag = here.marks[node]
        with nest.text.block(f"if not {flag} and {end} - {start} < {LOPSIDED} * ({high} - {low})"):
            nest.text.line(nest.call("mark", nest.values(node), low, high, *marks_of(nest, node)))
            nest.text.line(f"{flag} = True")
