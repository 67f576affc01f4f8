"""Statements: directives, queries, bare bodies, spans, includes, and cutting a text into them.

Long, for it is a table: each form of each directive has its row.
"""

from __future__ import annotations

from typing import Any

import pytest

from gdatalog.errors import ParseError, Span
from gdatalog.parser import (
    expand_includes,
    format_node,
    is_complete,
    parse,
)
from gdatalog.parser.syntax import (
    And,
    Atom,
    Column,
    Compare,
    Const,
    Decl,
    Directive,
    Include,
    Literal,
    Param,
    PlanHint,
    Pragma,
    Program,
    Query,
    Rule,
    Statement,
    TypeDecl,
    Var,
    Wildcard,
)
from gdatalog.parser.syntax import Test as LoneTest
from tests.doc_fences import split_statements

y, _ = Var("y"), Wildcard()


def num(value: int) -> Const:
    return Const("int", value)


def statement(source: str, bare: bool = False) -> Statement:
    (only,) = parse(source, bare=bare).statements
    return only


# --------------------------------------------------------------------------------- directives

DIRECTIVES: list[tuple[str, Statement]] = [
    (
        ".decl E(src: int, dst: symbol) input btree",
        Decl(
            ("E",), (Column("src", "int"), Column("dst", "symbol")), ("input", "btree")
        ),
    ),
    (".decl A, B'(x:number)", Decl(("A", "B'"), (Column("x", "number"),))),
    (".decl p()", Decl(("p",), ())),
    (".decl a.b(x: my.type)", Decl(("a.b",), (Column("x", "my.type"),))),
    (".decl R(\n  x: int,  // the first\n  y: int\n)", Decl(
        ("R",), (Column("x", "int"), Column("y", "int")))),
    (".decl A(x: int)\n  output", Decl(("A",), (Column("x", "int"),), ("output",))),
    (".type Id = int", TypeDecl("Id", "=", ("int",))),
    (".type Var <: symbol", TypeDecl("Var", "<:", ("symbol",))),
    (".type A = B | C\n | D", TypeDecl("A", "=", ("B", "C", "D"))),
    (".type Name", TypeDecl("Name", "<:", ("symbol",))),
    (".number_type N", TypeDecl("N", "<:", ("number",))),
    (".symbol_type N", TypeDecl("N", "<:", ("symbol",))),
    (".input E, F", Directive("input", ("E", "F"))),
    (".input E()", Directive("input", ("E",))),
    ('.input E("edges.csv")', Directive("input", ("E",), "edges.csv")),
    (
        '.input E(IO=file, filename="e.tsv", delimiter="\\t", headers=true, columns="0:1")',
        Directive(
            "input",
            ("E",),
            None,
            (
                ("IO", "file"),
                ("filename", "e.tsv"),
                ("delimiter", "\t"),
                ("headers", "true"),
                ("columns", "0:1"),
            ),
        ),
    ),
    (
        '.output t("t.csv", headers=true)',
        Directive("output", ("t",), "t.csv", (("headers", "true"),)),
    ),
    (".output tr(IO=stdout)", Directive("output", ("tr",), None, (("IO", "stdout"),))),
    (".printsize a.b", Directive("printsize", ("a.b",))),
    (".limitsize p(n=1_000)", Directive("limitsize", ("p",), None, (("n", "1000"),))),
    ('.include "lib.dl"', Include("lib.dl")),
    ('.pragma "a" "b"', Pragma(("a", "b"))),
    ('.pragma "a"', Pragma(("a",))),
    (".plan 0:(2,1), 1:(1,2)", PlanHint("0:(2,1), 1:(1,2)")),
]  # fmt: skip


@pytest.mark.parametrize(("source", "expected"), DIRECTIVES, ids=[s for s, _ in DIRECTIVES])
@pytest.mark.parametrize(
    "after",
    ["", ".", "\n", "\np(x) <- q(x).", " p(x) <- q(x).", "\n?- q.", "\n.output t", "\n// done",
     "\ninput(1).", "\nbtree(x), q(x) <- r(x)."],
)  # fmt: skip
def test_directives(source: str, expected: Statement, after: str) -> None:
    program = parse(source + after)
    first, *rest = program.statements
    assert first == expected
    assert first.span.text == source
    assert rest == list(parse(after.removeprefix(".")).statements if after != "." else ())


