"""A table: typed columns as people know them, on their way in from data or out to an answer.

Readers and data frames make tables, relations are made of them; results become tables, and
writers write those. A column is a NumPy array: int64 for int (int32 too, on its way in), float64
for float, bool for bool, int64 nanoseconds since 1970 (UTC) for timestamp; a symbol column is a
`Texts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gdatalog.records import dataclass
from gdatalog.values import TypeName

if TYPE_CHECKING:
    from gdatalog.storage.text_set import TextSet

Array = NDArray[Any]


class Texts:
    """A column of strings: the distinct texts, and for each row which of them it holds."""

    __slots__ = ("_texts", "codes", "spelled")

    def __init__(self, codes: Array, texts: Array | TextSet) -> None:
        """`codes`: integers, one a row. `texts`: of dtype object, each a str, all different; or
        their bytes, of which strings are made only when somebody asks for them."""
        self.codes = codes
        self.spelled = None if isinstance(texts, np.ndarray) else texts
        self._texts = texts if isinstance(texts, np.ndarray) else None

    def __len__(self) -> int:
        return len(self.codes)

    def __reduce__(self) -> tuple[type[Texts], tuple[Array, Array]]:
        return Texts, (self.codes, self.texts)

    @property
    def texts(self) -> Array:
        """The distinct texts, an array of objects."""
        if self._texts is None:
            assert self.spelled is not None
            self._texts = np.empty(len(self.spelled), dtype=object)
            self._texts[:] = self.spelled.texts()
        return self._texts

    def take(self, rows: Array) -> Texts:
        return Texts(self.codes[rows], self.spelled or self.texts)

    def decode(self) -> Array:
        """One str a row, as an array of objects."""
        texts = self.texts
        return texts[self.codes] if len(texts) else np.empty(0, dtype=object)


Column = Array | Texts

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

    def take(self, rows: Array) -> Table:
        """The rows of these indices, in their order."""
        columns = tuple(
            column.take(rows) if isinstance(column, Texts) else column[rows]
            for column in self.columns
        )
        return Table(self.names, self.types, columns, len(rows))
