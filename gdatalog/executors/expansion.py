"""Widening a frontier by a level: which lists to expand, what to search, piece by piece.

Each row is expanded from the shortest of its lists (that is what makes the join worst-case
optimal); where rows differ in which list that is, they are run in groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gdatalog.executors.frontier import Frontier, Key, weighing
from gdatalog.executors.sinks import Sink
from gdatalog.plan.nodes import Cut, Join, Slot
from gdatalog.storage.table import Array
from gdatalog.storage.trie import TrieLevel

if TYPE_CHECKING:
    from gdatalog.executors.levelwise import Levelwise

_REUSED, _ROOTS = -1, -2


@dataclass(slots=True)
class Roots:
    """Case 1: the common values of root lists, and where each stands in each of them."""

    level: TrieLevel
    positions: list[Array]


@dataclass(slots=True)
class _Lists:
    """Lists that a level may be expanded from: one for each row of the frontier."""

    who: int  # a participant's place, or _REUSED, or _ROOTS
    values: Array
    starts: Array
    lengths: Array


@dataclass(slots=True)
class _Reused:
    """The list of an earlier level: `parents` are its list numbers, `own` this row's entry."""

    level: TrieLevel
    parents: Array
    own: Array


class Expansion:
    """The children of one frontier under one step."""

    def __init__(self, walk: Levelwise, frontier: Frontier, sink: Sink) -> None:
        self.walk = walk
        self.ops = walk.ops
        self.frontier = frontier
        self.sink = sink
        self.tried = 0

    # ------------------------------------------------------------------------------- join

    def join(self, step: Join) -> Iterator[Frontier]:
        """The frontier times the values that the step's variable can take, by pieces."""
        xp = self.ops.xp
        choices = self._choices(step)
        if len(choices) > 1:
            totals = [int(lists.lengths.sum()) for lists in choices]
            shortest = min(range(len(choices)), key=totals.__getitem__)
            lengths = xp.stack([lists.lengths for lists in choices])
            best = lengths.min(axis=0)
            if 2 * int(best.sum()) < totals[shortest]:
                which = lengths.argmin(axis=0)
                for at, lists in enumerate(choices):
                    rows = self.ops.survivors((which == at) & (best > 0))
                    if len(rows):
                        part = _Lists(lists.who, lists.values, lists.starts[rows], best[rows])
                        yield from self._expand(step, self.frontier.take(rows), part)
                return
            choices = [choices[shortest]]
        yield from self._expand(step, self.frontier, choices[0])

    def counts(self, step: Join) -> Array | None:
        """How many values each row has, where that can be read off its list."""
        usable = self._reused(step, self.frontier)
        covered = step.reuse.covers if step.reuse and usable else ()
        if len(step.participants) - len(covered) + (usable is not None) != 1:
            return None
        lists = self._choices(step)[0]
        if lists.who == _REUSED:
            return lists.lengths
        trie = self.walk.tries[step.participants[max(lists.who, 0)].trie]
        if trie.weights is None:
            return lists.lengths
        sums = trie.weight_sums()
        weighed: Array = sums[lists.starts + lists.lengths] - sums[lists.starts]
        return weighed

    def _choices(self, step: Join) -> list[_Lists]:
        """The lists that may be expanded, cut to the ranges that the cuts leave."""
        frontier = self.frontier
        choices = []
        reused = self._reused(step, frontier)
        covered: Sequence[int] = ()
        if reused is not None and step.reuse is not None:
            covered = step.reuse.covers
            cuts = [cut for at, cut in enumerate(step.cuts) if at not in step.reuse.implied]
            choices.append(self._reuse_lists(step.reuse.variable, reused, cuts))
        for place, part in enumerate(step.participants):
            if part.depth == 0 or place in covered:
                continue
            level = self.walk.tries[part.trie].levels[part.depth]
            parents = frontier.column(part.trie)
            starts, ends = level.offsets[parents], level.offsets[parents + 1]
            for at, cut in enumerate(step.cuts):
                if (place, at) not in step.implied:
                    bound = self._bound(cut, frontier)
                    at_bound = level.bound_in(parents, bound, cut.op in ("<=", ">"))
                    starts, ends = self._clip(cut.op, starts, ends, at_bound)
            choices.append(self._lists(place, level.values, starts, ends))
        if not choices:
            choices.append(self._root_lists(step))
        return choices

    def _lists(self, who: int, values: Array, starts: Array, ends: Array) -> _Lists:
        return _Lists(who, values, starts, self.ops.xp.maximum(ends - starts, 0))

    def _bound(self, cut: Cut, frontier: Frontier) -> Array:
        keys: Array
        keys, _ = self.ops.evaluate(cut.bound, frontier.column, frontier.size, self.walk.scope)
        return keys

    def _clip(self, op: str, starts: Array, ends: Array, bound: Array) -> tuple[Array, Array]:
        xp = self.ops.xp
        if op in ("<", "<="):
            return starts, xp.minimum(ends, bound)
        return xp.maximum(starts, bound), ends

    def _root_lists(self, step: Join) -> _Lists:
        """Every row meets the same list: the common values of the roots."""
        xp = self.ops.xp
        values = self._roots(step).level.values
        starts = xp.zeros(self.frontier.size, dtype=xp.int64)
        ends = xp.full(self.frontier.size, len(values))
        for at, cut in enumerate(step.cuts):
            if all((place, at) not in step.implied for place in range(len(step.participants))):
                bound = self._bound(cut, self.frontier)
                side = "right" if cut.op in ("<=", ">") else "left"
                at_bound = xp.searchsorted(values, bound, side=side)
                starts, ends = self._clip(cut.op, starts, ends, at_bound)
        return self._lists(_ROOTS, values, starts, ends)

    def _roots(self, step: Join) -> Roots:
        found = self.walk.roots.get(id(step))
        if found is None:
            parts = [part for part in step.participants if part.depth == 0]
            levels = [self.walk.tries[part.trie].levels[0] for part in parts]
            if all(level is levels[0] for level in levels):  # skipped for identical tries
                every = self.ops.xp.arange(len(levels[0]))
                found = Roots(levels[0], [every] * len(levels))
            else:
                values, positions = self.ops.intersect([level.values for level in levels])
                bounds = self.ops.xp.array([0, len(values)])
                found = Roots(TrieLevel(values, bounds), positions)
            self.walk.roots[id(step)] = found
        return found

    def _reused(self, step: Join, frontier: Frontier) -> _Reused | None:
        """The earlier level's lists, unless a chunk has cut one of them."""
        if step.reuse is None:
            return None
        variable = step.reuse.variable
        level = next((above for above in frontier.above() if above.level == variable), None)
        if level is None or not level.whole:
            return None
        assert level.rows is not None
        own = frontier.column("@" + variable)
        return _Reused(level.lists(self.ops.xp), level.rows[own], own)

    def _reuse_lists(self, variable: str, reused: _Reused, cuts: Sequence[Cut]) -> _Lists:
        level, parents, own = reused.level, reused.parents, reused.own
        starts, ends = level.offsets[parents], level.offsets[parents + 1]
        for cut in cuts:
            if isinstance(cut.bound, Slot) and cut.bound.name == variable:
                # The bound is this row's own entry of the list: its place is known.
                at_bound = own + 1 if cut.op in ("<=", ">") else own
            else:
                bound = self._bound(cut, self.frontier)
                at_bound = level.bound_in(parents, bound, cut.op in ("<=", ">"))
            starts, ends = self._clip(cut.op, starts, ends, at_bound)
        return self._lists(_REUSED, level.values, starts, ends)

    def _expand(self, step: Join, frontier: Frontier, lists: _Lists) -> Iterator[Frontier]:
        ops, limits = self.ops, self.walk.limits
        for low, high, skip, take in ops.pieces(lists.lengths, limits.chunk):
            limits.poll()
            starts, lengths = lists.starts[low:high], lists.lengths[low:high]
            whole = take < 0
            if not whole:
                starts, lengths = starts + skip, ops.xp.full(1, take)
            picked: Array | None = None
            if low or skip:
                # Rows that have their witness by now need no more of it.
                wanted = self.sink.wanted(frontier)
                if wanted is not None:
                    picked = low + ops.survivors(wanted[low:high])
                    starts, lengths = starts[picked - low], lengths[picked - low]
            rows, positions = ops.expand(starts, lengths)
            rows = rows + low if picked is None else picked[rows]
            self.tried += len(rows)
            child = self._search(step, frontier, lists, rows, positions)
            child.level, child.whole = step.variable, whole
            yield child

    def _search(
        self, step: Join, frontier: Frontier, lists: _Lists, rows: Array, positions: Array
    ) -> Frontier:
        """Keeps the expanded values that every other participant has too."""
        ops, tries = self.ops, self.walk.tries
        values = lists.values[positions]
        places: dict[int, Array] = {}  # participant -> where its trie stands now
        covered: Sequence[int] = ()
        reused = self._reused(step, frontier)
        if reused is not None and step.reuse is not None:
            covered = step.reuse.covers

        def keep(found: Array) -> None:
            nonlocal rows, values
            mask = found >= 0
            if not bool(mask.all()):
                left = ops.survivors(mask)
                rows, values = rows[left], values[left]
                for place in places:
                    places[place] = places[place][left]

        if lists.who >= 0:
            places[lists.who] = positions
        elif lists.who == _ROOTS:
            places[_ROOTS] = positions
        if reused is not None and lists.who != _REUSED:
            keep(reused.level.find_in(reused.parents[rows], values))
        roots = [place for place, part in enumerate(step.participants) if part.depth == 0]
        if roots and lists.who != _ROOTS:
            places[_ROOTS] = self._roots(step).level.find(values)
            keep(places[_ROOTS])
        for place, part in enumerate(step.participants):
            if part.depth and place != lists.who and place not in covered:
                level = tries[part.trie].levels[part.depth]
                places[place] = level.find_in(frontier.column(part.trie)[rows], values)
                keep(places[place])

        columns: dict[Key, Array] = {step.variable: values}
        columns["@" + step.variable] = ops.xp.arange(len(values))
        child = Frontier(len(values), frontier, rows, columns)
        heavy = []
        for number, place in enumerate(roots):
            if _ROOTS in places:
                places[place] = self._roots(step).positions[number][places[_ROOTS]]
        for place, part in enumerate(step.participants):
            trie = tries[part.trie]
            if place in places:
                if part.depth + 1 < len(trie.levels):
                    columns[part.trie] = places[place]
                elif trie.weights is not None:
                    heavy.append(trie.weights[places[place]])
        for weight in heavy:
            child = self._reweigh(child, weight)
        return child

    def _reweigh(self, child: Frontier, weight: Array) -> Frontier:
        """As `weighing`, but in the level's own frontier, which deeper levels look for."""
        child.columns.update(weighing(child, weight).columns)
        return child
