"""What grows on a device that is not there: hash tries of new rows, and sets of row numbers."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from threading import current_thread, main_thread
from typing import Any

import numpy as np
import pytest

import gdatalog
from gdatalog.gpu_ops import launch, round_launches, rounds
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.growing import GrowingTrie, Indexing, RowNumbers, groups_of, slots_for
from tests.cuda_host import HostDriver, needs_compiler

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

Row = tuple[int, ...]
COMPARE = {"<": lambda a, b: a < b, "!=": lambda a, b: a != b}


def lists_of(trie: GrowingTrie) -> dict[Row, list[int]]:
    """The list of each node that has one, by the values above it."""
    found: dict[Row, list[int]] = {}
    nodes: dict[int, Row] = {0: ()}
    for level in trie.levels:
        below: dict[int, Row] = {}
        for node, path in nodes.items():
            begin, length = level.spans[2 * node : 2 * node + 2].tolist()
            values = level.values[begin : begin + length].tolist()
            found[path] = values
            if not level.last:
                children = level.below[begin : begin + length].tolist()
                below |= {c: (*path, v) for c, v in zip(children, values, strict=True)}
        nodes = below
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("columns", "tests"),
    [((1, 0), ()), ((0, 2, 1), ((0, "<", 2),)), ((2, 0), ((1, "!=", 2), (0, "<", 1)))],
)
def test_rows_are_indexed_as_they_come(columns: tuple[int, ...], tests: Any, seed: int) -> None:
    """Many rows of few first values, so that lists become long and move."""
    driver = HostDriver(seed=seed, races=seed == 1, blocks=2)
    gpu, arity = Gpu(driver), 3 if len(columns) == 3 or tests else 2
    drawn, xp = random.Random(seed), driver.xp
    spans = (4, 60, 5)[:arity]
    rows = list({tuple(drawn.randrange(span) for span in spans) for _ in range(300)})
    keys = [xp.asarray(np.array(column, dtype=np.int32)) for column in zip(*rows, strict=True)]
    trie = GrowingTrie(columns, tests, spans, False, driver)
    for depth in range(len(columns)):
        for kind in ("values", "keys"):
            trie.reads(depth, kind)
    trie.make(len(rows))
    board = xp.zeros(4, dtype=xp.int64)
    indexing = Indexing(gpu.ops.kernels, [trie], [tuple(keys)], [0])
    packed, end = indexing.packed(board, [tuple(keys)]), 0
    for size in (1, 0, 7, 100, len(rows)):
        begin, end = end, min(len(rows), end + size)
        board[2:] = xp.asarray(np.array([begin, end], dtype=np.int64))
        indexing.launch(packed)
        driver.synchronize()
        known = [r for r in rows[:end] if all(COMPARE[op](r[a], r[b]) for a, op, b in tests)]
        expected = defaultdict[Row, set[int]](set)
        for row in known:
            path = tuple(row[at] for at in columns)
            for depth, value in enumerate(path):
                expected[path[:depth]].add(value)
        found = lists_of(trie)
        assert {path: sorted(values) for path, values in found.items() if values} == {
            path: sorted(values) for path, values in expected.items()
        }


def test_tries_are_indexed_in_groups_whose_arguments_fit() -> None:
    driver = HostDriver()
    tries = [GrowingTrie((1, 0), (), (9, 9), False, driver) for _ in range(50)]
    groups = groups_of(tries)
    assert [len(group) for group in groups] == [22, 22, 6]
    assert [number for group in groups for number in group] == [*range(50)]


@pytest.mark.parametrize("parts", [1, 2])
def test_row_numbers_move_to_more_slots(parts: int) -> None:
    gpu = Gpu(HostDriver(races=True))
    numbers = RowNumbers(gpu.ops.kernels, parts, 0)
    some, more = gpu.driver.xp.arange(500) * 7, gpu.driver.xp.arange(5_000)
    numbers.add([some[:0], some[:0]][:parts])
    numbers.add([some % 16, some // 16][:parts])
    numbers.make_room(5_000)
    numbers.add([more % 16, more // 16][:parts])
    found = numbers.slots[numbers.slots != 0] - 1
    assert len(numbers.slots) == parts * slots_for(5_000) == parts * 16_384
    if parts == 1:
        assert sorted(found.tolist()) == list(range(16))
    else:
        assert sorted((found[::2] + 16 * found[1::2]).tolist()) == list(range(5_000))


PATHS = """
    p(x, y) <- E(x, y). p(x, z) <- p(x, y), q(y, z). q(x, y) <- p(y, x), x != 3.
    s(x) <- p(x, y), q(y, x), x < y."""
EDGES = [(x, (7 * x + y * y) % 18) for x in range(18) for y in range(2)]


@pytest.fixture
def closed() -> set[tuple[int, int]]:
    with gdatalog.connect(device="cpu") as db:
        db["E"] = EDGES
        return set(db.query(PATHS + " ?- p(x, y).").fetchall())


def asked(driver: HostDriver, **tuned: Any) -> gdatalog.Database:
    """A database whose fixpoints run on the device at once, with rows in hash sets."""
    db = gdatalog.connect(device="cpu")
    db.workspace.tune(device_from=-1, bitmap_rounds_from=0, **tuned)
    db.workspace.device = Gpu(driver)
    db.workspace.force(split="never", dedup="hash", tile=32)
    db["E"] = EDGES
    return db


def test_pools_and_indexes_start_small(
    closed: set[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "BLOCK_ROWS", 32)
    monkeypatch.setattr(round_launches, "FEW_BLOCKS", 1)
    grown: list[int] = []
    real = round_launches.RoundLaunch.grow
    monkeypatch.setattr(
        round_launches.RoundLaunch, "grow", lambda self: grown.append(self.pool.count) or real(self)
    )
    with asked(HostDriver(blocks=1), pool_rows=1, grid_blocks=1) as db:
        assert set(db.query(PATHS + " ?- p(x, y).").fetchall()) == closed
        assert grown[0] == 1 and max(grown) > 1
        profile = db.profile(PATHS + " ?- p(x, y).")
        assert sum(run.rows for run in profile.runs if run.plan.relation == "p") == len(closed)


@pytest.mark.parametrize("dedup", ["hash", "bitmap"])
@pytest.mark.parametrize("again", [False, True])
def test_what_has_no_room_runs_on_the_cpu(
    dedup: Any, again: bool, closed: set[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the device has kept the rounds of an earlier query."""
    left = iter([True, True])
    real = rounds.DeviceRounds._make_room

    def make(self: rounds.DeviceRounds, ahead: int) -> None:
        if not next(left, False):
            raise gdatalog.MemoryLimitError("no room")
        real(self, ahead)

    with asked(HostDriver(), kernels_worth=0) as db:
        db.workspace.force(split="never", dedup=dedup, tile=32)
        if again:
            assert set(db.query(PATHS + " ?- p(x, y).").fetchall()) == closed
            db.workspace.results.clear()
        monkeypatch.setattr(rounds.DeviceRounds, "_make_room", make)
        assert set(db.query(PATHS + " ?- p(x, y).").fetchall()) == closed
        assert next(left, None) is None


