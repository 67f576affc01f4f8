"""Extends a frontier by the variable of a join, from lists of tries.

Each row is expanded from the shortest of its lists, which makes the join worst-case optimal. Rows
whose shortest list differs run in groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gdatalog.executors.frontier import WEIGHT, Frontier, Key
from gdatalog.executors.level_lists import REUSED, ROOTS, SHARED, FrontierLists, Lists
from gdatalog.executors.ops import LevelKernel, Ops
from gdatalog.executors.sinks import LevelWalk, Sink
from gdatalog.plan.join_plan import Comparison, Join, slots
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Choice, ListEntries, Lookup, Through

# Runs a step (0), or what follows it (1), over all rows of a frontier; False: it cannot.
Deeper = Callable[[int, Frontier], bool]


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


def _others(lookups: dict[int, Lookup], expanded: int) -> tuple[list[Lookup], list[int]]:
    """The look-ups of expanded values, and the lists in which their positions are needed: first
    the expanded one, then some of the others."""
    own = lookups.pop(expanded)
    if ROOTS in lookups and REUSED not in lookups:
        lookups = {ROOTS: lookups.pop(ROOTS), **lookups}  # an index costs less than a search
    asked = [source for source, lookup in lookups.items() if lookup.wanted]
    return list(lookups.values()), [expanded] * own.wanted + asked


class FrontierExpansion(FrontierLists):
    """The children of one frontier under one step."""

    def __init__(
        self, walk: LevelWalk, frontier: Frontier, sink: Sink, deeper: Deeper | None = None
    ) -> None:
        """`deeper`: takes the rows that are left after a chunk, if it can."""
        super().__init__(walk, frontier)
        self.sink = sink
        self._deeper = deeper
        self.tried = 0
        self.values: Array | None = None  # number of values per row, if `counts` weights them

    # ------------------------------------------------------------------------------- join

    def join(
        self, step: Join, tests: Sequence[Comparison] = (), ahead: bool = False
    ) -> Iterator[Frontier]:
        """Yields the frontier times the values of the step's variable that pass the tests, in
        pieces. `ahead`: the rows need not be counted yet."""
        if self.frontier.most == 1 and not tests and not step.cuts and self._only_roots(step):
            yield from self._all_roots(step, self.roots(step)[0].values)
            return
        if len(step.participants) == 1 and not tests and self._one_each(step):
            yield self._with_values(step)
            return
        once = self._shared(step, tests)
        choices, tests = (self.choices(step), tests) if once is None else ([once], ())
        fused = self._fused(step, choices, tests, "expand")
        if fused is not None:
            yield from self._expand_fused(step, *fused, ahead and self._has_nodes(step))
            return
        if self.ops.fused is not None:
            self.frontier.settle()
            choices = self.choices(step, plain=True) if once is None else choices
        work, rows, done = self.walk.limits.watch.innermost, self.frontier.most, 0
        for frontier, lists, _ in self._parts(choices):
            if frontier.most == rows:
                yield from self._expand(step, frontier, lists, tests)
                continue
            with work.within(done / rows, (done + frontier.most) / rows):
                yield from self._expand(step, frontier, lists, tests)
            done += frontier.most

    def _one_each(self, step: Join) -> bool:
        """Whether each row has one value, in the list of the step's only participant."""
        frontier, limits = self.frontier, self.walk.limits
        if step.cuts or step.reuse is not None:
            return False
        (part,) = step.participants
        if self.ops.fused is not None or part.depth == 0 or part.trie in frontier.sought:
            return False
        trie = self.walk.tries[part.trie]
        few = frontier.most <= limits.chunk and trie.weights is None
        return few and trie.levels[part.depth].one_each

    def _with_values(self, step: Join) -> Frontier:
        """The same rows with these values, so that earlier columns need not be gathered. The child
        is no level of lists that other steps may reuse."""
        (part,), size = step.participants, self.frontier.most
        self.walk.limits.look(size)
        self.tried += size
        nodes = self.frontier.column(part.trie)
        values = self.walk.tries[part.trie].levels[part.depth].values[nodes]
        child = self.frontier.adding({step.variable: values})
        self._add_nodes(step, child, {0: nodes})
        return child

    def _parts(
        self, given: Sequence[Lists]
    ) -> Iterator[tuple[Frontier, ListEntries, Array | None]]:
        """The rows with their shortest list: all rows (None), or groups by that list if grouping
        saves much."""
        xp = self.ops.xp
        choices = [self.entry(one) for one in given]
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
        usable = None if step.reuse is None else self.reusable(step)
        covered = step.reuse.covers if usable is not None and step.reuse is not None else ()
        if tests or len(step.participants) - len(covered) + (usable is not None) != 1:
            if any(self.walk.tries[part.trie].weights is not None for part in step.participants):
                return None
            once = self._shared(step, tests)
            return self._counted(step, tests, total) if once is None else once.lengths
        lists = self.entry(self.choices(step, plain=True)[0])
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
        ops, choices = self.ops, self.choices(step)
        fused = self._fused(step, choices, tests, "count" if total else "counts")
        if fused is not None:
            level, _ = fused
            found = level.count() if total else level.counts()
            self._tried(level.tried)
            return found
        if ops.fused is not None:
            self.frontier.settle()
            choices = self.choices(step, plain=True)
        counts: Array = ops.xp.zeros(self.frontier.most, dtype=ops.xp.int64)
        for frontier, lists, rows in self._parts(choices):
            sought, _ = _others(self.lookups(step, frontier, lists.source), lists.source)
            tested = [(op, self.keys(expr, frontier)) for op, expr in tests]
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

    def _only_roots(self, step: Join) -> bool:
        return step.reuse is None and all(part.depth == 0 for part in step.participants)

    def _all_roots(self, step: Join, values: Array) -> Iterator[Frontier]:
        """The one row of the frontier, times all values of the roots."""
        xp, frontier = self.ops.xp, self.frontier
        asked = any(self.asks(part) for part in step.participants)

        def child_of(start: int, end: int) -> Frontier:
            own: dict[Key, Array] = {step.variable: values[start:end]}
            child = Frontier(end - start, frontier, xp.zeros(end - start, dtype=xp.int32), own)
            places = {}
            for place, known in enumerate(self.roots(step)[1] if asked else ()):
                places[place] = xp.arange(start, end) if known is None else known[start:end]
            self._add_nodes(step, child, places)
            child.level, child.whole = step.variable, end - start == len(values)
            child.distinct = True
            return child

        limits, count = self.walk.limits, len(values)
        for skip in range(0, count, limits.chunk):
            size = min(limits.chunk, count - skip)
            limits.look(size)
            if skip:
                # Rows that already have a witness need no other.
                wanted = self.sink.wanted(frontier)
                if wanted is not None and not wanted[0]:
                    return
                if self._deeper is not None and self._deeper(1, child_of(skip, count)):
                    self.tried += count - skip
                    return
            self.tried += size
            if size == count:
                yield child_of(0, count)
                return
            with limits.watch.innermost.within(skip / count, (skip + size) / count):
                yield child_of(skip, skip + size)

    def _handed(self, frontier: Frontier, first: int | None) -> bool:
        """Whether depth-first loops have taken the rows from `first` on, and run all levels below;
        `first` is None within a list."""
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
        lookups = self.lookups(step, frontier, choices[0].source, fused=True)
        given = [Choice(lists, lookups.pop(lists.source)) for lists in choices]
        tested = [(op, self.entries(expr, frontier)) for op, expr in tests]
        rows = frontier.most, frontier.ahead
        level = self.ops.fused(given, list(lookups.values()), tested, way, chunk, *rows)
        sources = [*(lists.source for lists in choices), *lookups]
        return None if level is None else (level, sources)

    def _has_nodes(self, step: Join) -> bool:
        """Whether a level's kernel itself gives the nodes of its rows, and no weights."""
        tries = [self.walk.tries[part.trie] for part in step.participants]
        return self.met is None and all(trie.weights is None for trie in tries)

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
            child.within = level.within
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
        choices = [inner.entry(lists) for lists in inner.choices(step, plain=True)]
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

    def _expand(
        self, step: Join, frontier: Frontier, lists: ListEntries, tests: Sequence[Comparison]
    ) -> Iterator[Frontier]:
        ops = self.ops
        tested = [(op, self.keys(expr, frontier)) for op, expr in tests]
        sought, names = _others(self.lookups(step, frontier, lists.source), lists.source)
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

    def _add_nodes(self, step: Join, child: Frontier, places: dict[int, Any]) -> None:
        """Adds the current node of each trie to the rows that were found. `places`: their positions
        in lists, by source."""
        tries, columns = self.walk.tries, child.columns
        if SHARED in places:
            assert self.met is not None
            at, met = places[SHARED], self.met
            columns |= {key: met.column(key)[at] for key in met.columns if isinstance(key, int)}
            return
        at_roots = places.pop(ROOTS, None)
        if at_roots is not None:
            roots = [place for place, part in enumerate(step.participants) if part.depth == 0]
            for place, known in zip(roots, self.roots(step)[1], strict=True):
                places[place] = at_roots if known is None else Through(known, (at_roots,))
        for place, part in enumerate(step.participants):
            trie = tries[part.trie]
            if place in places:
                if part.depth + 1 < len(trie.levels):
                    columns[part.trie] = places[place]
                elif trie.weights is not None:
                    # In the level's own frontier, where deeper levels look it up.
                    at = places[place]
                    at = at.gathered() if isinstance(at, Through) else at
                    columns[WEIGHT] = child.weighed(self.ops, trie.weights[at])
