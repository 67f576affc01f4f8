"""What workers compute of a part of a relation: a sketch, a data frame, a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from gdatalog.cluster.rows.shuffle import columns_of
from gdatalog.cluster.rows.survey import PartSketch, sketch_of
from gdatalog.storage.export import to_pandas
from gdatalog.storage.keys import decode_blocks
from gdatalog.storage.load_options import TypedColumns
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Table
from gdatalog.storage.writers import write_table


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
    columns = decode_blocks(rows, shape.types, symbols or SymbolTable())
    return Table(shape.columns, shape.types, columns, sum(len(block[0]) for block in rows))
