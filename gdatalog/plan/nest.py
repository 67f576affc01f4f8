"""A join plan seen as a nest of loops: which lists its levels meet, and where they are known.

A *list* is the children of one node of a trie: it is known as soon as the values that lead to
that node are. Two atoms that stand at the same node of the same trie share one list. What is
found here holds on any device; printers turn it into loops.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan.effects import all_steps, participants
from gdatalog.plan.nodes import (
    Apply,
    Assign,
    Expr,
    Filter,
    Generate,
    Join,
    JoinPlan,
    Participant,
    Seek,
    Slot,
    Step,
    TrieRef,
)
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a trie: what is bound above it. Its children are a list; the root has no terms."""

    trie: TrieRef
    terms: tuple[Expr, ...]

    def child(self, term: Expr) -> Node:
        return Node(self.trie, (*self.terms, term))

    @property
    def depth(self) -> int:
        return len(self.terms)

    @property
    def last(self) -> bool:
        """Whether the node's children are at the last level of the trie."""
        return self.depth + 1 == len(self.trie.columns)

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(term.name for term in self.terms if isinstance(term, Slot))


def terms_of(join: JoinPlan) -> list[tuple[Expr, ...]]:
    """For each trie of a plan what its levels are bound to."""
    terms: list[list[Expr]] = [[] for _ in join.tries]
    for step in all_steps(join.steps):
        if isinstance(step, Seek):
            term: Expr = step.value
        elif isinstance(step, (Join, Assign, Generate)):
            term = Slot(step.variable, step.type)
        else:
            continue
        for part in step.participants:
            terms[part.trie].append(term)
    return [tuple(found) for found in terms]


@dataclass(frozen=True, slots=True)
class Paths:
    """Where the participants of a plan's steps stand."""

    tries: tuple[TrieRef, ...]
    terms: tuple[tuple[Expr, ...], ...]

    @staticmethod
    def of(join: JoinPlan) -> Paths:
        return Paths(join.tries, tuple(terms_of(join)))

    def node(self, part: Participant) -> Node:
        """The node whose children a participant is about."""
        return Node(self.tries[part.trie], self.terms[part.trie][: part.depth])

    def child(self, part: Participant) -> Node:
        """The node that a participant's value leads to."""
        return Node(self.tries[part.trie], self.terms[part.trie][: part.depth + 1])

    def goes_on(self, part: Participant) -> bool:
        """Whether the trie is asked for more below what this participant binds."""
        return part.depth + 1 < len(self.tries[part.trie].columns)


def unequal(step: Step, variable: str) -> Slot | None:
    """The other variable, where a step is only the test that one differs from it."""
    if not isinstance(step, Filter) or not isinstance(step.test, Apply):
        return None
    if step.test.function != "!=" or len(step.test.args) != 2:
        return None
    left, right = step.test.args
    if isinstance(left, Slot) and isinstance(right, Slot) and left != right:
        if left.name == variable:
            return right
        if right.name == variable:
            return left
    return None


def measurable(steps: Sequence[Step], at: int) -> bool:
    """Whether the level at `at` is the last, and nothing but `!=` is asked of its values."""
    step = steps[at]
    return isinstance(step, Join) and all(
        unequal(later, step.variable) is not None for later in steps[at + 1 :]
    )


@dataclass(frozen=True, slots=True)
class Recoding:
    """Levels whose candidates all lie in one list: its positions become bits (DESIGN 6.3).

    `levels` are the places of the joins among the steps. Each meets the list `within` and, of
    levels before it, rows of adjacency.
    """

    within: Node
    levels: tuple[int, ...]

    @property
    def first(self) -> int:
        return self.levels[0]


def recoding(steps: Sequence[Step], paths: Paths, at: int) -> Recoding | None:
    """The longest run of levels from `at` on that can be recoded within one list."""
    first = steps[at]
    if not isinstance(first, Join):
        return None
    best: Recoding | None = None
    for part in first.participants:
        within = paths.node(part)
        if within.depth == 0 or not within.last or within.trie.weighted:
            continue
        levels = _levels_within(steps, paths, at, within)
        if _rows_meet(steps, paths, levels, within) and (
            best is None or len(levels) > len(best.levels)
        ):
            best = Recoding(within, tuple(levels))
    return best


def _rows_meet(steps: Sequence[Step], paths: Paths, levels: Sequence[int], within: Node) -> bool:
    """Whether at some level several rows are met: else making them does not pay."""
    return any(
        len({paths.node(part) for part in participants(steps[at])} - {within}) > 1
        and len([p for p in participants(steps[at]) if paths.node(p).terms]) > 2
        for at in levels
    )


def _levels_within(steps: Sequence[Step], paths: Paths, at: int, within: Node) -> list[int]:
    levels: list[int] = []
    names: set[str] = set()
    for place in range(at, len(steps)):
        step = steps[place]
        if isinstance(step, Filter):
            continue
        if isinstance(step, Seek) and _only_roots(step, names, paths):
            continue
        if not isinstance(step, Join):
            break
        nodes = [paths.node(part) for part in step.participants]
        if within not in nodes or not all(
            _adjacency(node, names, paths, part)
            for node, part in zip(nodes, step.participants, strict=True)
            if node != within
        ):
            break
        if not all(isinstance(cut.bound, Slot) for cut in step.cuts):
            break
        levels.append(place)
        names.add(step.variable)
    return levels


def _only_roots(step: Seek, names: set[str], paths: Paths) -> bool:
    """Whether a step only looks a level's value up at roots, as rows of bits do anyway."""
    return (
        isinstance(step.value, Slot)
        and step.value.name in names
        and all(paths.node(part).depth == 0 for part in step.participants)
    )


def _adjacency(node: Node, names: set[str], paths: Paths, part: Participant) -> bool:
    """A participant that a row of bits stands for, or that is looked up at the root."""
    if node.depth == 0:
        return True
    (*_, last) = node.terms
    return (
        node.depth == 1
        and node.last
        and not node.trie.weighted
        and isinstance(last, Slot)
        and last.name in names
    )
