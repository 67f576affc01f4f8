"""Lists of many values are relations: in a text, and as a parameter."""

from __future__ import annotations

from datetime import datetime
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import gdatalog as gd
from gdatalog.errors import (
    DataError,
    NameResolutionError,
    ParseError,
    SourceText,
    TypeMismatchError,
)
from gdatalog.parser import format_node, parse, read_source
from gdatalog.parser.syntax import And, Compare, Member, Query, Values
from gdatalog.values import is_list
from tests.oracle import answers

MANY = list(range(0, 60, 3))
LISTED = "{" + ", ".join(map(str, MANY)) + "}"
UNEQUAL = ", ".join(f"x != {n}" for n in MANY)
EQUAL = " ; ".join(f"x = {n}" for n in MANY)
ROWS = [(x, x * 7 % 50) for x in range(50)]

BODIES = [
    f"?- x in {LISTED}.",
    f"?- E(x, y), x in {LISTED}.",
    f"?- E(x, y), !(x in {LISTED}).",
    f"?- E(x, y), !(z in {LISTED}).",
    f"?- E(x, y), (x in {LISTED} ; y = 7).",
    f"?- E(x, y), x + y in {LISTED}.",
    f"?- E(x, y), x + y in {LISTED[:-1]}, y, 1}}.",
    f"?- E(x, y), !(x + y in {LISTED[:-1]}, y}}).",
    f"?- E(x, y), n = count : {{ z in {LISTED}, z < x }}.",
    f"?- E(x, y), n = sum z : {{ E(z, w), w + 1 in {LISTED[:-1]}, y}}, z < x }}.",
    f"?- E(x, y), 3 in {LISTED}, x < 3.",
    f"?- E(x, y), 4 in {LISTED}.",
    f"?- E(x, y), 100 / (x + 1) in {LISTED}.",
    f"?- E(x, 7), x in {LISTED[:-1]}, $one}}.",
    f"p(x) <- E(x, _), x in {LISTED}. p(y) <- p(x), E(x, y), !(y in {LISTED}). ?- p(x).",
    f"?- to_float(x) = f, E(x, _), f in {LISTED[:-1]}, 0.5}}.",
    f"?- E(x, y), {UNEQUAL}.",
    f"?- E(x, y), !({UNEQUAL}).",
    f"?- E(x, y), ({EQUAL}).",
    f"?- {EQUAL}.",
    f"?- E(x, y), ({EQUAL} ; y < 3).",
    f"?- E(x, y), ({UNEQUAL} ; y < 3).",
    f"?- E(y, x), {UNEQUAL.replace('!=', '<')}, {UNEQUAL.replace('!=', '>=')}.",
    f"?- E(y, x), !(E(x, _), {UNEQUAL.replace('!=', '>')}).",
    f"?- E(x, y), n = count : {{ E(z, w), {UNEQUAL.replace('x', 'z')}, z < x }}.",
    f"?- E(x + 1, y), {UNEQUAL}, y > 3.",
    f"p(x) <- E(x, _), {UNEQUAL}. p(y) <- p(x), E(x, y), {UNEQUAL.replace('x', 'y')}. ?- p(x).",
]


def database() -> Any:
    db = gd.connect()
    db.load("E", ROWS, columns=["a", "b"])
    return db


@pytest.mark.parametrize("text", BODIES)
def test_list_is_joined(text: str) -> None:
    params = {"one": 20}
    found = set(database().query(text, params))
    ((_, expected),) = answers(parse(text), {"E": set(ROWS)}, {"E": ("int", "int")}, params)
    assert found == expected


CONSTANTS = {
    "int": ["-3", "0", "1", "2", "7", "40", "9223372036854775807"],
    "float": ["-0.5", "0.5", "1", "2", "7.25", "1e300"],
    "symbol": ['"a"', '"b"', '"ab"', '""', '"\\n"', '"x, y"'],
    "timestamp": ["@2026-11-20", "@2026-11-21T08:00:00.5", "@1999-01-01"],
    "bool": ["true", "false"],
}


