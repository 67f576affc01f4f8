"""Relations of the values of long lists, built on first use and cached by content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gdatalog.engine.session.recent import Recent
from gdatalog.parser.syntax import Const, ListParam, Param, Values
from gdatalog.planner.check.checked import ValueList
from gdatalog.storage.given_list import GivenList
from gdatalog.storage.keys import float_to_key
from gdatalog.storage.relation import Relation
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.values import TypeName


class ProgramLists(Mapping[str, Relation]):
    """A program's lists by the names of their relations; `made`: those built recently."""

    def __init__(
        self,
        lists: Mapping[str, ValueList],
        params: Mapping[str, Any],
        symbols: SymbolTable,
        made: Recent[Relation],
    ) -> None:
        self._lists = lists
        self._params = params
        self._symbols = symbols
        self._made = made
        self._found: dict[str, Relation] = {}

    def __len__(self) -> int:
        return len(self._lists)

    def __iter__(self) -> Iterator[str]:
        return iter(self._lists)

    def __contains__(self, name: object) -> bool:
        return name in self._lists

    def __getitem__(self, name: str) -> Relation:
        found = self._found.get(name)
        if found is None:
            values = self._lists[name]
            content = (values, *(self._content(part) for part in values.parts))
            found = self._made.get(content)
            if found is None:
                found = self._relation(values)
                self._made.put(content, found)
            self._found[name] = found
        return found

    def _content(self, part: Values | Const | Param | ListParam) -> object:
        """A parameter's content, which is the cache key of its list."""
        if not isinstance(part, Param | ListParam):
            return None
        value = self._params[part.name]
        return value.digest if isinstance(value, GivenList) else (type(value), value)

    def _relation(self, values: ValueList) -> Relation:
        columns, types = values.schema
        parts = [self._keys(part, values.type) for part in values.parts]
        keys = np.concatenate(parts)
        return Relation.from_rows(columns, types, [keys], len(keys))

    def _keys(self, part: Values | Const | Param | ListParam, kind: TypeName) -> Array:
        if isinstance(part, ListParam):
            given: GivenList = self._params[part.name]
            return given.keys(kind, self._symbols)
        if isinstance(part, Param):
            found: tuple[Any, ...] = (self._params[part.name],)
        else:
            found = part.values if isinstance(part, Values) else (part.value,)
        if kind == "float":
            return float_to_key(np.array(found, dtype=np.float64))
        if kind == "symbol":
            intern = self._symbols.intern
            return np.fromiter((intern(str(v)) for v in found), np.int32, len(found))
        return np.array(found, dtype=np.int64)
