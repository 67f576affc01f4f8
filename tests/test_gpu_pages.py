"""Rules whose indexes do not fit the device read them in place, on the device that is not there.

Its virtual memory has pages of a few bytes: arrays begin and end within them.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from gdatalog.engine import paged_joins
from gdatalog.engine.metrics import RuleRun
from gdatalog.plan import page_schedule
from gdatalog.plan.schedule import CellPlanner
from tests import test_engine_oracle as oracle
from tests.cases import share
from tests.cuda_host import HostDriver, needs_compiler
from tests.cuda_host.pages import HostMemory
from tests.draw import MANY, Drawn, check_drawn
from tests.test_gpu_cells import QUERIES, asked, expected, forced, loaded, opened

__all__ = ["expected"]  # a fixture

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


def in_pages(driver: Any, strategy: str = "levelwise", **more: Any) -> gd.Database:
    return opened(driver, strategy, host_indexes="pages", **more)


def paged(driver: Any, size: int) -> Any:
    """The driver, with pages of so many bytes; a GPU has its own."""
    if hasattr(driver, "copies"):
        driver.virtual = HostMemory(size)
    return driver


def assert_given_back(driver: Any) -> None:
    """Nothing is placed on the device any more."""
    assert not hasattr(driver, "virtual") or driver.virtual.held == 0


# ------------------------------------------------------------------------------------ programs


def run(text: str, data: oracle.Data, defined: set[str], number: int) -> oracle.Relations:
    """The answers; the number chooses the room, and the size of pages."""
    driver = paged(HostDriver(seed=number % 17), (8, 24, 256, 0)[number % 4])
    with forced((0, 40, 400, 1 << 20)[number % 3]), in_pages(driver) as db:
        found = oracle.answers(db, text, data, defined)
        assert_given_back(driver)
        return found


def agrees(drawn: Drawn) -> None:
    oracle.agrees_in(run, drawn)


@pytest.mark.drawn
@pytest.mark.parametrize("profile", MANY)
def test_programs(profile: str) -> None:
    check_drawn(profile, share(1), agrees)


@pytest.mark.parametrize("strategy", ["levelwise", pytest.param("lftj", marks=pytest.mark.slow)])
@pytest.mark.parametrize("query", QUERIES)
def test_joins_in_pages(query: str, strategy: str, expected: dict[str, set[Any]]) -> None:
    driver = paged(HostDriver(seed=3), 128)
    with forced(1100), loaded(in_pages(driver, strategy)) as db:
        found, (report,) = asked(db, QUERIES[query], strategy)
        assert found == expected[query]
        told = report.in_pages
        assert report.left is None and report.in_cells is None and told is not None
        assert told.copied is not None and told.copied > 0 and told.read is not None
        assert report.seen
        assert_given_back(driver)
        if hasattr(driver, "virtual"):
            assert 0 < told.placed <= 1100 and told.placed < told.size
            assert driver.virtual.made[True] > 0


# ------------------------------------------------------------------------------------- choices


def way(report: RuleRun) -> str:
    assert report.left is None
    return "cells" if report.in_cells is not None else "pages"


@pytest.mark.parametrize(("cell_bytes", "expects"), [(1, "cells"), (1 << 25, "pages")])
def test_the_way_that_moves_less_is_taken(
    cell_bytes: int, expects: str, expected: dict[str, set[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more cell costs nothing, or as much as to copy many indexes; `explain` says the same.
    Where each cell costs more, none are searched for."""
    if expects == "pages":
        monkeypatch.setattr(CellPlanner, "schedule", lambda _: pytest.fail("cells"))
    driver = paged(HostDriver(), 128)
    with loaded(opened(driver, memory=3500, cell_bytes=cell_bytes, host_indexes="auto")) as db:
        (stratum,) = db.explain(QUERIES["triangles"]).strata
        (rule,) = stratum.rules
        planned = {"cells": rule.in_cells, "pages": rule.in_pages}
        assert [way for way, found in planned.items() if found is not None] == [expects]
        found, (report,) = asked(db, QUERIES["triangles"], "levelwise")
        assert found == expected["triangles"] and way(report) == expects


