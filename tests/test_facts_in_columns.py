"""Many facts in a row are read as columns: they mean what they mean one by one, in values, types,
errors and spans, and in the database that keeps them."""

from __future__ import annotations

import re
import warnings
from io import StringIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_parser_fastpath import both_ways, fact_texts

import gdatalog as gd
from gdatalog.errors import SourceText
from gdatalog.parser import facts, format_node, parse, parse_with_cautions, read_source
from gdatalog.parser.fact_statements import last_name, number_of, one_by_one
from gdatalog.parser.syntax import Const, FactColumns, Facts, Rule
from gdatalog.shell.output import Output
from gdatalog.shell.repl import Repl
from tests.cases import cases

NUMBERS = st.sampled_from(["0", "-7", "12", "123456789012345678", "-0", "1.5", "-2.5e-3", "1e3"])
TEXTS = st.sampled_from(
    ['""', '"a"', '"b, c)."', '"// d"', r'"q\"x"', r'"\u00e9\n"', '"é"', r'"\ud83d\ude00"']
)
TIMES = st.sampled_from(["@2026-11-20", "@1999-12-31T08:30:00.5", "@2026-02-28T00:00"])
# Of few types, so that many facts have the same.
ROWS = st.sampled_from(["ii", "is", "s", "sf", "n", "nn", "tb", "i"]).flatmap(
    lambda kinds: st.tuples(
        *[
            {
                "i": st.integers(-99, 99).map(str),
                "f": st.floats(-9, 9).map(repr).filter(lambda text: len(text) < 18),
                "n": NUMBERS,
                "s": TEXTS,
                "t": TIMES,
                "b": st.sampled_from(["true", "false"]),
            }[kind]
            for kind in kinds
        ]
    ).map(lambda row: (kinds, row))
)
GAPS = st.sampled_from(["", "\n", " ", "\n\n", " // e(1).\n", "/* e(2). */", "\r\n\t"])
COMMAS = st.sampled_from([",", ", ", " ,\t"])


@st.composite
def long_runs(draw: Any, odd: bool = True) -> str:
    """Facts in a row, more than `MANY`; perhaps others, and what is no fact, between them."""
    rows = draw(st.lists(ROWS, min_size=1, max_size=6))
    parts = []
    for at in range(draw(st.integers(14, 45))):
        kinds, row = rows[at % len(rows)] if draw(st.booleans()) else draw(ROWS)
        name = f"r{kinds}" if draw(st.integers(0, 9)) else draw(st.sampled_from(["p", "ré", "q_1"]))
        parts += [f"{name}({draw(COMMAS).join(row)}).", draw(GAPS)]
        if odd and not draw(st.integers(0, 25)):
            parts.append(draw(fact_texts()))
    return "".join(parts)


def pairs(statements: Any) -> dict[str, list[tuple[tuple[str, ...], tuple[Any, ...]]]]:
    """The types and values of facts, by relation."""
    found: dict[str, list[tuple[tuple[str, ...], tuple[Any, ...]]]] = {}
    for statement in statements:
        if isinstance(statement, Facts):
            for columns in statement.relations:
                rows = list(zip(*columns.columns, strict=True))
                types = [kinds for kinds, _ in zip(columns.types(), rows, strict=False)]
                found.setdefault(columns.name, []).extend(zip(types, rows, strict=True))
        elif isinstance(statement, Rule) and statement.body is None:
            for head in statement.heads:
                args = [arg for arg in head.args if isinstance(arg, Const)]
                if len(args) == len(head.args):
                    types, row = tuple(arg.type for arg in args), tuple(arg.value for arg in args)
                    found.setdefault(head.name, []).append((types, row))
    return found


@settings(max_examples=cases(60), deadline=None)
@given(long_runs())
def test_columns_hold_what_the_grammar_reads(text: str) -> None:
    both_ways(text)
    source = SourceText("facts.dl", text)
    read, _, _ = read_source(source, False)
    slow, _, _ = read_source(source, False, fast=False)
    assert repr(pairs(read.statements)) == repr(pairs(slow.statements))
    assert number_of(read.statements) == len(slow.statements)
    for many in read.statements:
        if isinstance(many, Facts):
            rules = list(one_by_one([many]))
            assert parse(format_node(many)).statements == tuple(rules)
            assert last_name(many) == rules[-1].heads[0].name  # type: ignore[union-attr]
            assert many.span.text == source.text[rules[0].span.start : rules[-1].span.end]


