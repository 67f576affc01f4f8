"""The blocks in which rows are decoded for writers and printers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

from gdatalog.storage.table import Table
from gdatalog.storage.threads import ahead
from gdatalog.values import TypeName

GROUP = 1 << 20  # most rows of a row group in a Parquet file
GROUP_BYTES = 1 << 25  # most bytes of its decoded values
_WIDTH, _TEXT = 8, 32  # bytes of a value, and the assumed bytes of a text


def rows_at_once(types: Sequence[TypeName]) -> int:
    """The number of rows of such columns to decode at once: a row group of a Parquet file."""
    width = sum(_TEXT if kind == "symbol" else _WIDTH for kind in types)
    return max(1, min(GROUP, GROUP_BYTES // max(1, width)))


def made_ahead(tables: Iterable[Table]) -> Iterator[Table]:
    """The same tables; a thread decodes the next one while the last one is used."""
    left = iter(tables)
    for table in ahead(lambda _: next(left, None), repeat(None), True, most=1):
        if table is None:
            return
        yield table
