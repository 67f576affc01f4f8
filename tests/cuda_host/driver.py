"""Runs kernels on this machine: what stands where CuPy does, in tests without a GPU."""

from __future__ import annotations

import ctypes
import random
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gdatalog.gpu_ops.arena import Arena
from gdatalog.gpu_ops.array_module import ArrayModule
from gdatalog.gpu_ops.copies import NoMemory
from gdatalog.gpu_ops.cupy_kernel import Resources
from gdatalog.gpu_ops.virtual_pages import PinnedPages, VirtualPages
from tests.cuda_host import compiler, pages
from tests.cuda_host.arrays import COUNTER, CURRENT, ndarray, waits, working_on
from tests.cuda_host.stand_in import own_module, xp

_KERNEL = re.compile(r"\bKERNEL(?:_OF_BLOCKS\(\w+,|\()\s*(\w+)\s*\)\s*\(")
_MOST_THREADS = 1 << 22
PAGE = 512  # bytes of a page
# `fibers.cpp` runs one launch at a time.
_ONE = threading.Lock()


class HostFault(Exception):
    """A kernel did what no kernel may do; or it does not compile, or was launched wrongly."""


_POLL = ctypes.CFUNCTYPE(None)


class _Settings(ctypes.Structure):
    """GdSettings of fibers.cpp."""

    _fields_ = (
        ("seed", ctypes.c_uint64),
        ("yields", ctypes.c_double),
        ("accesses", ctypes.c_double),
        ("step", ctypes.c_int64),
        ("patience", ctypes.c_int64),
        ("seconds", ctypes.c_double),
        ("written", ctypes.POINTER(ctypes.c_uint64)),
        ("written_count", ctypes.c_int64),
        ("poll", _POLL),
        ("polls", ctypes.c_int64),
        ("passed", ctypes.c_int64),
        ("switches", ctypes.c_int64),
    )


def parameters(source: str, name: str) -> list[str]:
    """The names of a kernel's parameters, as far as the text tells them."""
    for found in _KERNEL.finditer(source):
        if found[1] != name:
            continue
        depth, parts = 1, [""]
        for letter in source[found.end() :]:
            depth += {"(": 1, ")": -1}.get(letter, 0)
            if depth == 0:
                break
            if letter == "," and depth == 1:
                parts.append("")
            else:
                parts[-1] += letter
        return [part.split()[-1] for part in parts if part.split()]
    raise HostFault(f"no kernel {name}")


