"""Decimals that are ints, and texts and paths that cannot be."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from loading import decl, load, refused_data

import gdatalog as gd
from gdatalog.engine.facts.outputs import Written
from gdatalog.storage.export import to_rows

NUL = r"a\\x00.*': no file can have such a path"


@pytest.mark.parametrize(
    "data",
    [
        duckdb.sql("select sum(x) x from range(10) t(x)"),
        duckdb.sql("select 45.00::decimal(10, 2) x"),
        pa.table({"x": pa.array([Decimal(45)], pa.decimal256(40, 0))}),
        {"x": [Decimal("45.0")]},
        [(Decimal(45),)],
    ],
    ids=["hugeint", "decimal", "wide", "column", "row"],
)
def test_decimals_without_a_fraction_are_ints(data: Any) -> None:
    table = load(data, declared=decl(x="int"))
    assert table.types == ("int",) and to_rows(table) == [(45,)]


def test_decimals_that_are_no_ints() -> None:
    for data in (
        {"x": [Decimal(1), Decimal("1.5")]},
        pa.table({"x": [Decimal("1.0"), Decimal("1.5")]}),
    ):
        assert "row 1, column 'x': expected int, found the decimal Decimal('1.5')" in (
            refused_data(data, declared=decl(x="int"))
        )
    mixed = refused_data([(Decimal("1.5"),), ("a",)])
    assert "cannot store Decimal('1.5'), a decimal, in a column of other values" in mixed
    large = Decimal(2**63)
    for data in ({"x": [large]}, pa.table({"x": pa.array([large], pa.decimal128(38, 0))})):
        told = refused_data(data)
        assert "9223372036854775808" in told and "does not fit into 64 bits" in told
    for odd in (large, -large - 1, Decimal(10**30)):  # the row is the first that is wrong
        column = pa.array([Decimal(1), Decimal(2), odd, Decimal(3)], pa.decimal128(38, 0))
        assert f"row 2, column 'x': {odd!r} does not fit into 64 bits" in (
            refused_data(pa.table({"x": column}))
        )
    with_null = {"x": [Decimal(1), None, Decimal("NaN")]}
    assert to_rows(load(with_null, nulls="drop")) == [(1,)]


def test_paths_that_cannot_be(tmp_path: Path) -> None:
    for files in ("all", "read", str(tmp_path)):
        with gd.connect(files=files) as db:
            for path in ("a\0b.csv", f"{tmp_path}/a\0*.csv", f"{tmp_path}/a\0"):
                with pytest.raises(gd.DataError, match=NUL):
                    db.load("E", path)
            for text in ('.input E("a\0b.csv")\n?- E(x).', '.input E(filename="a\0b")\n?- E(x).'):
                with pytest.raises(gd.Error) as caught:
                    db.query(".decl E(x: int)\n" + text)
                assert caught.value.span is not None
            if files != "read":
                with pytest.raises(gd.DataError, match=NUL):
                    db.run('p(1).\n.output p("a\0b.csv")')
            with pytest.raises(gd.DataError, match=NUL):
                db.run_file("a\0.dl")
            with pytest.raises(gd.DataError, match=r"cannot read 'a\\ud800.csv': no file can"):
                db.load("E", "a\ud800.csv")
            assert list(db) == []


def test_parameters_that_cannot_be() -> None:
    with gd.connect() as db, pytest.raises(gd.DataError, match=r"\$x holds half a surrogate pair"):
        db.query("?- x = $x.", {"x": "a\udc80"})


def test_a_new_folder_is_told(tmp_path: Path) -> None:
    new = tmp_path / "out"
    assert str(Written.at(f"{new}/tr.csv")) == f"{new}/tr.csv (new folder {new})"
    new.mkdir()
    assert str(Written.at(f"{new}/tr.csv")) == f"{new}/tr.csv"
    assert str(Written.at(f"{new}/parts/")) == f"{new}/parts/"
    assert str(Written.at("tr.csv")) == "tr.csv"


def test_columns_that_nothing_types_get_their_types_later() -> None:
    """A relation that can have no row has ints where nothing tells; data and queries decide."""
    with gd.connect(device="cpu") as db:
        db.run('X("a", "b"). Y(a, c) <- X(a, b), Y(b, c). Z(c) <- Y(_, c).')
        assert db.query("?- Y(a, c).").dtypes == ("symbol", "int")
        assert db.query('?- Z(x), x = "z".').dtypes == ("symbol",)
        assert db.query("?- X(a, b), !Y(a, _).").fetchall() == [("a", "b")]
        db.run('Y("b", "z").')
        assert db.query("?- Y(a, c).").dtypes == ("symbol", "symbol")
        assert db.query("?- Z(x).").fetchall() == [("z",)]


def test_an_error_in_an_aggregate_has_the_programs_names() -> None:
    with gd.connect(device="cpu") as db, pytest.raises(gd.EvaluationError) as caught:
        db.query("E(10, 400). ?- n = sum x ^ y : { E(x, y) }.")
    assert caught.value.message == (
        "the result does not fit into 64 bits: x ^ y with x = 10, y = 400"
    )
    assert caught.value.hint == "compute with floats instead: `to_float(x) ^ to_float(y)`"
