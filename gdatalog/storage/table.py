"""A table: typed columns as people know them, on their way in from data or out to an answer.

Readers and data frames make tables, relations are made of them; results become tables, and
writers write those. A column is a NumPy array: int64 for int (int32 too, on its way in), float64
for float, bool for bool, int64 nanoseconds since 1970 (UTC) for timestamp; a symbol column is a
`TextColumn`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gdatalog.records import dataclass
from gdatalog.values import TypeName

if TYPE_CHECKING:
    from gdatalog.storage.text_set import TextSet

Array = NDArray[Any]


class TextColumn:
    """A column of strings: the distinct texts, and for each row which of them it holds."""

    __slots__ = ("_codes", "_texts", "numbers", "spelled")

    def __init__(self, codes: Array, texts: Array | TextSet) -> None:
        """`codes`: integers, one a row. `texts`: of dtype object, each a str, all different; or a
        set that may have many more. Strings are made of those that stand in a row, when somebody
        asks for them."""
        objects = texts if isinstance(texts, np.ndarray) else None
        self._codes, self._texts = (None if objects is None else codes), objects
        self.numbers = codes  # as they were given
        self.spelled = None if isinstance(texts, np.ndarray) else texts

    def __len__(self) -> int:
        return len(self.numbers)

    def __reduce__(self) -> tuple[type[TextColumn], tuple[Array, Array]]:
        return TextColumn, (self.codes, self.texts)

    @property
    def codes(self) -> Array:
        """Which of the texts each row holds."""
        return self._narrowed()[0]

    @property
    def texts(self) -> Array:
        """The distinct texts, an array of objects."""
        return self._narrowed()[1]

    def _narrowed(self) -> tuple[Array, Array]:
        if self._codes is None or self._texts is None:
            assert self.spelled is not None
            used, self._codes = used_codes(self.numbers, len(self.spelled))
            self._texts = np.empty(len(used), dtype=object)
            self._texts[:] = self.spelled.texts(used)
        return self._codes, self._texts

    def take(self, rows: Array) -> TextColumn:
        return TextColumn(self.numbers[rows], self.texts if self.spelled is None else self.spelled)

    def decode(self) -> Array:
        """One str a row, as an array of objects."""
        codes, texts = self._narrowed()
        return texts[codes] if len(texts) else np.empty(0, dtype=object)


def used_codes(codes: Array, count: int) -> tuple[Array, Array]:
    """Which of so many codes stand in a column, ascending; and for each row which of these."""
    if count > 16 * len(codes):
        used, places = np.unique(codes, return_inverse=True)
        return used, places.astype(np.int32)
    marks = np.zeros(count, dtype=np.bool_)
    marks[codes] = True
    places = np.cumsum(marks, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(marks), places[codes]


Column = Array | TextColumn

DTYPES: dict[TypeName, Any] = {
    "int": np.dtype(np.int64),
    "float": np.dtype(np.float64),
    "bool": np.dtype(np.bool_),
    "timestamp": np.dtype(np.int64),
}


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of one length; `length` matters where there is no column at all."""

    names: tuple[str, ...]
    types: tuple[TypeName, ...]
    columns: tuple[Column, ...]
    length: int

    def only(self, places: Sequence[int]) -> Table:
        """Some of the columns."""
        return Table(
            tuple(self.names[at] for at in places),
            tuple(self.types[at] for at in places),
            tuple(self.columns[at] for at in places),
            self.length,
        )

    def take(self, rows: Array) -> Table:
        """The rows of these indices, in their order."""
        columns = tuple(
            column.take(rows) if isinstance(column, TextColumn) else column[rows]
            for column in self.columns
        )
        return Table(self.names, self.types, columns, len(rows))
