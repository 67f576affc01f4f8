"""Sets of rows as columns of keys: sorting, duplicates, difference, merging.

Rows whose columns fit into 63 bits are packed into one integer each, so that plain integers are
sorted or searched; wider rows are sorted column by column.

Each operation charges its working memory to the running evaluation (`account.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Self

import numpy as np

from gdatalog import cancellation
from gdatalog.cancellation import cancellable, current_watch, working_space
from gdatalog.records import dataclass
from gdatalog.storage.table import Array
from gdatalog.storage.threads import BATCH, LONG, cores, in_ranges, sort_values, spread

Columns = tuple[Array, ...]
Span = tuple[int, int]  # the least and the greatest value of a column
Bits = tuple[Array, int, int, int]  # a column, its least value, bits below, bits

# A set of values in a range this many times as long as the set is marked rather than sorted.
DENSE = 16
SORTED_BY_COLUMN_BELOW = 1 << 16  # rows, up to which NumPy sorts by columns as fast as packed
STRETCH = 1 << 16  # values that are moved at a time
FEW_ROWS = 64  # rows that are sorted without packing
PART = 1 << 18  # values of a column that are looked at together
FACTOR = np.uint64(0x9E37_79B9_7F4A_7C15)
INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class RowPacking:
    """The bits of each column in a packed row. Packed rows have the order of the rows."""

    least: tuple[int, ...]
    bits: tuple[int, ...]

    @classmethod
    def of(cls, columns: Sequence[Array], spare: int = 0) -> Self | None:
        """A packing for these columns, with up to `spare` more bits for each; None if too wide."""
        return cls.over([tuple(columns)], spare)

    @classmethod
    def over(cls, blocks: Sequence[Columns], spare: int = 0) -> Self | None:
        """The same for the rows of several blocks."""
        return cls.within(spans_of(blocks) or [(0, 0)] * len(blocks[0]), spare)

    @classmethod
    def within(cls, spans: Sequence[Span], spare: int = 0) -> Self | None:
        """The same for columns with these least and greatest values."""
        least = [low for low, _ in spans]
        bits = [(high - low).bit_length() for low, high in spans]
        total = sum(bits)
        if total > 63:
            return None
        room = min(spare, (63 - total) // max(1, len(bits)))
        return cls(tuple(least), tuple(width + room for width in bits))

    def holds(self, columns: Sequence[Array]) -> bool:
        """Whether these columns' values fit."""
        spans = spans_of([tuple(columns)])
        return not spans or self.covers(spans)

    def covers(self, spans: Sequence[Span]) -> bool:
        """Whether columns with these least and greatest values fit."""
        return all(
            least >= low and (greatest - low) >> width == 0
            for (least, greatest), low, width in zip(spans, self.least, self.bits, strict=True)
        )

    def pack(self, columns: Sequence[Array], into: Array | None = None) -> Array:
        """The packed rows; written `into` an array if one is given."""
        length = len(columns[0])
        packed: Array = np.empty(length, dtype=np.int64) if into is None else into
        parts = [part for part in zip(columns, self.least, self.bits, strict=True) if part[2]]

        def fill(part: slice) -> None:
            mine = packed[part]
            if not parts:
                mine.fill(0)
            for at, (column, low, width) in enumerate(parts):
                if at == 0:
                    np.subtract(column[part], np.int64(low), out=mine)
                else:
                    mine <<= width
                    mine |= column[part].astype(np.int64) - low

        if length <= BATCH:
            fill(slice(0, length))
        else:
            in_ranges(fill, length)
        return packed

    def unpack(self, packed: Array, dtypes: Sequence[np.dtype[np.generic]]) -> Columns:
        length = len(packed)
        columns = tuple(np.empty(length, dtype=dtype) for dtype in dtypes)
        places = list(zip(columns, self.least, self.bits, strict=True))

        def fill(part: slice) -> None:
            rest = packed[part]
            for column, low, width in reversed(places):
                column[part] = (rest & ((1 << width) - 1)) + low
                rest = rest >> width

        if length <= BATCH:
            fill(slice(0, length))
        else:
            in_ranges(fill, length)
        return columns


