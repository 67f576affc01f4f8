"""A database from Python: data in, rules that stay, queries, parameters, and whom it refuses.

Each thing that a database can do.
"""

from __future__ import annotations

import pickle
import warnings
from datetime import date, datetime
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import gdatalog as gd

EDGES = [(1, 2), (2, 3), (1, 3)]


@pytest.fixture
def db() -> gd.Database:
    db = gd.connect()
    db["E"] = EDGES
    return db


def rows(result: gd.Result) -> list[Any]:
    return result.sorted().fetchall()


# -------------------------------------------------------------------------------------- data

COLUMNS = {"src": [1, 2, 1], "dst": [2, 3, 3]}


@pytest.mark.parametrize(
    "data",
    [
        EDGES,
        [list(edge) for edge in EDGES],
        pd.DataFrame(COLUMNS),
        pl.DataFrame(COLUMNS),
        pa.table(COLUMNS),
        pa.table(COLUMNS).to_batches()[0],
        np.array(EDGES),
        np.array(EDGES, dtype=np.uint8),
        sparse.coo_array((np.ones(3), ([1, 2, 1], [2, 3, 3]))),
        nx.DiGraph(EDGES),
        COLUMNS,
    ],
    ids=lambda data: f"{type(data).__module__.split('.')[0]}.{type(data).__name__}",
)
def test_data_of_every_kind(data: Any) -> None:
    db = gd.connect()
    db["E"] = data
    assert rows(db["E"]) == sorted(EDGES)
    assert db["E"].dtypes == ("int", "int")
    assert rows(db.query("?- E(1, y).")) == [(2,), (3,)]


def test_files_results_and_column_names(db: gd.Database, tmp_path: Path) -> None:
    pd.DataFrame(COLUMNS).to_parquet(tmp_path / "e.parquet")
    (tmp_path / "e.csv").write_text("src,dst\n1,2\n2,3\n1,3\n")
    for name in ("e.parquet", "e.csv"):
        db["F"] = tmp_path / name
        assert db["F"].columns == ("src", "dst") and rows(db["F"]) == sorted(EDGES)
    db["G"] = db.query("?- E(1, y).")
    assert db["G"].columns == ("y",) and rows(db["G"]) == [(2,), (3,)]
    db.load("H", EDGES, columns=["a", "b"])
    assert db["H"].columns == ("a", "b")
    db.load("I", pd.DataFrame(COLUMNS), columns=["dst"])
    assert rows(db["I"]) == [(2,), (3,)]


def test_insert_and_delete(db: gd.Database) -> None:
    db.insert("E", [(3, 1), (1, 2)])
    assert rows(db["E"]) == [(1, 2), (1, 3), (2, 3), (3, 1)]
    db.insert("new", [("a",)])
    assert rows(db["new"]) == [("a",)]
    with pytest.raises(gd.DataError, match="expected int, found the symbol"):
        db.insert("E", [("a", "b")])
    with pytest.raises(gd.DataError):
        db.insert("E", [(1, 2, 3)])
    assert len(db["E"]) == 4
    del db["E"]
    assert "E" not in db.relations
    with pytest.raises(gd.NameResolutionError, match="there is no relation 'nev'") as caught:
        del db["nev"]
    assert caught.value.hint == "did you mean 'new'?"


@pytest.mark.parametrize("name", ["a b", "", "1a", "not", "true", "_", "E(x)", 3])
def test_a_name_must_be_one(db: gd.Database, name: Any) -> None:
    with pytest.raises(gd.UsageError, match="not a relation's name"):
        db[name] = EDGES


@pytest.mark.parametrize("name", ["E'", "a.b", "Größe", "x?"])
def test_names_with_more_than_letters(db: gd.Database, name: str) -> None:
    db[name] = [(7,)]
    assert rows(db[name]) == rows(db.query(f"?- {name}(x).")) == [(7,)]


