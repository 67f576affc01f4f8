"""Breadth-first counts that are asked again on a device: one launch of a graph, and one wait."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.kernels import Kernels
from gdatalog.gpu_ops.level_graph import PreparedLevels
from tests.cuda_host import HostDriver, needs_compiler
from tests.cuda_host.arrays import COUNTER

pytestmark = needs_compiler

DEVICE = Gpu(HostDriver())
EDGES = [(a, b) for a in range(30) for b in range(a + 1, 30) if (a * 7 + b * 11) % 5]
# Some vertices have no list.
SPARSE = [(a, b) for a in range(60) for b in range(a + 1, 60) if (a * a + 3 * b) % 7 < 3 and b % 5]
TRIANGLES = "n(count()) <- E(a, b), E(b, c), E(a, c)."
K4 = "n(count()) <- E(a, b), E(a, c), E(a, d), E(b, c), E(b, d), E(c, d)."
PATHS = "n(count()) <- E(a, b), E(b, c), E(c, d), E(a, d), b < d, a != c."


def opened(device: Any, chunk: int | None = None, edges: Any = EDGES) -> gd.Database:
    db = gd.connect(device="cpu")
    if device is not None:
        db.workspace.device = device
    db.workspace.force(strategy="levelwise", hand_over="never")
    db.workspace.chunk_rows = chunk
    db["E"] = edges
    return db


def asked(db: gd.Database, text: str, bound: bool, **params: Any) -> tuple[int, int, int]:
    """The count, how often the host waits for it, and how many graphs were recorded."""
    db.workspace.results.clear()
    if not bound:
        db.workspace.catalog.bound.clear()
    driver = getattr(db.workspace.device, "driver", DEVICE.driver)
    COUNTER.reset()
    before = driver.recordings
    ((found,),) = db.query(text, params or None).fetchall()
    return found, COUNTER.synchronisations, driver.recordings - before


@pytest.mark.parametrize("chunk", [None, 150])
@pytest.mark.parametrize("text", [TRIANGLES, K4, PATHS])
def test_the_third_run_is_one_launch(text: str, chunk: int | None) -> None:
    """Also in several pieces; and other edges are counted anew."""
    with opened(None) as here, opened(DEVICE, chunk) as there:
        for bound in (False, True):
            expected = asked(here, text, False)[0]
            runs = [asked(there, text, bound) for _ in range(4)]
            assert [found for found, _, _ in runs] == [expected] * 4
            assert [recorded for _, _, recorded in runs] == [0, 1, 0, 0]
            asked(there, text, True)
            found, waits, recorded = asked(there, text, True)
            assert (found, recorded) == (expected, 0)
            assert max(waits, *(waits for _, waits, _ in runs[1:])) <= 1  # a GPU's are not counted
            for db in (here, there):
                db.insert("E", [(3, 40), (40, 41), (3, 41), (2, 40)])


def test_other_settings_have_loops() -> None:
    """A query that is to run depth-first does, though a graph of its levels is kept."""
    with opened(DEVICE) as db:
        first = [asked(db, TRIANGLES, True)[0] for _ in range(4)]
        graph = DEVICE.driver.launches
        asked(db, TRIANGLES, True)
        graph = DEVICE.driver.launches - graph
        db.workspace.force(strategy="lftj")
        assert [asked(db, TRIANGLES, True)[0] for _ in range(4)] == first
        loops = DEVICE.driver.launches
        asked(db, TRIANGLES, True)
        assert (graph, DEVICE.driver.launches - loops) == (4, 1)


def test_pieces_are_those_of_the_noted_run() -> None:
    """The second run has less memory, so its levels would have more and smaller pieces."""
    with opened(None) as here, opened(DEVICE, 300) as there:
        expected = asked(here, K4, False)[0]
        assert asked(there, K4, False)[0] == expected
        there.workspace.chunk_rows = 150
        runs = [asked(there, K4, False) for _ in range(2)]
        assert [(found, recorded) for found, _, recorded in runs] == [(expected, 1), (expected, 0)]


def test_rows_that_are_handed_over_are_not_recorded() -> None:
    with opened(None) as here, opened(DEVICE, 150) as there:
        there.workspace.force(strategy="levelwise", hand_over="always")
        expected = asked(here, TRIANGLES, False)[0]
        runs = [asked(there, TRIANGLES, False) for _ in range(2)]
        assert [(found, recorded) for found, _, recorded in runs] == [(expected, 0)] * 2


def test_a_time_limit_ends_a_run_that_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later runs are noted and recorded again."""
    record = PreparedLevels.record

    def too_late() -> None:
        raise gd.TimeLimitError("the time limit")

    with opened(DEVICE) as db, monkeypatch.context() as patch:
        first = asked(db, TRIANGLES, False)[0]
        patch.setattr(PreparedLevels, "record", lambda levels, _: record(levels, too_late))
        with pytest.raises(gd.TimeLimitError):
            asked(db, TRIANGLES, False)
        patch.undo()
        runs = [asked(db, TRIANGLES, False) for _ in range(3)]
        assert [(found, recorded) for found, _, recorded in runs] == [(first, n) for n in (0, 1, 0)]


