"""Rules whose indexes do not fit the device run there in cells, on the device that is not there.

Copies run when a seed says so: at once, later, or when a kernel waits for them.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from gdatalog.engine import depth, host_tries
from gdatalog.engine.metrics import Metrics, RuleRun
from gdatalog.errors import DeviceError, Interrupted
from gdatalog.gpu_ops import launch, transfers, trie_cache
from gdatalog.gpu_ops.copies import NoMemory
from gdatalog.gpu_ops.device import Gpu
from gdatalog.plan.join_plan import Join
from gdatalog.plan.slices import Sizes, Slice
from gdatalog.printer import module
from gdatalog.storage import threads
from gdatalog.storage.on_device import brought
from gdatalog.storage.relation import Relation
from gdatalog.storage.trie import Trie
from gdatalog.storage.trie_slices import pieces_of, sizes_of
from tests import test_engine_oracle as oracle
from tests.cases import share
from tests.cuda_host import HostDriver, HostFault, needs_compiler
from tests.cuda_host.arrays import COUNTER
from tests.cuda_host.driver import HostCopied
from tests.draw import MANY, Drawn, check_drawn

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

RNG = np.random.default_rng(7)
EDGES = sorted({(int(a), int(b)) for a, b in RNG.integers(0, 40, (420, 2))})
QUERIES = {
    "triangles": "t(x, y, z) <- E(x, y), E(y, z), E(x, z), x < y < z.",
    "cliques": "n(count()) <- E(a, b), E(a, c), E(a, d), E(b, c), E(b, d), E(c, d), a < b < c < d.",
    "four paths": "n(count()) <- E(_a, b), E(b, c), E(c, d), E(d, _e).",
    "negation": "t(x, z) <- E(x, y), E(y, z), !E(x, z).",
    "aggregates": "t(x, count()) <- E(x, y), E(y, z), E(z, x).",
    "projection": "t(x) <- E(x, y), E(y, z), E(z, x).",
    "paths": "t(x, y, z) <- E(x, y), E(y, z).",
    "a constant": "t(y, z) <- E(3, y), E(y, z).",
    "unary": "t(x, y) <- U(x), E(x, y), U(y).",
    "either": "t(x, z) <- E(x, y), E(y, z), U(x) ; E(x, z), E(z, y), U(y).",
}


@contextmanager
def forced(room: int | None) -> Iterator[None]:
    """Within, rules on a device run in cells, with so much room for slices."""
    with pytest.MonkeyPatch.context() as patch:
        if room is not None:
            patch.setattr(host_tries, "too_large", lambda *_: True)
            patch.setattr(host_tries, "room_for_slices", lambda *_: room)
        patch.setattr(launch, "BLOCK_ROWS", 32)
        patch.setattr(transfers, "SMALLEST", 64)
        patch.setattr(transfers, "BUFFER", 64)
        yield


def opened(
    driver: HostDriver,
    strategy: str = "levelwise",
    memory: int | None = None,
    cell_bytes: int = 300,
    host_indexes: str = "cells",
) -> gd.Database:
    limit = {} if memory is None else {"memory_limit": memory}
    db = gd.connect(device="cpu", **limit)
    db.workspace.device = Gpu(driver, memory)
    db.workspace.force(strategy=strategy, host_indexes=host_indexes)
    db.workspace.tune(cell_bytes=cell_bytes)
    return db


def loaded(db: gd.Database) -> gd.Database:
    db["E"] = EDGES
    db["U"] = [(x,) for x in range(0, 40, 3)]
    return db


def assert_settled(driver: Any) -> None:
    """No copy is under way."""
    assert not hasattr(driver, "copies") or not driver.copies.waiting


def asked(db: gd.Database, query: str, strategy: str) -> tuple[set[Any], list[RuleRun]]:
    metrics = Metrics()
    session = db.workspace.open(query, None, reports=metrics, strategy=strategy)
    relation = session.relation(session.asked())
    return set(zip(*(key.tolist() for key in relation.keys), strict=True)), metrics.runs


@pytest.fixture(scope="module")
def expected() -> dict[str, set[Any]]:
    with loaded(gd.connect(device="cpu")) as db:
        return {name: set(db.query(text).fetchall()) for name, text in QUERIES.items()}


# ------------------------------------------------------------------------------------ programs


def run(text: str, data: oracle.Data, defined: set[str], number: int) -> oracle.Relations:
    """The answers; the number chooses the room, and when copies run."""
    driver = HostDriver(seed=number % 17)
    cell_bytes = (1, 50)[number % 2]
    with forced((40, 100, 400)[number % 3]), opened(driver, cell_bytes=cell_bytes) as db:
        found = oracle.answers(db, text, data, defined)
        assert_settled(driver)
        return found


def agrees(drawn: Drawn) -> None:
    oracle.agrees_in(run, drawn)


@pytest.mark.drawn
@pytest.mark.parametrize("profile", MANY)
def test_programs(profile: str) -> None:
    check_drawn(profile, share(1), agrees)


@pytest.mark.parametrize("cell_bytes", [300, 3000])
@pytest.mark.parametrize("query", ["triangles", "cliques"])
def test_slices_that_go_leave_the_device(
    query: str, cell_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody holds the slices of the cell before while those of the next one are allocated."""
    room, most, live = 1100, [0], list[tuple[int, list[int]]]()

    class Held(transfers._There):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.views = [0]
            most.append(sum(size for size, views in live if views[0]) + self.size)
            live.append((self.size, self.views))

        @property
        def arrays(self) -> list[Any]:
            found = super().arrays
            for array in found:
                self.views[0] += 1
                weakref.finalize(array, gone, self.views)
            return found

    def gone(views: list[int]) -> None:
        views[0] -= 1

    monkeypatch.setattr(transfers, "_There", Held)
    driver = HostDriver()
    with forced(room), loaded(opened(driver, "lftj", cell_bytes=cell_bytes)) as db:
        _, (report,) = asked(db, QUERIES[query], "lftj")
        assert report.in_cells is not None and report.in_cells.cells > 1
    assert 0 < max(most) <= 1.1 * room  # arrays begin at words


