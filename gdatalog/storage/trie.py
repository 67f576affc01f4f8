"""Tries as arrays: a relation in an order of columns, as one sorted list of children per node.

Level 0 is one list, the root's. Level k has the lists of children of all nodes of level k-1, one
after the other, each ascending; the children of node p are from `offsets[p]` to `offsets[p + 1]`.

To search many lists at once, a level has an array of (parent, value) pairs packed into 64 bits,
built on first use: one sorted search serves all lists. Values of 64 bits are first replaced by
their rank among the level's distinct values.

Arrays are NumPy's or a device's; `xp` is their module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gdatalog import cancellation
from gdatalog.cancellation import cancellable, current_watch
from gdatalog.records import cached_property
from gdatalog.storage.hashed_values import find_hashed, hash_table
from gdatalog.storage.on_device import brought
from gdatalog.storage.spill import STRETCH, Spill, held_bytes, is_spilled
from gdatalog.storage.table import Array

PAIRING = 24  # bytes of memory to pack an entry
# Values that are sought in a root's list, from which it is hashed: so many, and this share of the
# list's length.
SOUGHT, SHARE = 1 << 18, 8
KEPT_WHOLE = 1 << 18  # entries of a level's array that is kept whole if few of them are used

# 33 bits for a value of 32 bits, so that bounds just outside of these have a code, too.
SHIFT = 33
_BIAS = 1 << 32
_LOW, _HIGH = -(1 << 31) - 1, 1 << 31

# A test between two columns of a row, as (left column, operator, right column).
RowTest = tuple[int, str, int]
Tests = tuple[RowTest, ...]
# The key of a relation's trie: order of columns, tests, whether it is weighted, whether it is
# ranked.
TrieName = tuple[tuple[int, ...], Tests, bool, bool]

_FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class TrieLevel:
    """The lists of one level: `values`, and the start of each parent's list (`offsets`)."""

    def __init__(self, values: Array, offsets: Array, xp: Any = np) -> None:
        self.xp = xp
        self.values = values
        self.offsets = offsets
        self._starts: Array | None = None
        self._index: tuple[int, Array] | None = None
        self._span: tuple[int, int] | None = None
        self._pairs: Array | None = None
        self._sought = 0  # values, in the root's list
        self._table: Array | None = None
        # Of a graph's edges in both directions: the entries whose value is less, as reversed edges
        # are sorted (`loop_tables.py`).
        self.turned: Array | None = None
        self.rises: bool | None = None  # of edges: whether values are greater than their parents

    def knows(
        self, span: tuple[int, int] | None = None, index: tuple[int, Array] | None = None
    ) -> None:
        """Sets the span or the index, which are known."""
        self._span, self._index = span or self._span, index or self._index

    def __getstate__(self) -> tuple[Array, Array]:
        return brought(self.values), brought(self.offsets)

    def __setstate__(self, state: tuple[Array, Array]) -> None:
        self.__init__(*state)  # type: ignore[misc]  # a copy starts as a new object does

    def __len__(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """The bytes of the level, and of what is derived from it so far."""
        parts = [*vars(self).values(), *(self._index or ())]
        parts = [part for part in parts if part is not self.xp and hasattr(part, "nbytes")]
        return sum(map(held_bytes, parts))

    @cached_property
    def longest(self) -> int:
        """The length of the longest list."""
        return self.longest_of(len(self.offsets) - 1)

    def longest_of(self, lists: int) -> int:
        """The same of so many lists, the first ones."""
        lengths = self.xp.diff(self.offsets[: lists + 1])
        return int(lengths.max()) if len(lengths) else 0

    @cached_property
    def one_each(self) -> bool:
        """Whether each list has one value: then an entry has the number of its list."""
        lists = len(self.offsets) - 1
        return len(self.values) == lists and self.longest <= 1 and int(self.offsets[0]) == 0

    @cached_property
    def squares(self) -> int:
        """The sum of the squares of the lists' lengths: how many pairs of values of one list."""
        lengths = self.xp.diff(self.offsets).astype(self.xp.int64)
        return int((lengths * lengths).sum())

    @cached_property
    def usual(self) -> float:
        """The mean length of the list of a value: long lists have more values."""
        lengths = self.xp.diff(self.offsets).astype(self.xp.float64)
        return float((lengths * lengths).sum() / lengths.sum()) if len(self.values) else 0.0

    @property
    def span(self) -> tuple[int, int]:
        """The least and the greatest value; (0, -1) if there are none."""
        if self._span is None:
            values = self.values
            if not len(values):
                self._span = 0, -1
            elif self.xp is np:
                self._span = int(values.min()), int(values.max())
            else:  # one copy from a device
                low, high = self.xp.stack([values.min(), values.max()]).tolist()
                self._span = low, high
        return self._span

    # ------------------------------------------------------------- the root's list: one list

    @property
    def is_dense(self) -> bool:
        """Whether the values are dense enough for an index."""
        low, high = self.span
        return high - low + 1 <= 4 * len(self.values) + 1024

    @property
    def low(self) -> int:
        """The first value of a dense index; 0 without one."""
        if self._index is not None:
            return self._index[0]
        return self.span[0] if self.is_dense else 0

    def starts(self, root: TrieLevel) -> Array:
        """For the level below a dense root: where the children of each value from the root's least
        to its greatest begin, and where the last ones end."""
        if self._starts is None:
            low, high = root.span
            starts = np.zeros(high - low + 2, dtype=np.int32)
            starts[1:][root.values.astype(np.int64) - low] = np.diff(self.offsets)
            np.cumsum(starts, out=starts)
            self._starts = _in_files_if_large(starts)
        return self._starts

    @property
    def index(self) -> tuple[int, Array]:
        """(least value, position by value - least or -1); without positions if the list is not
        dense enough."""
        if self._index is None:
            self._index = self.indexed(self.is_dense)
        return self._index

    def indexed(self, dense: bool) -> tuple[int, Array]:
        """The index if `dense`, else an empty one. A slice passes whether the whole level is
        dense."""
        xp = self.xp
        if not dense:
            return 0, xp.empty(0, dtype=xp.int32)
        low, high = self.span
        index = xp.full(high - low + 1, -1, dtype=xp.int32)
        index[self.values.astype(xp.int64) - low] = xp.arange(len(self), dtype=xp.int32)
        return low, _in_files_if_large(index)

    def dense_index(self) -> tuple[int, Array] | None:
        """The index, if the list is dense enough."""
        if self._index is None:
            self._index = self.indexed(self.is_dense)
        return self._index if len(self._index[1]) or not len(self.values) else None

    def find(self, values: Array) -> Array:
        """Positions of values in the root's list, -1 if absent; by index if the root is dense."""
        xp, dense = self.xp, self.dense_index()
        at: Array
        if dense is not None:
            low, index = dense
            if len(index) == 0:
                at = xp.full(len(values), -1, dtype=xp.int32)
                return at
            at = values.astype(xp.int64) - low
            inside = (at >= 0) & (at < len(index))
            if not inside.all():
                at = xp.where(inside, index[xp.where(inside, at, 0)], xp.int32(-1))
                return at
            return index[at]
        if xp is np and (table := self._hashed(len(values))) is not None:
            return find_hashed(table, self.values, values)
        at = xp.searchsorted(self.values, values)
        at[at == len(self.values)] = 0
        at[self.values[at] != values] = -1
        return at

    def _hashed(self, count: int) -> Array | None:
        """A hash table of the root's list, if many values have been sought, with the next
        `count`."""
        self._sought += count
        if self._table is None and self._sought >= max(SOUGHT, len(self) // SHARE):
            self._table = _in_files_if_large(hash_table(self.values))
        return self._table if self._table is not None and len(self._table) else None

    # ----------------------------------------------------------------- any level: many lists

    @property
    def pairs(self) -> Array:
        """The (parent, value) pairs of all entries, packed, ascending."""
        if self._pairs is None:
            count, spill = len(self.values), None
            if self.xp is np:
                spill = current_watch().account.spill_for(PAIRING * count)
            if spill is not None:
                self._pairs = self._spilled_pairs(spill)
            elif count < cancellation.LATE or self.xp is not np:
                self._pairs = self._paired()
            else:
                self._pairs = cancellable(count, self._paired)
        return self._pairs

    def _spilled_pairs(self, spill: Spill) -> Array:
        column = spill.column(np.int64)
        for start in range(0, len(self), STRETCH):
            part = self.values[start : start + STRETCH]
            places = np.arange(start, start + len(part))
            parents = np.searchsorted(self.offsets[1:], places, side="right")
            column.append((parents << SHIFT) | self._code(part)[0])
        return column.finish()

    def parents(self) -> Array:
        """The number of each entry's list."""
        xp = self.xp
        if xp is np:
            lengths = np.diff(self.offsets)
            return np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
        # A device has no `repeat` by an array of lengths.
        entries = xp.arange(len(self.values))
        found: Array = xp.searchsorted(self.offsets[1:], entries, side="right")
        return found.astype(xp.int64, copy=False)

    def _paired(self) -> Array:
        parents = self.parents()
        parents <<= SHIFT
        parents |= self._code(self.values)[0]
        return parents

    @cached_property
    def _domain(self) -> Array:
        """The distinct values."""
        distinct: Array = self.xp.unique(self.values)
        return distinct

    def _code(self, values: Array) -> tuple[Array, Array | None]:
        """33-bit codes in the order of values; for 64-bit levels also a mask of the exact codes."""
        xp = self.xp
        if self.values.dtype == xp.int32:
            if values.dtype != xp.int32:
                values = xp.clip(values, _LOW, _HIGH)
            return values.astype(xp.int64) + _BIAS, None
        at = xp.searchsorted(self._domain, values)
        inside = xp.minimum(at, max(0, len(self._domain) - 1))
        exact = self._domain[inside] == values if len(self._domain) else at < 0
        return at, exact

    def find_in(self, parents: Array, values: Array) -> Array:
        """Positions of values in their parents' lists, -1 if absent (sorted search)."""
        xp = self.xp
        at: Array
        if len(self.values) == 0:
            at = xp.full(len(values), -1, dtype=xp.int64)
            return at
        codes, exact = self._code(values)
        wanted = (parents.astype(xp.int64) << SHIFT) | codes
        pairs = self.pairs
        at = xp.searchsorted(pairs, wanted)
        at[at == len(pairs)] = 0
        missing = pairs[at] != wanted
        if exact is not None:
            missing |= ~exact
        at[missing] = -1
        return at

    def bound_in(self, parents: Array, values: Array, after_equal: bool) -> Array:
        """Where each value would stand in its parent's list; after an equal one if
        `after_equal`."""
        xp = self.xp
        codes, exact = self._code(values)
        wanted = (parents.astype(xp.int64) << SHIFT) | codes
        if after_equal:
            # after an equal code, unless it is that of an absent value
            wanted += 1 if exact is None else exact.astype(xp.int64)
        places: Array = xp.searchsorted(self.pairs, wanted)
        return places


class Through(NamedTuple):
    """A column that is gathered where it is read: of each row the entry of `values` at the place
    that `rows` lead to, the last of them first."""

    values: Array
    rows: tuple[Array, ...]

    def gathered(self) -> Array:
        found = self.rows[-1]
        for rows in reversed(self.rows[:-1]):
            found = rows[found]
        return self.values[found]


# Comparisons of values with a column of their rows: (operator, column).
ValueTests = Sequence[tuple[str, Any]]


class Sought(NamedTuple):
    """Of each row, the position of its value in a root's list, which is looked up where it is read;
    -1 if it is absent. `values`: an array, or `Through` others."""

    level: TrieLevel
    values: Any


class Lookup(NamedTuple):
    """Where values are looked up: in the lists of the rows' parents, or in the root's (None)."""

    level: TrieLevel
    parents: Any  # by row: an array, `Through` others, or `Sought`; or None
    wanted: bool  # whether the positions are needed


class ListEntries(NamedTuple):
    """The entries of lists, one list for each row.

    `size`: the total length if it is known. `which`: the row of each list; or the first one's, if
    the rows are consecutive. `source`: the caller's number for where the lists are from.
    """

    values: Array
    starts: Array
    lengths: Array
    size: int | None = None
    which: int | Array = 0
    source: int = 0


class ListRanges(NamedTuple):
    """The lists of the rows' parents, one for each row, within bounds: (operator, bounds). Where
    each begins and ends has not been looked up yet. `source`: as in `ListEntries`. `times`: 1 if no
    two rows have the same parent, 2 if no more than its list has values; 0: unknown. Bounds are
    arrays, or `Through` others; parents also `Sought`."""

    level: TrieLevel
    parents: Any
    cuts: ValueTests
    source: int
    times: int = 0

    @property
    def values(self) -> Array:
        return self.level.values


class ListRuns(NamedTuple):
    """The lists of which the rows themselves are the entries: of each row, the `values` of the rows
    with the same parent (`parents` ascend), those beyond it by the operators in `cuts`. `lows` and
    `highs`: for where they begin and end."""

    values: Array
    parents: Array
    cuts: tuple[str, ...]
    source: int
    lows: Array | None = None
    highs: Array | None = None


class Choice(NamedTuple):
    """Lists, one for each row, which may be expanded; or else values are looked up in them."""

    lists: ListEntries | ListRanges | ListRuns
    lookup: Lookup


class Trie:
    """The levels of a relation in an order of columns.

    `weights`: if dropped columns must count, the number of rows under each node of the last level.
    A trie without columns only has the number of rows (`total`). `labels`: the values by rank, if
    ranks stand for values. `whole`: the trie that this one is a slice of; generated code depends on
    the sizes of the whole, so that all slices share it.
    """

    def __init__(
        self,
        levels: Sequence[TrieLevel],
        total: int | Callable[[], int],
        weights: Array | None,
        labels: Array | None = None,
    ) -> None:
        """`total` may be a function, called on first use."""
        self.levels = tuple(levels)
        self._total = total
        self.weights = weights
        self.labels = labels
        self.layouts: dict[object, Any] = {}  # cached by printers
        # Of the root, by the least length of their lists: some of the values, and their places.
        self.with_long_lists: dict[int, tuple[TrieLevel, Array]] = {}
        self.whole: Trie | None = None

    @cached_property
    def total(self) -> int:
        """The number of rows."""
        return self._total() if callable(self._total) else self._total

    @cached_property
    def once(self) -> bool:
        """Whether each node of the last level has exactly one row."""
        if self.whole is not None:
            return self.whole.once
        once = bool(self.levels) and self.total == len(self.levels[-1])
        # a weight of 0 means that the node has no row
        return once and (self.weights is None or bool(self.weights.all()))

    def __getstate__(self) -> tuple[object, ...]:
        known = [None if part is None else brought(part) for part in (self.weights, self.labels)]
        return self.levels, self.total, *known

    def __setstate__(self, state: tuple[object, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]  # a copy starts as a new object does

    @cached_property
    def weight_sums(self) -> Array:
        """The number of rows before each node of the last level, and of all rows."""
        assert self.weights is not None
        xp = self.levels[-1].xp if self.levels else np
        sums = xp.zeros(len(self.weights) + 1, dtype=self.weights.dtype)
        xp.cumsum(self.weights, out=sums[1:])
        return _in_files_if_large(sums)

    @cached_property
    def weighed(self) -> Array:
        """For a single dense level: the number of rows of each value from the least to the
        greatest."""
        assert self.weights is not None
        root = self.levels[0]
        low, high = root.span
        weighed = np.zeros(high - low + 1, dtype=np.int64)
        weighed[root.values.astype(np.int64) - low] = self.weights
        return _in_files_if_large(weighed)

    @property
    def nbytes(self) -> int:
        size = sum(level.nbytes for level in self.levels)
        for level, places in self.with_long_lists.values():
            size += level.nbytes + held_bytes(places)
        return size + sum(
            held_bytes(w) for w in (self.weights, vars(self).get("weighed")) if w is not None
        )


def _in_files_if_large(values: Array) -> Array:
    """The values, in a file if they do not fit in memory; values on a device stay there."""
    here = isinstance(values, np.ndarray)
    spill = current_watch().account.spill_for(values.nbytes) if here else None
    return values if spill is None or is_spilled(values) else spill.rows([(values,)])[0]


def trie_name(
    order: Sequence[int], tests: Sequence[RowTest], weighted: bool, ranked: bool, turned: bool
) -> TrieName:
    """The key of a trie. Tests have the lower column first, so that equal tries have one key.

    `turned`: swaps the two columns, if one trie serves both orders.
    """
    if turned:
        order = [1 - column for column in order]
        tests = [(1 - left, op, 1 - right) for left, op, right in tests]
    onwards = (
        (left, op, right) if left <= right else (right, _FLIPPED[op], left)
        for left, op, right in tests
    )
    return tuple(order), tuple(onwards), weighted, ranked


def first_levels(tries: Mapping[TrieName, Trie], name: TrieName) -> Trie | None:
    """The trie of some columns as the first levels of a longer one, if there is one."""
    order, tests, weighted, ranked = name
    if weighted or not order:
        return None
    for (longer, tested, _, by_rank), trie in list(tries.items()):
        if longer[: len(order)] == order and tested == tests and by_rank == ranked:
            levels = trie.levels[: len(order)]
            return Trie(levels, len(levels[-1]), None, trie.labels)
    return None
