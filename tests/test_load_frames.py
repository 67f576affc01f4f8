"""Data frames, arrays, rows and graphs become tables, or errors that name row and column."""

from __future__ import annotations

import datetime as dt
import enum
import math
from collections import namedtuple
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from gdatalog.errors import DataError
from gdatalog.storage.export import to_rows
from gdatalog.storage.frames import table_from
from gdatalog.storage.table import DTYPES, Table, Texts


@dataclass
class Decl:
    columns: tuple[str, ...]
    types: tuple[Any, ...]


def decl(**columns: str) -> Decl:
    return Decl(tuple(columns), tuple(columns.values()))


def load(data: Any, **options: Any) -> Table:
    """A table whose columns are as the contract says."""
    table = table_from(data, **options)
    assert len(table.names) == len(table.types) == len(table.columns)
    for kind, column in zip(table.types, table.columns, strict=True):
        assert len(column) == table.length
        if kind == "symbol":
            assert isinstance(column, Texts)
            assert len(set(column.texts)) == len(column.texts)
            assert all(type(text) is str for text in column.texts)
        else:
            assert column.dtype == DTYPES[kind]
    return table


def refused(data: Any, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        table_from(data, **options)
    return str(caught.value)


NOON = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)
NOON_NS = int(NOON.timestamp()) * 1_000_000_000


# ---------------------------------------------------------------- what is taken

FRAME = pd.DataFrame({"src": [1, 2], "name": ["a", "b"]})
TWO = [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    "data",
    [
        FRAME,
        FRAME.convert_dtypes(),
        FRAME.convert_dtypes(dtype_backend="pyarrow"),
        FRAME.astype({"name": object}),
        FRAME.astype({"name": "category"}),
        FRAME.astype({"src": "category"}),
        FRAME.astype({"src": "uint64"}),
        FRAME.astype({"src": "int8"}),
        FRAME.astype({"src": ">i4"}),
        FRAME.astype({"src": pd.SparseDtype("int64")}),
        pl.DataFrame({"src": [1, 2], "name": ["a", "b"]}),
        pl.DataFrame({"src": [1, 2], "name": ["a", "b"]}).lazy(),
        pl.DataFrame(
            {"src": [1, 2], "name": ["a", "b"]}, schema_overrides={"name": pl.Categorical}
        ),
        pa.Table.from_pandas(FRAME),
        pa.table(
            {"src": pa.array([1, 2], pa.uint8()), "name": pa.array(["a", "b"], pa.string_view())}
        ),
        pa.table({"src": [1, 2], "name": pa.array(["a", "b"]).dictionary_encode()}),
        pa.table({"src": pa.chunked_array([[1], [2]]), "name": pa.chunked_array([["a"], ["b"]])}),
        pa.RecordBatch.from_pandas(FRAME),
        pa.Table.from_pandas(FRAME).to_reader(),
        pa.array([{"src": 1, "name": "a"}, {"src": 2, "name": "b"}]),
        pa.chunked_array([[{"src": 1, "name": "a"}], [{"src": 2, "name": "b"}]]),
        np.array(TWO, dtype=[("src", "i4"), ("name", "U1")]),
        np.array(TWO, dtype=[("src", "i8"), ("name", object)]),
        {"src": [1, 2], "name": ["a", "b"]},
        {"src": np.array([1, 2]), "name": pd.Series(["a", "b"])},
        {"src": range(1, 3), "name": (c for c in "ab")},
        [{"src": 1, "name": "a"}, {"name": "b", "src": 2}],
        [namedtuple("Row", "src name")(*row) for row in TWO],
        pd.MultiIndex.from_tuples(TWO, names=["src", "name"]),
    ],
    ids=lambda data: type(data).__name__,
)
def test_two_named_columns(data: Any) -> None:
    table = load(data)
    assert table.names == ("src", "name")
    assert table.types == ("int", "symbol")
    assert to_rows(table) == TWO


@pytest.mark.parametrize(
    "data",
    [
        TWO,
        tuple(TWO),
        iter(TWO),
        [list(row) for row in TWO],
        np.array(TWO, dtype=object)[:, [0, 1]],
        pd.DataFrame(TWO),
    ],
    ids=lambda data: type(data).__name__,
)
def test_two_unnamed_columns(data: Any) -> None:
    table = load(data)
    assert table.names == ("column0", "column1")
    assert to_rows(table) == TWO