def spans_of(blocks: Sequence[Columns]) -> list[Span]:
    """The least and the greatest value of each column; empty if there are no rows."""
    parts = [
        [column[at : at + PART] for column in block]
        for block in blocks
        for at in range(0, len(block[0]) if block else 0, PART)
    ]
    if not parts:
        return []
    ends: list[list[int]] = [[] for _ in parts[0]]

    def look(some: Sequence[Sequence[Array]]) -> None:
        # Each part is still in the cache when its greatest value is searched.
        for part in some:
            for found, column in zip(ends, part, strict=True):
                found += int(column.min()), int(column.max())

    workers = cores() if sum([len(part[0]) for part in parts]) >= LONG else 1
    if workers == 1:
        look(parts)
    else:
        spread(look, [parts[at::workers] for at in range(workers)], True)
    return [(min(found), max(found)) for found in ends]


def ascending(values: Array) -> bool:
    """Whether the values are sorted and distinct."""
    few = values[:1000]  # usually decide
    return bool((few[1:] > few[:-1]).all()) and bool((values[1:] > values[:-1]).all())


def firsts(values: Array) -> Array:
    """A mask of the entries of a sorted array that differ from the one before."""
    marks = np.empty(len(values), dtype=np.bool_)
    marks[:1] = True
    np.not_equal(values[1:], values[:-1], out=marks[1:])
    return marks


def sorted_set(values: Array, own: bool = False) -> Array:
    """The sorted distinct values of an array of ints; `own`: it may sort in place."""
    return cancellable(len(values), lambda: _sorted_set(values, own))


def _sorted_set(values: Array, own: bool = False) -> Array:
    if ascending(values):
        return values
    low, high = int(values.min()), int(values.max())
    room = high - low + 1 + 8 * len(values)
    if high - low < DENSE * len(values) and room <= current_watch().account.spare():
        # With few possible values, one pass marks them; sorting takes more.
        with working_space("sorting", room):
            return _marked_set(values, low, high)
    values = sort_values(values, own)
    marks = firsts(values)
    if marks.all():
        return values
    return _squeezed(values, marks) if own else values[marks]


def _marked_set(values: Array, low: int, high: int) -> Array:
    marks = np.zeros(high - low + 1, dtype=np.bool_)

    def mark(part: slice) -> None:
        marks[values[part].astype(np.int64, copy=False) - low] = True

    if len(values) <= BATCH:
        mark(slice(0, len(values)))
    else:
        in_ranges(mark, len(values))
    found = np.flatnonzero(marks)
    found += low
    return found.astype(values.dtype, copy=False)


def _squeezed(values: Array, marks: Array) -> Array:
    """Moves the marked values to the front of their array."""
    at = 0
    for start in range(0, len(values), STRETCH):
        kept = values[start : start + STRETCH][marks[start : start + STRETCH]]
        values[at : at + len(kept)] = kept
        at += len(kept)
    return values[:at] if 2 * at > len(values) else values[:at].copy()


def row_firsts(columns: Sequence[Array]) -> Array:
    """A mask of the rows that differ from the one before, in lexicographically sorted columns."""
    marks = firsts(columns[0])
    for column in columns[1:]:
        marks[1:] |= column[1:] != column[:-1]
    return marks


def rows_ascend(columns: Sequence[Array]) -> bool:
    """Whether rows are sorted and distinct."""
    equal = np.ones(max(0, len(columns[0]) - 1), dtype=np.bool_)
    for column in columns:
        if (equal & (column[1:] < column[:-1])).any():
            return False
        equal &= column[1:] == column[:-1]
    return not equal.any()


def few_sorted(blocks: Sequence[Columns]) -> tuple[Columns, int]:
    """The rows of disjoint blocks, sorted, and their number; for few rows."""
    columns = [np.concatenate(parts) for parts in zip(*blocks, strict=True)]
    order = np.lexsort(columns[::-1])
    return tuple([column[order] for column in columns]), len(order)


