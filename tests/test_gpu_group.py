"""Several devices that are not there, as one: each has pieces of a join or a fixpoint.

Arrays of one cannot be read on another (`cuda_host/arrays.py`). A seed says which of them gets
which piece.
"""

from __future__ import annotations

import gc
import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from threading import Lock
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given

import gdatalog as gd
from gdatalog.errors import DeviceError, MemoryLimitError
from gdatalog.gpu_ops import launch
from gdatalog.gpu_ops.group import DeviceGroup
from tests import test_engine_oracle as oracle
from tests.cases import share
from tests.cuda_host import HostDriver, needs_compiler
from tests.cuda_host.arrays import CURRENT
from tests.cuda_host.later import compiled_later
from tests.draw import Drawn, programs, recursive_programs
from tests.test_partitioned import SHAPES, draw

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

EDGES = [(i, j) for i in range(40) for j in range(40) if (i * 7 + j * 5) % 11 in (1, 4) and i != j]
TRIANGLES = "n(count()) <- E(a, b), E(b, c), E(a, c)."
CLOSURE = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z)."
TEXTS = [
    TRIANGLES,
    "t(a, b, c) <- E(a, b), E(b, c), E(a, c).",
    "t(a, count(), sum(c), max(c)) <- E(a, b), E(b, c), E(a, c).",
    "t(a, count_distinct(c)) <- E(a, b), E(b, c).",
    "t(a, c) <- E(a, b), E(b, c), !E(a, c).",
    "n(count()) <- E(a, b), E(b, c), E(c, d), E(a, d), distinct(a, b, c, d).",
    CLOSURE,
    CLOSURE + " n(count()) <- p(_, _).",
    CLOSURE + " q(x, count()) <- p(x, _).",
]


def launches(gpu: Any) -> int | None:
    """How many kernels it ran; the driver of a real GPU does not count them."""
    return getattr(gpu.driver, "launches", None)


class Dealt(DeviceGroup):
    """Who gets which piece goes by a seed: 0, whoever comes first."""

    seed = 0

    def claims(self) -> Iterator[int]:
        if not self.seed:
            return super().claims()
        dice = random.Random(self.seed)
        most, devices = 64, 1 + len(self.others)
        dealt: list[list[int]] = [[] for _ in range(devices)]
        for number in range(most):
            dealt[dice.randrange(devices)].append(number)
        return _Hands(dealt, most)


class _Hands(Iterator[int]):
    def __init__(self, dealt: list[list[int]], most: int) -> None:
        self.dealt, self.most = dealt, most

    def __next__(self) -> int:
        mine = self.dealt[CURRENT.number]
        return mine.pop(0) if mine else self.most


def group(devices: int = 2, seed: int = 0, kind: type[DeviceGroup] = Dealt) -> DeviceGroup:
    dice = random.Random(seed)
    found = kind(
        [HostDriver(seed=seed % 5, blocks=1 + dice.randrange(2), number=n) for n in range(devices)]
    )
    found.seed = seed  # type: ignore[attr-defined]
    return found


@contextmanager
def database(device: DeviceGroup, pieces: float = 1.0) -> Iterator[gd.Database]:
    """On which all that can be shared is; `pieces`: for each device, about, of a small join."""
    with gd.connect(device="cpu") as db, device.driver.use():
        db.workspace.device, db.workspace.why = device, "asked for"
        seed = device.seed  # type: ignore[attr-defined]
        db.workspace.tune(
            shared_from=0, shared_inputs_from=0, shared_values_from=0,
            shared_piece=1000 / pieces, stamps_most=1 << 20,
            pool_rows=1 if seed % 3 == 1 else 1 << 14, tile_shares_after=(0, -1)[seed % 2],
        )  # fmt: skip
        db.workspace.force(strategy="lftj")
        yield db


def answer(db: gd.Database, text: str) -> list[Any]:
    return sorted(db.query(text).fetchall())


