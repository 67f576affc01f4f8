"""A join plan as a nest of loops: the lists of each level, and groups of rows to deduplicate.

A *list* is the children of a trie node. It is known as soon as the values that lead to the node are
bound. Atoms at the same node of the same trie share one list. These properties hold on any device;
printers turn them into loops.

If the first variables that a join binds are all in its head, rows with equal values of these form a
group. Different groups have different rows, and the rows of a group follow each other. So each
group is deduplicated by itself, with a small set that stays in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from gdatalog.plan import join_plan as p
from gdatalog.plan.effects import all_steps, participants
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class TrieNode:
    """A node of a trie: the terms bound above it. Its children are a list; the root has no
    terms."""

    trie: p.TrieRef
    terms: tuple[p.Expr, ...]

    def child(self, term: p.Expr) -> TrieNode:
        return TrieNode(self.trie, (*self.terms, term))

    @property
    def depth(self) -> int:
        return len(self.terms)

    @property
    def last(self) -> bool:
        """Whether the node's children are the trie's last level."""
        return self.depth + 1 == len(self.trie.columns)

    @property
    def variables(self) -> frozenset[str]:
        return frozenset([term.name for term in self.terms if isinstance(term, p.Slot)])


@dataclass(frozen=True, slots=True)
class Paths:
    """The trie nodes of the participants of a plan's steps."""

    tries: tuple[p.TrieRef, ...]
    terms: tuple[tuple[p.Expr, ...], ...]

    @staticmethod
    def of(join: p.JoinPlan) -> Paths:
        terms: list[list[p.Expr]] = [[] for _ in join.tries]
        for step in all_steps(join.steps):
            if isinstance(step, (p.Seek, p.Join, p.Assign, p.Generate)):
                term = step.value if isinstance(step, p.Seek) else p.Slot(step.variable, step.type)
                for part in step.participants:
                    terms[part.trie].append(term)
        return Paths(join.tries, tuple(map(tuple, terms)))

    def node(self, part: p.Participant) -> TrieNode:
        """The node whose children a participant reads."""
        return TrieNode(self.tries[part.trie], self.terms[part.trie][: part.depth])

    def child(self, part: p.Participant) -> TrieNode:
        """The node that a participant's value leads to."""
        return TrieNode(self.tries[part.trie], self.terms[part.trie][: part.depth + 1])

    def goes_on(self, part: p.Participant) -> bool:
        """Whether the trie has further levels below this participant."""
        return part.depth + 1 < len(self.tries[part.trie].columns)


def entries(join: p.JoinPlan) -> dict[tuple[str, ...], TrieNode]:
    """The entries of tries with two columns that the levels find, by the names of both
    variables."""
    paths = Paths.of(join)
    found: dict[tuple[str, ...], TrieNode] = {}
    for step in all_steps(join.steps):
        for part in participants(step):
            node = paths.child(part)
            names = tuple([term.name for term in node.terms if isinstance(term, p.Slot)])
            if part.depth == 1 and not paths.goes_on(part) and len(names) == 2:
                found.setdefault(names, node)
    return found


def unequal(step: p.Step, variable: str) -> p.Slot | None:
    """The other variable, if a step is only the test `!=` between it and `variable`."""
    match step:
        case p.Filter(p.Apply("!=", (p.Slot() as left, p.Slot() as right))) if left != right:
            if left.name == variable:
                return right
            if right.name == variable:
                return left
    return None


def measurable(steps: Sequence[p.Step], at: int) -> bool:
    """Whether the level at `at` is the last, with no tests of its values except `!=`."""
    step = steps[at]
    return isinstance(step, p.Join) and all(
        unequal(later, step.variable) is not None for later in steps[at + 1 :]
    )


@dataclass(frozen=True, slots=True)
class Recoding:
    """Levels whose values all lie in one list: positions in that list become bits.

    `levels`: the indexes of the joins among the steps. Each reads the list `within`, and rows of
    adjacency bits of earlier levels.
    """

    within: TrieNode
    levels: tuple[int, ...]

    @property
    def first(self) -> int:
        return self.levels[0]

    def joins(self, steps: Sequence[p.Step], paths: Paths) -> list[p.Join]:
        """The levels, including those of branches that count."""
        names = frozenset(
            step.variable for at in self.levels if isinstance(step := steps[at], p.Join)
        )
        found: list[p.Join] = []
        for at in self.levels:
            step = steps[at]
            if isinstance(step, p.Join):
                found.append(step)
            elif isinstance(step, p.Branch):
                for inside in step.alternatives:
                    place = counted_within(inside, names, paths, self.within)
                    if place is not None:
                        level = inside[place]
                        assert isinstance(level, p.Join)
                        found.append(level)
        return found


