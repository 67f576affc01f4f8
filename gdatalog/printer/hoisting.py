"""Loop-invariant work of deeper levels, printed before the loop.

Ranges of lists are read; intersections that do not depend on the loop are computed once; a list
that every turn intersects is marked, if there are enough turns to pay for that. Lookups of later
turns in large roots are prefetched.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan.effects import all_steps
from gdatalog.plan.nest import TrieNode, measurable, recoding
from gdatalog.plan.nodes import Join, Seek, Slot, Step
from gdatalog.printer.lists import LevelLists, Walk, fill, marks_of
from gdatalog.printer.measure import both, last_pair
from gdatalog.printer.nest import NestPrinter
from gdatalog.printer.scope import KnownPositions
from gdatalog.records import replace

# A list is marked if it is shorter than this factor times the number of turns: WORTH if each turn
# intersects it, WORTH_DEEP if a loop inside each turn does.
WORTH, WORTH_DEEP = 16, 128
FAR = 1 << 20  # size (rounded to a power of four) of a root that exceeds the near caches


def look_ahead(
    nest: NestPrinter,
    steps: Sequence[Step],
    at: int,
    known: KnownPositions,
    walk: Walk,
    counts: bool,
) -> list[TrieNode | frozenset[TrieNode]]:
    """Prepares the loop of the level at `at`, and returns the lists that it marked."""
    own = steps[at]
    assert isinstance(own, Join)
    mine = LevelLists.of(nest, own).nodes
    for inside in all_steps(tuple(steps[at + 1 :])):
        if isinstance(inside, Join):
            for node in LevelLists.of(nest, inside).lists:
                if known.has(node):
                    nest.range_of(node, known)
    marked: list[TrieNode | frozenset[TrieNode]] = []
    recoded: set[int] = set()
    for place in range(at + 1, len(steps)):
        later = steps[place]
        if not isinstance(later, Join) or place in recoded:
            continue
        kept = nest.kept.get(id(later))
        if kept is not None:
            here = [node for node in sorted(kept.nodes, key=repr) if known.has(node)]
            if len(here) == 1 and here[0] not in known.marks and _markable(nest, here[0]):
                marked.append(here[0])  # marked when it is first intersected
                known.marks[here[0]] = nest.text.name("marked")
                nest.text.line(f"{known.marks[here[0]]} = False")
            continue
        if nest.recodes(known):
            group = recoding(steps, nest.paths, place)
            if group is not None and nest.recodable(group):
                recoded.update(group.levels)
                continue
        met = LevelLists.of(nest, later)
        pair = last_pair(nest, steps, place) if counts else None
        if pair is not None:
            met = both(nest, pair)
            recoded.update(range(place, len(steps)))  # a pair is always last
        here = [node for node in met.lists if known.has(node)]
        if len(met.lists) < 2:
            continue
        if nest.tile and not nest.together(known):
            continue  # single lanes have no buffers
        if len(here) == len(met.lists) and pair is None:
            if not met.nodes <= mine and met.nodes not in known.buffers:
                fill(nest, met, (), known, "")
                if (
                    not nest.tile
                    and measurable(steps, place)
                    and place + 1 < len(steps)
                    and not later.cuts
                    and all(map(nest.marks_fit, met.lists))
                ):
                    marked.append(_mark_buffer(nest, met, known))
        elif len(here) == 1 and here[0] not in known.marks and _markable(nest, here[0]):
            marked.append(here[0])
            deep = any(isinstance(step, Join) for step in steps[at + 1 : place])
            _mark(nest, here[0], known, walk, WORTH_DEEP if deep else WORTH)
    return marked


def _markable(nest: NestPrinter, node: TrieNode) -> bool:
    if nest.tile or nest.intersect not in ("auto", "mark"):
        return False  # thousands of tiles have no room for marks
    return nest.marks_fit(node)


def _mark(nest: NestPrinter, node: TrieNode, known: KnownPositions, walk: Walk, worth: int) -> None:
    text = nest.text
    low, high = nest.range_of(node, known)
    flag = text.name("marked")
    turns = f"{walk.high} - {walk.low}"
    if nest.intersect == "mark":
        text.line(f"{flag} = True")
    else:
        text.line(f"{flag} = {turns} > 1 and ({turns}) * {worth} > {high} - {low}")
    with text.block(f"if {flag}"):
        text.line(nest.call("mark", nest.values(node), low, high, *marks_of(nest, node)))
    known.marks[node] = flag


def _mark_buffer(nest: NestPrinter, met: LevelLists, known: KnownPositions) -> frozenset[TrieNode]:
    """Marks the values of an intersection that single values are looked up in."""
    buffer = known.buffers[met.nodes]
    marks = marks_of(nest, min(met.lists, key=repr), buffer.array)
    nest.text.line(nest.call("mark", buffer.array, buffer.low, buffer.end, *marks))
    known.buffers[met.nodes] = replace(buffer, marks=marks)
    return met.nodes


def close_marks(
    nest: NestPrinter, marked: Sequence[TrieNode | frozenset[TrieNode]], known: KnownPositions
) -> None:
    """Clears the marks, after the loop."""
    for node in marked:
        if isinstance(node, frozenset):
            buffer = known.buffers[node]
            assert buffer.marks is not None
            nest.text.line(nest.call("unmark", buffer.array, buffer.low, buffer.end, *buffer.marks))
            continue
        low, high = nest.range_of(node, known)
        with nest.text.block(f"if {known.marks[node]}"):
            nest.text.line(nest.call("unmark", nest.values(node), low, high, *marks_of(nest, node)))
        del known.marks[node]


def fetch_ahead(nest: NestPrinter, steps: Sequence[Step], at: int, walk: Walk, turn: str) -> None:
    """Prefetches lookups of later values in large roots, whose addresses a processor cannot
    predict. The loop is likely to continue with the list that follows in memory."""
    step = steps[at]
    assert isinstance(step, Join)
    term = Slot(step.variable, step.type)
    parts = list(step.participants)
    for later in all_steps(tuple(steps[at + 1 :])):
        if isinstance(later, Seek) and later.value == term:
            parts += later.participants
    for node in dict.fromkeys(map(nest.paths.node, parts)):
        if not nest.direct or node.terms or nest.tallied(node) or nest.hashed(node):
            continue
        level, (first, *below) = nest.level(node), nest.tries[node.trie].levels
        if not first.dense or first.size < FAR:
            continue
        leads = nest.leads_on(node)
        arguments = nest.arguments
        kind = arguments.starts if leads else arguments.index
        array = arguments.weighed(level) if nest.weighs(node) else kind(level)
        sought = walk.array, turn, arguments.scalar("low", level), array
        nest.text.line(nest.call("fetch_sought", *sought))
        if leads and below[0].size >= FAR:
            its = nest.values(node.child(term))
            nest.text.line(nest.call("fetch_children", *sought, its))
