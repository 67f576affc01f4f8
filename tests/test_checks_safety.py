"""Safety: what binds a variable, and what is said of one that nothing binds."""

from __future__ import annotations

import re

import pytest

from gdatalog.errors import SafetyError
from gdatalog.parser import parse
from gdatalog.parser.syntax import Query
from gdatalog.planner.check.bindings import bound_by
from tests.tables import checked, said, table


@pytest.mark.parametrize(("program", "says"), table("safety"))
def test_says(program: str, says: str) -> None:
    assert said(program) == says


SHOWN = re.compile(r"p\.dl:([0-9]+):[0-9]+: unsafe rule: `(\w+)`(?:.*\n)*?  hint: .*: `(.+\.)`")


def test_the_rules_that_hints_show_are_safe() -> None:
    shown = 0
    for case in table("safety"):
        program, says = case.values
        for error in says.split("\n\n"):
            found = SHOWN.match(error)
            if found is None:
                continue
            lines = program.split("\n")
            lines[int(found[1]) - 1] = found[3]
            try:
                checked("\n".join(lines))
            except SafetyError as still:  # of another variable
                assert f"`{found[2]}` is not bound" not in str(still)
            shown += 1
    assert shown > 8


@pytest.mark.parametrize(
    "rule",
    [
        "p(x, y) <- e(x, y + 1).",
        "p(x, y) <- e(x, _), x = y - 1.",
        "p(x, y) <- e(x, _), 3 - y = x + 1.",
        "p(y, z) <- z = y, y = x, e(x, _).",
        "p(x, z) <- e(x, y), y = z = 3 + x.",
        "p(x) <- x in {1, 2}.",
        "p(x, i) <- e(x, y), i = range(x, y).",
        "p(x, i) <- i = range(0, n), n = x + 1, e(x, _).",
        "p(x) <- e(x, _) ; x = 3 ; e(_, x).",
        "p(x, z) <- (e(x, _), z = 1 ; e(_, x), z = y), e(x, y).",
        "p(x, n) <- e(x, _), n = count : { e(x, _) }.",
        "p(x, n) <- e(x, _), 1 + n = count : { e(x, _) }.",
        "p(i, s) <- s = max y : { e(i, y) }.",
        "p(i) <- 5 < max y : { e(i, y) }.",
        "p(x) <- e(x, max y : { e(_, y) }).",
        "p(x) <- e(x, _), !(e(x, y), !e(y, x)).",
        "p(n) <- n = count : { (e(x, _), e(_, y) ; e(x, _)) }.",
        "p(x) <- !!e(x, _).",
        "p(x) <- e(x, x + y), y = 1.",
        "p(y) <- e(_, as(y, int)), z = as(y, int), z in {2}.",
        "p(y) <- e(_, -y).",
        "p(y) <- e(_, as(y, int)), as(z, int) = as(y, int), 0 < count : { e(z, _) }, z > 0.",
        "p(n) <- e(y, _), as(i, int) = range(0, y), n = count : { e(i, j), i < 0 - j + $p }.",
        "p(y) <- e(x, as(y, int) + x).",
    ],
)
def test_safe(rule: str) -> None:
    assert "p" in checked("e(1, 2).\n" + rule, params={"p": "int"}).schemas


@pytest.mark.parametrize(
    ("body", "before", "after"),
    [
        ("e(x, y + 1)", "", "x y"),
        ("e(x, y + z)", "", "x"),
        ("e(x, y + z)", "z", "x y z"),
        ("y = x * 2", "x", "x y"),
        ("y * 2 = x", "x", "x"),
        ("x < y", "x", "x"),
        ("!e(x, y)", "", ""),
        ("e(x, y) ; e(x, z)", "", "x"),
        ("z = y, y = x", "x", "x y z"),
    ],
)
def test_bound_by(body: str, before: str, after: str) -> None:
    [query] = parse(f"?- {body}.").statements
    assert isinstance(query, Query)
    assert bound_by(query.body, frozenset(before.split())) == set(after.split())


def test_plus_is_solved_for_ints_only() -> None:
    [query] = parse('?- e(y + "a").').statements
    assert isinstance(query, Query)
    assert bound_by(query.body, frozenset(), {"y": "symbol"}) == frozenset()
