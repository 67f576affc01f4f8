"""A small change does little: what did not change is neither planned, copied nor indexed again; and
the answers are those of a fresh database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog.engine import draft
from gdatalog.engine.evaluator import evaluator
from gdatalog.engine.operators import incremental
from gdatalog.engine.rules.index_lookup import IndexLookup
from gdatalog.storage import parts, relation
from gdatalog.storage.key_columns import CONVERTED_ALONE
from gdatalog.storage.membership import SEARCHED_ALONE, places_in
from tests.test_maintenance import as_if_many
from tests.tuned import tune

Edges = list[tuple[int, int]]
CHAINS: Edges = [(at, at + 1) for at in range(400) if at % 20 != 19]
VIEWS = {
    "two hops": ("v(x, z) <- E(x, y), E(y, z).", "?- v(0, z)."),
    "a closure": ("v(x, y) <- E(x, y). v(x, z) <- v(x, y), E(y, z).", "?- v(0, z)."),
    "mutual": (
        "v(x, y) <- E(x, y). v(x, z) <- w(x, y), E(y, z). w(x, z) <- v(x, y), E(y, z).",
        "?- v(0, z), z > 3.",
    ),
    "a view of a view": ("v(x, z) <- w(x, y), E(y, z). w(x, y) <- E(x, y), x < y.", "?- v(0, z)."),
}


def counted(monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> list[str]:
    """A list that gets an entry for each call of a function."""
    calls: list[str] = []
    real: Callable[..., Any] = getattr(where, name)

    def counting(*args: Any, **options: Any) -> Any:
        calls.append(name)
        return real(*args, **options)

    monkeypatch.setattr(where, name, counting)
    return calls


def as_if_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relations lie in parts, and get an index when they are looked up in for the second time."""
    monkeypatch.setattr(parts, "APART_FROM", 64)
    tune(monkeypatch, scanned_from=1, index_scans=1)


