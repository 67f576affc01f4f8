"""Data frames and other Python data become tables.

Supported data: DataFrames (pandas, polars, cuDF), objects with Arrow's interface (tables, batches,
streams, DuckDB relations), NumPy and CuPy arrays (of one or two dimensions, or structured),
rows (tuples, lists, records, single values), a dict of columns, scipy.sparse matrices (the
positions of nonzeros), and networkx graphs (their edges, in both directions if undirected).

A relation has no missing values. Data with missing values is an error that counts them by column,
unless the options drop the rows or fill the values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np

from gdatalog.cancellation import OBJECT, cancellable, current_watch
from gdatalog.errors import DataError, MemoryLimitError, Note, UsageError, meant
from gdatalog.records import dataclass, replace
from gdatalog.storage.cells import Cells, arrow_texts, as_arrow, cells_column, kind_of
from gdatalog.storage.column_arrays import empty_column
from gdatalog.storage.column_matching import match_columns
from gdatalog.storage.columns import arrow_array, column_from, object_column
from gdatalog.storage.device_columns import fetched, lies_on_device
from gdatalog.storage.imported_later import pa, pc
from gdatalog.storage.load_options import PLAIN, LoadOptions, row_count
from gdatalog.storage.places import DataPlace, FilePlace, MissingValue, SomeRows
from gdatalog.storage.raw import Raw, raw_of, raw_of_table
from gdatalog.storage.row_ids import with_row_ids
from gdatalog.storage.table import Array, Column, Table, TextColumn
from gdatalog.storage.wrong_cells import MISSING
from gdatalog.values import TypeName, is_unicode

# The wanted columns: the name of each, its position in the data, and its declared type.
Picked = Sequence[tuple[str, int, TypeName | None]]

TYPING = (0.4, 0.9)  # where conversion begins and ends in the progress of loading a file


def table_from(data: Any, options: LoadOptions = PLAIN) -> Table:
    """The table of any supported data.

    Columns match the declared ones by name if the data has all these names, else by position.
    Errors count rows from 0.

    >>> table_from([(1, "a"), (2, "b")]).types
    ('int', 'symbol')
    """
    if options.header is not None:
        raise UsageError(f"{options.what}: header is for text files", hint="leave header= out")
    if isinstance(data, Table):
        data = raw_of_table(data)

    def read(options: LoadOptions) -> list[Table]:
        return [table_of(data if isinstance(data, Raw) else raw_of(data, options), options)]

    return next(with_row_ids(read, options))


def table_of(raw: Raw, options: LoadOptions) -> Table:
    """The columns that the user wants, each of its declared type or of its own."""
    declared = options.declared
    if options.findings is not None and options.columns is None and declared is None:
        options.findings.warnings += raw.warnings
    if not raw.columns and not raw.length:
        return _empty_table(options, raw.names is not None)
    names, places = match_columns(raw.names, len(raw.columns), options, raw.header)
    unprintable = next((name for name in names if not is_unicode(name)), None)
    if unprintable is not None:
        raise DataError(
            f"{options.what}: the column name {unprintable!r} holds half a surrogate pair"
        )
    types: Sequence[TypeName | None] = (
        declared.types if declared is not None else [None] * len(places)
    )
    picked = list(zip(names, places, types, strict=True))
    try:
        return _typed(raw, picked, options)
    except MissingValue as error:
        raise explained(error, raw, picked) from None


def table_of_file(raw: Raw, options: LoadOptions) -> Table:
    """As `table_of`, for a file: errors name it, and progress is reported."""
    if raw.place is None:
        raw = replace(raw, place=lambda _, column: FilePlace(options.what, column))
    with current_watch().innermost.within(*TYPING):
        return table_of(raw, options)


def _typed(raw: Raw, picked: Picked, options: LoadOptions) -> Table:
    types: list[TypeName] = []
    converted = []
    for name, at, _ in picked:
        if len(raw.columns[at]) != raw.length:
            message = f"{options.what}: column {name!r} has {len(raw.columns[at])} rows, the first"
            hint = "all columns of a relation have one length"
            raise DataError(f"{message} {raw.length}", hint=hint)
    watch, work = current_watch(), current_watch().innermost
    # The number of rows of several files is unknown so far; that of a batch is counted elsewhere.
    if not work.several and raw.whole is None:
        work.new_rows = raw.length
    if work.stage == "loading" and work.total is None:
        work.total, work.unit = raw.length, "rows"
    mending = Mending.of(raw, picked, options) if options.mends else None
    for position, (name, at, wanted) in enumerate(picked):
        work.share(position / len(picked))
        watch.poll()
        place = DataPlace(options.what, name) if raw.place is None else raw.place(at, name)
        typed = partial(_column, raw, wanted, options.there)
        column = raw.columns[at]
        if mending is not None:
            kind, values = mending.column(position, column, place, typed)
        else:
            kind, values = typed(column, place)
        types.append(kind)
        converted.append(values)
    length = raw.length if mending is None else mending.length
    names = tuple(name for name, _, _ in picked)
    return Table(names, tuple(types), tuple(converted), length if picked else min(length, 1))


def _column(
    raw: Raw, wanted: TypeName | None, there: Any, column: Any, place: DataPlace
) -> tuple[TypeName, Column]:
    """One column's type and values."""
    if raw.source == "text":
        return cells_column(column, wanted, place, raw.whole is not None)
    if raw.source == "json":
        return object_column(column, wanted, place, json=True)
    looked_at = len(column) * OBJECT if there is None and hasattr(column, "__len__") else 0
    return cancellable(looked_at, partial(column_from, column, wanted, place, there), None)