def sort_in_memory(blocks: list[Columns]) -> Columns:
    """The rows of all blocks, sorted and without duplicates. Empties the list, to free the
    blocks."""
    count = sum([len(block[0]) for block in blocks])
    if count <= FEW_ROWS:
        rows = concatenate(blocks)
        blocks.clear()
        order = np.lexsort(rows[::-1])
        if (order[1:] < order[:-1]).any():
            rows = tuple([column[order] for column in rows])
        marks = row_firsts(rows)
        return rows if marks.all() else tuple([column[marks] for column in rows])
    dtypes = [np.result_type(*parts) for parts in zip(*blocks, strict=True)]
    width = sum(dtype.itemsize for dtype in dtypes)
    if len(dtypes) == 1:
        with working_space("sorting", count * width):
            whole = len(blocks) > 1
            (column,) = concatenate(blocks)
            blocks.clear()
            return (_sorted_set(column, whole),)
    packing = RowPacking.over(blocks)
    if packing is None:
        with working_space("sorting", count * 2 * width):
            return _sort_wide(blocks)
    with working_space("sorting", count * (9 + (width if len(blocks) == 1 else 0))):
        packed = np.empty(count, dtype=np.int64)
        first = blocks[0] if len(blocks) == 1 else None
        start = 0
        while blocks:
            block = blocks.pop(0)
            packing.pack(block, packed[start : start + len(block[0])])
            start += len(block[0])
            del block
        if first is not None and ascending(packed):
            return first
        first = None
        current_watch().account.tidy(count * width)
        return packing.unpack(_sorted_set(packed, True), dtypes)


def _sort_wide(blocks: list[Columns]) -> Columns:
    """The same for rows that cannot be packed."""
    columns = concatenate(blocks)
    blocks.clear()
    if rows_ascend([column[:1000] for column in columns]) and rows_ascend(columns):
        return columns
    order, marks = order_distinct(columns)
    columns = tuple(spread(lambda column: column[order], columns, len(order) >= LONG))
    if marks.all():
        return columns
    return tuple(column[marks] for column in columns)


def order_rows(columns: Sequence[Array]) -> Array:
    """A stable sort order of rows.

    Bits of the columns are packed above the rows' numbers, as many as fit, and sorted as integers.
    If a sample says that the first columns' bits tell nearly all rows apart, these are sorted, and
    then the rows that are equal so far. Else the last columns come first, and each sort keeps the
    order of the one before.
    """
    return _ordered(columns)[0]


def order_distinct(columns: Sequence[Array]) -> tuple[Array, Array]:
    """The same order, and a mask of the rows in it that differ from the one before."""
    order, marks = _ordered(columns)
    return order, row_firsts([column[order] for column in columns]) if marks is None else marks


def _ordered(columns: Sequence[Array]) -> tuple[Array, Array | None]:
    count = len(columns[0])
    if count < SORTED_BY_COLUMN_BELOW:
        return np.lexsort(tuple(columns)[::-1]), None
    with working_space("sorting", 24 * count):
        return cancellable(count, lambda: _order_rows(columns, count))


def _order_rows(columns: Sequence[Array], count: int) -> tuple[Array, Array | None]:
    room = 63 - (count - 1).bit_length()
    fields = [
        (column, low, (high - low).bit_length())
        for column, (low, high) in zip(columns, spans_of([tuple(columns)]), strict=True)
    ]
    if sum(bits for _, _, bits in fields) > room:
        first: list[Bits] = []
        free = room
        for column, low, bits in fields:
            taken = min(free, bits)
            first.insert(0, (column, low, bits - taken, taken))
            free -= taken
            if taken < bits or not free:
                break
        if _tell_apart(first, count):
            return _order_by_first(first, columns[len(first) - 1 :], count)
    order: Array | None = None
    chunk: list[Bits] = []
    free = room
    for column, low, bits in reversed(fields):
        done = 0
        while done < bits:
            taken = min(free, bits - done)
            chunk.append((column, low, done, taken))
            done, free = done + taken, free - taken
            if free == 0:
                order = _order_by(chunk, order, count)
                chunk, free = [], room
    if chunk:
        order = _order_by(chunk, order, count)
    return np.arange(count) if order is None else order, None


def _tell_apart(chunk: Sequence[Bits], count: int) -> bool:
    """Whether few rows are equal in these bits: of a sample, so few pairs that less than a quarter
    of all rows should be."""
    numbers = np.arange(16 * math.isqrt(count), dtype=np.uint64)
    mix(numbers)
    rows = np.unique(numbers % np.uint64(count)).astype(np.int64)
    seen = np.sort(_packed(chunk, rows))
    pairs = int((seen[1:] == seen[:-1]).sum())
    return 8 * pairs * count <= len(rows) ** 2


