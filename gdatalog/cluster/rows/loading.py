"""Data that come to a cluster without passing the driver: what files and frames have in common.

What is read is looked at once, for all that may be wrong with it; of texts those that differ come
to the driver, which gives them codes.
"""

from __future__ import annotations

import numpy as np

from gdatalog.calls import Limits
from gdatalog.cluster.pool import TaskStage
from gdatalog.cluster.rows.row_keeper import RowKeeper
from gdatalog.engine.context import Wanted
from gdatalog.errors import MemoryLimitError
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass
from gdatalog.storage.keys import encode_column
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array, TextColumn
from gdatalog.values import TypeName

TEXT_BYTES = 160  # that a short text takes in the symbol table


@dataclass(frozen=True, slots=True)
class Loading:
    """Data that become a relation."""

    wanted: Wanted
    symbols: SymbolTable
    keeping: RowKeeper

    def check_texts(self, count: int) -> None:
        """Raises if there is no room for so many texts here."""
        size, memory = count * TEXT_BYTES, self.wanted.memory
        if size > memory:
            raise MemoryLimitError(
                f"{self.wanted.name} has more than {count:,} different texts, which take "
                f"{format_bytes(size)} here: more than the memory limit of {format_bytes(memory)}",
                hint="numbers instead of texts stay on the workers; or raise it: "
                "gdatalog.connect(memory_limit=...) or --memory-limit",
            )

    def stage(self, what: str) -> TaskStage:
        limits = Limits(memory=self.wanted.memory)
        return self.keeping.pool.stage(f"{what} {self.wanted.name}", limits)


def own_keys(column: Array, kind: TypeName) -> Array:
    """The keys of a column without texts, which nobody else can change."""
    keys = encode_column(column, kind, SymbolTable())
    return keys.copy() if keys is column else keys


def places_of(column: TextColumn) -> Array:
    """For each row the place of its text, in 32 bits."""
    places: Array = column.codes.astype(np.int32, copy=False)
    return places
