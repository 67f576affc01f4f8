"""Tables go out with dtypes that follow from the types alone, and come back as they were."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loading import Decl

import gdatalog as gd
from gdatalog import result
from gdatalog.storage.export import (
    arrow_stream,
    python_values,
    to_arrow,
    to_numpy,
    to_pandas,
    to_polars,
    to_rows,
)
from gdatalog.storage.frames import table_from
from gdatalog.storage.load_options import LoadOptions
from gdatalog.storage.table import Table, TextColumn

TYPES = ("int", "float", "symbol", "bool", "timestamp")


def sample() -> Table:
    return Table(
        ("i", "f", "s", "b", "t"),
        TYPES,
        (
            np.array([1, -(2**63)]),
            np.array([0.5, np.inf]),
            TextColumn(
                np.array([2, 0], dtype=np.int32), np.array(["", "unused", "é"], dtype=object)
            ),
            np.array([True, False]),
            np.array([0, 1]),
        ),
        2,
    )


def empty() -> Table:
    return sample().take(np.array([], dtype=np.int64))


@pytest.mark.parametrize("table", [sample(), empty()], ids=["rows", "empty"])
def test_dtypes_are_fixed(table: Table) -> None:
    frame = to_pandas(table)
    assert [str(dtype) for dtype in frame.dtypes] == [
        "int64",
        "float64",
        "str" if int(pd.__version__.split(".")[0]) >= 3 else "string",
        "bool",
        "datetime64[ns, UTC]",
    ]
    assert list(frame.columns) == ["i", "f", "s", "b", "t"]
    assert to_arrow(table).schema.types == [
        pa.int64(),
        pa.float64(),
        pa.string(),
        pa.bool_(),
        pa.timestamp("ns", "UTC"),
    ]
    assert list(to_polars(table).schema.values()) == [
        pl.Int64,
        pl.Float64,
        pl.String,
        pl.Boolean,
        pl.Datetime("ns", "UTC"),
    ]
    assert [to_numpy(table).dtype[i] for i in range(5)] == [
        np.dtype(np.int64),
        np.dtype(np.float64),
        np.dtype(object),
        np.dtype(bool),
        np.dtype("M8[ns]"),
    ]
    assert len(frame) == len(to_arrow(table)) == len(to_polars(table)) == table.length
    assert len(to_numpy(table)) == len(to_rows(table)) == table.length


def test_values() -> None:
    moments = [pd.Timestamp(0, tz="UTC"), pd.Timestamp(1, tz="UTC")]
    expected = [(1, 0.5, "é", True, moments[0]), (-(2**63), np.inf, "", False, moments[1])]
    assert to_rows(sample()) == expected
    assert [type(value) for value in to_rows(sample())[0]] == [int, float, str, bool, pd.Timestamp]
    assert list(to_pandas(sample()).itertuples(index=False, name=None)) == expected
    assert [tuple(row.values()) for row in to_arrow(sample()).to_pylist()] == expected
    assert to_polars(sample()).drop("t").rows() == [row[:4] for row in expected]
    assert to_numpy(sample())["s"].tolist() == ["é", ""]
    assert to_numpy(sample())["t"][1] == np.datetime64(1, "ns")
    assert python_values("symbol", sample().columns[2]) == ["é", ""]


@pytest.mark.parametrize("length", [0, 1])
def test_tables_without_columns(length: int) -> None:
    table = Table((), (), (), length)
    assert to_rows(table) == [()] * length
    assert to_pandas(table).shape == (length, 0)
    assert (to_arrow(table).num_rows, to_arrow(table).num_columns) == (length, 0)
    assert to_polars(table).width == 0
    assert to_numpy(table).shape == (length,)


def test_a_data_frame_owns_its_values() -> None:
    table = sample()
    frame = to_pandas(table)
    for name, value in {"i": 7, "f": 7.0, "b": False, "t": pd.Timestamp(9, tz="UTC")}.items():
        frame.loc[0, name] = value
    assert to_rows(table) == to_rows(sample())


def test_arrow_stream_interface() -> None:
    class Result:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return arrow_stream(sample(), [sample()], requested_schema)

    assert pa.table(Result()).equals(to_arrow(sample()))
    assert pl.DataFrame(Result()).height == 2


def test_long_texts_come_in_chunks() -> None:
    """No chunk of an Arrow string array may pass 2 GiB."""
    from gdatalog.storage.export import _taken

    texts = pa.array(["x" * (1 << 20), "y"])
    taken = _taken(texts, np.array([1] * 3000), np.array([0, 1 << 20, (1 << 20) + 1]))
    assert isinstance(taken, pa.ChunkedArray)
    assert [len(chunk) for chunk in taken.chunks] == [2047, 953]
    assert taken.to_pylist() == ["y"] * 3000


def test_importing_needs_no_data_frame_library() -> None:
    modules = "frames, readers, writers, export"
    code = (
        f"import sys; from gdatalog.storage import {modules}; "
        "print([m for m in ('pandas', 'pyarrow', 'polars') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


COLUMNS = {
    "int": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(allow_nan=False).map(lambda x: x + 0.0),
    "symbol": st.text(max_size=5),
    "bool": st.booleans(),
    "timestamp": st.integers(-(2**63) + 1, 2**63 - 1).map(lambda ns: pd.Timestamp(ns, tz="UTC")),
}


@st.composite
def tables(draw: st.DrawFn) -> Table:
    kinds = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
    length = draw(st.integers(0, 5))
    data = {
        f"c{i}": draw(st.lists(COLUMNS[kind], min_size=length, max_size=length))
        for i, kind in enumerate(kinds)
    }
    return table_from(data, LoadOptions(declared=Decl(tuple(data), tuple(kinds))))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(tables())
def test_round_trips(table: Table) -> None:
    rows = to_rows(table)
    for convert in (to_pandas, to_arrow, to_polars, to_numpy):
        again = table_from(convert(table))
        assert again.names == table.names
        if table.length or convert is not to_numpy:
            assert again.types == table.types
        assert to_rows(again) == (naive_rows(rows) if convert is to_numpy else rows)


def naive_rows(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows as NumPy has them, whose times have no zone."""
    return [
        tuple(cell.tz_localize(None) if isinstance(cell, pd.Timestamp) else cell for cell in row)
        for row in rows
    ]


def test_a_stream_decodes_rows_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result, "BATCH", 4)
    rows = [(x, x / 2, f"t{x % 3}", x % 2 == 0) for x in range(11)]
    with gd.connect(device="cpu") as db:
        db["E"] = rows
        answer = db.query("p(a, b, c, d) <- E(a, b, c, d).")
        none = db.query("p(a, c) <- E(a, _, c, _), a > 99.")
    decoded: list[int] = []
    table = result.Result.table
    monkeypatch.setattr(
        result.Result, "table", lambda self, *room: decoded.append(len(self)) or table(self, *room)
    )
    reader = pa.RecordBatchReader.from_stream(answer)
    assert decoded == [0] and reader.schema == answer.to_arrow().schema
    first = reader.read_next_batch()
    assert first.num_rows == 4 and decoded[2:] == [4]
    rest = reader.read_all()
    found = pa.Table.from_batches([first, *rest.to_batches()])
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == rows
    empty = pa.table(none)
    assert empty.num_rows == 0 and empty.schema.names == ["a", "c"]
