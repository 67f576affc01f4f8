"""The lists of a level: those from which its rows may be expanded, and those in which values are
looked up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdatalog.executors.frontier import Frontier, Roots
from gdatalog.executors.sinks import LevelWalk
from gdatalog.plan.join_plan import Comparison, Expr, Join, Participant, Slot
from gdatalog.records import dataclass
from gdatalog.storage.table import Array
from gdatalog.storage.trie import (
    ListEntries,
    ListRanges,
    ListRuns,
    Lookup,
    Sought,
    Through,
    TrieLevel,
)

# The sources of the lists from which a level can be expanded: a participant, by its number; or one
# of these: the lists of an earlier level; the intersection of the roots; intersections that are
# shared by the rows that agree in the variables on which the lists depend.
REUSED, ROOTS, SHARED = -1, -2, -3
Lists = ListEntries | ListRanges | ListRuns


@dataclass(slots=True)
class Reused:
    """The list of an earlier level: `parents` are its list numbers, `own` this row's entry."""

    level: TrieLevel
    parents: Array
    own: Array


class FrontierLists:
    """The lists of one frontier's rows. `met`: the rows of intersections, if rows share them."""

    def __init__(self, walk: LevelWalk, frontier: Frontier) -> None:
        self.walk, self.ops, self.frontier = walk, walk.ops, frontier
        self.met: Frontier | None = None

    @staticmethod
    def entry(lists: Lists) -> ListEntries:
        """Plain lists, with where each begins and ends."""
        assert isinstance(lists, ListEntries)
        return lists

    def choices(self, step: Join, plain: bool = False) -> list[Lists]:
        """The lists that may be expanded, restricted to the ranges of the cuts; `plain`: for
        operations on arrays, also on a device."""
        frontier = self.frontier
        plain = plain or self.ops.fused is None
        choices: list[Lists] = []
        runs = None if plain else self._runs(step)
        reused, covered = (None, ()) if runs is not None else self._reused(step, frontier)
        if runs is not None and step.reuse is not None:
            covered = step.reuse.covers
            choices.append(runs)
        elif reused is not None and step.reuse is not None:
            cuts = [cut for at, cut in enumerate(step.cuts) if at not in step.reuse.implied]
            choices.append(self._reuse_lists(step.reuse.variable, reused, cuts))
        for place, part in enumerate(step.participants):
            if part.depth == 0 or place in covered:
                continue
            level = self.walk.tries[part.trie].levels[part.depth]
            keys: Any = self.keys if plain else self.entries
            bounds = [
                (op, keys(bound, frontier))
                for at, (op, bound) in enumerate(step.cuts)
                if (place, at) not in step.implied
            ]
            if plain:
                if part.trie in frontier.sought:
                    own = self._found(part.trie, frontier)[0]
                else:
                    own = frontier.column(part.trie)
                ranges = self.ops.ranges(level, own, bounds)
                choices.append(ListEntries(level.values, *ranges, source=place))
            else:
                nodes, above, times = self._nodes(part.trie, frontier), frontier.parent, 0
                if frontier.distinct and part.trie in frontier.columns:
                    times = 1
                elif above is not None and above.distinct and part.trie in above.columns:
                    times = 2 if any(level is one for one in frontier.within) else 0
                choices.append(ListRanges(level, nodes, bounds, place, times))
        if not choices:
            choices.append(self._root_lists(step))
        for trie in frontier.sought if plain else ():
            absent = self._found(trie, frontier)[1]
            choices = [self._without(absent, lists) for lists in choices]
        return choices

    def _without(self, absent: Array, lists: Lists) -> ListEntries:
        """These lists, empty for the rows that have no node in a trie."""
        entries = self.entry(lists)
        lengths = self.ops.xp.where(absent, 0, entries.lengths)
        return entries._replace(lengths=lengths, size=None)

    def _found(self, trie: int, frontier: Frontier) -> tuple[Array, Array]:
        """The nodes of a frontier's rows in a trie whose root they seek, and which have none."""
        variable = self.frontier.sought[trie]
        found = self.ops.find(self.walk.tries[trie].levels[0], frontier.column(variable))
        return self.ops.xp.maximum(found, 0), found < 0

    def _nodes(self, trie: int, frontier: Frontier) -> Array | Through | Sought:
        """The nodes of a frontier's rows in a trie, for kernels, which read columns in place."""
        variable = frontier.sought.get(trie)
        if variable is None:
            return frontier.entries(trie)
        return Sought(self.walk.tries[trie].levels[0], frontier.entries(variable))

    def keys(self, expr: Expr, frontier: Frontier) -> Array:
        (keys,) = frontier.values([expr], self.ops, self.walk.scope)
        return keys

    def entries(self, expr: Expr, frontier: Frontier) -> Array | Through:
        """The same for kernels, which read columns in place."""
        return frontier.entries(expr.name) if isinstance(expr, Slot) else self.keys(expr, frontier)

    def _clip(self, op: str, starts: Array, ends: Array, bound: Array) -> tuple[Array, Array]:
        xp = self.ops.xp
        if op in ("<", "<="):
            return starts, xp.minimum(ends, bound)
        return xp.maximum(starts, bound), ends

    def _root_lists(self, step: Join) -> ListEntries:
        """All rows use the same list: the intersection of the roots."""
        xp = self.ops.xp
        values = self.roots(step)[0].values
        size = self.frontier.size
        starts, ends = xp.zeros(size, dtype=xp.int64), xp.full(size, len(values))
        total: int | None = size * len(values)
        for at, (op, expr) in enumerate(step.cuts):
            if all((place, at) not in step.implied for place in range(len(step.participants))):
                bound = self.keys(expr, self.frontier)
                side = "right" if op in ("<=", ">") else "left"
                at_bound = xp.searchsorted(values, bound, side=side)
                starts, ends = self._clip(op, starts, ends, at_bound)
                total = None
        lengths = ends if total is not None else xp.maximum(ends - starts, 0)
        return ListEntries(values, starts, lengths, total, source=ROOTS)

    def roots(self, step: Join) -> Roots:
        found = self.walk.roots.get(id(step))
        if found is None:
            parts = [part for part in step.participants if part.depth == 0]
            levels = [self.walk.tries[part.trie].levels[0] for part in parts]
            if all(level is levels[0] for level in levels):  # skipped for identical tries
                found = levels[0], [None] * len(levels)
            else:
                lists = [level.values for level in levels]
                self.walk.limits.look((len(lists) - 1) * min(map(len, lists)))
                values, positions = self.ops.intersect(lists)
                bounds = self.ops.xp.arange(2) * len(values)
                found = self.ops.level_of(values, bounds), positions
            if step.least and len(parts) == len(step.participants):
                found = self._long_enough(step, *found)
            self.walk.roots[id(step)] = found
        return found

    def _long_enough(
        self, step: Join, level: TrieLevel, positions: Sequence[Array | None]
    ) -> Roots:
        """The values of roots whose lists below have as many values as the step needs."""
        xp, tries = self.ops.xp, [self.walk.tries[part.trie] for part in step.participants]
        trie, most = tries[0], max(least for _, least in step.least)
        alone = all(one is trie for one in tries)
        if alone and most in trie.with_long_lists:
            level, kept = trie.with_long_lists[most]
            return level, [kept] * len(tries)
        marks = xp.ones(len(level), dtype=bool)
        for place, least in step.least:
            lengths = xp.diff(tries[place].levels[1].offsets)
            at = positions[place]
            marks &= (lengths if at is None else lengths[at]) >= least
        kept = self.ops.survivors(marks)
        if len(kept) == len(level):
            found = level
        else:
            found = self.ops.level_of(level.values[kept], xp.arange(2) * len(kept))
        places = [kept if at is None else at[kept] for at in positions]
        if alone:
            trie.with_long_lists[most] = found, kept
        return found, places

    def reusable(self, step: Join) -> Frontier | None:
        """The earlier level whose lists a step reuses, unless a chunk has cut one of them."""
        level: Frontier | None = None if step.reuse is None else self.frontier
        while step.reuse is not None and level is not None and level.level != step.reuse.variable:
            level = level.parent
        return level if level is not None and level.whole else None

    def _runs(self, step: Join) -> ListRuns | None:
        """The lists of the last level, if a step reuses them: their entries are the rows."""
        level, reuse = self.reusable(step), step.reuse
        if level is not self.frontier or reuse is None or level.rows is None:
            return None
        cuts = [cut for at, cut in enumerate(step.cuts) if at not in reuse.implied]
        if any(not isinstance(expr, Slot) or expr.name != reuse.variable for _, expr in cuts):
            return None
        values = level.columns[reuse.variable]
        return ListRuns(values, level.rows, tuple(op for op, _ in cuts), REUSED)

    def _reused(
        self, step: Join, frontier: Frontier
    ) -> tuple[Reused, Sequence[int]] | tuple[None, Sequence[int]]:
        """The list of an earlier level, unless a chunk has cut one of its lists; and the places of
        the participants that it covers."""
        if step.reuse is None:
            return None, ()
        level = self.reusable(step)
        if level is None:
            return None, ()
        number = "@" + step.reuse.variable
        if number not in level.columns:
            level.columns[number] = self.ops.xp.arange(level.size)
        own = frontier.column(number)
        lists = level.lists(self.ops)
        assert level.rows is not None
        return Reused(lists, level.rows[own], own), step.reuse.covers

    def _reuse_lists(
        self, variable: str, reused: Reused, cuts: Sequence[Comparison]
    ) -> ListEntries:
        level, parents, own = reused.level, reused.parents, reused.own
        starts, ends = level.offsets[parents], level.offsets[parents + 1]
        for op, expr in cuts:
            if isinstance(expr, Slot) and expr.name == variable:
                # The bound is this row's own entry of the list, so its position is known.
                at_bound = own + 1 if op in ("<=", ">") else own
            else:
                bound = self.keys(expr, self.frontier)
                at_bound = self.ops.bound_in(level, parents, bound, op in ("<=", ">"))
            starts, ends = self._clip(op, starts, ends, at_bound)
        lengths = self.ops.xp.maximum(ends - starts, 0)
        return ListEntries(level.values, starts, lengths, source=REUSED)

    def lookups(
        self, step: Join, frontier: Frontier, expanded: int, fused: bool = False
    ) -> dict[int, Lookup]:
        """Where values may be looked up, by source: in lists, then in the roots. `expanded`: the
        source of the lists that are expanded, or of one of several. `fused`: for kernels, which
        read columns in place."""
        if expanded == SHARED:
            assert self.met is not None
            return {SHARED: Lookup(self.met.lists(self.ops), None, True)}
        found: dict[int, Lookup] = {}
        runs = self._runs(step) if fused else None
        reused, covered = (None, ()) if runs is not None else self._reused(step, frontier)
        if runs is not None and step.reuse is not None:
            covered = step.reuse.covers
            found[REUSED] = Lookup(self.ops.level_of(runs.values, runs.parents), None, False)
        elif reused is not None:
            found[REUSED] = Lookup(reused.level, reused.parents, False)
        roots = False
        for place, part in enumerate(step.participants):
            if part.depth == 0:
                roots = True
            elif place not in covered:
                level = self.walk.tries[part.trie].levels[part.depth]
                if fused:
                    nodes: Any = self._nodes(part.trie, frontier)
                elif part.trie in self.frontier.sought:
                    nodes = self._found(part.trie, frontier)[0]
                else:
                    nodes = frontier.column(part.trie)
                found[place] = Lookup(level, nodes, self.asks(part))
        if roots:
            asked = any(self.asks(part) for part in step.participants if part.depth == 0)
            found[ROOTS] = Lookup(self.roots(step)[0], None, asked)
        return found

    def asks(self, part: Participant) -> bool:
        """Whether the position in a participant's trie is needed afterwards."""
        trie = self.walk.tries[part.trie]
        return part.depth + 1 < len(trie.levels) or trie.weights is not None
