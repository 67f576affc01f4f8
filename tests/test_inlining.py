"""Inline relations: expanded where they are read, with the answers of relations that are made."""

from __future__ import annotations

import warnings
from random import Random
from typing import Any

import pytest
from checked import check
from hypothesis import given
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog.parser import parse
from gdatalog.planner.check import Checked
from gdatalog.planner.check.walk import walk
from tests.cases import share
from tests.draw import PROFILES, Drawn, programs
from tests.test_engine_oracle import REFUSALS, Data, Relations, agrees_in, frame, run

EDGES = "e(1, 2). e(2, 3). e(1, 3). e(3, 3)."
DECL = ".decl i(x: int, y: int) inline"


def answer(text: str) -> list[tuple[Any, ...]]:
    return sorted(gd.connect().query(f"{EDGES}\n{DECL}\n{text}").fetchall())


def checked(text: str) -> Checked:
    return check(parse(f"{EDGES}\n{DECL}\n{text}", "p"), {})


def reads(checked: Checked, name: str) -> set[str]:
    """The relations that the rules of a relation read, as they are evaluated."""
    rules = [rule for stratum in checked.strata for rule in stratum.rules]
    bodies = [rule.body for rule in rules if rule.head.name == name and rule.body is not None]
    return {part.name for body in bodies for part in walk(body) if hasattr(part, "args")}


EXPANDED = [
    ("i(x, y) <- e(x, z), e(z, y). r(x, y) <- i(x, y), x < y.", [(1, 3), (2, 3)]),
    ("i(x, y) <- e(x, y). i(x, y) <- e(y, x). r(y) <- i(3, y).", [(1,), (2,), (3,)]),
    ("i(x, y) <- e(x, z), e(z, y). r(x, y) <- e(x, y), !i(x, y).", [(1, 2)]),
    ("i(x, y) <- e(x, z), e(z, y). r(x) <- e(_, x), !i(x, _).", []),
    ("i(x, y) <- x < y. r(x, y) <- e(x, y), i(x, y).", [(1, 2), (1, 3), (2, 3)]),
    ("i(x, y) <- x < y, y < 3 ; x = y. r(x, y) <- e(x, y), !i(x, y).", [(1, 3), (2, 3)]),
    ("i(x, x) <- e(x, _). r(x, y) <- e(x, y), i(x, y).", [(3, 3)]),
    ("i(x, x) <- e(x, _). r(y, x) <- e(y, x), i(y, x).", [(3, 3)]),
    ("i(x, x + 1) <- e(x, _). r(x, y) <- e(y, x), i(x, 3).", [(2, 1)]),
    ("i(7, y) <- e(y, _). r(y) <- i(7, y). r(y) <- i(8, y).", [(1,), (2,), (3,)]),
    ("i(x, y) <- e(x, y). r(x, n) <- i(x, n + 1).", [(1, 1), (1, 2), (2, 2), (3, 2)]),
    ("i(x, m) <- m = max y : { e(x, y) }. r(m) <- i(2, m).", [(3,)]),
    ("i(x, m) <- e(x, _), m = sum y : { e(x, y) }. r(m) <- i(1, m).", [(5,)]),
    ("i(x, y) <- e(x, y). r(count()) <- i(_, _).", [(4,)]),
    ("i(x, y) <- e(x, z), e(z, y). r(max(y)) <- i(1, y).", [(3,)]),
    ("i(x, y) <- r(x, z), e(z, y). r(1, 2). r(x, y) <- i(x, y).", [(1, 2), (1, 3)]),
    (
        ".decl j(x: int, y: int) inline\n"
        "j(x, y) <- i(x, y), !i(y, x). i(x, y) <- e(x, y) ; e(y, x), y > 2. r(x, y) <- j(x, y).",
        [(1, 2), (1, 3), (2, 3)],
    ),
]


@pytest.mark.parametrize(("text", "rows"), EXPANDED, ids=[text[:50] for text, _ in EXPANDED])
def test_an_inline_relation_is_expanded(text: str, rows: list[tuple[int, ...]]) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert answer(text + "\n?- r(x, y)." if "?" in text else text) == rows
    assert not [w for w in said if "inline" in str(w.message)]
    assert not {"i", "j"} & reads(checked(text), "r")


MADE = [
    ("i(x, y) <- e(x, y). i(x, y) <- e(x, z), i(z, y). r(y) <- i(2, y).", [(3,)], "recursive"),
    ("i(1, 5). i(x, y) <- e(x, y). r(y) <- i(1, y).", [(2,), (3,), (5,)], "facts"),
    ("i(x, count()) <- e(x, _). r(n) <- i(1, n).", [(2,)], "aggregate in the head"),
    ("i(x, y) <- e(x, y). .printsize i\nr(y) <- i(1, y).", [(2,), (3,)], ".printsize names it"),
    ("i(x, y) <- e(x, z), e(z, y). r(count()) <- i(_, _).", [(3,)], "ranges over its rows"),
    ("i(x, y) <- e(x, y) ; e(x, y). r(count()) <- i(_, _).", [(4,)], "ranges over its rows"),
    ("i(x, y) <- e(x, z), e(z, y). r(n) <- n = count : i(_, _).", [(3,)], "ranges over its rows"),
]