@pytest.mark.parametrize("strategy", ["levelwise", pytest.param("lftj", marks=pytest.mark.slow)])
@pytest.mark.parametrize("query", QUERIES)
def test_joins_in_cells(query: str, strategy: str, expected: dict[str, set[Any]]) -> None:
    driver = HostDriver(seed=3)
    with forced(1100), loaded(opened(driver, strategy)) as db:
        found, (report,) = asked(db, QUERIES[query], strategy)
        assert found == expected[query]
        told = report.in_cells
        assert report.left is None and told is not None and told.ran == told.cells
        assert told.moved == told.planned
        assert told.cells > 1
        assert_settled(driver)
        kernels = db.workspace.device.walks._kernels
        assert len(kernels) == (len(report.plan.joins) if strategy == "lftj" else 0)
        if hasattr(driver, "copies"):
            # Offsets have one entry more than a slice has nodes, and arrays begin at words.
            assert 0 <= driver.copies.bytes - told.moved <= 32 * driver.copies.begun
        if strategy == "levelwise":
            assert all(seen.rows_out >= 0 for seen in report.seen.values()) and report.seen


def test_a_cell_takes_few_calls_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel is printed once, a slice is one copy, and the host waits once for each cell. While
    it does, it leaves the interpreter's lock to the thread that copies."""
    printed, spins = [], []
    print_plan, wait = module.print_plan, HostDriver.wait

    def counted(*arguments: Any) -> Any:
        printed.append(arguments)
        return print_plan(*arguments)

    def noted(driver: HostDriver, poll: Any, control: Any, *rest: Any) -> list[Any]:
        if control is not None:  # a launch, not numbers that are read
            spins.append(driver.spins)
        return wait(driver, poll, control, *rest)

    monkeypatch.setattr(module, "print_plan", counted)
    monkeypatch.setattr(HostDriver, "wait", noted)
    driver = HostDriver()
    with forced(1100), loaded(opened(driver, "lftj")) as db:
        monkeypatch.setattr(transfers, "SMALLEST", 1 << 12)
        monkeypatch.setattr(transfers, "BUFFER", 1 << 12)
        text = QUERIES["cliques"]
        depth._printed.clear()
        before = COUNTER.synchronisations
        found = db.query(text).fetchall()
        waited = COUNTER.synchronisations - before
        _, (report,) = asked(db, text, "lftj")
        told = report.in_cells
        assert found == [(5,)] and told is not None and told.ran
        assert len(printed) == 2  # one more, which counts, for the report
        if hasattr(driver, "copies"):
            assert told.ran > 10 and len(spins) == 2 * told.ran
            assert not any(spins) and driver.spins
            assert driver.copies.begun <= 2 * 3 * told.ran and waited <= told.ran + 10


def test_lists_of_a_cell_are_cut_to_it() -> None:
    """Each value of the second variable is looked at in its own range only."""
    with forced(1100), loaded(opened(HostDriver(), "lftj")) as db:
        _, (report,) = asked(db, QUERIES["cliques"], "lftj")
        _, second, *_ = (step for step in report.plan.joins[0].steps if isinstance(step, Join))
        seen = report.seen[id(second)]
        assert report.in_cells is not None and len(report.in_cells.ranges) == 3
        assert seen.tried <= 1.1 * seen.rows_out


