"""What a profile knows of compiled loops: their counted form binds what breadth-first binds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import inf
from time import perf_counter, sleep
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog import workspace
from gdatalog.codegen import native
from gdatalog.engine.metrics import Metrics, RuleRun
from gdatalog.executors import lftj
from gdatalog.executors.sinks import StepCounts
from gdatalog.overhead import spending, time_spent
from gdatalog.plan.join_plan import Compact, Join, Step, TrieRef
from gdatalog.report import Profile
from gdatalog.settings import Strategy
from tests import test_depth_first as depth_first
from tests.cases import share
from tests.draw import Drawn, aggregate_programs, programs, recursive_programs
from tests.draw_patterns import drawn_pattern
from tests.interpreted import interpreted, load
from tests.test_engine_oracle import Data, frame

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

WAYS = depth_first.WAYS
NONE = StepCounts()


@pytest.fixture(scope="module", autouse=True)
def not_compiled() -> Iterator[None]:
    with interpreted():
        yield


def profiled(db: gd.Database, text: str, number: int, monkeypatch: pytest.MonkeyPatch) -> Profile:
    """By loops; the number chooses threads, the way to intersect, and rows of a block."""
    db.workspace.force(intersect=WAYS[number % len(WAYS)], threads=1 + number % 2)
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


def bindings(profile: Profile) -> list[tuple[str, int]]:
    """The variables of all levels, with how many values were bound."""
    return [
        (step.variable, run.seen[id(step)].rows_out)
        for run in profile.runs
        for join in run.plan.joins
        for step in join.steps
        if isinstance(step, Join)
    ]


@pytest.mark.parametrize("number", range(4))
def test_what_comes_before_the_work_is_shared_out(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker does it, and again for each block; it was done once."""
    with gd.connect(device="cpu") as db:
        db["E"] = [(x, y) for x in range(9) for y in range(5)]
        db["L"] = [(3,), (4,)]
        text = "p(x, y) <- E(x, y), L(3), E(7, z), L(z)."
        profile = profiled(db, text, number, monkeypatch)
        (run,) = profile.runs
        first, *_ = run.plan.joins[0].steps
        assert not isinstance(first, Join) and run.seen[id(first)].rows_out == 1
        assert len(profile.result) == 45


