"""Tables: typed columns of users' values; sets of texts as bytes.

Readers and data frames make tables, from which relations are made; results become tables, which
writers write. A column is a NumPy array: int64 for int (or int32, before it is loaded), float64 for
float, bool for bool, int64 for nanoseconds since 1970 (UTC) of timestamp, nanoseconds of duration,
days since 1970 of date, scaled ints of decimals; a symbol column is a `TextColumn`, and one with
missing values a `NullableColumn`. Input arrays may have similar types; a value that does not fit
raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gdatalog.decimals import DECIMALS
from gdatalog.records import cached_property, dataclass
from gdatalog.storage.imported_later import pa
from gdatalog.storage.kinds import Kind, Kinds
from gdatalog.values import TypeName

Array = NDArray[Any]


class TextColumn:
    """A column of strings: the distinct texts, and the code of each row's text."""

    def __init__(self, codes: Array, texts: Array | TextSet) -> None:
        """`codes`: an integer for each row. `texts`: distinct strs, with dtype object; or a set,
        which may have many other texts. From a set, strings are created on demand, only for the
        texts of these rows."""
        self.numbers = codes  # the given codes
        self.spelled: TextSet | None = None
        if isinstance(texts, np.ndarray):
            self._narrowed = codes, texts
        else:
            self.spelled = texts

    def __len__(self) -> int:
        return len(self.numbers)

    def __reduce__(self) -> tuple[type[TextColumn], tuple[Array, Array]]:
        return TextColumn, self._narrowed

    @property
    def codes(self) -> Array:
        """The code of each row's text."""
        return self._narrowed[0]

    @property
    def texts(self) -> Array:
        """The distinct texts, an array of objects."""
        return self._narrowed[1]

    @cached_property
    def _narrowed(self) -> tuple[Array, Array]:
        assert self.spelled is not None
        used, codes = used_codes(self.numbers, len(self.spelled))
        texts = np.empty(len(used), dtype=object)
        texts[:] = self.spelled.texts(used)
        return codes, texts

    def take(self, rows: Array) -> TextColumn:
        return TextColumn(self.numbers[rows], self.texts if self.spelled is None else self.spelled)

    def decode(self) -> Array:
        """A str for each row, as an array of objects."""
        codes, texts = self._narrowed
        return texts[codes] if len(texts) else np.empty(0, dtype=object)


def used_codes(codes: Array, count: int) -> tuple[Array, Array]:
    """The codes that occur in a column, ascending; and the position of each row's code among
    them."""
    if count > 16 * len(codes):
        used, places = np.unique(codes, return_inverse=True)
        return used, places.astype(np.int32)
    marks = np.zeros(count, dtype=np.bool_)
    marks[codes] = True
    places = np.cumsum(marks, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(marks), places[codes]


@dataclass(frozen=True, slots=True, eq=False)
class NullableColumn:
    """A column with missing values; `values` has any valid values in the rows where one is
    missing."""

    values: Array | TextColumn
    missing: Array  # bool

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Array) -> NullableColumn:
        return NullableColumn(_taken(self.values, rows), self.missing[rows])


Column = Array | TextColumn | NullableColumn


def _taken(column: Any, rows: Array) -> Any:
    return column[rows] if isinstance(column, np.ndarray) else column.take(rows)