@pytest.mark.parametrize(
    "data",
    [
        [1, 2],
        {1, 2},
        range(1, 3),
        np.array([1, 2], dtype="u2"),
        np.array([[1], [2]]),
        pd.Series([1, 2]),
        pd.Index([1, 2]),
        pd.array([1, 2], dtype="Int64"),
        pa.array([1, 2]),
        pa.chunked_array([[1], [2]]),
        pl.Series([1, 2]),
        np.ma.array([1, 2]),
    ],
    ids=lambda data: type(data).__name__,
)
def test_one_column(data: Any) -> None:
    assert to_rows(load(data)) == [(1,), (2,)]


def test_a_series_has_its_name() -> None:
    assert load(pd.Series([1], name="z")).names == ("z",)


def test_texts_are_single_values_not_rows() -> None:
    assert to_rows(load(["ab", "cd"])) == [("ab",), ("cd",)]


def test_subclasses_of_str_become_str() -> None:
    class Color(enum.StrEnum):
        RED = "red"

    class Old(str, enum.Enum):  # noqa: UP042
        BLUE = "blue"

    assert to_rows(load([Color.RED, np.str_("x"), Old.BLUE])) == [("red",), ("x",), ("blue",)]


def test_texts_with_nul_stay_apart() -> None:
    assert to_rows(load(["a\0b", "a\0c"])) == [("a\0b",), ("a\0c",)]


def test_floats_bools_and_numpy_scalars() -> None:
    table = load([(np.float32(1.5), True), (np.float64(2.0), np.False_)])
    assert table.types == ("float", "bool")
    assert to_rows(table) == [(1.5, True), (2.0, False)]


def test_minus_zero_becomes_zero() -> None:
    column = load([-0.0, 1.0]).columns[0]
    assert math.copysign(1, column[0]) == 1
    assert math.copysign(1, load(np.array([-0.0])).columns[0][0]) == 1


def test_infinity_is_a_float() -> None:
    assert to_rows(load([math.inf])) == [(math.inf,)]


def test_python_ints_stand_for_floats() -> None:
    assert to_rows(load([(1,), (2.5,)])) == [(1.0,), (2.5,)]
    assert load([(1,)], declared=decl(w="float")).types == ("float",)


@pytest.mark.parametrize(
    "times",
    [
        [NOON],
        [NOON.replace(tzinfo=None)],
        [NOON.astimezone(dt.timezone(dt.timedelta(hours=5)))],
        [pd.Timestamp(NOON)],
        [np.datetime64("2026-11-20T12")],
        pd.Series([NOON]),
        pd.Series([NOON]).dt.tz_convert("Europe/Berlin"),
        pd.Series([NOON]).dt.tz_localize(None),
        pd.Series([NOON], dtype=object),
        pd.Series([NOON]).astype("timestamp[ms, tz=UTC][pyarrow]"),
        np.array(["2026-11-20T12"], dtype="M8[h]"),
        pa.array([NOON]),
        pa.array([NOON], pa.timestamp("s", "Asia/Tokyo")),
        pl.Series([NOON]),
    ],
    ids=str,
)
def test_times(times: Any) -> None:
    table = load(times)
    assert table.types == ("timestamp",)
    assert table.columns[0].tolist() == [NOON_NS]


def test_nanoseconds_are_kept() -> None:
    moment = pd.Timestamp("2026-11-20T08:30:00.123456789")
    assert load([moment]).columns[0].tolist() == [moment.value]


@pytest.mark.parametrize(
    "days",
    [
        [dt.date(2026, 11, 20)],
        [np.datetime64("2026-11-20")],
        pa.array([dt.date(2026, 11, 20)], pa.date32()),
        pa.array([dt.date(2026, 11, 20)], pa.date64()),
        pd.Series([dt.date(2026, 11, 20)]),
    ],
    ids=str,
)
def test_days_are_midnight(days: Any) -> None:
    assert load(days).columns[0].tolist() == [NOON_NS - 12 * 3600 * 1_000_000_000]


def test_sparse_matrix_gives_its_nonzeros() -> None:
    matrix = sp.coo_matrix(([1.0, 2.0, 0.0], ([0, 1, 1], [1, 2, 0])), shape=(3, 3))
    table = load(matrix)
    assert table.names == ("row", "col")
    assert sorted(to_rows(table)) == [(0, 1), (1, 2)]
    weighted = load(sp.csr_array(matrix), columns=["r", "c", "w"])
    assert sorted(to_rows(weighted)) == [(0, 1, 1.0), (1, 2, 2.0)]