def test_a_search_for_cells_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that of `explain`, before there are indexes."""
    searches, search = [], CellPlanner.schedule

    def noted(planner: CellPlanner) -> Any:
        searches.append(planner.poll)
        return search(planner)

    monkeypatch.setattr(CellPlanner, "schedule", noted)
    with loaded(opened(paged(HostDriver(), 128), memory=3500, cell_bytes=1)) as db:
        db.explain(QUERIES["triangles"])
        asked(db, QUERIES["triangles"], "levelwise")
    assert len(searches) == 2 and {poll.__name__ for poll in searches} == {"poll"}


def test_after_a_run_its_indexes_tell_what_is_to_be_expected() -> None:
    driver = paged(HostDriver(), 128)
    with loaded(opened(driver, memory=3500, cell_bytes=400, host_indexes="auto")) as db:
        db.workspace.chunk_rows = 64
        for text in (QUERIES["triangles"], QUERIES["cliques"], QUERIES["negation"]):
            asked(db, text, "levelwise")
            (stratum,) = db.explain(text).strata
            rule = stratum.rules[-1]
            _, (report,) = asked(db, text, "levelwise")
            told, came = rule.in_pages or rule.in_cells, report.in_pages or report.in_cells
            assert type(told) is type(came)
            assert (0 if told is None else told.planned) == (0 if came is None else came.planned)


def test_without_virtual_memory_lists_are_read_from_pinned_memory(
    expected: dict[str, set[Any]],
) -> None:
    driver = paged(HostDriver(), 0)
    driver._virtual = {True: None}  # of a GPU: that it has none
    with forced(1100), loaded(in_pages(driver)) as db:
        found, (report,) = asked(db, QUERIES["triangles"], "levelwise")
        assert found == expected["triangles"]
        assert report.in_pages is not None and report.in_pages.placed == 0


def test_a_value_larger_than_a_cell_is_read_in_place(expected: dict[str, set[Any]]) -> None:
    for how, left in (("auto", False), ("cells", True)):
        with forced(60), loaded(opened(paged(HostDriver(), 64), host_indexes=how)) as db:
            found, (report,) = asked(db, QUERIES["triangles"], "levelwise")
            assert found == expected["triangles"]
            assert (report.left is not None) == left == (report.in_pages is None)


def test_pages_are_explained_and_told_of() -> None:
    driver = paged(HostDriver(seed=5), 128)
    with forced(None), loaded(in_pages(driver, memory=3500)) as db:
        (stratum,) = db.explain(QUERIES["triangles"]).strata
        (rule,) = stratum.rules
        assert rule.left is None and rule.in_cells is None and rule.in_pages is not None
        told = str(db.explain(QUERIES["triangles"]))
        assert str(rule.in_pages) in told and "over the link" in told
        facts = dict(db.explain(QUERIES["triangles"]).tree.find("rule")[0].facts)
        assert facts["bytes planned to be read"] == rule.in_pages.planned > 0
        profile = db.profile(QUERIES["triangles"])
        facts = dict(profile.tree.find("rule")[0].facts)
        assert facts["bytes read, by lists"] > 0 and facts["bytes copied to pages"] > 0
        assert "over the link" in str(profile) and "copied to pages" in str(profile)


def test_pages_stay_as_long_as_their_index(expected: dict[str, set[Any]]) -> None:
    driver = paged(HostDriver(), 128)
    with forced(1100), loaded(in_pages(driver)) as db:
        copied = []
        for _ in range(2):
            found, (report,) = asked(db, QUERIES["triangles"], "levelwise")
            assert found == expected["triangles"] and report.in_pages is not None
            copied.append(report.in_pages.copied)
        assert copied[1] == report.in_pages.placed < copied[0]
        db["E"] = [(1, 2), (2, 3), (1, 3)]
        del report
        assert set(db.query(QUERIES["triangles"]).fetchall()) == {(1, 2, 3)}
        gc.collect()
        if hasattr(driver, "virtual"):
            (left,) = driver.virtual.ranges.values()
            assert len(left) <= 1024  # four arrays
    gc.collect()
    if hasattr(driver, "virtual"):
        assert not driver.virtual.ranges and not driver.virtual.handles


def test_hot_pages_are_those_that_are_read_most() -> None:
    """A hub that every list leads to: of the room for few pages its list has one."""
    rows = [(x, 500) for x in range(400)] + [(500, y) for y in range(600, 632)]
    driver = paged(HostDriver(), 128)
    with forced(1200), in_pages(driver) as db:
        db["E"] = rows
        db["F"] = rows
        text = "p(x, z) <- E(x, y), F(y, z)."
        assert len(db.query(text)) == 400 * 32
        profile = dict(db.profile(text).tree.find("rule")[0].facts)
        # Of the lists below 500, of 128 bytes, each was read 400 times: not over the link.
        assert profile["bytes read, by lists"] < 400 * 128


CLIQUES = "n(count()) <- E(a,b), E(a,c), E(a,d), E(b,c), E(b,d), E(c,d), a < b < c < d."


def skewed() -> list[tuple[int, int]]:
    """Edges both ways, of which a few vertices have most."""
    random = np.random.default_rng(5)
    ends = (400 * random.random((2500, 2)) ** 2).astype(int).tolist()
    return sorted({pair for x, y in ends if x != y for pair in ((x, y), (y, x))})


def test_lists_that_rows_of_bits_are_made_of_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each edge one list is looked through, and not one for each triangle."""
    read = []
    for bits in (page_schedule.in_bits, lambda *_: set()):
        monkeypatch.setattr(page_schedule, "in_bits", bits)
        with forced(4000), in_pages(paged(HostDriver(), 128), "lftj") as db:
            db["E"] = skewed()
            profile = dict(db.profile(CLIQUES).tree.find("rule")[0].facts)
            read.append(profile["bytes read, by lists"])
    assert 0 < read[0] < read[1]


