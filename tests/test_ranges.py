"""Comparisons with constants: how much of a column is expected to be left, and what is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog.storage.quantiles import SAMPLE, Quantiles
from gdatalog.storage.relation import Relation
from tests.cases import cases

HOLDS: dict[str, Any] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
BOUNDS = st.lists(st.tuples(st.sampled_from(sorted(HOLDS)), st.integers(-9, 30)), max_size=3)


@settings(max_examples=cases(40), deadline=None)
@given(st.lists(st.tuples(st.integers(-6, 25), st.integers(0, 12)), min_size=1), BOUNDS)
def test_of_few_rows_it_is_known(rows: Any, bounds: Any) -> None:
    rows = sorted(set(rows))
    columns = [np.array([row[at] for row in rows]) for at in (0, 1)]
    relation = Relation.from_rows(("a", "b"), ("int", "int"), columns, len(rows))
    for at in (0, 1):
        left = [row[at] for row in rows if all(HOLDS[op](row[at], key) for op, key in bounds)]
        values, share = relation.statistics.within(at, bounds)
        assert share == pytest.approx(max(len(left), 0.5) / len(rows))
        if len(left) != 0:
            distinct = len({row[at] for row in rows})
            assert values == pytest.approx(len(set(left)) / distinct, rel=0.01)
        assert 0 < values <= 1


SPREAD = {
    "even": lambda random, count: random.integers(0, 10_000_000, count),
    "hubs": lambda random, count: random.zipf(1.3, count) % 1_000_000,
    "few": lambda random, count: random.integers(0, 5, count) * 100,
    "normal": lambda random, count: (random.normal(size=count) * 1e6).astype(np.int64),
}


@pytest.mark.parametrize("spread", sorted(SPREAD))
@pytest.mark.parametrize("in_order", [True, False])
def test_of_many_it_is_estimated(spread: str, in_order: bool) -> None:
    random = np.random.default_rng(5)
    column = SPREAD[spread](random, 200_000)
    if in_order:
        column = np.sort(column)
    values = np.unique(column)
    quantiles = Quantiles.of(column, len(values), in_order)
    assert in_order or len(quantiles.keys) <= SAMPLE
    for low, high in [(None, 10), (0, 100), (1000, 50_000), (2_000_000, None), (None, 10**12)]:
        inside = [
            (keys >= (-(10**18) if low is None else low)) & (keys <= (high or 10**18))
            for keys in (values, column)
        ]
        real = [float(mask.mean()) for mask in inside]
        for expected, found in zip(quantiles.within(low, high), real, strict=True):
            # Less than a few rows of the sample see is not known better than that.
            floor = max(20 / len(quantiles.keys), 0.5 / len(values))
            assert expected <= 4 * max(found, floor) and found <= 4 * max(expected, floor)


def test_a_range_without_rows_is_not_nothing() -> None:
    quantiles = Quantiles.of(np.arange(1000), 1000, True)
    assert quantiles.within(5000, None) == quantiles.within(20, 10) == (0.0005, 0.0005)
    wide = Quantiles.of(np.arange(1000, dtype=np.int32), 1000, True)
    assert wide.within(-(1 << 62), 1 << 62) == (1.0, 1.0)
    assert wide.within(1 << 40, None)[1] == 0.0005


def test_a_sample_does_not_see_the_ends() -> None:
    column = np.random.default_rng(2).permutation(400_000)
    quantiles = Quantiles.of(column, 400_000, False)
    for low, high in ((399_900, None), (None, 99), (399_960, 400_000)):
        real = np.count_nonzero((column >= (low or 0)) & (column <= (high or 400_000))) / 400_000
        for share in quantiles.within(low, high):
            assert real / 4 <= share <= real * 4
    # Where a few values come again and again, there is nothing beyond.
    few = Quantiles.of(column % 7, 7, False)
    assert few.within(7, None)[1] < 1e-5 and few.within(None, -1)[1] < 1e-3


def database() -> gd.Database:
    random = np.random.default_rng(1)
    db = gd.connect(device="cpu")
    count = 60_000
    hubs = random.zipf(1.3, count) % 20_000
    db.load("E", np.column_stack([hubs, random.integers(0, 200_000, count)]), columns=["s", "d"])
    times = pd.date_range("2020-01-01", periods=30_000, freq="h")
    db["T"] = pd.DataFrame({"id": range(30_000), "t": times, "w": random.normal(size=30_000)})
    return db


@pytest.mark.parametrize(
    "body",
    [
        "E(x, y), x < 10",
        "E(x, y), 50 <= x < 5000",
        "E(x, y), 50_000 <= y < 52_000",
        "E(x, y), x > 5, 1000 > y",
        "T(x, _, _), T(y, _, _), x < y < 40",
        "E(x, y), 19_000 < x < y < 190_000",
        "E(x, y), $low <= y < $high",
        "T(x, y, _), y >= @2022-01-01",
        "T(x, y, _), @2021-03-01 <= y < @2021-03-15T12:00:00",
        "T(x, _, y), y > 2.5",
        "T(x, _, y), -0.1 < y < 0.1",
    ],
)
def test_joins_are_expected_to_be_as_long_as_they_are(body: str) -> None:
    with database() as db:
        params = {"low": 100_000, "high": 103_000}
        db.workspace.force(scans="never")  # which have no levels
        profile = db.profile(f"?- {body}.", params)
        levels = [*profile.tree.find("level")]
        assert levels
        for level in levels:
            expected, real = level.estimate, level.actual
            assert expected <= 4 * max(real, 10) and real <= 4 * max(expected, 10), level.label


def test_a_plan_serves_parameters_that_leave_about_as_much() -> None:
    with database() as db:
        query = "?- E(x, y), E(y, z), z < $most."

        def plans(most: int) -> list[int]:
            params = {"most": most}
            db.query(query, params)
            session = db.workspace.open(query, params)
            ((_, made),) = session.compiled.planned.plans._found.values()
            return [id(plan) for plan, *_ in made]

        first = plans(1000)
        assert plans(2000) == first and len(first) == 1
        both = plans(100_000)
        assert both[:1] == first and len(both) == 2
        assert plans(1500) == plans(150_000) == both


@pytest.mark.parametrize(
    ("first", "then", "plans"),
    [(64, 8, 1), (64, 7, 2), (7, 56, 1), (7, 57, 2)],  # of 64 rows; eight times as many, or more
)
def test_a_plan_serves_up_to_eight_times_as_much(first: int, then: int, plans: int) -> None:
    with gd.connect(device="cpu") as db:
        db["E"] = [(x, y) for x in range(64) for y in range(64)]
        query = "?- E(x, y), E(y, z), z < $most."
        for most in (first, then):
            assert len(db.query(query, {"most": most})) == 64 * 64 * most
        session = db.workspace.open(query, {"most": first})
        ((_, made),) = session.compiled.planned.plans._found.values()
        assert len(made) == plans


def test_constants_in_a_chain_decide_which_end_is_first() -> None:
    with gd.connect(device="cpu") as db:
        db["E"] = [(x, (7 * x + k) % 5000) for x in range(5000) for k in range(4)]
        db["F"] = [(x, (3 * x + k) % 5000) for x in range(5000) for k in range(4)]
        for body, first in (("x < 3", "x"), ("z < 3", "z"), ("z < 4000, x < 2", "x")):
            plan = str(db.explain(f"p(x, y, z) <- E(x, y), F(y, z), {body}."))
            levels = [line.split()[1] for line in plan.splitlines() if " in " in line]
            assert levels[0] == first, plan
