"""Decimals: exact numbers with digits after the point, in data, files and programs."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gdatalog as gd
from tests.cases import cases
from tests.loading import decl, load, refused_data

D = Decimal
MOST = D(10**18 - 1)


@st.composite
def columns(draw: st.DrawFn) -> tuple[int, list[Decimal]]:
    """Digits after the point, and distinct decimals that have no more."""
    scale = draw(st.integers(1, 18))
    key = st.integers(-(10**18) + 1, 10**18 - 1) | st.integers(-200, 200)
    keys = draw(st.lists(key, min_size=1, max_size=5, unique=True))
    return scale, [D(each).scaleb(-scale) for each in sorted(keys)]


@settings(max_examples=cases(20, 6), deadline=None)
@given(columns())
def test_decimals_come_back(drawn: tuple[int, list[Decimal]]) -> None:
    scale, values = drawn
    kind = f"decimal(18,{scale})"
    given: list[Any] = [
        pa.table({"x": pa.array(values, dtype)})
        for dtype in (pa.decimal128(18, scale), pa.decimal256(40, scale), pa.decimal64(18, scale))
    ]
    given += [pl.DataFrame({"x": pl.Series(values, dtype=pl.Decimal(18, scale))})]
    given += [pd.DataFrame({"x": values}), [(value,) for value in values]]
    with gd.connect(device="cpu") as db:
        for data in given:
            db["t"] = data
            assert db["t"].dtypes == (kind,)
            assert db["t"].fetchall() == [(value,) for value in values]
            assert [str(row[0]) for row in db["t"].fetchall()] == list(map(str, values))
            assert db["t"].df().iloc[:, 0].tolist() == values
            if isinstance(data, pa.Table):
                assert db["t"].to_arrow().schema.types == data.schema.types
            assert db["t"].to_arrow().column(0).to_pylist() == values
        for name, times in (("p", 1), ("q", 20)):  # many facts become columns
            facts = "".join(f"{name}({value:f})." for value in values)
            db.run(f".decl {name}(x: {kind}) {facts * times}")
            assert db[name].fetchall() == [(value,) for value in values]


def test_files_and_saved_databases(tmp_path: Path) -> None:
    values = [D("-0.05"), D("1.10"), D("9999999999999999.99")]
    with gd.connect(device="cpu") as db:
        db["t"] = pd.DataFrame({"x": pd.Series(values, dtype=pd.ArrowDtype(pa.decimal128(18, 2)))})
        for ending in ("csv", "tsv", "json", "jsonl", "parquet", "facts", "arrow"):
            path = str(tmp_path / f"t.{ending}")
            db.run(f'.output t("{path}")')
            db.run(f".decl {ending}(x: decimal(18, 2))")
            db[ending] = path
            assert db[ending].fetchall() == [(value,) for value in values], ending
        (tmp_path / "s.csv").write_text("x\n 1.1 \n+2\n-.5\n", encoding="utf-8")
        db["csv"] = str(tmp_path / "s.csv")
        assert db["csv"].fetchall() == [(D("-0.50"),), (D("1.10"),), (D(2),)]
        assert "│ -0.50 │\n│  1.10 │" in db["csv"].sorted().format()
        db.run(".decl d(x: decimal(4, 1)) d(1.5). rule(x) <- d(x), x < $most.", {"most": D("2.5")})
        db.save(tmp_path / "x.gdb")
    with gd.connect(tmp_path / "x.gdb", device="cpu") as db:
        assert str(db["t"].df().dtypes["x"]) == "decimal128(18, 2)[pyarrow]"
        assert db["t"].fetchall() == [(value,) for value in values]
        assert db["rule"].fetchall() == [(D("1.5"),)]


def test_nulls() -> None:
    with gd.connect(device="cpu") as db:
        db.run(".decl p(k: int, x: decimal(12, 2)?) p(1, 1.1). p(2, null). p(3, -2.55).")
        db["q"] = [(row[0], row[1]) for row in db["p"].fetchall()]
        for strategy in ("levelwise", "lftj"):
            for text, rows in [
                ("r(k, z) <- q(k, x), z = x * 1.5.", [(1, D("1.65")), (2, None), (3, D("-3.825"))]),
                ("r(k, x) <- p(k, x), x < 1.105.", [(1, D("1.1")), (3, D("-2.55"))]),
                ("r(k) <- p(k, x), q(k, x).", [(1,), (3,)]),
                ("r(sum(x), max(x), mean(x * 2)) <- q(_, x).", [(D("-1.45"), D("1.1"), -1.45)]),
                ("r(s) <- s = max x / 2 : { p(_, x) }.", [(0.55,)]),
            ]:
                found = db.query(text, strategy=strategy).sorted().fetchall()
                assert found == [pytest.approx(row) for row in rows] or found == rows, text
        assert db["p"].df()["x"].tolist() == [D("1.10"), None, D("-2.55")]


def test_declared_decimals() -> None:
    declared = decl(x="decimal(18,2)")
    for data in (
        {"x": [D("1.1"), 2, D("-0.5")]},
        pa.table({"x": pa.array([D("1.100"), D(2), D("-0.500")], pa.decimal128(9, 3))}),
    ):
        assert load(data, declared=declared).columns[0].tolist() == [110, 200, -50]
    with_null = {"x": [D("1.1"), None, D("NaN")]}
    assert load(with_null, declared=declared, nulls="drop").columns[0].tolist() == [110]
    filled = load(with_null, nulls="keep", fill={"x": D(3)})
    assert filled.columns[0].tolist() == [11, 30, 30] and filled.types == ("decimal(18,1)",)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([D("1.105")], "Decimal('1.105') has more than 2 digits after the point"),
        ([D(1), D("1e16")], "row 1, column 'x': Decimal('1E+16') has more than 18 digits"),
        ([D("inf")], "Decimal('Infinity') has more than 18 digits"),
        ([1.5], "expected decimal(18,2), found the float 1.5"),
        (pa.array([D("1.105")]), "Decimal('1.105') has more than 2 digits after the point"),
        (
            pa.array([D("1"), D("1e36")]),
            "row 1, column 'x': Decimal('1000000000000000000000000000000000000')",
        ),
        (pd.Series([1.5]), ".astype(pandas.ArrowDtype(pyarrow.decimal128(18, 2)))"),
    ],
)
def test_decimals_that_do_not_fit(data: Any, message: str) -> None:
    assert message in refused_data({"x": data}, declared=decl(x="decimal(18,2)"))


def test_literals_and_parameters() -> None:
    with gd.connect(device="cpu") as db:
        db.run(".decl p(k: int, x: decimal(12, 2)) p(1, 1.10). p(2, 2). p(3, -0.5).")
        db.run(".decl big(x: decimal(18, 3)) big(123456789012345.678).")
        assert db["big"].fetchall() == [(D("123456789012345.678"),)]
        for strategy in ("lftj", "levelwise"):
            for text, keys, params in [
                ("r(k) <- p(k, 1.1).", [1], {}),
                ("r(k) <- p(k, x), x = 1.10.", [1], {}),
                ("r(k) <- p(k, x), x > 1.", [1, 2], {}),
                ("r(k) <- p(k, x), x in {1.1, 2, 7.5}.", [1, 2], {}),
                ("r(k) <- p(k, x), x in {-0.5" + "".join(f", {n}.5" for n in range(40)) + "}.",
                 [3], {}),
                ("r(k) <- p(k, as(2, decimal(5, 2))).", [2], {}),
                ("r(k) <- p(k, $x).", [1], {"x": D("1.1")}),
                ("r(k) <- p(k, $x).", [2], {"x": 2}),
                ("r(k) <- p(k, $x).", [2], {"x": D("2.00")}),
                ("r(k) <- p(k, x), x in $x.", [1, 3], {"x": [D("1.1"), D("-0.5")]}),
                ("r(k) <- p(k, x), x in $x.", [2], {"x": [1, 2, 10**18]}),
                ("r(k) <- p(k, x), p(_, y), x = y, y > 0.", [1, 2], {}),
                ("r(max(x)) <- p(_, x).", [D(2)], {}),
            ]:  # fmt: skip
                found = db.query(text, params, strategy=strategy)
                assert [row[0] for row in found.sorted()] == keys, text
        prepared = db.prepare("r(k) <- p(k, x), x < $x.", {"x": D("1.5")})
        assert [len(prepared(x=x)) for x in (D("1.5"), 3, D("-2.25"))] == [2, 3, 0]
        assert str(db["p"].sorted()).count("-0.50") == 1
        for text, message in [
            ("r(k) <- p(k, 1.105).", "`1.105` is float, but column `x` of `p` is decimal(18,2)"),
            ("r(x) <- p(_, x), big(x).", "decimal(18,2), but column `x` of `big` is decimal(18,3)"),
            (".decl z(x: decimal(20, 2)) z(1).", "at most 18, and s of them after the point"),
            (".decl z(x: decimal) z(1).", "write decimal(p, s)"),
        ]:
            with pytest.raises(gd.Error, match="type"):
                db.query(text)
            with pytest.raises(gd.Error) as caught:
                db.query(text)
            assert message in str(caught.value)
        for odd in (D("NaN"), D("1e-30")):
            with pytest.raises(gd.DataError, match="the parameter"):
                db.query("r(k) <- p(k, $x).", {"x": odd})
        with pytest.raises(gd.Error, match=r"1\.105 has other digits than"):
            db.query(".decl w(x: decimal(5, 2)) w(1.1). w(1.105). ?- w(x).")
