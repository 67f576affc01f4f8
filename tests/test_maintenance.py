"""Answers that follow what is new: they are those of a fresh run, whatever has come or gone."""

from __future__ import annotations

import gc
from itertools import pairwise
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest

import gdatalog as gd
from gdatalog.engine.evaluator import evaluator
from gdatalog.engine.fixpoint import maintained
from gdatalog.engine.fixpoint.maintained import MaintainedRelation
from gdatalog.engine.operators import incremental
from gdatalog.engine.operators.again import Again
from gdatalog.storage import history, parts
from gdatalog.storage.relation import Relation
from tests.tuned import tune

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

Row = tuple[int, ...]


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done with each stratum, in order: "path followed", "path run"."""
    done: list[str] = []

    def noted(where: Any, name: str, what: str, stratum_of: Any) -> None:
        real = getattr(where, name)

        def noting(*args: Any) -> Any:
            done.append(f"{' '.join(sorted(stratum_of(*args).relations))} {what}")
            return real(*args)

        monkeypatch.setattr(where, name, noting)

    noted(incremental.Maintenance, "follow", "followed", lambda self, *_: self.stratum)
    noted(evaluator.Evaluator, "planned", "run", lambda self, stratum, *_: stratum)
    noted(Again, "run", "run", lambda self, *_: self.stratum)
    return done


def as_if_many(monkeypatch: pytest.MonkeyPatch, bits: int) -> None:
    """All relations as if they had millions of rows; `bits`: more rows than these have bits."""
    monkeypatch.setattr(parts, "APART_FROM", 0)
    monkeypatch.setattr(history, "MERGED_BELOW", 0)
    monkeypatch.setattr(maintained, "MANY", bits)
    tune(monkeypatch, narrowed_from=0, looked_up_share=0)


@pytest.fixture(params=["in one piece", "in parts", "in parts with bits"])
def lying(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in one piece, as few are; or in parts, as many are."""
    if request.param != "in one piece":
        as_if_many(monkeypatch, 0 if request.param.endswith("bits") else 1 << 40)


def rows(db: gd.Database, name: str) -> list[Row]:
    return sorted(db[name].fetchall())


def connected() -> gd.Database:
    """A database that compiles nothing."""
    db = gd.connect(device="cpu")
    db.workspace.force(strategy="levelwise")
    return db


def database(text: str, **data: list[Row]) -> gd.Database:
    db = connected()
    for name, there in data.items():
        db[name] = there
    db.run(text, name="rules")
    return db


PATH = "path(x,z) <- E(x,z) ; path(x,y), E(y,z)."
CHAIN = [(x, x + 1) for x in range(20)]


# ---------------------------------------------------------------------------- what is followed


def test_a_closure_goes_on_from_new_edges(lying: None, ways: list[str]) -> None:
    db = database(PATH, E=CHAIN)
    assert len(db["path"]) == 210
    db.insert("E", [(20, 21), (30, 0), (5, 6)])
    assert len(db["path"]) == 210 + 21 + 22 and ways == ["path run", "path followed"]
    before = db["path"]
    db.insert("E", [(3, 4)])
    assert db["path"]._relation.store is before._relation.store and ways[2:] == []


def test_a_rule_that_reads_it_twice(lying: None, ways: list[str]) -> None:
    text = "path(x,y) <- E(x,y). path(x,z) <- path(x,y), path(y,z)."
    db = database(text, E=CHAIN)
    assert len(db["path"]) == 210
    db.insert("E", [(20, 0)])
    assert len(db["path"]) == 441 and ways[1:] == ["path followed"]


def test_relations_that_need_each_other(lying: None, ways: list[str]) -> None:
    text = "odd(x,y) <- E(x,y). odd(x,z) <- even(x,y), E(y,z). even(x,z) <- odd(x,y), E(y,z)."
    db = database(text, E=CHAIN)
    assert (len(db["odd"]), len(db["even"])) == (110, 100)
    db.insert("E", [(20, 0)])  # a cycle of 21: every pair is at an odd and at an even distance
    assert (len(db["odd"]), len(db["even"])) == (441, 441)
    assert ways[1:] == ["even odd followed"]