@pytest.mark.parametrize("kind", CONSTANTS)
@pytest.mark.parametrize("seed", range(8))
def test_drawn_comparisons(kind: str, seed: int) -> None:
    """Many comparisons of two variables, with duplicates, of some operators, side by side or
    not: with the oracle, and as if each were read by itself."""
    random = Random(f"{kind}{seed}")
    between = random.choice([", ", ",\n", " , /* and */ "])
    operators = random.choice([["!="], ["<", "!="], ["<", "<=", ">", ">="], ["!=", ">="]])
    parts = [
        f"{random.choice('xxxy')} {random.choice(operators)} {random.choice(CONSTANTS[kind])}"
        for _ in range(random.choice([15, 16, 17, 80]))
    ]
    if random.random() < 0.5:
        parts.sort()
    body = between.join(parts)
    text = random.choice(["?- v(x), v(y), {}.", "?- v(x), v(y), !({}).", "?- v(x), (v(y), {})."])
    shown = f"{' '.join(f'v({c}).' for c in CONSTANTS[kind])} {text.format(body)}"
    db = gd.connect()
    db.run(f".decl v(x: {kind})")
    program = parse(shown)
    ((_, expected),) = answers(program, {}, {"v": (kind,)})
    found = db.query(shown)
    if kind == "timestamp":
        assert len(found) == len(expected)
    else:
        assert set(found) == expected
    assert parse("".join(map(format_node, program.statements))).statements == program.statements


@pytest.mark.parametrize("kind", CONSTANTS)
@pytest.mark.parametrize("seed", range(6))
def test_drawn_parameters(kind: str, seed: int) -> None:
    """Lists of any size as parameters: what the same list in the text says."""
    random = Random(f"{kind}{seed}")
    rows = " ".join(f"v({c})." for c in CONSTANTS[kind])
    words = random.choices(CONSTANTS[kind], k=random.choice([1, 2, 15, 16, 40]))
    (query,) = parse(f"?- x in {{{', '.join(words)}}}.").statements
    assert isinstance(query, Query) and isinstance(query.body, Member)
    given: Any = []
    for part in query.body.values:
        given += part.values if isinstance(part, Values) else [part.value]  # type: ignore[union-attr]
    if kind == "timestamp":
        given = pd.to_datetime(given)
    given = random.choice([list, tuple, pd.Series, pl.Series, np.array])(given)
    text = random.choice(["?- v(x), x in {}.", "?- v(x), !(x in {}).", "?- x in {}.",
                          "?- v(x), n = count : {{ v(y), y in {}, y != x }}."])  # fmt: skip
    db = gd.connect()
    db.run(f".decl v(x: {kind}) {rows}")
    listed = db.query(text.format("{" + ", ".join(words) + "}"))
    assert set(db.query(text.format("$xs"), {"xs": given})) == set(listed)


def test_many_comparisons_are_one_node() -> None:
    plain, commented = UNEQUAL, UNEQUAL.replace(", ", " , /* and */ ")
    mixed = UNEQUAL.replace("x != 9,", "x != 9, x < 100, E(x, 2),")
    nodes = []
    for text in (plain, commented, mixed):
        (query,) = parse(f"?- E(x, _), {text}, y = 1.").statements
        assert isinstance(query, Query) and isinstance(query.body, And)
        (many,) = [
            item
            for item in query.body.items
            if isinstance(item, Compare) and isinstance(item.rest[0][1], Values)
        ]
        nodes.append(many)
        assert parse(format_node(query)).statements == (query,)
    assert nodes[0] == nodes[1] == nodes[2]
    (query,) = parse(f"?- {EQUAL} ; x = 1000.").statements
    assert isinstance(query, Query) and isinstance(query.body, Member)


