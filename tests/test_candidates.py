"""Candidates by degree: values whose lists are too short lead to no row, and are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog.engine import draft
from gdatalog.plan.cells import sliced
from gdatalog.plan.effects import all_steps
from gdatalog.plan.join_plan import Join, JoinPlan
from gdatalog.settings import Strategy
from tests.cases import cases, share
from tests.plan_check import check_rule_plan

Pairs = list[tuple[int, int]]
CLIQUE = ", ".join(f"E({a}, {b})" for a, b in combinations("abcd", 2))
STAR = "E(a, b), E(a, c), E(a, d), distinct(b, c, d)"
SQUARE = "E(a, b), E(b, c), E(c, d), E(d, a)"
BODIES = [
    f"{CLIQUE}, a < b < c < d",
    f"{CLIQUE}, distinct(a, b, c, d)",
    f"{STAR}, E(b, c)",
    f"{SQUARE}, a != c, b != d",
    f"{SQUARE}, a != c",
    "E(a, b), E(a, c), E(c, b), F(b, d), F(b, e), d != e",
    "F(a, b), F(a, c), F(a, d), F(b, c), b < c < d, not E(c, d)",
]


def database(edges: Pairs, arcs: Pairs = (), least: float = 0.0) -> gd.Database:  # type: ignore[assignment]
    db = gd.connect(device="cpu", threads=1)
    db.workspace.tune(degrees_from=least)
    db.workspace.force(algebra="never")
    both = sorted({pair for u, v in edges for pair in ((u, v), (v, u))})
    for name, rows in (("E", both), ("F", sorted(set(arcs)))):
        columns = np.array(rows, dtype=np.int64).reshape(-1, 2).T
        db[name] = dict(zip("ab", columns, strict=True))
    return db


@contextmanager
def noted() -> Iterator[list[JoinPlan]]:
    """The joins that are planned, each checked as it is made."""
    made: list[JoinPlan] = []
    make = draft.plan_rule

    def checked(*args: Any, **options: Any) -> Any:
        plan = make(*args, **options)
        check_rule_plan(plan)
        made.extend(plan.joins)
        return plan

    with patch.object(draft, "plan_rule", checked):
        yield made


def least(join: JoinPlan) -> dict[str, int]:
    """The values that lists must have, by variable."""
    joins = [step for step in all_steps(join.steps) if isinstance(step, Join) and step.least]
    return {step.variable.strip("'~"): max(n for _, n in step.least) for step in joins}


def wheel(spokes: int, leaves: int) -> Pairs:
    """A hub, a rim, and vertices with one neighbour each."""
    rim = [(at, at % spokes + 1) for at in range(1, spokes + 1)]
    return [*rim, *((0, at) for at in range(1, spokes + leaves + 1))]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (f"{CLIQUE}, a < b < c < d", {"a": 3, "b": 2}),
        (f"{SQUARE}, distinct(a, b, c, d)", 2),
        (f"{SQUARE}, a != c", 2),  # of b and d, which have a and c; b and d may be equal
        (SQUARE, {}),
        (f"{SQUARE}, a < b", {}),
    ],
)
def test_what_lists_must_have(body: str, wanted: Any) -> None:
    """A cycle of four variables is in a single edge, if these may be equal."""
    with noted() as made, database(wheel(6, 6)) as db:
        assert db.query(f"n(count()) <- {body}.").fetchall()
    (found,) = map(least, made[:1])
    assert found == wanted or (wanted == 2 and set(found.values()) == {2})


def test_a_single_edge_has_cycles_of_four() -> None:
    with database([(0, 1)]) as db:
        assert db.query(f"n(count()) <- {SQUARE}.").fetchall() == [(2,)]


def test_few_rows_are_not_worth_a_test() -> None:
    with noted() as made, database(wheel(6, 6), least=50_000.0) as db:
        assert db.query(f"n(count()) <- {BODIES[0]}.").fetchall()
    assert not any(map(least, made))


def test_slices_of_lists_are_not_tested() -> None:
    with noted() as made, database(wheel(6, 6)) as db:
        assert db.query(f"n(count()) <- {BODIES[0]}.").fetchall()
    assert least(made[0])
    assert not least(sliced(made[0], ["a"] * len(made[0].tries), ["a"]))


@pytest.mark.parametrize("strategy", ["levelwise", "lftj"])
def test_a_profile_counts_candidates(strategy: Strategy) -> None:
    """Only the hub and the rim have three neighbours."""
    with database(wheel(6, 6)) as db:
        profile = db.profile(f"t(a, b, c, d) <- {STAR}, E(b, c), E(c, d).", strategy=strategy)
    level = profile.tree.find("level")[0]
    assert level.label.endswith("each with 3 or more in E") and level.actual == 7


edges = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=24)


@settings(share(20), max_examples=cases(20))
@given(edges, edges, st.sampled_from(BODIES), st.sampled_from(["levelwise", "levelwise", "lftj"]))
def test_answers_do_not_change(pairs: Pairs, arcs: Pairs, body: str, strategy: Strategy) -> None:
    names = "abcde" if "e)" in body.replace("E(", "") else "abcd"
    found = []
    for limit in (0.0, float("inf")):
        with database(pairs, arcs, limit) as db:
            db.run(f"n(count()) <- {body}. t({', '.join(names)}) <- {body}.")
            asked = lambda db=db: [  # noqa: E731
                sorted(db.query(f"?- {text}.", strategy=strategy).fetchall())
                for text in ("n(x)", f"t({', '.join(names)})")
            ]
            found.append(asked())
            db.insert("E", [(1, 2), (2, 1), (1, 9), (9, 1)])
            db.insert("F", [(2, 3), (2, 4)])
            found[-1] += asked()
    assert found[0] == found[1]
