"""What a profile knows of loops on a GPU: their counted form binds what breadth-first binds.

A number chooses the tile, how soon tasks are shared, and how few rows the pool has room for: then
units are begun again, on other tiles, and must not count twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog import workspace
from gdatalog.engine.device import CPU
from gdatalog.engine.metrics import Metrics
from gdatalog.gpu_ops import launch
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.lanes import TILES
from gdatalog.report import Profile
from tests import test_depth_first as depth_first
from tests import test_gpu_walks as walks
from tests.cases import share
from tests.cuda_host import HostDriver, needs_compiler
from tests.draw import Drawn, aggregate_programs, programs, recursive_programs
from tests.draw_patterns import drawn_pattern
from tests.interpreted import interpreted
from tests.test_counted import SPLIT, bindings, compare
from tests.test_engine_oracle import Data, frame

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

LIMITS = (0, -1, 300)  # at every chance, never, after a few atomics
INTERSECT = ("plain", "plain", "auto")


@contextmanager
def on_device(db: gd.Database, number: int) -> Iterator[None]:
    """Depth-first on a device."""
    device = Gpu(HostDriver(seed=number % 1000, races=number % 5 == 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "BLOCK_ROWS", 32)
        db.workspace.device = device
        db.workspace.tune(
            tile_shares_after=LIMITS[number % len(LIMITS)],
            tile_grain=(0, 1, 7)[number // 2 % 3],
            pool_rows=1 if number % 4 else 1 << 14,
            pool_rows_most=1,
            grid_blocks=1 + number // 7 % 2,
        )
        db.workspace.force(
            tile=TILES[number % len(TILES)], intersect=INTERSECT[number % len(INTERSECT)]
        )
        yield


def agree(text: str, data: Data, number: int) -> int:
    """How many numbers of bindings were compared."""
    recoded = INTERSECT[number % len(INTERSECT)] == "auto"
    with gd.connect(device="cpu") as db:
        for name, (types, rows) in data.items():
            db.load(name, frame(types, rows))
        db.workspace.force(algebra="never")  # sums have plans for each device
        broad = db.profile(text, strategy="levelwise")
        with interpreted():
            db.workspace.force(intersect="plain")
            threads = db.profile(text, strategy="lftj")
        with on_device(db, number):
            deep = db.profile(text, strategy="lftj")
        assert set(deep.result.fetchall()) == set(broad.result.fetchall())
        by_plan = {id(run.plan): run for run in broad.runs}
        by_threads = {id(run.plan): run for run in threads.runs}
        compared = 0
        for run in deep.runs:
            if id(run.plan) not in by_plan or any(c.breadth_first for c in run.executors.values()):
                continue
            compared += compare(by_plan[id(run.plan)], run, recoded)
            expected = by_threads[id(run.plan)]
            assert run.seen.keys() == expected.seen.keys()
            if not recoded and run.plan.head:  # also of what is tried, and in branches
                assert {**run.seen} == {**expected.seen}
        return compared


@pytest.mark.slow
@pytest.mark.drawn
@share(1)
@given(st.integers(0, 1 << 40))
def test_drawn_patterns(number: int) -> None:
    pattern = drawn_pattern(number)
    with suppress(gd.SafetyError):
        agree(pattern.text, pattern.data, number)


# Two levels are cut into tasks, or one; a level below shares its turns; lanes have turns of their
# own, or leap; some values lead nowhere.
TEXTS = (
    "p(a, b, c) <- E(a, b), L(b), E(b, c), a != c.",
    "p(a, b, c, d) <- E(a, b), E(b, c), L(c), E(c, d), E(a, d).",
    "p(a, b, c) <- E(a, b), F(b, c), !F(c, a), c < 20.",
    "p(a, b) <- L(a), L(b), E(a, c), E(b, c).",
)
QUICK = (0, 32)


@pytest.mark.parametrize(
    ("at", "tile"),
    [
        pytest.param(at, tile, marks=() if (at, tile) == QUICK else pytest.mark.slow)
        for at in range(len(TEXTS))
        for tile in (1, 8, 32)
    ],
)
def test_rows_that_have_no_room(at: int, tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is undone and begun again counts once."""
    drained: list[Any] = []
    drain = launch.Launch._drain

    def noted(*given: Any) -> Any:
        drained.append(drain(*given))
        return drained[-1]

    monkeypatch.setattr(launch.Launch, "_drain", noted)
    edges = [(x, (x * x + y) % 40) for x in range(40) for y in (1, 3, 9, 10, 11, 20, 27, 31)]
    data: Data = {
        "E": (("int", "int"), edges),
        "F": (("int", "int"), [(y, x) for x, y in edges if x % 3]),
        "L": (("int",), [(x,) for x in range(0, 40, 2)]),
    }
    number = next(n for n in range(6 * at + TILES.index(tile), 999, 6) if n % 4 and n // 7 % 2 == 0)
    assert agree(TEXTS[at], data, number) > 2
    assert tile != 32 or len(drained) > 2  # launches, of at most 128 rows


PATTERNS = {
    **depth_first.PATTERNS,
    "values that come again": "E(a, b), k in {1, 2, b}, z = (k * b) % 9, E(z, c), E(c, d), E(d, e)",
}


@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS)
def test_dense_patterns(pattern: str) -> None:
    """By tiles of 4 and of 8 lanes, that share at every chance."""
    heads, tests = depth_first.HEADS, depth_first.TESTS
    for number in (2 + 6 * len(pattern), 3 + 6 * len(pattern)):
        edges = depth_first.graph(number, bool(number % 2))
        data: Data = {name: (("int", "int"), list(rows)) for name, rows in edges.items()}
        head, test = heads[number % len(heads)], tests[number // 2 % len(tests)]
        assert agree(f"{head} <- {PATTERNS[pattern]}{test}.", data, number)


def test_queries_run_the_plain_kernels() -> None:
    """What is printed for them has nothing in it that counts, before a profile and after."""
    sources: list[str] = []

    class Noting(HostDriver):
        def kernels(self, source: str, names: Sequence[str], told: str) -> Any:
            sources.append(source)
            return super().kernels(source, names, told)

    text = "n(a, count()) <- E(a, b), E(b, c), E(a, c)."
    answers = []
    with gd.connect(device="cpu") as db:
        db["E"] = [(x, y) for x in range(5) for y in range(5)]
        for profiled in (False, True, False):
            db.workspace.device = Gpu(Noting())
            answer = (db.profile if profiled else db.query)(text, strategy="lftj")
            answers.append(answer.result if isinstance(answer, Profile) else answer)
            db["E"] = [(x, y) for x in range(5) for y in range(5)]
    before, profile, after = (source for source in sources if "walk_plan" in source)
    # The counting functions of tile.cuh are in every source.
    assert before == after and "bound_1" not in before
    assert profile.count("add_counted(") > before.count("add_counted(") == 1
    assert "bound_1 += " in profile
    assert [set(answer.fetchall()) for answer in answers] == [{(x, 25) for x in range(5)}] * 3


EDGES = [(x, (x * x + y) % 40) for x in range(40) for y in (1, 3, 9)]


def counts_of(profile: Profile) -> dict[int, int]:
    """How many were bound at each step, by its id, where that is known."""
    return {step: seen.rows_out for run in profile.runs for step, seen in run.seen.items()}


@pytest.mark.parametrize("number", [3, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("text", SPLIT)
def test_a_fixpoint_for_each_value(text: str, number: int) -> None:
    with gd.connect(device="cpu") as db:
        db["E"] = EDGES
        db.workspace.force(split="never", dead_variables="never")
        broad = counts_of(db.profile(text, strategy="levelwise"))
        db.workspace.force(split="always")
        with on_device(db, number):
            deep = db.profile(text)
    assert any(told.way is not None for told in deep.strata)
    found = counts_of(deep)
    assert len(found) >= 3
    assert found == {step: broad[step] for step in found}


@pytest.mark.parametrize("number", [3, pytest.param(5, marks=pytest.mark.slow)])
def test_rounds_whose_rows_are_marked(number: int) -> None:
    with gd.connect(device="cpu") as db:
        db["E"] = EDGES
        db.workspace.force(split="never", dead_variables="never")
        text = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z), z != x."
        broad = db.profile(text, strategy="levelwise")
        db.workspace.force(dedup="bitmap")
        with on_device(db, number):
            deep = db.profile(text)
    assert "new rows, told by marks on the device" in str(deep)
    assert bindings(deep) == bindings(broad)
    rounds = [
        [(did.round, did.tried, did.new) for told in profile.strata for did in told.rules]
        for profile in (deep, broad)
    ]
    assert rounds[0] == rounds[1]


def test_what_is_given_up_has_told_nothing() -> None:
    """A row that there is no mark for ends rounds; of values far apart there are too many rows."""
    with gd.connect(device="cpu") as db:
        db["N"] = [(1,), (2,)]
        db["E"] = [(x, x) for x in range(30)]
        db["F"] = [(x << 40, x + 1 << 40) for x in range(5)]
        texts = (
            "r(x) <- N(x). r(y) <- r(x), y = x + 1, y < 9, E(x, _).",
            "p(x, y) <- F(x, y). p(x, y) <- F(y, x). p(x, z) <- p(x, y), F(y, z).",
        )
        for text in texts:
            db.workspace.device = CPU
            db.workspace.force(split="never", dead_variables="never", dedup="auto")
            broad = db.profile(text, strategy="levelwise")
            db.workspace.force(split="always", dedup="bitmap")
            with on_device(db, 0):
                deep = db.profile(text)
            assert [run.rows for run in deep.runs] == [run.rows for run in broad.runs]
            assert bindings(deep) == bindings(broad)


@pytest.mark.slow
@pytest.mark.drawn
@settings(share(1), max_examples=1)
@given(programs(), aggregate_programs(), recursive_programs())
def test_counting_changes_no_answer(one: Drawn, other: Drawn, third: Drawn) -> None:
    """Programs run as a profile runs them, against the oracle."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workspace, "Metrics", lambda **_: Metrics())
        for each in (one, other, third):
            walks.agrees(each)