def test_strata_above_follow_as_well(lying: None, ways: list[str]) -> None:
    db = database(PATH + " loop(x) <- path(x,x). on(x,y) <- loop(x), E(x,y).", E=CHAIN)
    assert rows(db, "on") == []
    db.insert("E", [(2, 1)])
    assert rows(db, "on") == [(1, 2), (2, 1), (2, 3)]
    assert ways[3:] == ["path followed", "loop followed", "on followed"]


def test_negation_and_aggregates_are_made_again(lying: None, ways: list[str]) -> None:
    text = PATH + " n(count()) <- path(_,_). end(y) <- E(_,y), !E(y,_). at(y) <- end(y), !V(y)."
    db = database(text, E=CHAIN, V=[(7,)])
    assert (rows(db, "n"), rows(db, "at")) == ([(210,)], [(20,)])
    ways.clear()
    db.insert("E", [(20, 21)])
    assert (rows(db, "n"), rows(db, "at")) == ([(231,)], [(21,)])
    assert ways == ["path followed", "n run", "end run", "at run"]
    ways.clear()
    db.insert("V", [(21,)])  # what is negated has not come to `end`
    assert rows(db, "at") == [] and ways == ["at run"]


def test_a_negation_of_what_has_not_changed_is_followed(lying: None, ways: list[str]) -> None:
    db = database("p(x,y) <- E(x,y), !V(y).", E=CHAIN, V=[(3,), (30,)])
    assert len(db["p"]) == 19
    db.insert("V", [(40,)])
    assert len(db["p"]) == 19
    db.insert("E", [(1, 30), (1, 31)])
    assert len(db["p"]) == 20 and ways == ["p run", "p run", "p followed"]


def test_equal_answers_stop_the_wave(lying: None, ways: list[str]) -> None:
    db = database("some(x) <- V(x), !W(x). q(x) <- some(x). n(count()) <- q(_).", V=[(1,), (2,)],
                  W=[(2,)])  # fmt: skip
    assert rows(db, "n") == [(1,)]
    ways.clear()
    db.insert("W", [(9,)])
    assert rows(db, "n") == [(1,)] and ways == ["some run"]
    db["V"] = [(1,), (2,), (9,)]
    assert rows(db, "n") == [(1,)] and ways == ["some run", "some run"]


def test_what_is_made_again_and_has_grown_is_followed(lying: None, ways: list[str]) -> None:
    db = database("some(x) <- V(x), !W(x). q(x,y) <- some(x), some(y).", V=[(1,), (2,)], W=[(2,)])
    assert rows(db, "q") == [(1, 1)]
    ways.clear()
    db["W"] = [(3,)]
    assert len(db["q"]) == 4 and ways == ["some run", "q followed"]


def test_deletes_and_loads_start_again(lying: None, ways: list[str]) -> None:
    db = database(".decl path(a: int, b: int) " + PATH, E=CHAIN)
    assert len(db["path"]) == 210
    db["E"] = CHAIN[:-1]
    assert len(db["path"]) == 190
    db["path"] = [(50, 0)]  # beside the rules
    assert len(db["path"]) == 210
    db.drop("path", only="data")
    assert len(db["path"]) == 190
    assert ways == ["path run", "path run", "path followed", "path run"]


def test_data_beside_rules(lying: None, ways: list[str]) -> None:
    db = database(PATH, E=CHAIN, path=[(50, 0)])
    assert len(db["path"]) == 231
    db.insert("path", [(51, 0), (50, 1)])
    assert len(db["path"]) == 252 and ways == ["path run", "path followed"]


# ------------------------------------------------------------------------------ min and max

DIST = "dist(y, min(d + w)) <- dist(x,d), W(x,y,w). dist(x, 0) <- V(x)."


def test_minima_improve(lying: None, ways: list[str]) -> None:
    db = database(DIST + " near(x) <- dist(x,d), d < 3. h(max(d)) <- dist(_,d).", V=[(0,)],
                  W=[(x, x + 1, 2) for x in range(5)])  # fmt: skip
    assert rows(db, "dist") == [(x, 2 * x) for x in range(6)] and rows(db, "near") == [(0,), (1,)]
    assert rows(db, "h") == [(10,)]
    ways.clear()
    db.insert("W", [(0, 3, 1)])
    assert rows(db, "dist") == [(0, 0), (1, 2), (2, 4), (3, 1), (4, 3), (5, 5)]
    assert rows(db, "near") == [(0,), (1,), (3,)] and rows(db, "h") == [(5,)]
    assert ways == ["dist followed", "near run", "h run"]  # what has improved is there no more
    ways.clear()
    db.insert("W", [(5, 6, 1)])
    assert rows(db, "near") == [(0,), (1,), (3,)]
    assert rows(db, "h") == [(6,)]
    assert ways == ["dist followed", "near followed", "h followed"]  # a new group has only come


