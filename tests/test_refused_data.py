"""Data that is refused, each with the row, the column and the value that is wrong."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from loading import decl, load, refused_data

from gdatalog.storage.export import to_rows

NOON = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)


MISSING_HINT = (
    "\n  note: values are missing: `second` in 1 row; 1 of 2 rows would be dropped"
    '\n  hint: columns=["first"] loads the other columns; nulls="drop" drops these rows; '
    'fill={"second": ...} fills them'
)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (pd.Series([1.0, None]), "nan"),
        (pd.Series([1, None], dtype="Int64"), "None"),
        (pd.Series([1.5, None], dtype="Float64"), "None"),
        (pd.Series([True, None], dtype="boolean"), "None"),
        (pd.Series(["a", None], dtype="string"), "None"),
        (pd.Series(["a", None], dtype="str"), "None"),
        (pd.Series(["a", None], dtype="category"), "None"),
        (pd.Series(["a", None], dtype=object), "None"),
        (pd.Series(["a", math.nan], dtype=object), "nan"),
        (pd.Series(["a", pd.NA], dtype=object), "<NA>"),
        (pd.Series([NOON, None]), "None"),
        (pd.Series([NOON.replace(tzinfo=None), None]), "None"),
        (pd.Series([1, None], dtype="int64[pyarrow]"), "None"),
        (pd.Series([1.0, math.nan], dtype="double[pyarrow]"), "None"),
        ([1, None], "None"),
        ([1.5, math.nan], "nan"),
        ([True, None], "None"),
        ([NOON, pd.NaT], "NaT"),
        (np.array([0, math.nan]), "nan"),
        (np.ma.array([1, 2], mask=[False, True]), "masked"),
        (pa.array([1, None]), "None"),
        (pa.array([1.5, math.nan]), "nan"),
        (pa.DictionaryArray.from_arrays([0, 1], ["a", None]), "None"),
        (pl.Series([1, None]), "None"),
    ],
    ids=str,
)
def test_missing_values(values: Any, shown: str) -> None:
    message = f"row 1, column 'second': a value is missing ({shown})"
    assert refused_data({"first": [1, 2], "second": values}, nulls="error") == (
        f"data error: data: {message}" + MISSING_HINT
    )


@pytest.mark.parametrize(
    "value", [2**63, -(2**63) - 1, 10**400, np.uint64(2**63)], ids=["2^63", "-2^63-1", "big", "u8"]
)
def test_ints_beyond_64_bits(value: Any) -> None:
    found = refused_data([(0, 1), (1, value)], what='db["E"]')
    assert found.startswith("data error: db[\"E\"]: row 1, column 'column1': ")
    assert found.endswith(
        " does not fit into 64 bits\n"
        "  hint: convert the column to text if it is an identifier, to float if it is a quantity"
    )


def test_unsigned_arrays_beyond_63_bits() -> None:
    big = np.array([1, 2**63], dtype="u8")
    expected = (
        "data error: data: row 1, column 'column0': 9223372036854775808 does not fit into 64 bits\n"
        "  hint: convert the column to text if it is an identifier, to float if it is a quantity"
    )
    assert refused_data(big) == expected
    assert refused_data(pa.array(big)) == expected
    assert refused_data(pd.array(big, dtype="UInt64")) == expected
    assert to_rows(load(np.array([2**63 - 1], dtype="u8"))) == [(2**63 - 1,)]


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        (pd.Series([1.0, 2.0]), "int", "expected int, found the float 1.0"),
        (pd.Series([1, 2]), "float", "expected float, found the int 1"),
        (pd.Series([1, 2]), "symbol", "expected symbol, found the int 1"),
        (pd.Series(["x"]), "int", "expected int, found the symbol 'x'"),
        (pd.Series([1]), "bool", "expected bool, found the int 1"),
        (
            pd.Series(["2026-11-20"]),
            "timestamp",
            "expected timestamp, found the symbol '2026-11-20'",
        ),
        ([1, True], "int", "expected int, found the bool True"),
        ([0.5], "int", "expected int, found the float 0.5"),
        ([1, "abc"], "int", "expected int, found the symbol 'abc'"),
    ],
)
def test_declared_otherwise(data: Any, kind: str, message: str) -> None:
    found = refused_data(data, declared=decl(w=kind))
    row = len(data) - 1 if isinstance(data, list) else 0
    assert found.startswith(f"data error: data: row {row}, column 'w': {message}\n  hint: ")


def test_declared_otherwise_whole() -> None:
    assert refused_data(pd.DataFrame({"w": [1]}), declared=decl(w="float")) == (
        "data error: data: row 0, column 'w': expected float, found the int 1\n"
        '  hint: convert the data, .astype("float64"), or declare the column int'
    )


def test_mixed_columns() -> None:
    assert refused_data([(1, "a"), (2, 3)]) == (
        "data error: data: row 1, column 'column1': found the int 3 where the rows before have "
        "symbol\n"
        "  hint: a column has one type: convert the data, .astype(str) for instance"
    )
    assert refused_data([1, True]).startswith(
        "data error: data: row 1, column 'column0': found the bool True where the rows before "
        "have int"
    )
    assert refused_data([2**60 + 1, 0.5]) == (
        "data error: data: row 0, column 'column0': the int 1152921504606846977 is not exact as "
        "a float"
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"x", "cannot store b'x', a bytes"),
        ({"a": 1}, "cannot store {'a': 1}, a dict"),
        (1j, "cannot store 1j, a complex"),
    ],
)
def test_values_that_are_none_of_ours(value: Any, message: str) -> None:
    assert refused_data([(value,)]) == (
        f"data error: data: row 0, column 'column0': {message}\n"
        "  hint: a value is an int, a float, a decimal, a string, a bool, a time or a duration"
    )
    assert refused_data([(dt.time(1),)]) == (
        "data error: data: row 0, column 'column0': cannot store datetime.time(1, 0), a time\n"
        "  hint: a time of day can be a duration since midnight, a datetime.timedelta"
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            np.array([b"x"]),
            "cannot store b'x', of dtype |S1\n"
            "  hint: decode the bytes first, numpy.char.decode(values)",
        ),
        (
            np.array([1j]),
            "cannot store 1j, of dtype complex128\n"
            "  hint: store the real and the imaginary part as two columns of floats",
        ),
        (
            pa.array([Decimal("1e17"), Decimal("1.5")]),
            "Decimal('100000000000000000.0') has more than 18 digits, 1 of them after the point\n"
            "  hint: convert the column to float if it is a quantity, "
            "to text if it is an identifier",
        ),
        (
            pa.array([[1]]),
            "cannot store [1], of Arrow type list<item: int64>\n"
            "  hint: a relation has plain values: a column for each field, a row for each element",
        ),
        (
            pa.array([dt.time(1)]),
            "cannot store datetime.time(1, 0), of Arrow type time64[us]\n  hint: a time of day can "
            "be a duration since midnight: cast it to int64 and duration",
        ),
        (
            pa.array([b"x"]),
            "cannot store b'x', of Arrow type binary\n"
            "  hint: cast the column to int64, double, bool, string, timestamp, date or duration",
        ),
        (
            np.array(["1500-01-01"], dtype="M8[s]"),
            "the time 1500-01-01T00:00:00 is beyond the years 1678 to 2262\n"
            "  hint: a timestamp counts nanoseconds in 64 bits",
        ),
        (
            [dt.datetime(1500, 1, 1)],
            "the time 1500-01-01 00:00:00 is beyond the years 1678 to 2262\n"
            "  hint: a timestamp counts nanoseconds in 64 bits",
        ),
        (
            pa.array([10**12], pa.timestamp("s")),
            "the time 33658-09-27T01:46:40 is beyond the years "
            "1678 to 2262\n  hint: a timestamp counts nanoseconds in 64 bits",
        ),
        (np.array(["0000-12-31"], dtype="M8[D]"), "a date is beyond the years 1 to 9999"),
        (
            np.array([2**62], dtype="m8[s]"),
            "the duration 4611686018427387904 seconds is beyond 292 years\n"
            "  hint: a duration counts nanoseconds in 64 bits",
        ),
        (["a\ud800"], "'a\\ud800' holds half a surrogate pair"),
    ],
)
def test_columns_that_are_none_of_ours(values: Any, message: str) -> None:
    assert refused_data(values) == f"data error: data: row 0, column 'column0': {message}"


def test_bytes_that_are_not_text() -> None:
    raw = pa.array([b"\xff"], pa.binary()).view(pa.string())
    assert refused_data(pa.table({"a": raw})) == (
        "data error: data: column 'a': a text is not valid UTF-8"
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(1, 2), (3,)], "row 1 is (3,), the first has 2 columns"),
        ([(1, 2), 3], "row 1 is 3, the first has 2 columns"),
        ([1, (2, 3)], "row 1 is (2, 3), the first is a single value"),
        ([{"a": 1}, 2], "row 1 is 2, the first has a record"),
    ],
)
def test_uneven_rows(rows: Any, message: str) -> None:
    assert refused_data(rows) == (
        f"data error: data: {message}\n  hint: all rows of a relation have one length"
    )


def test_uneven_records_and_columns() -> None:
    assert refused_data([{"a": 1}, {"b": 2}]) == (
        "data error: data: row 1 has the keys 'b', the first has 'a'\n"
        "  hint: all records have the same keys"
    )
    assert refused_data({"a": [1, 2], "b": [1]}) == (
        "data error: data: column 'b' has 1 rows, the first 2\n"
        "  hint: all columns of a relation have one length"
    )
    assert refused_data({"a": np.float64(1)}).startswith(
        "data error: data: a dict holds columns, but 'a' is 1.0\n"
    )
    assert refused_data({"a": np.zeros((1, 2))}) == (
        "data error: data: column 'a' is an array of 2 dimensions\n"
        "  hint: a column has one value a row"
    )
    assert refused_data({"a": 1}) == (
        "data error: data: a dict holds columns, but 'a' is 1\n"
        "  hint: a single row is a list of one tuple: [(1, ...)]"
    )


@pytest.mark.parametrize("data", [None, 3, 2.5, b"x", object()])
def test_no_data(data: Any) -> None:
    found = refused_data(data)
    assert found.startswith("data error: data: cannot load ")
    assert found.endswith(
        "\n  hint: load a DataFrame, an Arrow table, an array, a list of tuples, or a file's path"
    )


def test_arrays_of_three_dimensions() -> None:
    assert refused_data(np.zeros((2, 2, 2))) == (
        "data error: data: an array has one or two dimensions, found 3\n"
        "  hint: an array of two dimensions has a row for each tuple"
    )
    assert refused_data(np.zeros((1, 1), dtype=[("a", "i4")])) == (
        "data error: data: a structured array has one dimension, found 2"
    )
    assert refused_data(sp.coo_array(([1], ([0],)), shape=(3,))) == (
        "data error: data: a sparse matrix has two dimensions, found 1"
    )


def test_a_broken_arrow_stream() -> None:
    class Broken:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            raise ValueError("gone")

    assert refused_data(Broken()) == "data error: data: cannot read the Arrow data: gone"
