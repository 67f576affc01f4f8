"""Extends a frontier by a variable: a join's, from lists of tries, or one with given values.

Each row is expanded from the shortest of its lists, which makes the join worst-case optimal. Rows
whose shortest list differs run in groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gdatalog.errors import EvaluationError
from gdatalog.executors.frontier import WEIGHT, Frontier, Key, Roots
from gdatalog.executors.ops import LevelKernel, Ops
from gdatalog.executors.sinks import LevelWalk, Sink
from gdatalog.plan.join_plan import Comparison, Expr, Generate, Join, Participant, Slot, Step, slots
from gdatalog.records import dataclass
from gdatalog.storage.table import Array
from gdatalog.storage.trie import (
    Choice,
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
# Runs a step (0), or what follows it (1), over all rows of a frontier; False: it cannot.
Deeper = Callable[[int, Frontier], bool]


@dataclass(slots=True)
class Reused:
    """The list of an earlier level: `parents` are its list numbers, `own` this row's entry."""

    level: TrieLevel
    parents: Array
    own: Array


def shared(ops: Ops, frontier: Frontier, read: set[Key]) -> tuple[Frontier, Array] | None:
    """A frontier with one row for each combination of the variables `read`, and the combination of
    each row, by number; None if there are hardly fewer combinations than rows."""
    base, rows = frontier, None
    while base.parent is not None and read.isdisjoint(base.columns):
        if base.ahead is not None:
            base.settle()
        if base.rows is not None:
            rows = base.rows if rows is None else base.rows[rows]
        base = base.parent
    if rows is None:
        return None
    marks = ops.row_firsts((rows,))  # rows ascend, whatever they come from
    first = ops.survivors(marks)
    if 2 * len(first) > frontier.size:
        return None
    return base.take(rows[first]), ops.xp.cumsum(marks) - 1


_LONGEST = 1 << 50  # longer ranges could never complete


def _others(lookups: dict[int, Lookup], expanded: int) -> tuple[list[Lookup], list[int]]:
    """The look-ups of expanded values, and the lists in which their positions are needed: first
    the expanded one, then some of the others."""
    own = lookups.pop(expanded)
    if ROOTS in lookups and REUSED not in lookups:
        lookups = {ROOTS: lookups.pop(ROOTS), **lookups}  # an index costs less than a search
    asked = [source for source, lookup in lookups.items() if lookup.wanted]
    return list(lookups.values()), [expanded] * own.wanted + asked


