"""Caches of intersections: the common values of the lists of an edge's two ends, by edge.

Loops may reach the same edge from many outer bindings, and would intersect the
lists of its two ends each time. So the first intersection is cached, without cuts. A worker has one
array of intersections, each preceded by its length, and one array of their starts, by the edge's
position in its trie. When the array of intersections is full, the cache is emptied. On a GPU, a
kernel computes the intersections of all edges first (`gpu_ops/walk.py`), and tiles only read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from gdatalog.plan.join_plan import Join, Slot, Step, Tally
from gdatalog.plan.nest import TrieNode, entries, recoding
from gdatalog.printer.lists import LevelLists, fill, marks_of
from gdatalog.printer.nest import NestPrinter, Point
from gdatalog.printer.nest_state import KeptIntersection, Walk

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
