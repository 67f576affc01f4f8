"""Facts as rows of keys, and rows without rules as a stratum begins with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gdatalog.engine.derived import Derived, DistinctBlocks, Rows
from gdatalog.parser.syntax import Atom, Const
from gdatalog.storage.keys import encode_value, float_to_key
from gdatalog.storage.on_device import is_on_host
from gdatalog.storage.rows import sort_rows
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.values import TypeName, Value


def fact_rows(
    facts: Sequence[Atom],
    types: Sequence[TypeName],
    params: Mapping[str, Value],
    symbols: SymbolTable,
) -> Rows:
    """The rows of facts, in their order."""
    columns = []
    for at, kind in enumerate(types):
        args = [atom.args[at] for atom in facts]
        columns.append(_column(args, kind, params, symbols))
    return tuple(columns), len(facts)


def _column(
    args: list[Any], kind: TypeName, params: Mapping[str, Value], symbols: SymbolTable
) -> Array:
    values = [arg.value if isinstance(arg, Const) else params[arg.name] for arg in args]
    if kind == "float":
        return float_to_key(np.array(values, dtype=np.float64))
    if kind == "symbol":
        return np.array([symbols.intern(str(value)) for value in values], dtype=np.int32)
    return np.array([encode_value(value, kind, symbols) for value in values], dtype=np.int64)


def in_rows(seeds: Sequence[Derived]) -> list[Derived]:
    """Each set of rows sorted, without duplicates; what lies afar stays as it is."""
    found: list[Derived] = []
    for part in seeds:
        if isinstance(part, DistinctBlocks):
            found.append(part)
            continue
        keys, count = part
        here = all(map(is_on_host, keys))  # on a device they are sorted
        rows = sort_rows(keys) if keys and here else keys
        found.append((rows, len(rows[0]) if rows else min(1, count)))
    return found
