"""The driver of a real GPU, against what stands here for CuPy: NVRTC compiles, nothing runs.

`tests/test_on_gpu.py` has it run.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import nvrtc
import pytest

import gdatalog as gd
from gdatalog.codegen import cache
from gdatalog.gpu_ops import copies, cupy_driver
from gdatalog.gpu_ops.cupy_driver import CupyDriver
from gdatalog.gpu_ops.cupy_kernel import OPTIONS, Resources, bare
from gdatalog.gpu_ops.sources import whole
from tests.cuda_host.stand_in import BareArray

needs_nvrtc = pytest.mark.skipif(
    nvrtc.library() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc-cu12"
)
SOURCE = whole('#include "prelude.cuh"\nKERNEL(one)(ARRAY(i64) out) { out[0] = 1; }\n')


class CUDARuntimeError(RuntimeError):
    """By this name CuPy raises what CUDA says."""


class NVRTCError(RuntimeError):
    """By this name CuPy raises that NVRTC failed."""


class _Nvrtc:
    """CuPy's functions of NVRTC, by the real one."""

    NVRTCError = NVRTCError

    def __init__(self) -> None:
        self.compiled: list[str] = []
        self.open = 0
        self.log = ""

    def getSupportedArchs(self) -> tuple[int, ...]:
        return 75, 80, 90

    def createProgram(self, source: str, name: str, headers: Any, names: Any) -> str:
        self.open += 1
        return source

    def compileProgram(self, program: str, options: Sequence[str]) -> None:
        assert options == (*OPTIONS, "-arch=sm_90")
        try:
            nvrtc.compile(program)
        except nvrtc.CompileException as refused:
            self.log = str(refused)
            raise NVRTCError from None
        self.compiled.append(program)

    def getProgramLog(self, program: str) -> str:
        return self.log

    def getCUBIN(self, program: str) -> bytes:
        return b"code of " + program.encode()

    def destroyProgram(self, program: str) -> None:
        self.open -= 1


class _Module:
    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy

    def load(self, code: bytes) -> None:
        self._cupy.loaded.append(code)

    def get_function(self, name: str) -> Any:
        return SimpleNamespace(ptr=7)


class _Event:
    """Done at the third look, unless said otherwise."""

    def __init__(self, cupy: Any, disable_timing: bool) -> None:
        assert disable_timing
        self.cupy, self.looks = cupy, 0
        cupy.events.append(self)

    def record(self, stream: Any = None) -> None:
        self.stream = stream

    @property
    def ptr(self) -> Any:
        return self

    def query(self) -> int:
        """A status, of a fault as well: nothing is raised."""
        self.looks += 1
        if self.cupy.fault is not None:
            return 700
        return 0 if self.looks == self.cupy.done_at else 600

    def synchronize(self) -> None:
        if self.cupy.fault is not None:
            raise self.cupy.fault


