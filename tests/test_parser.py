"""The syntax, feature by feature: texts, and the trees that they are read as.

Long, for it is a table: each feature of the language's expressions and literals has its rows.
"""

from __future__ import annotations

import pytest

from gdatalog.parser import (
    format_node,
    parse,
    parse_with_cautions,
)
from gdatalog.parser.syntax import (
    Aggregate,
    And,
    Atom,
    Cast,
    Compare,
    Const,
    Expr,
    FunctionCall,
    Literal,
    Member,
    Not,
    Or,
    Param,
    Program,
    Query,
    Rule,
    Statement,
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


@pytest.mark.parametrize(
    ("source", "nanoseconds"),
    [
        ("3h", 3 * 3600 * 10**9), ("90s", 90 * 10**9), ("2w", 14 * 86_400 * 10**9),
        ("1500ms", 1_500_000_000), ("5m", 300 * 10**9), ("1d12h", 36 * 3600 * 10**9),
        ("1_000us", 1_000_000), ("7ns", 7), ("-90s", -90 * 10**9),
    ],
)  # fmt: skip
def test_durations(source: str, nanoseconds: int) -> None:
    assert expr(source) == Const("duration", nanoseconds)
    fact = parse(f"p({source}).").statements[0]
    assert fact == parse(f"p( /**/ {source}).").statements[0]  # the grammar reads this one
    assert parse(format_node(fact)).statements[0] == fact


def test_floats_are_no_durations() -> None:
    assert expr("3e5") == Const("float", 3e5)
    assert expr("x - 3h") == FunctionCall("-", (x, Const("duration", 3 * 3600 * 10**9)))


@pytest.mark.parametrize("name", ["x", "X", "_x", "x?", "?x", "x1_?", "é", "__", "in", "max", "E"])
def test_variables(name: str) -> None:
    assert expr(name) == Var(name)


@pytest.mark.parametrize("name", ["E", "a.b", "a.b.c", "E'", "E''", "a.b'", "in", "land", "?r"])
def test_relation_names(name: str) -> None:
    assert statement(f"{name}(1).") == Rule((Atom(name, (num(1),)),), None)
    assert body(f"q(x), {name}(x)") == And((Atom("q", (x,)), Atom(name, (x,))))


def test_dots_end_statements_and_join_names() -> None:
    program = parse("p(x) <- q(x), x = 3.q(1).a.b(2).\nq(2.5).q() .r().x = 3.", bare=True)
    assert format_node(program) == (
        "p(x) <- q(x), x = 3.\nq(1).\na.b(2).\nq(2.5).\nq().\nr().\nx = 3.\n"
    )


def test_comments() -> None:
    source = "// a\n# b\n% c\np(1). /* d . */ p(/* e\n*/2). // f\n#g\np(3 % 2)."
    program, cautions = parse_with_cautions(source)
    assert format_node(program) == "p(1).\np(2).\np(3 % 2).\n"
    assert cautions == ()


def test_a_byte_order_mark_and_line_ends() -> None:
    assert format_node(parse("\ufeffp(1).\r\np(2).\r\n")) == "p(1).\np(2).\n"


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
    assert expr("-x") == FunctionCall("-", (x,))
    assert expr("-(3)") == FunctionCall("-", (num(3),))
    assert expr("--3") == FunctionCall("-", (num(-3),))
    assert expr("-2^2") == FunctionCall("-", (FunctionCall("^", (num(2), num(2))),))
    assert expr("(-2)^2") == FunctionCall("^", (num(-2), num(2)))
    assert expr("x-3") == FunctionCall("-", (x, num(3)))
    assert expr("x - -3") == FunctionCall("-", (x, num(-3)))


def test_calls() -> None:
    assert expr("min(x, 2, f())") == FunctionCall("min", (x, num(2), FunctionCall("f", ())))
    assert expr("as(x, Id)") == Cast(x, "Id")
    assert expr("$start + _") == FunctionCall("+", (Param("start"), _))
    assert expr("true") == Const("bool", True)


# ------------------------------------------------------------------------------------- rules


def test_facts_and_rules() -> None:
    assert statement("p().") == Rule((Atom("p", ()),), None)
    assert statement('p(1, "a", 2*3).') == Rule(
        (Atom("p", (num(1), text("a"), FunctionCall("*", (num(2), num(3))))),), None
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
                    FunctionCall("count", ()),
                    FunctionCall(
                        "+", (FunctionCall("*", (num(2), FunctionCall("sum", (y,)))), num(1))
                    ),
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
    assert body("q(x), x<-y") == And(
        (Atom("q", (x,)), Compare(x, (("<", FunctionCall("-", (y,))),)))
    )
    assert statement("?- x<-3.") == Query(Compare(x, (("<", num(-3)),)))
    assert body("(x + 1) * 2 < f(y)") == Compare(
        FunctionCall("*", (FunctionCall("+", (x, num(1))), num(2))),
        (("<", FunctionCall("f", (y,))),),
    )
    assert body("x in {1, y, -3}") == Member(x, (num(1), y, num(-3)))
    assert body("x+1 in {1}, !y in {2}") == And(
        (Member(FunctionCall("+", (x, num(1))), (num(1),)), Not(Member(y, (num(2),))))
    )
    assert body("i = range(0, 10)") == Compare(
        Var("i"), (("=", FunctionCall("range", (num(0), num(10)))),)
    )


def test_lone_expressions() -> None:
    assert body("true, !false") == And(
        (LoneTest(Const("bool", True)), Not(LoneTest(Const("bool", False))))
    )
    assert body('contains("a", x)') == Atom("contains", (text("a"), x))
    assert body("distinct(x, y)") == Atom("distinct", (x, y))
    assert body("x + 1") == LoneTest(FunctionCall("+", (x, num(1))))
    assert body("(q(x))") == Atom("q", (x,))


# -------------------------------------------------------------------------------- aggregates


def test_aggregates() -> None:
    edge = Atom("E", (x, _))
    assert expr("count : { E(x, _) }") == Aggregate("count", (), edge)
    assert expr("count : E(x, _)") == Aggregate("count", (), edge)
    assert expr("max s : {S(x,s)}") == Aggregate("max", (Var("s"),), Atom("S", (x, Var("s"))))
    assert expr("sum x+1 : { E(x, _), x > 3 ; E(x, _) }") == Aggregate(
        "sum",
        (FunctionCall("+", (x, num(1))),),
        Or((And((edge, Compare(x, ((">", num(3)),)))), edge)),
    )
    assert expr("count_distinct x, y : { E(x, y) }") == Aggregate(
        "count_distinct", (x, y), Atom("E", (x, y))
    )
    largest = Aggregate("max", (Var("s"),), Atom("R", (Var("s"),)))
    assert expr("2*max s : R(s) + 1") == FunctionCall(
        "+", (FunctionCall("*", (num(2), largest)), num(1))
    )
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
        (Atom("count", (x,)), Compare(x, (("=", FunctionCall("-", (Var("max"), Var("min")))),)))
    )
    nested = expr("sum max s : { R(s) } : { q(x) }")
    assert isinstance(nested, Aggregate)
    assert isinstance(nested.targets[0], Aggregate)
    inner = expr("count : { q(x), x = count : { r(y) } }")
    assert isinstance(inner, Aggregate)
    assert format_node(inner) == "count : { q(x), x = count : { r(y) } }"