def test_directives_after_statements() -> None:
    program = parse("p(1).\n.output p\n.printsize p q(2). .output q .decl q(x: int) inline")
    assert [type(s).__name__ for s in program.statements] == [
        "Rule", "Directive", "Directive", "Rule", "Directive", "Decl",
    ]  # fmt: skip


# ------------------------------------------------------------------------------ queries, bare


def test_queries() -> None:
    assert statement("?- tr(1, y), y < 3.") == Query(
        And((Atom("tr", (num(1), y)), Compare(y, (("<", num(3)),))))
    )
    assert statement("?- tr.") == Query(LoneTest(Var("tr")))
    assert statement("?-tr($s, _).") == Query(Atom("tr", (Param("s"), _)))


@pytest.mark.parametrize(
    ("source", "fact"),
    [
        ("e(1, 2).", True),
        ("e(1, 2)", True),
        ("e(-1, 2*3, $p).", True),
        ("e(1), f(2)", True),
        ("p()", True),
        ("e(1, y)", False),
        ("e(1, _)", False),
        ("tr(1, y, z), y < z", False),
        ("tr", False),
        ("1 < 2", False),
        ("!e(1)", False),
        ("e(1) ; e(2)", False),
        ("e(count : f(_))", False),
    ],
)
def test_bare_bodies(source: str, fact: bool) -> None:
    read = statement(source, bare=True)
    if fact:
        assert isinstance(read, Rule)
        assert read == statement(source)
    else:
        assert read == Query(_query(f"?- {source}"), bare=True)


def _query(source: str) -> Literal:
    read = statement(source)
    assert isinstance(read, Query)
    return read.body


def test_bare_changes_nothing_else() -> None:
    source = "p(x) <- q(x), x<-3.\n?- p.\n.output p\nq(1)."
    assert parse(source, bare=True) == parse(source)


# --------------------------------------------------------------------------------------- spans