def test_facts_in_a_row_are_one_statement() -> None:
    text = "// edges\n" + "".join(f'e({at}, {at + 1}). n("x{at % 3}").\n' for at in range(5000))
    statements = parse_with_cautions(text)[0].statements
    assert {type(each) for each in statements} == {Facts}
    assert len(statements) < 5 and number_of(statements) == 10_000
    edges, names = statements[0].relations  # type: ignore[union-attr]
    assert (edges.kinds, len(edges)) == ((("int", "int"),), 2048)
    assert len(set(map(id, names.columns[0]))) == 3  # each text once
    again = parse_with_cautions(text)[0].statements
    assert again == statements and hash(again) == hash(statements)


def test_few_facts_are_a_statement_each() -> None:
    text = "".join(f"e({at}).\n" for at in range(15))
    assert all(isinstance(each, Rule) for each in parse_with_cautions(text)[0].statements)
    assert isinstance(parse_with_cautions(text + "e(15).")[0].statements[0], Facts)


def told(text: str, ask: str | None) -> Any:
    """What a database says about a text: rows, types, symbols and warnings, or the error."""
    with gd.connect(device="cpu") as db, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            if ask is None:
                db.run(text, name="facts.dl")
                found = {name: db[name] for name in db}
            else:
                found = {"": db.query(text + ask)}
            answers = {
                name: (result.columns, result.dtypes, result.fetchall())
                for name, result in found.items()
            }
        except gd.Error as error:
            return str(error), [str(each) for each in error.all]
        symbols = db.workspace.symbols
        texts = [symbols.text(code) for code in range(len(symbols))]
        return repr(answers), texts, [str(each.message) for each in said]


NEVER = re.compile("(?!)")


@settings(max_examples=cases(60), deadline=None)
@given(long_runs(), st.sampled_from([None, "", "\n?- ri(x), x > 0."]))
def test_a_database_says_the_same(text: str, ask: str | None) -> None:
    in_columns = told(text, ask)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(facts, "_RUN", NEVER)
        assert told(text, ask) == in_columns