def test_long_slices_are_filled_by_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers in turn, offsets that begin anew in 32 bits; in whatever order copies run."""
    monkeypatch.setattr(threads, "cores", lambda: 3)
    monkeypatch.setattr(threads, "LONG", 1000)
    monkeypatch.setattr(transfers, "BUFFER", 1 << 14)
    rows = [RNG.integers(0, 3000, 60_000), RNG.integers(0, 1 << 40, 60_000)]
    trie = Relation.from_rows(("a", "b"), ("int", "int"), rows, 60_000).trie((0, 1))
    sizes = {"E": Sizes(trie.levels[0].values, *sizes_of(trie))}
    driver = HostDriver(seed=9)
    there = transfers.Slices(driver, 1 << 19, {"E": trie}, sizes, lambda: None)
    cuts = [0, 400, 1200, 2000, len(trie.levels[0])]
    wanted = [Slice("E", low, high) for low, high in pairwise(cuts)]
    for now, coming in pairwise([*wanted, *wanted[::-1], wanted[0]]):
        there.enter([now], [coming])
        found = there.trie(now, "x")
        for piece, array in zip(pieces_of(trie, now.low, now.high), arrays_of(found), strict=True):
            assert brought(array).tolist() == (piece.source - piece.base).tolist()
        assert there.nbytes <= 1 << 19
    there.close()
    assert_settled(driver)


def arrays_of(trie: Trie) -> list[Any]:
    found = [trie.levels[0].values]
    for level in trie.levels[1:]:
        found += [level.offsets, level.values]
    return found


# ------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize(
    ("query", "memory"),
    [("triangles", 5000), ("four paths", 6500), ("negation", 9000), ("projection", 5000)],
)
def test_a_memory_limit_has_rules_run_in_cells(
    query: str, memory: int, expected: dict[str, set[Any]]
) -> None:
    """By what indexes are expected to take; answers that have no room lie on the host."""
    driver = HostDriver(seed=5)
    with forced(None), loaded(opened(driver, memory=memory)) as db:
        db.workspace.chunk_rows = 64
        found, (report,) = asked(db, QUERIES[query], "levelwise")
        assert found == expected[query] and report.left is None
        assert report.in_cells is not None and report.in_cells.ran
        rows = db.query(QUERIES[query])
        assert set(rows.fetchall()) == expected[query]
        assert db.workspace.device.kept.nbytes == 0


def test_cells_are_explained_and_told_of() -> None:
    driver = HostDriver(seed=5)
    with forced(None), loaded(opened(driver, memory=3500)) as db:
        (stratum,) = db.explain(QUERIES["triangles"]).strata
        (rule,) = stratum.rules
        assert rule.left is None and rule.in_cells is not None and rule.in_cells.cells > 1
        told = str(db.explain(QUERIES["triangles"]))
        assert str(rule.in_cells) in told and "to be copied to the device" in told
        facts = dict(db.explain(QUERIES["triangles"]).tree.find("rule")[0].facts)
        assert facts["bytes planned to be copied"] == rule.in_cells.planned > 0
        profile = db.profile(QUERIES["triangles"])
        facts = dict(profile.tree.find("rule")[0].facts)
        assert facts["cells"] == facts["cells that ran"] > 1
        assert facts["bytes copied"] == facts["bytes planned to be copied"]
        assert "copied to the device" in str(profile)
        assert "in cells" not in str(db.explain("t(x) <- U(x), E(x, 1)."))


def test_rows_with_no_room_to_be_counted_stay_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is planned over them does not bring them to the device."""
    monkeypatch.setattr(trie_cache, "LONG", 10)
    for memory, there in ((1 << 20, True), (5000, False)):
        with forced(None), loaded(opened(HostDriver(), memory=memory)) as db:
            db.explain(QUERIES["triangles"])
            assert (db.workspace.stored["E"].store.on_device is not None) == there


def test_what_fits_runs_whole(expected: dict[str, set[Any]]) -> None:
    driver = HostDriver()
    with forced(None), loaded(opened(driver, memory=1 << 24)) as db:
        found, (report,) = asked(db, QUERIES["triangles"], "levelwise")
        assert found == expected["triangles"]
        assert report.in_cells is None
        assert not hasattr(driver, "copies") or driver.copies.begun == 0


def test_rows_that_did_not_fit_come_cell_by_cell(expected: dict[str, set[Any]]) -> None:
    """Indexes that fit beside an answer that does not: what a first run held is given back."""
    driver = HostDriver()
    with forced(None), loaded(opened(driver, memory=16_000)) as db:
        db.workspace.chunk_rows = 64
        found, (report,) = asked(db, QUERIES["negation"], "levelwise")
        assert found == expected["negation"] and report.in_cells is not None
        text = QUERIES["negation"] + " n(count()) <- t(_, _)."
        assert db.query(f"{text} ?- n(x).").fetchall() == [(len(found),)]


