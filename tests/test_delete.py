"""`db.delete`: rows by their values, or by a condition."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import gdatalog as gd
from gdatalog.parser.syntax import MANY

PATHS = "path(x, z) <- E(x, z) ; path(x, y), E(y, z). many(x, count()) <- path(x, _)."


@pytest.fixture
def db() -> gd.Database:
    made = gd.connect()
    made["E"] = [(1, 2), (2, 3), (3, 4), (9, 9)]
    return made


def rows(db: gd.Database, name: str) -> list[tuple[Any, ...]]:
    return db[name].sorted().fetchall()


def error(db: gd.Database, *given: Any) -> str:
    with pytest.raises(gd.Error) as found:
        db.delete(*given)
    return str(found.value)


def test_nothing_shows_rows_that_went(db: gd.Database) -> None:
    db.run(PATHS)
    ask = db.prepare("?- path($x, y).")
    query = "?- E(x, y), E(y, z)."
    for _ in range(3):  # kept, then bound
        assert len(ask(x=1)) == 3 and len(db.query(query)) == 3
    assert rows(db, "many") == [(1, 3), (2, 2), (3, 1), (9, 1)]
    assert str(db.delete("E", [(1, 2), (5, 6)])) == "E: 1 row deleted, 1 not there"
    assert len(ask(x=1)) == 0 and db.query(query).sorted().fetchall() == [(2, 3, 4), (9, 9, 9)]
    assert rows(db, "many") == [(2, 2), (3, 1), (9, 1)]
    db.insert("E", [(1, 3)])
    assert ask(x=1).sorted().fetchall() == [(3,), (4,)]
    assert len(db["path"].to_pandas()) == 6


def test_other_rows_stay_as_they_were_evaluated(db: gd.Database) -> None:
    db.run(PATHS)
    before = db.workspace.catalog
    assert db.delete("E", [(7, 7)]).rows == 0 and db.delete("E(x, y), x > y").missing == 0
    assert db.workspace.catalog is before


def test_a_condition_reads_rules_and_other_relations(db: gd.Database) -> None:
    db.run(PATHS + ' kind(3, "leaf"). kind(9, "loop").')
    assert db.delete("E(x, x)").rows == 1
    assert db.delete("E(x, y), kind(y, $what), path(x, _)", params={"what": "leaf"}).rows == 1
    assert rows(db, "E") == [(1, 2), (3, 4)]
    assert db.delete("E(_, _), !E(7, _)").rows == 2
    assert rows(db, "E") == rows(db, "path") == [] and db["E"].columns == ("column0", "column1")


def test_rows_match_by_the_names_of_columns() -> None:
    db = gd.connect()
    people = pd.DataFrame({"name": ["ann", "bob", None, "dan"], "age": [30, None, 40, 50]})
    db["person"] = people
    gone = pd.DataFrame({"age": [None, 50.0, None], "name": ["bob", "dan", "eve"]})
    assert repr(db.delete("person", gone)) == "person: 2 rows deleted, 1 not there"
    assert db.delete("person", pa.table({"name": [None], "age": [40.0]})).rows == 1
    left = people[people.name == "ann"]
    pd.testing.assert_frame_equal(db["person"].df(), left, check_dtype=True)
    db["person"] = people
    assert db.delete("person(age = null)").rows == 1
    assert db.delete("person(name = n, age = a), n = null, a > 9.0").rows == 1
    assert db.delete('person("dan", _)').rows == 1
    pd.testing.assert_frame_equal(db["person"].df(), left)


def test_rows_with_hidden_numbers() -> None:
    db = gd.connect()
    db.load("pay", [("ann", 5), ("ann", 5), ("bob", 7), ("bob", 7)], row_id=True)
    numbers = "?- pay(w, _, row_id = r)."
    assert str(db.delete("pay", [("ann", 5), ("eve", 1)])) == "pay: 2 rows deleted, 1 not there"
    assert db.delete("pay(_, a, row_id = r), r > 2").rows == 1
    db.insert("pay", [("cay", 1), ("cay", 1)])
    assert db.query(numbers).sorted().fetchall() == [("bob", 2), ("cay", 3), ("cay", 4)]
    by_number = pd.DataFrame({"column0": ["cay"], "column1": [1], "row_id": [4]})
    assert db.delete("pay", by_number).rows == 1
    assert db.query(numbers).sorted().fetchall() == [("bob", 2), ("cay", 3)]


def test_facts_of_programs(db: gd.Database) -> None:
    text = "E(1, 2). E(5, 6), F(1.5). F(2). G(null, 1). G(2, 1). p() <- F(_)."
    db.run(text, name="facts")
    assert db.delete("E", [(1, 2), (5, 6)]).rows == 2  # one was loaded, too
    assert rows(db, "E") == [(2, 3), (3, 4), (9, 9)] and len(db["F"]) == 2
    assert db.delete("F", [(1.5,), (2.0,), (2.5,)]).rows == 2
    assert len(db["F"]) == len(db["p"]) == 0  # F is known, and p valid
    assert db.delete("G", [(None, 1)]).rows == 1 and rows(db, "G") == [(2, 1)]
    db.run(text, name="facts")
    assert len(db["E"]) == 5 and len(db["F"]) == 2 and len(db["G"]) == 2
    db.run("q(1).", name="facts")
    assert len(db["E"]) == 3 and len(db["F"]) == 0


def test_many_facts_of_a_program() -> None:
    db, count = gd.connect(), 4 * MANY
    facts = [f"E({at}, {at + 1})." if at % 2 else f'F("f{at}"). // {at}' for at in range(count)]
    db.run("\n".join(facts), name="facts")
    assert db.delete(f"E(x, _), x < {count - 4}").rows == count // 2 - 2
    assert db.delete("F", [("f2",)]).rows == 1
    assert rows(db, "E") == [(count - 3, count - 2), (count - 1, count)]
    assert len(db["F"]) == count // 2 - 1
    assert len(db.workspace.statements()) < MANY
    assert db.delete('F(x), x != "f4"').rows == count // 2 - 2 and rows(db, "F") == [("f4",)]


def test_base_facts_beside_rules(db: gd.Database) -> None:
    db.run("E(y, x) <- E(x, y), x < 3. E(0, 1).")
    assert "deleted; its 1 rule may still derive them" in str(db.delete("E", [(0, 1), (3, 4)]))
    assert rows(db, "E") == [(1, 2), (2, 1), (2, 3), (3, 2), (9, 9)]
    assert db.delete("E(2, 1)").rows == 0 and db.delete("E", [(2, 1)]).missing == 1  # is derived


def test_rows_of_files(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("1,2\n3,4\n5,6\n")
    text = f'.input E("{path}")\nE(7, 8). first(x) <- E(x, _).'
    db = gd.connect()
    db.run(text, name="text")
    assert db.delete("E(7, _)").rows == 1
    path.write_text("1,2\n3,4\n5,60\n")
    assert rows(db, "E") == [(1, 2), (3, 4), (5, 60)]  # still read
    with pytest.warns(gd.ProgramWarning, match=r"E is no longer read by `.input`"):
        assert db.delete("E", [(3, 4)]).rows == 1
    path.write_text("")
    db.save(tmp_path / "x.gdb")
    for each in (db, gd.connect(tmp_path / "x.gdb")):
        assert rows(each, "E") == [(1, 2), (5, 60)] and rows(each, "first") == [(1,), (5,)]
    path.write_text("1,2\n")
    db.run(text + " ", name="text")  # the file, beside the rows that stayed
    assert rows(db, "E") == [(1, 2), (5, 60), (7, 8)]


def test_declared_relations() -> None:
    db = gd.connect()
    db.run('.decl d(a: int?, b: symbol)  d(1, "x"). d(null, "y").')
    assert str(db.delete("d", [(None, "y"), (2, None)])) == "d: 1 row deleted, 1 not there"
    assert db.delete("d", [(1, "x")]).rows == 1 and db.schema().type.tolist() == ["int?", "symbol"]
    db.run("rain().")
    assert db.delete("rain", [()]).rows == 1 and not db["rain"]


def test_mistakes(db: gd.Database) -> None:
    db.run(PATHS)
    assert error(db, "path", [(1, 2)]) == (
        "usage error: path has 1 rule and no facts of its own, which could be deleted\n"
        "  hint: its rows go with those that they follow from, in E"
    )
    assert "hint: did you mean 'path'?" in error(db, "pathh(1, _)")
    assert "there is no relation 'z'" in error(db, "z", [(1, 2)])
    assert "the relation has 2 columns" in error(db, "E", [(1, 2, 3)])
    assert "expected int, found the symbol 'a'" in error(db, "E", [("a", 1)])
    assert '`"a"` is symbol, but column `column0` of `E` is int' in error(db, 'E("a", _)')
    assert "has 1 argument here, but 2 columns there" in error(db, "E(1)")
    assert "`y` is not bound" in error(db, "E(x, _), y > 9")
    assert "has no value" in error(db, "E(x, _), x > $least")
    wrong = ["E", "x > 9", "!E(1, _)", "E(1, _). E(2, _).", "E(x, _) order by x"]
    for text in (*wrong, "E(x, x) <- E(x, _)"):
        assert "a deletion begins with an atom" in error(db, text)
    assert len(db["E"]) == 4


def test_threads_delete_and_read() -> None:
    db = gd.connect()
    db["E"] = [(at % 4, at) for at in range(400)]
    db.run("n(x, count()) <- E(x, _).")
    seen, gone = [], []

    def delete(own: int) -> None:
        for at in range(own, 400, 40):
            gone.append(db.delete("E", [(own, at)]).rows)
            seen.append({count for _, count in db["n"].fetchall()})

    threads = [threading.Thread(target=delete, args=(own,)) for own in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sum(gone) == 40 and rows(db, "n") == [(at, 90) for at in range(4)]
    assert all(90 <= count <= 100 for each in seen for count in each)