WRONG = {
    "another type": ("e(1, {}).", 'e("a", 2).'),
    "another arity": ("e(1, {}).", "e(1)."),
    "an escape": ('n("{}").', r'n("\q").'),
    "no day": ("t(@2026-01-01, {}).", "t(@2026-02-30, 1)."),
    "beyond 64 bits": ("e(1, {}).", "e(1, 99999999999999999999)."),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_error_among_many_facts_has_its_place(case: str) -> None:
    right, wrong = WRONG[case]
    lines = [right.format(at) for at in range(100)]
    text = "\n".join([*lines, f"  {wrong}", *lines])
    with gd.connect(device="cpu") as db, pytest.raises(gd.Error) as error:
        db.run(text, name="facts.dl")
    assert error.value.span is not None
    assert error.value.span.line == 101
    assert f"101 |   {wrong}" in str(error.value)
    assert told(text, None)[0] == str(error.value).replace("facts.dl", "facts.dl")


def facts_of(count: int, name: str = "e") -> str:
    return "".join(f'{name}({at}, "s{at % 7}"). f({at}).\n' for at in range(count))


def test_facts_are_replaced_dropped_and_brought_back() -> None:
    with gd.connect(device="cpu") as db:
        text = facts_of(40)
        db.run(text)
        assert (len(db["e"]), len(db["f"])) == (40, 40)
        db["e"] = [(1, "a")]
        assert (len(db["e"]), len(db["f"])) == (1, 40)
        db.run(text)  # the same text again
        assert (len(db["e"]), len(db["f"])) == (41, 40)
        db.drop("f")
        assert "f" not in db and len(db["e"]) == 41
        assert {head.name for each in one_by_one(db.workspace.statements())
                for head in each.heads} == {"e"}  # type: ignore[union-attr]  # fmt: skip
        db.run(facts_of(20), name="other")
        assert (len(db["e"]), len(db["f"])) == (41, 20)


def test_a_view_follows_facts_in_columns() -> None:
    with gd.connect(device="cpu") as db:
        db["e"] = [(50, "t")]
        db.run("big(x) <- e(x, _), x >= 30.")
        db.run(facts_of(40), name="a")
        assert len(db["big"]) == 11
        before = db["big"]
        db.run("".join(f'e({at}, "t").' for at in range(30, 60)), name="b")
        assert len(db["big"]) == 30 and len(before) == 11
        assert sorted(db["big"].new) == [(at,) for at in range(40, 60) if at != 50]


def test_the_last_fact_names_the_answer() -> None:
    with gd.connect(device="cpu") as db:
        text = "".join(f"e({at}). f({at}, 1).\n" for at in range(10))
        assert db.query(text).columns == ("c0", "c1")
        assert db.query(text + "e(10).").fetchall()[-1] == (10,)


def test_a_query_with_constants_reads_facts_of_its_text() -> None:
    with gd.connect(device="cpu") as db:
        for at in range(4):  # a query whose constants alone differ is not compiled again
            assert db.query(f'{facts_of(40)}?- e({at}, x), x != "t".').fetchall() == [(f"s{at}",)]


def test_a_prompt_counts_and_saves_them(tmp_path: Any, capsys: Any) -> None:
    file = tmp_path / "facts.dl"
    file.write_text(facts_of(30))
    with gd.connect(device="cpu") as db:
        repl = Repl(db, Output(StringIO()), interactive=False)

        def says(line: str) -> str:
            capsys.readouterr()
            repl.output.stream = StringIO()
            repl.feed(line)
            return (repl.output.stream.getvalue() + capsys.readouterr().err).strip()

        assert says(f".read {file}") == "e: 30 facts added, 30 tuples\nf: 30 facts added, 30 tuples"
        assert says('e(3, "s3").') == "e: nothing new, 30 tuples"
        assert says("f(3). f(30).") == "f: 1 fact added, 1 known already, 31 tuples"
        assert says(".rules") == "no rules; 63 facts of e, f"
        assert says(".rules f") == "no rules; 32 facts of f"
        typed = "".join(f"g({at})." for at in range(20))
        assert says(typed) == "g: 20 facts added, 20 tuples"
        assert says(typed) == "g: nothing new, 20 tuples"
        assert "83 statements" in says(f".save {tmp_path / 'saved.dl'}")
        says(".undo")
        assert "g" not in db
        says(".undo")
        says(".undo")
        assert says(f".read {file}") == "e: nothing new, 30 tuples\nf: nothing new, 30 tuples"
        assert says(".undo") == f"reverted: .read {file}"
    with gd.connect(device="cpu") as other:
        other.run_file(tmp_path / "saved.dl")
        assert (len(other["e"]), len(other["f"]), len(other["g"])) == (30, 31, 20)


@pytest.mark.parametrize("count", [2, 40])  # one by one, and in columns
def test_a_file_with_a_query_says_what_was_kept(count: int, tmp_path: Any, capsys: Any) -> None:
    file = tmp_path / "facts.dl"
    file.write_text(f"{facts_of(count)}?- f(0).")
    with gd.connect(device="cpu") as db:
        Repl(db, Output(StringIO()), interactive=False).feed(f".read {file}")
        assert "kept the rules of e, f\n" in capsys.readouterr().err


def test_untrusted_facts_are_counted() -> None:
    wide = ", ".join(map(str, range(101)))
    with gd.connect(untrusted=True) as db:
        db.run(facts_of(40))
        with pytest.raises(gd.UsageError, match="101 columns") as error:
            db.run("".join(f"w({wide}).\n" for _ in range(20)))
        assert len(error.value.all) == 20


def test_the_columns_are_arrays() -> None:
    """A million facts are held in some bytes each."""
    (many,) = parse_with_cautions("".join(f"e({at}, 0.5).\n" for at in range(100)))[0].statements
    assert isinstance(many, Facts)
    (columns,) = many.relations
    assert isinstance(columns, FactColumns)
    assert [memoryview(column).itemsize for column in columns.columns] == [8, 8]  # type: ignore[arg-type]
