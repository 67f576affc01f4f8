"""Answers: columns that stay as they were computed until someone asks for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from gdatalog.storage.relation import Relation
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

    def __init__(self, relation: Relation, symbols: SymbolTable, rows: Array | None = None):
        self._relation = relation
        self._symbols = symbols
        self._rows = rows  # which rows, in which order; None: all, as they are

    def __len__(self) -> int:
        return self._relation.length if self._rows is None else len(self._rows)

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
        relation = self._relation
        keys = [
            self._symbols.ranks()[key] if kind == "symbol" else key
            for key, kind in zip(relation.keys, relation.types, strict=True)
        ]
        order = np.lexsort(keys[::-1]) if keys else np.arange(relation.length)
        if self._rows is not None:
            picked = np.zeros(relation.length, dtype=np.bool_)
            picked[self._rows] = True
            order = order[picked[order]]
        return Result(relation, self._symbols, order)

    def head(self, n: int) -> Result:
        """The first `n` rows, in whatever order they are in."""
        rows = np.arange(len(self)) if self._rows is None else self._rows
        return Result(self._relation, self._symbols, rows[:n])

    def table(self) -> Table:
        """The decoded columns."""
        if self._rows is None:
            return self._relation.to_table(self._symbols)
        relation = self._relation
        keys = tuple(key[self._rows] for key in relation.keys)
        part = Relation(relation.columns, relation.types, keys, len(self._rows))
        return part.to_table(self._symbols)

    # ------------------------------------------------------------------------------ exports

    def df(self, sort: bool = False) -> pd.DataFrame:
        """A pandas DataFrame: int64, float64, bool, str and datetime64[ns, UTC], always."""
        from gdatalog.storage.export import to_pandas

        frame: pd.DataFrame = to_pandas(self.sorted().table() if sort else self.table())
        return frame

    to_pandas = df

    def to_arrow(self) -> pa.Table:
        """An Arrow table."""
        from gdatalog.storage.export import to_arrow

        return to_arrow(self.table())

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
        rows = np.arange(count) if self._rows is None else self._rows
        first, last = (n + 1) // 2, n // 2
        return (
            Result(self._relation, self._symbols, rows[:first]),
            Result(self._relation, self._symbols, rows[count - last :]),
        )