class _Pinned(bytearray):
    """Pinned memory: a buffer that tells its place, here itself."""

    @property
    def ptr(self) -> Any:
        return self


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A module that has what the driver asks of CuPy."""
    fake: Any = ModuleType("cupy")

    def allocate(size: int) -> str:
        if fake.full:
            raise MemoryError(fake.full.pop())
        return f"{size} bytes"

    @contextmanager
    def using_allocator(allocator: Any) -> Iterator[None]:
        fake.allocators.append(allocator)
        yield
        fake.allocators.pop()

    fake.used, fake.fault, fake.synchronized, fake.done_at = [], None, 0, 3
    fake.attributes = {"MultiProcessorCount": 132, "ClockRate": 1_980_000}
    fake.events, fake.copied, fake.freed = [], [], []
    fake.full, fake.allocators, fake.waited = [], [allocate], []

    class Device:
        def __init__(self, number: int) -> None:
            self.number = number
            self.attributes = fake.attributes
            self.compute_capability = "90"

        def __enter__(self) -> None:
            fake.used.append(self.number)

        def __exit__(self, *exc: object) -> None:
            fake.used.append("left")

    def synchronize() -> None:
        if fake.fault is not None:
            raise fake.fault
        fake.synchronized += 1

    def copy(target: int, source: Any, size: int, kind: int, stream: int) -> None:
        assert (kind, stream) == (1, 9)
        if isinstance(source, int):  # an address
            fake.copied.append((target, ctypes.string_at(source, size)))
            return
        assert size == 8
        fake.copied.append((target, int(np.frombuffer(source, np.int64)[0])))

    def launch(*given: int) -> None:
        """Notes the first four arguments of a kernel."""
        if fake.fault is not None:
            raise fake.fault
        *size, address, extra = given
        places = (ctypes.c_uint64 * 1).from_address(address)
        words = (ctypes.c_uint64 * 4).from_address(places[0])
        fake.launched.append((*size, list(words)))
        assert extra == 0

    fake.launched, fake.current = [], []
    pool = SimpleNamespace(
        free_all_blocks=lambda: fake.freed.append(True),
        free_bytes=lambda: 50,
        used_bytes=lambda: 30,
        get_limit=lambda: 0,
    )
    fake.pool = pool
    fake.get_default_memory_pool = lambda: pool
    fake.__version__, fake.loaded, fake.ndarray = "14.2.0", [], BareArray
    monkeypatch.setenv("GDATALOG_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "_place", cache._CacheFolder())
    fake.cuda = SimpleNamespace(
        Device=Device,
        Event=lambda disable_timing: _Event(fake, disable_timing),
        Stream=lambda non_blocking: SimpleNamespace(
            ptr=9, synchronize=lambda: None, wait_event=lambda e: fake.waited.append(("copies", e))
        ),
        alloc_pinned_memory=_Pinned,
        nvrtc=_Nvrtc(),
        function=SimpleNamespace(Module=lambda: _Module(fake)),
        driver=SimpleNamespace(
            launchKernel=launch,
            funcGetAttribute=lambda attribute, ptr: {4: 20, 3: 16, 1: 128}[attribute],
            occupancyMaxActiveBlocksPerMultiprocessor=lambda ptr, threads, shared: 2048 // threads,
        ),
        runtime=SimpleNamespace(
            memGetInfo=lambda: (1000, 2000),
            driverGetVersion=lambda: 13000,
            setDevice=lambda number: fake.current.append(number),
            memcpyAsync=copy,
            memcpyHostToDevice=1,
            eventQuery=lambda ptr: ptr.query(),
        ),
        get_current_stream=lambda: SimpleNamespace(
            ptr=8,
            synchronize=synchronize,
            wait_event=lambda e: fake.waited.append(("kernels", e)),
        ),
        get_allocator=lambda: fake.allocators[-1],
        using_allocator=using_allocator,
    )
    monkeypatch.setitem(sys.modules, "cupy", fake)
    return fake


def test_a_driver_works_on_its_gpu(cupy: Any) -> None:
    driver = CupyDriver(1)
    assert driver.name == "cuda:1" and driver.clock == 1.98
    assert cupy.used == [1, "left"]
    with driver.use():
        assert cupy.used == [1, "left", 1]
    assert cupy.used[-1] == "left" and cupy.current == [1]  # once for each thread
    del cupy.attributes["ClockRate"]
    assert CupyDriver().clock == 1.5


def test_copies_and_kernels_wait_for_each_other_on_the_gpu(cupy: Any) -> None:
    copier = CupyDriver().copier()
    here = copier.pinned(16)
    here[:] = range(16)
    there = SimpleNamespace(data=SimpleNamespace(ptr=1000))
    copier.after_kernels()
    ((who, event),) = cupy.waited
    assert who == "copies" and event.stream is None  # of what has been launched
    copier.copy(there, 4, here[8:12])
    assert cupy.copied == [(1004, bytes(range(8, 12)))]
    copied = copier.copied()
    assert cupy.events[-1].stream.ptr == 9  # of the copies
    copied.before_kernels()
    assert cupy.waited[-1] == ("kernels", cupy.events[-1])
    cupy.fault = CUDARuntimeError("cudaErrorMemoryAllocation: out of memory")
    with pytest.raises(MemoryError, match="a copy"):
        copied.wait()
    cupy.fault = CUDARuntimeError("cudaErrorIllegalAddress: an illegal memory access")
    with pytest.raises(gd.DeviceError, match="a copy failed on the GPU"):
        copied.wait()


@needs_nvrtc
def test_kernels(cupy: Any) -> None:
    kernel = CupyDriver().kernels(SOURCE, ["one"], "p(1).")["one"]
    assert kernel.resources == Resources(20, 16, 128)
    assert kernel.resident(256) == kernel.resident(256) == 8 * 132
    flags, data = SimpleNamespace(c_contiguous=True), SimpleNamespace(ptr=4000)
    array = SimpleNamespace(flags=flags, data=data)
    kernel.launch(3, 64, [array, 5, np.int32(-6), 0.5])
    ((pointer, *size, words),) = cupy.launched
    assert (pointer, size) == (7, [3, 1, 1, 64, 1, 1, 0, 8])
    assert words[:3] == [4000, 5, 2**64 - 6] and words[3] == int(np.float64(0.5).view(np.uint64))
    kernel.launch(0, 64, [array])  # CUDA would refuse it
    assert len(cupy.launched) == 1
    array.flags.c_contiguous = False
    with pytest.raises(ValueError, match="without gaps"):
        kernel.launch(1, 1, [array])
    kernel.launch(1, 1, [array], gaps=True)


@needs_nvrtc
def test_a_kernel_that_does_not_compile(cupy: Any) -> None:
    with pytest.raises(gd.DeviceError) as caught:
        CupyDriver().kernels(SOURCE.replace("= 1;", "= uno;"), ["one"], "p(1).")
    text = str(caught.value)
    assert "a kernel of `p(1).` does not compile" in text
    assert 'identifier "uno" is undefined' in text
    assert "KERNEL(one)(ARRAY(i64) out) { out[0] = uno; }" in text


@needs_nvrtc
def test_rules_that_differ_in_comments_share_their_code(cupy: Any) -> None:
    sources = [SOURCE + f'// of {name}: "日本"\n' for name in ("p", "q")]
    for source in sources:
        CupyDriver().kernels(source, ["one"], "p(1).")
    codes = [code.decode().removeprefix("code of ") for code in cupy.loaded]
    assert codes[0] == codes[1] and codes[0].isascii()
    assert cupy.cuda.nvrtc.compiled == [codes[0]] and not cupy.cuda.nvrtc.open
    assert codes[0].count("\n") == sources[0].count("\n")
    assert bare('asm("a // b");  // "c"\n') == 'asm("a // b");  // "c"\n'


@needs_nvrtc
def test_what_cuda_says_is_told(cupy: Any) -> None:
    driver = CupyDriver()
    kernel = driver.kernels(SOURCE, ["one"], "p(1).")["one"]
    cupy.fault = CUDARuntimeError("cudaErrorIllegalAddress: an illegal memory access")
    for act in (driver.synchronize, lambda: kernel.launch(1, 32, [])):
        with pytest.raises(gd.DeviceError, match="cudaErrorIllegalAddress"):
            act()
    cupy.fault = CUDARuntimeError("CUDA_ERROR_OUT_OF_MEMORY: out of memory")
    with pytest.raises(MemoryError, match="of `p"):
        kernel.launch(1, 32, [])
    cupy.fault = RuntimeError("something else")
    with pytest.raises(RuntimeError, match="something else"):
        driver.synchronize()


class OutOfMemoryError(MemoryError):
    """By this name CuPy raises that its pool is empty."""


def test_what_leaves_a_query_is_an_error_of_ours(cupy: Any) -> None:
    driver = CupyDriver()
    for problem, kind, message in (
        (CUDARuntimeError("cudaErrorLaunchFailure: x"), gd.DeviceError, "a query on cuda:0 failed"),
        (OutOfMemoryError("allocating 8 bytes"), gd.MemoryLimitError, "cuda:0 has no memory left"),
        (copies.NoMemory("f"), gd.MemoryLimitError, "cuda:0 has no memory left: f"),
        (MemoryError("the host's"), MemoryError, "the host's"),
        (gd.EvaluationError("a number"), gd.EvaluationError, "a number"),
    ):
        with pytest.raises(kind, match=message) as caught, driver.use():
            raise problem
        assert type(caught.value) is kind
        assert cupy.used[-1] == "left"


def test_memory_goes_back(cupy: Any) -> None:
    CupyDriver().release()
    assert cupy.freed == [True]


def test_waiting(cupy: Any) -> None:
    driver = CupyDriver()
    driver.synchronize()
    assert cupy.synchronized == 1
    polled: list[int] = []
    driver.wait(lambda: polled.append(1), None, (16,), 2, driver.reading(()))
    assert polled == [1, 1] and cupy.copied == []


def test_launches_are_recorded_as_a_graph(cupy: Any) -> None:
    said: list[Any] = []

    class Stream:
        def __init__(self, non_blocking: bool) -> None:
            assert non_blocking

        def __enter__(self) -> None:
            said.append("in")

        def __exit__(self, *failed: object) -> None:
            said.append("out")

        def begin_capture(self) -> None:
            said.append("begin")

        def end_capture(self) -> Any:
            said.append("end")
            return SimpleNamespace(launch=lambda stream: said.append("all"))

    cupy.cuda.Stream = Stream
    again = CupyDriver().recorded(lambda: said.append("one"))
    assert said == ["in", "begin", "one", "end", "out"]
    again()
    again()
    assert said[5:] == ["all", "all"]


@pytest.mark.parametrize("fails", [False, True])
def test_launches_run_side_by_side(fails: bool, cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each branch in a stream of its own, between those before and behind; more than there are
    streams in that of the thread. What fails leaves no stream apart."""
    said: list[str] = []
    monkeypatch.setattr(cupy_driver, "SIDES", 2)

    class Stream:
        made = 0

        def __init__(self, non_blocking: bool) -> None:
            assert non_blocking
            Stream.made += 1
            self.name = f"side {Stream.made}"

        def __enter__(self) -> None:
            said.append(f"in {self.name}")

        def __exit__(self, *failed: object) -> None:
            said.append("out")

        def wait_event(self, event: Any) -> None:
            said.append(f"{self.name} after {event.stream.name}")

    own = Stream(True)
    own.name, Stream.made = "own", 0
    cupy.cuda.Stream, cupy.cuda.get_current_stream = Stream, lambda: own

    def launch(name: str) -> Any:
        def queue() -> None:
            said.append(name)
            if fails and name == "b":
                raise KeyError(name)

        return queue

    driver = CupyDriver()
    driver.side_by_side([launch("a")])
    driver.side_by_side([])
    assert said == ["a"]
    said.clear()
    forked = ["side 1 after own", "side 2 after own", "in side 1", "b", "out"]
    joined = ["own after side 1", "own after side 2"]
    if fails:
        with pytest.raises(KeyError):
            driver.side_by_side([*map(launch, "abcde")])
        assert said == forked + joined
    else:
        driver.side_by_side([*map(launch, "abcde")])
        assert said == [*forked, "in side 2", "c", "out", "a", "d", "e", *joined]