def _empty_table(options: LoadOptions, is_frame: bool) -> Table:
    """A table without rows, for any declaration."""
    if options.declared is not None:
        return _empty(options.declared.columns, options.declared.types)
    if options.columns is not None:
        unknown: TypeName = "symbol"
        return _empty(tuple(options.columns), (unknown,) * len(options.columns))
    if is_frame:
        return _empty((), ())
    raise DataError(
        f"{options.what}: there is no row, so the number of columns is not known",
        hint="declare the relation, or load a DataFrame whose columns have names and dtypes",
    )


def _empty(names: tuple[str, ...], types: tuple[TypeName, ...]) -> Table:
    return Table(names, types, tuple(empty_column(kind) for kind in types), 0)


# Missing values: finds them, drops their rows, or fills them.


_WITH_NAN = (float, np.floating, np.datetime64, Decimal)
_NAMES = ("NoneType", "NAType", "NaTType", "MaskedConstant")


def null_mask(column: Any, source: str, declared: TypeName | None, filled: bool) -> Array:
    """A mask of the missing values of a raw column. In a text file these are cells such as `NA`,
    but not in columns of texts; there, empty cells are missing if the column is `filled`."""
    if source == "text":
        if isinstance(column, TextColumn):
            if declared in (None, "symbol"):
                return np.zeros(len(column), dtype=np.bool_)
            column = as_arrow(column)
        return _missing_cells(column, declared, filled)
    if lies_on_device(column):
        column = fetched(column)
    library = type(column).__module__.split(".")[0]
    if library == "pandas":
        return np.asarray(column.isna(), dtype=np.bool_)
    if not isinstance(column, np.ndarray) and (
        hasattr(column, "__arrow_c_array__") or hasattr(column, "__arrow_c_stream__")
    ):
        return np.asarray(pc.is_null(arrow_array(column), nan_is_null=True), dtype=np.bool_)
    if not isinstance(column, np.ndarray | list | tuple) and hasattr(column, "__array__"):
        column = np.asarray(column)
    if isinstance(column, np.ma.MaskedArray):
        return np.ma.getmaskarray(column)
    if isinstance(column, np.ndarray) and column.dtype.kind not in "OTV":
        return np.asarray(column != column)  # NaN and NaT
    missing = (
        type(value).__name__ in _NAMES or (isinstance(value, _WITH_NAN) and value != value)
        for value in column
    )
    return np.fromiter(missing, np.bool_, len(column))


def _missing_cells(cells: Cells, declared: TypeName | None, filled: bool) -> Array:
    kind = declared or kind_of(cells, identifiers=True)
    if isinstance(cells, list):
        words = MISSING if kind != "symbol" else ("",) if filled else ()
        trimmed = cells if kind == "symbol" else [cell.strip() for cell in cells]
        return np.array([cell in words for cell in trimmed], dtype=np.bool_)
    if kind == "symbol":
        blank = pc.is_in(cells, arrow_texts([""])) if filled else pc.is_null(cells)
    else:
        blank = pc.is_in(pc.utf8_trim_whitespace(cells), arrow_texts(MISSING))
    return np.asarray(blank, dtype=np.bool_)


def taken(column: Any, keep: Array) -> Any:
    """The values of a raw column at some rows."""
    if lies_on_device(column):
        column = fetched(column)
    if isinstance(column, list | tuple):
        return [value for value, kept in zip(column, keep.tolist(), strict=True) if kept]
    if hasattr(column, "filter") and type(column).__module__.startswith("pyarrow"):
        if pa.types.is_string_view(column.type):  # Arrow cannot filter these
            column = column.cast(pa.large_string())
        return column.filter(pa.array(keep))
    if hasattr(column, "iloc"):
        if isinstance(column.dtype, np.dtype) and not column.dtype.isnative:
            return column.to_numpy()[keep]  # pandas cannot select from foreign byte orders
        return column.iloc[np.flatnonzero(keep)]
    if not hasattr(column, "__getitem__"):
        return taken(list(column), keep)
    return column[keep]


@dataclass(frozen=True, slots=True)
class _Fill(DataPlace):
    def where(self, row: int) -> str:
        return f"{self.what}: fill of column {self.column!r}"

    def error(self, row: int, message: str, hint: str | None = None) -> DataError:
        return DataError(f"{self.where(row)}: {message}", hint="give it a value of that type")


