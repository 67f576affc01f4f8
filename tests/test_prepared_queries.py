"""Prepared queries and inserts: the answers are those of `query`, whatever changes in between."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdatalog as gd

EDGES = [(1, 2), (2, 3), (1, 3), (3, 4), (4, 1)]
PATH = "path(x, y) <- E(x, y). path(x, z) <- path(x, y), E(y, z)."


@pytest.fixture
def db() -> gd.Database:
    found = gd.connect(device="cpu")
    found["E"] = EDGES
    return found


def rows(result: gd.Result) -> list[tuple[Any, ...]]:
    return sorted(result.fetchall())


def test_values_by_name_and_as_a_mapping(db: gd.Database) -> None:
    q = db.prepare("?- E($x, y), y < $most.")
    assert rows(q(x=1, most=9)) == [(2,), (3,)]
    assert rows(q({"x": 1, "most": 3})) == rows(q({"x": 1}, most=3)) == [(2,)]
    assert q(x=1, most=9, limit=1).shape == (1, 1)
    with pytest.raises(gd.RowLimitError):
        q(x=1, most=9, max_rows=1)
    with pytest.raises(gd.UsageError, match="negative"):
        q(x=1, most=9, limit=-1)
    assert repr(q) == "<gdatalog.PreparedQuery: ?- E($x, y), y < $most.>"
    assert q.text == "?- E($x, y), y < $most."


def test_values_that_are_given_when_it_is_prepared(db: gd.Database) -> None:
    q = db.prepare("?- E($x, y), y < $most.", {"most": 3})
    assert rows(q(x=1)) == [(2,)] and rows(q(x=1, most=9)) == [(2,), (3,)]
    any_type = db.prepare("?- E(x, y), $a = $b.", {"a": "text", "b": "text"})
    assert dict(any_type.params) == {"a": "symbol", "b": "symbol"}
    assert len(any_type()) == 5 and not any_type(b="other")


def test_parameters_of_options_names(db: gd.Database) -> None:
    q = db.prepare("?- E($limit, y), y < $timeout.")
    assert rows(q({"limit": 1, "timeout": 9}, limit=5, timeout=60)) == [(2,), (3,)]


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("?- E(x, y).", {}),
        ("?- E($a, y), y != $b.", {"a": "int", "b": "int"}),
        ("?- E(x, y), x in $some.", {"some": "list of int"}),
        ("?- W(x, w), w > $least.", {"least": "float"}),
        ("?- W(x, w), x = $name.", {"name": "symbol"}),
        ("?- T(t), t >= $since.", {"since": "timestamp"}),
        ("?- E(x, _), y = x * $by.", {"by": "int"}),
        ("?- W(_, w), y = w * $by.", {"by": "float"}),
        ("q($k, y) <- E($k, y), y < $k + $more.", {"k": "int", "more": "int"}),
    ],
)
def test_types_follow_from_use(db: gd.Database, text: str, types: dict[str, str]) -> None:
    import datetime

    db["W"] = [("a", 1.5)]
    db["T"] = [(datetime.datetime(2026, 1, 1),)]
    assert dict(db.prepare(text).params) == types


def test_ints_fit_floats(db: gd.Database) -> None:
    db["W"] = [("a", 1.5), ("b", 2.0)]
    q = db.prepare("?- W(x, w), w >= $least.")
    assert rows(q(least=2)) == rows(q(least=2.0)) == [("b", 2.0)]
    some = db.prepare("?- W(x, w), w in $some.")
    assert rows(some(some=[2])) == rows(some(some=[2.0, 7.0])) == [("b", 2.0)]
    assert not some(some=[])


def test_times(db: gd.Database) -> None:
    import datetime

    day, hour = datetime.date(2026, 1, 2), datetime.timedelta(hours=1)
    noon = datetime.datetime(2026, 1, 2, 12)
    db["T"], db["D"], db["L"] = [(noon,)], [(day,)], [(hour,)]
    since = db.prepare("?- T(t), t >= $since.")
    for _ in range(2):
        assert len(since(since=noon)) == len(since(since=np.datetime64(noon))) == 1
        assert len(since(since=day)) == 1 and not since(since=noon + hour)
    among = db.prepare("?- T(t), t in $some.")
    assert len(among(some=[noon])) == 1 and not among(some=[day])
    assert len(db.prepare("?- D($day).")(day=day)) == len(db.prepare("?- L($by).")(by=hour)) == 1
    with pytest.raises(gd.TypeMismatchError, match="`\\$day` is date, not timestamp"):
        db.prepare("?- D($day).")(day=noon)


WRONG: list[tuple[dict[str, Any], type[gd.Error], str]] = [
    ({"x": "a"}, gd.TypeMismatchError, "the parameter `$x` is int, not symbol"),
    ({"x": 1.5}, gd.TypeMismatchError, "the parameter `$x` is int, not float"),
    ({"x": [1]}, gd.TypeMismatchError, "the parameter `$x` is int, not list of int"),
    ({}, gd.UsageError, "the parameter `$x` has no value"),
    ({"x": 1, "y": 1}, gd.UsageError, "the query has no parameter `$y`"),
    ({"x": None}, gd.DataError, "the parameter $x cannot be None"),
]


@pytest.mark.parametrize(("values", "kind", "message"), WRONG)
def test_wrong_values(
    db: gd.Database, values: dict[str, Any], kind: type[gd.Error], message: str
) -> None:
    q = db.prepare("?- E($x, y).")
    for _ in range(2):
        with pytest.raises(kind, match=re.escape(message)):
            q(values)
        assert rows(q(x=2)) == [(3,)]


UNFIT: list[tuple[str, type[gd.Error], str]] = [
    ("?- E(x, y), $k = $j.", gd.TypeMismatchError, "nothing says which type"),
    ("?- F($x, y).", gd.NameResolutionError, "there is no relation"),
    ('?- E($x, y), $x = "a".', gd.TypeMismatchError, "int"),
    ("?- E($x, y", gd.ParseError, "the statement"),
    ("?- E($x, _). ?- E(_, $x).", gd.UsageError, "a query has one answer"),
    ("", gd.UsageError, "this text asks for nothing"),
]


@pytest.mark.parametrize(("text", "kind", "message"), UNFIT)
def test_what_cannot_be_prepared(
    db: gd.Database, text: str, kind: type[gd.Error], message: str
) -> None:
    with pytest.raises(kind, match=message):
        db.prepare(text)


def test_it_is_prepared_again_when_types_or_rules_change(db: gd.Database) -> None:
    db.run("p(x, y) <- E(x, y).", name="rules")
    q = db.prepare("?- p($x, y).")
    assert rows(q(x=1)) == [(2,), (3,)]
    db.run("p(y, x) <- E(x, y).", name="rules")
    assert rows(q(x=1)) == [(4,)]
    db.insert("E", [(5, 1)])
    assert rows(q(x=1)) == [(4,), (5,)]
    with pytest.warns(gd.ProgramWarning):
        db.drop("E")
    with pytest.raises(gd.NameResolutionError):
        q(x=1)
    db["E"] = [("a", "b")]
    assert rows(q(x="b")) == [("a",)] and dict(q.params) == {"x": "symbol"}
    with pytest.raises(gd.TypeMismatchError):
        q(x=1)
    db.drop("p")
    with pytest.raises(gd.NameResolutionError, match="there is no relation `p`"):
        q(x="b")


def test_a_closed_database_answers_nothing(db: gd.Database) -> None:
    q, insert = db.prepare("?- E($x, y)."), db.inserter("E")
    db.close()
    with pytest.raises(gd.UsageError):
        q(x=1)
    with pytest.raises(gd.UsageError):
        insert([(1, 2)])


def test_warnings_come_once(db: gd.Database, recwarn: pytest.WarningsRecorder) -> None:
    q = db.prepare("q(x) <- E(x, typo), x > $x.")
    assert len(recwarn) == 1
    q(x=1)
    assert len(recwarn) == 1


def test_files_are_read_again(db: gd.Database, tmp_path: Any) -> None:
    data = tmp_path / "F.csv"
    data.write_text("a\n5\n")
    q = db.prepare(f'.input F("{data}")\n?- F(x), x >= $x.')
    assert rows(q(x=1)) == [(5,)]
    data.write_text("a\n55\n6\n")
    assert rows(q(x=6)) == [(6,), (55,)]


def test_parameters_that_rules_were_kept_with(db: gd.Database) -> None:
    db.run("big(x, y) <- E(x, y), y >= $least.", {"least": 3})
    q = db.prepare("?- big(x, y), x <= $most.")
    assert dict(q.params) == {"most": "int"}
    assert rows(q(most=2)) == [(1, 3), (2, 3)]
    own = db.prepare("?- big(x, $least).")
    assert rows(own()) == [(1,), (2,)] and rows(own(least=4)) == [(3,)]
    assert rows(q(most=3)) == [(1, 3), (2, 3), (3, 4)]


def test_threads_share_one(db: gd.Database) -> None:
    q, insert = db.prepare(PATH + "?- path($x, y)."), db.inserter("F")

    def ask(x: int) -> tuple[list[tuple[Any, ...]], int]:
        return rows(q(x=x)), insert([(x, x)]).rows

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, [1, 2, 3, 4, 9] * 8))
    assert [answer for answer, _ in found] == [*[[(1,), (2,), (3,), (4,)]] * 4, []] * 8
    assert sum(new for _, new in found) == len(db["F"]) == 5


def test_inserters(db: gd.Database) -> None:
    insert = db.inserter("E")
    assert repr(insert([(1, 2), (7, 8)])) == "E: 1 row inserted, 1 known already"
    assert insert(db["E"]).rows == 0
    assert rows(db.query("?- E(7, y).")) == [(8,)]
    numbered = db.inserter("N", row_id="id")
    numbered([("a",)])
    numbered([("a",), ("b",)])
    assert rows(db["N"]) == [(0, "a"), (1, "a"), (2, "b")]
    mending = db.inserter("M", nulls="drop")
    with pytest.warns(gd.ProgramWarning):
        mending([(1, 2), (None, 3)])
    assert rows(db["M"]) == [(1, 2)]
    with pytest.raises(gd.UsageError):
        db.inserter("N", nulls="what")  # type: ignore[arg-type]
    with pytest.raises(gd.Error):
        db.inserter("no name")


number = st.integers(0, 6)
pairs = st.lists(st.tuples(number, number), max_size=6)
RULES = (
    "p(x, y) <- E(x, y).",
    PATH.replace("path", "p"),
    "p(x, y) <- E(y, x), x < 5. p(1, 1).",
    "p(x, c) <- E(x, _), c = count : { E(x, _) }.",
)
TEXTS = (
    "?- E($x, y).",
    "?- E(x, $x), x > $y.",
    "?- E($x, $y).",
    "?- E(x, y), x < $x, y >= $y.",
    "?- E($x, y), E(y, z), z != $y.",
    "?- p($x, y).",
    "?- p(x, $y).",
    "?- p(x, y), not E(y, $x).",
    "n(count()) <- p($x, y).",
    "n(x, count()) <- p(x, y), y > $y.",
    "q(x) <- p(x, $x) ; E(x, $y).",
    PATH + "?- path($x, y).",
    "?- E(x, y), x in $some.",
    "?- p($x + 1, y).",
)


def _insert(db: gd.Database, given: list[tuple[int, int]]) -> None:
    db.insert("E", given)


def _load(db: gd.Database, given: list[tuple[int, int]]) -> None:
    db["E"] = given or [(0, 0)]


def _rules(db: gd.Database, given: list[tuple[int, int]]) -> None:
    db.run(RULES[len(given) % len(RULES)], name="rules")


@pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")
@given(
    st.lists(
        st.tuples(
            st.sampled_from([_insert, _load, _rules, _insert]),
            pairs,
            st.lists(st.tuples(st.sampled_from(TEXTS), number, number, st.none() | number)),
        ),
        max_size=6,
    )
)
def test_answers_are_those_of_query(
    steps: list[
        tuple[
            Callable[[gd.Database, list[tuple[int, int]]], None],
            list[tuple[int, int]],
            list[tuple[str, int, int, int | None]],
        ]
    ],
) -> None:
    with gd.connect(device="cpu") as db, gd.connect(device="cpu") as other:
        for each in (db, other):
            each["E"] = EDGES
            each.run(RULES[0], name="rules")
        prepared = {text: db.prepare(text) for text in TEXTS}
        for change, given_rows, asks in steps:
            for each in (db, other):
                change(each, given_rows)
            for text, x, y, limit in asks:
                values = {"x": x, "y": y, "some": [x, y]}
                values = {name: values[name] for name in prepared[text].params}
                found = prepared[text](values, limit=limit)
                expected = rows(other.query(" " + text, values))
                assert len(found) == min(len(expected), len(expected) if limit is None else limit)
                assert set(rows(found)) <= set(expected), text
                # as `query` answers a text that came before
                assert rows(db.query(text, values)) == expected, text