def test_of_several_threads_none_looks_all_the_time(
    cupy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, slept = CupyDriver(), []
    monkeypatch.setattr(cupy_driver, "sleep", slept.append)
    driver.wait(lambda: None, None, (16,), 2, driver.reading(()))
    assert not slept
    driver.spins = False
    driver.wait(lambda: None, None, (16,), 2, driver.reading(()))
    assert slept and set(slept) == {cupy_driver.SHORT_PAUSE}


def test_a_kernel_is_asked_for_an_end(cupy: Any) -> None:
    """By a copy into its array; it has ended when the error is raised."""
    flags = SimpleNamespace(data=SimpleNamespace(ptr=1000))

    def stop() -> None:
        raise KeyboardInterrupt

    driver = CupyDriver()
    with pytest.raises(KeyboardInterrupt):
        driver.wait(stop, flags, (16, 2), 2, driver.reading(()))
    assert cupy.copied == [(1128, 2), (1016, 2)]
    assert cupy.events[-1].looks == 3
    cupy.copied.clear()
    cupy.done_at = 5  # the flags may be cleared after they were written: what clears them is queued
    with pytest.raises(KeyboardInterrupt):
        driver.wait(stop, flags, (16,), 2, driver.reading(()))
    assert cupy.copied == [(1128, 2)] * 3


def test_who_asks_twice_does_not_wait(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def again(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cupy_driver, "sleep", again)
    monkeypatch.setattr(cupy_driver, "AWAKE", -1.0)
    flags = SimpleNamespace(data=SimpleNamespace(ptr=0))
    driver = CupyDriver()
    with pytest.raises(KeyboardInterrupt):
        driver.wait(lambda: None, flags, (0,), 2, driver.reading(()))
    assert cupy.copied == [(0, 2)] and cupy.events[-1].looks == 2


def test_a_kernel_that_fails_while_we_wait(cupy: Any) -> None:
    driver = CupyDriver()
    cupy.fault = CUDARuntimeError("cudaErrorIllegalAddress: an illegal memory access")
    with pytest.raises(gd.DeviceError, match="IllegalAddress"):
        driver.wait(lambda: None, None, (0,), 2, driver.reading(()))
    assert cupy.copied == []


def test_an_allocation_that_fails_is_tried_once_more(cupy: Any) -> None:
    driver, relieved = CupyDriver(), []
    driver.relief = lambda: relieved.append(len(cupy.full))
    with driver.use():
        assert cupy.cuda.get_allocator()(8) == "8 bytes" and not relieved
        cupy.full = ["full"]
        assert cupy.cuda.get_allocator()(8) == "8 bytes" and relieved == [0]
        with driver.use():  # which asks once, however deep
            cupy.full = ["full", "full", "full"]
            with pytest.raises(MemoryError, match="full"):
                cupy.cuda.get_allocator()(8)
        assert relieved == [0, 2] and len(cupy.full) == 1
    assert len(cupy.allocators) == 1


def test_free_memory(cupy: Any) -> None:
    driver = CupyDriver()
    assert driver.free_memory() == 1050
    cupy.pool.get_limit = lambda: 100
    assert driver.free_memory() == 70


# ------------------------------------------------------------------------------- the real CuPy


@pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="needs CuPy, but no GPU")
def test_cupy_has_what_is_asked_of_it() -> None:
    import cupy

    for path in (
        "get_default_memory_pool", "lexsort", "cuda.Device.attributes", "cuda.Device.__enter__",
        "cuda.alloc_pinned_memory", "cuda.PinnedMemory", "cuda.PinnedMemoryPointer.ptr",
        "cuda.Event.record", "cuda.Event.synchronize", "cuda.runtime.eventQuery",
        "cuda.get_current_stream", "cuda.Stream.wait_event", "cuda.Stream.ptr",
        "cuda.Stream.synchronize", "cuda.Device.compute_capability",
        "cuda.cub.device_scan", "cuda.cub.CUPY_CUB_CUMSUM", "cuda.driver.funcGetAttribute",
        "cuda.driver.launchKernel",
        "cuda.function.Module.load", "cuda.function.Module.get_function",
        "cuda.function.Function.ptr", "cuda.MemoryPointer.copy_from_device_async",
        "cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor", "cuda.driver.get_build_version",
        "cuda.runtime.memGetInfo", "cuda.runtime.setDevice",
        "cuda.runtime.memcpyAsync", "cuda.runtime.memcpyHostToDevice",
        "cuda.nvrtc.getVersion", "cuda.nvrtc.getSupportedArchs", "cuda.nvrtc.createProgram",
        "cuda.nvrtc.compileProgram", "cuda.nvrtc.getProgramLog", "cuda.nvrtc.getCUBIN",
        "cuda.nvrtc.getPTX", "cuda.nvrtc.destroyProgram", "cuda.nvrtc.NVRTCError",
    ):  # fmt: skip
        found: Any = cupy
        for name in path.split("."):
            assert hasattr(found, name), path
            found = getattr(found, name)
    pool = cupy.get_default_memory_pool()
    assert callable(pool.free_bytes) and callable(pool.used_bytes) and callable(pool.get_limit)
    assert callable(pool.free_all_blocks)
    assert issubclass(cupy.cuda.runtime.CUDARuntimeError, RuntimeError)
    assert cupy.cuda.runtime.CUDARuntimeError.__name__ == CUDARuntimeError.__name__
    assert issubclass(cupy.cuda.memory.OutOfMemoryError, MemoryError)
