"""A list that is given as a parameter: a column of values, read once and never changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from gdatalog.errors import DataError
from gdatalog.records import dataclass, field
from gdatalog.storage.keys import encode_column, float_to_key
from gdatalog.storage.place import DataPlace, MissingValue, shown
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array, Column, TextColumn
from gdatalog.values import ListOf, TypeName, Value

_ARRAYS = ("__arrow_c_array__", "__arrow_c_stream__", "__array__")


@dataclass(frozen=True, slots=True)
class _ListPlace(DataPlace):
    """A value of a list, for the errors that speak of it."""

    def where(self, row: int) -> str:
        return f"the parameter ${self.column}: value {row}"

    def missing(self, row: int, found: object) -> MissingValue:
        hint = f"leave it out: [x for x in {self.column} if x is not None], or .dropna()"
        return MissingValue.of(self.error(row, f"a value is missing ({shown(found)})", hint))


@dataclass(frozen=True, slots=True, eq=False)
class GivenList:
    """The values, of one type; `digest` tells lists of other values apart."""

    name: str
    kind: TypeName
    column: Column
    digest: bytes = field(repr=False)

    @staticmethod
    def of(name: str, given: Any) -> GivenList:
        if hasattr(given, "columns") and hasattr(given, "shape"):
            raise DataError(
                f"the parameter ${name} is a table, and a list has one column",
                hint='give one of its columns, as in params={"' + name + '": df["id"]}',
            )
        many = given if any(hasattr(given, kind) for kind in _ARRAYS) else list(given)
        from gdatalog.storage.columns import column_from

        kind, column = column_from(many, None, _ListPlace("the parameter", name))
        if isinstance(column, np.ndarray):
            column = column.copy()
        return GivenList(name, kind, column, _digest(kind, column))

    @property
    def type(self) -> ListOf:
        unknown = len(self) == 0 and self.kind == "symbol"  # as of no value at all
        return ListOf(None if unknown else self.kind, empty=len(self) == 0)

    def __len__(self) -> int:
        return len(self.column)

    def values(self) -> list[Value]:
        column = self.column
        found = column.decode() if isinstance(column, TextColumn) else column
        values: list[Value] = found.tolist()
        return values

    def keys(self, kind: TypeName, symbols: SymbolTable) -> Array:
        """Its values as keys of a type: its own, or float for ints."""
        if len(self) == 0:
            return np.empty(0, dtype=np.int32)
        if kind == "float":
            return float_to_key(np.asarray(self.column, dtype=np.float64))
        return encode_column(self.column, self.kind, symbols)


def holds_many(value: object) -> bool:
    """Whether a value is a list of some kind, and not one value, a text or a mapping."""
    if isinstance(value, str | bytes | bytearray | Mapping):
        return False
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Collection) or any(hasattr(value, kind) for kind in _ARRAYS)


def _digest(kind: TypeName, column: Column) -> bytes:
    from hashlib import blake2b

    found = blake2b(kind.encode(), digest_size=16)
    if isinstance(column, TextColumn):
        found.update(np.ascontiguousarray(column.codes, dtype=np.int64).tobytes())
        for text in column.texts:
            written = text.encode()
            found.update(len(written).to_bytes(8, "little"))
            found.update(written)
    else:
        found.update(str(column.dtype).encode())
        found.update(column.tobytes())
    return found.digest()
