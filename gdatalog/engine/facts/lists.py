"""The relations of lists of values, in a text or given as parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gdatalog.engine.catalog.parameters import GivenList, value_as
from gdatalog.engine.recent import Recent
from gdatalog.parser.syntax import Const, ListParam, Param, Values
from gdatalog.planner.check import ValueList
from gdatalog.storage.keys import encode_values
from gdatalog.storage.relation import Relation
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array


def list_relation(
    params: Mapping[str, Any], symbols: SymbolTable, made: Recent[Relation], values: ValueList
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
        if isinstance(part, Param):
            value = value_as(values.type, part.name, value)
        return encode_values((value,), values.type, symbols)

    columns, types = values.schema
    keys = np.concatenate(list(map(keys_of, values.parts)))
    found = Relation.from_rows(columns, types, [keys], len(keys))
    made.put(content, found)
    return found
