"""Whole walks on fibers: each splits when it can, rings and pools are tiny, tiles take turns.

The answers are those of the CPU, whatever the turns.
"""

from __future__ import annotations

import random
import warnings
from typing import Any, Final

import pytest

import gdatalog
from gdatalog.gpu_ops import launch, loops
from gdatalog.gpu_ops.control_words import Word
from gdatalog.gpu_ops.device import Gpu
from tests.cuda_host import HostDriver, HostFault, needs_compiler

pytestmark = needs_compiler

PROGRAMS: Final = {
    "K4": "n(count()) <- E(a,b), E(b,c), E(a,c), E(a,d), E(b,d), E(c,d), a < b < c < d.",
    "squares": "s(a,b,c,d) <- E(a,b), E(b,c), E(c,d), E(d,a), distinct(a,b,c,d).",
    "paths": "p(a,b,c,d) <- E(a,b), E(b,c), E(c,d), !E(a,d).",
    "groups": "g(b, count()) <- E(_,b), E(b,c), E(c,d), E(b,d).",
    "witness": "w(a,b) <- E(a,b), E(b,c), E(c,d), E(d,_e), E(a,d).",
    "cliques": "k(a,b,c,d,e) <- E(a,b), E(a,c), E(a,d), E(a,e), E(b,c), E(b,d), E(b,e), E(c,d), "
    "E(c,e), E(d,e), a < b < c < d < e.",
    "sum": "n(sum(d)) <- E(a,b), E(b,c), E(c,d), E(a,c).",
}

ALL_SHOWN: Final = {
    "squares",
    "paths",
    "cliques",
}  # each row is of one binding, so none comes twice


def edges(seed: int) -> list[tuple[int, int]]:
    """One of three graphs of few vertices, of which some have long lists."""
    dice = random.Random(seed % 3)
    found = {(dice.randrange(14), dice.randrange(14)) for _ in range(70)}
    found |= {(3, other) for other in range(14)} | {(other, 5) for other in range(14)}
    return sorted(found | {(b, a) for a, b in found})


def on_cpu(program: str, seed: int) -> list[Any]:
    with gdatalog.connect(device="cpu") as db:
        db["E"] = edges(seed)
        return sorted(db.query(program, strategy="levelwise").fetchall())


class Walked:
    """Runs a program on fibers, and says what its launches did."""

    def __init__(self, patch: pytest.MonkeyPatch, tile: int, way: str, seed: int) -> None:
        dice = random.Random(seed)
        self.tile, self.way, self.seed = tile, way, seed
        self.launches = self.splits = self.made = 0
        self.driver = HostDriver(seed=seed + 1, blocks=1 + seed % 2)
        self.grain = dice.choice([1, 4, 20])
        room = dice.choice([4, 8, 32])
        patch.setattr(launch, "capacity", lambda tiles: room)
        patch.setattr(launch, "PIECES", dice.randint(1, 5))

        def pool(launch: Any) -> tuple[int, int]:
            """As many blocks as tiles work, so that each can give what it has counted."""
            return (1, launch.tiles) if launch.loops.printed.single else (32, room // 2)

        patch.setattr(launch.Launch, "_pool", pool)
        wait = self.driver.wait

        def waited(poll: Any, control: Any, *rest: Any) -> Any:
            found = wait(poll, control, *rest)
            if control is None:  # numbers that are read, and no launch
                return found
            self.launches += 1
            self.splits += int(control[int(Word.SPLITS)])
            assert int(control[Word.BUSY]) == int(control[Word.TAIL]) - int(control[Word.HEAD])
            return found

        patch.setattr(self.driver, "wait", waited)

    def rows(self, program: str) -> list[Any]:
        device = Gpu(self.driver)
        run = device.walks.run

        def counted(*args: Any, **named: Any) -> Any:
            blocks = run(*args, **named)
            self.made += sum(len(block[0]) for block in blocks)
            return blocks

        device.walks.run = counted  # type: ignore[method-assign]
        with gdatalog.connect(device="cpu") as db, warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            db.workspace.device = device
            db.workspace.force(tile=self.tile, intersect=self.way)
            db.workspace.tune(tile_shares_after=0, tile_grain=self.grain)
            db["E"] = edges(self.seed)
            return list(db.query(program, strategy="lftj").fetchall())


def check(
    patch: pytest.MonkeyPatch, name: str, tile: int, seeds: range, way: str = "auto"
) -> tuple[int, int]:
    """How many launches there were, and splits."""
    launches = splits = 0
    for seed in seeds:
        with patch.context() as inner:
            walked = Walked(inner, tile, way, seed)
            expected = on_cpu(PROGRAMS[name], seed)
            # Compared first: pytest would be long at showing the difference, where there is one.
            same = sorted(walked.rows(PROGRAMS[name])) == expected
            assert same, seed
            if name in ALL_SHOWN:
                assert walked.made == len(expected), seed
            launches += walked.launches
            splits += walked.splits
    return launches, splits


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tile"), [("sum", 8), ("paths", 4)])
def test_answers_are_the_same_in_every_order(
    name: str, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches, splits = check(monkeypatch, name, tile, range(0, 75, 3))
    assert splits > 50
    assert launches > 20 or name == "sum"  # which gives a row for each tile


@pytest.mark.slow
@pytest.mark.parametrize(
    ("found", "instead"),
    [
        ("if (unit >= work.task.stop) return false;", ""),
        ("if (own < end) work.task.high = own;", ""),
        ("work.kept_low = work.task.low;", "work.kept_low = 0;"),
        ("pool_mark(work.pool);", ""),
    ],
    ids=["units", "own", "kept", "mark"],
)
def test_a_walk_that_forgets_is_noticed(
    found: str, instead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = loops.whole

    def mutated(text: str) -> str:
        made = whole(text)
        assert made.count(found) == 1, found
        return made.replace(found, instead)

    monkeypatch.setattr(loops, "whole", mutated)
    with pytest.raises((AssertionError, HostFault)):
        check(monkeypatch, "paths", 4, range(0, 90, 3))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "tile", "way"),
    [
        ("K4", 32, "auto"),
        ("squares", 1, "auto"),
        ("groups", 16, "auto"),
        ("witness", 2, "auto"),
        ("cliques", 4, "recode"),
    ],
)
def test_answers_are_the_same_in_every_order_more(
    name: str, tile: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(monkeypatch, name, tile, range(1, 31, 3), way)