def test_a_cycle_that_improves_for_ever_is_told_of() -> None:
    db = database(DIST, V=[(0,)], W=[(x, x + 1, 2) for x in range(5)])
    assert len(db["dist"]) == 6
    db.insert("W", [(3, 2, -3)])
    with pytest.raises(gd.EvaluationError, match="improves for ever"):
        len(db["dist"])
    db["W"] = [(0, 1, 5)]
    assert rows(db, "dist") == [(0, 0), (1, 5)]


def test_a_head_that_computes_with_an_aggregate_starts_again(ways: list[str]) -> None:
    text = "m(x, max(y) + 1) <- E(x,y).  n(x, max(y), 2 * max(y)) <- E(x,y)."
    db = database(text, E=[(1, 2), (2, 2)])
    assert rows(db, "m") == [(1, 3), (2, 3)] and rows(db, "n") == [(1, 2, 4), (2, 2, 4)]
    db.insert("E", [(1, 5)])
    assert rows(db, "m") == [(1, 6), (2, 3)] and rows(db, "n") == [(1, 5, 10), (2, 2, 4)]
    assert sorted(ways) == ["m run", "m run", "n run", "n run"]


# -------------------------------------------------------------------------- rules and facts


def test_a_new_rule_gives_seeds(lying: None, ways: list[str]) -> None:
    db = database(PATH, E=CHAIN, F=[(20, 30)])
    assert len(db["path"]) == 210
    db.run("path(x,y) <- F(x,y).", name="more")
    assert len(db["path"]) == 211
    db.run("path(x,z) <- path(x,y), F(y,z).", name="most")
    assert len(db["path"]) == 231 and ways == ["path run", "path followed", "path followed"]
    db.run("path(x,y) <- F(y,x).", name="more")
    assert len(db["path"]) == 232 and ways[3:] == ["path run"]


def test_a_rule_makes_a_relation_recursive(ways: list[str]) -> None:
    db = database("p(x,y) <- E(x,y), x < 99.", E=CHAIN)
    assert len(db["p"]) == 20
    db.run("p(x,z) <- p(x,y), E(y,z).", name="more")
    assert len(db["p"]) == 210 and ways == ["p run", "p followed"]


def test_facts_that_are_typed(lying: None, ways: list[str]) -> None:
    db = connected()
    db.run("E(0, 1).", name="fact 0")
    db.run(PATH)
    for at, (x, y) in enumerate(CHAIN[:4]):
        db.run(f"E({x},{y}).", name=f"fact {at}")
        assert len(db["path"]) == (at + 1) * (at + 2) // 2
    assert ways == ["path run"] + 3 * ["path followed"]
    db.run("path(9,0).", name="beside")
    assert len(db["path"]) == 15 and ways[4:] == ["path followed"]
    db.run("", name="fact 0")
    assert rows(db, "E") == CHAIN[1:4] and len(db["path"]) == 7 and ways[5:] == ["path run"]


def test_facts_beside_data(lying: None, ways: list[str]) -> None:
    db = connected()
    db["E"] = CHAIN[1:]
    db.run(PATH + " E(0, 1). E($a, 7).", {"a": 20}, name="rules")
    assert len(db["path"]) == 315
    db.insert("E", [(7, 8), (7, 50)])
    assert len(db["path"]) == 336 and ways == ["path run", "path followed"]
    db.run(PATH + " E(0, 1). E($a, 7).", {"a": 60}, name="rules")
    assert len(db["path"]) == 233 and ways[2:] == ["path run"]


def test_files_beside_data(lying: None, ways: list[str], tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in CHAIN[:10]))
    db = connected()
    db["E"] = CHAIN[10:]
    db.run(f'{PATH} .decl E(x: int, y: int) .input E("{tmp_path}/e.csv")')
    assert len(db["path"]) == 210
    db.insert("E", [(20, 21), (0, 1)])
    assert len(db["path"]) == 231 and ways == ["path run", "path followed"]
    db.insert("E", [(1, 2)])
    assert len(db["path"]) == 231 and ways[2:] == []