def expected(text: str) -> list[Any]:
    with gd.connect(device="cpu") as db:
        db["E"] = EDGES
        return answer(db, text)


@pytest.mark.parametrize(
    ("text", "seed"),
    [
        pytest.param(text, seed, marks=() if (at, seed) in ((1, 1), (8, 4)) else pytest.mark.slow)
        for at, text in enumerate(TEXTS)
        for seed in (0, 1, 4)
    ],
)
def test_all_devices_together_give_what_one_gives(text: str, seed: int) -> None:
    device = group(2 + seed % 2, seed)
    with database(device, 1 + seed) as db:
        db["E"] = EDGES
        assert answer(db, text) == expected(text)
        profile = str(db.profile(text))
        assert " piece" in profile and all(name in profile for name in device.members)


@pytest.mark.parametrize(
    ("text", "seed"),
    [
        pytest.param(text, seed, marks=() if (at, seed) in ((1, 1), (2, 4)) else pytest.mark.slow)
        for at, text in enumerate(TEXTS[:6])
        for seed in (0, 1, 4)
    ],
)
def test_the_same_breadth_first(text: str, seed: int) -> None:
    device = group(2 + seed % 2, seed)
    with database(device, 1 + seed) as db:
        db.workspace.force(strategy="levelwise")
        db["E"] = EDGES
        assert answer(db, text) == expected(text)
        profile = str(db.profile(text))
        assert "breadth-first on cuda:0 (" in profile
        assert all(name in profile for name in device.members)
        with gd.connect(device="cpu") as one:
            one.workspace.force(strategy="levelwise")
            one["E"] = EDGES
            if "!E" not in text:  # which each device asks once for each (a, c) of its own
                assert bindings(db, text) == bindings(one, text) != []


def bindings(db: gd.Database, text: str) -> list[Any]:
    """What a profile says that each step bound."""
    nodes = db.profile(text).tree.walk()
    return [(node.label, node.actual) for node in nodes if node.actual is not None]


def run(text: str, data: oracle.Data, defined: set[str], number: int) -> oracle.Relations:
    with database(group(2 + number % 2, number), 1 + number % 4) as db, _small_blocks():
        db.workspace.force(split="always", tile=(0, 4, 32)[number % 3])
        if number % 4 == 3:
            db.workspace.force(strategy="levelwise")
        return oracle.answers(db, text, data, defined)


@contextmanager
def _small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "BLOCK_ROWS", 32)
        yield


def test_a_fixpoint_of_two_relations() -> None:
    oracle.agrees_in(run, draw(SHAPES["mutual, of other widths"], 6))


@pytest.mark.slow
@share(2)
@given(programs())
def test_drawn_programs(drawn: Drawn) -> None:
    oracle.agrees_in(run, drawn)


@pytest.mark.slow
@share(2)
@given(recursive_programs())
def test_drawn_recursion(drawn: Drawn) -> None:
    oracle.agrees_in(run, drawn)


# ------------------------------------------------------------------------------ what is shared


def test_little_work_stays_on_the_first() -> None:
    device = group()
    with database(device) as db:
        db.workspace.tune(shared_from=1e6, shared_inputs_from=10_000)
        db["E"] = EDGES
        text = TRIANGLES + CLOSURE
        assert answer(db, TRIANGLES) == expected(TRIANGLES)
        explained = str(db.explain(text))
        assert "cuda:1" not in explained and "\n│ on cuda:0\n" in explained
        assert explained.startswith("on cuda:0,1 (asked for), strategy lftj")
        assert launches(device.others[0]) in {0, None}


