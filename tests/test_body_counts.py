"""Groups with `;` below a count, and counts in bodies."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import gdatalog as gd
from gdatalog.plan.join_plan import Branch, RulePlan
from tests.interpreted import interpreted
from tests.test_algebra import STAR, agrees, plans, run
from tests.test_engine_oracle import Data

__all__ = ["plans"]  # fixtures

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")


# ------------------------------------------------------------------------------ groups with `;`

STARS = "c = count : { P(m), (L(m, x) ; !L(m, _)), (R(m, y) ; !R(m, _)), (L(m, z) ; R(m, u)) }"


@pytest.mark.parametrize("strategy", ["auto", "lftj", "levelwise"])
def test_groups_of_a_count_are_counted_for_each_binding(
    strategy: str, plans: list[RulePlan]
) -> None:
    data: Data = {
        "P": (("int",), [(m,) for m in range(6)]),
        "L": (("int", "int"), [(m, x) for m in range(1, 5) for x in range(m)]),
        "R": (("int", "int"), [(m, x) for m in range(3, 6) for x in range(m)]),
    }
    agrees(f"n(c) <- {STARS}.", data, {"n"})
    (join,) = plans[-1].joins
    branches = [step for step in join.steps if isinstance(step, Branch)]
    assert [len(branch.alternatives) for branch in branches] == [2, 2, 2]
    assert plans[-1].gathers and run(f"n(c) <- {STARS}.", data, {"n"}, strategy)


def test_groups_that_bind_the_same_are_one_set() -> None:
    data: Data = {
        "P": (("int",), [(1,), (2,)]),
        "L": (("int", "int"), [(1, 1), (1, 2)]),
        "R": (("int", "int"), [(1, 2), (1, 3)]),
    }
    text = "n(c) <- c = count : { P(m), (L(m, x) ; R(m, x)) }."
    agrees(text, data, {"n"})
    assert run(text, data, {"n"}, "auto") == {"n": {(3,)}}


@pytest.mark.parametrize("strategy", ["lftj", "levelwise"])
def test_groups_beyond_64_bits(strategy: str) -> None:
    groups = ", ".join(f"(E(c, x{at}) ; E(y{at}, c), E(c, z{at}))" for at in range(14))
    body = f"E(c, w), {groups}"
    both = [*STAR, *((b, a) for a, b in STAR)]
    with gd.connect(device="cpu", threads=2) as db:
        db["E"] = both
        db.workspace.force(strategy=strategy)
        with interpreted(), pytest.raises(gd.EvaluationError, match="64 bits"):
            db.query(f"n(c) <- c = count : {{ {body} }}.").fetchall()


def test_rules_of_one_relation_may_each_count() -> None:
    data: Data = {"E": (("int", "int"), [(1, 2), (2, 3), (2, 4)])}
    text = "n(c + 1) <- c = count : { E(x, y), E(y, z) }. n(c) <- c = sum y : { E(_, y) }. n(7)."
    agrees(text, data, {"n"})


def test_weights_that_are_all_one_are_left_out() -> None:
    """Also where later rows make a column a key no longer."""
    text = "n(count()) <- A(x, _), B(x, y), C(y, _)."
    with gd.connect(device="cpu", threads=2) as db:
        db.workspace.force(strategy="lftj")
        db["A"] = [(x, x + 1) for x in range(9)]
        db["B"] = [(x, y) for x in range(9) for y in range(x)]
        db["C"] = [(y, 0) for y in range(5)]
        with interpreted():
            assert db.query(text).fetchall() == [(30,)]
            db.insert("A", [(8, 1), (8, 2)])
            db.insert("C", [(4, 1)])
            assert db.query(text).fetchall() == [(46,)]


# ------------------------------------------------------------------- counts in bodies, by a value


@pytest.mark.parametrize("strategy", ["auto", "lftj"])
def test_counts_in_bodies_are_tables(strategy: str, plans: list[RulePlan]) -> None:
    edges = [(a, b) for a, b in product(range(8), repeat=2) if (a * b + a) % 3]
    data: Data = {"E": (("int", "int"), edges), "P": (("int",), [(x,) for x in range(5, 12)])}
    twice = "c = count : { E(p, q), E(q, r), p != r, !E(p, r) }"
    for text in (
        f"f(p, c) <- P(p), {twice}.",
        f"f(p, c - d) <- P(p), {twice}, d = count : {{ E(_, s), E(s, p), E(p, t), s != t }}.",
        f"f(p, c) <- P(p), P(n), c != n, {twice}, E(p, n).",
        f"f(p, sum(c)) <- P(p), {twice}.",
    ):
        agrees(text, data, {"f"})
    assert sum(len(plan.within) for plan in plans) >= 4
    expected = run(f"f(p, c) <- P(p), {twice}.", data, {"f"}, strategy)["f"]
    assert (9, 0) in expected and len(expected) == 7
    with gd.connect(device="cpu") as db:
        db["E"] = edges
        db["P"] = range(5, 12)
        db.workspace.force(algebra="always")
        told = str(db.explain(f"f(p, c) <- P(p), {twice}."))
    assert "table 'by1 of counts by p" in told and "the count of E(p, q" in told, told


def test_counts_in_bodies_that_leave_64_bits_are_errors() -> None:
    names = [f"x{at}" for at in range(13)]
    body = ", ".join(f"E(c, {name})" for name in names)
    with gd.connect(device="cpu", threads=2) as db:
        db["E"] = STAR
        db.workspace.force(algebra="always")
        with interpreted():
            assert db.query(f"n(c, k) <- E(_, c), k = count : {{ {body} }}.").fetchall()[0][1] == 0
            with pytest.raises(gd.EvaluationError, match="64 bits"):
                db.query(f"n(c, k) <- E(c, 1), k = count : {{ {body} }}.").fetchall()


def test_several_counts_that_loops_cannot_keep() -> None:
    """Both are planned before the first runs; new strings are not made by compiled loops."""
    rng = np.random.default_rng(1)
    body = 'R(x, y), R(y, z), R(z, w), R(w, x), x != z, y != w, cat(x, "b") != "v1a"'
    with gd.connect(device="cpu", threads=2) as db:
        db["R"] = [(f"v{a}", f"v{b}") for a, b in rng.integers(0, 100, (4000, 2))]
        (alone,) = db.query(f"a(count()) <- {body}.").fetchall()
        both = f"a(count()) <- {body}. b(x, count()) <- {body}. q(n, count()) <- a(n), b(_, _)."
        assert db.query(both).fetchall() == [(*alone, 100)]
