"""Places in data that errors name: files, lines and rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import time
from typing import TYPE_CHECKING, Any

from gdatalog.decimals import DIGITS, scale_of
from gdatalog.errors import DataError
from gdatalog.records import dataclass
from gdatalog.values import TypeName

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CURES: dict[TypeName, str] = {
    "int": 'convert the data, .astype("int64")',
    "float": 'convert the data, .astype("float64")',
    "symbol": "convert the data, .astype(str)",
    "bool": "convert the data, .astype(bool)",
    "timestamp": "convert the data, pandas.to_datetime(...)",
    "date": "convert the data, .dt.date",
    "duration": "convert the data, pandas.to_timedelta(...)",
}


class MissingValue(DataError):
    """A missing value. `frames.explained` adds hints, which depend on the other columns."""

    @staticmethod
    def of(error: DataError) -> MissingValue:
        return MissingValue(error.message, error.span, hint=error.hint, notes=error.notes)


@dataclass(frozen=True, slots=True)
class DataPlace:
    """A column of some data, as errors name it."""

    what: str
    column: str

    def where(self, row: int) -> str:
        return f"{self.what}: row {row}, column {self.column!r}"

    def error(self, row: int, message: str, hint: str | None = None) -> DataError:
        return DataError(f"{self.where(row)}: {message}", hint=hint)

    def missing(self, row: int, found: object) -> MissingValue:
        return MissingValue.of(self.error(row, f"a value is missing ({shown(found)})"))

    def mismatch(self, row: int, declared: TypeName, found: object, kind: str) -> DataError:
        hint = f"{self.cure(declared)}, or declare the column {kind}"
        return self.error(row, f"expected {declared}, found the {kind} {shown(found)}", hint)

    def cure(self, declared: TypeName) -> str:
        """How users convert values to a declared type."""
        if scale_of(declared):
            dtype = f"pyarrow.decimal128({DIGITS}, {scale_of(declared)})"
            return f"convert the data, .astype(pandas.ArrowDtype({dtype}))"
        return _CURES[declared]

    def too_big(self, row: int, found: object) -> DataError:
        hint = "convert the column to text if it is an identifier, to float if it is a quantity"
        return self.error(row, f"{shown(found)} does not fit into 64 bits", hint)

    def not_a_value(self, row: int, found: object) -> DataError:
        hint = "a value is an int, a float, a decimal, a string, a bool, a time or a duration"
        if type(found) is time:
            hint = "a time of day can be a duration since midnight, a datetime.timedelta"
        return self.error(row, f"cannot store {shown(found)}, a {type(found).__name__}", hint)


@dataclass(frozen=True, slots=True)
class FilePlace(DataPlace):
    """A column of a file."""

    def cure(self, declared: TypeName) -> str:
        return "correct the file"


@dataclass(frozen=True, slots=True)
class SomeRows(DataPlace):
    """Some rows of a column. Errors count rows as the `whole` column does."""

    whole: DataPlace
    rows: Sequence[int] | NDArray[Any]

    def where(self, row: int) -> str:
        return self.whole.where(int(self.rows[row]))

    def error(self, row: int, message: str, hint: str | None = None) -> DataError:
        return self.whole.error(int(self.rows[row]), message, hint)

    def cure(self, declared: TypeName) -> str:
        return self.whole.cure(declared)


def shown(value: object, width: int = 60) -> str:
    """A value as errors show it."""
    import numpy as np

    if isinstance(value, np.generic):
        value = value.item()
    elif hasattr(value, "as_py"):  # Arrow's scalars
        value = value.as_py()
    text = repr(value)
    return text if len(text) <= width else text[: width - 3] + "..."
