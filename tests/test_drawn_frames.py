"""Drawn pandas frames: columns of any dtype, indexes of any kind, nulls and duplicates.

What a frame holds is known as plain Python values before pandas gets them: those are what a
relation has to hold, whatever pandas made of them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gdatalog as gd
from tests.cases import cases

pytestmark = pytest.mark.filterwarnings("ignore")

EPOCH = dt.datetime(1970, 1, 1)
# The values of each type that every one of its dtypes can hold.
VALUES: dict[str, list[Any]] = {
    "int": [0, 1, 2, 7, 100, 127],
    "float": [0.0, -1.5, 2.25, 1e6, float("inf")],
    "symbol": ["", "a", "b c", "ä", "1", "true", "\u202e"],
    "bool": [False, True],
    "timestamp": [EPOCH, dt.datetime(2024, 2, 29, 12, 30, 1), dt.datetime(1969, 12, 31, 23)],
}
DTYPES: dict[str, list[Any]] = {
    "int": [
        "int8", "int16", "int32", "int64", "uint8", "uint64", ">i4", "Int64", "UInt8",
        "int64[pyarrow]", object, "category", pd.SparseDtype("int64", 0),
    ],
    "float": ["float32", "float64", "Float64", "double[pyarrow]", object, "category", ">f8"],
    "symbol": [object, "string", "string[pyarrow]", "category", "large_string[pyarrow]"],
    "bool": ["bool", "boolean", "bool[pyarrow]", object, "category"],
    "timestamp": [
        "datetime64[ns]", "datetime64[us]", "datetime64[s]", "datetime64[ns, UTC]", object,
        "timestamp[us][pyarrow]", "category", "zoned",
    ],
}  # fmt: skip
# Those that know a null from a value.
WITH_NULLS = {
    "Int64", "UInt8", "int64[pyarrow]", "Float64", "double[pyarrow]", "string", "string[pyarrow]",
    "large_string[pyarrow]", "boolean", "bool[pyarrow]", "timestamp[us][pyarrow]",
    "datetime64[ns]", "datetime64[ns, UTC]", "zoned",
}  # fmt: skip
INDEXES = ("none", "range", "unnamed", "named", "twice", "levels", "one of two named")


def column(random: Random, values: Sequence[Any], kind: str, dtype: Any) -> Any:
    if kind == "timestamp" and dtype != "category":
        times = pd.Series(list(values), dtype="datetime64[ns]")
        if dtype == "zoned":
            return times.dt.tz_localize("UTC").dt.tz_convert("Asia/Kolkata").array
        if dtype is object:
            return pd.array(np.array(list(values), dtype=object), dtype=object)
        if dtype == "datetime64[ns, UTC]":
            return times.dt.tz_localize("UTC").array
        return times.astype(dtype).array
    if dtype is object:
        made = np.empty(len(values), dtype=object)
        made[:] = values
        return made
    return pd.Series(list(values), dtype=None if dtype == "category" else dtype).astype(dtype).array


def drawn_column(random: Random, rows: int, nulls: bool) -> tuple[list[Any], Any]:
    """Plain values, and what pandas holds of them."""
    kind = random.choice(sorted(VALUES))
    dtype = random.choice(DTYPES[kind])
    values = random.choices(VALUES[kind], k=rows)
    if nulls and dtype in WITH_NULLS and random.random() < 0.3:
        values = [None if random.random() < 0.2 else value for value in values]
    if dtype == "category" and not values:
        dtype = DTYPES[kind][0]
    return values, column(random, values, kind, dtype)


def drawn_frame(seed: int, nulls: bool) -> tuple[pd.DataFrame, list[tuple[Any, ...]], list[str]]:
    """A frame, the rows that a relation has of it, and the names of its columns."""
    random = Random(seed)
    rows = random.choice((0, 1, 2, 5, 30))
    names = random.sample(["a", "b", "c", "index", "ä b", "level_0x"], random.randint(1, 4))
    plain, held = zip(*(drawn_column(random, rows, nulls) for _ in names), strict=True)
    frame = pd.DataFrame(dict(zip(names, held, strict=True)))
    if not rows:  # what holds nothing has no type to check
        frame = pd.DataFrame({name: np.empty(0, dtype="int64") for name in names})
    index = random.choice(INDEXES)
    levels: list[tuple[str, list[Any]]] = []
    if index == "range":
        frame.index = pd.RangeIndex(3, 3 + 2 * rows, 2)
    elif index == "unnamed":
        frame.index = pd.Index([f"r{at}" for at in range(rows)])
    elif index in ("named", "twice"):
        values = [at // 2 if index == "twice" else at for at in range(rows)]
        frame.index = pd.Index(values, name="key", dtype="int64")
        levels = [("key", values)]
    elif rows and index != "none":
        first, second = [at % 3 for at in range(rows)], [f"s{at % 5}" for at in range(rows)]
        named = ["key", "text"] if index == "levels" else [None, "text"]
        frame.index = pd.MultiIndex.from_arrays([first, second], names=named)
        levels = [(named[0] or "level_0", first), ("text", second)]
    columns = [values for _, values in levels] + list(plain)
    return frame, list(zip(*columns, strict=True)), [name for name, _ in levels] + names


def as_python(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    return value


@settings(max_examples=cases(120))
@given(st.integers(0, 10**9))
def test_a_relation_holds_the_rows_of_a_frame(seed: int) -> None:
    frame, rows, names = drawn_frame(seed, nulls=False)
    with gd.connect(device="cpu") as db:
        db["t"] = frame
        assert list(db["t"].columns) == names
        assert {tuple(map(as_python, row)) for row in db["t"]} == set(rows)
        db["again"] = db["t"].df()
        assert set(db["again"]) == set(db["t"])
        db.insert("t", frame)
        assert len(db["t"]) == len(set(rows))


@settings(max_examples=cases(120))
@given(st.integers(0, 10**9))
def test_nulls_are_kept_refused_or_dropped(seed: int) -> None:
    frame, rows, _ = drawn_frame(seed, nulls=True)
    whole = {row for row in rows if None not in row}
    with gd.connect(device="cpu") as db:
        if any(None in row for row in rows):
            with pytest.raises(gd.DataError, match=r"nulls=|null|missing"):
                db.load("t", frame, nulls="error")
            assert "t" not in db.relations
        db["t"] = frame
        assert {tuple(map(as_python, row)) for row in db["t"]} == set(rows)
        db.load("t", frame, nulls="drop")
        assert {tuple(map(as_python, row)) for row in db["t"]} == whole


@settings(max_examples=cases(60))
@given(st.integers(0, 10**9))
def test_row_numbers_keep_duplicates(seed: int) -> None:
    frame, rows, _ = drawn_frame(seed, nulls=False)
    with gd.connect(device="cpu") as db:
        db.load("t", frame, row_id="row")
        found = sorted(db["t"])
    assert [tuple(map(as_python, row[1:])) for row in found] == rows
    assert [row[0] for row in found] == list(range(len(rows)))