def spans_of(node: Any, found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    if isinstance(node, tuple):
        for part in node:
            spans_of(part, found)
    elif hasattr(node, "__slots__") and not isinstance(node, Span):
        found.append((type(node).__name__, node.span.text))
        for name in node.__slots__:
            spans_of(getattr(node, name), found)
    return found


def test_spans() -> None:
    source = (
        "  p(x, (y)) <- !( a.b(x,y) ; (c (_)) ), (x+1) * -2 < y^-z, x in {1}, "
        "n = max s : {R(s)} .\n"
    )
    assert spans_of(parse(source).statements, []) == [
        ("Rule", source.strip(" .\n")),
        ("Atom", "p(x, (y))"),
        ("Var", "x"),
        ("Var", "y"),
        ("And", source[source.index("!") :].strip(" .\n")),
        ("Not", "!( a.b(x,y) ; (c (_)) )"),
        ("Or", "a.b(x,y) ; (c (_))"),
        ("Atom", "a.b(x,y)"),
        ("Var", "x"),
        ("Var", "y"),
        ("Atom", "c (_)"),
        ("Wildcard", "_"),
        ("Compare", "(x+1) * -2 < y^-z"),
        ("FunctionCall", "(x+1) * -2"),
        ("FunctionCall", "x+1"),
        ("Var", "x"),
        ("Const", "1"),
        ("Const", "-2"),
        ("FunctionCall", "y^-z"),
        ("Var", "y"),
        ("FunctionCall", "-z"),
        ("Var", "z"),
        ("Member", "x in {1}"),
        ("Var", "x"),
        ("Const", "1"),
        ("Compare", "n = max s : {R(s)}"),
        ("Var", "n"),
        ("Aggregate", "max s : {R(s)}"),
        ("Var", "s"),
        ("Atom", "R(s)"),
        ("Var", "s"),
    ]
    decl = parse("\n\n .decl E(a: int , b : x) input").statements[0]
    assert isinstance(decl, Decl)
    assert [column.span.text for column in decl.columns] == ["a: int", "b : x"]
    assert decl.span.where() == "<query>:3:2"


# ------------------------------------------------------------------------- statements, includes


@pytest.mark.parametrize(
    ("source", "complete"),
    [
        ("", True),
        ("// nothing", True),
        ("p(1).", True),
        ("p(1). // done\n", True),
        ("p(1)", False),
        ("p(x) <- q(x),", False),
        ("p(x) <- q(x), x = 3.", True),
        ("p(x) <- q(x), x = 3.5", False),
        ("p(1). q(", False),
        ('p("a.b', True),
        ("p(1). /* open", False),
        ("?- tr", False),
        ("?- tr.", True),
        (".input E", True),
        (".input E,", False),
        (".decl E(x: int,", False),
        (".decl E", False),
        (".decl E(x: int)", True),
        (".foo", True),
        ("p(x\n.output p", True),
        ("p(x", False),
    ],
)
def test_is_complete(source: str, complete: bool) -> None:
    assert is_complete(source) is complete


def test_split_statements() -> None:
    source = '// a\np("x. y", 2.5). .input E q(x) <- a.b(x), // c.\n r(x).\n\n?- q'
    assert split_statements(source) == [
        'p("x. y", 2.5).',
        ".input E",
        "q(x) <- a.b(x), // c.\n r(x).",
        "?- q",
    ]


FILES = {
    "main.dl": '.include "a.dl"\np(1).\n.include "b.dl"',
    "a.dl": '.include "b.dl"\na(1).',
    "b.dl": "b(1).",
    "x.dl": 'x(1).\n.include "y.dl"',
    "y.dl": '.include "x.dl"\ny(1).',
    "self.dl": '.include "self.dl"',
    "broken.dl": '.include "worse.dl"\np(1,).\n?- .',
    "worse.dl": "p(",
}


def read(path: str, span: Span) -> Program:
    assert span.text == f'.include "{path}"'
    return parse(FILES[path], path)


def test_includes() -> None:
    program = expand_includes(parse(FILES["main.dl"], "main.dl"), read)
    assert format_node(program) == "b(1).\na(1).\np(1).\nb(1).\n"
    assert [s.span.source.name for s in program.statements] == ["b.dl", "a.dl", "main.dl", "b.dl"]


def test_an_include_cycle_is_shown() -> None:
    with pytest.raises(ParseError) as caught:
        expand_includes(parse(FILES["x.dl"], "x.dl"), read)
    assert str(caught.value) == (
        "y.dl:1:1: syntax error: files that include each other: x.dl -> y.dl -> x.dl\n"
        ' 1 | .include "x.dl"\n   | ^^^^^^^^^^^^^^^\n'
        "  note: x.dl:2:1: which is included here\n"
        ' 2 | .include "y.dl"\n   | ^^^^^^^^^^^^^^^\n'
        "  hint: put what both need into a file that includes neither"
    )
    with pytest.raises(ParseError, match=r"self\.dl -> self\.dl"):
        expand_includes(parse(FILES["self.dl"], "self.dl"), read)


def test_includes_have_a_limit() -> None:
    def deeper(path: str, span: Span) -> Program:
        return parse(f'.include "{path}x"', path)

    with pytest.raises(ParseError, match="more than 100 deep"):
        expand_includes(parse('.include "x"', "main.dl"), deeper)


def test_the_errors_of_all_files_are_reported() -> None:
    def lenient(path: str, span: Span) -> Program:
        return read(path, span) if path != "more.dl" else parse("q(", path)

    with pytest.raises(ParseError) as caught:
        source = '.include "worse.dl"\n.include "more.dl"\n.include "b.dl"'
        expand_includes(parse(source, "main.dl"), lenient)
    assert [e.span.source.name for e in caught.value.all if e.span] == ["worse.dl", "more.dl"]
