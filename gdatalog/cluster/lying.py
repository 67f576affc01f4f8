"""Rows that lie on workers: made distinct there, fetched from there.

What a worker has of a part (`storage/afar.py`) is its columns, or says how to have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdatalog.cluster.exchange import Exchange, Having, columns_of, measured
from gdatalog.cluster.pool import Call, Pool
from gdatalog.errors import MemoryLimitError, UsageError
from gdatalog.executors.limits import Limits
from gdatalog.progress import format_bytes
from gdatalog.storage.afar import AfarRows, Part, Piece
from gdatalog.storage.rows import Columns


class OnWorkers:
    """Keeps parts on the workers of a pool. What a planner asks of them is not answered here."""

    def __init__(self, pool: Pool, memory: int) -> None:
        """`memory`: how many bytes may be fetched."""
        self.pool = pool
        self.memory = memory

    def limits(self) -> Limits:
        """For what is asked now, by whoever asks."""
        return Limits(memory=self.memory)

    def fetch(self, pieces: Sequence[Piece]) -> list[Columns]:
        """Rows, in blocks, in this order; MemoryLimitError where there is no room for them."""
        needed = sum(_bytes_of(piece) for piece in pieces)
        if needed > self.memory:
            rows = sum(stop - start for _, start, stop in pieces)
            raise MemoryLimitError(
                f"{rows:,} rows on the cluster would take {format_bytes(needed)} here, more than "
                f"the memory limit of {format_bytes(self.memory)}",
                hint="leave them there: to_dask() and to_parquet(folder) do; head() fetches few; "
                "or raise the limit: gdatalog.connect(memory_limit=...)",
            )
        stage = self.stage("fetch rows")
        for at, (part, start, stop) in enumerate(pieces):
            stage.add(Call(cut, (part.value, start, stop), tag=at))
        found: dict[int, Columns] = {call.tag: rows for call, rows in stage}
        return [found[at] for at in range(len(pieces))]

    def distinct(self, rows: AfarRows) -> Sequence[Part]:
        """Parts that have each of the rows once: those with one hash lie with one owner."""
        exchange = Exchange.over(self.pool, "distinct rows", self.limits(), rows.bytes_afar)
        owned = exchange.distinct([part.value for part in rows.parts])
        return measured(self.pool, self.limits(), owned)

    def stage(self, told: str) -> Any:
        if not self.pool.open:
            raise UsageError(
                "these rows lie on a cluster, and the database's connection to it was closed",
                hint="before it is closed, fetch them, or write them: to_parquet(folder)",
            )
        return self.pool.stage(told, self.limits())


def _bytes_of(piece: Piece) -> int:
    part, start, stop = piece
    return part.nbytes * (stop - start) // max(1, part.rows)


# ------------------------------------------------------------------------------- on a worker


def cut(value: Columns | Having, start: int, stop: int) -> Columns:
    """The rows of a part from one place to another."""
    return tuple(column[start:stop] for column in columns_of(value))
