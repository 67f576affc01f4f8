"""Kinds: what goes in comes out with the dtypes that it had."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.pandas import column, data_frames, range_indexes
from pandas.testing import assert_frame_equal

import gdatalog as gd
from tests.cases import cases

pytestmark = pytest.mark.filterwarnings("ignore")

NUMBERS = [
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "Int8", "Int32", "Int64", "UInt16", "int16[pyarrow]", "float16", "float32", "float64",
    "Float32", "Float64", "double[pyarrow]", object, "category", pd.SparseDtype("int64", 0),
]  # fmt: skip
TEXTS = ["str", "string", "string[pyarrow]", "large_string[pyarrow]", object, "category"]
BOOLS = ["bool", "boolean", "bool[pyarrow]", object, "category"]
TIMES = [
    "datetime64[s]", "datetime64[ms]", "datetime64[us]", "datetime64[ns]", "category", object,
    "datetime64[us, UTC]", "datetime64[ns, Europe/Berlin]", "timestamp[ms][pyarrow]",
    "timestamp[us, tz=Asia/Kolkata][pyarrow]", "datetime64[s, UTC+05:30]",
]  # fmt: skip
DATES = [object, "date32[pyarrow]", "category"]
DURATIONS = [
    "timedelta64[s]", "timedelta64[ms]", "timedelta64[us]", "timedelta64[ns]", "category", object,
    "duration[ms][pyarrow]",
]  # fmt: skip
WIDTHS = pa.decimal128(18, 2), pa.decimal256(40, 2), pa.decimal64(18, 2)
DECIMALS = [object, "category", *map(pd.ArrowDtype, WIDTHS)]
NUMBER, BOOL = st.integers(0, 100), st.booleans()
TEXT = st.sampled_from(["", "a", "b c", "ä", "1", "true"])
TIME = st.integers(0, 2**33).map(lambda seconds: np.datetime64(seconds, "s"))


def cast(values: pd.Series, dtype: Any) -> pd.Series:
    if values.dtype.kind == "M" and "," in str(dtype):
        return values.dt.tz_localize("UTC").astype(dtype)
    return values.astype(dtype)


@st.composite
def frames(draw: st.DrawFn) -> pd.DataFrame:
    base = {"n": ("int64", NUMBER), "s": (object, TEXT), "b": ("bool", BOOL), "t": ("M8[s]", TIME)}
    columns = [column(name, dtype=kind, elements=each) for name, (kind, each) in base.items()]
    frame = draw(data_frames(columns, index=range_indexes(min_size=1, max_size=8)))
    dtypes = zip(base, (NUMBERS, TEXTS, BOOLS, TIMES), strict=True)
    found = {n: cast(frame[n], draw(st.sampled_from(own))) for n, own in dtypes}
    masks = st.lists(st.booleans(), min_size=len(frame), max_size=len(frame))
    return pd.DataFrame({n: with_nulls(each, draw(masks)) for n, each in found.items()})


def with_nulls(values: pd.Series, mask: list[bool]) -> pd.Series:
    """The values with nulls in some rows, if their dtype has nulls."""
    dtype, missing = values.dtype, np.array(mask)
    if isinstance(dtype, np.dtype) and dtype.kind in "iub":
        return values
    if isinstance(dtype, pd.SparseDtype) or (dtype == "category" and missing.all()):
        return values
    if dtype == "object":
        return pd.Series(np.where(missing, None, values), dtype=object)
    return values.mask(missing)


def same(found: pd.DataFrame, frame: pd.DataFrame) -> None:
    """Equal up to the order of rows and duplicates, dtypes included."""

    def put(rows: pd.DataFrame) -> pd.DataFrame:
        plain = rows.astype(dict.fromkeys(rows, object)).astype(str)
        first = plain.drop_duplicates().sort_values([*rows])
        return rows.loc[first.index].reset_index(drop=True)

    assert_frame_equal(put(found), put(frame), check_categorical=True)


@settings(max_examples=cases(18, 6))
@given(frames())
def test_a_frame_comes_back_as_it_was(frame: pd.DataFrame) -> None:
    with gd.connect(device="cpu") as db:
        db["t"] = frame
        same(db["t"].df(), frame)
        db.insert("t", frame)
        same(db["t"].df(), frame)
        same(db["t"].head(0).df(), frame.head(0))
        with gd.connect(device="cpu") as other:
            other["t"] = db["t"]
            same(other["t"].df(), frame)
        assert db.query("?- t.").df().dtypes.equals(frame.dtypes)
        assert set(db["t"].to_numpy().dtype.names) == {*frame}
        assert db["t"].to_arrow().num_rows == db["t"].to_polars().height == len(db["t"])


@pytest.mark.parametrize(
    ("type", "values", "dtypes"),
    [
        ("int", [0, 1], [each for each in NUMBERS if "loat" not in str(each)]),
        ("float", [0.0, 1.5], ["float16", "float32", "Float32", "double[pyarrow]", object]),
        ("symbol", ["b", "a"], TEXTS),
        ("bool", [True, False], BOOLS),
        ("timestamp", np.array(["2024-02-29T12:30", "1969-12-31T23:00"], "M8[s]"), TIMES),
        ("date", [dt.date(9999, 12, 31), dt.date(1, 1, 1)], DATES),
        ("duration", np.array([3600, -86400], "m8[s]"), DURATIONS),
        ("decimal(18,2)", [Decimal("1.10"), Decimal("-9999999999999999.99")], DECIMALS),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_dtype(type: str, values: Any, dtypes: list[Any], tmp_path: Path) -> None:
    for dtype in dtypes:
        if type == "int" and dtype == "double[pyarrow]":
            continue
        frame = pd.DataFrame({"x": cast(pd.Series(values), dtype)})
        with gd.connect(device="cpu") as db:
            db["t"] = frame
            assert db["t"].dtypes == (type,)
            same(db["t"].df(), frame)
            more = with_nulls(pd.concat([frame["x"]] * 2, ignore_index=True), [False] * 3 + [True])
            db.insert("t", more)
            nullable = bool(more.isna().any())
            assert db.relations.schema("t").nullable == ((True,) if nullable else ())
            same(db["t"].df(), more.to_frame("x"))
            nulls = [None] if nullable else []
            assert db["t"].sorted().fetchall()[2:] == [(each,) for each in nulls]
            assert db["t"].to_arrow()["x"].null_count == len(nulls)
            assert db["t"].to_polars()["x"].null_count() == len(nulls)
            found = db["t"].to_numpy()["x"]
            assert sum(value is None or value != value for value in found) == len(nulls)
            assert db["t"].describe()["nulls"].tolist() == [len(nulls)]
            db.save(path := tmp_path / "t.gdb")
            with gd.connect(path) as again:
                same(again["t"].df(), more.to_frame("x"))


def test_units_of_numpy_alone() -> None:
    data = {
        "t": np.array(["2024-02", "2024-03"], "M8[M]"),
        "h": np.array([1, 2], "m8[h]"),
        "d": np.array(["2024-02-29", "2024-03-01"], "M8[D]"),
    }
    with gd.connect(device="cpu") as db:
        db["t"] = data
        assert [str(dtype) for dtype in db["t"].df().dtypes] == [
            "datetime64[ns]", "timedelta64[ns]", "object",
        ]  # fmt: skip
        assert db["t"].to_numpy()["d"].dtype == "M8[D]"
        assert db["t"].to_arrow().schema.types == [
            pa.timestamp("ns"), pa.duration("ns"), pa.date32(),
        ]  # fmt: skip
        db.run(".decl m(d: timestamp)")
        for days in (data["d"], pa.array(data["d"]), pd.Series(data["d"]).dt.date, db["t"]):
            db.load("m", days, columns=["d"])
            assert str(db["m"].df().dtypes["d"]).startswith(("datetime64[", "object"))
            assert set(db["m"]) == {(pd.Timestamp(day),) for day in data["d"]}


def test_categories_keep_their_order() -> None:
    sizes = pd.Categorical(["s", "l", "s"], categories=["s", "m", "l"], ordered=True)
    with gd.connect(device="cpu") as db:
        db["t"] = pd.DataFrame({"x": sizes})
        assert db["t"].df()["x"].dtype == sizes.dtype
        db.run('t("xl").')  # rows of two kinds: those of the type
        assert db["t"].df()["x"].dtype == "str"


def test_polars_and_arrow() -> None:
    times = pl.Series([dt.datetime(2024, 2, 29), dt.datetime(2024, 3, 1)])
    frame = pl.DataFrame(
        {
            "i": pl.Series([1, 2], dtype=pl.Int16),
            "u": pl.Series([1, 2], dtype=pl.UInt64),
            "f": pl.Series([0.5, 1.0], dtype=pl.Float32),
            "c": pl.Series(["a", "b"], dtype=pl.Categorical),
            "s": pl.Series(["", "b"]),
            "d": times.cast(pl.Date),
            "h": pl.Series([dt.timedelta(hours=1), dt.timedelta(0)]).cast(pl.Duration("ms")),
            "t": times.cast(pl.Datetime("ms")),
            "z": times.cast(pl.Datetime("us")).dt.replace_time_zone("Asia/Tokyo"),
        }
    )
    with gd.connect(device="cpu") as db:
        db["t"] = frame
        assert db["t"].sorted().to_polars().equals(frame)
        assert db["t"].to_polars().schema == frame.schema
        db["n"] = nulls = pl.concat([frame, frame.clear(1)])
        assert db["n"].sorted().to_polars().equals(nulls)
        assert db["n"].to_polars().schema == frame.schema
        db["a"] = table = frame.to_arrow().cast(pa.schema(
            [(name, kind) for name, kind in zip(frame.columns, [
                pa.int16(), pa.uint64(), pa.float32(), pa.dictionary(pa.int32(), pa.large_string()),
                pa.string_view(), pa.date32(), pa.duration("ms"), pa.timestamp("ms"),
                pa.timestamp("us", "Asia/Tokyo"),
            ], strict=True)]
        ))  # fmt: skip
        assert db["a"].to_arrow().schema.types == table.schema.types


def test_parquet_keeps_kinds(tmp_path: Any) -> None:
    frame = pd.DataFrame(
        {
            "i": np.array([1, 2], "int16"),
            "f": np.array([0.5, 1.5], "float32"),
            "t": pd.to_datetime(["2024-02-29", "2024-03-01"]).as_unit("us"),
        }
    )
    frame["z"] = frame["t"].dt.tz_localize("Europe/Berlin")
    frame["d"] = frame["t"].dt.date
    frame["h"] = pd.to_timedelta(["1h", "1500ms"]).as_unit("ms")
    with gd.connect(device="cpu") as db:
        db["t"] = frame
        db["t"].to_parquet(tmp_path / "t.parquet")
        db["again"] = str(tmp_path / "t.parquet")
        same(db["again"].df(), frame)
        for name, kind in (("t.csv", "csv"), ("t.json", "json")):
            path = str(tmp_path / name)
            db.run(f'.output t("{path}")')
            columns = zip(frame, db["t"].dtypes, strict=True)
            db.run(f".decl {kind}({', '.join(map(': '.join, columns))})")
            db[kind] = path
            assert [row[:2] + row[4:] for row in db[kind].sorted()] == [
                row[:2] + row[4:] for row in db["t"].sorted()
            ]


NULLABLE = ["int", "float", "symbol", "bool", "timestamp", "date", "duration"]


@settings(max_examples=cases(12, 4))
@given(st.lists(st.lists(st.booleans(), min_size=7, max_size=7), min_size=1, max_size=6))
def test_files_keep_nulls(masks: list[list[bool]]) -> None:
    """Parquet, Arrow and JSON have nulls; in a CSV file they are empty cells without quotes."""
    values = [(5, 0.5, "", True, MADE[0], dt.date(2024, 2, 29), pd.Timedelta("1h"))]
    rows = [
        tuple(None if null else value for null, value in zip(mask, values[0], strict=True))
        for mask in masks
    ]
    with TemporaryDirectory() as folder, gd.connect(device="cpu") as db:
        names = [f"c{at}" for at in range(7)]
        columns = ", ".join(f"{n}: {kind}?" for n, kind in zip(names, NULLABLE, strict=True))
        db.run(f".decl t({columns})")
        db["t"] = rows
        expected = db["t"].sorted().fetchall()
        assert set(db["t"]) == {*rows}
        dtypes = ["Int64", "Float64", "str", "boolean", "datetime64[ns]", object, "timedelta64[ns]"]
        assert (
            db["t"].df().dtypes.tolist()
            == pd.DataFrame(columns=names)
            .astype(dict(zip(names, dtypes, strict=True)))
            .dtypes.tolist()
        )
        assert all(field.nullable for field in db["t"].to_arrow().schema)
        for end in ("parquet", "arrow", "csv", "tsv", "json", "jsonl", "csv.gz"):
            path = f"{folder}/t.{end}"
            db.run(f'.output t("{path}")', name="out")
            db.drop("t", only="data")
            db["t"] = path
            assert [str(row) for row in db["t"].sorted()] == [
                str(tuple(utc(value) if end[0] in "ctj" else value for value in row))
                for row in expected
            ]
            db["t"] = rows
            if end in ("parquet", "arrow"):
                db["u"] = path
                assert db["u"].sorted().fetchall() == expected


def utc(value: Any) -> Any:
    return value.tz_localize("UTC") if isinstance(value, pd.Timestamp) else value


MADE = pd.to_datetime(["2024-02-29 12:00", "2024-03-01 12:00"])


def test_dates_and_durations() -> None:
    days, spans = [dt.date(2024, 2, 29), dt.date(9999, 12, 31)], pd.to_timedelta(["1h", "-2d"])
    with gd.connect(device="cpu") as db:
        db["p"] = pd.DataFrame({"k": [1, 2], "d": days, "u": spans})
        db.run(".decl f(d: date) f(@2024-02-29). f(@2024-03-01).")
        db.run(".decl q(d: date, u: duration) q(@2024-02-29, u) <- p(1, _, u).")
        for strategy in ("lftj", "levelwise"):
            for text, rows in [
                ("r(k, y, m, x) <- p(k, d, _), y = year(d), m = month(d), x = day(d).",
                 [(1, 2024, 2, 29), (2, 9999, 12, 31)]),
                ("r(s, t) <- p(_, d, u), s = to_string(d), t = to_string(u).",
                 [("2024-02-29", "1h"), ("9999-12-31", "-2d")]),
                ("r(k) <- p(k, d, _), d > @2025-01-01.", [(2,)]),
                ("r(k) <- p(k, @2024-02-29, _).", [(1,)]),
                ("r(k) <- p(k, d, _), d in {@2024-02-29, @2024-03-01}.", [(1,)]),
                ("r(k) <- p(k, d, _), f(d).", [(1,)]),
                ("r(s) <- f(d), f(e), d < e, s = seconds_between(d, e).", [(86400.0,)]),
                ("r(min(d), max(u)) <- p(_, d, u).", [(days[0], spans[0])]),
                ("r(k) <- p(k, _, u), u < $u.", [(2,)]),
                ("r(k) <- p(k, d, _), d = $d.", [(1,)]),
                ("r(k) <- p(k, d, _), d in $ds.", [(1,)]),
            ]:  # fmt: skip
                given = {"u": dt.timedelta(0), "d": days[0], "ds": days[:1]}
                params = {name: given[name] for name in given if f"${name}" in text.split(".")[0]}
                if "$ds" in text:
                    params.pop("d", None)
                found = db.query(text, params, strategy=strategy)
                assert found.sorted().fetchall() == rows
        assert db["q"].fetchall() == [(days[0], spans[0])]
        assert db["q"].df().dtypes.tolist() == [np.dtype(object), np.dtype("m8[ns]")]
        db["t"] = [(dt.datetime(2024, 2, 29),)]
        assert db.query("r(k) <- p(k, d, _), d = $d.", {"d": np.datetime64("2024-02-29")})
        assert db.query("?- t($d).", {"d": days[0]})  # a day may stand for its midnight
        assert db.query("r(x) <- t(x), x in $ds.", {"ds": days[:1]})
        with pytest.raises(gd.TypeMismatchError, match=r"(?s)`d` is date, .*pandas.to_datetime"):
            db.query("r(d) <- p(_, d, _), t(d).")


def test_rules_keep_zones() -> None:
    with gd.connect(device="cpu") as db:
        db["n"] = pd.DataFrame({"t": MADE})
        db["z"] = pd.DataFrame({"t": MADE.tz_localize("Europe/Berlin"), "k": [1, 2]})
        db["u"] = pd.DataFrame({"t": MADE.tz_localize("UTC")})
        for text, zone in [
            ("a(t) <- n(t).", ""),
            ("a(t) <- z(t, _).", ", Europe/Berlin"),
            ("b(s) <- a(s). a(t) <- z(t, _).", ", Europe/Berlin"),
            ("a(k, max(t)) <- z(t, k).", ", Europe/Berlin"),
            ("a(s) <- z(t, _), s = t.", ", Europe/Berlin"),
            ("a(max(t, u)) <- z(t, _), z(u, _).", ", Europe/Berlin"),
            ("a(t) <- z(t, _), u(s), t > s.", ", Europe/Berlin"),
            ("a(t) <- z(t, _), !u(t).", ", Europe/Berlin"),
            ("a(t) <- z(t, _), u(t).", ", UTC"),
            ("a(t) <- z(t, _). a(t) <- u(t).", ", UTC"),
            ("a(t) <- u(t). a(t) <- z(t, _).", ", UTC"),
            ("a(t) <- z(t, _), t > @2024-03-01.", ", Europe/Berlin"),
            ("a(t) <- t = @2024-03-01.", ", UTC"),
            ("?- n(t).", ""),
            ("a(t + 3h) <- z(t, _).", ", Europe/Berlin"),
            ("a(s) <- z(t, _), s - 1d = t.", ", Europe/Berlin"),
            ("a(t - d) <- n(t), n(u), d = t - u.", ""),
        ]:
            frame = db.query(text).df()
            assert str(frame.dtypes.iloc[-1]) == f"datetime64[ns{zone}]"
        derived = db.query("a(t) <- n(t).")
        assert sorted(derived) == [(time,) for time in MADE]
        db["kept"] = derived
        assert str(db["kept"].df().dtypes["t"]) == "datetime64[ns]"
        assert set(db.query("a(t) <- z(t, _).")) == {
            (t,) for t in MADE.tz_localize("Europe/Berlin")
        }


def test_parts_of_times_are_those_of_their_zone() -> None:
    zones = ["Europe/Berlin", "America/New_York", "UTC", "+05:30"]
    moments = pd.to_datetime(
        ["2026-03-29 00:59", "2026-03-29 01:00", "2026-10-25 00:30", "2025-12-31 23:30"]
    )
    for zone in zones:
        times = moments.tz_localize("UTC").tz_convert(zone)
        with gd.connect() as db:
            db["e"] = pd.DataFrame({"k": range(4), "t": times})
            text = (
                'r(k, hour = hour(t), day = day(t), year = year(t), start = date_trunc("day", t), '
            )
            text += 'shown = format_time(t, "%H:%M"))'
            for strategy in ("auto", "lftj", "levelwise"):
                found = db.query(f"{text} <- e(k, t).", strategy=strategy).df(sort=True)
                assert found["hour"].tolist() == times.hour.tolist(), (zone, strategy)
                assert found["day"].tolist() == times.day.tolist()
                assert found["year"].tolist() == times.year.tolist()
                starts = found["start"]
                assert starts.tolist() == times.normalize().tolist()
                assert starts.dtype == times.dtype.__class__("ns", zone)
                assert found["shown"].tolist() == times.strftime("%H:%M").tolist()
            shown = str(db.explain("?- e(k, t), hour(t) > 7."))
            assert ("local_time(t" in shown) == (zone != "UTC")


def test_decimals_and_days_in_milliseconds() -> None:
    dates = [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]
    columns = {"n": pa.array([1, 2], pa.decimal128(5, 0)), "d": pa.array(dates, pa.date64())}
    with gd.connect(device="cpu") as db:
        db["t"] = pa.table(columns)
        found = db["t"].to_arrow()
        assert found.schema.types == [pa.decimal128(5, 0), pa.date64()]
        assert db["t"].dtypes == ("int", "date")
        assert db["t"].to_polars().schema == {"n": pl.Decimal(5, 0), "d": pl.Date()}
        db["p"] = pd.DataFrame({"n": pd.array([1], dtype=pd.ArrowDtype(pa.decimal128(5, 0)))})
        assert str(db["p"].df().dtypes["n"]) == "decimal128(5, 0)[pyarrow]"
        with pytest.raises(gd.DataError, match="some dates have a time of day"):
            db["t"] = pa.table({"n": columns["n"], "d": pa.array([0, 1], pa.date64())})


ERROR = """\
<query>:1:{at}: type error: {one} is a timestamp with the zone Europe/Berlin, but {other} is a \
timestamp without a zone
 1 | {text}
{caret}
  hint: load both with a zone or both without: in pandas, .dt.tz_localize("Europe/Berlin") gives \
