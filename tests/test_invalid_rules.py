"""Kept rules that no longer fit the data: they are invalid, and only what depends on them fails."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import gdatalog as gd
from gdatalog.parser import format_node, parse
from gdatalog.planner.check import validity
from gdatalog.planner.check.statements import without
from gdatalog.shell.output import Output
from gdatalog.shell.repl import Repl


@pytest.fixture
def db() -> Iterator[gd.Database]:
    with gd.connect(device="cpu") as found, warnings.catch_warnings():
        warnings.simplefilter("ignore", gd.ProgramWarning)
        found["E"] = [(1, 2), (2, 3)]
        found["F"] = [(7,)]
        found.run("q(x) <- E(x, _).\nr(x) <- q(x), x > 1.", name="views")
        found.run("s(x) <- F(x).")
        yield found


def rows(result: gd.Result) -> list[tuple[Any, ...]]:
    return sorted(result.fetchall())


def warned(action: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return [str(warning.message) for warning in caught]


CHANGES = {
    "deleted": lambda db: db.__delitem__("E"),
    "other types": lambda db: db.load("E", [(1.5, "a")]),
    "another arity": lambda db: db.load("E", [(1, 2, 3)]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_depends_on_no_invalid_rule_is_answered(db: gd.Database, change: str) -> None:
    db.run("t(x) <- E(x, y), y > 1.")
    CHANGES[change](db)
    assert rows(db["s"]) == [(7,)]
    assert rows(db.query("?- F(x).")) == [(7,)]
    assert rows(db.query("p(x + 1) <- s(x).")) == [(8,)]
    db.run("u(x) <- s(x).")
    assert rows(db["u"]) == [(7,)]
    assert "t" in db.relations.invalid and {"s", "u", "F"}.isdisjoint(db.relations.invalid)
    with pytest.raises(gd.Error, match="`t` is invalid: ") as caught:
        db.query("?- F(x), t(x).")
    assert caught.value.span is not None and caught.value.span.text == "t(x)"
    # The rule's own place.
    noted = [note.span for note in caught.value.notes if note.span is not None]
    assert noted[0].source.text == "t(x) <- E(x, y), y > 1."
    db["E"] = [(1, 2), (2, 1)]
    assert rows(db["t"]) == [(1,)] and db.relations.invalid == {}


def test_the_error_of_a_broken_relation(db: gd.Database) -> None:
    said = warned(lambda: db.__delitem__("E"))
    assert said == [
        "views:1:9: warning: `q` is invalid from now on, and `r` depends on it: "
        "there is no relation `E`\n"
        " 1 | q(x) <- E(x, _).\n"
        "   |         ^^^^^^^\n"
        "  hint: define `E` by a rule or facts, load it, or declare it with `.decl`; "
        'or drop `q`: `db.drop("q")` in Python, `.drop q` at the prompt'
    ]
    with pytest.raises(gd.NameResolutionError) as caught:
        db.query("?- r(x).")
    assert str(caught.value) == (
        "<query>:1:4: name error: `r` depends on `q`, which is invalid: there is no relation `E`\n"
        " 1 | ?- r(x).\n"
        "   |    ^^^^\n"
        "  note: views:1:9: `q` is invalid here\n"
        " 1 | q(x) <- E(x, _).\n"
        "   |         ^^^^^^^\n"
        "  hint: define `E` by a rule or facts, load it, or declare it with `.decl`; "
        'or drop `q`: `db.drop("q")` in Python, `.drop q` at the prompt'
    )
    with pytest.raises(gd.NameResolutionError, match="`q` is invalid: there is no relation `E`"):
        db["q"].fetchall()
    with pytest.raises(gd.NameResolutionError, match="`r` depends on `q`"):
        db.relations.schema("r")
    assert "q" in db and list(db.relations) == ["F", "q", "r", "s"]
    assert str(db.relations) == (
        "F(column0: int)\n"
        "q: invalid, there is no relation `E`\n"
        "r: invalid, it depends on `q`, which is invalid\n"
        "s(x: int)"
    )
    # A relation is told of once, until it is valid again.
    assert warned(lambda: db.run("z(1).")) == []
    db["E"] = [(1, 2)]
    assert len(warned(lambda: db.__delitem__("E"))) == 1


def test_the_rule_nearer_to_the_data_is_valid(db: gd.Database) -> None:
    # `r` was kept before `q`, which is kept again: still it is `r` that does not fit.
    db.run("q(x) <- E(x, _).", name="views")
    db.run("r(x) <- q(x), x > 1.")
    db.run("q(x) <- E(x, _).", name="views")
    db["E"] = [("a", 1)]
    assert rows(db["q"]) == [("a",)]
    assert list(db.relations.invalid) == ["r"]


def test_of_two_rules_of_a_relation_the_later_is_invalid(db: gd.Database) -> None:
    db.run("both(x) <- E(x, _).")
    db.run("both(x) <- F(x).")
    with pytest.raises(gd.TypeMismatchError) as caught:
        db["F"] = [("a",)]
        db["both"].fetchall()
    assert caught.value.span is not None
    assert caught.value.span.source.text == "both(x) <- F(x)."
    db.drop("both")
    db.run("both(x) <- E(x, _).")
    assert rows(db["both"]) == [(1,), (2,)]


def test_an_invalid_rule_makes_no_other_rule_of_its_relation_invalid(db: gd.Database) -> None:
    """By the first rule `p` is of symbols now; the second one never spoke of these."""
    db.run("p(x) <- F(x), x > 1.")
    db.run("p(x) <- E(x, _).")
    (told,) = warned(lambda: db.load("F", [("a",)]))
    assert "`p` is invalid from now on: `>` compares two of one type" in told
    session = db.workspace.execution(parse(""))
    assert len(session.validity.invalid) == 1


def test_a_text_of_its_own_is_checked_as_strictly_as_ever(db: gd.Database) -> None:
    del db["E"]
    with pytest.raises(gd.Error) as caught:
        db.query('a(x) <- nope(x).\nb(x) <- F(x), x > "a".\nc(y) <- F(x).\nd(x) <- q(x).')
    assert [error.message.split(":")[0] for error in caught.value.all] == [
        "there is no relation `nope`",
        "`>` compares two of one type",
        "`y` is not bound in the head",
        "`q` is invalid",
    ]
    for text in ("q(1).", "q(x) <- F(x).", ".limitsize r(n=3)"):
        with pytest.raises(gd.NameResolutionError, match="there is no relation `E`"):
            db.run(text)
    # Nor may a text break rules that are valid without it.
    with pytest.raises(gd.TypeMismatchError):
        db.run('s("a").')
    assert rows(db["s"]) == [(7,)]


def test_a_text_makes_rules_valid_again(db: gd.Database) -> None:
    del db["E"]
    assert rows(db.query("E(5, 6). ?- r(x).")) == [(5,)]
    assert sorted(db.relations.invalid) == ["q", "r"]
    assert rows(db.query("E(x, y) <- F(x), y = x. ?- q(x).")) == [(7,)]
    db.run("E(8, 9).")
    assert db.relations.invalid == {} and rows(db["r"]) == [(8,)]


def test_views_over_views_recover_in_any_order(db: gd.Database) -> None:
    db.run("a(x) <- q(x), s(x).")
    db.run("b(x) <- a(x) ; r(x).")
    del db["E"]
    del db["F"]
    assert sorted(db.relations.invalid) == ["a", "b", "q", "r", "s"]
    db["F"] = [(2,)]
    assert sorted(db.relations.invalid) == ["a", "b", "q", "r"] and rows(db["s"]) == [(2,)]
    db["E"] = [(2, 1), (3, 1)]
    assert rows(db["b"]) == [(2,), (3,)]


def test_recursion_and_negation_over_an_invalid_rule(db: gd.Database) -> None:
    db.run("path(x, y) <- E(x, y).\npath(x, z) <- path(x, y), E(y, z).")
    db.run("sink(x) <- E(_, x), !E(x, _).")
    db.run("n(count()) <- path(_, _).")
    db["E"] = [(1, "a")]
    assert sorted(db.relations.invalid) == ["n", "path", "sink"]
    db["E"] = [("a", "b"), ("b", "c")]
    assert sorted(db.relations.invalid) == ["r"]  # x > 1
    assert rows(db["n"]) == [(3,)] and rows(db["sink"]) == [("c",)]


def test_a_rule_of_several_heads(db: gd.Database) -> None:
    db.run("one(x), two(x) <- s(x).")
    db.run("two(x) <- E(x, _).")
    del db["E"]
    assert rows(db["one"]) == [(7,)]
    with pytest.raises(gd.NameResolutionError):
        db["two"].fetchall()


def test_declarations_directives_and_types(tmp_path: Path, db: gd.Database) -> None:
    db.run(".type T = int", name="types")
    db.run(".decl D(x: T) D(1). d(x) <- D(x). .limitsize d(n=5)")
    db.run(".type U = int", name="types")
    assert sorted(db.relations.invalid) == ["D", "d"]
    assert rows(db["s"]) == [(7,)]
    db.run(".type T = float", name="types")
    assert rows(db["d"]) == [(1.0,)]


def test_a_file_that_has_gone_breaks_what_reads_it(tmp_path: Path, db: gd.Database) -> None:
    path = tmp_path / "g.csv"
    path.write_text("a,b\n1,2\n")
    db.run(f'.input G("{path}")\ng(x) <- G(x, _).')
    assert rows(db["g"]) == [(1,)]
    path.unlink()
    assert rows(db["s"]) == [(7,)]
    with pytest.raises(gd.DataError, match=r"`g` depends on `G`, which is invalid: .*g\.csv"):
        db["g"].fetchall()
    path.write_text("a,b\n3,4\n")
    assert rows(db["g"]) == [(3,)]


def test_a_parameter_of_another_type(db: gd.Database) -> None:
    db.run("big(x) <- F(x), x > $least.", {"least": 3})
    assert rows(db["big"]) == [(7,)]
    assert rows(db.query('?- s(x), $least = "a".', {"least": "a"})) == [(7,)]
    with pytest.raises(gd.TypeMismatchError, match="`big` is invalid"):
        db.query("?- big(x).", {"least": "a"})
    assert rows(db.query("?- big(x).", {"least": 7})) == []


def test_a_text_kept_again_may_make_others_invalid(db: gd.Database) -> None:
    said = warned(lambda: db.run('q("a").', name="views"))
    assert said == []  # `r` was in that text, too
    db.run('r(x) <- q(x), x = "a".')
    said = warned(lambda: db.run("q(1).", name="views"))
    assert len(said) == 1 and "`r` is invalid from now on" in said[0]
    assert rows(db["q"]) == [(1,)]
    db.run('q("a").', name="views")
    assert rows(db["r"]) == [("a",)]


def test_a_run_that_fails_leaves_all_as_it_was(db: gd.Database, tmp_path: Path) -> None:
    def fails() -> None:
        with pytest.raises(gd.EvaluationError):
            db.run("q(1 / (x - 7)) <- F(x). .output q(IO=stdout)", name="views")

    assert warned(fails) == [] and rows(db["r"]) == [(2,)] and db.relations.invalid == {}


def test_a_query_beside_an_invalid_rule_is_checked_once(
    db: gd.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    del db["E"]
    checked: list[int] = []
    examine = validity.examine

    def counting(program: Any, *args: Any, **options: Any) -> Any:
        checked.append(len(program.statements))
        return examine(program, *args, **options)

    monkeypatch.setattr(validity, "examine", counting)
    db.query("?- s(x).")
    assert checked == [2]
    db.query("?- s(x).")
    assert checked == [2]


# --------------------------------------------------------------------------- drop, load, insert


def test_drop_takes_rules_data_or_both(db: gd.Database) -> None:
    db["q"] = [(9,)]
    db.run("q(8).")
    assert rows(db["q"]) == [(1,), (2,), (8,), (9,)]
    assert db.drop("q", only="rules") == ()
    assert rows(db["q"]) == [(8,), (9,)] and rows(db["r"]) == [(8,), (9,)]
    assert db.drop("q", only="data") == ("r",)
    assert list(db.relations.invalid) == ["r"] and "q" not in db
    db["q"] = [(3,)]
    assert rows(db["r"]) == [(3,)]
    assert db.drop("q") == ("r",)
    del db["r"]
    assert list(db) == ["E", "F", "s"] and db.relations.invalid == {}
    with pytest.raises(gd.NameResolutionError, match="there is no relation 'q'"):
        db.drop("q")
    with pytest.raises(gd.UsageError, match="only is 'rules', 'data' or None"):
        db.drop("E", only="all")  # type: ignore[arg-type]


def test_an_invalid_rule_is_dropped(db: gd.Database) -> None:
    del db["E"]
    assert db.drop("q") == ()
    assert list(db.relations.invalid) == ["r"]
    del db["r"]
    assert db.relations.invalid == {}


def test_data_take_the_place_of_facts_and_inputs(db: gd.Database, tmp_path: Path) -> None:
    path = tmp_path / "g.csv"
    path.write_text("a,b\n1,2\n")
    text = f'.decl G(a: int, b: int) input\n.input G("{path}")\nG(3, 4). H(1), G(5, 6).'
    (tmp_path / "G.facts").write_text("8\t9\n")
    (tmp_path / "p.dl").write_text(text)
    db.run_file(tmp_path / "p.dl", facts=tmp_path)
    db.insert("G", [(10, 11)])
    assert len(db["G"]) == 5
    db["G"] = [(0, 0)]
    assert rows(db["G"]) == [(0, 0)] and db["G"].columns == ("a", "b")
    assert rows(db["H"]) == [(1,)]
    db.run_file(tmp_path / "p.dl", facts=tmp_path)
    assert len(db["G"]) == 5  # stated again
    del db["G"]
    assert "G" not in db and rows(db["H"]) == [(1,)]


def test_rules_stay_beside_new_data_which_is_told(db: gd.Database) -> None:
    said = warned(lambda: db.load("s", [(1,)]))
    assert said == [
        "warning: s has 1 rule, which still adds to these rows\n"
        '  hint: db.drop("s") drops rules and data'
    ]
    assert rows(db["s"]) == [(1,), (7,)]


def test_rows_are_inserted_beside_rules(db: gd.Database) -> None:
    assert repr(db.insert("F", [(8,)])) == "F: 1 row inserted"
    told = db.insert("s", [(1,), (2,)])
    assert (told.relation, told.rows, told.rules) == ("s", 2, 1)
    assert repr(told) == "s: 2 rows inserted, as base facts beside its 1 rule"
    assert rows(db["s"]) == [(1,), (2,), (7,), (8,)]
    db["F"] = [(3,)]
    assert rows(db["s"]) == [(1,), (2,), (3,)]
    with pytest.raises(gd.DataError, match="expected int"):
        db.insert("q", [("a",)])
    db.run("G(1).")
    db.insert("G", [(2,)])
    assert rows(db["G"]) == [(1,), (2,)]


def test_names_are_completed(db: gd.Database) -> None:
    del db["E"]
    assert db._ipython_key_completions_() == ["F", "q", "r", "s"]


# ------------------------------------------------------------------------------------ the prompt


def prompt(*lines: str) -> Repl:
    repl = Repl(gd.connect(device="cpu"), Output(StringIO()), interactive=False)
    for line in lines:
        repl.feed(line)
    return repl


def test_at_the_prompt(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "e.csv").write_text("a,b\nx,2\n")
    repl = prompt("e(1, 2).", "p(x) <- e(x, _), x > 0.", "q(x) <- p(x).", "f(1).")
    capsys.readouterr()
    repl.feed(f".load e {tmp_path / 'e.csv'}")
    said = capsys.readouterr().err
    assert "warning: `p` is invalid from now on, and `q` depends on it" in said
    for line in (".rules", ".relations"):
        repl.feed(line)
    stream = repl.output.stream
    assert isinstance(stream, StringIO)
    assert stream.getvalue().splitlines() == [
        "1  p(x) <- e(x, _), x > 0.  // invalid: `>` compares two of one type: `0` is int, "
        "but `x` is symbol",
        "2  q(x) <- p(x).  // not evaluated: it depends on `p`, which is invalid",
        "and 1 fact of f",
        "",
        "e(a: symbol, b: int)        1",
        "f(c0: int)                  1",
        "p                     invalid  `>` compares two of one type: `0` is int, "
        "but `x` is symbol",
        "q                     invalid  it depends on `p`, which is invalid",
    ]
    repl.feed(".undo")
    repl.feed("?- q(x).")
    assert stream.getvalue().endswith("x\n1\n")
    repl.feed(".drop e f")
    repl.feed("?- q(x).")
    assert len(repl.failed) == 1
    repl.feed(".undo")
    repl.feed(".drop --rules p")
    assert list(repl.db.relations.invalid) == ["q"]
    repl.feed(".undo")
    repl.feed(".drop 1")
    assert list(repl.db.relations.invalid) == ["q"]
    repl.feed(".undo")
    assert repl.db.relations.invalid == {}


def test_what_is_invalid_is_saved_as_a_comment(tmp_path: Path, capsys: Any) -> None:
    repl = prompt("e(1).", "p(x) <- e(x).", "q(x) <- p(x).", "f(2).", ".drop e")
    path = tmp_path / "s.dl"
    repl.feed(f".save {path}")
    assert path.read_text().splitlines()[1:] == [
        "f(2).",
        "// These statements were invalid when the session was saved:",
        "// p(x) <- e(x).",
        "// q(x) <- p(x).",
    ]
    again = prompt(f".read {path}")
    assert not again.failed and list(again.db) == ["f"]


def test_statements_without_some_relations() -> None:
    text = [
        "p(1), q(1).",
        "p(x), q(x) <- e(x).",
        ".decl p, q(x: int) input",
        '.input p, q("f.csv")',
        '.limitsize p, q(n="3")',
    ]
    statements = parse("\n".join(text)).statements

    def left(part: Any) -> list[str]:
        return [format_node(statement) for statement in without(statements, {"p"}, part)]

    assert left("all") == [
        "q(1).",
        "q(x) <- e(x).",
        ".decl q(x: int) input",
        '.input q("f.csv")',
        '.limitsize q(n="3")',
    ]
    assert left("rules") == [text[0], "q(x) <- e(x).", *text[2:]]
    assert left("data") == [
        "q(1).",
        text[1],
        ".decl q(x: int) input",
        ".decl p(x: int)",
        '.input q("f.csv")',
        text[4],
    ]


def test_a_rule_with_an_aggregate_may_be_kept_by_two_texts(db: gd.Database) -> None:
    for name in ("first", "second"):
        db.run("n(count()) <- E(_, _).", name=name)
    assert db["n"].fetchall() == [(2,)]
    with pytest.raises(gd.StratificationError, match="another rule beside the one that aggregates"):
        db.run("n(count()) <- F(_).")