DTYPES: dict[TypeName, np.dtype[np.generic]] = {
    "int": np.dtype(np.int64),
    "float": np.dtype(np.float64),
    "bool": np.dtype(np.bool_),
    **dict.fromkeys(("timestamp", "date", "duration", *DECIMALS), np.dtype(np.int64)),
}


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of one length; `length` is the number of rows, for tables without columns. `kinds`:
    the dtypes that the columns had when they were loaded; empty: none is kept. `nullable`: which
    columns may hold nulls; empty: none. Those that do are a `NullableColumn`."""

    names: tuple[str, ...]
    types: tuple[TypeName, ...]
    columns: tuple[Column, ...]
    length: int
    kinds: Kinds = ()
    nullable: tuple[bool, ...] = ()

    @property
    def typed(self) -> Iterator[tuple[TypeName, Column]]:
        """The type of each column, and the column."""
        return zip(self.types, self.columns, strict=True)

    @property
    def leaving(self) -> Iterator[tuple[TypeName, Column, Kind | None]]:
        """The type of each column, the column, and its kind."""
        return zip(self.types, self.columns, self.kinds or [None] * len(self.types), strict=True)

    def of_nullable(self, nullable: tuple[bool, ...]) -> Table:
        """The table with columns that may hold nulls, some of which do not say so."""
        if nullable == self.nullable:
            return self
        columns = tuple(
            NullableColumn(column, np.zeros(len(column), dtype=np.bool_))
            if null and not isinstance(column, NullableColumn)
            else column
            for column, null in zip(self.columns, nullable, strict=True)
        )
        return Table(self.names, self.types, columns, self.length, self.kinds, nullable)

    def only(self, places: Sequence[int]) -> Table:
        """Some of the columns."""
        return Table(
            tuple(self.names[at] for at in places),
            tuple(self.types[at] for at in places),
            tuple(self.columns[at] for at in places),
            self.length,
            tuple(self.kinds[at] for at in places) if self.kinds else (),
            tuple(self.nullable[at] for at in places) if self.nullable else (),
        )

    def take(self, rows: Array) -> Table:
        """The rows at these indices, in this order."""
        columns = tuple(_taken(column, rows) for column in self.columns)
        return Table(self.names, self.types, columns, len(rows), self.kinds, self.nullable)


# Sets of texts as bytes: the texts of a large file, and of a database that has read one.
#
# A text takes its bytes and 16 more; a Python object takes 50 more, and an entry in a dict another
# 100. Texts are numbered from 0 on, and numbers never change. Texts that are not valid Unicode
# (half a surrogate pair) are allowed.

PADDING = 8  # bytes after the last text, because texts are read by words
_FIRST_CAPACITY = 1 << 10  # capacity of an empty set
_MANY = 1 << 17  # texts: from here on a table of slots only doubles
_TAG_BITS = 31
_DECODED = 1 << 13  # texts in one batch of decoding
_GAPS = 4  # decodes a whole range if it is at most so many times as long as the texts in it
_NUMBER = 21  # most bytes of a number and its delimiter
NOT_ASCII = 0x8080_8080_8080_8080  # bits that are only set in bytes beyond ASCII
_ODD = "surrogatepass"


class TextSetFunctions(NamedTuple):
    """The compiled functions, those of `codegen/helpers/text_sets.py` (`text_functions.py`)."""

    scan: Callable[..., int]
    measure: Callable[..., None]
    look_up: Callable[..., int]
    join: Callable[..., bool]
    index_texts: Callable[..., None]
    move_slots: Callable[..., None]


class TextSet:
    """A set of texts. One thread at a time adds texts, while others read."""

    def __init__(self, kernels: TextSetFunctions) -> None:
        self.kernels = kernels
        self.lock = Lock()
        self.unicode = True  # whether all texts are valid Unicode
        self.text = np.empty(64 * _FIRST_CAPACITY, dtype=np.uint8)
        self.ends = np.zeros(_FIRST_CAPACITY + 1, dtype=np.int64)
        self.slots = np.zeros(2 * _FIRST_CAPACITY, dtype=np.int64)
        self.state = np.zeros(1, dtype=np.int64)
        self.coded: tuple[object, Array] | None = None  # a symbol table, and its codes for these

    @staticmethod
    def of(texts: Sequence[str], used: Array, kernels: TextSetFunctions) -> TextSet:
        """The set of these texts, numbered by position. A text that is not `used` cannot be found,
        and may be a duplicate."""
        made = TextSet(kernels)
        made.text, made.ends = made._spelled(texts)
        made.slots = np.zeros(1 << max(len(texts).bit_length() + 1, 11), dtype=np.int64)
        made.state[0] = len(texts)
        kernels.index_texts(made.text, made.ends, used, len(texts), made.slots, made.shift)
        return made

    def __len__(self) -> int:
        return int(self.state[0])

    @property
    def shift(self) -> int:
        return _TAG_BITS + 1 - len(self.slots).bit_length()

    @property
    def nbytes(self) -> int:
        """The bytes that the texts take."""
        return int(self.ends[len(self)])

    def _grow(self) -> None:
        """Enlarges the array that is full. Arrays are replaced, because other threads may read the
        old ones."""
        count, used = len(self), self.nbytes
        if count + 1 < len(self.ends):
            text = np.empty(2 * len(self.text) + 64 * _FIRST_CAPACITY, dtype=np.uint8)
            text[:used] = self.text[:used]
            self.text = text
            return
        if 2 * count >= len(self.slots):
            times = 8 if count < _MANY else 2
            old, self.slots = self.slots, np.zeros(times * len(self.slots), dtype=np.int64)
            self.kernels.move_slots(old, self.slots, self.shift)
        ends = np.zeros(len(self.slots) // 2 + 1, dtype=np.int64)
        ends[: count + 1] = self.ends[: count + 1]
        self.ends = ends

    # ------------------------------------------------------------------------------------ adding

    def add(self, texts: Sequence[str]) -> Array:
        """The numbers of texts; adds new ones."""
        return self._add(*self._spelled(texts))

    def take_in(self, other: TextSet) -> Array:
        """The number in this set of each text of another set, added if new."""
        self.unicode &= other.unicode
        return self._add(other.text, other.ends[: len(other) + 1])

    def _add(self, text: Array, bounds: Array) -> Array:
        sizes = np.empty(len(bounds) - 1, dtype=np.int64)
        self.kernels.measure(text, bounds, sizes)
        return self.look_up(text, bounds, sizes)

    def look_up(self, text: Array, begins: Array, sizes: Array) -> Array:
        """The numbers of texts; adds new ones. `begins`: where each text starts; `sizes`: its hash
        and length."""
        codes, at = np.empty(len(sizes), dtype=np.int32), 0
        with self.lock:
            while True:
                mine = self.text, self.ends, self.slots, self.shift, self.state
                at = self.kernels.look_up(text, begins, sizes, at, len(sizes), *mine, codes)
                if at == len(sizes):
                    return codes
                self._grow()

    def _spelled(self, texts: Sequence[str]) -> tuple[Array, Array]:
        """The bytes of texts, concatenated, and where each begins and ends."""
        whole = "".join(texts)
        try:
            data = whole.encode()
        except UnicodeEncodeError:
            self.unicode, data = False, whole.encode("utf-8", _ODD)
        plain = len(data) == len(whole)
        lengths = map(len, texts if plain else (text.encode("utf-8", _ODD) for text in texts))
        bounds = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(lengths, np.int64, len(texts)), out=bounds[1:])
        return np.frombuffer(data + bytes(PADDING), dtype=np.uint8), bounds

    # ----------------------------------------------------------------------------------- reading

    def text_of(self, code: int) -> str:
        """One text."""
        start, end = self.ends[code : code + 2].tolist()
        return self.text[start:end].tobytes().decode("utf-8", _ODD)

    def arrow(self, kind: pa.DataType) -> pa.Array:
        """All texts as an Arrow array of a type with offsets of 64 bits; nothing is copied."""
        count, ends = len(self), self.ends  # before the texts, which another thread may replace
        return pa.Array.from_buffers(
            kind, count, [None, pa.py_buffer(ends), pa.py_buffer(self.text)]
        )

    def texts(self, codes: Array | None = None) -> list[str]:
        """The texts with these numbers, or all texts."""
        codes = np.arange(len(self)) if codes is None else codes
        found: list[str] = []
        for at in range(0, len(codes), _DECODED):
            found += self._texts(codes[at : at + _DECODED])
        return found

    def _texts(self, codes: Array) -> list[str]:
        starts, stops = self.ends[codes], self.ends[codes + 1]
        low, high = int(starts.min()), int(stops.max())
        if high - low > _GAPS * int((stops - starts).sum()):
            text, pairs = self.text.data, zip(starts.tolist(), stops.tolist(), strict=True)
            return [str(text[a:b], "utf-8", _ODD) for a, b in pairs]
        # Most bytes in this range are needed: decodes it as a whole.
        data = self.text[low:high].tobytes()
        whole, starts, stops = data.decode("utf-8", _ODD), starts - low, stops - low
        if len(whole) < len(data):
            first = np.frombuffer(data, dtype=np.int8) >= -64  # the first byte of each character
            places = np.append(0, np.cumsum(first))
            starts, stops = places[starts], places[stops]
        return [whole[a:b] for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]

    def lines(
        self, columns: Sequence[Array], are_texts: Sequence[bool], delimiter: str
    ) -> memoryview | None:
        """Rows of numbers, and of texts by their numbers, as delimited lines; None if a text
        contains a delimiter or a line break, or is not valid Unicode."""
        cells = np.stack(columns, axis=1).astype(np.int64, copy=False)
        room = _NUMBER * cells.size + PADDING
        for at in np.flatnonzero(are_texts):
            room += int((self.ends[cells[:, at] + 1] - self.ends[cells[:, at]]).sum())
        out, state = np.empty(room, dtype=np.uint8), np.zeros(2, dtype=np.int64)
        wanted = np.where(are_texts, 0, 1)
        how = wanted, ord(delimiter), self.text, self.ends
        if not self.kernels.join(cells.ravel(), *how, out, state):
            return None
        found = out.data[: int(state[0])]
        if int(state[1]) & NOT_ASCII:
            try:
                str(found, "utf-8")
            except UnicodeDecodeError:
                return None
        return found
