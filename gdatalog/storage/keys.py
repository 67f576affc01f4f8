"""Keys: integers in the order of the values that they represent; dictionaries and spaces of keys.

int, bool and timestamp are their own keys. A float's key is its bit pattern, changed so that keys
have the order of floats. A symbol's key is its code in the symbol table, which has no order.
Columns of keys have 32 bits if these suffice.

A space of keys numbers all possible rows within a box of values. Bitmaps are indexed by row number,
and hash sets store row numbers. A value outside the box has no number; then the box is widened. The
ranges of values that flow from column to column tell where rows will be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from gdatalog.cancellation import current_watch
from gdatalog.records import dataclass
from gdatalog.storage.imported_later import pa, pc
from gdatalog.storage.rows import INT32_MAX, INT32_MIN, Columns, Span, sorted_set
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import DTYPES, Array, Column, TextColumn
from gdatalog.storage.threads import LONG, spread
from gdatalog.values import TypeName, Value

_PIECE = 1 << 19  # keys in one batch of decoding


def float_to_key(values: Array) -> Array:
    """
    >>> float_to_key(np.array([-1.5, 0.0, 2.0])).tolist() == sorted(
    ...     float_to_key(np.array([2.0, -1.5, 0.0])).tolist())
    True
    """
    bits = (values.astype(np.float64, copy=False) + 0.0).view(np.int64)  # -0.0 + 0.0 is 0.0
    return bits ^ ((bits >> 63) & 0x7FFF_FFFF_FFFF_FFFF)


def key_to_float(keys: Array) -> Array:
    bits = keys.astype(np.int64, copy=False)
    mended: Array = bits >> 63
    mended &= 0x7FFF_FFFF_FFFF_FFFF
    mended ^= bits
    return mended.view(np.float64)


def narrow(keys: Array) -> Array:
    """The same integers in 32 bits where they fit, else in 64."""
    if keys.dtype == np.int32:
        return keys
    if len(keys) == 0:
        return keys.astype(np.int32)
    if int(keys.min()) >= INT32_MIN and int(keys.max()) <= INT32_MAX:
        return keys.astype(np.int32)
    return keys.astype(np.int64, copy=False)


def encode_column(column: Column, kind: TypeName, symbols: SymbolTable) -> Array:
    """The keys of a column of a table."""
    if isinstance(column, TextColumn):
        return symbols.encode(column)
    if kind == "float":
        return float_to_key(column)
    if kind == "bool":
        return column.astype(np.int32)
    return narrow(column)


def decode_blocks(
    blocks: Sequence[Columns],
    types: Sequence[TypeName],
    symbols: SymbolTable,
    room: Callable[[int, np.dtype[np.generic]], Array] = np.empty,
) -> tuple[Column, ...]:
    """Columns of values, decoded from the keys of all blocks; they share no memory with these.

    `room` allocates the result arrays, by length and dtype.
    """
    length = sum(len(block[0]) for block in blocks if block)
    columns: list[Column] = []
    # the array for values, their type, their keys
    todo: list[tuple[Array, TypeName, Array | CodedColumn]] = []
    for at, kind in enumerate(types):
        parts = [block[at] for block in blocks]
        if kind == "symbol":
            codes = np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)
            columns.append(symbols.decode(codes))
            continue
        values = room(length, DTYPES[kind])
        columns.append(values)
        start = 0
        for part in parts:
            for piece in (part[row : row + _PIECE] for row in range(0, len(part), _PIECE)):
                todo.append((values[start : start + len(piece)], kind, piece))
                start += len(piece)

    def decode(task: tuple[Array, TypeName, Array | CodedColumn]) -> None:
        values, kind, keys = task
        if isinstance(keys, CodedColumn):
            keys.decode(values)
        else:
            values[:] = key_to_float(keys) if kind == "float" else keys

    spread(decode, todo, length >= LONG)
    return tuple(columns)


def encode_value(value: Value, kind: TypeName, symbols: SymbolTable) -> int:
    """The key of one value."""
    return symbols.intern(str(value)) if kind == "symbol" else key_of(value, kind)


def encode_values(values: Sequence[Value], kind: TypeName, symbols: SymbolTable) -> Array:
    """The keys of values of one type."""
    if kind == "float":
        return float_to_key(np.array(values, dtype=np.float64))
    if kind == "symbol":
        return symbols.intern_many(list(map(str, values)))
    return np.array(values, dtype=np.int64)


def key_of(value: Value, kind: TypeName) -> int:
    """The key of one value other than a symbol."""
    if kind == "float":
        return int(float_to_key(np.array([value], dtype=np.float64))[0])
    return int(value)


def decode_value(key: int, kind: TypeName, symbols: SymbolTable) -> Any:
    """One value, as a Python int, float, bool or str (a timestamp stays nanoseconds)."""
    if kind == "symbol":
        return symbols.text(key)
    if kind == "float":
        return float(key_to_float(np.array([key], dtype=np.int64))[0])
    return bool(key) if kind == "bool" else int(key)


# Dictionaries: the distinct keys of some columns, each with a code from 0 on.
#
# If keys are sparse (real ids of 64 bits), every look-up in an index is a search. Codes are dense
# and fit 32 bits, so that a look-up is one read of an array.

ABSENT = -1
# With n ordered keys, a dictionary has at most (n + UNORDERED_LEAST) / UNORDERED_SHARE others.
UNORDERED_SHARE, UNORDERED_LEAST = 16, 10_000
# Columns with fewer keys than a dictionary by this factor, or fewer than SHORT, are looked up by
# binary search: importing Arrow for its hash tables takes longer, and 80 MiB.
SEARCHED, SHORT = 8, 1 << 17


class Dictionary:
    """Keys in ascending order, whose codes are their positions; `more` keys follow in any order.

    A key's code never changes: keys can be added, and encoded rows stay valid.
    """

    def __init__(self, keys: Array, more: Sequence[int] = (), lasting: bool = True) -> None:
        """`lasting`: False if it is only for the constants of one call."""
        self.keys = keys
        self.more = {key: len(keys) + at for at, key in enumerate(more)}
        self.lasting = lasting
        self._every = keys  # all keys by code, as of the last `decode`
        self._lock = Lock()

    @staticmethod
    def of(columns: Sequence[Array]) -> Dictionary:
        """The dictionary of all keys that occur in these columns."""
        parts = [_distinct(column) for column in columns]  # most keys occur many times
        keys = np.concatenate(parts).astype(np.int64, copy=False)
        return Dictionary(sorted_set(keys, own=True))

    def __len__(self) -> int:
        return len(self.keys) + len(self.more)

    def __bool__(self) -> bool:
        return True

    @property
    def nbytes(self) -> int:
        return int(self.keys.nbytes)

    def add(self, column: Array) -> bool:
        """Assigns codes to new keys. Returns False, and changes nothing, if there are so many that
        a new dictionary is better."""
        absent = dict.fromkeys(column[self.encode(column) == ABSENT].tolist())
        if not absent:
            return True
        with self._lock:
            unordered = len(self.more) + len(absent)
            if UNORDERED_SHARE * unordered > len(self.keys) + UNORDERED_LEAST:
                return False
            for key in absent:
                self.more.setdefault(key, len(self))
        return True

    def extended(self, keys: Array) -> Dictionary:
        """The same codes, and more for these keys if they have none: for one call."""
        absent = keys[self.encode(keys) == ABSENT].tolist()
        if not absent:
            return self
        return Dictionary(self.keys, tuple(dict.fromkeys((*self.more, *absent))), lasting=False)

    def encode(self, column: Array) -> Array:
        """The codes of keys; ABSENT if a key has none."""
        few = len(column) < SHORT or SEARCHED * len(column) < len(self.keys)
        codes = self._searched(column) if few else self._hashed(column)
        if self.more:
            rows = np.flatnonzero(codes == ABSENT)
            codes[rows] = [self.more.get(key, ABSENT) for key in column[rows].tolist()]
        return codes

    def _hashed(self, column: Array) -> Array:
        wide = pa.array(column.astype(np.int64, copy=False))
        found = pc.index_in(wide, value_set=pa.array(self.keys)).fill_null(ABSENT)
        return np.array(found.to_numpy(), dtype=np.int32)

    def _searched(self, column: Array) -> Array:
        """The same for few keys, which are not worth a hash table of all."""
        places = np.searchsorted(self.keys, column)
        found = self.keys.take(places, mode="clip") == column
        return np.where(found, places, ABSENT).astype(np.int32)

    def bound(self, key: int, op: str) -> int:
        """The code for a comparison `x op key` on codes.

        Not with `more`, whose codes have no order.
        """
        if op in ("=", "!="):
            return int(self.encode(np.array([key], dtype=np.int64))[0])
        assert not self.more
        if op in ("<", ">="):
            return int(np.searchsorted(self.keys, key, "left"))
        return int(np.searchsorted(self.keys, key, "right")) - 1

    def decode(self, codes: Array, into: Array | None = None) -> Array:
        """The keys of codes; written `into` an array of 64 bits, if one is given."""
        every = self._every
        if len(every) < len(self):
            more = list(self.more)
            every = self._every = np.concatenate([self.keys, np.array(more, dtype=np.int64)])
        found: Array = np.take(every, codes, out=into, mode="clip")  # all codes are valid
        return found


def _distinct(column: Array) -> Array:
    if len(column) < SHORT:
        return sorted_set(column)

    found: Array = pc.unique(pa.array(column)).to_numpy()
    return found


@dataclass(frozen=True, slots=True, eq=False)
class CodedColumn:
    """A column of keys as codes, decoded when NumPy makes an array of it."""

    codes: Array
    dictionary: Dictionary

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice) -> CodedColumn:
        return CodedColumn(self.codes[rows], self.dictionary)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        return self.dictionary.decode(self.codes).astype(dtype or np.int64, copy=False)

    def decode(self, into: Array) -> None:
        """Writes the keys into an array of 64 bits."""
        self.dictionary.decode(self.codes, into)


# Numbers all possible rows: a number for each row within a box of values.


MOST_ROW_NUMBERS = 1 << 62  # row numbers

RelationColumn = tuple[str, int]  # of a relation
Flow = tuple[RelationColumn, Callable[[], Span | None]]  # a range of values that a column gets


def span_of(values: Array) -> Span | None:
    return (int(values.min()), int(values.max())) if len(values) else None


def union(*spans: Span | None) -> Span | None:
    """The range from the least to the greatest value of some ranges; None if all are empty."""
    known = [span for span in spans if span is not None and span[0] <= span[1]]
    if not known:
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def widen(spans: dict[RelationColumn, Span | None], flows: Sequence[Flow]) -> None:
    """Widens the ranges of columns by what flows into them, until none changes."""
    changed = True
    while changed:
        current_watch().poll()
        changed = False
        for column, source in flows:
            known, more = spans.get(column), source()
            if more is None or (known and known[0] <= more[0] and more[1] <= known[1]):
                continue
            joined = union(known, more)
            if joined != known:
                spans[column], changed = joined, True


@dataclass(frozen=True, slots=True)
class KeySpace:
    """`least`: the least value of each column; `spans`: how many values follow it."""

    least: tuple[int, ...]
    spans: tuple[int, ...]

    @staticmethod
    def of(columns: Sequence[Array]) -> KeySpace | None:
        """The smallest space of some rows, at least one."""
        bounds = [(int(column.min()), int(column.max())) for column in columns]
        return KeySpace.within(bounds)

    @staticmethod
    def within(bounds: Sequence[tuple[int, int]]) -> KeySpace | None:
        """The space between some values, inclusive; None if it is too large."""
        found = KeySpace(
            tuple(low for low, _ in bounds), tuple(high - low + 1 for low, high in bounds)
        )
        far = any(low < -MOST_ROW_NUMBERS or high > MOST_ROW_NUMBERS for low, high in bounds)
        return None if far or found.size > MOST_ROW_NUMBERS else found

    @property
    def size(self) -> int:
        """How many rows are possible."""
        return prod(self.spans)

    @property
    def box(self) -> list[tuple[int, int]]:
        """The least value of each column and the number of values."""
        return list(zip(self.least, self.spans, strict=True))

    @property
    def bounds(self) -> list[int]:
        """The box, concatenated."""
        return [number for pair in self.box for number in pair]

    def holds(self, columns: Sequence[Array]) -> bool:
        return all(
            len(column) == 0 or (int(column.min()) >= low and int(column.max()) < low + span)
            for column, low, span in zip(columns, self.least, self.spans, strict=True)
        )

    def numbers(self, columns: Sequence[Array], xp: Any = np) -> Array:
        numbers: Array = xp.zeros(len(columns[0]), dtype=np.int64)
        for column, low, span in zip(columns, self.least, self.spans, strict=True):
            numbers *= span
            numbers += column
            numbers -= low
        return numbers

    def rows(self, numbers: Array) -> Columns:
        columns = []
        for low, span in zip(reversed(self.least), reversed(self.spans), strict=True):
            rest, numbers = numbers, numbers // span
            rest = rest - numbers * span
            rest += low
            columns.append(rest)
        return tuple(reversed(columns))

    def joined(self, other: KeySpace) -> KeySpace | None:
        """The smallest space that contains both."""
        return KeySpace.within(
            [
                (min(a, b), max(a + m, b + n) - 1)
                for a, m, b, n in zip(self.least, self.spans, other.least, other.spans, strict=True)
            ]
        )

    def widened(self, columns: Sequence[Array]) -> KeySpace | None:
        """A space that contains these rows too, with room beyond them where they leave this one, so
        that growing values do not widen it each time. None if it is too large."""
        least = KeySpace.of(columns)
        joined = None if least is None else self.joined(least)
        if joined is None or joined == self:
            return joined
        bounds = []
        for low, span, a, n in zip(self.least, self.spans, joined.least, joined.spans, strict=True):
            bounds.append((a - n if a < low else a, a + (2 * n if a + n > low + span else n) - 1))
        return KeySpace.within(bounds) or joined
