"""Positions of values in a list of distinct ones, from a hash table: by hash, a position or -1.
Compiled code fills and reads it."""

from __future__ import annotations

import warnings

import numpy as np

from gdatalog.storage.table import Array


def hash_table(values: Array) -> Array:
    """The table of some values; empty if the compiler does not work."""
    from gdatalog.codegen import native
    from gdatalog.codegen.helpers.numbered_groups import find_codes, place_codes
    from gdatalog.codegen.loop_language import LoopError

    table = np.full(1 << (2 * len(values)).bit_length(), -1, dtype=np.int32)
    try:
        native.of(place_codes, "i32[]", _kind(values))(table, values)
        for kind in ("i32[]", "i64[]"):
            native.of(find_codes, "i32[]", _kind(values), kind, "i32[]")
    except LoopError as problem:
        warnings.warn(RuntimeWarning(str(problem)), stacklevel=2)
        return table[:0]
    return table


def find_hashed(table: Array, values: Array, wanted: Array) -> Array:
    """The positions of these values, -1 if absent."""
    from gdatalog.codegen import native
    from gdatalog.codegen.helpers.numbered_groups import find_codes

    wanted = np.ascontiguousarray(wanted)
    found = np.empty(len(wanted), dtype=np.int32)
    find = native.of(find_codes, "i32[]", _kind(values), _kind(wanted), "i32[]")
    find(table, values, wanted, found)
    return found


def _kind(values: Array) -> str:
    return f"i{8 * values.itemsize}[]"