def test_a_load_that_fails_leaves_what_was_there(db: gd.Database, tmp_path: Path) -> None:
    for bad in ([(1, 2), (1, np.nan)], [(1, 2), ("a", 2)], tmp_path / "none.csv", object()):
        with pytest.raises(gd.Error):
            db["E"] = bad
        with pytest.raises(gd.Error):
            db["F"] = bad
    assert rows(db["E"]) == sorted(EDGES)
    assert list(db.relations) == ["E"]


def test_data_follow_a_declaration_that_is_there() -> None:
    db = gd.connect()
    db.run(".decl W(x: int, w: float)")
    db["W"] = [(1, 2), (2, 3)]
    assert db["W"].columns == ("x", "w") and rows(db["W"]) == [(1, 2.0), (2, 3.0)]
    with pytest.raises(gd.DataError, match="'x': expected int, found the symbol 'a'"):
        db["W"] = [("a", 1.0)]


# ------------------------------------------------------------------------------------- views


def test_views_are_refreshed_when_their_inputs_change(db: gd.Database) -> None:
    db.run("path(x,z) <- E(x,z) ; path(x,y), E(y,z).  n(count()) <- path(_,_).")
    assert rows(db["n"]) == [(3,)]
    db.insert("E", [(3, 4)])
    assert rows(db["n"]) == [(6,)]
    db["E"] = [(1, 1)]
    assert rows(db["path"]) == [(1, 1)]
    with pytest.warns(gd.ProgramWarning, match="path has 1 rule, which still adds"):
        db["path"] = [(8, 9)]  # data beside rules
    assert rows(db["path"]) == [(1, 1), (8, 9)] and rows(db["n"]) == [(2,)]


def test_a_view_is_not_made_again_when_nothing_changed(db: gd.Database) -> None:
    db.run("p(x) <- E(x, _).")
    reads = db["p"]._relation
    assert db["p"]._relation is reads
    db.query("q(x) <- p(x). ?- q(x).")
    assert db["p"]._relation is reads
    db["F"] = [(1,)]
    assert db["p"]._relation is reads
    db.insert("E", [(9, 9)])
    assert db["p"]._relation is not reads


def test_the_same_text_or_name_again_replaces_its_rules(db: gd.Database, tmp_path: Path) -> None:
    db.run("p(x) <- E(x, _).")
    db.run("p(x) <- E(x, _).")
    db.run("q(1).", name="cell")
    db.run("q(2). r(3).", name="cell")
    assert rows(db["q"]) == [(2,)] and list(db.relations) == ["E", "p", "q", "r"]
    db.run("", name="cell")
    assert list(db.relations) == ["E", "p"]
    path = tmp_path / "a.dl"
    for number in (1, 2):
        path.write_text(f"f({number}).")
        db.run_file(path)
        assert rows(db["f"]) == [(number,)]
    db.run("p(9).")  # another text adds to the relation
    assert rows(db["p"]) == [(1,), (2,), (9,)]


def test_a_different_declaration_is_an_error(db: gd.Database) -> None:
    db.run(".decl p(x: int)", name="one")
    with pytest.raises(gd.TypeMismatchError, match="declared again, and differently"):
        db.run('.decl p(x: symbol) p("a").', name="two")
    with pytest.raises(gd.TypeMismatchError, match="its data is `E"):
        db.run(".decl E(a: symbol, b: int)")
    db.run(".decl p(x: symbol)", name="one")
    assert db.relations.schema("p").types == ("symbol",)


def test_rules_that_are_wrong_are_not_kept(db: gd.Database) -> None:
    db.run("p(1).", name="a")
    for wrong in ("p(x) <- nothing(x).", "p(x) <- E(y, _).", "p(", "p(x) <- !p(x), E(x, _)."):
        with pytest.raises(gd.Error):
            db.run(wrong, name="a")
    assert rows(db["p"]) == [(1,)] and list(db.relations) == ["E", "p"]