WRONG_COMPARISONS = {
    "x != 9, x != 1 2": "`2` cannot follow `1`",
    'x != 9, x != "a\\q"': "there is no escape",
    "x != 9, x != 99999999999999999999": "beyond 64 bits",
    'x != 9, x != "a"': "but `x` is int",
    "x != 9, x != 1.5": "but `x` is int",
    "x != 9, z != 1": "`z` is not bound",
}


@pytest.mark.parametrize("wrong", WRONG_COMPARISONS)
def test_wrong_comparison_among_many_is_placed(wrong: str) -> None:
    text = "?- E(x, _), " + UNEQUAL.replace("x != 9", wrong) + "."
    with pytest.raises(gd.Error, match=WRONG_COMPARISONS[wrong]) as raised:
        database().query(text)
    assert raised.value.span is not None
    if "1.5" not in wrong:  # which may say that all are floats
        place = text.index(wrong) + len("x != 9, ")
        assert place <= raised.value.span.start <= place + len(wrong)


def test_comparisons_in_arguments_are_refused() -> None:
    with pytest.raises(ParseError, match="an argument is a value"):
        database().query(f"?- E(x, {UNEQUAL}).")


@pytest.mark.parametrize("text", [body for body in BODIES if LISTED in body])
def test_parameter_says_the_same(text: str) -> None:
    db = database()
    assert set(db.query(text.replace(LISTED, "$xs"), {"xs": MANY})) == set(db.query(text))


@pytest.mark.parametrize("kind", ["int", "float", "symbol", "timestamp", "bool"])
def test_every_type(kind: str) -> None:
    words = {
        "int": [str(n) for n in range(-9, 9)],
        "float": [f"{n}.5" for n in range(-9, 9)],
        "symbol": [f'"a{n}\\n"' for n in range(18)],
        "timestamp": [f"@2026-11-{n:02}" for n in range(1, 19)],
        "bool": ["true"] * 16,
    }[kind]
    db = gd.connect()
    found = db.query("?- x in {" + ", ".join(words) + "}.")
    assert len(found) == len(set(words))
    for word in set(words):
        assert db.query(f"?- x = {word}, x in {{{', '.join(words)}}}.")


def test_one_node_whatever_stands_between() -> None:
    plain = ", ".join(map(str, MANY))
    commented = " , /* and */ ".join(map(str, MANY))
    mixed = f"{plain}, 0.5, {plain}"
    nodes = []
    for text in (plain, commented, mixed):
        (query,) = parse(f"?- x in {{{text}, y}}.").statements
        assert isinstance(query, Query) and isinstance(query.body, Member)
        nodes.append(query.body.values)
        assert parse(format_node(query)).statements == (query,)
    first, second, third = nodes
    assert first == second and isinstance(first[0], Values) and first[0].type == "int"
    assert isinstance(third[0], Values) and third[0].type == "float" and len(third) == 2


def test_wrong_value_in_a_long_list_is_placed() -> None:
    for wrong in ('"a\\q"', "1 2", "99999999999999999999", "@2026-99-99", "x y"):
        text = "?- x in {" + "1, " * 40 + f"{wrong}, " + "2, " * 40 + "3}."
        _, _, errors = read_source(SourceText("t", text), True)
        assert errors, wrong
        assert errors[0].span is not None
        assert abs(errors[0].span.start - text.index(wrong)) <= len(wrong), wrong


def test_list_has_one_type() -> None:
    with pytest.raises(TypeMismatchError, match="symbol"):
        database().query("?- E(x, _), x in {" + '"a", ' * 20 + '"b"}.')
    with pytest.raises(TypeMismatchError, match="symbol"):
        database().query("?- x in {" + "1, " * 20 + '"b"}.')


GIVEN = [
    [1, 5, 5, 7],
    (1, 5, 7),
    {1, 5, 7},
    range(1, 8, 2),
    np.array([1, 5, 7], np.uint8),
    pd.Series([1, 5, 7]),
    pd.Index([1, 5, 7]),
    pl.Series([1, 5, 7]),
    pl.Series([1, 5, 7]).to_arrow(),
    [],
    np.array([]),
]


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: type(given).__name__)
def test_what_a_list_may_be(given: Any) -> None:
    found = database().query("?- E(x, _), x in $xs.", {"xs": given})
    assert set(found) == {(int(x),) for x in given}


