"""Caches of intersections: the common values of the lists of an edge's two ends, by edge.

Loops that reach the same edge from many outer bindings would intersect the same two lists each
time. The first time, the intersection is cached, without cuts. A worker has one array of
intersections, each preceded by its length, and one array of their starts, by the edge's position in
its trie. When the first is full, the cache starts again empty. On a GPU, a kernel computes the
intersections of all edges first (`gpu_ops/kept.py`), and tiles only read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from gdatalog.plan.nest import TrieNode, entries, recoding
from gdatalog.plan.nodes import Join, Slot, Step, Tally
from gdatalog.printer.lists import LevelLists, Walk, fill, marks_of
from gdatalog.printer.nest import NestPrinter
from gdatalog.printer.scope import Buffer, KeptIntersection, KnownPositions

FAR = 8  # a list this many times as long is searched, not marked
AGAIN = 2  # least expected visits of an edge
# The same on a GPU, where estimates are too low for graphs with many triangles, and all
# intersections cost no more than one visit of each edge.
AGAIN_TOGETHER = 1 / 128


def find_kept(nest: NestPrinter) -> dict[int, KeptIntersection]:
    """Intersections to cache, by the id of a step; only in loops with tables of counts, whose
    memory is charged."""
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
    """The levels, with those of tables if `fills`, and the expected rows that reach each."""
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


def fetch(
    nest: NestPrinter,
    steps: Sequence[Step],
    walk: Walk,
    cursors: Mapping[TrieNode, str],
    known: KnownPositions,
) -> None:
    """Prints, before the loop of the first step, a prefetch of the cached lists that the second
    step will read: a processor cannot predict their addresses."""
    own, kept = steps[0], nest.kept.get(id(steps[1])) if len(steps) > 1 else None
    if kept is None or nest.tile or not isinstance(own, Join):
        return
    edges = {node.child(Slot(own.variable, own.type)): node for node in cursors}
    node = edges.get(kept.edge)
    if node is None:
        return
    starts, array = _arrays(nest, kept)
    _, high = nest.range_of(node, known)
    at = nest.values(node), cursors[node], high
    nest.text.line(nest.call("fetch_kept", walk.array, walk.low, walk.high, *at, starts, array))


def _arrays(nest: NestPrinter, kept: KeptIntersection) -> tuple[str, str]:
    """The array of starts, and the array of lists."""
    level = (nest.level(TrieNode(kept.edge.trie, kept.edge.terms[:-1])),)
    ends = {term: at for at, term in enumerate(kept.edge.terms)}
    lists = tuple(map(nest.level, sorted(kept.nodes, key=lambda node: ends[node.terms[0]])))
    starts = nest.arguments.scratch(f"kept{kept.number}", "kept", level)
    return starts, nest.arguments.scratch(f"lists{kept.number}", "lists", (*lists, *level))


def recall(nest: NestPrinter, step: Step, known: KnownPositions) -> None:
    """Prints the lookup of a level's cached intersection, if it has one."""
    kept = nest.kept.get(id(step))
    if kept is None or not known.positions.get(kept.edge):
        return
    text, number = nest.text, kept.number
    starts, array = _arrays(nest, kept)
    top, low, high = f"top{number}", text.name("l"), text.name("h")
    if nest.tile:
        place = known.positions[kept.edge]
        text.line(f"{low} = {nest.call('at', starts, place)}")
        text.line(f"{high} = {nest.call('at', starts, f'{place} + 1')}")
        known.buffers[kept.nodes] = Buffer(array, high, (), "", low=low)
        return
    nest.prologue.append(f"{top} = np.int64(0)")
    place = known.positions[kept.edge]
    text.line(f"{low} = {nest.call('at', starts, place)}")
    with text.block(f"if {low} == 0"):
        inner = known.inner()  # ranges printed here are out of scope after the block
        _mark(nest, kept, inner)
        met = LevelLists({node: set() for node in kept.nodes}, {})
        buffer = fill(nest, met, (), inner, "")
        call = nest.call("keep_list", buffer.array, buffer.end, starts, place, array, top)
        text.line(f"{top} = {call}")
        text.line(f"{low} = {nest.call('at', starts, place)}")
    text.line(f"{high} = {low} + np.int64({nest.call('at', array, f'{low} - 1')})")
    known.buffers[kept.nodes] = Buffer(array, high, (), "", low=low)


def _mark(nest: NestPrinter, kept: KeptIntersection, known: KnownPositions) -> None:
    """Marks the list that is invariant in the loop, unless it is far shorter than the other."""
    for node in kept.nodes & known.marks.keys():
        (other,) = kept.nodes - {node}
        low, high = nest.range_of(node, known)
        start, end = nest.range_of(other, known)
        flag = known.marks[node]
        with nest.text.block(f"if not {flag} and {end} - {start} < {FAR} * ({high} - {low})"):
            nest.text.line(nest.call("mark", nest.values(node), low, high, *marks_of(nest, node)))
            nest.text.line(f"{flag} = True")
