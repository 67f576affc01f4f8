"""A driver with clocks: how long each kernel that it launches ran, and how long it was compiled.

On a GPU the clocks are CUDA events, which stand in the stream beside the kernel; elsewhere all is
waited for before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any, TypeVar

from benchmarks.gpu.names import part_of
from gdatalog.gpu_ops.array_module import ArrayModule
from gdatalog.gpu_ops.cupy_driver import CupyDriver
from gdatalog.gpu_ops.cupy_kernel import CupyKernel, Resources

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A source that was compiled."""

    told: str
    source: str
    names: tuple[str, ...]
    seconds: float
    resources: dict[str, Resources]


class Clocked:
    """A driver that is another one, and notes what it is asked for; its arrays' kernels too."""

    def __init__(self, driver: CupyDriver) -> None:
        self.driver = driver
        raw = getattr(driver.xp, "raw", None)  # a stand-in has no kernels of arrays
        self.xp: Any = driver.xp if raw is None else ArrayModule(self, raw)
        self.compiled: list[Compiled] = []
        self.spans: list[tuple[str, Callable[[], float]]] = []  # what gives a launch's seconds
        self.by_part: dict[str, float] = {}  # seconds that have been asked for
        self.kept: dict[tuple[str, str], CupyKernel] = {}  # by source and name
        self.muted = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver, name)

    def kernels(self, source: str, names: Sequence[str], told: str) -> dict[str, CupyKernel]:
        began = perf_counter()
        found = self.driver.kernels(source, names, told)
        seconds = perf_counter() - began
        resources = {name: found[name].resources for name in names}
        self.compiled.append(Compiled(told, source, tuple(names), seconds, resources))
        return {
            name: ClockedKernel(part_of(name, source), kernel, self)
            for name, kernel in found.items()
        }

    def scan(self, array: Any) -> None:
        self.span("scan", lambda: self.driver.scan(array))

    def recorded(self, launch: Callable[[], None]) -> Callable[[], None]:
        with self._muted():
            graph = self.driver.recorded(launch)
        return partial(self.span, "a graph", graph)

    def recorded_apart(self, launch: Callable[[], None]) -> tuple[Callable[[], None], int]:
        with self._muted():
            graph, size = self.driver.recorded_apart(launch)
        return partial(self.span, "a graph", graph), size

    def looped(self, launch: Callable[[], None], words: Any, at: int) -> Callable[[], None] | None:
        with self._muted():
            graph = self.driver.looped(launch, words, at)
        return None if graph is None else partial(self.span, "a graph", graph)

    @contextmanager
    def _muted(self) -> Iterator[None]:
        """Within this context kernels are recorded, not run."""
        self.muted = True
        try:
            yield
        finally:
            self.muted = False

    def take(self) -> tuple[int, float]:
        """How many kernels were launched since it was last asked, and their seconds together."""
        self.driver.synchronize()
        spans, self.spans = self.spans, []
        total = 0.0
        for name, span in spans:
            seconds = span()
            self.by_part[name] = self.by_part.get(name, 0.0) + seconds
            total += seconds
        return len(spans), total

    def span(self, name: str, work: Callable[[], T]) -> T:
        """Runs something on the device, between two clocks."""
        if self.muted:
            return work()
        cuda = cuda_of(self.driver)
        if cuda is not None:
            before, after = cuda.Event(), cuda.Event()
            before.record()
            result = work()
            after.record()
            taken = partial(cuda.get_elapsed_time, before, after)
            self.spans.append((name, lambda: float(taken()) / 1e3))
            return result
        self.driver.synchronize()
        began = perf_counter()
        result = work()
        self.driver.synchronize()
        seconds = perf_counter() - began
        self.spans.append((name, lambda: seconds))
        return result


def cuda_of(driver: Any) -> Any:
    """CuPy's interface to CUDA; None for a driver without a GPU."""
    xp = driver.xp
    return getattr(getattr(xp, "raw", xp), "cuda", None)


class ClockedKernel:
    def __init__(self, part: str, kernel: CupyKernel, clocks: Clocked) -> None:
        self.part, self.kernel, self.clocks = part, kernel, clocks

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kernel, name)

    def launch(
        self, blocks: int, threads: int, args: Sequence[Any], *more: Any, **rest: Any
    ) -> None:
        run = partial(self.kernel.launch, blocks, threads, args, *more, **rest)
        self.clocks.span(self.part, run)


@dataclass(slots=True)
class Phases:
    """Seconds by phase, everything waited for at its borders."""

    driver: CupyDriver
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def of(self, phase: str) -> Iterator[None]:
        self.driver.synchronize()
        began = perf_counter()
        yield
        self.driver.synchronize()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + perf_counter() - began


def medians(clocks: Clocked, work: Callable[[], Any], budget: float, most: int) -> Medians:
    """Runs something again and again, for so many seconds or times, and at least 3 times.

    It was run before, so nothing is compiled and nothing has to warm up.
    """
    walls: list[float] = []
    kernels: list[float] = []
    launches = 0
    while len(walls) < 3 or (len(walls) < most and sum(walls) < budget):
        clocks.take()
        began = perf_counter()
        work()
        clocks.driver.synchronize()
        walls.append(perf_counter() - began)
        launches, seconds = clocks.take()
        kernels.append(seconds)
        if sum(walls) > 4 * budget:
            break
    return Medians(median(walls), median(kernels) if launches else None, launches, len(walls))


@dataclass(frozen=True, slots=True)
class Medians:
    wall: float
    kernels: float | None  # None: no kernel was launched through the driver
    launches: int
    runs: int


def under_half(ends: Any, seconds: float) -> float | None:
    """The share of a kernel's time in which fewer than half of its blocks were at work.

    `ends` are the nanoseconds at which blocks ended. Each SM has as many blocks, so when fewer
    than half of the SMs work, fewer than half of the blocks do: this is an upper bound.
    """
    known = sorted(int(end) for end in ends if int(end) > 0)
    if not known or seconds <= 0:
        return None
    left = known[-1] - known[(len(known) - 1) // 2]
    return min(1.0, left / 1e9 / seconds)


def pool_bytes(xp: Any) -> int | None:
    """What CuPy's pool holds now: the most that was in use since it was last emptied."""
    xp = getattr(xp, "raw", xp)
    if not hasattr(xp, "get_default_memory_pool"):
        return None
    return int(xp.get_default_memory_pool().total_bytes())


def empty_pool(xp: Any) -> int | None:
    """Gives what is free back, so that from now on the pool grows to what is used at once."""
    if pool_bytes(xp) is None:
        return None
    getattr(xp, "raw", xp).get_default_memory_pool().free_all_blocks()
    return pool_bytes(xp)
