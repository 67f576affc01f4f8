"""Rules whose indexes do not fit the device read them in place, on the device that is not there.

Its virtual memory has pages of a few bytes: arrays begin and end within them.
"""

from __future__ import annotations

import ctypes
import gc
import random
import subprocess
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest
from hypothesis import given

import gdatalog as gd
from gdatalog.engine import fixpoint
from gdatalog.engine import pages as in_place
from gdatalog.engine.ledger import RuleRun
from gdatalog.executors.limits import Limits
from gdatalog.gpu_ops import cupy_copies, cupy_driver, virtual_memory, walk
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.overflow import SMALL, Lease, Overflow
from gdatalog.gpu_ops.paged import Paged
from gdatalog.gpu_ops.virtual_memory import Refused
from gdatalog.gpu_ops.virtual_pages import VirtualPages
from gdatalog.storage.trie import Trie, TrieLevel
from tests import test_engine_oracle as oracle
from tests.cuda_host import HostDriver, needs_compiler
from tests.cuda_host.arrays import ndarray
from tests.cuda_host.driver import HostCopied, _Pinned
from tests.cuda_host.pages import HostMemory, array, copy
from tests.draw import (
    Drawn,
    aggregate_programs,
    graph_programs,
    programs,
    recursive_programs,
    relational_programs,
    string_programs,
)
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
@oracle.share(1)
@given(programs())
def test_programs(drawn: Drawn) -> None:
    agrees(drawn)


@pytest.mark.drawn
@oracle.share(1)
@given(graph_programs())
def test_graph_programs(drawn: Drawn) -> None:
    agrees(drawn)


@pytest.mark.drawn
@oracle.share(1)
@given(relational_programs())
def test_relational_programs(drawn: Drawn) -> None:
    agrees(drawn)


@pytest.mark.drawn
@oracle.share(1)
@given(recursive_programs())
def test_recursive_programs(drawn: Drawn) -> None:
    agrees(drawn)


@pytest.mark.drawn
@oracle.share(1)
@given(aggregate_programs())
def test_aggregate_programs(drawn: Drawn) -> None:
    agrees(drawn)


@pytest.mark.drawn
@oracle.share(1)
@given(string_programs())
def test_string_programs(drawn: Drawn) -> None:
    agrees(drawn)


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


def run_beyond(text: str, data: oracle.Data, defined: set[str], number: int) -> oracle.Relations:
    """The same, of recursions that do not fit."""
    driver = HostDriver(seed=number % 17)
    memory = (4000, 40_000, 1 << 20)[number % 3]
    with pytest.MonkeyPatch.context() as patch, opened(driver, "auto", memory=memory) as db:
        patch.setattr(fixpoint, "too_large", lambda *_: True)
        db._workspace.tune(device_from=0, bitmap_rounds_from=0)
        return oracle.answers(db, text, data, defined)


@pytest.mark.drawn
@oracle.share(1)
@given(recursive_programs())
def test_recursions_beyond_the_device(drawn: Drawn) -> None:
    oracle.agrees_in(run_beyond, drawn)


def test_nothing_that_runs_share_stays_in_the_hosts_memory() -> None:
    device = Gpu(HostDriver())
    with device.beyond(Limits(memory=1 << 20)):
        assert device.driver.is_beyond
        device.walks.ring(64)
        device.walks.upload(np.arange(2000))
        device.ops._uploaded(np.arange(20))
        assert device.walks._uploaded and device.ops._tables
    assert device.walks._ring is None and not device.walks._uploaded
    assert not device.ops._tables


