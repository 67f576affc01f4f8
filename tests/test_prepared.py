"""Texts that come again: nothing of before is used where anything has changed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest

import gdatalog as gd
from gdatalog.engine import draft
from gdatalog.engine.compiler import compiler
from gdatalog.engine.compiler.plans import Looking, Plans
from gdatalog.engine.recent import Recent
from gdatalog.parser import parse as parse_text
from gdatalog.parser.syntax import Rule
from gdatalog.plan.join_plan import RulePlan
from gdatalog.planner.check import CheckedRule, validity
from gdatalog.storage.relation import Relation

TRIANGLES = "n(count()) <- E(a,b), E(b,c), E(a,c)."


@pytest.fixture
def db() -> gd.Database:
    found = gd.connect()
    found["E"] = [(1, 2), (2, 3), (1, 3)]
    return found


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What has been done for a query: parsed, checked, planned."""
    done: list[str] = []

    def watched(module: Any, name: str, what: str) -> None:
        function = getattr(module, name)

        def watching(*args: Any, **options: Any) -> Any:
            done.append(what)
            return function(*args, **options)

        monkeypatch.setattr(module, name, watching)

    watched(compiler, "parse_with_cautions", "parsed")
    watched(validity, "examine", "checked")
    watched(draft, "plan_rule", "planned")
    yield done


def rows(result: gd.Result) -> list[tuple[Any, ...]]:
    return sorted(result.fetchall())


def test_the_same_text_on_the_same_data_is_only_executed(db: gd.Database, work: list[str]) -> None:
    assert rows(db.query(TRIANGLES)) == [(1,)]
    assert work == ["parsed", "checked", "planned"]
    assert rows(db.query(TRIANGLES)) == [(1,)] and len(work) == 3
    assert rows(db.query(TRIANGLES, limit=1)) == [(1,)] and len(work) == 3
    assert rows(db.profile(TRIANGLES).result) == [(1,)] and len(work) == 3
    assert str(db.explain(TRIANGLES)) == str(db.explain(TRIANGLES))
    assert rows(db.query(TRIANGLES + " ")) == [(1,)]
    assert work[-3:] == ["parsed", "checked", "planned"]


def test_other_data_are_planned_for(db: gd.Database, work: list[str]) -> None:
    db.query(TRIANGLES)
    work.clear()
    db.insert("E", [(3, 4), (2, 4)])
    assert rows(db.query(TRIANGLES)) == [(2,)] and work == ["planned"]
    db["E"] = [(1, 2), (2, 1), (2, 3), (3, 2), (1, 3), (3, 1), (3, 3)]
    assert rows(db.query(TRIANGLES)) == [(6 + 3 * 2 + 1,)]
    assert work == ["planned"] * 2
    db["E"] = [(2, 1), (3, 2), (3, 1)]
    assert rows(db.query(TRIANGLES)) == [(1,)] and work == ["planned"] * 3


def test_data_of_other_types_are_checked(db: gd.Database, work: list[str]) -> None:
    text = "p(x) <- E(x, y), x < y."
    assert rows(db.query(text)) == [(1,), (2,)]
    db["E"] = [("b", "a"), ("a", "b")]
    assert rows(db.query(text)) == [("a",)]
    db["E"] = [(1, "a")]
    with pytest.raises(gd.TypeMismatchError):
        db.query(text)
    del db["E"]
    for _ in range(2):
        with pytest.raises(gd.NameResolutionError):
            db.query(text)
    db["E"] = [(1, 2)]
    assert rows(db.query(text)) == [(1,)]


def test_columns_of_other_names_are_told(db: gd.Database) -> None:
    db.load("E", [(1, 2)], columns=["src", "dst"])
    assert db.query("?- E.").columns == ("src", "dst")
    db.load("E", [(1, 2)], columns=["from", "to"])
    assert db.query("?- E.").columns == ("from", "to")


def test_parameters(db: gd.Database, work: list[str]) -> None:
    text = "?- E($x, y)."
    assert rows(db.query(text, {"x": 1})) == [(2,), (3,)]
    work.clear()
    assert rows(db.query(text, {"x": 2})) == [(3,)] and work == []
    with pytest.raises(gd.TypeMismatchError):
        db.query(text, {"x": "a"})
    assert rows(db.query(text, {"x": 2})) == [(3,)]
    db["F"] = [(0.5,), (2.0,)]
    for value in (2, 2.0):
        assert rows(db.query("?- F(x), x >= $x.", {"x": value})) == [(2.0,)]


def test_kept_rules_that_change(db: gd.Database, work: list[str]) -> None:
    db.run("p(x) <- E(x, _).", name="rules")
    assert rows(db.query("q(x) <- p(x), x > 1.")) == [(2,)]
    work.clear()
    assert rows(db.query("q(x) <- p(x), x > 1.")) == [(2,)] and work == []
    db.run("p(x) <- E(_, x).", name="rules")
    assert rows(db.query("q(x) <- p(x), x > 1.")) == [(2,), (3,)]
    db.insert("E", [(9, 9)])
    assert rows(db.query("q(x) <- p(x), x > 1.")) == [(2,), (3,), (9,)]
    db.run("p(7).", name="rules")
    assert rows(db.query("q(x) <- p(x), x > 1.")) == [(7,)]