@pytest.mark.parametrize("query", ["paths", "projection"])
def test_rows_of_kernels_go_to_the_host(
    query: str, expected: dict[str, set[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of a pool that is drained again and again; of equal rows one stays."""
    monkeypatch.setattr(launch.Launch, "_affordable_bytes", lambda _: 1000)
    device = Gpu(HostDriver(blocks=1))
    with forced(1 << 20), loaded(opened(device.driver, "lftj")) as db:
        db.workspace.device = device
        db.workspace.tune(pool_rows=1, grid_blocks=1)
        rows = db.query(QUERIES[query])
        assert set(rows.fetchall()) == expected[query] and len(rows) == len(expected[query])
        if query == "paths":
            assert rows._relation.store.on_host and rows._relation.store.on_device is None


def test_what_cannot_be_cut_is_the_cpus(expected: dict[str, set[Any]]) -> None:
    """A value with more rows than there is room for."""
    with forced(60), loaded(opened(HostDriver())) as db:
        found, (report,) = asked(db, QUERIES["triangles"], "levelwise")
        assert found == expected["triangles"]
        assert report.left is not None and "one value of" in report.left
        assert report.in_cells is None


# ------------------------------------------------------------------------------------- faults


def test_a_kernel_that_does_not_wait_for_a_copy_is_a_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(HostCopied, "before_kernels", lambda self: None)
    driver = HostDriver(seed=2)
    monkeypatch.setattr(driver.copies._random, "randint", lambda *_: 0)  # until somebody waits
    # A kernel that is given an array, or an index that is made of what is not there yet.
    fault = pytest.raises((HostFault, ValueError), match=r"its copy has ended|to one place")
    with forced(1100), loaded(opened(driver)) as db, fault:
        asked(db, QUERIES["triangles"], "levelwise")


def test_a_buffer_that_is_filled_too_soon_is_seen(
    monkeypatch: pytest.MonkeyPatch, expected: dict[str, set[Any]]
) -> None:
    monkeypatch.setattr(HostCopied, "wait", lambda self: None)
    with forced(1100), loaded(opened(HostDriver(seed=2))) as db:
        try:
            found, _ = asked(db, QUERIES["triangles"], "levelwise")
        except (HostFault, gd.Error, IndexError, ValueError):
            return  # an index that makes no sense
        assert found != expected["triangles"]


@pytest.mark.parametrize("after", [0, 1, 5, 20])
def test_a_copy_that_fails_is_an_error_and_the_next_query_works(
    after: int, expected: dict[str, set[Any]]
) -> None:
    driver = HostDriver(seed=4)
    with forced(1100), loaded(opened(driver)) as db:
        driver.copies.fail_after, driver.copies.failure = after, DeviceError("a copy failed")
        with pytest.raises(DeviceError, match="a copy failed"):
            asked(db, QUERIES["triangles"], "levelwise")
        assert not driver.copies.waiting
        found, (report,) = asked(db, QUERIES["triangles"], "levelwise")
        assert found == expected["triangles"] and report.in_cells is not None


@pytest.mark.parametrize("after", [0, 7])
def test_memory_that_runs_out_in_the_middle_leaves_the_rule_to_the_cpu(
    after: int, expected: dict[str, set[Any]]
) -> None:
    driver = HostDriver(seed=4)
    with forced(1100), loaded(opened(driver)) as db:
        driver.copies.fail_after, driver.copies.failure = after, NoMemory("a copy: out of memory")
        found, (report,) = asked(db, QUERIES["aggregates"], "levelwise")
        assert found == expected["aggregates"]
        assert report.left is not None and "did not fit the device" in report.left
        found, (report,) = asked(db, QUERIES["aggregates"], "levelwise")
        assert found == expected["aggregates"] and report.left is None


def test_who_stops_a_query_does_not_wait_for_its_copies(expected: dict[str, set[Any]]) -> None:
    driver = HostDriver(seed=4)
    with forced(1100), loaded(opened(driver)) as db:
        whole = driver.copies.copy

        def copy(*args: Any) -> None:
            whole(*args)
            if driver.copies.begun == 10:
                db.interrupt()

        driver.copies.copy = copy  # type: ignore[method-assign]
        with pytest.raises(Interrupted):
            db.query(QUERIES["triangles"]).fetchall()
        assert not driver.copies.waiting
        assert set(db.query(QUERIES["triangles"]).fetchall()) == expected["triangles"]
