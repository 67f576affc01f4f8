"""Hoists work out of loops.

Before a loop, the function looks up the ranges of lists that deeper levels read, and computes the
intersections that do not depend on the loop. It marks a list that each turn intersects, if there
are enough turns to pay for that. In the loop, it prefetches lookups of later turns in large roots.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan.effects import all_steps
from gdatalog.plan.join_plan import Join, Seek, Slot
from gdatalog.plan.nest import TrieNode, measurable, recoding
from gdatalog.printer.lists import LevelLists, fill, marks_of
from gdatalog.printer.measure import both, last_pair
from gdatalog.printer.nest import Point
from gdatalog.printer.nest_state import Walk
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
