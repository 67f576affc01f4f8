"""The interface to a GPU, and its kernels, compiled on first use. CuPy implements it; tests have an
implementation without a GPU.

A driver compiles a source and launches its kernels, as many blocks as a size needs. Arrays are
`xp`'s: CuPy's on a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

from gdatalog.account import spending
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of a kernel, as the compiler reports them: registers, spilled bytes, shared
    bytes."""

    registers: int
    spilled: int
    shared: int


class Kernel(Protocol):
    """A compiled kernel."""

    @property
    def resources(self) -> Resources: ...

    def launch(self, blocks: int, threads: int, args: Sequence[Any]) -> None:
        """Launches `blocks` blocks of `threads` threads; `args` are arrays, ints (64 bits) and
        floats."""

    def resident(self, threads: int) -> int:
        """How many blocks of `threads` threads the whole device runs at once."""


class Copied(Protocol):
    """A point in the stream of copies, reached when all earlier copies are done."""

    def wait(self) -> None:
        """Waits for it on the host."""

    def before_kernels(self) -> None:
        """Makes later kernels wait for it on the device."""


class Copier(Protocol):
    """Copies from the host to the device in a stream of their own, while kernels run.

    They may be started by another thread than the one that launches kernels.
    """

    def pinned(self, size: int) -> Any:
        """A pinned host buffer of `size` bytes, as a NumPy array."""

    def after_kernels(self) -> None:
        """Makes later copies wait for all kernels launched so far."""

    def copy(self, there: Any, at: int, here: Any) -> None:
        """Starts copying a pinned buffer into an array, from the array's byte `at` on."""

    def copied(self) -> Copied:
        """The point when all copies started so far are done."""


class Pages(Protocol):
    """A range of addresses that kernels read like other memory; each page is in the host's memory
    or the device's. It is freed with its last array. `page`: the bytes of a page; `count`: the
    number of pages; `placed`: the numbers of the pages on the device."""

    page: int
    count: int

    @property
    def placed(self) -> frozenset[int]: ...

    def array(self, at: int, length: int, dtype: Any) -> Any:
        """An array in the range, from byte `at` on."""

    def write(self, at: int, here: Any) -> Copied:
        """Starts writing a pinned buffer to the range, from byte `at` on. Kernels launched later
        read it. Whole words are written: no other array may begin in the padding of the last word.
        """

    def place(self, wanted: Collection[int]) -> None:
        """Moves these pages to the device, as far as the driver can, and all others to the host.
        Contents and addresses stay. Waits for all kernels."""


class Driver(Protocol):
    """`xp`: NumPy's functions on this device's arrays."""

    name: str  # "cuda:0"
    clock: float  # ticks of the kernels' clock in a nanosecond, roughly
    xp: Any
    # Frees unused memory. Called when an allocation fails, which is then retried once.
    relief: Callable[[], None]
    # Whether a thread that waits for a short kernel polls without sleeping. With several waiting
    # threads, each would keep the others from launching.
    spins: bool

    @property
    def page(self) -> int:
        """The bytes of a page that can be placed on the device; 0 if none can."""

    def use(self) -> AbstractContextManager[None]:
        """Makes this device current in this thread."""

    def copied(self, array: Any) -> Any:
        """Copies an array of another device with the same kind of driver to this device.

        Before, the other device must have finished the array (`synchronize`). It must keep the
        array until this device has its copy (`synchronize`, too).
        """

    def kernels(self, source: str, names: Sequence[str], label: str) -> dict[str, Kernel]:
        """The kernels of a source, compiled or from a cache; `label`: their rule, for errors.

        The source includes nothing: `__init__.py` has expanded it.
        """

    def copier(self) -> Copier:
        """A new stream of copies."""

    def pages(self, size: int) -> Pages:
        """A range of `size` bytes, at first all in the host's memory."""

    def fetched(self, array: Any) -> Any:
        """The array as a NumPy array; a large one through pinned buffers, several times as fast."""

    def free_memory(self) -> int:
        """The bytes that can be allocated now."""

    def release(self) -> None:
        """Returns unused memory to the system."""

    def wait(self, poll: Callable[[], None], flags: Any, at: int, stop: int) -> None:
        """Waits for all launched kernels, and calls `poll` now and then.

        If `poll` raises, `flags[at] = stop` asks the running kernels to end.
        """

    def synchronize(self) -> None:
        """Waits for all launched kernels and raises their errors."""


# Compiles kernels on first use, and launches as many blocks as a size needs.


THREADS = 256  # of a block, as in search.cuh
EACH = 4  # entries of a thread in a tile, as in search.cuh
TILE = EACH * THREADS  # entries that a block takes at a time
_TYPES = {"int32": "i32", "int64": "i64", "float64": "double", "uint8": "u8"}


def type_of(array: Any) -> str:
    """What kernels call the type of an array's entries."""
    return _TYPES[str(array.dtype)]


class Kernels:
    """The kernels of one driver, each compiled on first use."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._known: dict[tuple[str, str], Kernel] = {}
        self._resident: dict[tuple[str, str], int] = {}

    def launch(
        self, text: str, name: str, types: dict[str, str], size: int, args: Sequence[Any]
    ) -> None:
        """Launches blocks for `size` entries, TILE of them each, but no more than run at once.

        `types` defines the type names that the text leaves open.
        """
        lines = [f"#define {alias} {kind}\n" for alias, kind in types.items()]
        key = "".join([*lines, text]), name
        kernel = self._known.get(key)
        if kernel is None:
            with spending("compiling"):
                kernel = self.driver.kernels(whole(key[0]), [name], f"the kernel {name}")[name]
            self._known[key] = kernel
            self._resident[key] = kernel.resident(THREADS)
        blocks = max(1, min(-(-size // TILE), self._resident[key]))
        kernel.launch(blocks, THREADS, args)


# Sources with their includes expanded.


_INCLUDE = re.compile(r'^#include "(\w+\.cuh)"\n', re.MULTILINE)


@cache
def _file(name: str) -> str:
    return (files("gdatalog.gpu_ops") / "kernels" / name).read_text(encoding="utf-8")


def whole(text: str) -> str:
    """A source with each file that it includes in its place, once."""
    seen: set[str] = set()

    def put(found: re.Match[str]) -> str:
        name = found[1]
        if name in seen:
            return ""
        seen.add(name)
        return _INCLUDE.sub(put, _file(name).replace("#pragma once\n", ""))

    return _INCLUDE.sub(put, text)


def source_of(name: str) -> str:
    """A file of `kernels/` with its includes expanded."""
    return whole(f'#include "{name}"\n')
