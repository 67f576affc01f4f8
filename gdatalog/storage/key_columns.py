"""Relations from tables that arrive one after the other, such as the row groups of a file.

Each table is converted to keys before the next one is read, so at most one is in memory beside the
keys. Keys that exceed the memory limit go to temporary files (`spill.py`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from gdatalog.account import FILE_TEXTS
from gdatalog.cancellation import LATE, current_watch
from gdatalog.storage import LoadOptions
from gdatalog.storage.keys import encode_column
from gdatalog.storage.on_device import DeviceOps
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_store import joined_column
from gdatalog.storage.spill import Spill, SpilledColumn
from gdatalog.storage.symbols import ENTRY, SymbolTable
from gdatalog.storage.table import Array, Table, TextColumn, is_borrowed
from gdatalog.storage.threads import LONG, spread
from gdatalog.values import TypeName

LOADING = "rows that are loaded"  # the account's name for keys during loading
STRETCH = 1 << 18  # keys in one batch of widening
SPELLED = 24  # bytes of a text in a set, beside its characters
SAMPLE = 1 << 10  # texts of a column that are measured


def tables_of(data: Any, options: LoadOptions) -> Iterable[Table]:
    """The tables of files, by their path, or of any other data."""
    if isinstance(data, str | os.PathLike):
        from gdatalog.storage.readers import read_tables

        return read_tables(data, options)
    from gdatalog.storage.frames import table_from

    return [table_from(data, options)]


def relation_of_tables(
    tables: Iterable[Table], symbols: SymbolTable, ops: DeviceOps | None = None
) -> tuple[Relation, int]:
    """The relation of the rows of tables, at least one; and their number of rows, counting
    duplicates. `ops`: the operations of a device on which the columns of a single table may be."""
    left = iter(tables)
    first, second = next(left), next(left, None)
    if second is None:
        return relation_of_table(first, symbols, ops), first.length
    names, types = first.names, first.types
    account = current_watch().account
    with account.giving_back(LOADING, FILE_TEXTS):
        keys = KeyColumns(len(types))
        keys.add(first, symbols)
        del first
        while second is not None:
            keys.add(second, symbols)
            del second
            second = next(left, None)
        columns = keys.finish()
    _give_back_to_system()
    return Relation.of_blocks(names, types, [columns], keys.rows), keys.rows


def relation_of_table(table: Table, symbols: SymbolTable, ops: DeviceOps | None = None) -> Relation:
    """The relation of a table. It keeps only arrays that cannot be changed elsewhere; others are
    copied."""
    away = [not isinstance(column, np.ndarray | TextColumn) for column in table.columns]
    xp: Any = np if ops is None else ops.xp

    def own(at: int) -> Array:
        column = table.columns[at]
        if away[at]:
            return device_keys(column, table.types[at], xp)
        keys = encode_column(column, table.types[at], symbols)
        return keys.copy() if keys is column and not is_borrowed(keys) else keys

    late = table.length >= LATE and not any(away)
    made = partial(_keys, table, own)
    keys = current_watch().aside(made) if late else made()
    lies, laid = (ops, tuple(map(xp.asarray, keys))) if any(away) else (None, tuple(keys))
    return Relation.of_blocks(table.names, table.types, [laid], table.length, ops=lies)


def _keys(table: Table, keys_of: Callable[[int], Array]) -> list[Array]:
    """The keys of all columns; one thread after the other gives texts their codes."""
    plain = [at for at, kind in enumerate(table.types) if kind != "symbol"]
    found = dict(zip(plain, spread(keys_of, plain, table.length >= LONG), strict=True))
    return [found[at] if at in found else keys_of(at) for at in range(len(table.types))]


class KeyColumns:
    """Columns of keys that grow by a table at a time."""

    def __init__(self, width: int) -> None:
        self.rows = 0
        self._account = current_watch().account
        self._held = 0  # charged bytes
        self._columns = [_Column() for _ in range(width)]

    def add(self, table: Table, symbols: SymbolTable) -> None:
        current_watch().poll()

        def keys_of(at: int) -> Array:
            known, texts = len(symbols), table.columns[at]
            keys = encode_column(texts, table.types[at], symbols)
            if isinstance(texts, TextColumn):
                self._account.add(FILE_TEXTS, _bytes_of(texts, len(symbols) - known))
            return keys

        for column, keys in zip(self._columns, _keys(table, keys_of), strict=True):
            column.append(keys)
        self.rows += table.length
        spill = self._account.spill_for(2 * (self._nbytes() - self._held))
        if spill is None:
            self._charge()
            spill = self._account.spill_half(self._held)
        if spill is not None:
            for column in self._columns:
                column.write_to(spill)
            self._charge()

    def _nbytes(self) -> int:
        return sum(part.nbytes for column in self._columns for part in column.parts)

    def _charge(self) -> None:
        held = self._nbytes()
        change, self._held = held - self._held, held
        self._account.add(LOADING, change)

    def finish(self) -> tuple[Array, ...]:
        """The columns; nothing can be added afterwards."""
        found = []
        while self._columns:
            found.append(self._columns.pop(0).finish())
        return tuple(found)


class _Column:
    """A column of keys, in parts or in a file: in 32 bits if all of them fit."""

    __slots__ = ("_file", "_spill", "parts")

    def __init__(self) -> None:
        self.parts: list[Array] = []  # in memory
        self._spill: Spill | None = None
        self._file: SpilledColumn | None = None

    def append(self, keys: Array) -> None:
        if self._spill is None or self._file is None:
            self.parts.append(keys)
            return
        if keys.dtype.itemsize > self._file.dtype.itemsize:
            narrow, self._file = self._file.finish(), self._spill.column(keys.dtype)
            for start in range(0, len(narrow), STRETCH):
                self._file.append(narrow[start : start + STRETCH].astype(keys.dtype))
        self._file.append(keys.astype(self._file.dtype, copy=False))

    def write_to(self, spill: Spill) -> None:
        """Moves the keys in memory, and all later ones, to a file."""
        parts, self.parts = self.parts, []
        if self._file is None:
            self._spill, self._file = spill, spill.column(np.result_type(*parts))
        for keys in parts:
            self.append(keys)

    def finish(self) -> Array:
        return joined_column(self.parts) if self._file is None else self._file.finish()


def _bytes_of(column: TextColumn, new: int) -> int:
    """The estimated bytes of a column's new texts in the symbol table, from a sample."""
    if not new:
        return 0
    if column.spelled is not None:
        count = len(column.spelled)
        return new * (SPELLED + int(column.spelled.ends[count]) // count)
    some = column.texts[:: max(1, len(column.texts) // SAMPLE)]
    return new * (ENTRY + sum(map(sys.getsizeof, some)) // len(some))


def _give_back_to_system() -> None:
    """Returns memory that Arrow has freed to the system, for the next table."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()


def device_keys(column: Any, kind: TypeName, xp: Any) -> Array:
    """The keys of a column of values."""
    keys: Array
    if kind == "float":
        bits = column.view(xp.int64)
        keys = bits ^ ((bits >> 63) & 0x7FFF_FFFF_FFFF_FFFF)
    else:
        keys = column.astype(xp.int32) if kind == "bool" else column
    return keys
