"""Types: what is inferred, and what both sides of a disagreement are shown as."""

from __future__ import annotations

import pytest

from gdatalog.parser.syntax import Const
from tests.tables import checked, said, schema, table


@pytest.mark.parametrize(("program", "says"), table("types"))
def test_says(program: str, says: str) -> None:
    assert said(program) == says


@pytest.mark.parametrize(
    ("program", "relation", "types"),
    [
        ("e(1, 2.5, true).", "e", "int float bool"),
        ('e("a", @2026-11-20).', "e", "symbol timestamp"),
        ("e(1). e(2.5).", "e", "float"),
        ("p(1, 2) <- true.", "p", "int int"),
        ("w(1, 2.5). d(1, 0). d(y, min(c + v)) <- d(y, c), w(y, v).", "d", "int float"),
        ("w(2.5). p(x + 1) <- w(x), x < 3.", "p", "float"),
        (
            "w(2.5). p(mean(x), sum(x), count(), count_distinct(x)) <- w(x).",
            "p",
            "float float int int",
        ),
        ('w("a"). p(min(x), any_value(x)) <- w(x).', "p", "symbol symbol"),
        ('w("a"). p(x + "b", strlen(x), contains("a", x)) <- w(x).', "p", "symbol int bool"),
        ("w(1). p(to_float(x), to_string(x), x / 2) <- w(x).", "p", "float symbol int"),
        ("p(x) <- q(x). q(x) <- r(x). r(1.5). r(2).", "p", "float"),
        ('a(x) <- b(x). b(x) <- a(x). b(x) <- c(x, _). c("s", 1).', "a", "symbol"),
        ("p(i) <- i = range(0, 3).", "p", "int"),
        ("p(x) <- x in {1, 2.5}.", "p", "float"),
        ("w(true). p(b) <- w(b), b.", "p", "bool"),
        ("w(1, 2.5). p(as(x, N)) <- w(x, _). .type N = number", "p", "int"),
        ("w(@2026-01-01). p(year(t), seconds_between(t, t)) <- w(t).", "p", "int float"),
        (
            "t(@2026-01-01T01:00). p(x - y, x + 1h, (x - y) / 1h) <- t(x), t(y).",
            "p",
            "duration timestamp float",
        ),
        (
            ".decl t(x: date) t(@2026-01-01). p(x - @2026-01-02, 1w + x) <- t(x).",
            "p",
            "duration date",
        ),
        # types that come later decide between signatures
        ("p(x + y) <- q(x), r(y). q(x) <- s(x). r(2d). s(@2026-01-01T01:00).", "p", "timestamp"),
        (
            "p(d * n, n * d, -d, abs(d), sum(d)) <- q(d), r(n). q(3h). r(2).",
            "p",
            "duration duration duration duration duration",
        ),
        ("p(x - y) <- q(x), q(y). q(x) <- q(x).  q(x) <- r(x). r(2.5).", "p", "float"),
        ("w(1). p(m) <- m = mean x : { w(x) }.", "p", "float"),
        # names of other languages
        (
            ".decl p(a: string, b: int32, c: uint64, d: float64, e: boolean, f: number, g: str) "
            ".decl q(h: datetime, i: double, j: unsigned, k: integer, l: float32, m: i64)",
            "p",
            "symbol int int float bool int symbol",
        ),
        (".decl p(a: datetime, b: real, c: String, d: bigint)", "p", "timestamp float symbol int"),
        (".type string = int .decl p(a: string)", "p", "int"),
        (".decl p(a: Name) .type Name = int64 .type int64 <: symbol", "p", "symbol"),
        (".type string .type Any = string | text .decl p(a: Any)", "p", "symbol"),
        ("w(1). p(as(x, int32)) <- w(x).", "p", "int"),
        # relations that can have no row
        ('w("a", "b"). p(x, z) <- w(x, y), p(y, z).', "p", "symbol int"),
        ("p(x) <- q(x). q(x) <- p(x), q(x).", "q", "int"),
        ("q(x) <- q(x). p(x, y) <- w(y), (q(x) ; x > 2, q(x)). w(2.5).", "p", "int float"),
        ("q(x) <- q(x). p(max(x)) <- q(x).", "p", "int"),
        ("q(x, y) <- q(y, x). p(x) <- q(x, y), y > 2.5.", "p", "float"),
    ],
)
def test_types(program: str, relation: str, types: str) -> None:
    assert checked(program).schemas[relation].types == tuple(types.split())


@pytest.mark.parametrize(
    ("program", "columns"),
    [
        ("e(1, 2). p(x, y) <- e(x, y).", "x y"),
        ("e(1, 2). p(x, x) <- e(x, _). p(a, b) <- e(a, b).", "a b"),
        ("e(1, 2). p(x, x) <- e(x, _).", "x x_2"),
        ("e(1, 2). p(x, count(), sum(y), max(x + y)) <- e(x, y).", "x count sum_y max"),
        (
            "e(1, 2). p(count(), sum(x), sum(x), count) <- e(x, count).",
            "count sum_x sum_x_2 count_2",
        ),
        ("p(1, 2).", "c0 c1"),
    ],
)
def test_columns_of_undeclared_relations(program: str, columns: str) -> None:
    assert checked(program).schemas["p"].columns == tuple(columns.split())


def test_types_of_variables() -> None:
    program = checked('e("a", 1.5). p(x) <- e(x, y), y > 1, n = count : { e(z, _) }, n > 0.')
    [rule] = program.strata[0].rules
    types = {name.partition("~")[0]: kind for name, kind in rule.types.items()}
    assert types == {"x": "symbol", "y": "float", "n": "int", "z": "symbol", "_": "float"}


def test_an_int_literal_stands_for_a_float() -> None:
    program = checked(".decl e(x: float)\ne(1). p(x) <- e(x), x < 2, !e(3).")
    assert program.facts["e"][0].args == (Const("float", 1.0),)
    assert "value=2.0" in str(program.strata[0].rules[0].body)
    assert "value=3.0" in str(program.strata[0].rules[0].body)


def test_data_settles_before_rules_do() -> None:
    """An int column of data, or of facts alone, does not become one of floats by its use."""
    known = {"w": schema("w", x="int")}
    assert "`x` is int" in said("p(sqrt(x)) <- w(x).", known)
    assert "`x` is int" in said("w(1). p(sqrt(x)) <- w(x).")


def test_parameters() -> None:
    text = "e(1, 2.5). p(x) <- e(x, y), y < $most, x != $not."
    program = checked(text, params={"most": "int", "not": "int"})
    assert program.param_types == {"most": "float", "not": "int"}


def test_a_parameter_of_the_wrong_type() -> None:
    from gdatalog.errors import TypeMismatchError

    with pytest.raises(TypeMismatchError) as caught:
        checked("e(1).\n?- e($name).", params={"name": "symbol"})
    assert str(caught.value) == (
        "p.dl:2:6: type error: `$name` is symbol, but column 1 of `e` is int\n"
        " 2 | ?- e($name).\n"
        "   |      ^^^^^\n"
        "  note: `$name` is symbol, as it is given\n"
        "  note: p.dl:1:3: column 1 of `e` is int here, as a literal\n"
        " 1 | e(1).\n"
        "   |   ^\n"
        "  hint: give `$name` as int"
    )