@pytest.mark.parametrize(("text", "rows", "why"), MADE, ids=[why for _, _, why in MADE])
def test_what_cannot_be_expanded_is_made(text: str, rows: list[tuple[int, ...]], why: str) -> None:
    with pytest.warns(gd.ProgramWarning, match=why):
        assert answer(text) == rows
    assert "i" in reads(checked(text), "r")


def test_many_alternatives_are_not_multiplied() -> None:
    rules = "".join(f"i(x, y) <- e(x, y), x = {n}. " for n in range(10))
    with pytest.warns(gd.ProgramWarning, match="more than 64 alternatives"):
        found = answer(rules + "r(x, z) <- i(x, y), i(y, z), i(z, z).")
    assert found == [(1, 3), (2, 3), (3, 3)]


def test_a_relation_with_data_is_made() -> None:
    db = gd.connect()
    db.load("i", [(5, 6)], columns=["x", "y"])
    with pytest.warns(gd.ProgramWarning, match="it has data"):
        found = db.query(f"{DECL}\ni(x, y) <- x = 1, y = 2. r(x) <- i(x, _).")
    assert found.sorted().fetchall() == [(1,), (5,)]


def test_what_is_never_made_costs_nothing() -> None:
    large = "i(x, y) <- x = range(0, 1000000), y = range(0, 1000000)."
    assert answer(f"{large} r(y) <- i(77, y), y < 2.") == [(0,), (1,)]
    assert answer(f"{large} r(x, y) <- e(x, y), !i(x, y).") == []


def test_unbound_variables_show_where_the_relation_is_read() -> None:
    with pytest.raises(gd.SafetyError) as caught:
        answer("i(x, y) <- x < y.\nr(x, y) <- e(x, _), i(x, y).")
    assert str(caught.value) == (
        "<query>:3:16: unsafe rule: `y` is not bound in `x < y`\n"
        " 3 | i(x, y) <- x < y.\n"
        "   |                ^\n"
        "  note: <query>:4:21: `i` is inline, and is read here\n"
        " 4 | r(x, y) <- e(x, _), i(x, y).\n"
        "   |                     ^^^^^^^\n"
        "  hint: `x < y` only tests: bind `y` by an atom, or by `=`: "
        "`r(x, y) <- e(x, _), e(y, _), x < y.`"
    )
    for text in ("?- i.", "r(n) <- n = count : i(_, _)."):
        with pytest.raises(gd.SafetyError, match="all rows of `i` are needed here"):
            answer(f"i(x, y) <- x < y.\n{text}")


def test_it_is_made_for_who_asks_for_it() -> None:
    assert answer("i(x, y) <- e(y, x). ?- i.") == [(2, 1), (3, 1), (3, 2), (3, 3)]
    assert answer("i(x, y) <- e(y, x).") == [(2, 1), (3, 1), (3, 2), (3, 3)]
    db = gd.connect()
    db.run(f"{EDGES} {DECL} i(x, y) <- e(y, x), x > 2.")
    assert db["i"].sorted().fetchall() == [(3, 1), (3, 2), (3, 3)]
    assert db.query("?- i(3, y), y < 2.").sorted().fetchall() == [(1,)]
    db.run(".decl k(x: int) inline k(x) <- x > 2.", name="k")
    assert db.query("?- e(x, y), k(x).").sorted().fetchall() == [(3, 3)]
    with pytest.raises(gd.SafetyError):
        db["k"].sorted()
    assert db.relations["e"].sorted().fetchall() == [(1, 2), (1, 3), (2, 3), (3, 3)]


def inline(text: str, data: Data, defined: set[str], number: Any) -> Relations:
    """What a program gives after some of its relations were declared inline."""
    random = Random(number)
    with gd.connect(device="cpu") as db:
        for name, (types, rows) in data.items():
            db.load(name, frame(types, rows))
        db.run(text)
        schemas = {name: db.relations.schema(name) for name in sorted(defined)}
    chosen = [name for name in schemas if random.random() < 0.6 and f".decl {name}(" not in text]
    decls = ""
    for name in chosen:
        types, nullable = schemas[name].types, schemas[name].nullable
        kinds = [kind + "?" * any(nullable[at : at + 1]) for at, kind in enumerate(types)]
        columns = ", ".join(f"c{at}: {kind}" for at, kind in enumerate(kinds))
        decls += f".decl {name}({columns}) inline\n"
    try:
        return run(decls + text, data, defined, None)
    except REFUSALS as error:
        raise AssertionError(f"refused where {chosen} are inline: {error}") from error


@pytest.mark.drawn
@pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")
@share(10)
@given(st.sampled_from(sorted(PROFILES)).flatmap(lambda name: programs(PROFILES[name])))
def test_drawn_programs(drawn: Drawn) -> None:
    agrees_in(inline, drawn)