def test_propositions(ways: list[str]) -> None:
    db = database("p() <- E(x,x). q(x) <- E(x,_), p(). none() <- E(x,_), !p().", E=CHAIN[:3])
    assert not db["p"] and rows(db, "q") == [] and db["none"]
    db.insert("E", [(5, 5)])
    assert db["p"] and rows(db, "q") == [(0,), (1,), (2,), (5,)] and not db["none"]
    assert ways[3:] == ["p followed", "q followed", "none run"]


def test_symbols_floats_and_wide_rows(lying: None) -> None:
    db = database(
        "r(a,b,w) <- S(a,b,w). r(a,c,w) <- r(a,b,w), S(b,c,_).",
        S=[("a", "b", 0.5), ("b", "c", -1.5)],  # type: ignore[list-item]
    )
    assert len(db["r"]) == 3
    db.insert("S", [("c", "d", 1e300), ("zz", "a", -0.0)])
    assert rows(db, "r") == sorted(
        [(a, b, 0.5) for a, b in ("ab", "ac", "ad")]
        + [(a, b, -1.5) for a, b in ("bc", "bd")]
        + [("c", "d", 1e300)]
        + [("zz", b, 0.0) for b in "abcd"]
    )


def test_filtered_parts(monkeypatch: pytest.MonkeyPatch, ways: list[str]) -> None:
    """A part of a relation is filtered before it is indexed, as a whole relation is."""
    monkeypatch.setattr(parts, "APART_FROM", 0)
    monkeypatch.setattr(history, "MERGED_BELOW", 0)
    tune(monkeypatch, narrowed_from=0, narrowed_share=1.0)
    data = {"E": [(x, x % 7) for x in range(50)], "F": [(x,) for x in range(5)]}
    db = database("q(x, y) <- E(x, y), F(y), y >= 2.", **data)
    assert len(db["q"]) == 21
    db.insert("E", [(100, 3)])
    assert len(db["q"]) == 22
    db.insert("F", [(6,)])
    assert len(db["q"]) == 29 and ways == ["q run", "q followed", "q followed"]


def test_much_that_is_new_starts_again(ways: list[str]) -> None:
    db = database(PATH, E=CHAIN[:3])
    db.workspace.tune(news_most=0)
    assert len(db["path"]) == 6
    db.insert("E", CHAIN[3:])
    assert len(db["path"]) == 210 and ways == ["path run", "path run"]
    db.workspace.tune(news_derived_most=0)
    db.insert("E", [(20, 0)])  # few, but much follows
    assert len(db["path"]) == 441 and ways[2:] == ["path followed", "path run"]


def test_a_relation_that_keeps_only_the_least_from_now_on() -> None:
    db = gd.connect(device="cpu")
    db["E"], db["F"] = [(2, 3), (1, 2), (3, 1)], [(4,), (5,)]
    db.run("F(3).")
    assert set(db["F"]) == {(3,), (4,), (5,)}
    db.run("F(min(y)) <- E(_, y).")
    assert set(db["F"]) == {(1,)}
    db.run("F(min(x - 1)) <- E(x, _).")
    assert set(db["F"]) == {(0,)}


# ------------------------------------------------------------------------------------- memory


def test_old_rows_are_let_go_of(lying: None) -> None:
    """Of versions that somebody has made something of there is a name, and no rows."""
    db = database("p(x) <- E(x,_).", E=CHAIN)
    assert len(db["p"]) == 20
    first = ref(db.workspace.stored["E"])
    db.workspace.stored["E"].trie((1, 0))
    for at in range(30):
        db.insert("E", [(100 + at, 0)])
    db.workspace.stored["E"].keys  # noqa: B018  puts them together
    gc.collect()
    assert first() is None
    assert len(db["p"]) == 50


def test_what_came_between_is_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "LITTLE", 100)
    relation = Relation.from_rows(("x",), ("int",), [np.arange(100)], 100)
    version = relation.version
    for at in range(64):
        new = Relation.from_rows(("x",), ("int",), [np.array([100 + at])], 1)
        relation = relation.grown(new)
    since = relation.since(version)
    assert since is not None and len(since) <= 7 and len(relation.lineage) <= 2
    assert sorted(x for part in since for x in part.keys[0]) == list(range(100, 164))
    for at in range(200):
        relation = relation.grown(Relation.from_rows(("x",), ("int",), [np.array([1000 + at])], 1))
    assert relation.since(version) is None  # more has come than there was