@pytest.mark.parametrize("view", list(VIEWS))
def test_a_row_is_inserted_and_a_view_asked(view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_if_large(monkeypatch)
    rules, question = VIEWS[view]
    with gd.connect(device="cpu") as db:
        db["E"] = CHAINS
        db.run(rules)
        len(db["v"])
        insert, new = db.inserter("E"), iter(range(1000, 2000))
        for _ in range(8):
            insert([(0, next(new))])
            db.query(question).fetchall()
        plans = counted(monkeypatch, incremental, "plan_rule")
        plans += counted(monkeypatch, draft, "plan_rule")
        indexes = counted(monkeypatch, relation, "build_trie")
        looked_up = counted(monkeypatch, IndexLookup, "of_parts")
        large = db.workspace.stored["E"].parts[0]
        for _ in range(8):
            insert([(0, next(new))])
            found = db.query(question).fetchall()
        assert (plans, indexes) == ([], [])
        assert len(looked_up) >= 16  # each time: by a rule, and by the question
        assert db.workspace.stored["E"].parts[0] is large
        with gd.connect(device="cpu") as fresh:
            fresh["E"] = db["E"].fetchall()
            fresh.run(rules)
            assert sorted(found) == sorted(fresh.query(question).fetchall())


def test_a_recursion_of_a_text_that_is_asked_again_is_evaluated_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "r(y) <- C(1, y). r(z) <- r(y), C(y, z). ?- r(y)."
    with gd.connect(device="cpu") as db:
        db["C"] = [(x, x + 1) for x in range(20)]
        for _ in range(3):  # until it is bound
            assert len(db.query(text)) == 19
        ran = counted(monkeypatch, evaluator, "run")
        assert len(db.query(text)) == 19 and not ran
        db.insert("C", [(20, 21)])
        assert len(db.query(text)) == 20 and ran


def test_only_counted_relations_are_not_evaluated() -> None:
    with gd.connect(device="cpu") as db:
        db["E"] = [(at, at + 1) for at in range(300)]
        db.run("p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z).")
        for _ in range(3):
            assert db.query("n(count()) <- p(_, _).").fetchall() == [(45150,)]
            assert "p" not in db.workspace.evaluated()
        db.insert("E", [(300, 301)])
        assert db.query("n(count()) <- p(_, _).").fetchall() == [(45451,)]
        assert "p" not in db.workspace.evaluated()


@pytest.mark.parametrize("count", [0, 1, SEARCHED_ALONE, SEARCHED_ALONE + 1, 40])
def test_few_rows_are_found_where_many_are(count: int) -> None:
    random = np.random.default_rng(count)
    rows = random.integers(-3, 3, (60, 3)) * (1 << 33, 1, 1)
    among = tuple(np.unique(rows, axis=0).T)
    among = (among[0], among[1].astype(np.int32), among[2])
    wanted = random.integers(-4, 4, (count, 3)) * (1 << 33, 1, 1)
    wanted[: count // 4, 1] = 1 << 40  # which a column of 32 bits cannot hold
    places, there = places_in(among, tuple(wanted.T))
    held = set(map(tuple, np.stack(among, axis=1).tolist()))
    assert [tuple(row) in held for row in wanted.tolist()] == there.tolist()
    for row, at in zip(wanted[there].tolist(), places[there].tolist(), strict=True):
        assert [int(column[at]) for column in among] == row


@pytest.mark.parametrize(
    "new",
    [
        [(1, "a"), (1, "a"), (2, "b")],
        [(-(1 << 63), "a")],
        [(1 << 62, "zürich")],
        [(at, str(at)) for at in range(CONVERTED_ALONE + 1)],
        [[1, "a"]],
        [],
    ],
)
@pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")
def test_few_rows_are_converted_as_many_are(new: list[Any]) -> None:
    with gd.connect(device="cpu") as db, gd.connect(device="cpu") as whole:
        db["T"] = [(7, "seven")]
        inserted = db.insert("T", new)
        whole["T"] = [(7, "seven"), *new]
        assert sorted(db["T"].fetchall()) == sorted(whole["T"].fetchall())
        assert inserted.rows == len(whole["T"]) - 1


@pytest.mark.parametrize("wrong", [[(1,)], [(True, "a")], [(1, 2)], [(1.5, "a")]])
def test_rows_that_do_not_fit_are_refused(wrong: list[Any]) -> None:
    with gd.connect(device="cpu") as db:
        db["T"] = [(7, "seven")]
        with pytest.raises(gd.DataError):
            db.insert("T", wrong)
        assert db["T"].fetchall() == [(7, "seven")]


@pytest.mark.parametrize(
    "edges, text, found",
    [
        ([(1, 2), (2, 1)], "?- E(x, $k).", {1: {2, 5}, 5: {5}}),  # E was symmetric
        ([(1, 2), (1, 3)], "?- E($k, y), y > $k.", {1: {2, 3}, 5: set()}),  # it ascended
        ([(1, 2), (1, 3)], "?- E($k, y), y != $k.", {1: {2, 3}, 5: {1}}),  # it had no loops
    ],
)
def test_a_look_up_relies_on_nothing_that_changes(
    edges: Edges, text: str, found: dict[int, set[int]]
) -> None:
    with gd.connect(device="cpu") as db:
        db["E"] = edges
        q = db.prepare(text)
        for _ in range(4):
            q(k=1)
        db.insert("E", [(5, 1), (5, 5)])
        for _ in range(3):
            for k, expected in found.items():
                assert {row[0] for row in q(k=k).fetchall()} == expected


number = st.integers(0, 7)
pair = st.tuples(number, number)
RULES = [
    "p(x, z) <- E(x, y), F(y, z).",
    "p(x, y) <- E(x, y). p(x, z) <- p(x, y), F(y, z).",
    "p(x, y) <- E(x, y). p(x, z) <- p(x, y), p(y, z). p(y, x) <- F(x, y), x < y.",
    "p(x, y) <- q(x, y). q(x, z) <- p(x, y), E(y, z). q(x, y) <- F(x, y), x != 3.",
    "p(x, min(n)) <- E(0, x), n = 1. p(y, min(n + 1)) <- p(x, n), F(x, y).",
    "p(x, y) <- E(x, y), not F(y, x). p(x, z) <- p(x, y), E(y, z).",
    "p(x, c) <- E(x, _), c = count : { F(x, _) }.",
    "p(x, z) <- E(x, y), F(y, z), E(z, x), x <= z. p(5, 5).",
    "p(x, x) <- E(x, x). p(x, y) <- E(y, x), F(x, _).",
]
ASKS = [
    "?- p($x, y).",
    "?- p(x, $x).",
    "?- p($x, y), y > 2.",
    "?- p($x, y), E(y, z).",
    "?- p(x, y).",
]
CHANGES = ["insert", "insert", "insert", "load", "many"]
Change = tuple[str, str, list[tuple[int, int]], list[tuple[int, int, int]]]


@pytest.mark.drawn
@pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")
@given(
    st.sampled_from(RULES),
    st.lists(pair, min_size=1, max_size=12),
    st.lists(
        st.tuples(
            st.sampled_from(CHANGES),
            st.sampled_from("EF"),
            st.lists(pair, min_size=1, max_size=3),
            st.lists(st.tuples(st.integers(0, len(ASKS) - 1), number, st.integers(0, 2))),
        ),
        max_size=8,
    ),
)
def test_drawn_changes(rules: str, start: list[tuple[int, int]], changes: list[Change]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        as_if_many(patch, 4)
        tune(patch, part_asked=3, whole_view_asked=2, scanned_from=2, index_scans=1)
        data = {"E": {*start}, "F": {*start[::2]}}
        with gd.connect(device="cpu") as db:
            for name, there in data.items():
                db[name] = [*there]
            db.run(rules)
            asked = [db.prepare(text) for text in ASKS]
            inserters = {name: db.inserter(name) for name in data}
            for how, name, rows, asks in changes:
                if how == "many":
                    rows = [(a, b + at) for a, b in rows for at in range(20)]
                if how == "load":
                    db[name] = rows
                    data[name] = set()
                else:
                    inserters[name](rows)
                data[name].update(rows)
                with gd.connect(device="cpu") as fresh:
                    for other, there in data.items():
                        fresh[other] = [*there]
                    fresh.run(rules)
                    len(fresh["p"])
                    for number, x, way in asks:
                        values = {"x": x} if "$" in ASKS[number] else {}
                        expected = sorted(fresh.query(ASKS[number], values).fetchall())
                        if way == 0:
                            found = asked[number](values)
                        elif way == 1:
                            found = db.query(ASKS[number], values)
                        else:
                            found = db.query(ASKS[number].replace("$x", str(x)))
                        assert sorted(found.fetchall()) == expected, (ASKS[number], x)
            with gd.connect(device="cpu") as fresh:
                for other, there in data.items():
                    fresh[other] = [*there]
                fresh.run(rules)
                assert {*db["p"].fetchall()} == {*fresh["p"].fetchall()}
