"""The syntax, feature by feature: texts, and the trees that they are read as."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

from gdatalog.errors import ParseError, Span
from gdatalog.parser import (
    expand_includes,
    format_node,
    format_program,
    is_complete,
    parse,
    parse_with_cautions,
    split_statements,
)
from gdatalog.parser.syntax import (
    Aggregate,
    And,
    Atom,
    Call,
    Cast,
    Column,
    Compare,
    Const,
    Decl,
    Directive,
    Expr,
    Include,
    Literal,
    Member,
    Not,
    Or,
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

x, y, z, _ = Var("x"), Var("y"), Var("z"), Wildcard()


def num(value: int | float) -> Const:
    return Const("int" if isinstance(value, int) else "float", value)


def text(value: str) -> Const:
    return Const("symbol", value)


def statement(source: str, bare: bool = False) -> Statement:
    (only,) = parse(source, bare=bare).statements
    return only


def expr(source: str) -> Expr:
    """The expression, read as the side of a comparison."""
    body = statement(f"?- v = {source}.")
    assert isinstance(body, Query)
    assert isinstance(body.body, Compare)
    return body.body.rest[0][1]


def body(source: str) -> Literal:
    rule = statement(f"p() <- {source}.")
    assert isinstance(rule, Rule)
    assert rule.body is not None
    return rule.body


# -------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("7", 7),
        ("-3", -3),
        ("- 3", -3),
        ("0xff", 255),
        ("0XFF_ff", 65535),
        ("0b101", 5),
        ("1_000_000", 1_000_000),
        ("42u", 42),
        ("2.5", 2.5),
        ("-2.5", -2.5),
        ("1e-9", 1e-9),
        ("2.5e3", 2500.0),
        ("1E3", 1000.0),
        ("inf", float("inf")),
        ("-inf", float("-inf")),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("-0x8000000000000000", -(2**63)),
    ],
)
def test_numbers(source: str, value: float) -> None:
    read = expr(source)
    assert read == num(value)
    assert read.span.text == source


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ('""', ""),
        ('"a b"', "a b"),
        (r'"\" \' \\ \a\b\f\n\r\t\v"', "\" ' \\ \a\b\f\n\r\t\v"),
        (r'"\u00e9"', "é"),
        (r'"\ud83d\ude00"', "😀"),
        ('"// no # comment /* %"', "// no # comment /* %"),
        ('"é."', "é."),
    ],
)
def test_strings(source: str, value: str) -> None:
    assert expr(source) == text(value)


def test_timestamps() -> None:
    assert expr("@1970-01-02") == Const("timestamp", 86_400 * 10**9)
    assert expr("@1970-01-01T00:00:01.5") == Const("timestamp", 1_500_000_000)
    assert expr("@1970-01-01T01:00+01:00") == Const("timestamp", 0)
    assert body("t = @1970-01-02, x = 1") == And(
        (
            Compare(Var("t"), (("=", Const("timestamp", 86_400 * 10**9)),)),
            Compare(x, (("=", num(1)),)),
        )
    )


@pytest.mark.parametrize("name", ["x", "X", "_x", "x?", "?x", "x1_?", "é", "__", "in", "max", "E"])
def test_variables(name: str) -> None:
    assert expr(name) == Var(name)


@pytest.mark.parametrize("name", ["E", "a.b", "a.b.c", "E'", "E''", "a.b'", "in", "land", "?r"])
def test_relation_names(name: str) -> None:
    assert statement(f"{name}(1).") == Rule((Atom(name, (num(1),)),), None)
    assert body(f"q(x), {name}(x)") == And((Atom("q", (x,)), Atom(name, (x,))))


def test_dots_end_statements_and_join_names() -> None:
    program = parse("p(x) <- q(x), x = 3.q(1).a.b(2).\nq(2.5).q() .r().x = 3.", bare=True)
    assert format_program(program) == (
        "p(x) <- q(x), x = 3.\nq(1).\na.b(2).\nq(2.5).\nq().\nr().\nx = 3.\n"
    )


def test_comments() -> None:
    source = "// a\n# b\n% c\np(1). /* d . */ p(/* e\n*/2). // f\n#g\np(3 % 2)."
    program, cautions = parse_with_cautions(source)
    assert format_program(program) == "p(1).\np(2).\np(3 % 2).\n"
    assert cautions == ()


def test_a_byte_order_mark_and_line_ends() -> None:
    assert format_program(parse("\ufeffp(1).\r\np(2).\r\n")) == "p(1).\np(2).\n"


def test_the_last_dot_may_be_left_out() -> None:
    assert parse("p(1). q(x) <- p(x)") == parse("p(1). q(x) <- p(x).")
    assert parse("p(1). ?- p") == parse("p(1). ?- p.")
    assert parse("") == parse("  // nothing\n") == Program(())


# -------------------------------------------------------------------------------- expressions


@pytest.mark.parametrize(
    ("source", "same"),
    [
        ("1 + 2 * 3", "1 + (2 * 3)"),
        ("1 - 2 - 3", "(1 - 2) - 3"),
        ("2-3", "(2) - (3)"),
        ("2^2^3", "2^(2^3)"),
        ("2**3", "2^3"),
        ("-2^2", "-(2^2)"),
        ("2^-3^2", "2^(-(3^2))"),
        ("2^-x * 3", "(2^(-x)) * 3"),
        ("-x * y", "(-x) * y"),
        ("-x + y", "(-x) + y"),
        ("a land b lor c lxor d", "((a land b) lor (c lxor d))"),
        ("a bor b band c bshl 2 + 1", "a bor (b band (c bshl (2 + 1)))"),
        ("a bshr 1 bshru 2", "(a bshr 1) bshru 2"),
        ("bnot x + 1", "bnot(x) + 1"),
        ("bnot -x", "bnot(-x)"),
        ("lnot x land y", "lnot(x) land y"),
        ("a % b / c", "(a % b) / c"),
        ("((((x))))", "x"),
        ("- -3", "-(-3)"),
    ],
)
def test_precedence(source: str, same: str) -> None:
    assert expr(source) == expr(same)


def test_signs() -> None:
    assert expr("-x") == Call("-", (x,))
    assert expr("-(3)") == Call("-", (num(3),))
    assert expr("--3") == Call("-", (num(-3),))
    assert expr("-2^2") == Call("-", (Call("^", (num(2), num(2))),))
    assert expr("(-2)^2") == Call("^", (num(-2), num(2)))
    assert expr("x-3") == Call("-", (x, num(3)))
    assert expr("x - -3") == Call("-", (x, num(-3)))


def test_calls() -> None:
    assert expr("min(x, 2, f())") == Call("min", (x, num(2), Call("f", ())))
    assert expr("as(x, Id)") == Cast(x, "Id")
    assert expr("$start + _") == Call("+", (Param("start"), _))
    assert expr("true") == Const("bool", True)


# ------------------------------------------------------------------------------------- rules


def test_facts_and_rules() -> None:
    assert statement("p().") == Rule((Atom("p", ()),), None)
    assert statement('p(1, "a", 2*3).') == Rule(
        (Atom("p", (num(1), text("a"), Call("*", (num(2), num(3))))),), None
    )
    assert statement("p(x) <- q(x).") == Rule((Atom("p", (x,)),), Atom("q", (x,)))
    assert statement("p(x) <- q(x).") == statement("p(x) :- q(x).")
    assert statement("p(x), r(x) :- q(x).") == Rule(
        (Atom("p", (x,)), Atom("r", (x,))), Atom("q", (x,))
    )
    assert statement("likes(alice).") == Rule((Atom("likes", (Var("alice"),)),), None)
    assert statement("deg(x, count(), 2*sum(y)+1) <- E(x, y).") == Rule(
        (
            Atom(
                "deg",
                (
                    x,
                    Call("count", ()),
                    Call("+", (Call("*", (num(2), Call("sum", (y,)))), num(1))),
                ),
            ),
        ),
        Atom("E", (x, y)),
    )


def test_and_or_not() -> None:
    a, b, c = Atom("a", ()), Atom("b", ()), Atom("c", ())
    assert body("a(), b() ; c()") == Or((And((a, b)), c))
    assert body("a(), (b() ; c())") == And((a, Or((b, c))))
    assert body("a(), (b(), c())") == And((a, b, c))
    assert body("(a() ; b()) ; c()") == Or((a, b, c))
    assert body("!a(), not b()") == And((Not(a), Not(b)))
    assert body("!!a()") == Not(Not(a))
    assert body("!(a(), b() ; c())") == Not(Or((And((a, b)), c)))
    assert body("not(a())") == Not(a)
    assert body("!x < 3") == Not(Compare(x, (("<", num(3)),)))


def test_comparisons() -> None:
    assert body("x < y <= z != 3 = x > y >= z") == Compare(
        x, (("<", y), ("<=", z), ("!=", num(3)), ("=", x), (">", y), (">=", z))
    )
    assert body("x<-3") == Compare(x, (("<", num(-3)),))
    assert body("q(x), x<-y") == And((Atom("q", (x,)), Compare(x, (("<", Call("-", (y,))),))))
    assert statement("?- x<-3.") == Query(Compare(x, (("<", num(-3)),)))
    assert body("(x + 1) * 2 < f(y)") == Compare(
        Call("*", (Call("+", (x, num(1))), num(2))), (("<", Call("f", (y,))),)
    )
    assert body("x in {1, y, -3}") == Member(x, (num(1), y, num(-3)))
    assert body("x+1 in {1}, !y in {2}") == And(
        (Member(Call("+", (x, num(1))), (num(1),)), Not(Member(y, (num(2),))))
    )
    assert body("i = range(0, 10)") == Compare(Var("i"), (("=", Call("range", (num(0), num(10)))),))


def test_lone_expressions() -> None:
    assert body("true, !false") == And(
        (LoneTest(Const("bool", True)), Not(LoneTest(Const("bool", False))))
    )
    assert body('contains("a", x)') == Atom("contains", (text("a"), x))
    assert body("distinct(x, y)") == Atom("distinct", (x, y))
    assert body("x + 1") == LoneTest(Call("+", (x, num(1))))
    assert body("(q(x))") == Atom("q", (x,))


# -------------------------------------------------------------------------------- aggregates


def test_aggregates() -> None:
    edge = Atom("E", (x, _))
    assert expr("count : { E(x, _) }") == Aggregate("count", (), edge)
    assert expr("count : E(x, _)") == Aggregate("count", (), edge)
    assert expr("max s : {S(x,s)}") == Aggregate("max", (Var("s"),), Atom("S", (x, Var("s"))))
    assert expr("sum x+1 : { E(x, _), x > 3 ; E(x, _) }") == Aggregate(
        "sum",
        (Call("+", (x, num(1))),),
        Or((And((edge, Compare(x, ((">", num(3)),)))), edge)),
    )
    assert expr("count_distinct x, y : { E(x, y) }") == Aggregate(
        "count_distinct", (x, y), Atom("E", (x, y))
    )
    largest = Aggregate("max", (Var("s"),), Atom("R", (Var("s"),)))
    assert expr("2*max s : R(s) + 1") == Call("+", (Call("*", (num(2), largest)), num(1)))
    assert body("B(x, max s : {R(s)}), y = 2") == And(
        (Atom("B", (x, largest)), Compare(y, (("=", num(2)),)))
    )
    assert body("count : { E(x, _) } < 3") == Compare(
        Aggregate("count", (), edge), (("<", num(3)),)
    )


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("sum min(x, y) : { q(x) }", "min(x, y)"),
        ("sum x * min(x, y) : { q(x) }", "x * min(x, y)"),
        ("sum (x) : { q(x) }", "x"),
        ("sum(x) : { q(x) }", "x"),
        ("sum -x : { q(x) }", "-x"),
        ("min max : { q(max) }", "max"),
        ("sum count : { q(count) }", "count"),
        ("max bnot x : { q(x) }", "bnot x"),
    ],
)
def test_what_an_aggregate_aggregates(source: str, target: str) -> None:
    read = expr(source)
    assert isinstance(read, Aggregate)
    assert read.targets == (expr(target),)


def test_names_of_aggregates_are_words_only_in_their_place() -> None:
    assert body("count(x), x = max - min") == And(
        (Atom("count", (x,)), Compare(x, (("=", Call("-", (Var("max"), Var("min")))),)))
    )
    nested = expr("sum max s : { R(s) } : { q(x) }")
    assert isinstance(nested, Aggregate)
    assert isinstance(nested.targets[0], Aggregate)
    inner = expr("count : { q(x), x = count : { r(y) } }")
    assert isinstance(inner, Aggregate)
    assert format_node(inner) == "count : { q(x), x = count : { r(y) } }"


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
        ("Call", "(x+1) * -2"),
        ("Call", "x+1"),
        ("Var", "x"),
        ("Const", "1"),
        ("Const", "-2"),
        ("Call", "y^-z"),
        ("Var", "y"),
        ("Call", "-z"),
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
    assert format_program(program) == "b(1).\na(1).\np(1).\nb(1).\n"
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


# --------------------------------------------------------------------------------------- start


def test_the_parser_is_built_when_first_needed() -> None:
    code = (
        "import sys, gdatalog.parser; assert 'lark' not in sys.modules;"
        "gdatalog.parser.parse('e(1).'); assert 'lark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    start = time.perf_counter()
    parse("?- 1 < 2.")
    assert time.perf_counter() - start < 2