def test_repeated_sparse_entries_are_added() -> None:
    matrix = sp.coo_matrix(([1, 2, 5, -5], ([0, 0, 1, 1], [1, 1, 1, 1])), shape=(2, 2))
    assert to_rows(load(matrix, declared=decl(r="int", c="int", v="int"))) == [(0, 1, 3)]


def test_undirected_graph_gives_both_directions() -> None:
    table = load(nx.path_graph(3))
    assert table.names == ("source", "target")
    assert sorted(to_rows(table)) == [(0, 1), (1, 0), (1, 2), (2, 1)]


def test_directed_graph_gives_its_edges() -> None:
    assert to_rows(load(nx.DiGraph([("a", "b"), ("b", "c")]))) == [("a", "b"), ("b", "c")]


def test_graph_with_weights() -> None:
    graph = nx.DiGraph()
    graph.add_edge(1, 2, weight=2.5)
    declared = decl(s="int", t="int", weight="float")
    assert to_rows(load(graph, declared=declared)) == [(1, 2, 2.5)]
    assert refused(graph, columns=["s", "t", "cost"]) == (
        "data error: data: row 0, column 'cost': a value is missing (None)\n"
        "  hint: drop such rows first, .dropna(), or fill them, .fillna(...)"
    )


def test_a_graph_without_edges_and_an_empty_matrix() -> None:
    declared = decl(s="symbol", t="symbol")
    assert load(nx.Graph(), declared=declared).length == 0
    assert load(sp.csr_array((3, 3)), declared=declared).types == ("symbol", "symbol")


class OnDevice:
    """Looks like a CuPy array."""

    def __init__(self, values: Any) -> None:
        self.values = np.array(values)

    __cuda_array_interface__ = None

    def get(self) -> Any:
        return self.values


def test_arrays_on_a_device() -> None:
    assert to_rows(load(OnDevice([[1, 2]]))) == [(1, 2)]
    assert to_rows(load({"a": OnDevice([1]), "b": OnDevice([2])})) == [(1, 2)]


def test_frames_on_a_device() -> None:
    frame = type("DataFrame", (), {"__module__": "cudf.core", "to_pandas": lambda self: FRAME})
    assert to_rows(load(frame())) == TWO


class ArrowStream:
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return pa.Table.from_pandas(FRAME).__arrow_c_stream__(requested_schema)


class ArrowArray:
    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return pa.RecordBatch.from_pandas(FRAME).__arrow_c_array__(requested_schema)


def test_arrow_interfaces() -> None:
    assert to_rows(load(ArrowStream())) == TWO
    assert to_rows(load(ArrowArray())) == TWO


def test_a_table_is_data() -> None:
    assert to_rows(load(load(FRAME), declared=decl(x="int", y="symbol"))) == TWO


def test_int64_frames_are_not_copied() -> None:
    frame = pd.DataFrame({"a": np.arange(10), "b": np.arange(10)})
    table = load(frame)
    assert np.shares_memory(table.columns[0], frame["a"].to_numpy())


# ---------------------------------------------------------------- empty, and no columns


def test_propositions() -> None:
    assert load([()]).length == 1
    assert load([(), ()]).length == 1
    assert load(True).length == 1
    assert load(False).length == 0
    assert load([], declared=decl()).length == 0
    assert load(pd.DataFrame(index=[1, 2, 3])).length == 1
    assert load(np.empty((2, 0))).columns == ()


@pytest.mark.parametrize(
    ("data", "types"),
    [
        (
            pd.DataFrame({"a": pd.Series(dtype="int64"), "b": pd.Series(dtype=float)}),
            ("int", "float"),
        ),
        (pd.DataFrame(columns=["a", "b"]), ("symbol", "symbol")),
        (
            pa.table({"a": pa.array([], pa.null()), "b": pa.array([], pa.bool_())}),
            ("symbol", "bool"),
        ),
        (pa.table({"a": pa.chunked_array([], pa.string())}), ("symbol",)),
        (np.empty((0, 2), dtype="M8[D]"), ("timestamp", "timestamp")),
        (np.empty(0, dtype="m8[s]"), ("symbol",)),
        (pa.array([], pa.list_(pa.int8())), ("symbol",)),
        (pl.DataFrame(schema={"a": pl.Int8}), ("int",)),
    ],
)
def test_empty_inputs_keep_what_is_known(data: Any, types: tuple[str, ...]) -> None:
    table = load(data)
    assert table.length == 0
    assert table.types == types


