"""A table: typed columns as people know them, on their way in from data or out to an answer.

Readers and data frames make tables, relations are made of them; results become tables, and
writers write those. A column is a NumPy array: int64 for int (int32 too, on its way in), float64
for float, bool for bool, int64 nanoseconds since 1970 (UTC) for timestamp; a symbol column is a
`Texts`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gdatalog.records import dataclass
from gdatalog.values import TypeName

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """A column of strings: the distinct texts, and for each row which of them it holds."""

    codes: Array  # integers, one a row
    texts: Array  # of dtype object, each a str, all different

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: Array) -> Texts:
        return Texts(self.codes[rows], self.texts)

    def decode(self) -> Array:
        """One str a row, as an array of objects."""
        if len(self.texts) == 0:
            return np.empty(0, dtype=object)
        return self.texts[self.codes]


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
