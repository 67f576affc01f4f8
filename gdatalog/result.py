"""`Result`: the rows of an answer, decoded and copied only when you convert them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import index
from typing import Any, overload

import numpy as np

from gdatalog import cancellation
from gdatalog.cancellation import cancellable
from gdatalog.conversions import Conversions
from gdatalog.errors import UsageError
from gdatalog.storage.keys import decode_blocks
from gdatalog.storage.kinds import shown_columns, tidy
from gdatalog.storage.load_options import TypedColumns
from gdatalog.storage.on_device import DeviceStore, Lying
from gdatalog.storage.ordered import first_rows, sorted_rows
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import RemoteRows
from gdatalog.storage.row_groups import made_ahead, rows_at_once
from gdatalog.storage.row_order import (
    Order,
    order_of,
    place_of,
    plain,
    turned,
    turned_back,
)
from gdatalog.storage.rows import Columns, concatenate, cut
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array, Table
from gdatalog.storage.threads import LONG

BATCH = 1 << 20  # rows that a stream decodes at once
FILE = 1 << 22  # most rows of each file of a folder
ITERATED, FETCHED = 1 << 16, 1 << 12  # rows decoded at once by iteration, and by `fetchmany`

Rows = Sequence[Columns] | Lying


class Result(Conversions):
    """The rows of an answer, in no particular order; `sorted()` sorts them.

    `r["x"]` is a column as a NumPy array, `r[0]` a row as a tuple, `r[2:5]` a result with some of
    the rows. Results are lazy: `len(r)`, `r.shape` and slices neither decode nor copy rows.

    >>> import gdatalog as gd
    >>> r = gd.query("big(x) <- n(x), x > 1.", {"n": [(1,), (2,), (3,)]})
    >>> len(r), r.columns, r.dtypes
    (2, ('x',), ('int',))
    >>> r.sorted().fetchall()
    [(2,), (3,)]
    >>> r.sorted()[0], r.sorted()["x"].tolist()
    ((2,), [2, 3])
    """

    def __init__(self, relation: Relation, symbols: SymbolTable, rows: Rows | None = None) -> None:
        self._relation = relation
        self._source = relation  # the same with hidden row numbers
        self._symbols = symbols
        self._held = rows  # in order, here or on a device; None: all rows of the relation
        self._whole = rows is None
        self._exported: dict[str, Any] | None = None
        self._cursor: Iterator[tuple[Any, ...]] | None = None  # for fetchone and fetchmany
        # The limit, if the answer has as many rows: there may be more.
        self.limit: int | None = None
        self.ordered = False  # whether a query has ordered the rows

    @staticmethod
    def of(relation: Relation, symbols: SymbolTable) -> Result:
        """The rows of a relation, without hidden row numbers."""
        kinds, nullable = relation.kinds, relation.nullable
        if not kinds or (shown := shown_columns(kinds, len(kinds))) == len(kinds):
            return Result(relation, symbols)
        columns, types = relation.columns[:shown], relation.types[:shown]
        own = Relation.empty(columns, types).of_kinds(tidy(kinds[:shown]), nullable[:shown])
        made = Result(own, symbols, [block[:shown] for block in relation.blocks()])
        made._source = relation
        return made

    def __len__(self) -> int:
        if self._held is None:
            return self._relation.length
        blocks, _ = self._lying()
        if not self._relation.types:
            return len(blocks)
        return sum(len(block[0]) for block in blocks)

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

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return len(self), len(self.columns)

    @property
    def new(self) -> Result:
        """The rows that the last change of the relation, or of what its rules read, added; all
        rows, if it was recomputed.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db["E"] = [(1, 2), (2, 3)]
        >>> _ = db.run("path(x,z) <- E(x,z) ; path(x,y), E(y,z).")
        >>> len(db["path"])
        3
        >>> _ = db.insert("E", [(3, 4)])
        >>> db["path"].new.sorted().fetchall()
        [(1, 4), (2, 4), (3, 4)]
        >>> _ = db.insert("E", [(1, 4)])
        >>> len(db["path"].new)
        0
        """
        relation = self._source
        if relation.news is None:
            return Result.of(relation, self._symbols)
        if not relation.news:
            return self.head(0)
        first, *others = relation.news
        news = first.joined(*others).renamed(relation.columns)
        return Result.of(news.of_kinds(relation.kinds, relation.nullable), self._symbols)

    def sorted(
        self, by: str | Sequence[str] | None = None, *, descending: bool | Sequence[bool] = False
    ) -> Result:
        """The same rows, sorted by the named columns, in this order; by default by all columns
        from the left. Texts are sorted by code points.

        `descending` reverses the order, of all these columns or of each of them. The other columns
        break ties.

        >>> import gdatalog as gd
        >>> r = gd.query("?- n(x, y).", {"n": [(1, 5), (2, 7), (3, 7)]})
        >>> r.sorted("y", descending=True).fetchall()
        [(2, 7), (3, 7), (1, 5)]
        """
        made = self._sorted(order_of(self.columns, by, descending))
        made.limit = self.limit
        return made

    sort = sorted

    def _sorted(self, order: Order, first: int | None = None) -> Result:
        """All rows sorted, or at least the first ones."""
        relation, (rows, device) = self._relation, self._lying()
        if not rows or not relation.types:
            return self
        if device is not None and "symbol" not in relation.types:
            with device.use():
                how = order, relation.nullable
                keys = device.ops.sort_rows(turned(device.ops.concatenate(rows), *how))
                return self._with([turned_back(keys, *how)], device)
        if "symbol" not in relation.types and plain(order) and len(self) == relation.length:
            return self._having([relation.keys])
        null = relation.nullable
        if self._source is not relation:  # rows may be equal: numbers tell them apart
            rows = [(*_joined(self._rows()), np.arange(len(self)))]
            order = [*order, (len(relation.types), False)]
            null = null and (*null, False)
        else:
            rows = self._rows()
        of = (*relation.types, "int")[: len(order)], self._symbols, order
        if first is not None and 2 * first < len(self):
            found = first_rows(rows, *of, first, null)
        else:
            found = sorted_rows(_joined(rows), *of, null)
        return self._having([found[: len(relation.types)]])

    def head(self, n: int) -> Result:
        """The first `n` rows, in their current order."""
        count = len(self)
        return self._part(0, min(n, count) if n >= 0 else max(0, count + n))

    @overload
    def __getitem__(self, key: str) -> Array: ...

    @overload
    def __getitem__(self, key: slice) -> Result: ...

    @overload
    def __getitem__(self, key: int) -> tuple[Any, ...]: ...

    def __getitem__(self, key: Any) -> Any:
        """A column by its name, a row by its number, or a slice of the rows, as a result."""
        if isinstance(key, str):
            return self._column(place_of(self.columns, key))
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step != 1:
                hint = f"r.to_numpy()[::{step}], or r.sorted(descending=True)"
                raise UsageError(f"a slice of an answer has no step: {step}", hint=hint)
            return self._part(start, max(start, stop))
        try:
            at = index(key)
        except TypeError:
            hint = 'r["x"] is a column, r[0] a row, r[2:5] some of the rows'
            raise UsageError(f"an answer has nothing under {key!r}", hint=hint) from None
        count = len(self)
        if not -count <= at < count:
            raise IndexError(f"there is no row {at:,} in an answer of {count:,}")
        return self._part(at % count, at % count + 1).fetchall()[0]

    def _column(self, at: int) -> Array:
        """One column, decoded; no other is copied from a device."""
        from gdatalog.storage.export import numpy_column

        kind, (blocks, device) = self._relation.types[at], self._lying()
        rows: Sequence[Columns]
        if device is not None and isinstance(self._held, Lying) and self._held.host_blocks is None:
            rows = device.brought([(block[at],) for block in blocks])
        else:
            rows = [(block[at],) for block in self._rows()]
        nullable = self._relation.nullable[at : at + 1]
        (column,) = cancellable(
            len(self),
            lambda: decode_blocks(rows, [kind], self._symbols, nullable=nullable),
            "writing",
        )
        kinds = self._relation.kinds
        return numpy_column(kind, column, kinds[at] if kinds else None)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.columns)

    def _lying(self) -> tuple[Sequence[Columns], DeviceStore | None]:
        """The rows in blocks, and the device if they are on one. From the first call on they keep
        their order, even if the relation is sorted meanwhile."""
        if self._held is None:
            relation = self._relation
            blocks, device = relation.store.where_they_lie()
            if device is not None:
                self._held = Lying(blocks, device)
            else:
                # Without columns only the number of rows matters.
                self._held = blocks if relation.types else blocks * relation.length
        held = self._held
        return (held.blocks, held.rows) if isinstance(held, Lying) else (held, None)

    def _rows(self) -> Sequence[Columns]:
        """The same as NumPy arrays; the first call copies them from the device."""
        blocks, _ = self._lying()
        return self._held.fetched() if isinstance(self._held, Lying) else blocks

    def _with(self, blocks: Sequence[Columns], device: DeviceStore | None) -> Result:
        """A result of other rows of the same relation."""
        made = self._having(blocks if device is None else Lying(blocks, device))
        made.ordered = self.ordered
        return made

    def _having(self, rows: Rows) -> Result:
        made = Result(self._relation, self._symbols, rows)
        made._source = self._source
        return made

    @property
    def _far(self) -> RemoteRows | None:
        """The store of the rows, if they are a whole relation on other machines."""
        far = self._relation.remote if self._whole else None
        return far if far is not None and far.unfetched else None

    def _part(self, start: int, stop: int) -> Result:
        """The rows from `start` to `stop`."""
        far = self._far
        if far is not None:
            return self._having(far.stretch(start, stop))
        blocks, device = self._lying()
        if not self._relation.types:
            return self._having(blocks[start:stop])
        parts = []
        for block in blocks:
            size = len(block[0])
            if start < min(stop, size):
                parts.append(tuple(column[start:stop] for column in block))
            start, stop = max(0, start - size), max(0, stop - size)
        return self._with(parts, device)

    def table(self, room: Callable[[int, Any], Array] = np.empty) -> Table:
        """The decoded columns; `room` allocates their arrays."""
        relation, rows, count = self._relation, self._rows(), len(self)
        given = rows, relation.types, self._symbols, room, relation.nullable
        if count < cancellation.LATE:
            columns = decode_blocks(*given)
        else:
            columns = cancellable(count, lambda: decode_blocks(*given), "writing")
        own = relation.kinds, relation.nullable
        return Table(relation.columns, relation.types, columns, count, *own)

    def shared(self, symbols: SymbolTable) -> Relation | Table:
        """The rows for a database with these symbols; not copied if they are its own."""
        whole = self._whole and self._symbols is symbols
        return self._relation if whole else self.table()

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write a Parquet file; or a folder of Parquet files, if the path ends with a slash.

        Each worker of a cluster writes its own rows into the folder, so all workers must see it.
        For a single file, the rows pass through this process, some at a time. A folder that was
        written before is replaced.
        """
        from gdatalog.storage.parquet_folder import filled, names_a_folder, write_folder
        from gdatalog.storage.writers import write_tables

        far, relation = self._far, self._relation
        if not names_a_folder(path):
            write_tables(self.tables(), len(self), path, format="parquet")
        elif far is None:
            write_folder(path, [(part.tables(), len(part)) for part in self._cut(FILE)])
        else:
            with filled(path) as folder:
                shape = TypedColumns(self.columns, relation.types, relation.nullable)
                far.keeper.write(far, shape, self._symbols, folder)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a CSV file with a header."""
        from gdatalog.storage.writers import write_tables

        write_tables(self.tables(), len(self), path, format="csv")

    def tables(self) -> Iterator[Table]:
        """The rows for a writer: decoded block by block, at least one block."""
        tables = self._tables(rows_at_once(self._relation.types))
        here = self._far is None and self._lying()[1] is None
        return made_ahead(tables) if here and len(self) >= LONG else tables

    def _tables(self, rows: int, room: Callable[[int, Any], Array] = np.empty) -> Iterator[Table]:
        return (part.table(room) for part in self._cut(rows))

    def _cut(self, rows: int) -> Iterator[Result]:
        """The rows in parts of this many; at least one part."""
        if self._far is not None or not self._relation.types:
            pieces = range(0, max(1, len(self)), rows) if self._relation.types else range(1)
            yield from (self._part(at, at + rows) for at in pieces)
            return
        blocks, device = self._lying()
        yield from (self._with(parts, device) for parts in cut(blocks, rows))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples of Python values; timestamps as pandas Timestamps. After `fetchone`
        or `fetchmany`, the rows that are left; the next call starts over.
        """
        from gdatalog.storage.export import to_rows

        cursor, self._cursor = self._cursor, None
        return to_rows(self.table()) if cursor is None else list(cursor)

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; None after the last one. `fetchall` starts over.

        >>> import gdatalog as gd
        >>> r = gd.query("?- n(x).", {"n": [(1,), (2,), (3,)]}).sorted()
        >>> r.fetchone(), r.fetchmany(5), r.fetchone()
        ((1,), [(2,), (3,)], None)
        """
        return next(iter(self.fetchmany(1)), None)

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """The next rows, at most `size`; an empty list after the last one."""
        if size < 0:
            raise UsageError(f"a number of rows cannot be negative: {size}")
        if self._cursor is None:
            self._cursor = self._stream(FETCHED)
        return list(islice(self._cursor, size))

    def _stream(self, rows: int) -> Iterator[tuple[Any, ...]]:
        """The rows as tuples, decoded in blocks of this many."""
        from gdatalog.storage.export import to_rows

        return (row for table in self._tables(rows) for row in to_rows(table))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        from gdatalog.storage.export import named_rows

        return named_rows(self.columns, self._stream(ITERATED))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Arrow's stream interface: batches of rows, each decoded when it is asked for."""
        from gdatalog.storage.export import arrow_room, arrow_stream

        tables = self._tables(BATCH, arrow_room)
        return arrow_stream(self.head(0).table(), tables, requested_schema)

    # ------------------------------------------------------------------------------- people

    def show(self, n: int = 20) -> None:
        """Print the first and last rows, `n` in all, as a table."""
        print(self.format(n))

    def format(self, n: int = 20) -> str:
        """What `show` prints."""
        from gdatalog.present import box_lines

        return "\n".join(box_lines(self, n))

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


def _joined(blocks: Sequence[Columns]) -> Columns:
    """The keys of all rows; there is at least one."""
    return tuple(map(np.asarray, concatenate(blocks)))
