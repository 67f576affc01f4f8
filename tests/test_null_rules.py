"""What rules make of nulls, on each executor: against the oracle, and plans and errors by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import gdatalog as gd
from gdatalog.errors import DataError, EvaluationError, TypeMismatchError
from gdatalog.parser import parse
from tests.oracle import evaluate
from tests.oracle_values import canonical

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

FACTS = """
t(1, null, "a"). t(1, 5, "b"). t(1, 7, null). t(2, null, "c"). t(2, null, null). t(3, 1, "x").
t(3, 4, "y"). t(3, null, "z"). f(1, null). f(1, 2.5). f(2, 1.0). f(2, 3.0). f(3, null).
e(1, 2). e(2, null). e(null, 3). e(2, 3). e(3, 1). b(1, true). b(2, false). b(3, null).
"""
# What devices and compiled loops compute, too.
RULES = """
x <- t(_, x, _), x != 5.
g, x <- t(g, x, _), !(x < 5).
g, x <- t(g, x, _), !f(x, _).
g <- t(g, x, _), f(x, _).
g, x <- t(g, x, _), !(f(g, y), y > to_float(x)).
g <- t(g, x, _), x in {5, 1, 2}.
g, x <- t(g, x, _), distinct(g, x).
g, x <- t(g, x, _), x = null.
g <- t(g, null, _).
g, x + 1, coalesce(x, 0) * 2, coalesce(x, g, 9) <- t(g, x, _).
x, y <- t(_, x, _), y = coalesce(x, null) + 2.
g, if(x > 4, x, null), if(x = null, 1, 2), if(!x = 5, 3, 4) <- t(g, x, _).
g, y <- f(g, x), y = if(x > 2.0, x, x * 2.0).
g, !v <- b(g, v), t(g, _, _).
g, x, y <- f(g, x), f(_, y), x < y + 1.0.
g, count(), sum(x), min(x) <- t(g, x, _).
g, max(x), mean(x), any_value(x) <- t(g, x, _).
g, sum(x), max(x), min(x), mean(x) <- f(g, x).
2 * sum(x) + 1, max(x) - min(x) <- t(_, x, _).
g, count_distinct(x), count_distinct(g, x) <- t(g, x, _).
g, m, s <- t(g, _, _), m = max x : { t(g, x, s) }.
g, m <- t(g, _, _), m = mean x : { t(g, x, _) }.
g <- t(g, _, _), 5 < max x : { t(g, x, _) }.
x, i <- t(_, x, _), i = range(0, x).
x <- t(_, x, _), x != null ; f(x, _).
x, y <- e(x, z), e(z, y).
x, y, z <- e(x, y), e(y, z), e(x, z).
""".replace("!v", "lnot(v)")
# What runs over whole columns.
COLUMNS = """
s, upper(s) + "!", strlen(s), min(s, "q") <- t(_, _, s).
s <- t(_, _, s), s < "c".
s <- t(_, _, s), !contains("a", s).
g, max(s), min(s), any_value(s), count_distinct(s) <- t(g, _, s).
g, x, row_number(order by x desc), dense_rank(order by x) <- t(g, x, _).
g, s, rank(order by s desc) <- t(g, _, s).
g, x, lag(x, null order by x desc), lead(x, 0 order by x) <- t(g, x, _).
g, x, running_sum(x order by x) <- f(g, x).
g, top(1, x by x desc) <- t(g, x, _).
g, arg_max(s, x) <- t(g, x, s).
g, string_agg(s, ",") <- t(g, _, s).
g, median(x) <- t(g, x, _).
g, stddev(x) <- f(g, x).
g, mode(s) <- t(g, _, s).
x, median(g), count() <- t(g, x, _).
s, top(1, g by x), sum(x), string_agg(s, ",") <- t(g, x, s).
g, case(x = 5, s, x = 7, "seven", s) <- t(g, x, s).
"""


def program(rules: str) -> tuple[str, list[str]]:
    """Each rule as one of a relation."""
    lines = [line for line in rules.splitlines() if line]
    names = [f"r{number}" for number in range(len(lines))]
    bodies = (line.split(" <- ", 1) for line in lines)
    text = [f"{name}({head}) <- {body}" for name, (head, body) in zip(names, bodies, strict=True)]
    return "\n".join([FACTS, *text]), names


def agrees(rules: str, db: gd.Database) -> None:
    text, names = program(rules)
    expected = evaluate(parse(text), {}, {})
    db.run(text)
    for name, rule in zip(names, filter(None, rules.splitlines()), strict=True):
        assert canonical(set(db.relations[name].fetchall())) == canonical(expected[name]), rule


@pytest.mark.parametrize("strategy", ["levelwise", "lftj"])
def test_rules_agree_with_the_oracle(strategy: str) -> None:
    with gd.connect(device="cpu") as db:
        db.workspace.force(strategy=strategy)
        agrees(RULES + COLUMNS, db)


@pytest.fixture
def db() -> Iterator[gd.Database]:
    with gd.connect(device="cpu") as db:
        db.run(FACTS)
        yield db


RECURSION: list[dict[str, Any]] = [
    {}, {"split": "never", "strategy": "levelwise"}, {"split": "never", "dedup": "bitmap"},
    {"magic_sets": "always"}, {"encode": "always", "strategy": "levelwise"},
]  # fmt: skip


@pytest.mark.parametrize("settings", RECURSION)
def test_recursion_reaches_nulls_and_goes_no_further(settings: dict[str, Any]) -> None:
    text = FACTS + "r(x, y) <- e(x, y). r(x, z) <- r(x, y), e(y, z)."
    expected = evaluate(parse(text), {}, {})["r"]
    assert (None, 1) in expected and (1, None) in expected and (None, None) in expected
    with gd.connect(device="cpu") as db:
        db.workspace.force(**settings)
        db.run(text)
        assert set(db.relations["r"].fetchall()) == expected
        asked = db.query("?- r(2, y).").fetchall()
        assert set(asked) == {(y,) for x, y in expected if x == 2}
        asked = db.query("?- r(x, null).").fetchall()
        assert set(asked) == {(x,) for x, y in expected if y is None}


def test_views_follow_inserted_nulls(db: gd.Database) -> None:
    db["n"] = [(1, 2), (2, 3)]
    db.run("p(x, z) <- n(x, y), n(y, z). q(x) <- n(x, y), !n(y, _). s(x, sum(y)) <- n(x, y).")
    assert db["p"].fetchall() == [(1, 3)] and db["q"].fetchall() == [(2,)]
    db.insert("n", [(3, None), (None, 4)])
    assert db["p"].sorted().fetchall() == [(1, 3), (2, None)]
    assert db["q"].sorted().fetchall() == [(3,), (None,)]
    assert db["s"].sorted().fetchall() == [(1, 2), (2, 3), (3, 0), (None, 4)]


def test_one_bound_ends_a_join_before_the_nulls(db: gd.Database) -> None:
    told = str(db.explain("p(x, z) <- e(x, y), e(y, z)."))
    assert "cut to y < null" in told
    plain = str(db.explain("k(1, 2). p(x, z) <- k(x, y), k(y, z)."))
    assert "null" not in plain
    # one column without nulls is enough
    half = str(db.explain("k(1, 2). p(x, z) <- e(x, y), k(y, z)."))
    assert "null" not in half


def test_columns_of_rules_are_nullable_by_their_schemas(db: gd.Database) -> None:
    told = {
        "p(x) <- t(_, x, _).": "Int64",
        "p(x) <- t(_, x, _), x > 100.": "int64",
        "p(coalesce(x, 0)) <- t(_, x, _), x > 100.": "int64",
        "p(x) <- t(x, _, _), x > 100.": "int64",
        "p(max(x)) <- t(_, x, _), x = null.": "Int64",
        "p(sum(x)) <- t(_, x, _), x = null.": "int64",
        "p(y) <- f(_, x), y = x + 1.0.": "Float64",
        "p(x) <- e(x, y), e(y, x).": "int64",
        "p(x) <- t(x, _, _) ; e(x, _).": "Int64",
        "p(x) <- q(x). q(x) <- p(x), x != null. p(x) <- e(_, x).": "Int64",
    }
    for rules, dtype in told.items():
        assert str(db.query(f"{rules} ?- p(x).").df().dtypes.iloc[0]) == dtype, rules


def test_errors(db: gd.Database) -> None:
    for text, told, hint in [
        (
            ".decl p(x: int, y: int)\np(g, x) <- t(g, x, _).",
            "`x` may be null, and the column `y` of `p` may not",
            "declare it as `y: int?`, or give nulls a value by `coalesce`",
        ),
        (
            "p(x, min(y)) <- e(x, y). p(x, min(d)) <- p(y, d), e(x, y).",
            "`min(y)` may be null, and its rule is recursive",
            "leave nulls out by `!= null`, or give them a value by `coalesce`",
        ),
        (
            "p(x, max(y)) <- e(x, y). p(x, max(y)) <- e(y, x).",
            "`max(y)` may be null, and other rules have values too",
            "leave nulls out by `!= null`, or give them a value by `coalesce`",
        ),
        (
            "p(x) <- (e(x, y) ; b(x, _)), (e(y, x) ; b(x, _)).",
            "`y` may be null, and only some alternatives bind it",
            "write a rule for each combination of the alternatives",
        ),
    ]:
        with pytest.raises(TypeMismatchError) as error:
            db.query(text)
        assert (error.value.message, error.value.hint) == (told, hint), text
    with pytest.raises(DataError, match=r"the key of a null|that of a null"):
        db["k"] = [(1, None), (2, 2**63 - 1)]
    with pytest.raises(EvaluationError, match=r"is the key of a null"):
        db.query("p(x + 9223372036854775802) <- t(_, x, _).")
    many = "".join(f"q({at}). " for at in range(99))
    for text in (
        "p(9223372036854775807) <- t(1, _, _).",
        "p(9223372036854775807).",
        f"{many}q({2**63 - 1}).",
    ):
        with pytest.raises(TypeMismatchError, match=r"is the key of a null"):
            db.query(f"p(x) <- t(_, x, _). q(x) <- p(x). {text} ?- q(x).")
