"""parse(format(program)) == program, for whole programs that Hypothesis draws.

Long, for it holds a strategy for every node of the syntax tree.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdatalog.parser import format_node, parse
from gdatalog.parser.syntax import (
    Aggregate,
    And,
    Atom,
    Cast,
    Column,
    Compare,
    Const,
    Decl,
    Directive,
    Distinct,
    Expr,
    FunctionCall,
    HeadAggregate,
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
    Range,
    Rule,
    TypeDecl,
    Var,
    Wildcard,
)
from gdatalog.parser.syntax import Test as LoneTest
from gdatalog.parser.tokens import BINARY
from gdatalog.values import INT_MAX, INT_MIN
from tests.cases import cases

WORDS = ["x", "y", "z", "X", "_x", "x?", "?", "max", "count", "sum", "in", "land", "bnot", "é"]
names = st.sampled_from(WORDS)
relations = st.sampled_from(
    ["E", "p", "a.b", "E'", "a.b''", "in", "min", "count", "lor", "as", "is"]
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
floats = st.floats(allow_nan=False)

constants = st.one_of(
    st.builds(Const, st.just("int"), st.integers(INT_MIN, INT_MAX)),
    st.builds(Const, st.just("float"), floats),
    st.builds(Const, st.just("symbol"), texts),
    st.builds(Const, st.just("bool"), st.booleans()),
    st.builds(Const, st.just("timestamp"), st.integers(INT_MIN + 10**15, INT_MAX)),
)
leaves: st.SearchStrategy[Expr] = st.one_of(
    constants,
    st.builds(Var, names),
    st.builds(Wildcard),
    st.builds(Param, st.sampled_from(["p", "start_2"])),
)


def tuples(of: st.SearchStrategy[Any], least: int = 0, most: int = 3) -> st.SearchStrategy[Any]:
    return st.lists(of, min_size=least, max_size=most).map(tuple)


def _call(name: str, args: tuple[Expr, ...]) -> Expr:
    if name == "as" and len(args) == 2 and isinstance(args[1], Var):
        return Cast(args[0], args[1].name)
    return FunctionCall(name, args)


def _negated(operand: Expr) -> Expr:
    return FunctionCall("-", (operand,))


def _expressions(below: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.builds(
            lambda name, a, b: FunctionCall(name, (a, b)),
            st.sampled_from(sorted(BINARY)),
            below,
            below,
        ),
        st.builds(_negated, below),
        st.builds(_call, relations | st.just("bnot"), tuples(below)),
        st.builds(Cast, below, names),
        st.builds(lambda body: Aggregate("count", (), body), st.deferred(lambda: small_literals)),
        st.builds(
            lambda kind, target, body: Aggregate(kind, (target,), body),
            st.sampled_from(["sum", "min", "max", "mean", "any_value"]),
            below,
            st.deferred(lambda: small_literals),
        ),
        st.builds(
            lambda targets, body: Aggregate("count_distinct", targets, body),
            tuples(below, 1),
            st.deferred(lambda: small_literals),
        ),
    )


expressions = st.recursive(leaves, _expressions, max_leaves=6)
small_literals: st.SearchStrategy[Literal] = st.builds(Atom, relations, tuples(leaves))
atoms = st.builds(Atom, relations, tuples(expressions))


def _tests(expr: Expr) -> Literal:
    """As the parser sorts what stands alone: a call is an atom."""
    if isinstance(expr, Cast):
        return Atom("as", (expr.operand, Var(expr.type_name)))
    if isinstance(expr, FunctionCall) and expr.name not in set("+-*/%^"):
        return Atom(expr.name, expr.args)
    return LoneTest(expr)


simple_literals = st.one_of(
    atoms,
    st.builds(
        Compare,
        expressions,
        tuples(st.tuples(st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), expressions), 1),
    ),
    st.builds(Member, expressions, tuples(expressions, 1)),
    expressions.map(_tests),
)


def _flat(kind: type[And] | type[Or]) -> Any:
    def make(items: list[Literal]) -> Literal:
        parts: list[Literal] = []
        for item in items:
            parts.extend(item.items if isinstance(item, kind) else (item,))
        return kind(tuple(parts))

    return make


literals: st.SearchStrategy[Literal] = st.recursive(
    simple_literals,
    lambda below: st.one_of(
        st.builds(Not, below),
        st.lists(below, min_size=2, max_size=3).map(_flat(And)),
        st.lists(below, min_size=2, max_size=3).map(_flat(Or)),
    ),
    max_leaves=5,
)
types = st.sampled_from(["int", "number", "symbol", "my.type"])
options = st.tuples(st.sampled_from(["IO", "filename", "n"]), texts)
relation_lists = tuples(relations, 1)
statements = st.one_of(
    st.builds(Rule, tuples(atoms, 1, 2), st.none() | literals),
    st.builds(Query, literals),
    st.builds(
        Decl,
        relation_lists,
        tuples(st.builds(Column, names, types)),
        tuples(st.sampled_from(["input", "btree", "magic"])),
    ),
    st.builds(TypeDecl, names, st.just("<:"), tuples(types, 1, 1)),
    st.builds(TypeDecl, names, st.just("="), tuples(types, 1)),
    st.builds(
        Directive,
        st.sampled_from(["input", "output", "printsize", "limitsize"]),
        relation_lists,
        st.none() | texts,
        tuples(options),
    ),
    st.builds(Include, texts),
    st.builds(Pragma, tuples(texts)),
    st.builds(PlanHint, st.sampled_from(["0:(1,2)", "0:(2,1,3), 1:(1,2)", ""])),
)
programs = st.builds(Program, tuples(statements, 0, 4))


@settings(max_examples=cases(300), deadline=None)
@given(programs)
def test_a_printed_program_is_read_back(program: Program) -> None:
    text = format_node(program)
    assert parse(text) == program, text


def test_a_bare_query_that_begins_with_two_signs() -> None:
    (statement,) = parse("- -x = 0.", bare=True).statements
    assert format_node(statement) == "- -x = 0."


@settings(max_examples=cases(150), deadline=None)
@given(literals)
def test_a_bare_query_is_read_back(body: Literal) -> None:
    program = parse(format_node(Query(body, bare=True)), bare=True)
    (statement,) = program.statements
    if isinstance(statement, Rule):
        assert statement.body is None  # ground atoms are facts
        read: Any = statement.heads if len(statement.heads) > 1 else statement.heads[0]
        assert read == (body.items if isinstance(body, And) else body)
    else:
        assert statement == Query(body, bare=True)


@settings(max_examples=cases(100), deadline=None)
@given(programs)
def test_spans_hold_what_was_printed(program: Program) -> None:
    """The span of a statement is its text without the dot."""
    for statement in parse(format_node(program)).statements:
        text = format_node(statement)
        assert statement.span.text == text.removesuffix(".")


@pytest.mark.parametrize(
    "text",
    [
        "2^2^3",
        "(2^2)^3",
        "-2^2",
        "(-2)^2",
        "2^-3",
        "2^-x^2",
        "-(3)",
        "--x",
        "a - (b - c)",
        "a - b - c",
        "a + b * c",
        "(a + b) * c",
        "a * -b",
        "a land b lor c",
        "a land (b lor c)",
        "bnot(x) + 1",
        "9223372036854775807",
        "-9223372036854775808",
        "1e+300",
        "0.1",
        "-0.5",
        "inf",
        "-inf",
        '"a\\"b\\\\\\n"',
        "@2026-11-20",
        "@2026-11-20T08:30:00.5",
        "true",
        "$start",
        "as(x, Id)",
        "min(x, y)",
        "2 * max s : { R(s) } + 1",
        "sum w : { A(x, _), B(x, w) }",
        "count_distinct x, y : { E(x, y) ; F(y, x) }",
        "sum (max - x) : { E(x) }",
    ],
)
def test_expressions_print_with_the_fewest_parentheses(text: str) -> None:
    (rule,) = parse(f"p() <- y = {text}.").statements
    assert format_node(rule) == f"p() <- y = {text}."


@pytest.mark.parametrize(
    "text",
    [
        "e(1, 2).",
        "e(1, null).",
        "p(x, null) <- E(x, y), y = null, null != coalesce(x, null).",
        "p(x, y) <- A(x), optional B(x, y).",
        "p(x, y) <- A(x), optional { B(x, y), !C(y) ; B(y, x) }, optional { optional C(x) }.",
        "optional(x) <- optional(y), optional, x = optional.",
        "retract e(1, null, -x + 1).",
        "retract e(x, total = _) where x > 9, (A(x) ; !B(x)).",
        "retract where(where) where where(where), retract(where).",
        "retract(x), where(x) <- retract(x), x = where, where = retract.",
        '.decl D(x: int?, "the y": symbol?)',
        "p(x), q(x) <- E(x, _).",
        "p(x) <- A(x), (B(x) ; C(x), D(x)).",
        "p(x) <- A(x), B(x) ; C(x).",
        "p(x) <- !(A(x), B(x)).",
        "p(x) <- !!A(x), !x < 3.",
        "p(x) <- x in {1, 2}, x < y <= z != 3.",
        "?- tr.",
        "?- a.b.",
        "?- true, !false.",
        ".decl A, B'(x: int, y: symbol) input btree",
        ".decl p()",
        ".type A = B | C",
        ".input E",
        '.input E("a\\tb.csv")',
        '.input E(IO="file", delimiter="\\t")',
        '.include "lib.dl"',
        '.pragma "a" "b"',
        ".plan 0:(1,2)",
    ],
)
def test_statements_print_as_they_are_written(text: str) -> None:
    assert format_node(parse(text)) == text + "\n"


def test_what_the_checks_make_is_printed() -> None:
    x, y = Var("x"), Var("y~2")
    one = Const("int", 1)
    assert format_node(Distinct((x, y))) == "distinct(x, y~2)"
    assert format_node(Range(x, one, Const("int", 9), one)) == "x = range(1, 9, 1)"
    head = Atom("total", (x, FunctionCall("*", (Const("int", 2), HeadAggregate("sum", (y,))))))
    assert format_node(Rule((head,), Not(Atom("R", (y,))))) == "total(x, 2 * sum(y~2)) <- !R(y~2)."
    assert format_node(HeadAggregate("count", ())) == "count()"
    assert format_node(LoneTest(FunctionCall("contains", (x, y)))) == "contains(x, y~2)"
    assert format_node(Column("a", "int")) == "a: int"


def test_infinity_is_a_float() -> None:
    (rule,) = parse("p(inf, -inf).").statements
    assert isinstance(rule, Rule)
    assert [arg.value for arg in rule.heads[0].args if isinstance(arg, Const)] == [
        math.inf,
        -math.inf,
    ]
