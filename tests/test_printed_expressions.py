"""Expressions as source for Numba, compared row by row with those on columns."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdatalog.cpu_ops.expressions import Scope, evaluate
from gdatalog.errors import NOWHERE
from gdatalog.plan.functions import signatures
from gdatalog.plan.join_plan import Apply, Constant, Expr, Parameter, Slot, slots
from gdatalog.planner.normalise import applied
from gdatalog.printer.expressions import ExpressionPrinter, Unprintable, printable
from gdatalog.storage.keys import key_to_float
from gdatalog.storage.symbols import SymbolTable
from gdatalog.values import FIRST_DAY, LAST_DAY
from tests.printed import (
    DECIMAL,
    INEXACT,
    LETTERS,
    PATTERNS,
    TYPES,
    TYPINGS,
    VALUES,
    VARIABLES,
    Module,
    columns,
    draw,
    scope,
)

X, Y = Slot("x", "int"), Slot("y", "int")
F, G = Slot("f", "float"), Slot("g", "float")
S, T = Slot("s", "symbol"), Slot("t", "symbol")


def printed(expr: Expr) -> tuple[str, list[str], ExpressionPrinter]:
    expressions, out = ExpressionPrinter(), []
    names = {name: name for name in slots(expr)}
    return expressions.key(expr, names, out, "return 3"), out, expressions


def plain(name: str, kinds: tuple[str, ...], result: str) -> Expr:
    """A function of variables: of a constant and one variable, if it reads two strings."""
    args: list[Expr] = []
    seen: dict[str, int] = {}
    for kind in kinds:
        seen[kind] = seen.get(kind, 0) + 1
        args.append(Slot(f"{LETTERS[kind]}{min(seen[kind], 2)}", kind))  # type: ignore[arg-type]
    if name == "starts_with":
        args[1] = Constant("a", "symbol")
    elif name == "contains" or name.strip("!?") == "match":
        args[0] = Constant("a", "symbol") if name == "contains" else Constant("[a1].*", "symbol")
    if signatures(name):
        return applied(name, tuple(args), NOWHERE)
    return Apply(name, tuple(args), result)  # type: ignore[arg-type]


EVERY = [plain(*typing) for typing in TYPINGS]


def is_exact(expr: Expr) -> bool:
    return not (
        isinstance(expr, Apply) and expr.function in INEXACT and expr.args[0].type == "float"
    )


# ---------------------------------------------------------------------------- what is computed


@pytest.mark.slow
def test_every_function_on_every_type() -> None:
    exprs = [expr for expr in EVERY if printable(expr) is None and is_exact(expr)]
    assert len(exprs) > 80
    of = scope()
    Module(exprs).check(columns(Random(1), 800, of), of)


def test_scaled_ints() -> None:
    """What the planner makes of functions of decimals."""
    slot, of = Slot(f"{LETTERS[DECIMAL]}1", DECIMAL), scope()
    exprs: list[Expr] = []
    for tens in (Constant(10**at, "int") for at in (1, 2, 9, 18)):
        exprs += [Apply(name, (slot, tens), DECIMAL) for name in ("floored", "rounded")]
        exprs.append(Apply("unscaled", (slot, tens), "float"))
    exprs.append(Apply("to_decimal", (Slot("s1", "symbol"), Constant(2, "int")), DECIMAL))
    Module(exprs, leaves=True).check(columns(Random(3), 200, of), of)
    assert printable(Apply("to_decimal", (Slot("f1", "float"), tens), DECIMAL)) is not None


def test_functions_whose_last_bit_is_the_processors() -> None:
    exprs = [expr for expr in EVERY if not is_exact(expr)]
    assert len(exprs) == 3
    of = scope()
    data = columns(Random(2), 800, of)
    module = Module(exprs)
    keys, failed = np.zeros((3, 800), np.int64), np.zeros((3, 800), np.uint8)
    given = [{**data, **module.expressions.arguments(of)}[name] for name in module.arguments]
    holds = np.zeros(2400, np.bool_)
    module.compile()(800, keys.ravel(), failed.ravel(), holds, *given)
    for at, expr in enumerate(exprs):
        expected, bad = evaluate(expr, data, 800, of)
        assert bad is not None or expr == Apply("exp", (Slot("f1", "float"),), "float")
        fine = slice(None) if bad is None else ~bad
        assert failed[at].tolist() == (np.zeros(800) if bad is None else bad).tolist()
        values, others = key_to_float(keys[at])[fine], key_to_float(expected)[fine]
        np.testing.assert_array_max_ulp(values, others, maxulp=2)


def drawn(seed: int, count: int) -> list[Expr]:
    """Expressions of a number that can be printed; of those that cannot, the reason is told."""
    random = Random(seed)
    found: list[Expr] = []
    while len(found) < count:
        expr = draw(random, random.choice(TYPES), 3)
        if not isinstance(expr, Apply):
            continue
        reason = printable(expr)
        if reason is None:
            found.append(expr)
        else:
            with pytest.raises(Unprintable) as caught:
                printed(Apply("=", (expr, expr), "bool"))
            assert str(caught.value) == reason
    return found


def compare_drawn(seed: int, count: int) -> None:
    of = scope()
    Module(drawn(seed, count), leaves=True).check(columns(Random(seed), 400, of), of)


@settings(max_examples=2, deadline=None, derandomize=True)
@given(st.integers(0, 2**64 - 1))
def test_drawn_expressions(seed: int) -> None:
    compare_drawn(seed, 10)


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(st.integers(0, 2**64 - 1))
def test_many_drawn_expressions(seed: int) -> None:
    compare_drawn(seed, 25)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns(pattern: str) -> None:
    of, s1 = scope(), Slot("s1", "symbol")
    codes = np.arange(of.symbols.intern(pattern), -1, -1)
    for name in ("match", "!match", "match?", "!match?"):
        expr = Apply(name, (Constant(pattern, "symbol"), s1), "bool")
        _, _, expressions = printed(expr)
        table = expressions.arguments(of)["table0"]
        expected, _ = evaluate(expr, {"s1": codes}, len(codes), of)
        assert table[codes].tolist() == expected.tolist()


def test_every_day() -> None:
    """A date of each month of each year that there are, as NumPy has it."""
    of = scope()
    day = 86_400_000_000_000
    times = np.arange(-106_751, 106_752, 11) * day + Random(4).randrange(day) - day // 2
    data = columns(Random(4), len(times), of) | {"t1": times}
    t1 = Slot("t1", "timestamp")
    Module([Apply(unit, (t1,), "int") for unit in ("year", "month", "day")]).check(data, of)
    t1, data["t1"] = Slot("t1", "date"), np.linspace(FIRST_DAY, LAST_DAY, len(times)).astype(int)
    Module([Apply(unit, (t1,), "int") for unit in ("year", "month", "day")]).check(data, of)
    months = data["t1"].astype("M8[D]").astype("M8[M]").astype(int)
    for unit, expected in (("year", months // 12 + 1970), ("month", months % 12 + 1)):
        found, _ = evaluate(Apply(unit, (t1,), "int"), data, len(months), of)
        assert found.tolist() == expected.tolist()


def test_arithmetic_wraps() -> None:
    """Also where a compiler that may assume that nothing overflows would know better."""
    one, zero = Constant(1, "int"), Constant(0, "int")
    i1 = Slot("i1", "int")
    after, before = Apply("+", (i1, one), "int"), Apply("-", (i1, one), "int")
    square = Apply("*", (i1, i1), "int")
    exprs: list[Expr] = [
        Apply(">", (after, i1), "bool"),
        Apply("<", (before, i1), "bool"),
        Apply("!=", (square, zero), "bool"),
        Apply(">=", (square, zero), "bool"),
        Apply("<", (Apply("-", (i1,), "int"), i1), "bool"),
    ]
    of = scope()
    Module(exprs).check(columns(Random(5), 300, of), of)


# -------------------------------------------------------------------------------- how it looks


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Apply("<", (X, Y), "bool"), "x < y"),
        (Apply("!=", (X, Y), "bool"), "x != y"),
        (Apply("=", (S, T), "bool"), "s == t"),
        (Apply("<=", (S, T), "bool"), "ranks[s] <= ranks[t]"),
        (Apply("<", (F, G), "bool"), "f < g"),
        (Apply(">", (F, Constant(0.5, "float")), "bool"), "f > const0"),
        (
            Apply("<", (X, Apply("+", (Y, Constant(1, "int")), "int")), "bool"),
            "x < plus(y, const0)",
        ),
    ],
)
def test_tests_are_plain(expr: Expr, text: str) -> None:
    out: list[str] = []
    assert ExpressionPrinter().test(expr, {name: name for name in slots(expr)}, out) == text
    assert out == []


def test_sums_are_plain() -> None:
    key, out, expressions = printed(Apply("+", (X, Constant(1, "int")), "int"))
    assert (key, out, expressions.imports) == ("plus(x, const0)", [], {"plus"})
    assert expressions.prologue() == ["const0 = consts[0]"]


def test_a_failure_comes_before() -> None:
    key, out, expressions = printed(Apply("/", (X, Y), "int"))
    assert (key, out) == ("divide(x, y)", ["if quotient_fails(x, y):", "    return 3"])
    assert expressions.imports == {"divide", "quotient_fails"}


@pytest.mark.parametrize("kind", TYPES)
def test_equal_shapes_have_equal_texts(kind: str) -> None:
    texts = set()
    for value in VALUES[kind]:
        constant = Constant(value, kind)  # type: ignore[arg-type]
        parameter = Parameter("p", kind)  # type: ignore[arg-type]
        slot = Slot(f"{LETTERS[kind]}1", kind)  # type: ignore[arg-type]
        for other in (constant, parameter):
            best = Apply("max", (slot, other), kind)  # type: ignore[arg-type]
            texts.add(Module([best, Apply("<", (slot, other), "bool")]).text)
    assert len(texts) == 1


# ------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("expr", "reason"),
    [
        (Apply("cat", (S, Constant("a", "symbol")), "symbol"), "cat() makes new strings"),
        (Apply("+", (S, S), "symbol"), "`+` on strings makes new strings"),
        (Apply("to_string", (X,), "symbol"), "to_string() makes new strings"),
        (
            Apply("=", (Apply("upper", (S,), "symbol"), T), "bool"),
            "upper() makes new strings",
        ),
        (Apply("contains", (S, T), "bool"), "contains() of two strings that vary"),
        (
            Apply("!match", (S, Constant("a", "symbol")), "bool"),
            "match() with a pattern that is not the same for all rows",
        ),
    ],
)
def test_reasons(expr: Expr, reason: str) -> None:
    assert printable(expr) == reason


def test_whatever_has_no_variable_is_a_constant() -> None:
    made = Apply("cat", (Constant("a", "symbol"), Parameter("p", "symbol")), "symbol")
    key, out, expressions = printed(Apply("=", (S, made), "bool"))
    assert (key, out) == ("(1 if s == const0 else 0)", [])
    of = Scope(SymbolTable(), {"p": "b"})
    (code,) = expressions.arguments(of)["consts"]
    assert of.symbols.text(code) == "ab"


def test_ranks_are_those_of_all_constants() -> None:
    """`ord` of a constant: one that comes after it may go before it."""
    m, a = Constant("m", "symbol"), Constant("a", "symbol")
    expr = Apply("-", (Apply("ord", (m,), "int"), Apply("ord", (a,), "int")), "int")
    key, _, expressions = printed(expr)
    assert key == "minus(ranks[const0], ranks[const1])"
    arrays = expressions.arguments(Scope(SymbolTable()))
    assert arrays["ranks"][arrays["consts"]].tolist() == [1, 0]


def test_a_constant_may_fail() -> None:
    key, out, expressions = printed(Apply("/", (Constant(1, "int"), Parameter("p", "int")), "int"))
    assert (key, out) == ("const0", ["if const1 != 0:", "    return 3"])
    for divisor, consts in ((0, 1), (2, 0)):
        arguments = expressions.arguments(Scope(SymbolTable(), {"p": divisor}))
        assert arguments["consts"][1] == consts


# ------------------------------------------------------------------------------------- tables


def test_tables_grow_with_the_symbols() -> None:
    _, _, expressions = printed(Apply("to_int", (S,), "int"))
    of = Scope(SymbolTable())
    for text in ("7", "seven"):
        of.symbols.intern(text)
    arrays = expressions.arguments(of)
    assert [arrays["table0"].tolist(), arrays["failed0"].tolist()] == [[7, 0], [0, 1]]
    assert expressions.arguments(of)["table0"] is arrays["table0"]
    of.symbols.intern("-1")
    arrays = expressions.arguments(of)
    assert [arrays["table0"].tolist(), arrays["failed0"].tolist()] == [[7, 0, -1], [0, 1, 0]]


def test_tables_differ_by_what_is_fixed() -> None:
    of = Scope(SymbolTable(), {"p": "b"})
    of.symbols.intern("ab")
    _, _, expressions = printed(Apply("starts_with", (S, Parameter("p", "symbol")), "bool"))
    assert expressions.arguments(of)["table0"].tolist() == [0, 1]
    of.params = {"p": "a"}
    assert expressions.arguments(of)["table0"].tolist() == [1, 0, 1]


def test_an_invalid_pattern_is_warned_of_each_time() -> None:
    symbols = SymbolTable()
    _, _, expressions = printed(Apply("match", (Constant("[", "symbol"), S), "bool"))
    for _ in range(2):
        of = Scope(symbols)
        assert expressions.arguments(of)["table0"].tolist() == [0]
        assert [text for text in of.cautions if text.startswith("the pattern '[' is not valid")]


def test_no_more_tables_are_kept_than_a_few() -> None:
    of = Scope(SymbolTable())
    _, _, expressions = printed(Apply("contains", (Parameter("p", "symbol"), S), "bool"))
    for at in range(100):
        of.params = {"p": str(at)}
        assert expressions.arguments(of)["table0"][at] == 1


def test_variables_have_all_types() -> None:
    assert set(VARIABLES.values()) == set(TYPES)
