"""The methods of `Result` that convert rows: to frames, arrays and graphs, and to a summary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gdatalog.cancellation import cancellable
from gdatalog.errors import DeviceError, UsageError
from gdatalog.storage.load_options import TypedColumns
from gdatalog.storage.on_device import DeviceStore, device_values
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import RemoteRows
from gdatalog.storage.rows import Columns
from gdatalog.storage.summary import summary_of
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array, Table
from gdatalog.values import type_texts

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class Conversions:
    """The methods of `Result` that convert its rows."""

    _relation: Relation
    _symbols: SymbolTable
    _exported: dict[str, Any] | None

    if TYPE_CHECKING:

        @property
        def columns(self) -> tuple[str, ...]: ...
        @property
        def dtypes(self) -> tuple[str, ...]: ...
        @property
        def _far(self) -> RemoteRows | None: ...
        def __len__(self) -> int: ...
        def _lying(self) -> tuple[Sequence[Columns], DeviceStore | None]: ...
        def _rows(self) -> Sequence[Columns]: ...
        def table(self, room: Callable[[int, Any], Array] = np.empty) -> Table: ...
        def sorted(
            self,
            by: str | Sequence[str] | None = None,
            *,
            descending: bool | Sequence[bool] = False,
        ) -> Conversions: ...

    def df(
        self,
        sort: bool | str | Sequence[str] | None = False,
        *,
        descending: bool | Sequence[bool] = False,
    ) -> pd.DataFrame:
        """A pandas DataFrame. Loaded columns have the dtypes that they had, derived columns int64,
        float64, bool, str and datetime64[ns], naive or with a zone.

        `sort`: the columns to sort by, as in `sorted`; True sorts by all of them.
        """
        from gdatalog.storage.export import to_pandas

        if sort is False or sort is None:
            if descending is not False:
                hint = 'df(sort="x", descending=True), or df(sort=True, descending=True)'
                raise UsageError("descending= says how to sort, and nothing is sorted", hint=hint)
            table = self.table()
        else:
            by = None if isinstance(sort, (bool, np.bool_)) else sort
            table = self.sorted(by, descending=descending).table()
        frame: pd.DataFrame = cancellable(
            table.length, lambda: to_pandas(table, given=True), "writing"
        )
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

    def to_cupy(self, *, codes: bool = False) -> dict[str, Any]:
        """The columns as CuPy arrays, by their names: int64, float64, bool; nanoseconds since 1970
        for timestamps, since CuPy has no type for them. Nulls are NaN among floats, and an error
        elsewhere. The same arrays each time.

        Answers of a GPU do not pass through the host; the arrays' `__cuda_array_interface__` and
        DLPack share them without a copy. CuPy has no strings: with `codes`, a column of symbols
        holds the positions of its texts in `categories`.
        """
        for name, kind, null in zip(
            self.columns, self.dtypes, self._relation.nullable, strict=False
        ):
            if null and kind != "float":
                message = f"the column {name!r} may hold nulls, and CuPy has no arrays with nulls"
                raise DeviceError(message, hint="ask for `x != null`, or for coalesce(x, 0)")
        texts = [n for n, kind in zip(self.columns, self.dtypes, strict=True) if kind == "symbol"]
        if texts and not codes:
            message = f"the column {texts[0]!r} holds symbols, and CuPy has no arrays of texts"
            hint = "to_cupy(codes=True) gives the places of texts in `categories`"
            raise DeviceError(message, hint=hint)
        if self._exported is None:
            self._exported = dict(zip(self.columns, self._on_device(), strict=True))
        return self._exported

    def _on_device(self) -> list[Any]:
        (blocks, device), types = self._lying(), self._relation.types
        if not types:
            return []
        if device is None:
            from gdatalog.storage.export import to_cupy

            columns = (
                zip(*blocks, strict=True) if blocks else [[np.empty(0, np.int32)]] * len(types)
            )
            keys = [np.concatenate(parts) for parts in columns]
            return to_cupy([device_values(*each) for each in zip(keys, types, strict=True)])
        with device.use():
            blocks = blocks or [tuple(column[:0] for column in device.as_they_are())]
            rows = device.ops.concatenate(blocks)
            values = (device_values(*each) for each in zip(rows, types, strict=True))
            return list(map(device.ops.xp.plain, values))

    @property
    def categories(self) -> Array:
        """The texts of the codes of `to_cupy(codes=True)`, indexed by code."""
        return self._symbols.array().copy()

    def to_dask(self) -> Any:
        """A dask DataFrame, with the dtypes of `df()`; Dask must be installed.

        Rows on the workers of a cluster stay there: the worker that has them makes a partition when
        it is computed. Other rows are partitions of local data.
        """
        far = self._far
        if far is not None:
            shape = TypedColumns(self.columns, self._relation.types, self._relation.nullable)
            return far.keeper.to_dask(far, shape, self._symbols)
        from gdatalog.storage.export import to_dask

        return to_dask(self.table())

    def to_networkx(self, *, nodes: Conversions | None = None, directed: bool = True) -> Any:
        """A networkx graph of the rows; networkx must be installed.

        The first two columns are the ends of edges, further ones attributes of the edge. `nodes` is
        a relation or an answer of nodes: its first column holds the node, further ones attributes.
        An undirected graph takes an edge that is there in both directions once. A pair with
        several rows, and so with different attributes, is an error.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db.load("road", [("a", "b", 3), ("b", "c", 5)], columns=["from", "to", "km"])
        >>> graph = db["road"].to_networkx()
        >>> graph.is_directed(), graph.edges["a", "b"]
        (True, {'km': 3})
        """
        from gdatalog.storage.networks import network_of

        return network_of(self.table(), None if nodes is None else nodes.table(), directed)

    def describe(self) -> pd.DataFrame:
        """A summary of the columns: a row for each, with its type (`int?` if it may hold nulls),
        the dtype that `df()` gives it, the numbers of rows, of nulls and of distinct values, and
        the least and the greatest value (None if there is none). Texts are compared by code points.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db.load("E", [(1, 31), (2, 27), (3, 27)], columns=["id", "km"])
        >>> print(db["E"].describe())
          column type  dtype  rows  nulls  distinct least greatest
        0     id  int  int64     3      0         3     1        3
        1     km  int  int64     3      0         2    27       31
        """
        import pandas as pd

        from gdatalog.storage.export import dtypes_of, to_rows

        nulls, distinct, ends = self._summary()
        rows = to_rows(ends) or [(None,) * len(distinct)]
        return pd.DataFrame(
            {
                "column": list(self.columns),
                "type": type_texts(self.dtypes, self._relation.nullable),
                "dtype": dtypes_of(ends),
                "rows": np.full(len(distinct), len(self)),
                "nulls": np.array(nulls, dtype=np.int64),
                "distinct": np.array(distinct, dtype=np.int64),
                "least": pd.Series(list(rows[0]), dtype=object),
                "greatest": pd.Series(list(rows[-1]), dtype=object),
            }
        )

    def _summary(self) -> tuple[list[int], list[int], Table]:
        """The numbers of nulls and of distinct values of each column; and a table of two rows, the
        least and the greatest values, or of none."""
        found = partial(summary_of, self._relation, self._rows(), self._symbols)
        return cancellable(len(self), found)
