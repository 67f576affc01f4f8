"""Chains of many operators: `a + b - c + ...` of a thousand terms, read, checked and evaluated."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from gdatalog.errors import Error, ParseError, TypeMismatchError
from gdatalog.parser import format_node, parse
from gdatalog.parser.syntax import LONG, Chain, Compare, FunctionCall, Query
from tests.oracle import answers

ROWS = [(x, x * 7 % 23 - 5) for x in range(-3, 20)]
TYPES = {"E": ("int", "int"), "F": ("float", "float"), "S": ("symbol",)}
OPERATORS = [["+"], ["-"], ["+", "-"], ["*"], ["*", "/", "%"], ["band"], ["bor"], ["bxor"],
             ["bshl", "bshr"]]  # fmt: skip


def database() -> Any:
    db = gd.connect()
    db.load("E", ROWS, columns=["a", "b"])
    db.load("F", [(x / 3, y / 7) for x, y in ROWS], columns=["a", "b"])
    db.load("S", [("a",), ("bc",), ("",)], columns=["a"])
    return db


def data() -> dict[str, Any]:
    return {
        "E": ROWS,
        "F": [(x / 3, y / 7) for x, y in ROWS],
        "S": [("a",), ("bc",), ("",)],
    }


def drawn(random: Random, operators: list[str], terms: int, leaves: list[str]) -> str:
    text = random.choice(leaves)
    for _ in range(terms - 1):
        operand = random.choice(leaves)
        if random.random() < 0.1 and "/" not in operators:  # which may be 0
            operand = f"({operand} {random.choice(operators)} {random.choice(leaves)})"
        text += f" {random.choice(operators)} {operand}"
    return text


@pytest.mark.parametrize("strategy", ["levelwise", "auto"])
@pytest.mark.parametrize("operators", OPERATORS, ids=" ".join)
@pytest.mark.parametrize("terms", [LONG, LONG + 1, 90])
def test_ints(operators: list[str], terms: int, strategy: Any) -> None:
    random = Random(f"{operators}{terms}")
    leaves = ["x", "y", "3", "-2", "9223372036854775807", "(x * y)"]
    if "/" in operators:
        leaves = ["(x * x + 1)", "5", "-2", "(y * y + 1)"]
    text = f"?- E(x, y), z = {drawn(random, operators, terms, leaves)}."
    ((_, expected),) = answers(parse(text), data(), TYPES)
    assert set(database().query(text, strategy=strategy)) == expected


@pytest.mark.parametrize("operators", [["+"], ["+", "-"], ["*"], ["*", "/"]], ids=" ".join)
def test_floats_are_rounded_from_left_to_right(operators: list[str]) -> None:
    leaves = ["x", "y", "0.1", "1e9", "1e-9"] if "*" not in operators else ["1.5", "0.7", "1.1"]
    text = f"?- F(x, y), z = {drawn(Random(str(operators)), operators, 200, leaves)}."
    ((_, expected),) = answers(parse(text), data(), TYPES)
    assert set(database().query(text)) == expected


BODIES = [
    "?- E(x, _), 2000 = z + {x} - 5.",  # solved for z
    "?- E(x, _), 2000 = {x} - z - 5.",
    "?- E({x} + z, _), E(x, _).",
    "?- E(x, y), {x} < 300, !({y} > 20).",
    "?- E(x, y), n = count : {{ E(z, w), {z} < 300, z < x }}.",
    "?- E(x, y), n = sum {x} - {z} : {{ E(z, _), z < y }}.",
    "p({x}, count()) <- E(x, _). ?- p(a, b).",
    "p(x, {x}, sum(y)) <- E(x, y). ?- p(a, b, c).",
    "p(sum({y})) <- E(x, y). ?- p(a).",
    "p(x, sum(y) + {x}) <- E(x, y). ?- p(a, b).",
    "p({one}). ?- p(x).",
    "p(x) <- E(x, _), ({x} > 30 ; {x} < 5). ?- p(x).",
    "p(0, 0). p(y, min(d + {one})) <- p(x, d), E(x, y). ?- p(x, d).",
    "?- S(x), z = {x}.",
    "?- S(x), z = cat({many}).",
    "?- E(x, y), z = min({pairs}).",
    "?- E(x, _), {x} in {{300, 41, 82, 0}}.",
]


@pytest.mark.parametrize("body", BODIES)
def test_wherever_an_expression_may_stand(body: str) -> None:
    terms = {name: " + ".join([name] * (LONG + 9)) for name in "xyz"}
    one = " + ".join(["1"] * (LONG + 9))
    text = body.format(one=one, many=", ".join(["x"] * 50), pairs=", ".join(["x, y"] * 30), **terms)
    ((_, expected),) = answers(parse(text), data(), TYPES)
    assert expected
    assert set(database().query(text)) == expected


def test_a_thousand_terms() -> None:
    db = database()
    terms = [f"{sign} {'xy'[at % 2]} * {at}" for at, sign in enumerate(["+", "-", "+"] * 400)]
    found = db.query(f"?- E(x, y), z = 0 {' '.join(terms)}.")
    parts = [(1 if term[0] == "+" else -1, term[2], at) for at, term in enumerate(terms)]
    assert set(found) == {
        (x, y, sum(sign * (x if name == "x" else y) * at for sign, name, at in parts))
        for x, y in ROWS
    }
    total = np.float64(0.5)
    for _ in range(1000):
        total += np.float64(0.1)
    ((_, _, sum_of_all),) = db.query(f"?- F(x, y), x = 0.0, z = 0.5{' + 0.1' * 1000}.")
    assert sum_of_all == total
    many = ", ".join(["x"] * 1000)
    assert set(db.query(f"?- S(x), z = cat({many}), strlen(z) > 1500.")) == {("bc", "bc" * 1000)}
    columns = [f"c{at}" for at in range(300)]
    wide = np.random.default_rng(1).integers(-9, 9, (40, 300))
    db.load("W", wide, columns=columns)
    found = db.query(f"p({' + '.join(columns)}) <- W({', '.join(columns)}).")
    assert set(found) == {(int(total),) for total in wide.sum(axis=1)}


def test_what_is_computed_may_fail() -> None:
    db = gd.connect()
    db.load("F", [(1e308,), (2.0,)], columns=["a"])
    text = f"x{' + x * x' * 50}{' - x * x' * 50}"
    with pytest.raises(Error, match="NaN") as raised:
        db.query(f"?- F(x), y = {text}.")
    assert raised.value.span is not None
    assert len(db.query(f"?- F(x), x < 5.0, y = {text}.")) == 1


def test_one_node_however_it_is_grouped() -> None:
    flat = " + ".join(["x"] * (LONG + 1))
    nodes = []
    for text in (flat, f"({flat})", f"({flat[:-4]}) + x", flat.replace("x + x", "(x + x)", 1)):
        (query,) = parse(f"?- y = {text}.").statements
        assert isinstance(query, Query) and isinstance(query.body, Compare)
        assert parse(format_node(query)).statements == (query,)
        nodes.append(query.body.rest[0][1])
    assert isinstance(nodes[0], Chain) and len(set(nodes)) == 1
    (query,) = parse(f"?- y = {flat[:-4]}.").statements
    assert isinstance(query, Query) and isinstance(query.body, Compare)
    assert isinstance(query.body.rest[0][1], FunctionCall)
    for text in (f"2 * ({flat})", f"x - ({flat})", f"-({flat})", f"x * x + {flat}", f"{flat} < 3"):
        (query,) = parse(f"?- {text} < y.").statements
        assert parse(format_node(query)).statements == (query,)


def test_wrong_operand_is_placed() -> None:
    db = database()
    text = f'?- E(x, _), z = x{" + x" * 40} + "a"{" + x" * 40}.'
    with pytest.raises(TypeMismatchError, match="symbol") as raised:
        db.query(text)
    assert raised.value.span is not None and raised.value.span.start == text.index('"a"')
    with pytest.raises(Error, match="`w` is not bound") as unsafe:
        db.query(f"?- E(x, _), 3 < x{' + x' * 40} * w.")
    assert unsafe.value.span is not None
    with pytest.raises(ParseError, match="nested more than"):
        db.query(f"?- E(x, _), z = {'(1 + ' * 150}x{' * 2)' * 150}{' + x' * 100}{'^2' * 150}.")