@pytest.mark.parametrize(
    "data",
    [[], {}, pd.DataFrame(), np.array([]), np.empty(0, dtype="m8[s]"), pd.Series(dtype=float)],
)
def test_empty_inputs_are_what_was_declared(data: Any) -> None:
    table = load(data, declared=decl(a="timestamp"))
    assert (table.names, table.types, table.length) == (("a",), ("timestamp",), 0)


def test_nothing_at_all() -> None:
    assert load([], columns=["a", "b"]).types == ("symbol", "symbol")
    assert refused([]) == (
        "data error: data: there is no row, so the number of columns is not known\n"
        "  hint: declare the relation, or load a DataFrame whose columns have names and dtypes"
    )


# ---------------------------------------------------------------- names


def test_columns_match_by_name_else_by_position() -> None:
    frame = pd.DataFrame({"b": [1], "a": ["x"], "more": [0.5]})
    assert to_rows(load(frame, declared=decl(a="symbol", b="int"))) == [("x", 1)]
    assert to_rows(load(frame[["b", "a"]], declared=decl(p="int", q="symbol"))) == [(1, "x")]
    assert refused(frame, declared=decl(p="int", q="symbol")) == (
        "data error: data: the relation is declared with 2 columns (p: int, q: symbol), "
        "the data has 3 columns (b, a, more)\n"
        "  hint: columns=[...] selects columns of the data by their names"
    )
    assert refused([(1,)], declared=decl(p="int", q="symbol")) == (
        "data error: data: the relation is declared with 2 columns (p: int, q: symbol), "
        "the data has 1 column"
    )


def test_columns_are_selected_or_named() -> None:
    frame = pd.DataFrame({"b": [1], "a": ["x"], "more": [0.5]})
    assert to_rows(load(frame, columns=["more", "b"])) == [(0.5, 1)]
    assert to_rows(load(frame, columns=["a", "b"], declared=decl(b="symbol", a="int"))) == [
        ("x", 1)
    ]
    assert load([(1, 2)], columns=["x", "y"]).names == ("x", "y")
    assert refused(frame, columns=["q"]) == (
        "data error: data: columns asks for 1 column (q), the data has 3 columns (b, a, more)"
    )
    assert refused([(1, 2)], columns=["q"]) == (
        "data error: data: columns asks for 1 column (q), the data has 2 columns"
    )
    assert refused([(1, 2)], columns=["q", "q"]) == (
        "data error: data: columns names a column twice: 2 columns (q, q)"
    )
    assert refused([(1, 2)], columns="ab") == ("data error: columns is a list of names, found 'ab'")


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]),
    ],
    ids=["pandas", "arrow"],
)
def test_duplicate_names(data: Any) -> None:
    assert refused(data) == (
        "data error: data: several columns are named 'a'\n"
        "  hint: rename them, or give all columns names: columns=[...]"
    )
    assert to_rows(load(data, columns=["x", "y"])) == [(1, 2)]


# ---------------------------------------------------------------- what is refused

MISSING_HINT = "\n  hint: drop such rows first, .dropna(), or fill them, .fillna(...)"


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
    assert refused({"first": [1, 2], "second": values}) == (
        f"data error: data: {message}" + MISSING_HINT
    )


@pytest.mark.parametrize(
    "value", [2**63, -(2**63) - 1, 10**400, np.uint64(2**63)], ids=["2^63", "-2^63-1", "big", "u8"]
)
def test_ints_beyond_64_bits(value: Any) -> None:
    found = refused([(0, 1), (1, value)], what='db["E"]')
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
    assert refused(big) == expected
    assert refused(pa.array(big)) == expected
    assert refused(pd.array(big, dtype="UInt64")) == expected
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
    found = refused(data, declared=decl(w=kind))
    row = len(data) - 1 if isinstance(data, list) else 0
    assert found.startswith(f"data error: data: row {row}, column 'w': {message}\n  hint: ")


def test_declared_otherwise_whole() -> None:
    assert refused(pd.DataFrame({"w": [1]}), declared=decl(w="float")) == (
        "data error: data: row 0, column 'w': expected float, found the int 1\n"
        '  hint: convert the data, .astype("float64"), or declare the column int'
    )


