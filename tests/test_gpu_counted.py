"""What a profile knows of loops on a GPU: their counted form binds what breadth-first binds.

A number chooses the tile, how soon tasks are shared, and how few rows the pool has room for: then
units are begun again, on other tiles, and must not count twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog.gpu_ops import walk
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.tiles import TILES
from gdatalog.plan.nodes import Join
from gdatalog.report import Profile
from tests import test_depth_first as depth_first
from tests.cuda_host import HostDriver, needs_compiler
from tests.draw_patterns import drawn_pattern
from tests.test_counted import SPLIT, bindings, compare
from tests.test_engine_oracle import Data, frame, share

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

LIMITS = (0, -1, 300)  # at every chance, never, after a few atomics
INTERSECT = ("plain", "plain", "auto")


@contextmanager
def on_device(db: gd.Database, number: int, rows: int | None = None) -> Iterator[None]:
    """Depth-first on a device; `rows` of a block of the pool."""
    device = Gpu(HostDriver(seed=number % 1000, blocks=1 + number % 2))
    device.walks.tuning = replace(
        device.walks.tuning,
        limit=LIMITS[number % len(LIMITS)],
        grain=(0, 1, 7)[number // 2 % 3],
        pool_rows=1 if number % 4 else 1 << 14,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "BLOCK_ROWS", rows or (32, 64)[number % 2])
        db._workspace.device = device
        db._workspace.force(
            tile=TILES[number % len(TILES)], intersect=INTERSECT[number % len(INTERSECT)]
        )
        yield


def agree(text: str, data: Data, number: int) -> int:
    """How many numbers of bindings were compared."""
    with gd.connect(device="cpu") as db:
        for name, (types, rows) in data.items():
            db.load(name, frame(types, rows))
        broad = db.profile(text, strategy="levelwise")
        with on_device(db, number):
            deep = db.profile(text, strategy="lftj")
        assert set(deep.result.fetchall()) == set(broad.result.fetchall())
        plans = {id(run.plan): run for run in broad.runs}
        return sum(
            compare(plans[id(run.plan)], run, INTERSECT[number % len(INTERSECT)] == "auto")
            for run in deep.runs
            if id(run.plan) in plans
            and all(not choice.breadth_first for choice in run.executors.values())
        )


@pytest.mark.slow
@pytest.mark.drawn
@share(1)
@given(st.integers(0, 1 << 40))
def test_drawn_patterns(number: int) -> None:
    pattern = drawn_pattern(number)
    with suppress(gd.SafetyError):
        agree(pattern.text, pattern.data, number)
