"""The driver of a real GPU: CuPy allocates memory, and launches kernels; copies run in a stream of
their own.

Each thread has its own current device in CuPy, and the user may have set it. So call the driver,
and make arrays with its `xp`, inside `driver.use()`. The driver raises CUDA's errors as gdatalog's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import local
from time import perf_counter, sleep
from typing import Any

import numpy as np

from gdatalog.codegen import cache
from gdatalog.errors import Error, MemoryLimitError
from gdatalog.gpu_ops import graph_loops
from gdatalog.gpu_ops.arena import Arena
from gdatalog.gpu_ops.array_module import ArrayModule
from gdatalog.gpu_ops.copies import (
    CupyCopied,
    CupyCopier,
    NoMemory,
    explaining_failure,
    fetched,
    is_cudas,
)
from gdatalog.gpu_ops.cupy_kernel import CupyKernel, bare, loaded, stored_name
from gdatalog.gpu_ops.driver_library import Refused
from gdatalog.gpu_ops.graph_loops import GraphLoops
from gdatalog.gpu_ops.sources import whole
from gdatalog.gpu_ops.virtual_memory import VirtualMemory, opened
from gdatalog.gpu_ops.virtual_pages import WORD, Pages, PinnedPages, VirtualPages
from gdatalog.records import cached_property
from gdatalog.threads import begun

# A wait for a kernel polls without a pause for BUSY seconds, so that short kernels cost nothing;
# until AWAKE seconds it gives way to other threads, but does not sleep, since the shortest sleep
# takes 50 microseconds. Then it sleeps between polls: for 1/SHARE of the time that it has waited,
# at least SHORT_PAUSE and at most PAUSE. A driver that must not spin sleeps from the start.
BUSY, AWAKE, SHORT_PAUSE, PAUSE, SHARE = 0.00005, 0.001, 0.00002, 0.01, 64  # seconds
# Bytes of a thread's two pinned buffers, through which small results come. Two readings may be
# under way.
PINNED = 1 << 19
SIDES = 7  # streams of a thread beside its own, for launches that run side by side
MOST_SCANNED = 1 << 30  # entries of one of CUB's scans
NOT_READY = 600  # cudaErrorNotReady
_give_way = getattr(os, "sched_yield", partial(sleep, 0))
USUAL_CLOCK = 1_500_000  # kilohertz, if CUDA does not report it


def pause(waited: float, spins: bool = True) -> None:
    """A moment between two polls of a wait that has taken so many seconds."""
    if waited > AWAKE or not spins:
        sleep(min(PAUSE, max(SHORT_PAUSE, waited / SHARE)))
    elif waited > BUSY:
        _give_way()


class Reading:
    """Arrays that are copied to the host behind kernels, as often as that is asked for: `copy`
    queues the copies, `begin` the `event` behind them, after which `fetch` returns the arrays."""

    def __init__(self, cuda: Any, arrays: Sequence[Any], memory: Any, start: int) -> None:
        """`memory`: pinned, from the byte `start` on; None: large arrays are copied when they are
        fetched."""
        self._cuda, self._arrays = cuda, arrays
        self.event = cuda.Event(disable_timing=True)
        self._copies: list[tuple[int, int, int, int]] = []
        self._parts: list[Any] | None = None if memory is None else []
        if self._parts is None:
            return
        held = np.frombuffer(memory, np.uint8)
        for array in arrays:
            size = array.nbytes
            there = array.data.ptr, size, cuda.runtime.memcpyDeviceToHost
            if size:
                self._copies.append((memory.ptr + start, *there))
            part = held[start : start + size].view(array.dtype)
            self._parts.append(part.reshape(array.shape))
            start += -(-size // 8) * 8

    def copy(self) -> Reading:
        stream = self._cuda.get_current_stream().ptr
        for copy in self._copies:
            self._cuda.runtime.memcpyAsync(*copy, stream)
        return self

    def begin(self) -> Reading:
        self.event.record()
        return self

    def fetch(self) -> list[Any]:
        if self._parts is None:
            return [fetched(self._cuda, array) for array in self._arrays]
        return [part.copy() for part in self._parts]


class _Relieved:
    """An allocator that frees a driver's unused memory and retries once when an allocation
    fails."""

    def __init__(self, allocate: Callable[[int], Any], driver: CupyDriver) -> None:
        self.allocate, self.driver = allocate, driver

    def __call__(self, size: int) -> Any:
        try:
            return self.allocate(size)
        except MemoryError:
            self.driver.relief()
            self.driver.give_up_ranges()
        return self.allocate(size)


class CupyDriver:
    """GPU `number`. `xp`: NumPy's functions on its arrays; `clock`: ticks of the kernels' clock in
    a nanosecond, roughly. `compiles_ahead`: whether threads compile kernels that are not needed
    yet."""

    compiles_ahead = True

    def __init__(self, number: int = 0) -> None:
        self.name = f"cuda:{number}"
        self.number = number
        import cupy

        self._cupy: Any = cupy
        self.xp: Any = ArrayModule(self, cupy)
        # Frees unused memory. Called when an allocation fails, which is then retried once.
        self.relief: Callable[[], None] = lambda: None
        # Whether a thread that waits for a short kernel polls without sleeping. If several threads
        # wait, each of them would keep the others from launching.
        self.spins = True
        # Virtual memory, by whether it has pages on the host; None: there is none.
        self._virtual: dict[bool, VirtualMemory | None] = {}
        self._arena: Arena | None = None
        self._mine = local()  # what each thread reads through
        with self.use():
            device = cupy.cuda.Device(number)
            found = device.attributes
            self._capability: str = device.compute_capability
            self.clock = int(found.get("ClockRate", USUAL_CLOCK)) / 1e6
            self._processors = int(found["MultiProcessorCount"])

    def prepare(self) -> None:
        """Loads what every query needs on another thread: the kernels of arrays, and the sorts and
        sums that CuPy contains."""

        def load() -> None:
            with suppress(Exception), self.use():  # the first query raises what fails
                self.xp.cumsum(self.xp.sort(self.xp.arange(2)))

        begun(load)

    @contextmanager
    def use(self) -> Iterator[None]:
        """Makes this GPU CuPy's current device in this thread.

        Raises CUDA's errors as gdatalog's. When the GPU's memory is full, it first frees unused
        memory and tries again.
        """
        cuda = self._cupy.cuda
        try:
            with cuda.Device(self.number), explaining_failure(f"a query on {self.name}"):
                if not hasattr(self._mine, "current"):  # a thread begins without a context
                    cuda.runtime.setDevice(self.number)
                    self._mine.current = True
                allocator = cuda.get_allocator()  # may be RMM's, or ours already
                if isinstance(allocator, _Relieved) and allocator.driver is not self:
                    allocator = allocator.allocate  # within the use of another GPU
                if not isinstance(allocator, _Relieved):
                    allocator = _Relieved(allocator, self)
                with cuda.using_allocator(allocator):
                    yield
        except MemoryError as problem:
            if not isinstance(problem, NoMemory) and type(problem).__name__ != "OutOfMemoryError":
                raise
            raise MemoryLimitError(
                f"{self.name} has no memory left: {problem}",
                hint='ask for less at once, or run it on the CPU: device="cpu"',
            ) from problem

    def copied(self, array: Any) -> Any:
        """Copies an array of another GPU to this one: directly if this one can read the other's
        memory, else through the host.

        First call the other driver's `synchronize`, so that the array is finished. Keep the array
        until this driver's `synchronize`, so that the copy is finished.
        """
        return self.xp.copy(array)

    def kernels(
        self, source: str, names: Sequence[str], label: str, linked: bool = False
    ) -> dict[str, CupyKernel]:
        """The kernels of a source, compiled or from a cache. `whole` must have expanded the
        source's includes. `label`: the rule, for errors. `linked`: the driver compiles the rest,
        because the source calls a function of the driver's."""
        of = self._cupy.__version__, self._capability, source, label, linked
        module = loaded(self._cupy.cuda, *of)
        made: dict[str, CupyKernel] = {}
        for name in names:
            function = module.get_function(name)
            made[name] = CupyKernel(function, f"{name}, of `{label}`", self._fit, self._cupy.cuda)
        return made

    def is_stored(self, source: str) -> bool:
        """Whether the machine code of a source is in the cache, so that it is soon loaded."""
        cuda, version = self._cupy.cuda, self._cupy.__version__
        return cache.read(stored_name(cuda, version, self._capability, bare(source))) is not None

    def scan(self, array: Any) -> None:
        """Replaces each entry by the sum of all up to it."""
        cub = self._cupy.cuda.cub
        for start in range(0, array.size, MOST_SCANNED):
            part = array[start : start + MOST_SCANNED]
            if start:
                part[:1] += array[start - 1 : start]
            cub.device_scan(part, cub.CUPY_CUB_CUMSUM)

    def _fit(self, pointer: int, threads: int) -> int:
        each = self._cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(pointer, threads, 0)
        return int(each) * self._processors

    def copier(self) -> CupyCopier:
        """A new stream of copies."""
        return CupyCopier(self._cupy.cuda)

    @property
    def page(self) -> int:
        """The bytes of a page, if pages can be placed on the device; else 0."""
        memory = self._memory(True)
        return 0 if memory is None else memory.page

    @property
    def arena(self) -> Arena | None:
        """The memory of arrays that grow in place; None if the driver has no virtual memory."""
        if self._arena is None and (memory := self._memory(False)) is not None:
            most = int(self._cupy.cuda.runtime.memGetInfo()[1])
            self._arena = Arena(memory, most, self._at, self._relieve)
        return self._arena

    def _memory(self, host: bool) -> VirtualMemory | None:
        """Virtual memory, if there is any; `host`: with pages on the host. If the GPU is full, the
        next call tries again."""
        for _ in range(0 if host in self._virtual else 2):
            try:
                self._virtual[host] = opened(self.number, host)
                break
            except MemoryError:
                self.release()  # CuPy's pool may hold all free memory
        return self._virtual.get(host)

    def _relieve(self) -> None:
        self.relief()
        self.release()

    def give_up_ranges(self) -> None:
        """Frees the ranges of the arena that no array uses."""
        if self._arena is not None:
            self._arena.release()

    def pages(self, size: int) -> Pages:
        """A range of `size` bytes, all of whose pages start in the host's memory."""
        cuda = self._cupy.cuda
        with explaining_failure("pages of an index"):
            memory = self._memory(True)
            if memory is None:
                # Not from CuPy's pool, which rounds sizes up to a power of two and keeps them.
                held = cuda.PinnedMemoryPointer(cuda.PinnedMemory(size), 0)
                done = CupyCopied(cuda, None)
                return PinnedPages(held, size, self._at, done)
            copied = partial(CupyCopied, cuda, None)
            return VirtualPages(memory, size, self._copy, self._at, copied)

    def _at(self, address: int, length: int, dtype: Any, owner: Any) -> Any:
        """An array at an address."""
        if not length:
            return self.xp.empty(0, dtype=dtype)
        size, cuda = length * np.dtype(dtype).itemsize, self._cupy.cuda
        memory = cuda.UnownedMemory(address, size, owner, self.number)
        return self.xp.ndarray((length,), dtype, cuda.MemoryPointer(memory, 0))

    def _copy(self, source: int, target: int, size: int) -> None:
        """Copies with a kernel: CUDA's own copies treat a whole range like its first page."""
        length = -(-size // WORD)
        self.xp.copyto(self._at(target, length, "u8", None), self._at(source, length, "u8", None))

    def fetched(self, array: Any) -> Any:
        """The array as a NumPy array; a large one through pinned buffers, several times as fast."""
        return fetched(self._cupy.cuda, array)

    def free_memory(self) -> int:
        """The GPU's free memory, and the unused memory of CuPy's pool and of the arena."""
        pool = self._cupy.get_default_memory_pool()
        free = int(self._cupy.cuda.runtime.memGetInfo()[0]) + int(pool.free_bytes())
        unused, held = (0, 0) if self._arena is None else (self._arena.unused, self._arena.held)
        free, most = free + unused, int(pool.get_limit())
        return min(free, most - int(pool.used_bytes()) - held + unused) if most else free

    def release(self) -> None:
        """Returns the unused memory of the arena and of CuPy's pool, which other libraries may
        want."""
        self.give_up_ranges()
        self._cupy.get_default_memory_pool().free_all_blocks()

    def recorded(self, launch: Callable[[], None]) -> Callable[[], None]:
        """The launches of a function as a CUDA graph, which is launched as one. The function has
        run before, and its arguments stay; it does not wait."""
        stream = self._cupy.cuda.Stream(non_blocking=True)
        with explaining_failure("a graph of kernels"), stream:
            stream.begin_capture()
            try:
                launch()
            finally:
                graph = stream.end_capture()
        return lambda: graph.launch(self._cupy.cuda.get_current_stream())

    def recorded_apart(self, launch: Callable[[], None]) -> tuple[Callable[[], None], int]:
        """The same of a function that makes arrays: their memory belongs to the graph. Returns the
        bytes of it, too."""
        pool = self._cupy.cuda.MemoryPool()
        with self._cupy.cuda.using_allocator(pool.malloc):
            graph = self.recorded(launch)

        def again(pool: Any = pool) -> None:
            graph()

        return again, int(pool.total_bytes())

    def side_by_side(self, branches: Sequence[Callable[[], None]]) -> None:
        """Queues launches of which no branch waits for another, also into a graph that is being
        recorded. Later launches wait for all of them."""
        stream, beside = self._cupy.cuda.get_current_stream(), branches[1 : 1 + SIDES]
        sides = self._sides[: len(beside)] if beside else []
        if sides:
            fork = self._cupy.cuda.Event(disable_timing=True)
            fork.record(stream)
        for side, _ in sides:
            side.wait_event(fork)
        try:
            for (side, _), launch in zip(sides, beside, strict=True):
                with side:
                    launch()
            for launch in (*branches[:1], *branches[1 + SIDES :]):
                launch()
        finally:
            for side, end in sides:
                end.record(side)
                stream.wait_event(end)

    @property
    def _sides(self) -> list[tuple[Any, Any]]:
        """This thread's streams for branches, and events behind what is queued there."""
        cuda, mine = self._cupy.cuda, self._mine
        if not hasattr(mine, "sides"):
            mine.sides = [
                (cuda.Stream(non_blocking=True), cuda.Event(disable_timing=True))
                for _ in range(SIDES)
            ]
        found: list[tuple[Any, Any]] = mine.sides
        return found

    def reader(self, arrays: Sequence[Any]) -> Reading:
        """What reads arrays again and again, into memory of its own."""
        size = sum(-(-array.nbytes // 8) * 8 for array in arrays)
        cuda = self._cupy.cuda
        self._pinned()
        return Reading(cuda, arrays, cuda.alloc_pinned_memory(max(1, size)), 0)

    def looped(self, launch: Callable[[], None], words: Any, at: int) -> Callable[[], None] | None:
        """The launches of a function as a graph that repeats them while `words[at]` is not 0, as
        one launch. None: the driver has no such graphs. The function has run before, and its
        arguments stay; it does not wait."""
        loops = self._loops
        if loops is None:
            return None
        graphs, condition = loops
        stream = self._cupy.cuda.Stream(non_blocking=True)

        def ending(value: int) -> None:
            condition.launch(1, 1, [words, at, value])

        try:
            with stream:
                found = graphs.repeating(stream.ptr, launch, ending)
        except Refused:
            self._loops = None
            return None
        return lambda: found(self._cupy.cuda.get_current_stream().ptr)

    @cached_property
    def _loops(self) -> tuple[GraphLoops, CupyKernel] | None:
        """What graphs with loops need, if the driver has them."""
        graphs = graph_loops.opened(self.number)
        if graphs is None:
            return None
        try:
            source, name = whole(graph_loops.SOURCE), "set_condition"
            condition = self.kernels(source, [name], "a loop of kernels", linked=True)[name]
            condition.resident(1)  # loads it
        except Exception as problem:
            if is_cudas(problem) or isinstance(problem, Error):
                return None
            raise
        return graphs, condition

    def reading(self, arrays: Sequence[Any]) -> Reading:
        """Begins to read arrays after the kernels that are launched so far. At most two readings of
        a thread are under way."""
        cuda, mine = self._cupy.cuda, self._pinned()
        memory, start = None, 0
        if sum(array.nbytes + 8 for array in arrays) <= PINNED:
            memory, start = mine.held, PINNED - mine.begin  # the other buffer
            mine.begin = start
        return Reading(cuda, arrays, memory, start).copy().begin()

    def ended(self, reading: Reading) -> bool:
        """Whether `wait` would not wait for a reading; or the kernels before it have failed."""
        status: int = self._cupy.cuda.runtime.eventQuery(reading.event.ptr)
        return status != NOT_READY

    def wait(
        self,
        poll: Callable[[], None],
        flags: Any,
        places: Sequence[int],
        stop: int,
        reading: Reading,
    ) -> list[Any]:
        """Waits for the kernels before a reading, and calls `poll` now and then. Returns NumPy
        copies of the arrays.

        If `poll` raises, `flags[at] = stop` at each of the `places` asks the kernels to end, again
        and again: what clears the flags before the kernels may still be queued. A second interrupt
        is raised at once, without waiting for them.
        """
        with explaining_failure("a kernel"):
            started, asked = perf_counter(), None
            while True:
                try:
                    # `event.done` stays false after a kernel has failed.
                    if self.ended(reading):
                        reading.event.synchronize()
                        break
                    if asked is None:
                        poll()
                    else:
                        for at in places:
                            self._write(flags, at, stop)
                    pause(perf_counter() - started, self.spins)
                except BaseException as problem:
                    if asked is not None or is_cudas(problem):
                        raise
                    asked = problem
        if asked is not None:
            raise asked
        return reading.fetch()

    def clear(self, array: Any) -> None:
        """Sets an array to zeros."""
        stream = self._cupy.cuda.get_current_stream().ptr
        self._cupy.cuda.runtime.memsetAsync(array.data.ptr, 0, array.nbytes, stream)

    def write(self, array: Any, values: Any) -> None:
        """Writes a few values of the host to an array, before later kernels."""
        runtime, stream = self._cupy.cuda.runtime, self._cupy.cuda.get_current_stream().ptr
        to = runtime.memcpyHostToDevice  # CUDA has read the host's memory when it returns
        runtime.memcpyAsync(array.data.ptr, values.ctypes.data, values.nbytes, to, stream)

    def _write(self, flags: Any, at: int, value: int) -> None:
        """Writes to an array that a running kernel reads, by a copy in a stream that waits for
        nothing. A kernel could not write it: it might have to wait for the running kernel."""
        runtime, mine = self._cupy.cuda.runtime, self._pinned()
        np.frombuffer(mine.word, np.int64, 1)[0] = value
        to = flags.data.ptr + at * 8
        runtime.memcpyAsync(to, mine.word.ptr, 8, runtime.memcpyHostToDevice, mine.beside.ptr)
        mine.beside.synchronize()

    def _pinned(self) -> Any:
        """Pinned memory that this thread reads through, and a word with a stream of its own that
        ends kernels. They are allocated once, not when a kernel is to end: CUDA may wait for it."""
        mine, cuda = self._mine, self._cupy.cuda
        if not hasattr(mine, "held"):
            mine.word, mine.beside = cuda.alloc_pinned_memory(8), cuda.Stream(non_blocking=True)
            mine.held, mine.begin = cuda.alloc_pinned_memory(2 * PINNED), 0
        return mine

    def synchronize(self) -> None:
        """Waits for all launched kernels and raises their errors."""
        with explaining_failure("a kernel"):
            self._cupy.cuda.get_current_stream().synchronize()
