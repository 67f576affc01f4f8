"""Answers: columns that stay as they were computed until someone asks for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gdatalog.storage.keys import decode_blocks
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns, concatenate, order_rows, sort_rows
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array, Table

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class Result:
    """The rows of an answer. Their order is unspecified; `sorted()` sorts them.

    >>> import gdatalog as gd
    >>> r = gd.query("big(x) <- n(x), x > 1.", {"n": [(1,), (2,), (3,)]})
    >>> len(r), r.columns, r.dtypes
    (2, ('x',), ('int',))
    >>> r.sorted().fetchall()
    [(2,), (3,)]
    """

    def __init__(
        self, relation: Relation, symbols: SymbolTable, blocks: Sequence[Columns] | None = None
    ):
        self._relation = relation
        self._symbols = symbols
        self._blocks = blocks  # the rows, in their order; None: all, as they are

    def __len__(self) -> int:
        if self._blocks is None:
            return self._relation.length
        if not self._relation.types:
            return len(self._blocks)
        return sum(len(block[0]) for block in self._blocks)

    def __bool__(self) -> bool:
        """Whether there is any row: the truth of a proposition."""
        return len(self) > 0

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self._relation.columns

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The types of the columns: int, float, symbol, bool or timestamp."""
        return self._relation.types

    def sorted(self) -> Result:
        """The same rows, sorted by all columns from the left; texts by code points."""
        relation, rows = self._relation, self._rows()
        if not rows or not relation.types:
            return self
        if "symbol" not in relation.types:
            whole = len(self) == relation.length
            keys = relation.keys if whole else sort_rows(concatenate(rows))
            return Result(relation, self._symbols, [keys])
        keys, ranks = concatenate(rows), self._symbols.ranks()
        order = order_rows(
            [
                ranks[key] if kind == "symbol" else key
                for key, kind in zip(keys, relation.types, strict=True)
            ]
        )
        return Result(relation, self._symbols, [tuple(key[order] for key in keys)])

    def head(self, n: int) -> Result:
        """The first `n` rows, in whatever order they are in."""
        count = len(self)
        return self._part(0, min(n, count) if n >= 0 else max(0, count + n))

    def _rows(self) -> Sequence[Columns]:
        """The rows in blocks: from the first call on in one order, whatever others sort."""
        if self._blocks is None:
            relation = self._relation
            blocks = relation.blocks()
            # Without columns there is nothing but how many rows there are.
            self._blocks = blocks if relation.types else blocks * relation.length
        return self._blocks

    def _part(self, start: int, stop: int) -> Result:
        """The rows from one place to another."""
        if not self._relation.types:
            return Result(self._relation, self._symbols, self._rows()[start:stop])
        parts = []
        for block in self._rows():
            size = len(block[0])
            if start < min(stop, size):
                parts.append(tuple(column[start:stop] for column in block))
            start, stop = max(0, start - size), max(0, stop - size)
        return Result(self._relation, self._symbols, parts)

    def table(self, room: Callable[[int, Any], Array] = np.empty) -> Table:
        """The decoded columns, in arrays that `room` makes."""
        relation = self._relation
        columns = decode_blocks(self._rows(), relation.types, self._symbols, room)
        return Table(relation.columns, relation.types, columns, len(self))

    # ------------------------------------------------------------------------------ exports

    def df(self, sort: bool = False) -> pd.DataFrame:
        """A pandas DataFrame: int64, float64, bool, str and datetime64[ns, UTC], always."""
        from gdatalog.storage.export import to_pandas

        table = self.sorted().table() if sort else self.table()
        frame: pd.DataFrame = to_pandas(table, given=True)
        return frame

    to_pandas = df

    def to_arrow(self) -> pa.Table:
        """An Arrow table."""
        from gdatalog.storage.export import arrow_room, to_arrow

        return to_arrow(self.table(arrow_room))

    def to_polars(self) -> Any:
        """A polars DataFrame; polars must be installed."""
        from gdatalog.storage.export import to_polars

        return to_polars(self.table())

    def to_numpy(self) -> Array:
        """A structured array with a field for each column."""
        from gdatalog.storage.export import to_numpy

        return to_numpy(self.table())

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write a Parquet file."""
        from gdatalog.storage.writers import write_table

        write_table(self.table(), path, format="parquet")

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a CSV file with a header."""
        from gdatalog.storage.writers import write_table

        write_table(self.table(), path, format="csv")

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples of Python values; timestamps as pandas Timestamps."""
        from gdatalog.storage.export import to_rows

        return to_rows(self.table())

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.fetchall())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        from gdatalog.storage.export import arrow_stream

        return arrow_stream(self.table(), requested_schema)

    # ------------------------------------------------------------------------------- people

    def show(self, n: int = 20) -> None:
        """Print the first and last rows, `n` in all, as a table."""
        print(self.format(n))

    def format(self, n: int = 20) -> str:
        """What `show` prints."""
        from gdatalog.present import box

        return box(self, n)

    def __repr__(self) -> str:
        return self.format(10)

    def _repr_html_(self) -> str:
        from gdatalog.present import html

        return html(self, 20)

    def _picked(self, n: int) -> tuple[Result, Result]:
        """The first and the last rows, `n` together."""
        count = len(self)
        if count <= n:
            return self, self.head(0)
        return self._part(0, (n + 1) // 2), self._part(count - n // 2, count)
