"""A level on a device: its rows are expanded, looked up and compacted by one kernel.

The kernel searches for each row's shortest list (merge path), looks values up in the other lists of
their rows, in the order of `LevelText`, and writes what remains, so that no candidate is written to
memory. How many candidates there are stays on the device. A launch ends when there is no room for
more rows; the next one goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gdatalog.gpu_ops.elementwise import HEAD
from gdatalog.gpu_ops.intersection_sources import GivenArrays, ListsText, Positions
from gdatalog.gpu_ops.kernels import EACH, LEVEL_EACH, THREADS, TYPES, WAVES, tile_of
from gdatalog.gpu_ops.level_arguments import LevelArguments
from gdatalog.gpu_ops.level_notes import LevelSizes
from gdatalog.gpu_ops.level_sources import LevelText
from gdatalog.gpu_ops.rows import Array, Arrays
from gdatalog.storage.trie import (
    KEPT_WHOLE,
    Choice,
    ListEntries,
    ListRanges,
    ListRuns,
    Lookup,
    TrieLevel,
    ValueTests,
)

# Candidates of a launch: a bound of the memory for sums, and of the time until a query is stopped.
AT_ONCE = 1 << 32


class UncountedRows:
    """Rows that a kernel makes, whose number is in its `state`. `before`: those that it reads.
    `sizes`: where that number is to be noted."""

    def __init__(self, level: FusedLevel, state: Array, sizes: LevelSizes | None) -> None:
        self.level, self.state, self.before, self.sizes = level, state, level.ahead, sizes
        self.count = -1  # unknown

    def settled(self) -> int:
        """How many there are. Waits for the device."""
        if self.count < 0:
            listed(self.level.ops, self)
        return self.count


def listed(ops: Arrays, ahead: UncountedRows | None, *arrays: Array) -> list[Any]:
    """The entries of short arrays, and the numbers of rows ahead, in one round trip."""
    unknown: list[UncountedRows] = []
    while ahead is not None and ahead.count < 0:
        unknown.append(ahead)
        ahead = ahead.before
    found = ops.read(*arrays, *(each.state[:HEAD] for each in unknown))
    for each, (_, count, stop, total) in zip(unknown, found[len(arrays) :], strict=True):
        each.count, each.level.total, each.level.tried = count, total, total
        if each.sizes is not None:
            each.sizes.kept, each.sizes.stop, each.sizes.total = count, stop, total
    return found[: len(arrays)]


class LevelTexts:
    """The sources of levels of one shape."""

    def __init__(
        self,
        given: LevelArguments,
        choices: Sequence[Choice],
        others: Sequence[Lookup],
        tests: ValueTests,
        positions: Positions,
    ) -> None:
        self.lists = ListsText(given, choices, positions)
        self.level = LevelText(given, choices, others, tests, positions)
        self._sources: dict[object, dict[str, str]] = {}

    def sources(self, way: str, types: tuple[np.dtype[Any], ...]) -> dict[str, str]:
        """The sources of kernels by name; `types`: those of the values and places that the kernel
        writes, if the `way` is to expand."""
        found = self._sources.get((way, types))
        if found is None:
            found = self._sources[way, types] = {"lists_of_rows": self.lists.text}
            if types:
                value, *places = [TYPES[str(kind)] for kind in types]
                found["expand_level"] = self.level.expanding(value, places)
            else:
                found["count_level"] = self.level.counting(way == "counts")
        return found


_TEXTS: dict[object, LevelTexts] = {}  # by the shape of a level's arguments
MOST_TEXTS = 512


class FusedRows(NamedTuple):
    """Rows of a level: the numbers of their parents, their values, and their places in lists by the
    list's number; the entry to go on from, and the row that begins there, if one does; and whether
    the lists of these rows are whole. If the rows are `ahead`, arrays are longer, and nothing else
    is known."""

    rows: Array
    values: Array
    places: dict[int, Array]
    stop: int
    row: int | None
    whole: bool
    ahead: UncountedRows | None = None


class FusedLevel:
    """The lists of some rows, expanded from the shortest. `total`: how many candidates there are,
    known after the first launch; `tried`: how many of them were looked at so far."""

    def __init__(
        self,
        ops: Arrays,
        choices: Sequence[Choice],
        others: Sequence[Lookup],
        tests: ValueTests,
        rows: int,
        ahead: UncountedRows | None = None,
    ) -> None:
        """`rows`: how many rows are expanded; at most, if they are `ahead`."""
        choices = [self._with_room(ops, choice, rows, len(choices)) for choice in choices]
        self.ops, self.choices, self._rows, self.ahead = ops, choices, rows, ahead
        self.total, self.tried = 0, 0
        lists = [choice.lists for choice in choices]
        self._value = np.result_type(*(one.values.dtype for one in lists))
        sizes = []
        for one in lists:
            if isinstance(one, ListEntries):
                sizes += [] if one.size is None else [one.size]
            elif isinstance(one, ListRanges):
                sizes.append(rows * one.level.longest)
                if one.times:
                    sizes.append(len(one.level) if one.times == 1 else one.level.squares)
        self.most = min(sizes, default=AT_ONCE)  # no fewer candidates than there are
        ranges = [one for one in lists if isinstance(one, ListRanges)]
        self.within: Sequence[TrieLevel] = [one.level for one in ranges if one.times == 1]
        # Of positions in lists, and of ends of entries.
        longest = max(len(one.values) for one in lists)
        self._bound = self.most if ops.notes is None else ops.notes.bound(self.most)
        self._types = ops.place_of(longest), ops.place_of(self._bound)
        given = LevelArguments(choices, others, tests)
        start, end = (TYPES[str(np.dtype(kind))] for kind in self._types)
        shape = given.shape, start, end
        texts = _TEXTS.get(shape)
        if texts is None:
            if len(_TEXTS) >= MOST_TEXTS:
                _TEXTS.clear()
            texts = _TEXTS[shape] = LevelTexts(given, choices, others, tests, (start, end))
        self._texts, self._values = texts, given.values
        self._lookups = [*(choice.lookup for choice in choices), *others]
        self._starts: Array = None
        self._sources: list[Array] = []
        self._cuts: Array = None  # the rows in which tiles begin
        self._ends: Array | None = None
        self._cut = False  # whether lists have been cut

    @staticmethod
    def _with_room(ops: Arrays, choice: Choice, rows: int, choices: int) -> Choice:
        """A choice, with room for what other kernels of the level read of it."""
        lists, xp = choice.lists, ops.xp
        if not isinstance(lists, ListRuns) or choices == 1:
            return choice
        ends = xp.empty(rows, dtype=xp.int32), xp.empty(rows, dtype=xp.int32)
        return choice._replace(lists=lists._replace(lows=ends[0], highs=ends[1]))

    def texts(self, way: str) -> dict[str, str]:
        """The sources of the kernels that are needed, by name: to `expand`, for the `counts` of
        rows, or their sum (`count`)."""
        types = ()
        if way == "expand":
            types = self._value, *[self._place(number) for number in self._texts.level.places]
        return self._texts.sources(way, types)

    def _place(self, number: int) -> Any:
        return np.dtype(self.ops.place_of(len(self._lookups[number].level)))

    def _sizes(self, way: str) -> tuple[LevelSizes | None, bool]:
        """Where the sizes of the next launch are noted, and whether they are known by now."""
        notes = self.ops.notes
        if notes is None:
            return None, False
        rows = 0 if self.ahead is not None else self._rows
        sizes = notes.next((way, self._texts), rows, self._bound)
        if notes.replays:
            self.most = min(self.most, sizes.total)
        return sizes, notes.replays

    def _rows_of(self) -> list[Any]:
        """The first arguments of kernels: of each row the end of its entries, and the start of its
        list, among several that of the shortest; the rows in which tiles begin."""
        ops, xp, rows = self.ops, self.ops.xp, self._rows
        if self._ends is None:
            self._starts, self._ends = (xp.empty(rows, dtype=kind) for kind in self._types)
            self._sources = [xp.empty(rows, dtype=xp.uint8)] * (len(self.choices) > 1)
            self._cuts = xp.empty(1 + min(self.most, AT_ONCE) // THREADS, dtype=xp.int32)
            outs = [self._starts, *self._sources, self._ends, self._cuts, len(self._cuts)]
            args = [*self._taken(self._texts.lists), *outs, ops.state_of(rows), *self._size]
            text, tile = self._texts.lists.text, tile_of(rows, EACH)
            ops.kernels.launch(text, "lists_of_rows", {}, rows, args, 1, tile)
        found = [self._ends, self._cuts, len(self._cuts), self._starts]
        return [*found, *self._sources, *self._taken(self._texts.level)]

    def _taken(self, text: GivenArrays) -> list[Any]:
        return [self._values[at] for at in text.taken]

    @property
    def _size(self) -> list[Any]:
        """How many rows there are, as kernels take it: the number, or -1 and who knows."""
        if self.ahead is None:
            return [self._rows, self.ops.nothing]
        return [self.ahead.count, self.ahead.state]  # -1 as long as it is unknown

    def _known(self) -> None:
        """Notes how many rows there are, if that was ahead."""
        if self.ahead is not None and self._ends is not None:
            self._rows, self.ahead = self.ahead.count, None
            self._ends = self._ends[: self._rows]

    def leave_out(self, wanted: Array, start: int) -> None:
        """Drops the entries before `start`, and all those of rows that are not wanted."""
        xp, ends = self.ops.xp, self._ends
        assert ends is not None
        begins = xp.zeros_like(ends)
        begins[1:] = ends[:-1]
        done = xp.minimum(xp.maximum(start - begins, 0), ends - begins)
        ends = xp.cumsum(xp.where(wanted, ends - begins - done, 0))
        start, end = self._types
        self._starts, self._ends = (self._starts + done).astype(start), ends.astype(end)
        self._cuts = xp.zeros(1, dtype=xp.int32)
        self._cut = True

    def expand(self, start: int, room: int, ahead: bool = False) -> FusedRows:
        """The rows from entry `start` on, at most `room`. Waits for their number unless they may be
        `ahead`, and all have room."""
        ops, xp = self.ops, self.ops.xp
        sizes, known = self._sizes("expand")
        most = min(self.most - start, AT_ONCE)
        ahead = ahead and not start and most == self.most <= room and not known
        room = max(1, min(room, most))
        if sizes is not None and known and not sizes.stop:
            room = max(1, sizes.kept)
        args, text = self._rows_of(), self.texts("expand")["expand_level"]
        state = ops.state_of(most)
        kept = [xp.empty(room, dtype=xp.int32), xp.empty(room, dtype=self._value)]
        kept += [xp.empty(room, dtype=self._place(number)) for number in self._texts.level.places]
        args += [*kept, state, room, start, most, *self._size]
        ops.kernels.launch(text, "expand_level", {}, most, args, 1, tile_of(most, LEVEL_EACH))
        if ahead:
            places = dict(zip(self._texts.level.places, kept[2:], strict=True))
            self._starts = self._cuts = self._ends = None  # no piece follows
            self._sources.clear()
            uncounted = UncountedRows(self, state, sizes)
            return FusedRows(kept[0], kept[1], places, 0, None, True, uncounted)
        if sizes is not None and known:
            count, stop, self.total = sizes.kept, sizes.stop, sizes.total
        else:
            ((_, count, stop, self.total),) = listed(ops, self.ahead, state[:HEAD])
            if sizes is not None:
                sizes.kept, sizes.stop, sizes.total = count, stop, self.total
        self._known()
        if stop:
            count = room
        else:
            stop = min(start + most, self.total)
        whole, row = not self._cut, None
        if start or stop < self.total:
            rows = partial(self._whole_rows, kept[0], count, start, stop)
            notes = ops.notes
            count, stop, row, whole = rows() if notes is None else notes.noted(rows)
        self.tried += stop - start
        if 4 * count < room and room > KEPT_WHOLE:
            kept = [array[:count].copy() for array in kept]  # a copy frees the unused rest
        else:
            kept = [array[:count] for array in kept]
        places = dict(zip(self._texts.level.places, kept[2:], strict=True))
        return FusedRows(kept[0], kept[1], places, stop, row, whole)

    def _whole_rows(
        self, rows: Array, count: int, start: int, stop: int
    ) -> tuple[int, int, int | None, bool]:
        """How many rows to keep, and where to stop, so that no list is cut, unless it fills them
        all; the row that begins there, if one does; and whether none is cut."""
        ops, xp, ends = self.ops, self.ops.xp, self._ends
        assert ends is not None
        at = xp.searchsorted(ends, xp.asarray([start, stop]), side="right")
        kept = xp.searchsorted(rows[:count], at)
        (first, last), before, (_, left) = ops.read(at, ends[xp.maximum(at - 1, 0)], kept)
        begin, end = (edge if row else 0 for row, edge in zip((first, last), before, strict=True))
        if start < end < stop:
            count, stop = left, end  # the list that begins there comes with the next rows
        whole = not self._cut and begin == start and stop in (end, self.total)
        return count, stop, last if stop == end else None, whole

    def counts(self) -> Array:
        """How many entries of each row remain. Waits for the number of candidates."""
        found = self.ops.cleared(self._rows + 1)
        self._count("counts", found, found[self._rows :])
        return found[: self._rows]

    def count(self) -> int:
        """How many entries remain. Waits for it."""
        found = self.ops.cleared(2)
        if self.ops.notes is not None and self.ops.notes.replays:
            self.ops.notes.counts.append(found)
        return self._count("count", found, found)

    def _count(self, way: str, counts: Array, told: Array) -> int:
        """Counts entries, and returns the first that is `told` in the end: last, how many
        candidates there are."""
        sizes, known = self._sizes(way)
        args, text = self._rows_of(), self.texts(way)["count_level"]
        most, start = min(self.most, AT_ONCE), 0
        while True:
            these = [*args, counts, start, most, *self._size]
            self.ops.kernels.launch(text, "count_level", {}, most, these, WAVES, THREADS)
            start += most
            if sizes is not None and known:
                first, self.total = sizes.kept, sizes.total
            else:
                (found,) = listed(self.ops, self.ahead, told)
                first, self.total = found[0], found[-1]
            if start >= self.total:
                break
        self.tried = self.total
        if sizes is not None:
            sizes.kept, sizes.total = first, self.total
        return int(first)
