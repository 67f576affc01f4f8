"""The lists that a group recodes."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan.effects import all_steps, participants
from gdatalog.plan.join_plan import Participant, Slot, Step
from gdatalog.plan.nest import Recoding, TrieNode
from gdatalog.printer.bitsets import ascends
from gdatalog.printer.nest import NestPrinter
from gdatalog.printer.nest_state import RecodedList


def adjacencies(nest: NestPrinter, steps: Sequence[Step], group: Recoding) -> list[TrieNode]:
    """One node for each trie that rows are built from."""
    found: dict[object, TrieNode] = {}
    for step in group.joins(steps, nest.paths):
        for part in step.participants:
            node = nest.paths.node(part)
            if node != group.within and node.terms:
                found.setdefault(node.trie, node)
    return list(found.values())


def keeps_rows(nest: NestPrinter, within: TrieNode) -> bool:
    """Whether the rows of all lists are made before the loops run, which then only read them."""
    return nest.keeps_rows and nest.tile > 0 and within.depth == 1


def looked_up(nest: NestPrinter, group: RecodedList, part: Participant) -> bool:
    """Whether a participant needs a lookup at the root, because no row of the group covers it."""
    node = nest.paths.node(part)
    if node.terms:
        return False
    return not nest.paths.goes_on(part) or nest.paths.child(part) not in group.rowed


def rowed_nodes(nest: NestPrinter, steps: Sequence[Step], group: Recoding) -> frozenset[TrieNode]:
    """The nodes whose lists only the group's levels read, as rows of bits."""
    inside: set[TrieNode] = set()
    outside: set[TrieNode] = set()
    levels = {id(step) for step in group.joins(steps, nest.paths)}
    for step in all_steps(tuple(steps)):
        nodes = {nest.paths.node(part) for part in participants(step)}
        (inside if id(step) in levels else outside).update(nodes)
    return frozenset(inside - outside)


def least_length(nest: NestPrinter, steps: Sequence[Step], group: Recoding) -> int:
    """The least length of a list that can contain a match: the length of the longest chain of
    levels with ascending values."""
    longest: dict[str, int] = {}
    for step in group.joins(steps, nest.paths):
        below = [1]
        for part in step.participants:
            node = nest.paths.node(part)
            if node.depth == 1 and isinstance(node.terms[0], Slot) and ascends(node):
                below.append(longest.get(node.terms[0].name, 0) + 1)
        longest[step.variable] = max(below)
    return max(longest.values())