one, .dt.tz_localize(None) takes it"""


def test_naive_and_zoned_times_are_not_compared() -> None:
    with gd.connect(device="cpu") as db:
        db["n"] = pd.DataFrame({"t": MADE})
        db["z"] = pd.DataFrame({"t": MADE.tz_localize("Europe/Berlin")})
        for text, at, one, other in [
            ("a(t) <- z(t), n(t).", 17, "`t`", "a column of `n`"),
            ("a(t) <- n(u), z(t), t < u.", None, "`u`", "`t`"),
            ("a(t) <- z(t), !n(t).", 18, "`t`", "a column of `n`"),
            ("a(t) <- z(t), n(u), distinct(t, u).", None, "`u`", "`t`"),
            ("a(s) <- z(t), n(u), s = seconds_between(t, u).", None, "`u`", "`t`"),
            ("a(t - u) <- z(t), n(u).", None, "`u`", "`t`"),
            ("a(t) <- z(t), n(u), t < u + 1h.", None, "`u + 1h`", "`t`"),
            ("a(t) <- n(t). a(t) <- z(t).", None, "`t`", "a column of `a`"),
        ]:
            with pytest.raises(gd.TypeMismatchError, match="a timestamp with the zone") as caught:
                db.query(text)
            if at is not None:
                caret = "   | " + " " * (at - 1) + "^"
                assert str(caught.value) == ERROR.format(
                    at=at, one=one, other=other, text=text, caret=caret
                )
            assert f"{one} is a timestamp w" in str(caught.value)
        with pytest.raises(gd.DataError, match="column 't' would hold times with a zone and times"):
            db.insert("n", db["z"].df())
        assert len(db["n"]) == 2
