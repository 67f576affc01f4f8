"""Lists that are kept: what the lists of an edge's two ends have in common, by edge.

Where loops come to the same edge from many outer bindings, they would intersect the same two lists
each time. The first time, what these have in common is kept, with no cut: in one array of a worker,
behind its length; where it begins stands in another, by the position of the edge in its trie. If
the array is full it is begun anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from gdatalog.plan.nest import TrieNode, entries, recoding
from gdatalog.plan.nodes import Join, Slot, Step, Tally
from gdatalog.printer.lists import LevelLists, Walk, fill, marks_of
from gdatalog.printer.scope import Buffer, KnownPositions
from gdatalog.records import dataclass

if TYPE_CHECKING:
    from gdatalog.printer.nest import NestPrinter

FAR = 8  # how many times as long another list is that is leapt through
AGAIN = 2  # how many times an edge is come to, at the least


@dataclass(frozen=True, slots=True)
class KeptIntersection:
    """The lists of a level that are met, and the entry for the edge between their ends."""

    nodes: frozenset[TrieNode]
    edge: TrieNode
    number: int


def find_kept(nest: NestPrinter) -> dict[int, KeptIntersection]:
    """By the id of a step, the lists that it may find there; only in loops that keep tables, whose
    room is charged."""
    steps, found = nest.join.steps, dict[int, KeptIntersection]()
    tallied = any(isinstance(step, Tally) for step in steps)
    recoded = any(recoding(steps, nest.paths, at) is not None for at in range(len(steps)))
    if nest.tile or not tallied or recoded:
        return found
    edges, rows = entries(nest.join), 0.0
    for step in steps:
        if not isinstance(step, Join):
            continue
        nodes = [node for node in map(nest.paths.node, step.participants) if _is_list(nest, node)]
        for pair in combinations(dict.fromkeys(nodes), 2):
            names = tuple(
                term.name for node in pair for term in node.terms if isinstance(term, Slot)
            )
            edge = edges.get(names) or edges.get(names[::-1])
            if edge is None or nest.tallied(edge) or nest.hashed(edge):
                continue
            if rows >= AGAIN * nest.tries[edge.trie].levels[1].size:
                found.setdefault(id(step), KeptIntersection(frozenset(pair), edge, len(found)))
        rows = step.estimate
    return found


def _is_list(nest: NestPrinter, node: TrieNode) -> bool:
    """Whether it is the list of one variable's value."""
    other = nest.tallied(node) or nest.hashed(node) or node.trie.weighted
    return node.depth == 1 and node.last and not other and isinstance(node.terms[0], Slot)


def fetch(
    nest: NestPrinter,
    steps: Sequence[Step],
    walk: Walk,
    cursors: Mapping[TrieNode, str],
    known: KnownPositions,
) -> None:
    """Prints, before the loop of the first step, that the lists which the second will find in its
    turns are fetched: where they lie is not foreseen."""
    own, kept = steps[0], nest.kept.get(id(steps[1])) if len(steps) > 1 else None
    if kept is None or not isinstance(own, Join):
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
    """Where the lists begin, and these."""
    level = (nest.level(TrieNode(kept.edge.trie, kept.edge.terms[:-1])),)
    lists = tuple(nest.level(node) for node in sorted(kept.nodes, key=repr))
    starts = nest.arguments.scratch(f"kept{kept.number}", "kept", level)
    return starts, nest.arguments.scratch(f"lists{kept.number}", "lists", (*lists, *level))


def recall(nest: NestPrinter, step: Step, known: KnownPositions) -> None:
    """Prints where the lists that a level meets are found, if they are kept."""
    kept = nest.kept.get(id(step))
    if kept is None or not known.positions.get(kept.edge):
        return
    text, number = nest.text, kept.number
    starts, array = _arrays(nest, kept)
    top, low, high = f"top{number}", text.name("l"), text.name("h")
    nest.prologue.append(f"{top} = np.int64(0)")
    place = known.positions[kept.edge]
    text.line(f"{low} = {nest.call('at', starts, place)}")
    with text.block(f"if {low} == 0"):
        inner = known.inner()  # ranges that are printed here are not known behind it
        _mark(nest, kept, inner)
        met = LevelLists({node: set() for node in kept.nodes}, {})
        buffer = fill(nest, met, (), inner, "")
        call = nest.call("keep_list", buffer.array, buffer.end, starts, place, array, top)
        text.line(f"{top} = {call}")
        text.line(f"{low} = {nest.call('at', starts, place)}")
    text.line(f"{high} = {low} + np.int64({nest.call('at', array, f'{low} - 1')})")
    known.buffers[kept.nodes] = Buffer(array, high, (), "", low=low)


def _mark(nest: NestPrinter, kept: KeptIntersection, known: KnownPositions) -> None:
    """Marks the list that stays the same in the loop, unless it is far shorter than the other."""
    for node in kept.nodes & known.marks.keys():
        (other,) = kept.nodes - {node}
        low, high = nest.range_of(node, known)
        start, end = nest.range_of(other, known)
        flag = known.marks[node]
        with nest.text.block(f"if not {flag} and {end} - {start} < {FAR} * ({high} - {low})"):
            nest.text.line(nest.call("mark", nest.values(node), low, high, *marks_of(nest, node)))
            nest.text.line(f"{flag} = True")
