"""Relations from tables that arrive one after the other, such as the row groups of a file.

Each table is converted to keys before the next one is read, so at most one is in memory beside the
keys. Keys that exceed the memory limit go to temporary files (`spill.py`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from gdatalog import cancellation
from gdatalog.account import FILE_TEXTS
from gdatalog.cancellation import current_watch
from gdatalog.storage.column_arrays import is_borrowed
from gdatalog.storage.keys import check_no_nulls, encode_column, encode_values, float_to_key
from gdatalog.storage.kinds import either, joined
from gdatalog.storage.load_options import LoadOptions, Names, Types
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_ops import DeviceOps
from gdatalog.storage.row_store import joined_column
from gdatalog.storage.spill import SpilledColumn
from gdatalog.storage.symbols import ENTRY, SymbolTable
from gdatalog.storage.table import Array, NullableColumn, Table, TextColumn
from gdatalog.storage.threads import LONG, spread
from gdatalog.values import INT_MAX, TypeName

LOADING = "rows that are loaded"  # the account's name for keys during loading
SPELLED = 24  # bytes of a text in a set, beside its characters
CONVERTED_ALONE = 64  # rows that are converted value by value
SAMPLE = 1 << 10  # texts of a column that are measured


def tables_of(data: Any, options: LoadOptions) -> Iterable[Table]:
    """The tables of files, by their path, or of any other data."""
    if isinstance(data, str | os.PathLike):
        from gdatalog.storage.readers import read_tables

        return read_tables(data, options)
    from gdatalog.storage.frames import table_from

    return [table_from(data, options)]


def relation_of_few(
    data: Any, columns: Sequence[str], types: Sequence[TypeName], symbols: SymbolTable
) -> Relation | None:
    """The relation of a few rows, given as a list of tuples; None unless each value plainly has the
    type of its column."""
    if type(data) is not list or not 0 < len(data) <= CONVERTED_ALONE or not types:
        return None
    if any(type(row) is not tuple or len(row) != len(types) for row in data):
        return None
    given = list(zip(*data, strict=True))
    if not all(map(_plainly, given, types)):
        return None
    keys = [encode_values(values, kind, symbols) for values, kind in zip(given, types, strict=True)]
    return Relation.from_rows(tuple(columns), tuple(types), keys, len(data))


def _plainly(values: Sequence[Any], kind: TypeName) -> bool:
    if kind == "int":
        return all(type(value) is int and -INT_MAX <= value < INT_MAX for value in values)
    if kind == "symbol":
        return all(type(value) is str and value.isascii() for value in values)
    return False


def relation_of_tables(
    tables: Iterable[Table], symbols: SymbolTable, ops: DeviceOps | None = None
) -> tuple[Relation, int]:
    """The relation of the rows of tables, at least one; and their number of rows, counting
    duplicates. `ops`: the operations of a device on which the columns of a single table may be."""
    left = iter(tables)
    first, second = next(left), next(left, None)
    if second is None:
        relation = relation_of_table(first, symbols, ops)
        return relation.of_kinds(first.kinds, first.nullable), first.length
    names, types, kinds = first.names, first.types, first.kinds
    nullable = first.nullable
    account = current_watch().account
    with account.giving_back(LOADING, FILE_TEXTS):
        keys = KeyColumns(len(types))
        keys.add(first, symbols)
        del first
        while second is not None:
            wider = either(nullable, second.nullable)
            if wider != nullable:
                keys.check_nullable(wider, nullable, types)
            nullable = wider
            keys.add(second.of_nullable(nullable), symbols)
            kinds = joined(kinds, second.kinds, names)
            del second
            second = next(left, None)
        columns = keys.finish()
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:  # returns memory that it has freed to the system, for the next table
        arrow.default_memory_pool().release_unused()
    relation = Relation.of_blocks(names, types, [columns], keys.rows)
    return relation.of_kinds(kinds, nullable), keys.rows


def relation_of_keys(
    names: Names, types: Types, blocks: Iterable[Sequence[Array]], length: int
) -> Relation:
    """The relation of `length` rows that arrive as blocks of keys; they may have duplicates."""
    with current_watch().account.giving_back(LOADING, FILE_TEXTS):
        keys = KeyColumns(len(types))
        for block in blocks:
            current_watch().poll()
            keys.extend(block, len(block[0]))
        found = [keys.finish()] if keys.rows else []
        return Relation.of_blocks(names, types, found, length)


def relation_of_table(table: Table, symbols: SymbolTable, ops: DeviceOps | None = None) -> Relation:
    """The relation of a table. It keeps only arrays that cannot be changed elsewhere; others are
    copied."""
    away = [
        not isinstance(column, np.ndarray | TextColumn | NullableColumn) for column in table.columns
    ]
    xp: Any = np if ops is None else ops.xp

    def own(at: int) -> Array:
        column = table.columns[at]
        if away[at]:
            there: Any = column
            kind = table.types[at]
            if kind == "float":
                return float_to_key(there)
            made: Array = there.astype(np.int32) if kind == "bool" else there
            return made
        keys = encode_column(column, table.types[at], symbols)
        return keys.copy() if keys is column and not is_borrowed(keys) else keys

    late = table.length >= cancellation.LATE and not any(away)
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
        self._parts: list[list[Array]] = [[] for _ in range(width)]  # in memory
        self._files: list[SpilledColumn] = []

    def add(self, table: Table, symbols: SymbolTable) -> None:
        current_watch().poll()

        def keys_of(at: int) -> Array:
            known, texts = len(symbols), table.columns[at]
            keys = encode_column(texts, table.types[at], symbols)
            texts = texts.values if isinstance(texts, NullableColumn) else texts
            if isinstance(texts, TextColumn):
                self._account.add(FILE_TEXTS, _bytes_of(texts, len(symbols) - known))
            return keys

        self.extend(_keys(table, keys_of), table.length)

    def extend(self, block: Sequence[Array], length: int) -> None:
        """Adds rows of keys."""
        for parts, keys in zip(self._parts, block, strict=True):
            parts.append(keys)
        self.rows += length
        if not self._files:
            spill = self._account.spill_for(2 * (self._nbytes() - self._held))
            if spill is None:
                self._charge()
                spill = self._account.spill_half(self._held)
            if spill is None:
                return
            self._files = [spill.column(np.result_type(*parts)) for parts in self._parts]
        for file, parts in zip(self._files, self._parts, strict=True):
            for keys in parts:
                file.append(keys)
            parts.clear()
        self._charge()

    def check_nullable(
        self, nullable: Sequence[bool], before: Sequence[bool], types: Sequence[TypeName]
    ) -> None:
        """Raises if a value has the key of a null in a column that becomes nullable."""
        for at, kind in enumerate(types):
            if nullable[at] and not (before and before[at]):
                parts = [self._files[at].written()] if self._files else self._parts[at]
                for keys in parts:
                    check_no_nulls(keys, kind)

    def _nbytes(self) -> int:
        return sum(part.nbytes for parts in self._parts for part in parts)

    def _charge(self) -> None:
        held = self._nbytes()
        change, self._held = held - self._held, held
        self._account.add(LOADING, change)

    def finish(self) -> tuple[Array, ...]:
        """The columns; nothing can be added afterwards."""
        if self._files:
            return tuple(file.finish() for file in self._files)
        return tuple(joined_column(self._parts.pop(0)) for _ in range(len(self._parts)))


def _bytes_of(column: TextColumn, new: int) -> int:
    """The estimated bytes of a column's new texts in the symbol table, from a sample."""
    if not new:
        return 0
    if column.spelled is not None:
        count = len(column.spelled)
        return new * (SPELLED + int(column.spelled.ends[count]) // count)
    some = column.texts[:: max(1, len(column.texts) // SAMPLE)]
    return new * (ENTRY + sum(map(sys.getsizeof, some)) // len(some))