@pytest.mark.parametrize("number", range(len(WAYS)), ids=WAYS)
def test_triangles_by_hand(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of edges x < y among 0..4: 4 vertices have an edge upwards, 6 edges lead to one of these,
    and there are 10 triangles."""
    with gd.connect(device="cpu") as db:
        db["E"] = [(x, y) for x in range(5) for y in range(x + 1, 5)]
        profile = profiled(db, "n(count()) <- E(x, y), E(y, z), E(x, z).", number, monkeypatch)
        assert profile.result.fetchall() == [(10,)]
        assert [count for _, count in bindings(profile)] == [4, 6, 10]
        seen = profile.runs[0].seen.values()
        assert all(entry.seconds == 0 for entry in seen)  # of no step alone


RECURSIVE = (
    "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z). p(x, z) <- E(x, y), p(y, z).",
    "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z), z != x.",
)


@pytest.mark.parametrize("text", RECURSIVE)
@pytest.mark.parametrize("number", range(4))
def test_rounds_of_compiled_loops(text: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with gd.connect(device="cpu") as db:
        db.workspace.tune(replanned_from=inf)
        db["E"] = [(x, (x * x + y) % 40) for x in range(40) for y in (1, 3, 9)]
        db.workspace.force(split="never", dead_variables="never")
        broad = db.profile(text, strategy="levelwise")
        deep = profiled(db, text, number, monkeypatch)
        assert set(deep.result.fetchall()) == set(broad.result.fetchall())
        assert bindings(deep) == bindings(broad)
        assert {str(c) for run in deep.runs for c in run.executors.values()} == {
            "depth-first: asked for", "depth-first: the rounds are worth it"
        }  # fmt: skip


SPLIT = (
    RECURSIVE[1],
    "b(x, z) <- a(x, y), E(y, z), z != x. a(x, y) <- E(x, y). a(x, z) <- b(x, y), E(y, z), y < 30.",
)


@pytest.mark.parametrize("text", SPLIT)
@pytest.mark.parametrize("number", range(4))
def test_a_fixpoint_for_each_value(text: str, number: int) -> None:
    """Its loops count what rounds bind, however often a block is full and a value begun anew."""
    with gd.connect(device="cpu", threads=1 + number % 2) as db:
        db["E"] = [(x, (x * x + y) % 40) for x in range(40) for y in (1, 3, 9)]
        db.workspace.force(split="never", dead_variables="never")
        broad = db.profile(text, strategy="levelwise")
        db.workspace.force(split="always")
        db.workspace.chunk_rows = (None, 1, 2, 7)[number]  # of a first block
        deep = db.profile(text, strategy="lftj")
    assert set(deep.result.fetchall()) == set(broad.result.fetchall())
    assert any(told.way is not None for told in deep.strata)
    counts = {
        id(step): (step, seen.rows_out)
        for run in deep.runs
        for join in run.plan.joins
        for step in join.steps
        if (seen := run.seen.get(id(step))) is not None
    }
    expected = {key: seen for run in broad.runs for key, seen in run.seen.items()}
    assert len(counts) >= 3
    for key, (step, count) in counts.items():
        assert count == expected[key].rows_out, step


@pytest.mark.parametrize("threads", [1, 2])
def test_best_values_in_place(threads: int) -> None:
    """Along a chain each of the values is followed once; only the last leads nowhere."""
    with gd.connect(device="cpu", threads=threads) as db:
        db["E"] = [(x, x + 1) for x in range(20)]
        db["S"] = [(0,), (5,)]
        one = db.profile("d(0, 0). d(y, min(c + 1)) <- d(x, c), E(x, y).", strategy="lftj")
        text = "d(s, s, 0) <- S(s). d(s, y, min(c + 1)) <- d(s, x, c), E(x, y)."
        two = db.profile(text, strategy="lftj")
    for profile, groups, ends in ((one, 21, 1), (two, 21 + 16, 2)):
        assert len(profile.result) == groups
        assert [told.way.name for told in profile.strata if told.way] == ["best values in place"]
        run = profile.runs[-1]
        (join,) = run.plan.joins
        levels = [run.seen[id(step)].rows_out for step in join.steps if isinstance(step, Join)]
        assert levels == [groups - ends]


def test_queries_run_the_plain_loops() -> None:
    """What is printed for them has nothing in it that counts, before a profile and after."""
    texts: list[str] = []
    with gd.connect(device="cpu") as db, pytest.MonkeyPatch.context() as patch:
        db["E"] = [(x, y) for x in range(5) for y in range(5)]

        def noted(name: str, text: str, *_: Any) -> Any:
            texts.append(text)
            return load(name, text)

        patch.setattr(native, "load", noted)
        text = "n(a, count()) <- E(a, b), E(b, c), E(a, c)."
        answers = [db.query(text, strategy="lftj").fetchall()]
        answers.append(db.profile(text, strategy="lftj").result.fetchall())
        db["E"] = [(x, y) for x in range(5) for y in range(5)]
        answers.append(db.query(text, strategy="lftj").fetchall())
    before, profile, after = texts
    assert before == after and "bound_" not in before and "bound_1 += 1" in profile
    assert answers[0] == answers[1] == answers[2] == [(x, 25) for x in range(5)]


@pytest.mark.drawn
@share(1)
@given(programs(), aggregate_programs(), recursive_programs())
def test_counting_changes_no_answer(one: Drawn, other: Drawn, third: Drawn) -> None:
    """Programs run as a profile runs them, against the oracle."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workspace, "Metrics", lambda **_: Metrics())
        for each in (one, other, third):
            depth_first.agrees(each)


# --------------------------------------------------------------------------- what else it costs


def ledger_of(db: gd.Database, text: str, strategy: Strategy) -> Metrics:
    metrics = Metrics()
    session = db.workspace.open(text, None, reports=metrics, strategy=strategy)
    session.relation(session.asked())
    return metrics


TRIANGLES = "n(count()) <- E(a, b), E(b, c), E(a, c)."


def test_seconds_beside_work_on_rows() -> None:
    edges = [(x, y) for x in range(30) for y in range(30) if x * y % 7 < 3]
    with gd.connect(device="cpu") as db:
        db["E"] = edges
        first, again = (ledger_of(db, TRIANGLES, "levelwise") for _ in range(2))
    assert first.costs.planning > again.costs.planning  # what was checked and planned is known
    (run,) = first.runs
    assert 0 < run.costs.indexing < run.seconds and run.bytes > 0
    assert (run.costs.compiling, run.costs.moving, run.costs.moved) == (0.0, 0.0, 0)
    assert first.costs.indexing >= run.costs.indexing > 0
    (made,), (there,) = first.indexes, again.indexes
    assert made.ref == TrieRef("E", "full", (0, 1))
    assert (made.built, there.built) == (1, 0) and made.seconds is not None
    assert made.seconds > 0 and there.seconds is None
    assert made.rows == there.rows == len(edges)
    assert 0 < made.bytes <= there.bytes  # with what was made for searches


def test_compiling_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(name: str, text: str, *_: Any) -> Any:
        with spending("compiling"):
            sleep(0.01)
        return load(name, text)

    monkeypatch.setattr(native, "load", slow)
    with gd.connect(device="cpu") as db:
        db["E"] = [(x, x + 1) for x in range(9)]
        db.workspace.force(split="never", dead_variables="never")
        one = ledger_of(db, TRIANGLES, "lftj")
        rounds = ledger_of(db, RECURSIVE[0], "lftj")
    assert 0.01 <= one.runs[0].costs.compiling < one.runs[0].seconds
    assert [run.costs.compiling >= 0.01 for run in rounds.runs] == [True] * 3
    assert sum(run.costs.compiling for run in rounds.runs) == pytest.approx(rounds.costs.compiling)


def test_what_is_inside_of_another_kind_is_its_own() -> None:
    before, began = time_spent(), perf_counter()
    with spending("planning"):
        with spending("indexing"):
            sleep(0.002)
            with spending("moving", 64):
                sleep(0.002)
        with pytest.raises(ValueError, match="no"), spending("indexing"):
            sleep(0.002)
            raise ValueError("no")
    spent, passed = time_spent() - before, perf_counter() - began
    assert spent.indexing >= 0.004 and spent.moving >= 0.002 and spent.moved == 64
    assert spent.planning >= 0 and spent.planning + spent.indexing + spent.moving <= passed


def test_parts_of_relations_are_one_index() -> None:
    """A recursion makes the same index of each part of what it makes."""
    with gd.connect(device="cpu") as db:
        db["E"] = [(x, x + 1) for x in range(12)]
        text = "p(x, y) <- E(x, y). p(x, w) <- p(x, y), p(y, z), p(z, w)."
        metrics = ledger_of(db, text, "levelwise")
    keys = [index.ref for index in metrics.indexes]
    assert len(keys) == len(set(keys))
    assert sum(index.built for index in metrics.indexes) > len(keys)