def test_indexes_that_would_take_long_to_copy_stay_on_the_first() -> None:
    """The work has to pay for the copies, and those of a query's indexes are in its explanation."""
    device = group()
    with database(device) as db:
        db["E"] = EDGES
        for room, name in ((1e2, "depth-first:"), (1e6, "depth-first on cuda:0 and cuda:1:")):
            db.workspace.tune(shared_from=1000, shared_bytes=room)
            assert name in str(db.explain(TRIANGLES))
            assert launches(device.others[0]) in {0, None}
            assert answer(db, TRIANGLES) == expected(TRIANGLES)
            assert name in re.sub(r" \([^)]*\)", "", str(db.profile(TRIANGLES)))
        assert launches(device.others[0]) != 0


def test_a_fixpoint_of_few_values_stays_on_the_first() -> None:
    """Each tile follows one value, and so a device of idle tiles needs no help."""
    device = group()
    with database(device) as db:
        db.workspace.tune(shared_values_from=50)
        db["E"] = EDGES
        assert answer(db, CLOSURE) == expected(CLOSURE)
        assert launches(device.others[0]) in {0, None}
        assert "a fixpoint for each x of p\n│ on cuda:0\n" in str(db.explain(CLOSURE))
        db.workspace.tune(shared_values_from=40)
        assert answer(db, CLOSURE) == expected(CLOSURE)
        assert launches(device.others[0]) != 0


def test_a_small_fixpoint_runs_on_the_first_once_it_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = compiled_later(monkeypatch)
    device = group()
    device.driver.compiles_ahead = True  # type: ignore[misc]
    with gd.connect(device="cpu") as db, device.driver.use():
        db.workspace.device = device
        db["E"] = EDGES
        assert "by tiles" not in str(db.profile(CLOSURE))
        asked.set()
        for coming in [*device.walks._coming.values()]:
            coming.result(timeout=60)
        assert "by tiles of cuda:0" in str(db.profile(CLOSURE))
        assert answer(db, CLOSURE) == expected(CLOSURE)


def test_an_explanation_says_what_is_shared() -> None:
    with database(group(3)) as db:
        db["E"] = EDGES
        shared = "on cuda:0, cuda:1 and cuda:2"
        found = db.explain(TRIANGLES)
        assert f"depth-first {shared}: asked for" in str(found)
        (rule,) = found.tree.find("rule")
        assert dict(rule.facts)["devices"] == "cuda:0, cuda:1, cuda:2"
        assert f"a fixpoint for each x of p\n│ {shared}\n" in str(db.explain(CLOSURE))
        rounds = "q(x, y) <- E(x, y). q(y, x) <- q(x, y), E(y, _)."
        assert "\n│ on cuda:0\n" in str(db.explain(rounds))


def test_a_few_rows_are_found_by_one() -> None:
    device = group()
    with database(device) as db:
        db["E"] = EDGES
        assert len(db.query("t(a, b, c) <- E(a, b), E(b, c), E(a, c).", limit=2)) == 2
        assert launches(device.others[0]) in {0, None}


def test_copies_are_made_once_and_go_with_what_they_are_of() -> None:
    device = group()
    (other,) = device.others
    copied: list[int] = []
    plain = other.driver.copied
    other.driver.copied = lambda array: copied.append(array.nbytes) or plain(array)  # type: ignore[method-assign,func-returns-value]
    with database(device) as db:
        db["E"] = EDGES
        first = answer(db, TRIANGLES)
        assert copied
        copied.clear()
        assert answer(db, TRIANGLES) == first and not copied
        made = device.copies[other.name]._made
        assert len(made) == 1
        other.driver.relief()  # memory is short there
        assert not made
        assert answer(db, TRIANGLES) == first and copied
        db["E"] = EDGES[1:]
        gc.collect()
        assert not made