def test_parts_are_few_and_geometric(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "APART_FROM", 0)
    monkeypatch.setattr(history, "MERGED_BELOW", 0)
    relation = Relation.from_rows(("x",), ("int",), [np.arange(10_000)], 10_000)
    large = relation
    for at in range(500):
        new = Relation.from_rows(("x",), ("int",), [np.array([10_000 + at])], 1)
        relation = relation.grown(new)
        sizes = [part.length for part in relation.parts]
        assert len(sizes) <= parts.MOST_PARTS and relation.parts[0] is large
        assert all(a >= parts.RATIO * b for a, b in pairwise(sizes))
    assert relation.length == 10_500 and relation.keys[0].tolist() == list(range(10_500))
    assert relation.parts == (relation,)


@pytest.mark.parametrize("bits", [4, 12, 40])
def test_rows_in_parts_in_order(monkeypatch: pytest.MonkeyPatch, bits: int) -> None:
    monkeypatch.setattr(parts, "APART_FROM", 0)
    monkeypatch.setattr(history, "MERGED_BELOW", 0)
    rng = np.random.default_rng(bits)
    drawn = {tuple(row) for row in rng.integers(-8, 8, (300, 3)).tolist()}
    wide = {tuple(row) for row in rng.integers(-(1 << bits), 1 << bits, (30, 3)).tolist()} - drawn
    names, types = ("a", "b", "c"), ("int",) * 3
    for ordered in (True, False):
        relation = Relation.from_rows(names, types, [*np.array([*drawn]).T], len(drawn))  # type: ignore[arg-type]
        if not ordered:
            blocks = [tuple(np.array([*drawn]).T)]
            relation = Relation.of_blocks(names, types, blocks * 60, 60 * len(drawn))  # type: ignore[arg-type]
        relation = relation.grown(
            Relation.from_rows(names, types, [*np.array([*wide]).T], len(wide))  # type: ignore[arg-type]
        )
        assert len(relation.parts) == 2 and relation.sorted is False
        if ordered:  # it is kept
            relation.rows  # noqa: B018
            assert relation.sorted
        assert [*zip(*map(list, relation.keys), strict=True)] == sorted(drawn | wide)


def test_a_result_is_not_disturbed(lying: None) -> None:
    db = database(PATH, E=CHAIN)
    before = db["path"]
    db.insert("E", [(20, 21)])
    after = db["path"]
    assert (len(before), len(after)) == (210, 231)
    assert set(after.fetchall()) - set(before.fetchall()) == {(x, 21) for x in range(21)}
    assert before.sorted().fetchall() == sorted(before.fetchall())
    assert after.sorted().fetchall() == sorted(after.fetchall())
    assert len(after.df()) == 231


def test_an_interrupted_answer_is_made_later(monkeypatch: pytest.MonkeyPatch) -> None:
    db = database(PATH, E=CHAIN)
    assert len(db["path"]) == 210
    db.insert("E", [(20, 21)])

    def interrupted(self: MaintainedRelation, *args: Any) -> Any:
        raise gd.Interrupted("now")

    with monkeypatch.context() as patch:
        patch.setattr(MaintainedRelation, "finished", interrupted)
        with pytest.raises(gd.Interrupted):
            len(db["path"])
    assert len(db["path"]) == 231


def test_what_is_new_is_told(lying: None) -> None:
    db = database(PATH, E=CHAIN)
    assert len(db["path"].new) == len(db["path"]) == 210
    db.insert("E", [(20, 21), (19, 20)])
    assert db["E"].new.fetchall() == [(20, 21)]
    assert rows(db, "path") == sorted({*db["path"].fetchall()})
    assert sorted(db["path"].new.fetchall()) == [(x, 21) for x in range(21)]
    assert db["path"].new.columns == db["path"].columns
    db.insert("E", [(21, 22)])
    db.insert("E", [(22, 23)])
    assert len(db["path"].new) == 22 + 23
    db["E"] = CHAIN
    assert len(db["path"].new) == 210


