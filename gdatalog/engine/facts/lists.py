"""Lists given as parameters, and relations of their values: built on first use, then cached."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from gdatalog.engine.session.remembered import Recent
from gdatalog.errors import DataError
from gdatalog.parser.syntax import Const, ListParam, Param, Values
from gdatalog.planner.check import ValueList
from gdatalog.records import dataclass, field
from gdatalog.storage import DataPlace, MissingValue, shown
from gdatalog.storage.keys import encode_column, encode_values, float_to_key
from gdatalog.storage.relation import Relation
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array, Column, TextColumn
from gdatalog.values import ListOf, TypeName, Value


def list_relation(
    values: ValueList, params: Mapping[str, Any], symbols: SymbolTable, made: Recent[Relation]
) -> Relation:
    """The relation of a program's list. `made`: those built recently, by their content."""
    given = [params[p.name] if isinstance(p, Param | ListParam) else None for p in values.parts]
    contents = (v.digest if isinstance(v, GivenList) else (type(v), v) for v in given)
    content = (values, *contents)
    found = made.get(content)
    if found is not None:
        return found

    def keys_of(part: Values | Const | Param | ListParam) -> Array:
        if isinstance(part, ListParam):
            own: GivenList = params[part.name]
            return own.keys(values.type, symbols)
        if isinstance(part, Values):
            return encode_values(part.values, values.type, symbols)
        value = params[part.name] if isinstance(part, Param) else part.value
        return encode_values((value,), values.type, symbols)

    columns, types = values.schema
    keys = np.concatenate(list(map(keys_of, values.parts)))
    found = Relation.from_rows(columns, types, [keys], len(keys))
    made.put(content, found)
    return found


# A list given as a parameter: a column of values, read once and immutable.

_ARRAYS = ("__arrow_c_array__", "__arrow_c_stream__", "__array__")


@dataclass(frozen=True, slots=True)
class _ListPlace(DataPlace):
    """The place of a list's value, for errors."""

    def where(self, row: int) -> str:
        return f"the parameter ${self.column}: value {row}"

    def missing(self, row: int, found: object) -> MissingValue:
        hint = f"leave it out: [x for x in {self.column} if x is not None], or .dropna()"
        return MissingValue.of(self.error(row, f"a value is missing ({shown(found)})", hint))


@dataclass(frozen=True, slots=True, eq=False)
class GivenList:
    """A list of values of one type; `digest` identifies the values."""

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
        unknown = len(self) == 0 and self.kind == "symbol"  # the default without values
        return ListOf(None if unknown else self.kind, empty=len(self) == 0)

    def __len__(self) -> int:
        return len(self.column)

    def values(self) -> list[Value]:
        column = self.column
        found = column.decode() if isinstance(column, TextColumn) else column
        values: list[Value] = found.tolist()
        return values

    def keys(self, kind: TypeName, symbols: SymbolTable) -> Array:
        """The values as keys: of their own type, or of float for ints."""
        if len(self) == 0:
            return np.empty(0, dtype=np.int32)
        if kind == "float":
            return float_to_key(np.asarray(self.column, dtype=np.float64))
        return encode_column(self.column, self.kind, symbols)


def holds_many(value: object) -> bool:
    """Whether a value is a collection, and not a scalar, a text or a mapping."""
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
        found.update(repr(list(column.texts)).encode())
    else:
        found.update(str(column.dtype).encode())
        found.update(column.tobytes())
    return found.digest()