@pytest.mark.parametrize("memory", [12_000, 15_000, 1 << 30])
def test_rows_of_partitioned_fixpoints_leave_a_device_that_is_full(
    memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pool that is drained again and again, until all rows are on the host."""
    text = "tc(x, y) <- E(x, y). tc(x, z) <- tc(x, y), E(y, z). ?- tc(x, y)."
    with loaded(gd.connect(device="cpu")) as db:
        expected = set(db.query(text).fetchall())
    monkeypatch.setattr(walk, "BLOCK_ROWS", 32)
    device = Gpu(HostDriver(blocks=1), memory)
    device.walks.tuning = replace(device.walks.tuning, pool_rows=1)
    with loaded(opened(device.driver, "lftj", memory=memory)) as db:
        db._workspace.device = device
        found = db.query(text)
        assert set(found.fetchall()) == expected and len(found) == len(expected)
        assert found._relation.store.here == (memory < 1 << 30)
        if hasattr(device.driver, "beyonds"):
            assert not device.driver.beyonds
            assert "a fixpoint for each" in str(db.profile(text))


@pytest.mark.parametrize("memory", [8_000, 12_000, 1 << 30])
def test_rows_of_marked_rounds_leave_a_device_that_is_full(
    memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the new ones: a long chain, whose rounds give few rows each."""
    text = "tc(x, y) <- E(x, y). tc(x, z) <- tc(x, y), E(y, z). ?- tc(x, y)."
    monkeypatch.setattr(walk, "BLOCK_ROWS", 32)
    rows = [(at, at + 1) for at in range(60)]
    driver = HostDriver(blocks=1)
    with opened(driver, "lftj", memory=memory) as db:
        db._workspace.force(strategy="lftj", split="never")
        device = db._workspace.device
        device.walks.tuning = replace(device.walks.tuning, pool_rows=1)
        db["E"] = rows
        found = db.query(text)
        assert set(found.fetchall()) == {(x, y) for x in range(61) for y in range(x + 1, 61)}
        assert found._relation.store.here == (memory < 1 << 30)
        if hasattr(driver, "beyonds"):
            assert not driver.beyonds


# ------------------------------------------------------------------------------------- choices


def way(report: RuleRun) -> str:
    assert report.left is None
    return "cells" if report.in_cells is not None else "pages"


@pytest.mark.parametrize(("cell_bytes", "expects"), [(1, "cells"), (1 << 25, "pages")])
def test_the_way_that_moves_less_is_taken(
    cell_bytes: int, expects: str, expected: dict[str, set[Any]]
) -> None:
    """One more cell costs nothing, or as much as to copy many indexes; `explain` says the same."""
    driver = paged(HostDriver(), 128)
    with loaded(opened(driver, memory=3500, cell_bytes=cell_bytes, host_indexes="auto")) as db:
        (stratum,) = db.explain(QUERIES["triangles"]).strata
        (rule,) = stratum.rules
        (foreseen,) = rule.beyond
        assert foreseen is (rule.in_cells if expects == "cells" else rule.in_pages)
        found, (report,) = asked(db, QUERIES["triangles"], "levelwise")
        assert found == expected["triangles"] and way(report) == expects


def test_after_a_run_its_indexes_tell_what_is_to_be_expected() -> None:
    driver = paged(HostDriver(), 128)
    with loaded(opened(driver, memory=3500, cell_bytes=400, host_indexes="auto")) as db:
        db._workspace.chunk_rows = 64
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
    driver._looked = True  # of a GPU: that it has none
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


# -------------------------------------------------------------------------------------- faults


def test_without_room_on_the_host_a_rule_runs_in_cells(expected: dict[str, set[Any]]) -> None:
    driver = paged(HostDriver(), 128)
    driver.virtual.fail_after[False] = 3
    with forced(1100), loaded(in_pages(driver)) as db:
        found, (report,) = asked(db, QUERIES["triangles"], "levelwise")
        assert found == expected["triangles"] and way(report) == "cells"
        assert not driver.virtual.ranges or db._workspace.device.in_place._kept
        driver.virtual.fail_after.clear()
        found, (report,) = asked(db, QUERIES["triangles"], "levelwise")
        assert found == expected["triangles"] and way(report) == "pages"


def test_indexes_that_the_host_has_no_room_for_twice_are_cut_into_cells(
    expected: dict[str, set[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = paged(HostDriver(), 128)
    with forced(1100), loaded(in_pages(driver)) as db:
        for room, expects in ((1000, "cells"), (1 << 20, "pages")):
            monkeypatch.setattr(in_place, "default_limit", lambda room=room: room)
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


# --------------------------------------------------------------------------------------- pages


def test_pages_keep_what_is_written_wherever_they_lie() -> None:
    rng, memory = random.Random(5), HostMemory(64)
    pages = VirtualPages(memory, 1000, copy, array, partial(HostCopied, HostDriver().copies, 0))
    data = np.arange(1000, dtype=np.uint8)
    pages.write(0, data[:504])
    pages.write(504, data[504:])
    there = pages.array(8, 123, "i8")
    for _ in range(20):
        wanted = rng.sample(range(16), rng.randint(0, 16))
        pages.place(wanted)
        assert pages.placed == set(wanted)
        assert memory.held == 64 * len(wanted)
        assert there.get().tolist() == data.view("i8")[1:124].tolist()
        if rng.random() < 0.5:
            memory.fail_after[True] = memory.made[True] + rng.randint(0, 3)
            before = pages.placed
            try:
                pages.place(range(16))
            except MemoryError:
                assert pages.placed == before and memory.held == 64 * len(before)
            memory.fail_after.clear()
            assert there.get().tolist() == data.view("i8")[1:124].tolist()
    del pages, there
    gc.collect()
    assert not memory.ranges and not memory.handles


def of_sixteen_pages(memory: HostMemory, copies: Any = copy) -> VirtualPages:
    return VirtualPages(memory, 1000, copies, array, partial(HostCopied, HostDriver().copies, 0))


@pytest.mark.parametrize("name", ["map", "settle", "copy"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_pages_are_whole_wherever_a_swap_is_refused(name: str, times: int) -> None:
    """Once, or what mends it as well; what lies aside goes in any case."""
    memory = HostMemory(64)

    def copied(source: int, target: int, size: int) -> None:
        memory._call("copy")
        copy(source, target, size)

    pages = of_sixteen_pages(memory, copied)
    data = np.arange(1000, dtype=np.uint8)
    pages.write(0, data)
    there = pages.array(8, 123, "i8")
    failed = 0
    for first in range(12):
        pages.place((1, 2, 5))
        begin = memory.called[name] + first
        memory.refused[name] = range(begin, begin + times)
        for wanted in (2, 3, 4, 9), (0, 1, 2):
            try:
                pages.place(wanted)
            except Refused:
                failed += 1
                assert len(memory.ranges) == 1
                assert memory.held == 64 * len(pages.placed)
            else:
                assert pages.placed == set(wanted)
                assert there.get().tolist() == data.view("i8")[1:124].tolist()
        memory.refused.clear()
        pages.place(pages.placed)
        assert there.get().tolist() == data.view("i8")[1:124].tolist()
    assert failed >= 2
    memory.refused[name] = range(memory.called[name], 1 << 20)
    with pytest.raises(Refused):
        pages.place((7, 8, 9))
    del pages, there
    gc.collect()
    assert not memory.ranges and not memory.handles


def test_pages_that_are_refused_are_given_back_at_once() -> None:
    memory = HostMemory(64)
    memory.fail_after[False] = 5
    with pytest.raises(MemoryError) as held:
        of_sixteen_pages(memory)
    assert not memory.ranges and not memory.handles
    memory.fail_after.clear()
    memory.refused["map"] = (0,)
    with pytest.raises(Refused) as other:
        of_sixteen_pages(memory)
    assert not memory.ranges and not memory.handles
    del held, other


def test_what_other_queries_have_left_makes_room_for_an_index() -> None:
    def trie(size: int) -> Trie:
        values = np.arange(size, dtype=np.int32)
        offsets = np.array([0, size], dtype=np.int32)
        return Trie([TrieLevel(values, offsets, np)], size, None)

    class Bounded(HostMemory):
        def created(self, on_device: bool) -> int:
            if len(self.handles) >= 50:
                raise MemoryError
            return super().created(on_device)

    driver = HostDriver()
    driver.virtual = Bounded(128)
    paged_tries = Paged(driver)
    one, other = trie(500), trie(700)
    paged_tries.of(one, lambda: None)
    paged_tries.of(other, lambda: None)
    assert paged_tries.made(one) is None and paged_tries.made(other) is not None


def test_a_gpu_that_is_full_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    full = {"pool", "others"}

    class Memory:
        page = 1 << 21

        def __init__(self, number: int) -> None:
            self.number = number

        def current(self) -> Any:
            return nullcontext()

        def try_out(self) -> None:
            if full:
                raise MemoryError

    monkeypatch.setattr(virtual_memory, "VirtualMemory", Memory)
    driver = cupy_driver.CupyDriver.__new__(cupy_driver.CupyDriver)
    driver._looked, driver._virtual, driver.number = False, None, 0
    pool = SimpleNamespace(free_all_blocks=lambda: full.discard("pool"))
    driver.xp = SimpleNamespace(get_default_memory_pool=lambda: pool)
    assert driver.page == 0 and not driver._looked
    full.add("pool")
    full.remove("others")
    assert driver.page == 1 << 21 and not full


def test_what_the_drivers_library_is_called_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a library that has the same functions, and tells what it was given."""
    source, library = Path(__file__).parent / "cuda_host" / "fake_driver.c", tmp_path / "fake.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.said.restype = ctypes.c_char_p
    monkeypatch.setattr(virtual_memory.ctypes, "CDLL", lambda _: loaded)
    memory = virtual_memory.opened(1)
    assert memory is not None and memory.page == 1 << 22
    size = 1 << 22
    assert loaded.said().decode().splitlines() == [
        f"reserve {2 * size} by {size}",
        f"create {size} at 3 0",
        f"create {size} at 1 1",
        f"map {size} of 5",
        f"map {size} of 6",
        f"access {2 * size} for 1 1: 3",
        f"unmap {2 * size}",
        "release 5",
        "release 6",
        f"free {2 * size}",
    ]
    loaded.cuCtxSetCurrent(None)  # another thread
    found = ctypes.c_void_p()
    with memory.current():
        loaded.cuCtxGetCurrent(ctypes.byref(found))
        assert found.value == 0x77
    loaded.cuCtxGetCurrent(ctypes.byref(found))
    assert found.value is None
    assert [memory.created(True), memory.created(False)] == [7, 8]
    with pytest.raises(MemoryError):
        memory.created(True)
    with pytest.raises(virtual_memory.Refused, match="cuNothing: error 0"):
        memory._call("cuNothing")
    said = len(loaded.said())
    memory.settle()
    with pytest.raises(virtual_memory.Refused, match="cuMemMap"):
        memory.map(1 << 30, [7, 99])
    assert loaded.said()[said:].decode().splitlines() == [
        "settle 0x77",
        f"map {size} of 7",
        f"map {size} of 99",
        f"unmap {size}",
    ]
    assert virtual_memory.opened(0) is None  # which has no such attribute


# ------------------------------------------------------------------------ arrays of the host's


def test_large_arrays_go_to_the_host_where_the_room_is_taken() -> None:
    used, room = [1000], 100 * SMALL
    made: list[int] = []

    def allocate(size: int) -> str:
        if full and size >= SMALL:
            raise MemoryError
        used[0] += size
        return "device"

    def within(pages: int, size: int, owner: Lease) -> tuple[int, Lease]:
        assert pages >= size
        return pages, owner

    def pages(size: int) -> Any:
        made.append(size)
        return size

    full = False
    overflow = Overflow(allocate, pages, within, lambda: used[0], room)
    assert overflow.left == room
    large = overflow(51 * SMALL)
    assert large != "device" and made == [56 * SMALL]
    assert overflow(50 * SMALL) == "device" and overflow(13 * SMALL) != "device"
    assert [overflow(10 * SMALL) for _ in range(6)] == 5 * ["device"] + [(10 * SMALL, ANY)]
    assert overflow(SMALL - 1) == "device"
    used[0] = 0
    full = True
    assert overflow(2 * SMALL) == (2 * SMALL, ANY)
    assert overflow.moved == 76 * SMALL
    before = len(made)
    del large
    again = overflow(55 * SMALL)  # what the first has left
    assert again[0] == 56 * SMALL and len(made) == before
    del again
    assert overflow(55 * SMALL)[0] == 56 * SMALL and len(made) == before


class Range:
    """Pages of the host, of so many bytes, of which there are `most` together."""

    held = high = size = 0
    most = 1 << 60

    def __init__(self, size: int) -> None:
        if Range.held + size > Range.most:
            raise MemoryError
        self.size = size
        Range.held += size
        Range.high = max(Range.high, Range.held)

    def __del__(self) -> None:
        Range.held -= self.size


@pytest.fixture
def overflow(monkeypatch: pytest.MonkeyPatch) -> Overflow:
    """Of a device that has no room at all."""
    for name in ("held", "high", "most"):
        monkeypatch.setattr(Range, name, getattr(Range, name))

    def allocate(size: int) -> Any:
        raise MemoryError

    return Overflow(allocate, Range, lambda _pages, _size, lease: lease, lambda: 0, 0)


def test_idle_ranges_hold_no_more_than_arrays_do(overflow: Overflow) -> None:
    """A column that grows round by round."""
    held, most, size = None, 0, SMALL
    while size < 1 << 40:
        before, held = held, overflow(size)
        live = sum(lease.pages.size for lease in (before, held) if lease is not None)
        most = max(most, live)
        del before
        size = size * 11 // 10
    assert Range.high <= 2 * most
    del held
    assert Range.held > 0
    overflow.close()
    assert Range.held == 0


def test_arrays_outlive_what_has_given_them_memory(overflow: Overflow) -> None:
    held = [overflow(size * SMALL) for size in (3, 4, 5)]
    held.pop()
    overflow.close()
    assert Range.held == 7 * SMALL
    held.pop()
    assert Range.held == 3 * SMALL
    held.pop()
    assert Range.held == 0


def test_idle_ranges_go_where_the_host_is_full(overflow: Overflow) -> None:
    Range.most = 10 * SMALL
    held = [overflow(size * SMALL) for size in (3, 3)]
    del held[0]
    held.append(overflow(6 * SMALL))
    assert Range.held == 9 * SMALL
    with pytest.raises(MemoryError):
        overflow(2 * SMALL)
    assert held.pop().pages.size == 6 * SMALL


def test_arrays_are_fetched_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a GPU; here by what stands for CUDA."""
    monkeypatch.setattr(cupy_copies, "BUFFER", 64)
    source = np.arange(1000, dtype=np.int32)
    there = ndarray(source)
    cuda = SimpleNamespace(
        alloc_pinned_memory=lambda size: _Pinned(np.zeros(size, dtype=np.uint8)),
        get_current_stream=lambda: SimpleNamespace(ptr=0),
        Event=lambda **_: SimpleNamespace(record=lambda _: None, synchronize=lambda: None),
        runtime=SimpleNamespace(
            memcpyDeviceToHost=2,
            memcpyAsync=lambda to, start, size, *_: copy(start, to, size),
        ),
    )
    assert cupy_copies.fetched(cuda, there).tolist() == source.tolist()
