"""Statistics that workers compute of their rows: duplicates, degrees, and surveys.

Duplicates: each row has a number, its keys side by side if they fit into 64 bits, else a hash.
Owners receive the numbers; if no two are equal, there are no duplicates. Otherwise rows with equal
numbers are sent to owners, which keep their distinct rows.

Degrees: each worker counts the vertices of its edges; owners add up the counts.

Surveys: sketches of all parts, merged. Distinct values are estimated from 64-bit hashes of the
keys: a sketch keeps each column's least hashes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from gdatalog.cluster.rows.shuffle import ShuffleBlock, columns_of, rows_by_owner
from gdatalog.cluster.rows.survey import PartSketch, sketch_of, sorted_values
from gdatalog.storage.duplicates import row_numbers
from gdatalog.storage.export import to_pandas
from gdatalog.storage.keys import decode_blocks
from gdatalog.storage.load_options import TypedColumns
from gdatalog.storage.rows import (
    INT32_MAX,
    INT32_MIN,
    Columns,
    firsts,
    in_sorted,
)
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array, Table
from gdatalog.storage.writers import write_table


def narrow_spans(spans: Sequence[tuple[int, int]]) -> bool:
    """Whether rows fit into 64 bits, given the least and greatest value of each column."""
    return len(spans) <= 2 and all(low >= INT32_MIN and high <= INT32_MAX for low, high in spans)


def numbers_in(value: object, exact: bool, turn: int, turns: int) -> Array:
    """The numbers of a part's rows for one of several turns, each of which fits into memory."""
    numbers = numbers_of(columns_of(value), exact)
    if turns == 1:
        return numbers
    mine: Array = numbers[row_numbers((numbers,)).view(np.uint64) % np.uint64(turns) == turn]
    return mine


def numbers_of(rows: Columns, exact: bool) -> Array:
    """A number for each row. `exact`: the keys side by side, else a hash."""
    if not exact:
        return row_numbers(rows)
    packed = rows[0].astype(np.int64)
    for column in rows[1:]:
        packed = packed << np.int64(32) | column.astype(np.int64) & np.int64(0xFFFF_FFFF)
    return packed


def split_plain(parts: Sequence[Array], owners: int) -> list[Array]:
    """The numbers, by owner."""
    whole = (np.concatenate(parts),)
    return [numbers for (numbers,) in rows_by_owner(whole, whole, owners)]


def met(pieces: Sequence[ShuffleBlock]) -> Array:
    """An owner's numbers that occur more than once, ascending."""
    ordered = np.sort(np.concatenate([piece.value for piece in pieces]))
    return sorted_values(ordered[1:][~firsts(ordered)[1:]])


def places_again(value: object, exact: bool, again: Sequence[Array]) -> Array:
    """The places of a part's rows whose numbers occur more than once."""
    numbers = numbers_of(columns_of(value), exact)
    return np.flatnonzero(in_sorted(numbers, np.sort(np.concatenate(again))))


def rows_at(value: object, places: Array) -> Columns:
    return tuple(column[places] for column in columns_of(value))


def look(value: object, start: int, step: int) -> PartSketch:
    return sketch_of(columns_of(value), start, step)


def frame_of(value: object, shape: TypedColumns, symbols: SymbolTable | None) -> Any:
    """A part as a pandas DataFrame."""
    return to_pandas(table([columns_of(value)], shape, symbols), given=True)


def write_part(value: object, shape: TypedColumns, symbols: SymbolTable | None, path: str) -> int:
    """Writes a part; returns the file's size in bytes."""
    write_table(table([columns_of(value)], shape, symbols), path, format="parquet")
    return os.path.getsize(path)


def table(rows: Sequence[Columns], shape: TypedColumns, symbols: SymbolTable | None) -> Table:
    """Blocks of rows, with keys decoded."""
    null = shape.nullable
    columns = decode_blocks(rows, shape.types, symbols or SymbolTable(), nullable=null)
    length = sum(len(block[0]) for block in rows)
    return Table(shape.columns, shape.types, columns, length, nullable=null)