def test_ints_stand_for_floats() -> None:
    db = gd.connect()
    db.load("f", [(0.5,), (2.0,)])
    assert set(db.query("?- f(x), x in $xs.", {"xs": [2, 3]})) == {(2.0,)}
    assert set(db.query("?- x in $xs.", {"xs": [2, 0.5]})) == {(2.0,), (0.5,)}
    when = [datetime(2026, 11, 20)]
    assert len(db.query("?- x in $xs, x = @2026-11-20.", {"xs": when})) == 1


WRONG: list[tuple[Any, type[Exception], str]] = [
    ([1, None], DataError, "value 1: a value is missing"),
    (np.array([1.0, np.nan]), DataError, "value 1: a value is missing"),
    ([1, "a"], DataError, "value 1: found the symbol 'a'"),
    ([[1]], DataError, "value 0: cannot store"),
    (pd.DataFrame({"a": [1]}), DataError, "is a table"),
    ({"a": 1}, DataError, "of type dict"),
    (["a"], TypeMismatchError, r"`\$xs` is symbol"),
    (7, NameResolutionError, "`in` needs a list"),
]


@pytest.mark.parametrize(("given", "kind", "message"), WRONG)
def test_what_a_list_may_not_be(given: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as raised:
        database().query("?- E(x, _), x in $xs.", {"xs": given})
    assert "<query>:1:18" in str(raised.value)


def test_a_list_is_no_value() -> None:
    for text in ("?- E($xs, y).", "?- E(x, _), x in {1, $xs}.", "?- E(x, _), x < $xs."):
        with pytest.raises(NameResolutionError, match="is a list") as raised:
            database().query(text, {"xs": [1]})
        assert "x in $xs" in str(raised.value)


def test_empty_list_without_a_type() -> None:
    with pytest.raises(TypeMismatchError, match="is empty"):
        gd.connect().query("?- x in $xs.", {"xs": []})
    assert not gd.connect().query("?- x in $xs.", {"xs": np.array([], np.int64)})


def test_kept_rule_has_the_list_that_was_given() -> None:
    db = database()
    given = [1, 2]
    db.run("p(x) <- E(x, _), x in $xs.", {"xs": given})
    given.append(3)
    assert set(db["p"]) == {(1,), (2,)}
    db.run("p(x) <- E(x, _), x in $xs.", {"xs": [3]})
    assert set(db["p"]) == {(3,)}


def test_relations_of_lists_are_nobodys() -> None:
    db = database()
    db.run(f"p(x) <- E(x, _), x in {LISTED}.")
    db.query("?- E(x, _), x in $xs.", {"xs": MANY})
    assert set(db.relations) == {"E", "p"}
    shown = str(db.explain(f"?- E(x, y), x in {LISTED}."))
    assert "x in {20 values}" in shown and "#" not in shown
    assert "x in $xs" in str(db.explain("?- E(x, _), x in $xs.", {"xs": MANY}))


def test_same_list_is_the_same_relation() -> None:
    db = database()

    def relation(text: str, **params: Any) -> Any:
        session = db.workspace.open(text, params)
        (name,) = filter(is_list, session.checked.lists)
        return session.inputs[name]

    first = relation(f"?- E(x, _), x in {LISTED}.")
    assert relation(f"?- x in  {LISTED}, E(_, x).") is first
    assert relation(f"?- x in {LISTED[:-1]}, 1}}.") is not first
    assert relation("?- x in $xs.", xs=[1]) is relation("?- E(x, _), x in $xs.", xs=(1,))
    assert relation("?- x in $xs.", xs=[1]) is not relation("?- x in $xs.", xs=[1.0])