def _order_by_first(
    chunk: Sequence[Bits], rest: Sequence[Array], count: int
) -> tuple[Array, Array]:
    """The order of rows by some bits, and then by the `rest` of the columns; and which of them
    differ from the one before."""
    order = _sorted_by(chunk, None, count)
    width = (count - 1).bit_length()
    marks = firsts(order >> width)
    order &= (1 << width) - 1
    alike = ~marks
    alike[:-1] |= alike[1:]
    at = np.flatnonzero(alike)
    if len(at):
        rows = order[at]
        runs = (np.cumsum(marks[at]), *(column[rows] for column in rest))
        places = np.lexsort(runs[::-1])
        order[at] = rows[places]
        marks[at] = row_firsts([column[places] for column in runs])
    return order, marks


def _order_by(chunk: Sequence[Bits], order: Array | None, count: int) -> Array:
    """A sort order of rows by some bits of columns; the last column is the least significant."""
    packed = _sorted_by(chunk, order, count)
    packed &= (1 << (count - 1).bit_length()) - 1
    return packed if order is None else order[packed]


def _sorted_by(chunk: Sequence[Bits], order: Array | None, count: int) -> Array:
    """Bits of rows above their numbers, sorted."""
    width = (count - 1).bit_length()
    packed = np.empty(count, dtype=np.int64)

    def fill(part: slice) -> None:
        mine = _packed(chunk, part if order is None else order[part])
        mine <<= np.uint64(width)
        mine |= np.arange(part.start, part.stop, dtype=np.uint64)
        packed[part] = mine.view(np.int64)

    in_ranges(fill, count)
    return sort_values(packed, own=True)


def _packed(chunk: Sequence[Bits], rows: slice | Array) -> Array:
    """Bits of rows; the first column is the least significant."""
    found: Array | None = None
    for column, low, below, taken in reversed(chunk):
        # Differences of 64-bit ints fit into 64 unsigned bits.
        values: Array = column[rows].astype(np.int64).view(np.uint64)
        values -= np.uint64(low % (1 << 64))
        values >>= np.uint64(below)
        values &= np.uint64((1 << taken) - 1)
        if found is None:
            found = values
        else:
            found <<= np.uint64(taken)
            found |= values
    assert found is not None
    return found


def mix(numbers: Array) -> None:
    """Mixes 64-bit numbers in place, so that each bit depends on all bits."""
    numbers *= FACTOR
    numbers ^= numbers >> np.uint64(32)


def first_rows(columns: Sequence[Array]) -> Array:
    """The index of the first row of each set of equal rows, ascending."""
    with working_space("looking for duplicates", 40 * len(columns[0])):
        return cancellable(len(columns[0]), lambda: _first_rows(columns))


def _first_rows(columns: Sequence[Array]) -> Array:
    packing = RowPacking.of(columns)
    if packing is not None:
        packed = packing.pack(columns)
        if ascending(packed):
            return np.arange(len(packed))
        order = np.argsort(packed, kind="stable")
        return np.sort(order[firsts(packed[order])])
    order, marks = order_distinct(columns)
    return np.sort(order[marks])


def cut(blocks: Iterable[Columns], rows: int) -> Iterator[list[Columns]]:
    """The rows of blocks in batches of `rows` rows, each as parts of the blocks; at least one
    batch."""
    parts: list[Columns] = []
    room, once = rows, False
    for block in blocks:
        start, length = 0, len(block[0])
        while start < length:
            parts.append(tuple(column[start : start + room] for column in block))
            start, room = start + room, room - len(parts[-1][0])
            if not room:
                yield parts
                parts, room, once = [], rows, True
    if parts or not once:
        yield parts


def concatenate(blocks: Sequence[Columns]) -> Columns:
    """The rows of all blocks, one after the other. There must be a block."""
    if len(blocks) == 1:
        return blocks[0]
    return tuple(np.concatenate(parts) for parts in zip(*blocks, strict=True))


def in_sorted(values: Array, among: Array) -> Array:
    """A mask of the `values` that occur in the sorted array `among`."""
    if len(among) == 0:
        return np.zeros(len(values), dtype=np.bool_)
    with working_space("looking for duplicates", 17 * len(values)):
        if len(values) < cancellation.LATE:
            return _in_sorted(values, among)
        return cancellable(len(values), lambda: _in_sorted(values, among), None)


def _in_sorted(values: Array, among: Array) -> Array:
    at = np.searchsorted(among, values)
    at[at == len(among)] = 0
    found: Array = among[at] == values
    return found