def test_rules_whose_outputs_fail_are_not_kept(db: gd.Database, tmp_path: Path) -> None:
    db.run("p(1).", name="a")
    with pytest.raises(gd.EvaluationError, match="division by zero"):
        db.run("p(1 / (x - 1)) <- E(x, _). .output p(IO=stdout)", name="a")
    assert rows(db["p"]) == [(1,)]
    (tmp_path / "a.dl").write_text('.decl F(x: int) .input F("none.csv") .output F(IO=stdout)')
    with pytest.raises(gd.DataError, match=r"none\.csv"):
        db.run_file(tmp_path / "a.dl")
    assert list(db.relations) == ["E", "p"]


def test_parameters_of_rules_that_stay(db: gd.Database) -> None:
    db.run("big(x) <- E(_, x), x >= $least.", {"least": 3})
    assert rows(db["big"]) == [(3,)]
    db.run("big(x) <- E(_, x), x >= $least.", {"least": 2})
    assert rows(db["big"]) == [(2,), (3,)]


# ----------------------------------------------------------------------------------- queries


def test_a_query_extends_the_views_for_itself_only(db: gd.Database) -> None:
    db.run("p(x) <- E(x, _).")
    assert rows(db.query("p(7). q(x) <- p(x).")) == [(1,), (2,), (7,)]
    assert rows(db["p"]) == [(1,), (2,)] and list(db.relations) == ["E", "p"]