def test_cells_that_would_go_without_rows_of_bits_are_not_taken() -> None:
    """... though they cost next to nothing."""
    driver, limits = paged(HostDriver(), 128), {"memory": 12_000, "cell_bytes": 1}
    with opened(driver, "lftj", host_indexes="auto", **limits) as db:
        db["E"] = skewed()
        rule = db.explain(CLIQUES).strata[0].rules[0]
        found, (report,) = asked(db, CLIQUES, "lftj")
        assert rule.in_pages is not None and way(report) == "pages"
    with gd.connect(device="cpu") as db:
        db["E"] = skewed()
        assert found == set(db.query(CLIQUES).fetchall())


# -------------------------------------------------------------------------------------- faults


def test_without_room_on_the_host_a_rule_runs_in_cells(expected: dict[str, set[Any]]) -> None:
    driver = paged(HostDriver(), 128)
    driver.virtual.fail_after[False] = 3
    with forced(1100), loaded(in_pages(driver)) as db:
        found, (report,) = asked(db, QUERIES["triangles"], "levelwise")
        assert found == expected["triangles"] and way(report) == "cells"
        assert not driver.virtual.ranges or db.workspace.device.in_place._kept
        driver.virtual.fail_after.clear()
        found, (report,) = asked(db, QUERIES["triangles"], "levelwise")
        assert found == expected["triangles"] and way(report) == "pages"


def test_indexes_that_the_host_has_no_room_for_twice_are_cut_into_cells(
    expected: dict[str, set[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = paged(HostDriver(), 128)
    with forced(1100), loaded(in_pages(driver)) as db:
        for room, expects in ((1000, "cells"), (1 << 20, "pages")):
            monkeypatch.setattr(paged_joins, "default_limit", lambda room=room: room)
            found, (report,) = asked(db, QUERIES["triangles"], "levelwise")
            assert found == expected["triangles"] and way(report) == expects
            assert bool(driver.virtual.ranges) == (expects == "pages")


@pytest.mark.parametrize("after", [0, 3])
def test_pages_that_find_no_room_on_the_device_leave_the_rule_to_the_cpu(
    after: int, expected: dict[str, set[Any]]
) -> None:
    driver = paged(HostDriver(), 128)
    driver.virtual.fail_after[True] = after
    with forced(1100), loaded(in_pages(driver)) as db:
        found, (report,) = asked(db, QUERIES["triangles"], "levelwise")
        assert found == expected["triangles"] and report.left is not None
        assert_given_back(driver)
        driver.virtual.fail_after.clear()
        found, (report,) = asked(db, QUERIES["triangles"], "levelwise")
        assert found == expected["triangles"] and way(report) == "pages"