def recoding(steps: Sequence[p.Step], paths: Paths, at: int) -> Recoding | None:
    """The longest run of levels from `at` that can be recoded within one list; the last can be
    levels of branches that count."""
    first = steps[at]
    if not isinstance(first, p.Join):
        return None
    best: Recoding | None = None
    most = 0
    for part in first.participants:
        within = paths.node(part)
        if within.depth == 0 or not within.last or within.trie.weighted:
            continue
        found = Recoding(within, tuple(_levels_within(steps, paths, at, within)))
        joins = found.joins(steps, paths)
        if _rows_meet(joins, paths, within) and len(joins) > most:
            best, most = found, len(joins)
    return best


def recoded(
    steps: Sequence[p.Step],
    paths: Paths,
    cut: Collection[str] = (),
    fits: Callable[[TrieNode], bool] = lambda _: True,
) -> set[str]:
    """The variables whose levels can be recoded; without the `cut` variables, which will get cuts
    by constants, and levels that these separate from the others. `fits`: whether scratch has room
    for the rows of the longest list."""
    parted = [None if isinstance(s, p.Join) and s.variable in cut else s for s in steps]
    found = set[str]()
    for at in range(len(steps)):
        end = parted.index(None, at) if None in parted[at:] else len(steps)
        group = recoding(steps[:end], paths, at) if at < end else None
        if group is not None and fits(group.within):
            found |= {level.variable for level in group.joins(steps, paths)}
    return found


def _rows_meet(joins: Sequence[p.Join], paths: Paths, within: TrieNode) -> bool:
    """Whether some level intersects several rows; otherwise building rows does not pay."""
    return any(
        len({paths.node(part) for part in join.participants} - {within}) > 1
        and sum([bool(paths.node(part).terms) for part in join.participants]) > 2
        for join in joins
    )


def _levels_within(steps: Sequence[p.Step], paths: Paths, at: int, within: TrieNode) -> list[int]:
    levels: list[int] = []
    names: set[str] = set()
    for place in range(at, len(steps)):
        step = steps[place]
        if isinstance(step, p.Filter):
            continue
        if isinstance(step, p.Seek) and _only_roots(step, names, paths):
            continue
        if isinstance(step, p.Branch) and step.mode == "count":
            counted = (counted_within(i, names, paths, within) for i in step.alternatives)
            if any(inside is not None for inside in counted):
                levels.append(place)
            break
        if not isinstance(step, p.Join) or not _is_within(step, names, paths, within):
            break
        levels.append(place)
        names.add(step.variable)
    return levels


def _is_within(step: p.Join, names: Collection[str], paths: Paths, within: TrieNode) -> bool:
    """Whether a level's candidates lie in a list, and its other lists are rows of bits."""
    nodes = [paths.node(part) for part in step.participants]
    return (
        within in nodes
        and all(_adjacency(node, names) for node in nodes if node != within)
        and all(isinstance(bound, p.Slot) for _, bound in step.cuts)
    )


def counted_within(
    steps: Sequence[p.Step], names: Collection[str], paths: Paths, within: TrieNode
) -> int | None:
    """The index of the only level of a branch that counts, if its values are bits of a list;
    `names` are the variables with rows of bits.

    None if a trie ends at its root: it may have weights, or lack values, which rows of bits do not
    show.
    """
    for at, step in enumerate(steps):
        parts = participants(step)
        if any(not paths.node(one).terms and not paths.goes_on(one) for one in parts):
            return None
        if isinstance(step, p.Seek):
            children = {paths.child(part) for part in step.participants}
            if not _only_roots(step, names, paths) and children != {within}:
                return None
            continue
        fits = isinstance(step, p.Join) and measurable(steps, at)
        return at if fits and _is_within(step, names, paths, within) else None  # type: ignore[arg-type]  # if it fits, it is a Join
    return None


def _only_roots(step: p.Seek, names: Collection[str], paths: Paths) -> bool:
    """Whether a step only looks a level's value up at roots, which rows of bits imply."""
    return (
        isinstance(step.value, p.Slot)
        and step.value.name in names
        and all(paths.node(part).depth == 0 for part in step.participants)
    )


def _adjacency(node: TrieNode, names: Collection[str]) -> bool:
    """Whether a row of bits replaces a participant, or it is looked up at the root."""
    if node.depth == 0:
        return True
    (*_, last) = node.terms
    return (
        node.depth == 1
        and node.last
        and not node.trie.weighted
        and isinstance(last, p.Slot)
        and last.name in names
    )
