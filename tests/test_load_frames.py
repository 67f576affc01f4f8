"""Data frames, arrays, rows and graphs become tables.

Long, for there are many kinds of data and each has its lines.
"""

from __future__ import annotations

import datetime as dt
import enum
import math
from collections import namedtuple
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from loading import decl, load, refused_data

import gdatalog as gd
from gdatalog.storage.export import to_rows

NOON = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)
NOON_NS = int(NOON.timestamp()) * 1_000_000_000


# ---------------------------------------------------------------- what is taken

FRAME = pd.DataFrame({"src": [1, 2], "name": ["a", "b"]})
TWO = [(1, "a"), (2, "b")]
STRUCT = pa.struct([("src", pa.int64()), ("name", pa.string())])


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
        pa.array([{"src": 1, "name": "a"}, {"src": 2, "name": "b"}], STRUCT),
        pa.chunked_array([[{"src": 1, "name": "a"}], [{"src": 2, "name": "b"}]], STRUCT),
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
        np.array(["2026-11-20"], dtype="M8[D]"),
        pa.array([dt.date(2026, 11, 20)], pa.date32()),
        pa.array([dt.date(2026, 11, 20)], pa.date64()),
        pd.Series([dt.date(2026, 11, 20)]),
    ],
    ids=str,
)
def test_days_are_dates_or_midnights(days: Any) -> None:
    table = load(days)
    assert table.types == ("date",) and to_rows(table) == [(dt.date(2026, 11, 20),)]
    (column,) = load(days, declared=decl(t="timestamp")).columns
    assert column.tolist() == [NOON_NS - 12 * 3600 * 1_000_000_000]


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
    assert refused_data(graph, columns=["s", "t", "cost"], nulls="error") == (
        "data error: data: row 0, column 'cost': a value is missing (None)\n"
        "  note: values are missing: `cost` in 1 row; 1 of 1 row would be dropped\n"
        '  hint: columns=["s", "t"] loads the other columns; nulls="drop" drops these rows; '
        'fill={"cost": ...} fills them'
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
        (np.empty((0, 2), dtype="M8[D]"), ("date", "date")),
        (np.empty(0, dtype="m8[s]"), ("duration",)),
        (pa.array([], pa.list_(pa.int8())), ("symbol",)),
        (pl.DataFrame(schema={"a": pl.Int8}), ("int",)),
        (pa.chunked_array([], STRUCT), ("int", "symbol")),
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
    assert refused_data([]) == (
        "data error: data: there is no row, so the number of columns is not known\n"
        "  hint: declare the relation, or load a DataFrame whose columns have names and dtypes"
    )


# ---------------------------------------------------------------- names


def test_columns_match_by_name_else_by_position() -> None:
    frame = pd.DataFrame({"b": [1], "a": ["x"], "more": [0.5]})
    assert to_rows(load(frame, declared=decl(a="symbol", b="int"))) == [("x", 1)]
    assert to_rows(load(frame[["b", "a"]], declared=decl(p="int", q="symbol"))) == [(1, "x")]
    assert refused_data(frame, declared=decl(p="int", q="symbol")) == (
        "data error: data: the relation has 2 columns (p: int, q: symbol), "
        "the data has 3 columns (b, a, more)\n"
        "  hint: columns=[...] says which columns of the data are meant, in their order"
    )
    assert refused_data([(1,)], declared=decl(p="int", q="symbol")) == (
        "data error: data: the relation has 2 columns (p: int, q: symbol), the data has 1 column"
    )


def test_a_column_without_a_name_has_that_of_its_position() -> None:
    for names in ((None, "b"), ("A", None), (None, None)):
        frame = pd.DataFrame([(1, 2)])
        frame.columns = pd.Index(names, dtype=object)
        table = load(frame, declared=decl(a="int", b="int"))
        assert (table.names, to_rows(table)) == (("a", "b"), [(1, 2)])
    frame.columns = pd.Index([None, "b"], dtype=object)
    assert load(frame).names == ("column0", "b")
    assert to_rows(load(frame, declared=decl(b="int"))) == [(2,)]
    assert "the data has 2 columns (column0, b); only some names are the same" in refused_data(
        frame, declared=decl(b="int", a="int")
    )


def test_columns_of_which_some_have_the_names() -> None:
    frame = pd.DataFrame({"dst": [1], "sorce": [2]})
    edge = decl(src="int", dst="int")
    for data in (frame, pa.Table.from_pandas(frame), {"dst": [1], "sorce": [2]},
                 [{"dst": 1, "sorce": 2}], frame.assign(w=1)):  # fmt: skip
        told = refused_data(data, declared=edge)
        assert "the relation has 2 columns (src: int, dst: int), the data has" in told
        assert "columns (dst, sorce" in told and "only some names are the same" in told
        assert "hint: there is no column 'src': did you mean 'sorce'?" in told
    assert to_rows(load(frame, columns=["sorce", "dst"], declared=edge)) == [(2, 1)]
    assert "only some names" in refused_data(frame, columns=["dst", "sorce"], declared=edge)
    assert to_rows(load(frame.rename(columns={"sorce": "SRC"}), declared=edge)) == [(2, 1)]
    assert to_rows(load(frame, columns=["dst", "sorce"], declared=decl(x="int", y="int"))) == [
        (1, 2)
    ]
    mixed = pd.DataFrame({"src": [1], "SRC": [2]})
    assert "only some names" in refused_data(mixed, declared=edge)
    graph = nx.DiGraph([(1, 2)])
    assert to_rows(load(graph, declared=decl(target="int", x="int"))) == [(1, 2)]
    assert to_rows(load(graph, declared=decl(target="int", source="int"))) == [(2, 1)]
    matrix = sp.coo_matrix(([5], ([1], [2])))
    assert to_rows(load(matrix, declared=decl(col="int", x="int"))) == [(1, 2)]


def test_columns_are_selected_or_named() -> None:
    frame = pd.DataFrame({"b": [1], "a": ["x"], "more": [0.5]})
    assert to_rows(load(frame, columns=["more", "b"])) == [(0.5, 1)]
    assert to_rows(load(frame, columns=["a", "b"], declared=decl(p="symbol", q="int"))) == [
        ("x", 1)
    ]
    assert to_rows(load(frame, columns=["a", "b"], declared=decl(b="int", a="symbol"))) == [
        (1, "x")
    ]
    assert load([(1, 2)], columns=["x", "y"]).names == ("x", "y")
    assert refused_data(frame, columns=["q"]) == (
        "data error: data: columns asks for 1 column (q), the data has 3 columns (b, a, more)"
    )
    assert refused_data([(1, 2)], columns=["q"]) == (
        "data error: data: columns asks for 1 column (q), the data has 2 columns"
    )
    assert refused_data([(1, 2)], columns=["q", "q"]) == (
        "data error: data: columns names a column twice: 2 columns (q, q)"
    )
    assert to_rows(load([(1, 2)], columns=["column1", "column0"])) == [(2, 1)]
    assert load([(1, 2)], columns=["column1", "x"]).names == ("column1", "x")


@pytest.mark.parametrize("columns", ["ab", [None], ["a", 1], 7])
def test_columns_are_names(columns: Any) -> None:
    with gd.connect(device="cpu") as db, pytest.raises(gd.UsageError) as caught:
        db.load("E", pd.DataFrame({"a": [1], "b": [2]}), columns=columns)
    assert caught.value.message == f"columns is a list of names, found {columns!r}"


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]),
    ],
    ids=["pandas", "arrow"],
)
def test_duplicate_names(data: Any) -> None:
    assert refused_data(data) == (
        "data error: data: several columns are named 'a'\n"
        "  hint: rename them, or give all columns names: columns=[...]; "
        "a named index of a pandas frame is a column, too"
    )
    assert to_rows(load(data, columns=["x", "y"])) == [(1, 2)]
