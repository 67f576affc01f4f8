"""The engine against the oracle and, where SQL can say it, against DuckDB.

Examples and drawn programs, each in one piece and again in chunks of a few rows. How many are
drawn is GDATALOG_PROGRAMS (300); with GDATALOG_SEED=random they are others in every run. A program
that fails is made smaller before it is shown.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import assume, given

import gdatalog
from gdatalog.errors import (
    Error,
    EvaluationError,
    NameResolutionError,
    ParseError,
    SafetyError,
    StratificationError,
    TypeMismatchError,
)
from gdatalog.parser import parse
from tests.cases import share
from tests.corners import CORNERS, Example
from tests.draw import (
    PROFILES,
    Drawn,
    aggregate_programs,
    drawn,
    graph_programs,
    null_programs,
    optional_programs,
    programs,
    recursive_programs,
    relational_programs,
    string_programs,
)
from tests.draw_rules import DECIMAL
from tests.examples import EXAMPLES
from tests.oracle import TooLong, evaluate
from tests.oracle_values import Dur, Failure, Ts, Value, canonical
from tests.reduce import reduced
from tests.sql import Unsupported, run_sql

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

REFUSALS = (
    ParseError,
    NameResolutionError,
    TypeMismatchError,
    SafetyError,
    StratificationError,
)
DTYPES = {
    "int": "int64",
    "float": "float64",
    "symbol": "str",
    "bool": "bool",
    "timestamp": "datetime64[ns, UTC]",
    "duration": "timedelta64[ns]",
}
CHUNKS = (1, 3, 17)

Data = dict[str, tuple[tuple[str, ...], list[tuple[Value, ...]]]]
Relations = dict[str, set[tuple[Value, ...]]]


def frame(types: tuple[str, ...], rows: list[tuple[Value, ...]]) -> pd.DataFrame:
    """With the exact dtypes, so that an empty relation has types too."""
    columns = {}
    for at, kind in enumerate(types):
        values = [row[at].ns if isinstance(row[at], Ts | Dur) else row[at] for row in rows]
        if None in values and kind != "date":
            columns[f"c{at}"] = nullable_series(kind, values)
        elif kind == "timestamp":
            moments = pd.Series(values, dtype="int64")
            columns[f"c{at}"] = pd.to_datetime(moments, unit="ns", utc=True)
        elif kind == "date":
            days = np.array(values, dtype="M8[ns]").astype("M8[D]")
            columns[f"c{at}"] = pd.Series(pd.arrays.ArrowExtensionArray(pa.array(days)))
        elif kind == DECIMAL:
            columns[f"c{at}"] = pd.Series(values, dtype=pd.ArrowDtype(pa.decimal128(18, 2)))
        else:
            columns[f"c{at}"] = pd.Series(values, dtype=DTYPES[kind])
    return pd.DataFrame(columns)


def nullable_series(kind: str, values: list[Any]) -> pd.Series:
    """A column with missing values."""
    if kind == "timestamp":
        return pd.to_datetime(pd.Series(values, dtype="Int64"), unit="ns", utc=True)
    return pd.Series(values, dtype={"int": "Int64", "bool": "boolean"}.get(kind, DTYPES[kind]))


def plain(value: Any) -> Value:
    if isinstance(value, dt.date):
        return Ts(pd.Timestamp(value).value)
    if isinstance(value, dt.timedelta):
        return Dur(pd.Timedelta(value).value)
    return value


def run(text: str, data: Data, defined: set[str], chunk: int | None) -> Relations:
    """What the engine gives for the defined relations."""
    with gdatalog.connect(device="cpu") as db:
        if chunk is not None:
            db.workspace.chunk_rows = chunk
        return answers(db, text, data, defined)


def answers(db: gdatalog.Database, text: str, data: Data, defined: set[str]) -> Relations:
    """What a database gives for the defined relations; it is empty before."""
    for name, (types, rows) in data.items():
        db.load(name, frame(types, rows))
    db.run(text)
    found = {name: db.relations[name].fetchall() for name in defined}
    for name, rows in found.items():
        assert len(rows) == len(set(rows)), f"{name} is not a set: {rows}"
    return {name: {tuple(map(plain, row)) for row in rows} for name, rows in found.items()}


# Runs a program in some way: text, data, defined relations, a number that says more of the way.
Way = Callable[[str, Data, set[str], Any], Relations]


def difference(drawn: Drawn, chunk: int | None, sql: bool, way: Way = run) -> str | None:
    """What is wrong with the engine's answers; None if nothing is, or the checks refuse."""
    expected: Relations | None
    try:
        program = parse(drawn.text)
    except ParseError:
        return None
    try:
        found = way(drawn.text, drawn.data, drawn.defined, chunk)
        failure = None
    except REFUSALS:
        return None
    except EvaluationError as error:
        failure = error
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    try:
        expected = evaluate(program, drawn.rows, drawn.types)
    except Failure as reason:
        return None if failure else f"should fail ({reason}), but gives {found}"
    except TooLong:
        return None
    if failure:
        return f"{failure}\nshould not fail, but give {_of(expected, drawn.defined)}"
    for name in sorted(drawn.defined):
        if canonical(found[name]) != canonical(expected[name]):
            return _shown(name, found[name], expected[name], "the oracle")
    if sql:
        try:
            expected = run_sql(program, drawn.types, drawn.rows)
        except Unsupported:
            return None
        for name in sorted(drawn.defined):
            if canonical(found[name]) != canonical(expected[name]):
                return _shown(name, found[name], expected[name], "DuckDB")
    return None


