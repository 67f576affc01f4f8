"""Facts as rows of keys, and the rows that a stratum starts with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from gdatalog.cpu_ops.functions import Scope
from gdatalog.engine.derived import Derived, DistinctBlocks, Rows
from gdatalog.parser.syntax import Atom, Const
from gdatalog.storage.keys import encode_values
from gdatalog.storage.on_device import is_on_host
from gdatalog.storage.sorting import sort_rows
from gdatalog.values import TypeName


def fact_rows(facts: Collection[Atom], types: Sequence[TypeName], scope: Scope) -> Rows:
    """The rows of facts, in their order."""
    params = scope.params
    columns = []
    for at, kind in enumerate(types):
        args: list[Any] = [atom.args[at] for atom in facts]
        values = [arg.value if isinstance(arg, Const) else params[arg.name] for arg in args]
        columns.append(encode_values(values, kind, scope.symbols))
    return tuple(columns), len(facts)


def in_rows(seeds: Sequence[Derived]) -> list[Derived]:
    """Sorts each set of rows and drops duplicates; rows on a cluster's workers stay unsorted."""
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