def test_what_a_query_returns(db: gd.Database) -> None:
    assert rows(db.query("a(x) <- E(x, _). ?- a(x), x > 1. b(x) <- E(_, x).")) == [(2,)]
    assert rows(db.query("a(x) <- E(x, _). b(x), c(x) <- E(_, x).")) == [(2,), (3,)]
    assert rows(db.query("E(x, y), y = x + 1")) == [(1, 2), (2, 3)]  # a bare body
    assert rows(db.query("?- E.")) == sorted(EDGES)
    assert db.query("E(x, 2), E(2, y), x != y").columns == ("x", "y")
    assert db.query("p(a, b) <- E(a, b).").columns == ("a", "b")
    with pytest.raises(gd.UsageError, match="asks 2 times"):
        db.query("?- E(x, _). ?- E(_, x).")
    for nothing in ("", ".decl q(x: int)"):
        with (
            pytest.raises(gd.UsageError, match="asks for nothing"),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore", gd.ProgramWarning)
            db.query(nothing)
    with pytest.raises(gd.UsageError, match="a program is a text, not of type int"):
        db.query(3)  # type: ignore[arg-type]


def test_one_shot() -> None:
    found = gd.query("p(x) <- E(x, $y).", {"E": EDGES}, {"y": 3}, device="cpu")
    assert rows(found) == [(1,), (2,)]


@pytest.mark.parametrize("text", ["?- E(x, y).", "?- E.", "p(x, y) <- E(x, y).", "E(x, y)"])
@pytest.mark.parametrize("limit", [0, 1, 2, 3, 100])
def test_limits(db: gd.Database, text: str, limit: int) -> None:
    found = db.query(text, limit=limit)
    assert len(found) == min(limit, 3) and set(found) <= set(EDGES)


def test_an_answer_says_that_it_met_a_limit(db: gd.Database) -> None:
    whole = db.query("?- E(x, y).", limit=4)
    assert whole.limit is None and whole.format().endswith("\n3 rows")
    few = db.query("?- E(x, y).", limit=2)
    for result in (few, few.sorted(), few.sorted("y", descending=True)):
        assert result.limit == 2 and result.format().endswith("\n2 rows (limit 2)")
        assert "2 rows (limit 2)</small>" in result._repr_html_()
    assert few.head(1).limit is None and few[0:1].format().endswith("\n1 row")
    assert repr(db.query("yes() <- E(1, _).", limit=1)) == "yes"
    assert repr(db.query('p(x, "a") <- E(x, _).', limit=1).sorted()).endswith("1 row (limit 1)")


def test_a_limit_ends_the_work_early() -> None:
    db = gd.connect(memory_limit="4MiB")
    db["n"] = [(i,) for i in range(3000)]
    assert len(db.query("p(x, y, z) <- n(x), n(y), n(z), x < y, y < z.", limit=5)) == 5
    with pytest.raises(gd.UsageError, match="cannot be negative"):
        db.query("?- n(x).", limit=-1)


def test_propositions(db: gd.Database) -> None:
    yes, no = db.query("found() <- E(1, _)."), db.query("found() <- E(9, _).")
    assert (len(yes), len(no)) == (1, 0) and yes and not no
    assert (yes.fetchall(), no.fetchall()) == ([()], [])
    assert (repr(yes), repr(no)) == ("yes", "no")
    assert db.query("?- E(1, 2).") and not db.query("?- E(2, 1).")
    assert repr(db.query("found() <- E(1, _).", limit=0)) == "yes"  # no limit makes it false


WHEN = pd.Timestamp("2026-01-02T03:04:05.000000006", tz="UTC")


@pytest.mark.parametrize(
    ("value", "kind", "stored"),
    [
        (3, "int", 3),
        (np.uint16(3), "int", 3),
        (-(1 << 63), "int", -(1 << 63)),
        (2.5, "float", 2.5),
        (np.float32(2.5), "float", 2.5),
        (float("inf"), "float", float("inf")),
        (-0.0, "float", 0.0),
        ("é", "symbol", "é"),
        (np.str_("a"), "symbol", "a"),
        (True, "bool", True),
        (np.False_, "bool", False),
        (WHEN, "timestamp", WHEN),
        (WHEN.to_datetime64(), "timestamp", WHEN),
        (WHEN.tz_convert("Asia/Tokyo"), "timestamp", WHEN),
        (date(2026, 1, 2), "timestamp", pd.Timestamp("2026-01-02", tz="UTC")),
        (datetime(2026, 1, 2, 3), "timestamp", pd.Timestamp("2026-01-02T03", tz="UTC")),
    ],
)
def test_parameters(value: Any, kind: str, stored: Any) -> None:
    found = gd.query("p($value).", params={"value": value})
    assert found.dtypes == (kind,) and found.fetchall() == [(stored,)]
    assert repr(found.fetchall()[0][0]) == repr(stored)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "cannot be None"),
        ({"a": 1}, "cannot be of type dict"),
        (b"ab", "cannot be of type bytes"),
        (bytearray(b"ab"), "cannot be of type bytearray"),
        (np.array(1j), "cannot be of type ndarray"),
        (1 << 63, "does not fit into 64 bits"),
        (float("nan"), "is NaN"),
        (pd.NaT, "is NaT"),
        (np.timedelta64("NaT"), "a value is missing"),
        (np.datetime64("NaT"), "is NaT"),
        (np.datetime64("9999-01-01"), "no time from 1677 to 2262"),
        (datetime(1500, 1, 1), "no time from 1677 to 2262"),
    ],
)
def test_parameters_that_are_no_values(value: Any, says: str) -> None:
    with pytest.raises(gd.DataError, match=says):
        gd.query("p($value).", params={"value": value})


def test_an_int_may_be_given_for_a_float() -> None:
    data = {"W": [(1.5,), (2.0,), (3.5,)]}
    assert rows(gd.query("?- W(x), x >= $least.", data, {"least": 2})) == [(2.0,), (3.5,)]
    assert gd.query("?- W($w).", data, {"w": 2})
    with pytest.raises(gd.TypeMismatchError):
        gd.query("?- W($w).", data, {"w": "a"})


@pytest.mark.parametrize("text", ["p($x).", "?- E($x, y).", "p(y) <- E(y, _), y < $x."])
def test_a_parameter_without_a_value(db: gd.Database, text: str) -> None:
    with pytest.raises(gd.NameResolutionError, match=r"the parameter `\$x` has no value") as caught:
        db.query(text, {"xx": 1})
    assert caught.value.span is not None and caught.value.span.text == "$x"


