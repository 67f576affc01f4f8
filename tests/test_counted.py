"""What a profile knows of compiled loops: their counted form binds what breadth-first binds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog.engine.ledger import RuleRun
from gdatalog.executors import lftj
from gdatalog.executors.levelwise import Seen
from gdatalog.plan.nodes import Compact, Join, Step
from gdatalog.profile import Profile
from tests import test_depth_first as depth_first
from tests.draw_patterns import drawn_pattern
from tests.interpreted import interpreted
from tests.test_engine_oracle import Data, frame, share

WAYS = depth_first.WAYS
NONE = Seen()


@pytest.fixture(scope="module", autouse=True)
def not_compiled() -> Iterator[None]:
    with interpreted():
        yield


def profiled(db: gd.Database, text: str, number: int, monkeypatch: pytest.MonkeyPatch) -> Profile:
    """By loops; the number chooses threads, the way to intersect, and rows of a block."""
    db._workspace.force(intersect=WAYS[number % len(WAYS)], threads=1 + number % 2)
    monkeypatch.setattr(lftj, "FIRST_ROOM", (1, 2, 7, 4096)[number % 4])
    return db.profile(text, strategy="lftj")


def counted(steps: Sequence[Step]) -> list[Step]:
    """The steps that both executors do for the same rows: behind a Compact there are fewer for
    the one that goes level by level."""
    end = next((at for at, step in enumerate(steps) if isinstance(step, Compact)), len(steps))
    return list(steps[:end])


def compare(broad: RuleRun, deep: RuleRun, recoded: bool) -> int:
    """How many numbers of bindings there are to compare."""
    if not deep.plan.head:  # one row is enough: each has its own
        return 0
    compared = 0
    for join in deep.plan.joins:
        for step in counted(join.steps):
            found = deep.seen.get(id(step))
            if found is None:
                continue
            expected = broad.seen.get(id(step), NONE).rows_out
            if recoded:  # a list that is too short for a match is not looked at
                assert found.rows_out <= expected, step
            else:
                assert found.rows_out == expected, step
            compared += isinstance(step, Join)
    return compared


def agree(text: str, data: Data, number: int) -> int:
    with gd.connect(device="cpu") as db, pytest.MonkeyPatch.context() as patch:
        for name, (types, rows) in data.items():
            db.load(name, frame(types, rows))
        broad = db.profile(text, strategy="levelwise")
        deep = profiled(db, text, number, patch)
        assert set(deep.result.fetchall()) == set(broad.result.fetchall())
        plans = {id(run.plan): run for run in broad.runs}
        both = [(plans[id(run.plan)], run) for run in deep.runs if id(run.plan) in plans]
        loops = [
            (one, other)
            for one, other in both
            if all(not choice.breadth_first for choice in other.executors.values())
        ]
        return sum(compare(one, other, number % len(WAYS) < 2) for one, other in loops)


@pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")
@pytest.mark.drawn
@share(6)
@given(st.integers(0, 1 << 40))
def test_drawn_patterns(number: int) -> None:
    pattern = drawn_pattern(number)
    with suppress(gd.SafetyError):
        agree(pattern.text, pattern.data, number)


@pytest.mark.parametrize("pattern", depth_first.PATTERNS)
def test_dense_patterns(pattern: str) -> None:
    heads, tests = depth_first.HEADS, depth_first.TESTS
    every = [(head, test) for head in heads for test in tests]
    compared = 0
    for number, (head, test) in list(enumerate(every))[len(pattern) % 9 :: 9]:
        edges = depth_first.graph(number, bool(number % 2))
        data: Data = {name: (("int", "int"), list(rows)) for name, rows in edges.items()}
        compared += agree(f"{head} <- {depth_first.PATTERNS[pattern]}{test}.", data, number + 2)
    assert compared > 5
