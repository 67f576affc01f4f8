"""Kernels of several joins are compiled together, as soon as the joins are planned."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Timer, current_thread, main_thread
from typing import Any

import pytest

import gdatalog as gd
from gdatalog.engine.depth import JoinNest
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.walk import Walks
from tests.cuda_host import HostDriver, needs_compiler
from tests.cuda_host.driver import HostKernel
from tests.cuda_host.later import compiled_later

pytestmark = needs_compiler

EDGES = sorted({(x, (7 * x + y) % 40) for x in range(40) for y in (1, 2, 5, 9)})
EDGES += [(y, x) for x, y in EDGES if (y, x) not in EDGES]
TWO, THREE = "a(count()) <- E(_x, y), E(y, _z).", "b(count()) <- E(x, y), E(y, z), E(z, x)."
# A sum of the counts of several joins.
SUM = "n(count()) <- E(x, y), E(y, z), E(z, x), E(z, w), w != y."


@pytest.fixture
def db() -> Iterator[gd.Database]:
    driver = HostDriver()
    driver.compiles_ahead = True
    with gd.connect(device="cpu") as db:
        db["E"] = EDGES
        db.workspace.here = db.workspace.device
        db.workspace.device = Gpu(driver)
        db.workspace.tune(kernels_worth=0)
        db.workspace.force(algebra="quotients")
        yield db


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """In order: kernels that are asked for before they are needed, those that are compiled, and
    launches of plans."""
    found: list[str] = []

    def noted(where: Any, name: str, told: str) -> None:
        before = getattr(where, name)

        def noting(*given: Any, **named: Any) -> Any:
            found.append(told)
            return before(*given, **named)

        monkeypatch.setattr(where, name, noting)

    noted(Walks, "soon", "asked")
    noted(Walks, "_compiled", "compiled")
    launch = HostKernel.launch

    def launched(kernel: HostKernel, *given: Any, **named: Any) -> None:
        if kernel._name == "walk_plan":
            found.append("launched")
        launch(kernel, *given, **named)

    monkeypatch.setattr(HostKernel, "launch", launched)
    return found


def rows(db: gd.Database, text: str) -> list[tuple[Any, ...]]:
    db.workspace.results.clear()
    return sorted(db.query(text).fetchall())


@pytest.mark.parametrize("text", [f"{TWO} {THREE} c(n, m) <- a(n), b(m). ?- c(n, m).", SUM])
def test_all_loops_of_a_text_are_compiled_together(
    text: str, db: gd.Database, events: list[str]
) -> None:
    found = rows(db, text)
    first = events.index("launched")
    assert events[:first].count("asked") == 2
    del events[:]
    assert rows(db, text) == found and "compiled" not in events
    db.workspace.device = db.workspace.here
    assert rows(db, text) == found


def test_rules_that_differ_in_names_share_a_kernel(db: gd.Database, events: list[str]) -> None:
    for text in (TWO, "other(count()) <- E(_p, q), E(q, _r)."):
        rows(db, text)
    assert events.count("compiled") == 1


def test_a_wait_for_a_kernel_can_be_interrupted(
    db: gd.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    going = compiled_later(monkeypatch)
    monkeypatch.setattr("gdatalog.gpu_ops.walk.COMPILERS", 1)
    stop = Timer(0.2, db.interrupt)
    stop.start()
    try:
        with pytest.raises(gd.Interrupted):
            rows(db, SUM)
    finally:
        going.set()
    stop.join()
    expected = rows(db, SUM)
    db.workspace.device = db.workspace.here
    assert rows(db, SUM) == expected


def test_a_small_first_answer_waits_for_no_kernel_of_its_own(
    db: gd.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Array operations expand levels while other threads compile the kernels for that."""
    made: list[tuple[str, bool]] = []
    launched: list[str] = []
    compiled, launch = HostDriver.kernels, HostKernel.launch

    def noted(driver: HostDriver, source: str, names: Any, told: str) -> Any:
        made.extend((name, current_thread() is main_thread()) for name in names)
        return compiled(driver, source, names, told)

    def launching(kernel: HostKernel, *given: Any, **named: Any) -> None:
        launched.append(kernel._name)
        launch(kernel, *given, **named)

    monkeypatch.setattr(HostDriver, "kernels", noted)
    monkeypatch.setattr(HostKernel, "launch", launching)
    device: Any = db.workspace.device
    db.workspace.tune(kernels_worth=1e6)
    text = "l(x, z) <- E(x, y), E(y, z), E(z, x), x < z."
    found = rows(db, text)
    own = {"lists_of_rows", "expand_level", "count_level"}
    assert [here for name, here in made if name in own] and own.isdisjoint(launched)
    assert not any(here for name, here in made if name in own)
    for task in device.ops.kernels._coming.values():
        task.wait()
    assert rows(db, text) == found and not own.isdisjoint(launched)
    db.workspace.device = db.workspace.here
    assert rows(db, text) == found


def test_a_first_answer_does_not_wait_for_its_kernel(
    db: gd.Database, events: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    going = compiled_later(monkeypatch)
    db.workspace.tune(kernels_worth=100)
    device: Any = db.workspace.device
    try:
        found = rows(db, THREE)
        assert "launched" not in events
    finally:
        going.set()
    for coming in [*device.walks._coming.values()]:
        coming.result(timeout=60)
    assert rows(db, THREE) == found and "launched" in events


def test_a_join_that_reads_more_than_expected_waits_for_its_kernel(
    db: gd.Database, events: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JoinNest, "waits", lambda *given: True)
    found = rows(db, THREE)  # within no rows at all
    assert "launched" in events
    db.workspace.device = db.workspace.here
    assert rows(db, THREE) == found
