"""What loading on workers has in common: texts get codes in the driver, all else has its own keys.

Data are checked once; the driver only receives the distinct texts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdatalog.cluster.pool.task_stage import TaskStage
from gdatalog.cluster.rows.row_keeper import RowKeeper
from gdatalog.engine.context import Wanted
from gdatalog.errors import MemoryLimitError
from gdatalog.limits import Limits
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass
from gdatalog.storage.keys import encode_column
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array, NullableColumn, Table, TextColumn
from gdatalog.values import TypeName

TEXT_BYTES = 160  # of a short text in the symbol table


@dataclass(frozen=True, slots=True)
class Loading:
    """A load request, and its helpers."""

    wanted: Wanted
    symbols: SymbolTable
    keeping: RowKeeper

    def check_texts(self, count: int) -> None:
        """Raises if so many texts do not fit into the driver's memory."""
        size, memory = count * TEXT_BYTES, self.wanted.memory
        if size > memory:
            raise MemoryLimitError(
                f"{self.wanted.name} has more than {count:,} different texts, which take "
                f"{format_bytes(size)} in this process: more than the memory limit of "
                f"{format_bytes(memory)}",
                hint="numbers instead of texts stay on the workers; or raise it: "
                "gdatalog.connect(memory_limit=...) or --memory-limit",
            )

    def codes_of(self, texts: Sequence[str] | Array) -> Array:
        return np.fromiter(map(self.symbols.intern, texts), np.int32, len(texts))

    @property
    def limits(self) -> Limits:
        return Limits(memory=self.wanted.memory)

    def stage(self, what: str) -> TaskStage:
        return self.keeping.pool.stage(f"{what} {self.wanted.name}", self.limits)


def own_keys(column: Array | NullableColumn, kind: TypeName) -> Array:
    """The keys of a column without texts, in memory that nothing else can change."""
    keys = encode_column(column, kind, SymbolTable())
    return keys.copy() if keys is column else keys


def keys_or_places(table: Table) -> Columns:
    """The keys of columns; for texts, each row's place in the column's texts, in 32 bits."""
    return tuple(
        column.codes.astype(np.int32, copy=False)
        if isinstance(column, TextColumn)
        else own_keys(column, kind)
        for column, kind in zip(table.columns, table.types, strict=True)
    )


def texts_of(table: Table) -> dict[int, Array]:
    """The texts of a table's text columns, by number."""
    columns = enumerate(table.columns)
    return {at: column.texts for at, column in columns if isinstance(column, TextColumn)}