def test_rows_without_a_list() -> None:
    with opened(None, edges=SPARSE) as here, opened(DEVICE, edges=SPARSE) as there:
        expected = asked(here, K4, False)[0]
        assert expected and [asked(there, K4, True)[0] for _ in range(4)] == [expected] * 4


@pytest.mark.parametrize("chunk", [None, 150])
def test_a_level_by_array_operations_after_kernels(
    chunk: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel of a level is compiled still; the rows of the level before may have no node."""
    drawn = np.random.default_rng(3).integers(0, 60, (900, 2)).tolist()
    edges = sorted({(a, b) for a, b in map(sorted, drawn) if a < b})
    with opened(None, edges=edges) as here, opened(DEVICE, chunk, edges) as there:
        monkeypatch.setattr(Kernels, "soon", lambda kernels, text, name: name != "count_level")
        assert asked(there, K4, False)[0] == asked(here, K4, False)[0]


def test_intersections_that_rows_share_are_not_recorded() -> None:
    """An index by the second column is there, so the last level needs few different intersections;
    the host reads how many."""
    edges = np.unique(np.random.default_rng(3).integers(0, 40, (300, 2)), axis=0).tolist()
    cycle = "n(count()) <- E(a, b), E(b, c), E(c, d), E(d, e), E(a, e)."
    with opened(None, edges=edges) as here, opened(DEVICE, edges=edges) as there:
        for db in (here, there):
            asked(db, "n(count()) <- E(a, b), E(b, a).", False)
        expected = asked(here, cycle, False)[0]
        runs = [asked(there, cycle, False) for _ in range(3)]
        assert [(found, recorded) for found, _, recorded in runs] == [(expected, 0)] * 3


def test_more_than_counts_is_not_recorded() -> None:
    with opened(DEVICE) as db:
        for text in (
            "n(a, count()) <- E(a, b), E(b, c), E(a, c).",
            "n(count()) <- E(a, b), E(b, c), E(a, c), a + b > c.",
            "n(sum(c)) <- E(a, b), E(b, c), E(a, c).",
        ):
            for _ in range(3):
                db.workspace.results.clear()
                before = DEVICE.driver.recordings
                db.query(text).fetchall()
                assert DEVICE.driver.recordings == before


def test_a_wait_that_cannot_be_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The join runs as before, and is not recorded again."""
    run = PreparedLevels.record

    def waiting(levels: PreparedLevels, record: Any) -> bool:
        def waits() -> None:
            record()
            DEVICE.ops.xp.arange(3).get()

        return run(levels, waits)

    monkeypatch.setattr(PreparedLevels, "record", waiting)
    with opened(DEVICE) as db:
        runs = [asked(db, TRIANGLES, False) for _ in range(4)]
        assert len({found for found, _, _ in runs}) == 1
        assert [recorded for _, _, recorded in runs] == [0, 1, 0, 0]


def test_a_run_without_kernels_is_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Array operations expand levels while kernels are compiled; then the next run is noted."""
    with opened(DEVICE) as db, monkeypatch.context() as patch:
        patch.setattr(Kernels, "soon", lambda *given: False)
        first = asked(db, TRIANGLES, False)[0]
        asked(db, TRIANGLES, False)
        patch.undo()
        runs = [asked(db, TRIANGLES, False) for _ in range(3)]
        assert [(found, recorded) for found, _, recorded in runs] == [(first, n) for n in (0, 1, 0)]


def test_levels_that_are_dropped_run_as_before() -> None:
    with opened(DEVICE) as db:
        for bound in (False, True):
            first = [asked(db, TRIANGLES, bound)[0] for _ in range(4)]
            DEVICE.walks.drop_launches()
            assert asked(db, TRIANGLES, bound)[0] == first[0]
            assert asked(db, TRIANGLES, bound)[2] == 1