def _of(relations: Relations, names: set[str]) -> Relations:
    return {name: relations[name] for name in sorted(names)}


def _shown(name: str, found: set[Any], expected: set[Any], whose: str) -> str:
    return (
        f"{name}: {len(found)} rows, {whose} has {len(expected)}"
        f"\n  only here: {sorted(found - expected, key=repr)[:10]}"
        f"\n  missing:   {sorted(expected - found, key=repr)[:10]}"
    )


def agrees(drawn: Drawn, sql: bool = False) -> None:
    try:
        parse(drawn.text)
    except ParseError:
        assume(False)
    for chunk in (None, CHUNKS[drawn.seed % len(CHUNKS)]):
        if not difference(drawn, chunk, sql and chunk is None):
            continue

        def fails(smaller: Drawn, chunk: int | None = chunk) -> str | None:
            return difference(smaller, chunk, sql)

        small = reduced(drawn, fails)
        pytest.fail(f"{fails(small)}\nchunks: {chunk}, number {drawn.seed}\n{small}")


def agrees_in(way: Way, drawn: Drawn) -> None:
    """The same, run in a way of its own, by the program's number."""

    def fails(smaller: Drawn) -> str | None:
        return difference(smaller, drawn.seed, False, way)

    if fails(drawn):
        small = reduced(drawn, fails)
        pytest.fail(f"{fails(small)}\nnumber {drawn.seed}\n{small}")


@pytest.mark.drawn
@share(50)
@given(programs())
def test_programs(drawn: Drawn) -> None:
    agrees(drawn)


@pytest.mark.drawn
@share(10)
@given(graph_programs())
def test_graph_programs(drawn: Drawn) -> None:
    agrees(drawn, sql=True)


@pytest.mark.drawn
@share(10)
@given(relational_programs())
def test_relational_programs(drawn: Drawn) -> None:
    agrees(drawn, sql=True)


@pytest.mark.drawn
@share(10)
@given(recursive_programs())
def test_recursive_programs(drawn: Drawn) -> None:
    agrees(drawn)


@pytest.mark.drawn
@share(10)
@given(aggregate_programs())
def test_aggregate_programs(drawn: Drawn) -> None:
    agrees(drawn)


@pytest.mark.drawn
@share(10)
@given(string_programs())
def test_string_programs(drawn: Drawn) -> None:
    agrees(drawn)


@pytest.mark.parametrize("chunk", [None, *CHUNKS])
@pytest.mark.parametrize("example", CORNERS + EXAMPLES, ids=str)
def test_example(example: Example, chunk: int | None) -> None:
    if example.fails:
        with pytest.raises(EvaluationError) as caught:
            run(example.program, example.data, _heads(example), chunk)
        assert isinstance(caught.value, Error) and caught.value.span is not None
        return
    found = run(example.program, example.data, set(example.expected), chunk)
    assert {name: canonical(rows) for name, rows in found.items()} == {
        name: canonical(rows) for name, rows in example.expected.items()
    }


def _heads(example: Example) -> set[str]:
    return Drawn(parse(example.program), {}, 0).defined


def test_queries_and_parameters() -> None:
    edges = [(1, 2), (2, 3), (1, 3)]
    with gdatalog.connect(device="cpu") as db:
        db.load("E", frame(("int", "int"), edges))
        found = db.query("?- E($start, y), !E(y, _).", {"start": 1})
        assert found.fetchall() == [(3,)]
        assert list(found.columns) == ["y"]
        assert bool(db.query("?- E(1, 2).")) and not db.query("?- E(2, 1).")
        assert len(db.query("p(x) <- E(x, _).")) == 2


def test_sums_wrap_around_in_sql_too() -> None:
    """`2 * sum(x) + 1` over the least int: DuckDB would go on with 128 bits."""
    assert difference(drawn(20273, PROFILES["graph"]), None, sql=True) is None


@pytest.mark.drawn
@share(10)
@given(null_programs())
def test_null_programs(drawn: Drawn) -> None:
    agrees(drawn)


@pytest.mark.drawn
@share(10)
@given(optional_programs())
def test_optional_programs(drawn: Drawn) -> None:
    agrees(drawn)
