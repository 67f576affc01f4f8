"""`describe` and `schema`: what a relation's columns hold, and what a database holds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gdatalog as gd


def columns() -> dict[str, pd.Series]:
    """Columns of all types, without a row twice."""
    days = pd.Series(pd.date_range("2026-01-01", periods=5).date)
    return {
        "id": pd.Series([4, 1, 3, 2, 5], dtype="int32"),
        "x": pd.Series([0.5, -2.0, 0.5, -0.0, 1e300]),
        "who": pd.Series(["Zoe", "ann", "é", "ann", "zed"]),
        "club": pd.Series(["b", "a", "b", "a", "b"], dtype="category"),
        "member": pd.Series([True, True, True, True, True]),
        "at": pd.Series(pd.date_range("2026-03-01", periods=5, tz="Europe/Berlin")[::-1]),
        "due": days,
        "wait": pd.Series(pd.to_timedelta([3, 1, 1, 2, 2], unit="h")),
    }


def test_a_summary_has_what_pandas_finds() -> None:
    db = gd.connect()
    frame = pd.DataFrame(columns())
    db["t"] = frame
    found = db["t"].describe().set_index("column")
    assert found.index.tolist() == list(frame.columns)
    assert found["type"].tolist() == list(db["t"].dtypes)
    assert found["dtype"].tolist() == list(map(str, db["t"].df().dtypes))
    assert (found["rows"] == 5).all()
    assert found["distinct"].to_dict() == frame.nunique().to_dict()
    plain = frame.assign(club=frame["club"].astype(str))
    assert found["least"].to_dict() == {name: plain[name].min() for name in plain}
    assert found["greatest"].to_dict() == {name: plain[name].max() for name in plain}
    assert found.loc["at", "least"].tz is not None


def test_a_summary_of_some_rows_of_none_and_of_no_columns() -> None:
    db = gd.connect()
    db.load("E", [(1, "b"), (2, "a"), (3, "c")], columns=["n", "s"])
    some = db["E"].sorted("n").head(2).describe()
    assert some["least"].tolist() == [1, "a"] and some["greatest"].tolist() == [2, "b"]
    none = db.query("?- E(n, s), n > 9.").describe()
    assert none[["rows", "distinct"]].to_numpy().tolist() == [[0, 0], [0, 0]]
    assert none["least"].tolist() == none["greatest"].tolist() == [None, None]
    assert none["dtype"].tolist() == db["E"].describe()["dtype"].tolist()
    assert db.query("?- E(1, _).").describe().empty


def test_a_summary_of_rows_in_blocks() -> None:
    db = gd.connect()
    db["E"] = np.array([[1, 9], [2, 9]])
    db.insert("E", [(-5, 7), (2, 7)])
    found = db.query("?- E(x, y).").describe()
    assert found["distinct"].tolist() == [3, 2]
    assert found["least"].tolist() == [-5, 7] and found["greatest"].tolist() == [2, 9]


def test_the_schema_of_a_database() -> None:
    db = gd.connect()
    assert db.schema().empty
    db["t"] = pd.DataFrame({"id": pd.Series([1, 2], dtype="int8"), "who": ["ann", "bob"]})
    db.run("big(x, sum(y)) <- t(x, _), y = x. some() <- t(_, _).")
    with pytest.warns(gd.ProgramWarning, match="invalid"):
        db.run("n(1). bad(x + 1) <- n(x).", name="bad")
        db["n"] = [("a",)]
    schema = db.schema()
    assert schema["relation"].tolist() == ["bad", "big", "big", "n", "some", "t", "t"]
    of = dict(list(schema.groupby("relation")))
    assert of["t"]["column"].tolist() == ["id", "who"]
    assert of["t"]["type"].tolist() == ["int", "symbol"]
    assert of["t"]["dtype"].tolist() == list(map(str, db["t"].df().dtypes))
    assert of["t"]["rows"].tolist() == [2, 2] and set(of["t"]["origin"]) == {"data"}
    assert of["big"]["rows"].isna().all() and set(of["big"]["origin"]) == {"rules"}
    assert of["some"]["column"].isna().all()  # a proposition
    assert of["bad"]["origin"].tolist() == ["invalid"]
    len(db["big"])
    schema = db.schema()
    assert schema[schema["relation"] == "big"]["rows"].tolist() == [2, 2]