@pytest.mark.parametrize("text", [CLOSURE, CLOSURE + " n(count()) <- p(_, _)."])
def test_a_fixpoint_is_kept_on_each_device(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    before = launch.Launch.__init__

    def noted(new: Any, buffers: Any, *given: Any) -> None:
        made.append(buffers.driver.number)
        before(new, buffers, *given)

    monkeypatch.setattr(launch.Launch, "__init__", noted)
    device = group()
    with database(device) as db:
        db.workspace.tune(shared_piece=1e9)
        db["E"] = EDGES
        for again in (True, True, False):
            for launches in ({0, 1}, set[int]()):
                made.clear()
                db.workspace.results.clear()
                db.workspace.catalog.bound.clear()  # which knows the answer
                assert answer(db, text) == expected(text)
                assert set(made) == launches
            if again:
                device.others[0].driver.relief()


# ---------------------------------------------------------------------------- what may go wrong


class Failing(HostDriver):
    """Fails the n-th time that it does something."""

    what = ""
    after = 0
    said = True  # by CUDA
    error: BaseException = DeviceError("")

    def _done(self, what: str) -> None:
        if what == self.what:
            self.after -= 1
            if self.after < 0:
                self.what = ""
                cause = RuntimeError("what CUDA says") if self.said else None
                raise self.error from cause

    @contextmanager
    def use(self) -> Iterator[None]:
        """As a GPU's driver does it."""
        try:
            with super().use():
                yield
        except MemoryError as problem:
            raise MemoryLimitError(f"{self.name} has no memory left") from problem

    def copied(self, array: Any) -> Any:
        self._done("copy")
        return super().copied(array)

    def __init__(self, **told: Any) -> None:
        super().__init__(**told)
        empty = self.xp.empty

        def allocated(*args: Any, **kwargs: Any) -> Any:
            self._done("allocation")
            return empty(*args, **kwargs)

        self.xp = SimpleNamespace(**{**vars(self.xp), "empty": allocated})

    def wait(self, *args: Any) -> list[Any]:
        self._done("kernel")
        return super().wait(*args)


def failing(devices: int = 2) -> tuple[DeviceGroup, Failing]:
    drivers = [HostDriver(), *(Failing(number=n) for n in range(1, devices))]
    device = Dealt(drivers)
    device.seed = 3  # each gets some pieces
    assert isinstance(drivers[-1], Failing)
    return device, drivers[-1]


@pytest.mark.host
@pytest.mark.parametrize(
    ("what", "after"),
    [("copy", 0), ("copy", 3), pytest.param("allocation", 1), ("kernel", 0), ("kernel", 2)],
)
@pytest.mark.parametrize("text", [TRIANGLES, pytest.param(CLOSURE, marks=pytest.mark.slow)])
def test_a_device_that_is_full(what: str, after: int, text: str) -> None:
    device, driver = failing(3)
    with database(device, 8) as db:
        db["E"] = EDGES
        driver.what, driver.after, driver.error = what, after, MemoryError("out of memory")
        with pytest.raises(DeviceError, match="cuda:2 has no memory left") as caught:
            db.query(text).fetchall()
        assert caught.value.hint is not None and 'device="cuda:0"' in caught.value.hint
        assert answer(db, text) == expected(text)
        assert db.device == "cuda:0,1,2"


@pytest.mark.host
@pytest.mark.parametrize("what", ["copy", "kernel"])
def test_a_device_that_is_lost_is_left_out(what: str) -> None:
    device, driver = failing(3)
    with database(device, 8) as db:
        db["E"] = EDGES
        driver.what, driver.error = what, DeviceError("a kernel failed on the GPU", hint="?")
        with pytest.raises(DeviceError, match="a kernel failed on the GPU") as caught:
            db.query(TRIANGLES)
        assert caught.value.hint == "please report this; queries run on cuda:0,1 from now on"
        assert answer(db, TRIANGLES) == expected(TRIANGLES)
        assert db.device == "cuda:0,1"


@pytest.mark.host
def test_a_kernel_that_does_not_compile_is_no_reason_to_leave_one_out() -> None:
    device, driver = failing()
    with database(device, 8) as db:
        db["E"] = EDGES
        driver.what, driver.error, driver.said = "kernel", DeviceError("a mistake of ours"), False
        with pytest.raises(DeviceError, match="a mistake of ours") as caught:
            db.query(TRIANGLES)
        assert caught.value.hint is None
        assert db.device == "cuda:0,1"


@pytest.mark.host
def test_a_number_that_is_too_large_is_found_on_any_device() -> None:
    """The loops end on all devices, and the rule is run again breadth-first."""
    with database(group(2, 3), 8) as db:
        db["E"] = [*EDGES, *((40 + i, 1 << 61) for i in range(3))]
        degrees = Counter(a for a, _ in EDGES)
        total = sum(b * degrees[a] for a, b in EDGES) + 3 * (1 << 61)
        db.workspace.force(strategy="auto")
        db.workspace.tune(overrun=0)
        assert db.query("s(sum(b)) <- E(a, b), E(a, c).").fetchall() == [(total,)]


class Stopping(HostDriver):
    """Somebody wants the call to end when this device has looked so often whether one does."""

    def __init__(self, *, number: int, stops: int) -> None:
        super().__init__(number=number)
        self.stops = stops
        self.asked = count()
        self.lock = Lock()
        self.stop: Any = None

    def wait(self, poll: Any, *rest: Any) -> list[Any]:
        def ask() -> None:
            if next(self.asked) == self.stops:
                self.stop()
            poll()

        return super().wait(ask, *rest)


class Polled(Dealt):
    """Its kernels of joins and fixpoints are asked to end while they run."""

    def run(self, *given: Any) -> Any:
        drivers: list[Any] = [self.driver, *(gpu.driver for gpu in self.others)]
        for driver in drivers:
            driver.polls = 5
        try:
            return super().run(*given)
        finally:
            for driver in drivers:
                driver.polls = 0


@pytest.mark.host
@pytest.mark.parametrize("stopped", [0, 1])
@pytest.mark.parametrize("stops", [0, 2, 9])
def test_a_call_is_stopped_on_all_devices(stopped: int, stops: int) -> None:
    drivers = [Stopping(number=n, stops=stops if n == stopped else -1) for n in range(2)]
    device = Polled(drivers)
    device.seed = 3
    with database(device, 8) as db:
        db["E"] = EDGES
        drivers[stopped].stop = db.interrupt
        with pytest.raises(gd.Interrupted):
            db.query(CLOSURE).fetchall()
        assert not device._under_way
        assert answer(db, CLOSURE) == expected(CLOSURE)


@pytest.mark.host
@pytest.mark.parametrize("asked", [0, 2])  # then launches are kept
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("error", [MemoryError("out of memory"), DeviceError("a kernel failed")])
@pytest.mark.parametrize("text", [TRIANGLES, CLOSURE])
def test_after_an_error_no_device_is_at_work(
    text: str, number: int, asked: int, error: Any
) -> None:
    """Kernels have been launched on both when the first of them is waited for."""
    drivers = [Failing(number=n) for n in range(2)]
    device = Polled(drivers)
    with database(device) as db:
        db.workspace.tune(shared_piece=1e9)
        db["E"] = EDGES
        for _ in range(asked):
            assert answer(db, text) == expected(text)
            db.workspace.results.clear()
        drivers[number].what, drivers[number].error = "kernel", error
        if isinstance(error, MemoryError) and number == 0:
            assert answer(db, text) == expected(text)  # in cells, or on the CPU
        else:
            with pytest.raises(DeviceError):
                db.query(text).fetchall()
        assert [driver.pending for driver in drivers] == [[], []]
        lost = isinstance(error, DeviceError) and number == 1
        assert db.device == ("cuda:0" if lost else "cuda:0,1")
        assert answer(db, text) == expected(text)


def test_a_device_without_room_for_copies_is_not_asked() -> None:
    device = group(3)
    device.others[0].driver.memory = 100  # type: ignore[attr-defined]
    with database(device) as db:
        db["E"] = EDGES
        assert answer(db, TRIANGLES) == expected(TRIANGLES)
        assert launches(device.others[0]) in {0, None}
        assert launches(device.others[1]) != 0