class HostKernel:
    """A kernel, compiled by g++."""

    def __init__(
        self, driver: HostDriver, name: str, types: list[str], params: list[str], start: Any
    ) -> None:
        self.driver, self._name, self._start = driver, name, start
        self._types, self._params = types, params

    @property
    def resources(self) -> Resources:
        return Resources(0, 0, 0)

    def resident(self, threads: int) -> int:
        return self.driver.blocks

    def packed(self, args: Sequence[Any]) -> Sequence[Any]:
        return args

    def room(self, blocks: int) -> tuple[int, int, int]:
        return self.driver.room // blocks, 192, self.driver.blocks

    def enlarge(self, shared: int) -> None:
        self._check(shared <= self.driver.room, f"{shared} bytes of shared memory")

    def launch(
        self,
        blocks: int,
        threads: int,
        args: Sequence[Any],
        gaps: bool = False,
        shared: int = 0,
    ) -> None:
        self._check(0 < blocks < 2**31, f"{blocks} blocks")
        self._check(0 < threads <= 1024, f"{threads} threads in a block")
        self._check(blocks * threads <= _MOST_THREADS, "more threads than can be tested")
        self._check(
            len(args) == len(self._types), f"{len(args)} arguments, it takes {len(self._types)}"
        )
        words = [word for at, value in enumerate(args) for word in self._words(at, value)]
        self._check_apart(args)
        self.driver.copies.check(f"kernel {self._name}", args)
        written = [
            number
            for kind, array in zip(self._types, args, strict=True)
            if isinstance(array, ndarray) and not kind.startswith("const ")
            for number in (array.data.ptr, array.nbytes)
        ]
        held = list(args)

        def run(poll: Callable[[], None] | None) -> None:
            told = self.driver.start(self._start, words, written, blocks, threads, poll)
            if told is not None:
                seed, what = told
                what = re.sub(r"<(\d+)>", lambda place: self._element(int(place[1]), held), what)
                message = compiler.with_places(what)
                raise HostFault(f"kernel {self._name} (seed {seed}): {message}")

        self.driver.queue(run)

    def _element(self, address: int, args: Sequence[Any]) -> str:
        """What is at an address."""
        for param, array in zip(self._params, args, strict=True):
            if isinstance(array, ndarray):
                at = address - array.data.ptr
                if 0 <= at < array.nbytes:
                    return f"{param}[{at // array.itemsize}]"
        return "an array of a block"

    def _check(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise HostFault(f"kernel {self._name}: {otherwise}")

    def _told(self, at: int) -> str:
        return f"argument {at + 1} ({self._params[at]}: {self._types[at]})"

    def _words(self, at: int, value: Any) -> tuple[int, int]:
        kind = self._types[at]
        if kind == "i64":
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            self._check(whole, f"{self._told(at)} is {value!r}")
            self._check(-(2**63) <= int(value) < 2**63, f"{self._told(at)} is {value}")
            return int(value) % 2**64, 0
        if kind == "bytes":
            self._check(isinstance(value, ndarray), f"{self._told(at)} is {type(value)}")
            bare = value.get_view()
            self._check(bare.flags.c_contiguous or bare.ndim == 1, f"{self._told(at)} has gaps")
            width = bare.strides[0] if bare.ndim == 1 and bare.size else 0
            gaps = max(0, width - bare.itemsize) * (bare.size - 1)
            return bare.ctypes.data, bare.nbytes + gaps
        if kind == "double":
            self._check(isinstance(value, float), f"{self._told(at)} is {value!r}")
            return int(np.float64(value).view(np.uint64)), 0
        self._check(isinstance(value, ndarray), f"{self._told(at)} is {type(value)}")
        array = np.asarray(value.get_view())
        mine = value.device == CURRENT.number == self.driver.number
        self._check(mine, f"{self._told(at)} is an array of device {value.device}")
        given = array.dtype.str[1:].replace("b1", "u1")
        self._check(
            given == kind.removeprefix("const "), f"{self._told(at)} is an array of {array.dtype}"
        )
        self._check(array.flags.c_contiguous, f"{self._told(at)} is not contiguous")
        return array.ctypes.data, array.size

    def _check_apart(self, args: Sequence[Any]) -> None:
        """Arrays are RESTRICT: what is written to through one is not seen through another."""
        spans = []
        for at, kind in enumerate(self._types):
            if kind in ("i64", "double", "bytes"):
                continue
            array = args[at].get_view()
            if array.nbytes:
                spans.append((array.ctypes.data, array.ctypes.data + array.nbytes, at))
        spans.sort()
        reach = -1, 0
        for start, stop, at in spans:
            if start < reach[0]:
                other = reach[1]
                written = not all(self._types[one].startswith("const ") for one in (at, other))
                self._check(not written, f"{self._told(at)} overlaps {self._told(other)}")
            reach = max(reach, (stop, at))


class HostCopies:
    """`CupyCopier` without a GPU: what is copied when, a seed says.

    A copy runs at some moment from its begin on: at the latest when somebody waits for it. So a
    buffer that is filled again too soon gives what it holds then. A kernel that is given an array
    before its copy has run is a fault. `fail_after`: when so many have been begun, one fails, by
    `failure`.
    """

    def __init__(self, driver: HostDriver, seed: int = 0) -> None:
        self.driver = driver
        self.begun = self.done = 0
        self.bytes = 0  # that have been copied
        self.fail_after: int | None = None
        self.failure: Exception = NoMemory("a copy to the GPU: cudaErrorMemoryAllocation")
        self.waiting: list[tuple[ndarray, int, Any]] = []
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def pinned(self, size: int) -> Any:
        return np.full(size, 0xAB, dtype=np.uint8)

    def after_kernels(self) -> None:
        self.driver.synchronize()

    def copy(self, there: ndarray, at: int, here: Any) -> None:
        bare = there.get_view()
        if not bare.flags.c_contiguous or at < 0 or at + here.nbytes > bare.nbytes:
            raise HostFault(f"a copy of {here.nbytes} bytes to byte {at} of {bare.nbytes}")
        with self._lock:
            if self.fail_after is not None and self.begun >= self.fail_after:
                self.fail_after = None
                raise self.failure
            self.begun += 1
            self.waiting.append((there, at, here))
            self._run(self.done + self._random.randint(0, len(self.waiting)))

    def copied(self) -> HostCopied:
        return HostCopied(self, self.begun)

    def check(self, who: str, args: Sequence[Any]) -> None:
        """That nobody reads what is still to come, and may or may not be there by now."""
        with self._lock:
            for there, _, _ in self.waiting:
                for array in args:
                    if isinstance(array, ndarray) and np.shares_memory(
                        array.get_view(), there.get_view()
                    ):
                        raise HostFault(f"{who} uses an array before its copy has ended")

    def _run(self, until: int) -> None:
        while self.done < until:
            there, at, here = self.waiting.pop(0)
            there.get_view().view(np.uint8)[at : at + here.nbytes] = here
            self.done += 1
            self.bytes += here.nbytes

    def run(self, until: int) -> None:
        with self._lock:
            self._run(until)


@dataclass(frozen=True)
class HostCopied:
    copies: HostCopies
    until: int

    def wait(self) -> None:
        self.copies.run(self.until)

    def before_kernels(self) -> None:
        self.copies.run(self.until)


class _Pinned(np.ndarray[Any, np.dtype[np.uint8]]):
    """Pinned memory, as CuPy tells of it."""

    def __new__(cls, held: np.ndarray[Any, Any]) -> _Pinned:
        return held.view(cls)

    @property
    def ptr(self) -> int:
        return self.ctypes.data


# What a stream runs: a kernel, which asks `poll`, or a copy to the host.
Queued = Callable[[Callable[[], None] | None], None]


class HostDriver:
    """`CupyDriver` without a GPU.

    `seed`: 0 runs each thread as far as it comes; others let threads take turns as they say, the
    same each time. Every launch adds one to it, if it is not 0. `yields` and `accesses`: the share
    of atomics (and the like), and of accesses to arrays, at which another thread goes on. `blocks`:
    how many are said to be resident. `races`: accesses that nothing orders are faults. `step`:
    nanoseconds of the kernels' clock from one atomic to the next. `patience`: how many of them a
    launch may come to, `seconds`: how long it may take. `polls`, if it is not 0: launches wait for
    `wait`, which asks its `poll` each time that a kernel has come to so many atomics. `number`:
    which of several devices it is. `loops`: whether graphs may repeat launches. `own_arrays`: its
    `xp` is the real array module, and runs its kernels; else it is the stand-in, which is quicker.
    """

    clock = 1.0
    compiles_ahead = False  # g++ takes seconds

    def __init__(
        self,
        seed: int = 0,
        *,
        blocks: int = 2,
        races: bool = False,
        number: int = 0,
        own_arrays: bool = False,
    ) -> None:
        self.number, self.name = number, f"cuda:{number}"
        self.seed = seed
        self.races = races
        self.xp: Any = own_module(self) if own_arrays else xp
        self.yields = 0.25
        self.accesses = 0.02
        self.blocks = blocks
        self.room = 40 << 10  # bytes of shared memory that a block may ask for
        self.step = 100
        self.patience = 20_000_000
        self.seconds = 60.0
        self.memory = 1 << 30
        self.relief = lambda: None  # nothing is ever short here
        self.spins = True
        self.polls = 0
        self.loops = True
        self.pending: list[Queued] = []
        self.noted: list[Queued] | None = None  # what is launched, while it is recorded
        # What the last launch did, and how many there were.
        self.launches = self.recordings = 0
        self.passed = self.switches = 0
        self.copies = HostCopies(self, seed)
        self.virtual = pages.HostMemory(PAGE)
        memory = pages.GuardedMemory()
        self.arena: Arena | None = Arena(memory, self.memory, pages.array, lambda: self.relief())

    def copier(self) -> HostCopies:
        return self.copies

    def is_stored(self, source: str) -> bool:
        return False

    def scan(self, array: Any) -> None:
        bare = array.read()
        np.cumsum(bare, out=bare)

    def prepare(self) -> None:
        """g++ takes seconds."""

    def use(self) -> AbstractContextManager[None]:
        """Arrays of others cannot be read within."""
        return working_on(self.number)

    def copied(self, array: Any) -> Any:
        own = isinstance(self.xp, ArrayModule)
        return self.xp.copy(array) if own else array.copy()

    def kernels(self, source: str, names: Sequence[str], told: str) -> dict[str, HostKernel]:
        """Compiles a source, or finds it compiled."""
        params = {name: parameters(source, name) for name in names}
        lines = ['#include "host.hpp"', '#line 1 "kernel"', source]
        for name in names:
            quoted = "".join(f', "{param}"' for param in params[name]) or ', ""'
            lines.append(f"GD_LAUNCHED({name}{quoted})")
        runs = compiler.fibers()
        runs.gd_launch.restype = ctypes.c_char_p
        try:
            made = ctypes.CDLL(str(compiler.kernels("\n".join(lines) + "\n", self.races)))
        except compiler.CannotCompile as error:
            raise HostFault(f"{told}: {error}") from None
        kernels: dict[str, HostKernel] = {}
        for name in names:
            found = (ctypes.c_char_p * 1024)()
            count = made[f"gd_types_{name}"](found)
            types = [(found[i] or b"").decode() for i in range(count)]
            start = ctypes.cast(made[f"gd_start_{name}"], ctypes.c_void_p)
            kernels[name] = HostKernel(self, name, types, params[name], start)
        return kernels

    def start(
        self,
        start: Any,
        words: list[int],
        written: list[int],
        blocks: int,
        threads: int,
        poll: Callable[[], None] | None,
    ) -> tuple[int, str] | None:
        """One launch. If it fails: its seed, and what `fibers.cpp` says.

        `written`: address and bytes of each array that the kernel may write to.
        """
        given = (ctypes.c_uint64 * max(len(words), 1))(*words)
        settings = _Settings(
            seed=self.seed,
            yields=self.yields,
            accesses=self.accesses,
            step=self.step,
            patience=self.patience,
            seconds=self.seconds,
            polls=self.polls,
        )
        if poll is not None:
            settings.poll = _POLL(poll)
        if self.races:
            settings.written = (ctypes.c_uint64 * max(len(written), 1))(*written)
            settings.written_count = len(written) // 2
        with _ONE:
            told = compiler.fibers().gd_launch(
                start, given, blocks, threads, ctypes.byref(settings)
            )
        self.launches += 1
        self.passed, self.switches = settings.passed, settings.switches
        seed, self.seed = self.seed, self.seed + 1 if self.seed else 0
        return None if told is None else (seed, told.decode())

    @property
    def page(self) -> int:
        return self.virtual.page

    def pages(self, size: int) -> VirtualPages | PinnedPages:
        """All of it in host memory, if pages are of no bytes."""
        if not self.page:
            held = _Pinned(np.full(size, 0xAB, dtype=np.uint8))
            return PinnedPages(held, size, pages.array, HostCopied(self.copies, 0))
        copied = partial(HostCopied, self.copies, 0)
        return VirtualPages(self.virtual, size, pages.copy, pages.array, copied)

    def fetched(self, array: Any) -> Any:
        return array.get()

    def clear(self, array: Any) -> None:
        self.queue(lambda poll: array.fill(0))

    def write(self, array: Any, values: Any) -> None:
        array.set(values)

    def free_memory(self) -> int:
        return self.memory

    def release(self) -> None:
        """NumPy's memory is let go of at once; not that of the arena."""
        if self.arena is not None:
            self.arena.release()

    def queue(self, run: Queued) -> None:
        """Runs this now; with `polls`, when somebody waits."""
        if self.noted is not None:
            self.noted.append(run)
        self.pending.append(run)
        if not self.polls:
            self.synchronize()

    def synchronize(self) -> None:
        """Runs what `polls` has put off."""
        self._run(None)

    def _run(self, poll: Callable[[], None] | None, last: Queued | None = None) -> None:
        """Runs what is queued, up to the `last`."""
        while self.pending:
            run = self.pending.pop(0)
            run(poll)
            if run is last:
                break

    def recorded(self, launch: Callable[[], None]) -> Callable[[], None]:
        """A graph has the arguments that launches had when it was made."""
        self.recordings += 1
        held, self.pending, polls, self.polls = self.pending, [], self.polls, 1
        COUNTER.recording += 1
        try:
            launch()
        finally:
            COUNTER.recording -= 1
            runs, self.pending, self.polls = self.pending, held, polls

        def again() -> None:
            for run in runs:
                self.queue(lambda poll, run=run: run(poll))  # each is one of its own

        return again

    def recorded_apart(self, launch: Callable[[], None]) -> tuple[Callable[[], None], int]:
        """The launches hold the arrays. They run, too: functions of arrays read what they write."""
        runs: list[Queued] = []
        self.recordings += 1
        self.noted = runs
        COUNTER.recording += 1
        try:
            launch()
        finally:
            COUNTER.recording -= 1
            self.noted = None

        def again() -> None:
            for run in runs:
                self.queue(lambda poll, run=run: run(poll))  # each is one of its own

        return again, 0

    def looped(self, launch: Callable[[], None], words: Any, at: int) -> Callable[[], None] | None:
        if not self.loops:
            return None
        recorded = self.recorded(launch)

        def repeat(poll: Callable[[], None] | None) -> None:
            held, self.pending, polls, self.polls = self.pending, [], self.polls, 1
            while words.get_view()[at]:
                recorded()
                self._run(poll)
            self.pending, self.polls = held, polls

        return lambda: self.queue(repeat)

    def side_by_side(self, branches: Sequence[Callable[[], None]]) -> None:
        """One after the other, in an order that the seed says."""
        for launch in random.Random(self.seed).sample(branches, len(branches)):
            launch()

    def reader(self, arrays: Sequence[Any]) -> HostReader:
        return HostReader(self, arrays)

    def reading(self, arrays: Sequence[Any]) -> HostReading:
        found: list[Any] = []

        def read(poll: Callable[[], None] | None) -> None:
            found.extend(np.array(array.get_view()) for array in arrays)

        for array in arrays:
            array.read()  # an array of another device is an error at once
        self.queue(read)
        return HostReading(read, found)

    def ended(self, reading: HostReading) -> bool:
        """Kernels run when somebody waits for them."""
        return True

    def wait(
        self,
        poll: Callable[[], None],
        flags: Any,
        places: Sequence[int],
        stop: int,
        reading: HostReading,
    ) -> list[Any]:
        """With `polls`, `poll` is asked while the kernels run, too."""
        asked: list[BaseException] = []

        def ask() -> None:
            try:
                if not asked:
                    poll()
            except BaseException as problem:
                asked.append(problem)
                for at in places:
                    flags.get_view()[at] = stop

        if len(self.pending) < 2:  # no kernel
            ask()
        if reading.run in self.pending:
            self._run(ask, reading.run)
        if asked:
            raise asked[0]
        if reading.found:
            waits()  # once for all
        return reading.found


@dataclass(frozen=True)
class HostReader:
    """Arrays that are read again and again."""

    driver: HostDriver
    arrays: Sequence[Any]

    def copy(self) -> None:
        """They are copied when they are read."""

    def begin(self) -> HostReading:
        return self.driver.reading(self.arrays)


@dataclass(frozen=True)
class HostReading:
    """Arrays that are copied when the kernels before have run."""

    run: Queued
    found: list[Any]