class FrontierExpansion:
    """The children of one frontier under one step."""

    def __init__(
        self, walk: LevelWalk, frontier: Frontier, sink: Sink, deeper: Deeper | None = None
    ) -> None:
        """`deeper`: takes the rows that are left after a chunk, if it can."""
        self.walk = walk
        self.ops = walk.ops
        self.frontier = frontier
        self.sink = sink
        self._deeper = deeper
        self.tried = 0
        self.values: Array | None = None  # number of values per row, if `counts` weights them
        self.met: Frontier | None = None  # the rows of intersections, if rows share them

    # ------------------------------------------------------------------------------- join

    def join(
        self, step: Join, tests: Sequence[Comparison] = (), ahead: bool = False
    ) -> Iterator[Frontier]:
        """Yields the frontier times the values of the step's variable that pass the tests, in
        pieces. `ahead`: the rows need not be counted yet."""
        once = self._shared(step, tests)
        choices, tests = (self._choices(step), tests) if once is None else ([once], ())
        roots = choices[0]
        one = self.frontier.most == 1 and not tests
        if one and isinstance(roots, ListEntries) and roots.source == ROOTS and roots.size:
            yield from self._all_roots(step, roots.values)
            return
        fused = self._fused(step, choices, tests, "expand")
        if fused is not None:
            yield from self._expand_fused(step, *fused, ahead and self._has_nodes(step))
            return
        if self.ops.fused is not None:
            self.frontier.settle()
            choices = self._choices(step, plain=True) if once is None else choices
        work, rows, done = self.walk.limits.watch.innermost, self.frontier.most, 0
        for frontier, lists, _ in self._parts(choices):
            if frontier.most == rows:
                yield from self._expand(step, frontier, lists, tests)
                continue
            with work.within(done / rows, (done + frontier.most) / rows):
                yield from self._expand(step, frontier, lists, tests)
            done += frontier.most

    def _parts(
        self, given: Sequence[Lists]
    ) -> Iterator[tuple[Frontier, ListEntries, Array | None]]:
        """The rows with their shortest list: all rows (None), or groups by that list if grouping
        saves much."""
        xp = self.ops.xp
        choices = [one if isinstance(one, ListEntries) else self._entry(one) for one in given]
        if len(choices) == 1:
            yield self.frontier, choices[0], None
            return
        every = [lists.lengths for lists in choices]
        totals, least = self.ops.shortest(every)
        shortest = min(range(len(choices)), key=totals.__getitem__)
        if 2 * least >= totals[shortest]:
            yield self.frontier, choices[shortest]._replace(size=totals[shortest]), None
            return
        best, which = every[0], xp.zeros_like(every[0])
        for at, lengths in enumerate(every[1:], 1):
            which = xp.where(lengths < best, at, which)
            best = xp.minimum(best, lengths)
        for at, lists in enumerate(choices):
            rows = self.ops.survivors((which == at) & (best > 0))
            if len(rows):
                part = lists._replace(starts=lists.starts[rows], lengths=best[rows], size=None)
                yield self.frontier.take(rows), part, rows

    def counts(
        self, step: Join, tests: Sequence[Comparison], total: bool = False
    ) -> Array | int | None:
        """The number of values of each row: the length of its list, or counted during the search;
        None if values have weights other than one and several lists decide. With `total`, a device
        may give their sum instead."""
        usable = None if step.reuse is None else self._reusable(step)
        covered = step.reuse.covers if usable is not None and step.reuse is not None else ()
        if tests or len(step.participants) - len(covered) + (usable is not None) != 1:
            if any(self.walk.tries[part.trie].weights is not None for part in step.participants):
                return None
            once = self._shared(step, tests)
            return self._counted(step, tests, total) if once is None else once.lengths
        lists = self._entry(self._choices(step, plain=True)[0])
        if lists.source == REUSED:
            return lists.lengths
        trie = self.walk.tries[step.participants[max(lists.source, 0)].trie]
        if trie.weights is None:
            return lists.lengths
        self.values = lists.lengths
        sums = trie.weight_sums
        weighed: Array = sums[lists.starts + lists.lengths] - sums[lists.starts]
        return weighed

    def _counted(self, step: Join, tests: Sequence[Comparison], total: bool) -> Array | int:
        """Counts the values of each row by look-ups, without materialising them."""
        if not total and self.frontier.ahead is not None:
            self.frontier.settle()
        ops, choices = self.ops, self._choices(step)
        fused = self._fused(step, choices, tests, "count" if total else "counts")
        if fused is not None:
            level, _ = fused
            found = level.count() if total else level.counts()
            self._tried(level.tried)
            return found
        if ops.fused is not None:
            self.frontier.settle()
            choices = self._choices(step, plain=True)
        counts: Array = ops.xp.zeros(self.frontier.most, dtype=ops.xp.int64)
        for frontier, lists, rows in self._parts(choices):
            sought, _ = _others(self._lookups(step, frontier, lists.source), lists.source)
            tested = [(op, self._keys(expr, frontier)) for op, expr in tests]
            mine = counts if rows is None else ops.xp.zeros(frontier.most, dtype=ops.xp.int64)
            for low, high, skip, take, size in self.walk.pieces(lists.lengths, lists.size):
                starts, lengths = lists.starts[low:high], lists.lengths[low:high]
                if take >= 0:
                    starts, lengths = starts + skip, ops.xp.full(1, take)
                entries = ListEntries(lists.values, starts, lengths, size, low)
                ops.count_met(mine, entries, sought, tested)
                self.tried += size
            if rows is not None:
                counts[rows] = mine
        return counts

    def _all_roots(self, step: Join, values: Array) -> Iterator[Frontier]:
        """The one row of the frontier, times all values of the roots."""
        xp, frontier = self.ops.xp, self.frontier
        asked = any(self._asks(part) for part in step.participants)

        def child_of(start: int, end: int) -> Frontier:
            own: dict[Key, Array] = {step.variable: values[start:end]}
            child = Frontier(end - start, frontier, xp.zeros(end - start, dtype=xp.int64), own)
            self._add_nodes(step, child, {ROOTS: xp.arange(start, end)} if asked else {})
            child.level, child.whole = step.variable, end - start == len(values)
            child.distinct = True
            return child

        for _, _, skip, _, size in self.walk.pieces(xp.full(1, len(values)), len(values)):
            if skip:
                # Rows that already have a witness need no other.
                wanted = self.sink.wanted(frontier)
                if wanted is not None and not wanted[0]:
                    return
                if self._deeper is not None and self._deeper(1, child_of(skip, len(values))):
                    self.tried += len(values) - skip
                    return
            self.tried += size
            yield child_of(skip, skip + size)

    def _handed(self, frontier: Frontier, first: int | None) -> bool:
        """Whether the rows from this one on (None: within a list) have run deeper."""
        if self._deeper is None or first is None:
            return False
        return self._deeper(0, frontier.take(self.ops.xp.arange(first, frontier.size)))

    def _fused(
        self, step: Join, choices: Sequence[Lists], tests: Sequence[Comparison], way: str
    ) -> tuple[LevelKernel, list[int]] | None:
        """The level as one kernel of a device, and where its lists are from, by number."""
        if self.ops.fused is None:
            return None
        frontier, chunk = self.frontier, self.walk.limits.chunk
        lookups = self._lookups(step, frontier, choices[0].source, fused=True)
        given = [Choice(lists, lookups.pop(lists.source)) for lists in choices]
        tested = [(op, self._entries(expr, frontier)) for op, expr in tests]
        rows = frontier.most, frontier.ahead
        level = self.ops.fused(given, list(lookups.values()), tested, way, chunk, *rows)
        sources = [*(lists.source for lists in choices), *lookups]
        return None if level is None else (level, sources)

    def _has_nodes(self, step: Join) -> bool:
        """Whether a level's kernel itself gives the nodes of its rows, so that nothing is gathered
        for them, and no weights."""
        tries = [self.walk.tries[part.trie] for part in step.participants]
        if self.met is not None or any(trie.weights is not None for trie in tries):
            return False
        if not any(part.depth == 0 for part in step.participants):
            return True
        return all(places is None for places in self._roots(step)[1])

    def _tried(self, entries: int) -> None:
        self.tried += entries
        self.walk.limits.look(entries)

    def _expand_fused(
        self, step: Join, level: LevelKernel, sources: Sequence[int], ahead: bool = False
    ) -> Iterator[Frontier]:
        limits, frontier = self.walk.limits, self.frontier
        start, more, row = 0, True, None
        while more:
            if start:
                if self._handed(frontier, row):
                    return
                # Rows that already have a witness need no other.
                wanted = self.sink.wanted(frontier)
                if wanted is not None:
                    level.leave_out(wanted, start)
                    start = 0
            begun = level.tried
            found = level.expand(start, limits.chunk, ahead)
            child = Frontier(len(found.values), frontier, found.rows, {step.variable: found.values})
            child.level, child.whole, child.ahead = step.variable, found.whole, found.ahead
            self._add_nodes(step, child, {sources[n]: at for n, at in found.places.items()})
            if found.ahead is not None:
                yield child
                self._tried(level.tried)
                return
            self._tried(level.tried - begun)
            start, more, row = found.stop, found.stop < level.total, found.row
            if not more and not begun:
                yield child
                return
            of = level.tried + level.total - start
            with limits.watch.innermost.within(begun / of, level.tried / of):
                yield child

    def _shared(self, step: Join, tests: Sequence[Comparison]) -> ListEntries | None:
        """The intersection of the step's lists, computed once if many rows need the same one."""
        ops, tries = self.ops, self.walk.tries
        below = [part for part in step.participants if part.depth]
        if step.reuse is not None or not below or len(step.participants) < 2:
            return None
        if any(tries[part.trie].weights is not None for part in step.participants):
            return None
        if self.frontier.sought:
            return None  # rows differ in what is sought
        read: set[Key] = {part.trie for part in below}
        for _, expr in (*step.cuts, *tests):
            read |= slots(expr)
        found = shared(ops, self.frontier, read)
        if found is None:
            return None
        fewer, numbers = found
        inner = FrontierExpansion(self.walk, fewer, self.sink)
        choices = [inner._entry(lists) for lists in inner._choices(step)]
        totals = ops.totals(*(lists.lengths for lists in choices))
        least = min(range(len(choices)), key=totals.__getitem__)
        if not 0 < totals[least] <= self.walk.limits.chunk:
            return None
        fused = inner._fused(step, choices, tests, "expand")
        if fused is not None:
            (self.met,) = inner._expand_fused(step, *fused)
        else:
            lists = choices[least]._replace(size=totals[least])
            (self.met,) = inner._expand(step, fewer, lists, tests)
        self.tried += inner.tried
        level = self.met.lists(ops)
        return ListEntries(level.values, *ops.ranges(level, numbers, ()), source=SHARED)

    def _entry(self, lists: Lists) -> ListEntries:
        """These lists with where each begins and ends."""
        assert not isinstance(lists, ListRuns)
        if isinstance(lists, ListEntries):
            return lists
        found = self.ops.ranges(lists.level, lists.parents, lists.cuts)
        return ListEntries(lists.values, *found, source=lists.source)

    def _choices(self, step: Join, plain: bool = False) -> list[Lists]:
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
            keys = self._keys if plain else self._entries
            bounds = [
                (op, keys(bound, frontier))
                for at, (op, bound) in enumerate(step.cuts)
                if (place, at) not in step.implied
            ]
            if plain:
                if part.trie in frontier.sought:
                    parents, absent = self._found(part.trie, frontier)
                    starts, lengths = self.ops.ranges(level, parents, bounds)
                    lengths = self.ops.xp.where(absent, 0, lengths)
                else:
                    starts, lengths = self.ops.ranges(level, frontier.column(part.trie), bounds)
                choices.append(ListEntries(level.values, starts, lengths, source=place))
            else:
                distinct = frontier.distinct and part.trie in frontier.columns
                parents = self._nodes(part.trie, frontier)
                choices.append(ListRanges(level, parents, bounds, place, distinct))
        if not choices:
            choices.append(self._root_lists(step))
        return choices

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

    def _keys(self, expr: Expr, frontier: Frontier) -> Array:
        (keys,) = frontier.values([expr], self.ops, self.walk.scope)
        return keys

    def _entries(self, expr: Expr, frontier: Frontier) -> Array | Through:
        """The same for kernels, which read columns in place."""
        return frontier.entries(expr.name) if isinstance(expr, Slot) else self._keys(expr, frontier)

    def _clip(self, op: str, starts: Array, ends: Array, bound: Array) -> tuple[Array, Array]:
        xp = self.ops.xp
        if op in ("<", "<="):
            return starts, xp.minimum(ends, bound)
        return xp.maximum(starts, bound), ends

    def _root_lists(self, step: Join) -> ListEntries:
        """All rows use the same list: the intersection of the roots."""
        xp = self.ops.xp
        values = self._roots(step)[0].values
        size = self.frontier.size
        starts, ends = xp.zeros(size, dtype=xp.int64), xp.full(size, len(values))
        total: int | None = size * len(values)
        for at, (op, expr) in enumerate(step.cuts):
            if all((place, at) not in step.implied for place in range(len(step.participants))):
                bound = self._keys(expr, self.frontier)
                side = "right" if op in ("<=", ">") else "left"
                at_bound = xp.searchsorted(values, bound, side=side)
                starts, ends = self._clip(op, starts, ends, at_bound)
                total = None
        lengths = ends if total is not None else xp.maximum(ends - starts, 0)
        return ListEntries(values, starts, lengths, total, source=ROOTS)

    def _roots(self, step: Join) -> Roots:
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

    def _reusable(self, step: Join) -> Frontier | None:
        """The earlier level whose lists a step reuses, unless a chunk has cut one of them."""
        level: Frontier | None = None if step.reuse is None else self.frontier
        while step.reuse is not None and level is not None and level.level != step.reuse.variable:
            level = level.parent
        return level if level is not None and level.whole else None

    def _runs(self, step: Join) -> ListRuns | None:
        """The lists of the last level, if a step reuses them: their entries are the rows."""
        level, reuse = self._reusable(step), step.reuse
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
        level = self._reusable(step)
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
                bound = self._keys(expr, self.frontier)
                at_bound = self.ops.bound_in(level, parents, bound, op in ("<=", ">"))
            starts, ends = self._clip(op, starts, ends, at_bound)
        lengths = self.ops.xp.maximum(ends - starts, 0)
        return ListEntries(level.values, starts, lengths, source=REUSED)

    def _expand(
        self, step: Join, frontier: Frontier, lists: ListEntries, tests: Sequence[Comparison]
    ) -> Iterator[Frontier]:
        ops = self.ops
        tested = [(op, self._keys(expr, frontier)) for op, expr in tests]
        sought, names = _others(self._lookups(step, frontier, lists.source), lists.source)
        placed = lists.source in names
        for low, high, skip, take, size in self.walk.pieces(lists.lengths, lists.size):
            if low and self._handed(frontier, None if skip else low):
                return
            starts, lengths = lists.starts[low:high], lists.lengths[low:high]
            whole = take < 0
            if not whole:
                starts, lengths = starts + skip, ops.xp.full(1, take)
            which: int | Array = low
            if low or skip:
                # Rows that already have a witness need no other.
                wanted = self.sink.wanted(frontier)
                if wanted is not None:
                    which = low + ops.survivors(wanted[low:high])
                    starts, lengths = starts[which - low], lengths[which - low]
                    size = int(lengths.sum())
            entries = ListEntries(lists.values, starts, lengths, size, which)
            rows, values, places = ops.intersect_lists(entries, sought, tested, placed)
            self.tried += size
            child = Frontier(len(values), frontier, rows, {step.variable: values})
            self._add_nodes(step, child, dict(zip(names, places, strict=True)))
            child.level, child.whole = step.variable, whole
            yield child

    def _lookups(
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
                found[place] = Lookup(level, nodes, self._asks(part))
        if roots:
            asked = any(self._asks(part) for part in step.participants if part.depth == 0)
            found[ROOTS] = Lookup(self._roots(step)[0], None, asked)
        return found

    def _asks(self, part: Participant) -> bool:
        """Whether the position in a participant's trie is needed afterwards."""
        trie = self.walk.tries[part.trie]
        return part.depth + 1 < len(trie.levels) or trie.weights is not None

    def _add_nodes(self, step: Join, child: Frontier, places: dict[int, Array]) -> None:
        """Adds the current node of each trie to the rows that were found. `places`: their positions
        in lists, by source."""
        tries, columns = self.walk.tries, child.columns
        if SHARED in places:
            assert self.met is not None
            at, met = places[SHARED], self.met.columns
            columns |= {key: c[at] for key, c in met.items() if isinstance(key, int)}
            return
        at_roots = places.pop(ROOTS, None)
        if at_roots is not None:
            roots = [place for place, part in enumerate(step.participants) if part.depth == 0]
            for place, known in zip(roots, self._roots(step)[1], strict=True):
                places[place] = at_roots if known is None else known[at_roots]
        for place, part in enumerate(step.participants):
            trie = tries[part.trie]
            if place in places:
                if part.depth + 1 < len(trie.levels):
                    columns[part.trie] = places[place]
                elif trie.weights is not None:
                    # In the level's own frontier, where deeper levels look it up.
                    columns[WEIGHT] = child.weighed(self.ops, trie.weights[places[place]])

    # --------------------------------------------------------------------------- generate

    def generate(self, step: Generate, rest: Sequence[Step]) -> Iterator[Frontier]:
        """Yields the frontier times given values, or times a range."""
        if step.span is not None:
            yield from self._range(step, rest)
            return
        xp, frontier = self.ops.xp, self.frontier
        columns = frontier.values(step.values, self.ops, self.walk.scope)
        news = []
        for at, column in enumerate(columns):
            new = xp.ones(frontier.size, dtype=bool)
            for earlier in columns[:at]:
                new &= column != earlier  # {y, z} has one element where y = z
            news.append(new)
        lengths = xp.full(frontier.size, len(columns))
        values, fresh = xp.concatenate(columns), xp.concatenate(news)
        for rows, positions in self._pieces(lengths):
            places = positions * frontier.size + rows
            left = self.ops.survivors(fresh[places])
            yield self._generated(step, rows[left], values[places[left]])

    def _range(self, step: Generate, rest: Sequence[Step]) -> Iterator[Frontier]:
        assert step.span is not None
        xp = self.ops.xp
        bounds = self.frontier.values(step.span, self.ops, self.walk.scope)
        start, stop, stride = (bound.astype(xp.int64) for bound in bounds)
        still = stride == 0
        if bool(still.any()):
            error = EvaluationError("the step of a range is 0", step.place)
            bad = self.ops.survivors(still)
            self.walk.fail(step, rest, self.frontier.take(bad), error)
            good = self.ops.survivors(~still)
            self.frontier = self.frontier.take(good)
            start, stop, stride = start[good], stop[good], stride[good]
        # Unsigned, because the distance of two ints may exceed an int.
        rising = stride > 0
        some = xp.where(rising, start < stop, start > stop)
        distance = xp.where(rising, stop - start, start - stop).astype(xp.uint64)
        step_size = xp.where(rising, stride, -stride).astype(xp.uint64)
        lengths = xp.minimum((distance - 1) // step_size, _LONGEST - 1).astype(xp.int64) + 1
        lengths = xp.where(some, lengths, 0)
        for rows, positions in self._pieces(lengths):
            yield self._generated(step, rows, start[rows] + stride[rows] * positions)

    def _pieces(self, lengths: Array) -> Iterator[tuple[Array, Array]]:
        ops = self.ops
        for low, high, skip, take, size in self.walk.pieces(lengths):
            mine = lengths[low:high] if take < 0 else ops.xp.full(1, take)
            rows, positions = ops.expand(ops.xp.full(len(mine), skip), mine, size)
            self.tried += len(rows)
            yield rows + low, positions

    def _generated(self, step: Generate, rows: Array, values: Array) -> Frontier:
        child = Frontier(len(values), self.frontier, rows, {step.variable: values})
        return self.walk.probe(child, values, step.participants)
