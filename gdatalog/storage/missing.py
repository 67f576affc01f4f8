"""Missing values: keeps them as nulls, drops their rows, fills them, or refuses them.

What a library says is null becomes a null: Arrow's nulls, pandas' NA, NaT, None and NaN, None in
Python and JSON, blank cells of columns of text files that hold no texts. A NaN elsewhere, and words
such as NA in a text file, are errors that count them by column, unless the options drop the rows or
fill the values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from gdatalog.errors import DataError, MemoryLimitError, Note, UsageError, meant
from gdatalog.records import dataclass
from gdatalog.storage.cells import (
    MISSING,
    Cells,
    arrow_texts,
    as_arrow,
    cells_column,
    hold_texts,
    kind_of,
)
from gdatalog.storage.columns import arrow_array, column_from
from gdatalog.storage.device_columns import fetched, lies_on_device
from gdatalog.storage.imported_later import pa, pc
from gdatalog.storage.load_options import LoadOptions, row_count
from gdatalog.storage.places import DataPlace, MissingValue, SomeRows
from gdatalog.storage.raw import Raw
from gdatalog.storage.table import Array, Column, NullableColumn, TextColumn
from gdatalog.values import NULL, TypeName, constant_text

# The wanted columns: the name of each, its position in the data, and its declared type.
Picked = Sequence[tuple[str, int, TypeName | None]]
# Types the values of a raw column.
Typing = Callable[[Any, DataPlace], tuple[TypeName, Column]]


_WITH_NAN = (float, np.floating, np.datetime64, np.timedelta64, Decimal)
_NAMES = ("NoneType", "NAType", "NaTType", "MaskedConstant")


def with_nulls(
    source: str, null: str | None, marked: bool, typed: Typing, column: Any, place: DataPlace
) -> tuple[TypeName, Column]:
    """The typed values of a raw column, with its nulls if it has some. Of a text file: `null` is
    the word for them, and cells that are `marked` as empty are nulls, too."""
    missing = None if source != "text" else said_nulls(column, null, marked)
    if source == "text" and missing is None and not marked:
        missing = blank_cells(column)
    while True:
        try:
            if missing is None or not missing.any():
                return typed(column, place)
            kind, values = typed(taken(column, ~missing), _among(place, ~missing))
            if kind == "symbol" and source == "text" and null is None and not marked:
                return typed(column, place)  # empty texts
            return kind, NullableColumn(_spread(values, ~missing), missing)
        except MissingValue:
            found = null_mask(column, source, None, False, nulls=True)
            found = found if missing is None else found | missing
            if not found.any() or (missing is not None and (found == missing).all()):
                raise
            missing = found


def blank_cells(cells: Any) -> Array | None:
    """A mask of the empty cells of a column that seems to hold no texts; None if it has none or
    holds texts. Without these, it is parsed at once."""
    if isinstance(cells, TextColumn):
        return None
    if isinstance(cells, list):
        there = [cell for cell in cells if cell]
        if len(there) == len(cells) or hold_texts(there[:100]):
            return None
        return np.array([not cell for cell in cells], dtype=np.bool_)
    blank = pc.equal(pc.binary_length(cells), 0)
    if not pc.any(blank).as_py() or hold_texts(cells.filter(pc.invert(blank))[:100].to_pylist()):
        return None
    return np.asarray(blank, dtype=np.bool_)


def said_nulls(column: Any, null: str | None, marked: bool) -> Array | None:
    """A mask of the cells of a text file that are the word for nulls, or are `marked` as empty."""
    found: Array | None = None
    if null is not None:
        cells = as_arrow(column) if isinstance(column, TextColumn) else column
        if isinstance(cells, list):
            found = np.array([cell == null for cell in cells], dtype=np.bool_)
        else:
            found = np.asarray(pc.equal(cells, null).fill_null(False), dtype=np.bool_)
    if marked and has_marks(column):
        empty = np.asarray(column.is_null(), dtype=np.bool_)
        found = empty if found is None else found | empty
    return found


def unmarked(cells: Any) -> Any:
    """The cells of a text file, with empty texts in place of marks."""
    return cells.fill_null("") if has_marks(cells) else cells


def has_marks(cells: Any) -> bool:
    return not isinstance(cells, list | TextColumn) and cells.null_count > 0


def check_nullable(column: NullableColumn, kind: TypeName, place: DataPlace) -> None:
    """Raises if a value has the key of a null."""
    if kind in ("int", "timestamp", "duration"):
        odd: Array = (column.values == NULL) & ~column.missing
        if odd.any():
            value = constant_text(kind, NULL)
            message = f"a column with missing values cannot hold {value}: its key is that of a null"
            name = place.column
            hint = f'fill={{"{name}": ...}} or nulls="drop" leaves no nulls'
            raise place.error(int(odd.argmax()), message, hint)


def _among(place: DataPlace, there: Array) -> SomeRows:
    return SomeRows(place.what, place.column, place, np.flatnonzero(there))


def _spread(values: Column, there: Array) -> Array | TextColumn:
    """The values in the rows that are `there`; any valid values elsewhere."""
    if isinstance(values, TextColumn):
        texts = values.texts if len(values.texts) else np.array([""], dtype=object)
        codes = np.zeros(len(there), dtype=np.int32)
        codes[there] = values.codes
        return TextColumn(codes, texts)
    assert isinstance(values, np.ndarray)
    whole: Array = np.zeros(len(there), dtype=values.dtype)
    whole[there] = values
    return whole


def null_mask(
    column: Any, source: str, declared: TypeName | None, filled: bool, nulls: bool = False
) -> Array:
    """A mask of the missing values of a raw column. In a text file these are cells such as `NA`,
    but not in columns of texts; there, empty cells are missing if the column is `filled`.
    `nulls`: of those that are kept as nulls."""
    if source == "text":
        column = unmarked(column)
    if source == "text" and nulls:
        cells = as_arrow(column) if isinstance(column, TextColumn) else column
        if isinstance(cells, list):
            return np.array([not cell.strip() for cell in cells], dtype=np.bool_)
        return np.asarray(pc.equal(pc.utf8_trim_whitespace(cells), ""), dtype=np.bool_)
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
        values = arrow_array(column)
        return np.asarray(pc.is_null(values, nan_is_null=not nulls), dtype=np.bool_)
    if not isinstance(column, np.ndarray | list | tuple) and hasattr(column, "__array__"):
        column = np.asarray(column)
    if isinstance(column, np.ma.MaskedArray):
        return np.ma.getmaskarray(column)
    if isinstance(column, np.ndarray) and column.dtype.kind not in "OTV":
        if nulls and column.dtype.kind not in "Mm":
            return np.zeros(len(column), dtype=np.bool_)
        return np.asarray(column != column)  # NaN and NaT
    nan = (np.datetime64, np.timedelta64) if nulls else _WITH_NAN
    missing = (
        type(value).__name__ in _NAMES or (isinstance(value, nan) and value != value)
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
    if type(column).__module__.startswith("polars"):
        column = arrow_array(column)
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
        masks = []
        for number, (name, at, kind) in enumerate(picked):
            mask = null_mask(raw.columns[at], raw.source, kind, name in options.fill)
            if raw.source == "text":
                said = said_nulls(raw.columns[at], options.null, options.marked(number))
                mask = mask if said is None else mask | said
            masks.append(mask)
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
        typed: Typing,
    ) -> tuple[TypeName, Column]:
        """The typed values of a column in the rows that are kept."""
        filling = place.column in self.options.fill
        there = self.keep & ~self.masks[number] if filling else self.keep
        if not there.all():
            raw_column = taken(raw_column, there)
            place = _among(place, there)
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


def explained(error: DataError, raw: Raw, picked: Picked, options: LoadOptions) -> MissingValue:
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
    typed = {name: kind for name, _, kind in picked if kind is not None}
    first = next((name for name in counts if name in typed), None)
    if first is not None and options.nulls == "keep" and not options.keeps(names.index(first)):
        cures.insert(0, f"declare it {first}: {typed[first]}? to keep nulls")
    if (raw.source, options.nulls, raw.whole, options.null) == ("text", "keep", None, None):
        at, mask = next(
            (at, mask) for (_, at, _), mask in zip(picked, masks, strict=True) if mask.any()
        )
        cells = raw.columns[at]
        cells = as_arrow(cells) if isinstance(cells, TextColumn) else unmarked(cells)
        words = (str(cell) for cell in taken(cells, mask) if str(cell).strip())
        if (word := next(words, None)) is not None:
            cures.insert(0, f'null="{word}" keeps cells with this word as nulls')
    if whole and not options.with_nodes:
        some = ", ".join(f'"{name}"' for name in whole) if len(whole) <= 12 else "..."
        cures.insert(0, f"columns=[{some}] loads the other columns")
    hint, notes = "; ".join(cures), [*error.notes, note]
    return MissingValue(error.message, error.span, hint=hint, notes=notes)