@pytest.mark.parametrize("stops", [1, 5])
def test_rounds_can_be_stopped(
    stops: int, closed: set[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, polls = HostDriver(), count(1)
    real = rounds.DeviceRounds.run

    def polled(self: rounds.DeviceRounds) -> Iterator[Any]:

        def check() -> None:
            if next(polls) == stops:
                raise gdatalog.Interrupted("enough")

        driver.polls = 20
        try:
            with self.limits.checking(check):
                yield from real(self)
        finally:
            driver.polls = 0

    monkeypatch.setattr(rounds.DeviceRounds, "run", polled)
    with asked(driver) as db:
        with pytest.raises(gdatalog.Interrupted):
            db.query(PATHS + " ?- p(x, y).").fetchall()
        assert set(db.query(PATHS + " ?- p(x, y).").fetchall()) == closed


def test_rows_beyond_the_expected_ones_leave_the_device() -> None:
    """Sums are not predicted; their rows do not fit the space of those before."""
    text = """
        d(x, 0, 0) <- N(x). d(x, z, w) <- d(x, y, v), d(y, z, u), w = v + u + 1, w < 9.
        d(x, y, 1) <- E(x, y), x < 9."""
    with gdatalog.connect(device="cpu") as db:
        db["E"], db["N"] = EDGES, [(3,)]
        expected = set(db.query(text + " ?- d(x, y, z).").fetchall())
    with asked(HostDriver()) as db:
        db["N"] = [(3,)]
        assert set(db.query(text + " ?- d(x, y, z).").fetchall()) == expected


def test_rows_of_more_than_62_bits() -> None:
    """Their set has two numbers for each row."""
    drawn = random.Random(0)
    edges = [(drawn.randrange(6), drawn.randrange(6), drawn.randrange(1 << 30)) for _ in range(16)]
    edges += [(x, y, z ^ 1) for x, y, z in edges[:8]]
    text = "w(x, y, z, z) <- F(x, y, z). w(x, z, k, l) <- w(x, y, k, _), w(y, z, _, l), k < l."
    with gdatalog.connect(device="cpu") as db:
        db["F"] = edges
        expected = set(db.query(text + " ?- w(x, y, k, l).").fetchall())
    made: list[int] = []
    real = RowNumbers.__init__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RowNumbers, "__init__", lambda *given: made.append(given[2]) or real(*given))
        with asked(HostDriver()) as db:
            db["F"] = edges
            assert set(db.query(text + " ?- w(x, y, k, l).").fetchall()) == expected
    assert made == [2]


def test_kernels_of_indexes_are_compiled_while_the_cpu_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[tuple[str, bool]] = []
    compiled = HostDriver.kernels

    def noted(driver: HostDriver, source: str, names: Any, *given: Any, **named: Any) -> Any:
        made.extend((name, current_thread() is main_thread()) for name in names)
        return compiled(driver, source, names, *given, **named)

    monkeypatch.setattr(HostDriver, "kernels", noted)
    driver = HostDriver()
    driver.compiles_ahead = True
    with gdatalog.connect(device="cpu") as db:
        db.workspace.device = device = Gpu(driver)
        db.workspace.tune(compiled_rounds_from=0)
        db["E"] = [(x, x + 1) for x in range(9)]
        text = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, w), p(w, z)."
        for found in (False, True):
            db.workspace.results.clear()
            assert len(db.query(text)) == 25
            assert (("next_round", True) in made) is found, made
            for coming in [*device.walks._coming.values()]:
                coming.result(timeout=60)
            for task in [*device.ops.kernels._coming.values()]:
                task.wait()
    assert ("index_rows", False) in made and ("index_rows", True) not in made
