"""Queries that are asked again on a device: their loops are prepared, and one launch answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations, count, permutations
from typing import Any

import pytest
from hypothesis import assume, given

import gdatalog as gd
from gdatalog.gpu_ops import launch
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.group import DeviceGroup
from gdatalog.gpu_ops.launch import Launch
from tests import test_engine_oracle as oracle
from tests.cases import share
from tests.cuda_host import HostDriver, needs_compiler
from tests.cuda_host.arrays import COUNTER
from tests.draw import Drawn, Profile, programs
from tests.oracle_values import canonical

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")]

EDGES = [(x, (7 * x + y) % 40) for x in range(40) for y in (1, 2, 5, 9)]
EDGES += [(y, x) for x, y in EDGES]
COUNT = "n(count()) <- E(x, y), E(y, z), E(x, z), x < y < z."
SUMS = {  # and how many of their terms have loops
    "n(count()) <- E(x, y), E(y, z), E(z, w), x != z.": 1,
    "n(count()) <- E(x, y), E(y, z), E(z, x), E(z, w), w != y.": 2,
}
HOPS = "h(count()) <- E($x, y), E(y, z)."
ROWS = "l(y, z) <- E($x, y), E(y, z), E(z, $x)."
EACH = "g(x, count(), sum(z), min(z)) <- E(x, y), E(y, z), z > $x."
SOME = "p(z) <- E($x, y), E(y, z)."
SHARE = "r(y, z / $d) <- E($x, y), E(y, z)."


class Asked:
    """A database on the CPU, and one on a device where loops run depth-first."""

    def __init__(self, device: Gpu) -> None:
        self.here, self.there = gd.connect(device="cpu"), gd.connect(device="cpu")
        self.there.workspace.device = device
        self.there.workspace.tune(kernels_worth=0)
        self.insert(EDGES)

    def insert(self, rows: list[tuple[int, int]]) -> None:
        for db in (self.here, self.there):
            db.insert("E", rows)

    def rows(self, text: str, **params: Any) -> list[tuple[Any, ...]]:
        """The answer on the device, which is that of the CPU."""
        self.there.workspace.results.clear()
        found = sorted(self.there.query(text, params or None).fetchall())
        assert found == sorted(self.here.query(text, params or None).fetchall())
        return found


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Launch]:
    """The launches that are prepared."""
    found: list[Launch] = []
    before = Launch.__init__

    def noted(new: Launch, *given: Any) -> None:
        found.append(new)
        before(new, *given)

    monkeypatch.setattr(Launch, "__init__", noted)
    return found


@pytest.fixture
def asked() -> Iterator[Asked]:
    found = Asked(Gpu(HostDriver()))
    with found.here, found.there:
        yield found


def cost(driver: Any, work: Callable[[], object]) -> tuple[int, int, int]:
    """How many kernels something launches, how often it waits, and how often it writes to the
    device."""
    calls: Counter[str] = Counter()

    def counted(patch: pytest.MonkeyPatch, where: Any, name: str, what: str) -> None:
        before = getattr(where, name)

        def counting(*args: Any, **named: Any) -> Any:
            calls[what] += 1
            return before(*args, **named)

        patch.setattr(where, name, counting)

    before = COUNTER.synchronisations, COUNTER.uploads
    with pytest.MonkeyPatch.context() as patch:
        here = hasattr(driver, "launches")  # a stand-in, which counts more
        where: tuple[Any, str] = (HostDriver, "start") if here else (Launch, "steps")
        counted(patch, *where, "launches")  # by a graph, or kernel by kernel
        for name in ("wait", "fetched"):
            counted(patch, driver, name, "waits")
        counted(patch, driver, "write", "writes")
        work()
    if here:
        calls["waits"] = COUNTER.synchronisations - before[0]
        calls["writes"] = COUNTER.uploads - before[1]
    return calls["launches"], calls["waits"], calls["writes"]


@pytest.mark.parametrize("text", [COUNT, HOPS, ROWS, EACH, SOME])
def test_a_query_again_is_one_launch_and_one_wait(text: str, asked: Asked) -> None:
    params = {"x": 36 if text == EACH else 5} if "$x" in text else {}
    for _ in range(3):
        asked.rows(text, **params)
    device: Any = asked.there.workspace.device
    assert cost(device.driver, lambda: asked.rows(text, **params)) == (1, 1, 0)
    prepared = asked.there.prepare(text)
    for x in (37, 38, 99) if text == EACH else (6, 7, 99):
        again = {"x": x} if params else {}
        asked.rows(text, **again)
        launches, waits, uploads = cost(device.driver, lambda again=again: prepared(**again))
        assert (launches, waits) == (1, 1) and uploads <= 1


@pytest.mark.parametrize("text", SUMS)
def test_a_sum_of_counts_launches_each_term_that_has_loops(text: str, asked: Asked) -> None:
    for db in (asked.here, asked.there):
        db.set(algebra="quotients")
    assert "- the count of" in str(asked.there.explain(text))
    for _ in range(3):
        asked.rows(text)
    device: Any = asked.there.workspace.device
    terms = SUMS[text]
    assert cost(device.driver, lambda: asked.rows(text)) == (terms, terms, 0)
    asked.insert([(5, 0), (0, 6), (6, 5)])
    for _ in range(3):
        asked.rows(text)


def test_other_rows_and_parameters(asked: Asked) -> None:
    for more in ([], [(5, 0), (0, 6), (6, 5)], [(5, 41), (41, 5), (5, 200)]):
        asked.insert(more)
        for text in (COUNT, HOPS, ROWS, EACH, SOME):
            for x in (5, 5, 5, 200, 0):
                asked.rows(text, **({"x": x} if "$x" in text else {}))


def test_indexes_that_the_device_drops_are_built_again(asked: Asked, made: list[Launch]) -> None:
    for _ in range(3):
        asked.rows(ROWS, x=5)
    assert len(made) == 1
    device: Any = asked.there.workspace.device
    device.kept.relieve()
    assert device.kept.nbytes == 0 and not device.walks._launches
    for _ in range(3):
        asked.rows(ROWS, x=5)
    assert len(made) == 2


@pytest.mark.parametrize(("few", "some"), [(0, 0), (0, 1 << 20), (1 << 16, 0)])
def test_many_rows_stay_on_the_device(
    few: int, some: int, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "FIRST_BYTES", few)
    monkeypatch.setattr(launch, "NEXT_BYTES", some)
    for text in (HOPS, ROWS, EACH, SOME):
        for _ in range(4):
            asked.rows(text, x=5)
    asked.there.workspace.results.clear()
    found = asked.there.query(ROWS, {"x": 5})
    assert found._relation.store.on_host == bool(few or some)


def test_a_computation_that_fails_is_reported_as_the_first_time(asked: Asked) -> None:
    for _ in range(3):
        asked.rows(SHARE, x=5, d=2)
    for _ in range(2):
        with pytest.raises(gd.EvaluationError, match="division by zero"):
            asked.there.query(SHARE, {"x": 5, "d": 0})
        asked.rows(SHARE, x=5, d=3)


def test_a_small_join_is_compiled_when_it_is_asked_again() -> None:
    driver = HostDriver()
    driver.compiles_ahead = True
    asked = Asked(Gpu(driver))
    with asked.here, asked.there:
        asked.there.workspace.tune(kernels_worth=1e6)
        device: Any = asked.there.workspace.device
        asked.rows(ROWS, x=5)
        assert not device.walks._coming
        asked.rows(ROWS, x=5)
        for coming in [*device.walks._coming.values()]:
            coming.result(timeout=60)
        asked.rows(ROWS, x=5)
        assert cost(driver, lambda: asked.rows(ROWS, x=5)) == (1, 1, 0)


def test_without_room_for_its_buffers_a_query_runs_as_it_did(
    asked: Asked, made: list[Launch]
) -> None:
    for _ in range(3):
        asked.rows(ROWS, x=5)
    before = asked.there.memory_limit
    asked.there.memory_limit = made[0].nbytes // 2
    try:
        asked.rows(ROWS, x=5)
    finally:
        asked.there.memory_limit = before
    asked.rows(ROWS, x=5)


def test_an_interrupt_leaves_the_next_call_right(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        asked.rows(COUNT)
    driver: Any = asked.there.workspace.device.driver
    before = driver.wait

    def stopped(poll: Callable[[], None], *rest: Any) -> list[Any]:
        asked.there.interrupt()
        return before(poll, *rest)

    monkeypatch.setattr(driver, "wait", stopped)
    asked.there.workspace.results.clear()
    with pytest.raises(gd.Interrupted):
        asked.there.query(COUNT)
    monkeypatch.setattr(driver, "wait", before)
    for _ in range(3):
        asked.rows(COUNT)


def test_a_stop_is_seen_soon_if_turns_are_long() -> None:
    """Each of many loops, one inside the other, has dozens of turns."""
    driver = HostDriver(blocks=1)
    driver.step = 2_000
    before = driver.wait
    pairs = ", ".join(f"E({a}, {b})" for a, b in combinations("abcdef", 2))
    with gd.connect(device="cpu") as db:
        db.workspace.device = Gpu(driver)
        db.workspace.force(strategy="lftj", tile=32)
        db["E"] = list(permutations(range(60), 2))

        def stopped(poll: Callable[[], None], *rest: Any) -> list[Any]:
            asked = count()

            def third() -> None:
                if next(asked) == 2:
                    db.interrupt()
                poll()

            return before(third, *rest)

        driver.polls, driver.wait = 20_000, stopped  # type: ignore[method-assign]
        with pytest.raises(gd.Interrupted):
            db.query(f"n(count()) <- {pairs}, a < b < c < d < e < f.")
    assert driver.passed < 50_000  # a turn of the loop around the two innermost has some 4,000


def test_an_interrupt_ends_all_terms_of_a_sum(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = next(text for text, terms in SUMS.items() if terms == 2)
    for db in (asked.here, asked.there):
        db.set(algebra="quotients")
    for _ in range(3):
        asked.rows(text)
    driver: Any = asked.there.workspace.device.driver
    before, waits = driver.wait, list[int]()

    def stopped(poll: Callable[[], None], *rest: Any) -> list[Any]:
        waits.append(1)
        asked.there.interrupt()
        return before(poll, *rest)

    monkeypatch.setattr(driver, "wait", stopped)
    asked.there.workspace.results.clear()
    with pytest.raises(gd.Interrupted):
        asked.there.query(text)
    assert len(waits) == 2
    monkeypatch.setattr(driver, "wait", before)
    for _ in range(3):
        asked.rows(text)
    device: Any = asked.there.workspace.device
    assert cost(driver, lambda: asked.rows(text)) == (2, 2, 0)
    device.walks._launches.popitem()  # one of them is gone
    for _ in range(3):
        asked.rows(text)


def test_several_devices_answer_as_one(made: list[Launch]) -> None:
    """Each has a piece, whose launch is kept, too."""
    drivers = [HostDriver(number=0), HostDriver(number=1)]
    asked = Asked(DeviceGroup(drivers))
    with asked.here, asked.there, drivers[0].use():
        asked.there.workspace.tune(shared_from=0)
        for text in (COUNT, ROWS):
            params = {"x": 5} if "$x" in text else {}
            asked.rows(text, **params)
            assert {launch.shared.driver.number for launch in made} == {0, 1}
            asked.rows(text, **params)
            made.clear()
            assert (
                cost(drivers[0], lambda text=text, params=params: asked.rows(text, **params))[0]
                == 2
            )
            assert asked.rows(text, **({"x": 7} if params else {})) != [] and not made
        asked.insert([(0, 1), (1, 3), (0, 3)])
        for _ in range(3):
            asked.rows(COUNT)
        made.clear()
        asked.there.workspace.device.others[0].driver.relief()  # drops what it keeps
        asked.rows(COUNT)
        assert {launch.shared.driver.number for launch in made} == {0, 1}


# One relation by one rule, or a few.
ALONE = Profile(
    types=("int", "int", "float", "symbol"),
    arities=(1, 2, 2, 3),
    rows=30,
    most=1,
    features=frozenset({"chain", "compare", "compute", "distinct", "fail", "head", "negate"}),
)


def asked_again(text: str, data: oracle.Data, defined: set[str], _: Any) -> oracle.Relations:
    """Asks three times over half of the data, and three times over all of it."""
    (name,) = defined
    rows: set[tuple[Any, ...]] = set()
    with gd.connect(device="cpu") as db:
        db.workspace.device = Gpu(HostDriver())
        db.workspace.tune(kernels_worth=0)
        for parts in (2, 1):
            for each, (types, of) in data.items():
                db.load(each, oracle.frame(types, of[::parts]))
            for turn in range(3):
                db.workspace.results.clear()
                found = {tuple(map(oracle.plain, row)) for row in db.query(text).fetchall()}
                assert turn == 0 or canonical(found) == canonical(rows), (parts, turn)
                rows = found
    return {name: rows}


@pytest.mark.slow
@share(5)
@given(programs(ALONE))
def test_drawn_rules(drawn: Drawn) -> None:
    assume(len(drawn.defined) == 1 and drawn.data)
    oracle.agrees_in(asked_again, drawn)