@dataclass(slots=True)
class Mending:
    """Which rows of some columns are kept, and which of their values are filled."""

    options: LoadOptions
    masks: list[Array]  # missing values, by column
    keep: Array  # rows

    @staticmethod
    def of(raw: Raw, picked: Picked, options: LoadOptions) -> Mending:
        names = [name for name, _, _ in picked]
        unknown = next((name for name in options.fill if name not in names), None)
        if unknown is not None:
            near = meant(unknown, names)
            raise UsageError(
                f"fill names no column of the relation: {unknown!r}",
                hint=f"did you mean {near!r}?" if near else f"columns are {', '.join(names)}",
            )
        masks = [
            null_mask(raw.columns[at], raw.source, kind, name in options.fill)
            for name, at, kind in picked
        ]
        keep: Array = np.ones(raw.length, dtype=np.bool_)
        if options.nulls == "drop":
            for name, mask in zip(names, masks, strict=True):
                if name not in options.fill:
                    keep &= ~mask
        mending, findings = Mending(options, masks, keep), options.findings
        if findings is not None:
            findings.dropped += raw.length - mending.length
            for name, mask in zip(names, masks, strict=True):
                count = int(np.count_nonzero(mask))
                if count and name not in options.fill:
                    findings.missing[name] = findings.missing.get(name, 0) + count
        return mending

    @property
    def length(self) -> int:
        return int(np.count_nonzero(self.keep))

    def column(
        self,
        number: int,
        raw_column: Any,
        place: DataPlace,
        typed: Callable[[Any, DataPlace], tuple[TypeName, Column]],
    ) -> tuple[TypeName, Column]:
        """The typed values of a column in the rows that are kept."""
        filling = place.column in self.options.fill
        there = self.keep & ~self.masks[number] if filling else self.keep
        if not there.all():
            raw_column = taken(raw_column, there)
            place = SomeRows(place.what, place.column, place, np.flatnonzero(there))
        kind, values = typed(raw_column, place)
        if not filling or int(np.count_nonzero(there)) == self.length:
            return kind, values
        value = self._value(place, kind if len(values) else None)
        kind = value[0]
        missing = self.masks[number][self.keep]
        return kind, _filled(values if len(values) else value[1], ~missing, value[1])

    def _value(self, place: DataPlace, kind: TypeName | None) -> tuple[TypeName, Column]:
        """The fill value of a column, as a column of one value."""
        value = self.options.fill[place.column]
        where = _Fill(place.what, place.column)
        if self.options.fill_is_text:
            return cells_column(pa.chunked_array([[value]], pa.string()), kind, where)
        return column_from([value], kind, where)


def _filled(values: Column, there: Array, fill: Column) -> Column:
    """The values that are `there`; the value of `fill` elsewhere."""
    if isinstance(values, TextColumn) and isinstance(fill, TextColumn):
        text = str(fill.texts[0])
        known = np.flatnonzero(values.texts == text)
        texts = values.texts if len(known) else np.append(values.texts, fill.texts)
        codes = np.full(len(there), known[0] if len(known) else len(values.texts), dtype=np.int64)
        codes[there] = values.codes[: np.count_nonzero(there)]
        return TextColumn(codes, texts)
    assert isinstance(values, np.ndarray) and isinstance(fill, np.ndarray)
    whole: Array = np.full(len(there), fill[0], dtype=np.promote_types(values.dtype, fill.dtype))
    whole[there] = values[: np.count_nonzero(there)]
    return whole


def explained(error: DataError, raw: Raw, picked: Picked) -> DataError:
    """The error for the first missing value, with the number of rows that `nulls="drop"` would
    drop. The count ends at another error in a later batch."""
    counts: dict[str, int] = {}
    gone = length = 0
    of = "of"
    try:
        for part in [raw] if raw.whole is None else raw.whole():
            masks = [
                null_mask(part.columns[at], part.source, kind, False) for _, at, kind in picked
            ]
            for (name, _, _), mask in zip(picked, masks, strict=True):
                if mask.any():
                    counts[name] = counts.get(name, 0) + int(np.count_nonzero(mask))
            gone += int(np.count_nonzero(np.logical_or.reduce(masks)))
            length += part.length
    except (DataError, MemoryLimitError):
        of = "of the first"
    names = [name for name, _, _ in picked]
    counts = {name: counts[name] for name in names if name in counts}
    text = ", ".join(f"`{name}` in {row_count(count)}" for name, count in counts.items())
    note = Note(f"values are missing: {text}; {gone:,} {of} {row_count(length)} would be dropped")
    whole = [name for name in names if name not in counts]
    cures = [
        'nulls="drop" drops these rows',
        f'fill={{"{next(iter(counts), "x")}": ...}} fills them',
    ]
    if whole:
        some = ", ".join(f'"{name}"' for name in whole) if len(whole) <= 12 else "..."
        cures.insert(0, f"columns=[{some}] loads the other columns")
    return DataError(error.message, error.span, hint="; ".join(cures), notes=[*error.notes, note])