def test_mixed_columns() -> None:
    assert refused([(1, "a"), (2, 3)]) == (
        "data error: data: row 1, column 'column1': found the int 3 where the rows before have "
        "symbol\n"
        "  hint: a column has one type: convert the data, .astype(str) for instance"
    )
    assert refused([1, True]).startswith(
        "data error: data: row 1, column 'column0': found the bool True where the rows before "
        "have int"
    )
    assert refused([2**60 + 1, 0.5]) == (
        "data error: data: row 0, column 'column0': the int 1152921504606846977 is not exact as "
        "a float"
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Decimal(1), "cannot store Decimal('1'), a Decimal"),
        (b"x", "cannot store b'x', a bytes"),
        ({"a": 1}, "cannot store {'a': 1}, a dict"),
        (1j, "cannot store 1j, a complex"),
        (dt.timedelta(1), "cannot store datetime.timedelta(days=1), a timedelta"),
        (np.timedelta64(1, "s"), "cannot store datetime.timedelta(seconds=1), a timedelta64"),
        (dt.time(1), "cannot store datetime.time(1, 0), a time"),
    ],
)
def test_values_that_are_none_of_ours(value: Any, message: str) -> None:
    assert refused([(value,)]) == (
        f"data error: data: row 0, column 'column0': {message}\n"
        "  hint: a value is an int, a float, a string, a bool or a time"
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
            np.array([1], dtype="m8[s]"),
            "cannot store datetime.timedelta(seconds=1), of dtype timedelta64[s]\n"
            "  hint: a duration is not a value: take its seconds, .dt.total_seconds()",
        ),
        (
            pa.array([Decimal(1)]),
            "cannot store Decimal('1'), of Arrow type decimal128(1, 0)\n"
            "  hint: cast the decimals to double, or to int64 if they are whole",
        ),
        (
            pa.array([[1]]),
            "cannot store [1], of Arrow type list<item: int64>\n"
            "  hint: cast the column to int64, double, bool, string or timestamp",
        ),
        (
            np.array(["1500-01-01"], dtype="M8[D]"),
            "the time 1500-01-01 is beyond the years 1678 to 2262\n"
            "  hint: a timestamp counts nanoseconds in 64 bits",
        ),
        (
            [dt.date(1500, 1, 1)],
            "the time 1500-01-01 is beyond the years 1678 to 2262\n"
            "  hint: a timestamp counts nanoseconds in 64 bits",
        ),
        (
            pa.array([10**12], pa.timestamp("s")),
            "the time 33658-09-27T01:46:40 is beyond the years "
            "1678 to 2262\n  hint: a timestamp counts nanoseconds in 64 bits",
        ),
        (["a\ud800"], "'a\\ud800' holds half a surrogate pair"),
    ],
)
def test_columns_that_are_none_of_ours(values: Any, message: str) -> None:
    assert refused(values) == f"data error: data: row 0, column 'column0': {message}"


def test_bytes_that_are_not_text() -> None:
    raw = pa.array([b"\xff"], pa.binary()).view(pa.string())
    assert refused(pa.table({"a": raw})) == (
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
    assert refused(rows) == (
        f"data error: data: {message}\n  hint: all rows of a relation have one length"
    )


def test_uneven_records_and_columns() -> None:
    assert refused([{"a": 1}, {"b": 2}]) == (
        "data error: data: row 1 has the keys 1 column (b), the first 1 column (a)\n"
        "  hint: all records have the same keys"
    )
    assert refused({"a": [1, 2], "b": [1]}) == (
        "data error: data: column 'b' has 1 rows, the first 2\n"
        "  hint: all columns of a relation have one length"
    )
    assert refused({"a": 1}) == (
        "data error: data: a dict holds columns, but 'a' is 1\n"
        "  hint: a single row is a list of one tuple: [(1, ...)]"
    )


@pytest.mark.parametrize("data", [None, 3, 2.5, b"x", object()])
def test_no_data(data: Any) -> None:
    found = refused(data)
    assert found.startswith("data error: data: cannot load ")
    assert found.endswith(
        "\n  hint: load a DataFrame, an Arrow table, an array, a list of tuples, or a file's path"
    )


def test_arrays_of_three_dimensions() -> None:
    assert refused(np.zeros((2, 2, 2))) == (
        "data error: data: an array has one or two dimensions, found 3\n"
        "  hint: an array of two dimensions has a row for each tuple"
    )
    assert refused(np.zeros((1, 1), dtype=[("a", "i4")])) == (
        "data error: data: a structured array has one dimension, found 2"
    )
    assert refused(sp.coo_array(([1], ([0],)), shape=(3,))) == (
        "data error: data: a sparse matrix has two dimensions, found 1"
    )


def test_a_broken_arrow_stream() -> None:
    class Broken:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            raise ValueError("gone")

    assert refused(Broken()) == "data error: data: cannot read the Arrow data: gone"
