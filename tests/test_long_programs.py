"""Programs of many rules: the work of planning is proportional to their number, and their depth has
no limit."""

from __future__ import annotations

from collections.abc import Callable
from cProfile import Profile

import pytest

import gdatalog as gd

SHAPES: dict[str, Callable[[int], str]] = {
    "copies": lambda i: f"p{i}(x) <- p{i - 1}(x).",
    "arithmetic": lambda i: f"p{i}(x + 1) <- p{i - 1}(x).",
    "selections": lambda i: f"p{i}(x) <- p{i - 1}(x), x >= 0, x != {i + 900}.",
    "alternatives": lambda i: f"p{i}(x) <- p{i - 1}(x) ; e(x, {i + 900}).",
    "negation": lambda i: f"p{i}(x) <- p{i - 1}(x), !r{i}(x). r{i}(x) <- e(x, {i + 900}).",
    "counts": lambda i: f"p{i}(x) <- p0(x), c = count : {{ p{i - 1}(_) }}, c > 0.",
    "two": lambda i: f"p{i}(x) <- p{i - 1}(x), p{max(0, i - 2)}(x).",
    "views": lambda i: f"p{i}(x) <- p{i - 1}(x), b{i}(x, _). b{i}(x, y) <- e(x, y).",
    "recursion": lambda i: f"p{i}(x) <- p{i - 1}(x). p{i}(y) <- p{i}(x), e(x, y).",
}


def _program(shape: str, count: int) -> str:
    return "\n".join(map(SHAPES[shape], range(1, count + 1)))


def _database(rows: int = 3) -> gd.Database:
    db = gd.connect(threads=1)
    db["e"] = [(x, x + 1) for x in range(rows)]
    db["p0"] = [(x,) for x in range(rows)]
    return db


def _calls(shape: str, count: int, query: str, rows: int) -> int:
    """The number of functions that a query calls in this thread. Each count has names of its own,
    because parts of a text may be known from earlier ones."""
    db, own = _database(rows), f"p{count}x"
    db[f"{own}0"] = db["p0"].to_pandas()
    text = f"{_program(shape, count)}\n?- p{count}({query}).".replace("p", own)
    counted = Profile(subcalls=False, builtins=False)
    counted.runcall(db.query, text)
    return sum(entry.callcount for entry in counted.getstats())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("query", "rows"), [("x", 3), ("2", 60_000)])
def test_work_is_proportional_to_the_number_of_rules(shape: str, query: str, rows: int) -> None:
    _, half, whole = (_calls(shape, count, query, rows) for count in (5, 80, 160))
    assert whole < 2.3 * half


@pytest.mark.parametrize("shape", ["copies", "two", "recursion"])
def test_long_chains_of_views_are_asked_again(shape: str) -> None:
    db = _database()
    db.run(_program(shape, 500))
    expected = [(x,) for x in range(4 if shape == "recursion" else 3)]
    assert sorted(db.query("?- p500(x).")) == expected
    assert sorted(db.query("?- p500(x).")) == expected
    assert len(db.query("?- p500(2).")) == 1
    db.run("p0(77).")
    assert (77,) in list(db.query("?- p500(x)."))
    assert "p500" in str(db.explain("?- p500(x)."))


def test_demand_reaches_through_a_long_chain_of_joins() -> None:
    db = _database(60_000)
    rules = (f"p{i}(y) <- p{i - 1}(x), e(x, y). p{i}(x) <- p{i - 1}(x)." for i in range(1, 401))
    steps = "\n".join(rules)
    assert len(db.query(f"{steps}\n?- p400(7).")) == 1