def test_files_that_change(db: gd.Database, tmp_path: Path) -> None:
    library, data = tmp_path / "lib.dl", tmp_path / "F.csv"
    library.write_text("p(x) <- E(x, _).")
    data.write_text("a\n5\n")
    text = f'.include "{library}"\n.input F("{data}")\nq(x) <- p(x). q(x) <- F(x).'
    assert rows(db.query(text)) == [(1,), (2,), (5,)]
    library.write_text("p(x) <- E(_, x).")
    assert rows(db.query(text)) == [(2,), (3,), (5,)]
    data.write_text("a\n55\n")
    assert rows(db.query(text)) == [(2,), (3,), (55,)]
    data.write_text("a\ntext\n")
    with pytest.raises(gd.TypeMismatchError):
        db.query(text)


def test_warnings_come_each_time(db: gd.Database) -> None:
    for _ in range(2):
        with pytest.warns(gd.ProgramWarning):
            db.query("q(x) <- E(x, typo).")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        db.query("q(x) <- E(x, _).")


def test_a_database_that_is_closed_answers_nothing(db: gd.Database) -> None:
    db.query(TRIANGLES)
    db.close()
    with pytest.raises(gd.UsageError):
        db.query(TRIANGLES)


def test_long_texts_are_not_kept(
    db: gd.Database, work: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "LONGEST", 10)
    db.query(TRIANGLES)
    db.query(TRIANGLES)
    assert work.count("parsed") == 2


def test_what_was_used_last_is_kept() -> None:
    recent = Recent[str](2)
    recent.put(1, "a")
    recent.put(2, "b")
    assert recent.get(1) == "a"
    recent.put(3, "c")
    assert recent.get(2) is None and recent.get(1) == "a" and len(recent) == 2
    recent.clear()
    assert recent.get(1) is None


def test_long_texts_leave_room_for_few() -> None:
    recent = Recent[str](100, length=10)
    for at in range(5):
        recent.put(at, "a", length=4)
    assert len(recent) == 2 and recent.get(4) and recent.get(3)
    recent.put(4, "b", length=1)
    recent.put(5, "c", length=5)
    assert len(recent) == 3
    recent.put(6, "d", length=90)
    assert len(recent) == 1 and recent.get(6) == "d"


def test_a_plan_is_for_relations_that_it_does_not_keep_alive() -> None:
    plans = Plans()
    (fact,) = parse_text("p(1).").statements
    assert isinstance(fact, Rule)
    rule = CheckedRule(fact.heads[0], None, {}, fact.span)
    made: list[RulePlan] = []

    def plan(first: bool) -> RulePlan:
        found = plans.found(rule, first, relations.__getitem__, {})
        if found is None:
            looking = Looking(relations.__getitem__)
            looking("E")
            made.append(found := RulePlan("p", (), ()))
            plans.keep(rule, first, found, looking.at, [])
        return found

    relations = {"E": Relation((), (), (), 1)}
    for first, count in ((True, 1), (True, 1), (False, 2), (True, 2), (False, 2)):
        assert plan(first) is made[not first] and len(made) == count
    held = ref(relations["E"])
    relations["E"] = Relation((), (), (), 1)
    assert held() is None
    assert plan(True) is made[0]
    relations["E"] = Relation((), (), (), 0)
    assert plan(True) is made[2]


def test_relations_that_are_made_again_with_the_same_rows(db: gd.Database, work: list[str]) -> None:
    text = "loop(x) <- E(x, y), E(y, _). far(x, z) <- loop(x), E(x, z). ?- far(x, z)."
    assert rows(db.query(text)) == [(1, 2), (1, 3)]
    assert work.count("planned") == 2
    work.clear()
    assert rows(db.query(text)) == [(1, 2), (1, 3)] and not work
    db.insert("E", [(3, 1)])
    assert rows(db.query(text)) == [(1, 2), (1, 3), (2, 3), (3, 1)]
    assert work == ["planned", "planned"]


def test_a_fingerprint_is_that_of_the_rows() -> None:
    def relation(*given: tuple[int, int]) -> Relation:
        columns = [np.array(column) for column in zip(*given, strict=True)]
        return Relation.from_rows(("x", "y"), ("int", "int"), columns, len(given))

    found = relation((1, 2), (3, 4)).store.fingerprint
    assert found is not None and found == relation((3, 4), (1, 2), (3, 4)).store.fingerprint
    assert found != relation((1, 2), (3, 5)).store.fingerprint
    assert found != relation((1, 3), (2, 4)).store.fingerprint
    many = relation(*((x, x + 1) for x in range(20_000)))
    assert many.store.fingerprint is None
    assert Relation((), (), (), 0).store.fingerprint != Relation((), (), (), 1).store.fingerprint