def test_a_parameter_that_is_not_read_is_told(db: gd.Database) -> None:
    text = "?- E($from, y), y < $most."
    known = {"from": 1, "most": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(db.query(text, known)) == 1
        db.query("?- E(x, y), x in $xs.", {"xs": [1]})
        db.run("p(x) <- E(x, $end). big(x) <- E(x, y), y > $least.", {"end": 3, "least": 1})
        assert len(db.query("?- p(x).", {"end": 2})) == 1  # a kept rule reads it
    told = r"the parameter `\$mots` is not read, and has no effect\n  hint: did you mean `\$most`\?"
    for call in (db.query, db.explain, db.profile, db.run):
        with pytest.warns(gd.ProgramWarning, match=told) as caught:
            call(text.replace("?-", "q(y) <-"), {**known, "mots": 2})
        assert len(caught) == 1 and caught[0].filename == __file__
    with pytest.warns(
        gd.ProgramWarning, match=r"`\$zz` is not read.*\n  hint: parameters are \$a, "
    ):
        gd.query("p($a, $bc).", None, {"a": 1, "bc": 2, "zz": 3})
    with pytest.warns(gd.ProgramWarning, match=r"`\$zz` is not read, and has no effect$"):
        gd.query("p(1).", None, {"zz": 3})


def test_a_parameter_is_a_value_and_never_text() -> None:
    text = 'x"). q(1). r("'
    assert gd.query("p($x).", params={"x": text}).fetchall() == [(text,)]


def test_warnings_are_of_the_text_at_hand_only(db: gd.Database) -> None:
    with pytest.warns(gd.ProgramWarning, match="`y` is used only once") as caught:
        db.run("p(x) <- E(x, y).")
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(db.query("?- p(x).")) == 2
        db.run("q(x) <- p(x).")
    with pytest.warns(gd.ProgramWarning, match="`z` is used only once") as caught:
        db.query("r(x) <- E(x, z).")
    assert len(caught) == 1 and caught[0].filename == __file__


# ------------------------------------------------------------------------------ the relations


def test_relations_are_a_mapping(db: gd.Database) -> None:
    db.run('.decl p(a: int, s: symbol)\np(1, "x").  q(x) <- E(x, _).')
    relations = db.relations
    assert list(relations) == relations._ipython_key_completions_() == ["E", "p", "q"]
    assert len(relations) == 3 and "p" in relations and "z" not in relations
    assert rows(relations["q"]) == [(1,), (2,)]
    assert relations.schema("p").columns == ("a", "s")
    assert repr(relations).splitlines()[1:] == ["p(a: int, s: symbol)", "q(x: int)"]
    assert repr(gd.connect().relations) == "no relations"
    with pytest.raises(gd.NameResolutionError, match="no relation 'qq'") as caught:
        relations["qq"]
    assert caught.value.hint == "did you mean 'q'?"


def test_repr_and_close(db: gd.Database) -> None:
    assert repr(db) == "<gdatalog.Database on cpu: E>"
    assert repr(gd.connect()) == "<gdatalog.Database on cpu: empty>"
    with db as same:
        assert same is db
    assert repr(db) == "<gdatalog.Database, closed>"
    for use in (
        lambda: db["E"],
        lambda: db.query("?- E(x, y)."),
        lambda: db.run("p(1)."),
        lambda: db.load("E", EDGES),
        lambda: db.insert("E", EDGES),
        lambda: db.__delitem__("E"),
        lambda: db.explain("?- E(x, y)."),
        lambda: list(db.relations),
        lambda: db.run_file("a.dl"),
    ):
        with pytest.raises(gd.UsageError, match="this database is closed"):
            use()
    db.close()


@pytest.mark.parametrize(
    ("limit", "size"),
    [("8GiB", 8 << 30), ("512 MB", 512_000_000), ("1.5k", 1536), ("2 TiB", 2 << 40), ("7b", 7),
     (1 << 20, 1 << 20), ("100", 100), ("3G", 3 << 30)],
)  # fmt: skip
def test_memory_limits(limit: Any, size: int) -> None:
    assert gd.connect(memory_limit=limit).memory_limit == size


@pytest.mark.parametrize("limit", ["0", "0GiB", "-1", "much", "", 0, -5, 1.5, b"8"])
def test_what_is_no_memory_limit(limit: Any) -> None:
    with pytest.raises(gd.UsageError, match=r"not a size|must be positive"):
        gd.connect(memory_limit=limit)


def test_without_a_limit_it_is_most_of_the_machine() -> None:
    assert gd.connect().memory_limit > 1 << 28


def test_devices() -> None:
    assert gd.connect(device="auto").device == gd.connect(device="cpu").device == "cpu"
    for device in ("cuda", "cuda:1"):
        with pytest.raises(gd.DeviceError) as caught:
            gd.connect(device=device)
        assert 'use device="cpu"' in str(caught.value)
    for device in ("gpu", "cuda:", "", "CUDA"):
        with pytest.raises(gd.UsageError, match="there is no device"):
            gd.connect(device=device)
    with pytest.raises(gd.DeviceError):
        gd.query("p(1).", device="cuda")


# ------------------------------------------------------------------------ plans and profiles


def test_explanations(db: gd.Database) -> None:
    db.run("path(x,z) <- E(x,z) ; path(x,y), E(y,z).")
    found = db.explain("?- path(1, z).")
    assert str(found) == repr(found)
    assert "stratum 1: path[bf] (recursive)" in str(found)
    assert "for each new path[bf](" in str(found)
    first = found.to_dict()["children"][0]
    assert first["facts"] == {
        "relations": "path[bf]",
        "recursive": True,
        "strategy": "a fixpoint for each x of path[bf]",
    }
    assert any("in E(" in node.label for node in found.tree.find("level"))
    assert found._repr_html_().startswith("<div") and "&lt;-" in found._repr_html_()
    assert "only stored relations" in str(db.explain("?- E."))


def test_profiles(db: gd.Database) -> None:
    db.run("two(x, z) <- E(x, y), E(y, z).")
    found = db.profile("n(count()) <- two(_, _).")
    assert rows(found.result) == [(1,)]
    assert str(found) == repr(found)
    assert "1 row of two" in str(found) and "held at the most" in str(found)
    assert "tried" in str(found) and " ms" in str(found)
    facts = [dict(rule.facts) for rule in found.tree.find("rule")]
    assert [rule["relation"] for rule in facts] == ["two", "n"] and facts[0]["rows"] == 1
    data = found.to_dict()
    assert data["seconds"] > 0 and data["facts"]["peak_bytes"] > 0
    assert found._repr_html_().startswith("<div")
    assert "not reached" in str(db.profile("p(x) <- E(9, x), E(x, _)."))


def test_relations_and_tries_are_values_that_can_be_pickled(db: gd.Database) -> None:
    relation = db["E"]._relation
    copy = pickle.loads(pickle.dumps(relation))
    assert copy.columns == relation.columns
    assert copy.to_table(db.workspace.symbols).columns[0].tolist() == [1, 1, 2]


def test_a_kept_rule_that_stands_in_a_query_too_is_one_rule(db: gd.Database) -> None:
    db["E"] = [(1, 2), (2, 3)]
    rules = "path(x, z) <- E(x, z) ; path(x, y), E(y, z). n(count()) <- path(_, _)."
    db.run(rules)
    assert db.query(rules + "?- n(x).").fetchall() == [(3,)]
    strata = db.explain(rules).to_dict()["children"]
    rule_lines = [child for stratum in strata for child in stratum.get("children", ())]
    labels = [child["label"] for child in rule_lines if child["kind"] == "rule"]
    assert len(labels) == len(set(labels)) > 0
