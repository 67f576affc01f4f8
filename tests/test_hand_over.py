"""Rows of a level that are more than a chunk go on in compiled loops: answers are those of the
oracle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdatalog
from gdatalog.engine.rules.hand_over import HandOver
from gdatalog.plan.rest_of_join import rest_of
from tests import plan_check
from tests import test_engine_oracle as oracle
from tests import test_symmetry as symmetry
from tests.cases import share
from tests.draw import Drawn, aggregate_programs, programs
from tests.draw_patterns import drawn_pattern

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

CHUNKS = (1, 2, 3, 5, 17)
CLIQUE = "E(a, b), E(a, c), E(a, d), E(b, c), E(b, d), E(c, d), a < b < c < d"
EDGES = [(a, b) for a in range(24) for b in range(24) if (a * 7 + b * 11) % 5 < 2 and a != b]


def opened(chunk: int, hand_over: str, strategy: str = "levelwise") -> gdatalog.Database:
    db = gdatalog.connect(device="cpu", settings={"hand_over": hand_over, "strategy": strategy})
    db.workspace.chunk_rows = chunk
    return db


@contextmanager
def noted() -> Iterator[list[int]]:
    """How many rows loops have taken, each time; their plans are checked."""
    counts: list[int] = []
    take = HandOver.take

    def noting(self: HandOver, steps: Any, at: int, frontier: Any, sink: Any) -> bool:
        if not take(self, steps, at, frontier, sink):
            return False
        counts.append(frontier.size)
        plan = rest_of(self.join, at, ())
        assert plan is not None
        plan_check.check_join_plan(plan)
        return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HandOver, "take", noting)
        yield counts


@pytest.fixture(scope="module")
def taken() -> Iterator[list[int]]:
    with noted() as counts:
        yield counts


def run(text: str, data: oracle.Data, defined: set[str], number: int) -> oracle.Relations:
    with opened(CHUNKS[number % len(CHUNKS)], "always") as db:
        return oracle.answers(db, text, data, defined)


@pytest.mark.drawn
@share(3)
@given(programs())
def test_programs(taken: list[int], drawn: Drawn) -> None:
    oracle.agrees_in(run, drawn)


@pytest.mark.drawn
@share(3)
@given(aggregate_programs())
def test_aggregate_programs(taken: list[int], drawn: Drawn) -> None:
    oracle.agrees_in(run, drawn)


@pytest.mark.drawn
@share(3)
@given(st.integers(0, 1 << 32))
def test_patterns(taken: list[int], number: int) -> None:
    symmetry.agrees(
        drawn_pattern(number), lambda text, data, names, _: run(text, data, names, number)
    )


def test_patterns_are_handed_over(taken: list[int]) -> None:
    """Enough of the drawn ones are."""
    taken.clear()
    for number in range(20):
        symmetry.agrees(
            drawn_pattern(number), lambda text, data, names, _, n=number: run(text, data, names, n)
        )
    assert len(taken) > 10


def test_a_strategy_that_was_chosen_runs_alone(taken: list[int]) -> None:
    taken.clear()
    with opened(3, "auto") as db:
        db["E"] = EDGES
        db.query(f"?- {CLIQUE}.").fetchall()
    assert not taken


def test_a_profile_tells_the_share(taken: list[int]) -> None:
    with opened(40, "always") as db:
        db["E"] = EDGES
        text = "?- E(a, b), E(b, c), E(c, d)."
        profile = db.profile(text)
        (run,) = profile.runs
        assert 0 < run.handed < run.rows
        assert f"{run.handed / run.rows:.0%} of bindings depth-first" in str(profile)
        assert "of bindings depth-first" not in str(db.profile(text, strategy="lftj"))


def test_what_fails_only_for_rows_that_do_not_match(taken: list[int]) -> None:
    """Loops give up where a computation fails; breadth-first tells whether the row matters."""
    with opened(3, "always") as db:
        db["E"] = EDGES
        text = "?- E(a, b), E(b, c), d = 100 / (c - 5), E(c, e), c != 5."
        found = sorted(db.query(text).fetchall())
        db.set(hand_over="never")
        assert found == sorted(db.query(text).fetchall()) != []
        with pytest.raises(gdatalog.EvaluationError, match="zero"):
            db.query(text.replace(", c != 5", "")).fetchall()