NOTHING_NEW = """
path(x, y) <- E(x, y). path(x, z) <- path(x, y), E(y, z).
low(min(y)) <- path(_, y).
near(x, min(z)) <- E(x, y), z = y - x. near(x, min(n + 1)) <- E(x, y), near(y, n).
many(count()) <- path(_, _).
loose(x) <- E(x, _), !path(x, x).
any() <- path(_, _).
same(x, y) <- path(x, y).
"""
VIEWS = ("path", "low", "near", "many", "loose", "any", "same")


@pytest.mark.parametrize("strategy", ["auto", "levelwise", "lftj"])
def test_a_change_that_adds_nothing_has_nothing_new(lying: None, strategy: Any) -> None:
    db = database(NOTHING_NEW, E=[(x, x + 1) for x in range(20)])
    db.workspace.force(strategy=strategy)
    for name in VIEWS:
        assert len(db[name].new) == len(db[name])
    db.insert("E", [(20, 21)])
    kept = {name: db[name] for name in ("E", *VIEWS)}
    news = {name: sorted(result.new.fetchall()) for name, result in kept.items()}
    assert news["E"] == [(20, 21)] and len(news["path"]) == 21 and len(news["any"]) == 0
    told = db.insert("E", [(20, 21), (0, 1)])
    assert (told.rows, told.known, repr(told)) == (0, 2, "E: 0 rows inserted, 2 known already")
    for name, before in kept.items():  # nothing was added, and earlier answers stay
        assert db[name].new.fetchall() == [] and len(db[name].new) == 0
        assert sorted(db[name].fetchall()) == sorted(before.fetchall())
        assert sorted(before.new.fetchall()) == news[name]
    db.insert("E", [(0, 2)])  # a new edge between vertices that had a path
    assert db["path"].new.fetchall() == db["same"].new.fetchall() == db["many"].new.fetchall() == []
    assert db["E"].new.fetchall() == [(0, 2)]
    db.insert("E", [(21, 22)])
    assert len(db["path"].new) == len(db["same"].new) == 22
    assert db["many"].fetchall() == [(22 * 23 // 2,)]


def test_an_insert_tells_new_rows_from_known_ones() -> None:
    db = gd.connect()
    assert repr(db.insert("E", [(1, 2), (2, 3)])) == "E: 2 rows inserted"
    assert repr(db.insert("E", [(1, 2), (3, 4)])) == "E: 1 row inserted, 1 known already"
    many = [(x, x + 1) for x in range(5000)]
    told = db.insert("E", many)
    assert (told.rows, told.known) == (4997, 3)
    db.run("F(1). F(2).")  # facts are data too
    assert repr(db.insert("F", [(2,), (3,)])) == "F: 1 row inserted, 1 known already"
    assert repr(db.insert("F", [(3,)])) == "F: 0 rows inserted, 1 known already"
    db.run("G(3). F(4). F(1).")  # one fact of F is new
    assert db["F"].new.fetchall() == [(4,)]
    db.run("G(4). F(2).")
    assert db["F"].new.fetchall() == [] and len(db["F"]) == 4
    assert repr(db.insert("yes", True)) == "yes: 1 row inserted"
    assert repr(db.insert("yes", True)) == "yes: 0 rows inserted, 1 known already"
    assert not db["yes"].new and db["yes"]
    db.run("p(x) <- F(x).")
    assert repr(db.insert("p", [(1,)])) == "p: 1 row inserted, as base facts beside its 1 rule"
    known = "p: 0 rows inserted, 1 known already, as base facts beside its 1 rule"
    assert repr(db.insert("p", [(1,)])) == known


@pytest.mark.parametrize("negated", ["!B(x)", "0 = count : { B(x) }"])
def test_a_new_rule_asks_all_parts_of_a_relation(
    negated: str, monkeypatch: pytest.MonkeyPatch, ways: list[str]
) -> None:
    as_if_many(monkeypatch, 1 << 40)
    with gd.connect(device="cpu") as db:
        db["A"], db["B"], db["D"] = [(1,), (2,), (3,)], [(x,) for x in range(0, 90, 2)], [(77,)]
        db.run("q(x) <- D(x).")
        assert set(db["q"]) == {(77,)}
        db.insert("B", [(1,)])
        assert len(db.workspace.stored["B"].parts) == 2
        db.run(f"q(x) <- A(x), {negated}.")
        assert set(db["q"]) == {(3,), (77,)}
        assert ways[-1] == "q followed"
