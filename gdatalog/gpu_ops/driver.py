"""What runs kernels: CuPy on a GPU. Tests put another in its place, which needs none.

A driver compiles a source and launches what it names. Arrays are `xp`'s: CuPy's on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class Resources:
    """What one kernel takes, as the compiler says: registers, spilled bytes, shared bytes."""

    registers: int
    spilled: int
    shared: int


class Kernel(Protocol):
    """A compiled kernel."""

    @property
    def resources(self) -> Resources: ...

    def launch(self, blocks: int, threads: int, args: Sequence[Any]) -> None:
        """Starts `blocks` of so many `threads`; `args` are arrays, ints (64 bits) and floats."""
        ...

    def resident(self, threads: int) -> int:
        """How many blocks of so many threads the whole device runs at once."""
        ...


class Copied(Protocol):
    """A moment of the stream of copies: all that was begun before it has been copied."""

    def wait(self) -> None:
        """Waits for it, on the host."""
        ...

    def before_kernels(self) -> None:
        """What is launched from now on waits for it, on the device."""
        ...


class Copier(Protocol):
    """Copies from the host to the device, in a stream of their own, beside what runs there.

    Another thread than the one that launches may begin them.
    """

    def pinned(self, size: int) -> Any:
        """A buffer of the host that the device can read: NumPy's, of so many bytes."""
        ...

    def after_kernels(self) -> None:
        """What is copied from now on waits for all that has been launched."""
        ...

    def copy(self, there: Any, at: int, here: Any) -> None:
        """Begins to copy a pinned buffer's bytes to an array, from its byte `at` on."""
        ...

    def copied(self) -> Copied:
        """The moment when all is copied that has been begun by now."""
        ...


class Pages(Protocol):
    """A range of addresses that kernels read as any other memory, page by page in the host's memory
    or in the device's. It goes with the last array of it. `page`: the bytes of a page; `count`: how
    many there are; `placed`: those on the device, by number."""

    page: int
    count: int

    @property
    def placed(self) -> frozenset[int]: ...

    def array(self, at: int, length: int, dtype: Any) -> Any:
        """An array in it, from its byte `at` on."""
        ...

    def write(self, at: int, here: Any) -> Copied:
        """Begins to write a pinned buffer's bytes, from its byte `at` on. What is launched later
        reads them. Whole words are written: no array may begin in what fills up the last one."""
        ...

    def place(self, wanted: Collection[int]) -> None:
        """Has these pages on the device from now on, as far as the driver can do that, and all
        others on the host. Their contents and addresses stay. Waits for all kernels."""
        ...


class Driver(Protocol):
    """`xp`: NumPy's functions on this device's arrays."""

    name: str  # "cuda:0"
    clock: float  # ticks of kernels' clocks in a nanosecond, roughly
    xp: Any
    # Lets go of memory that is not in use. Where an allocation fails it is called, and the
    # allocation tried once more.
    relief: Callable[[], None]
    # Whether a thread that waits for a short kernel looks at it all the time. Where several threads
    # wait, each would keep the others from starting theirs.
    spins: bool

    @property
    def page(self) -> int:
        """The bytes of a page that can be placed on the device; 0 where none can."""
        ...

    def use(self) -> AbstractContextManager[None]:
        """Within, this thread works on this device."""
        ...

    def copied(self, array: Any) -> Any:
        """A copy, on this device, of an array of another one that this driver's kind has made.

        The other device has made it by then (`synchronize`), and keeps it until this one has its
        copy (`synchronize`, too).
        """
        ...

    def kernels(self, source: str, names: Sequence[str], label: str) -> dict[str, Kernel]:
        """The kernels of a source, compiled (or from a cache); `label`: what it is of, for errors.

        The source is whole: what it includes has been put in its place (`launching.py`).
        """
        ...

    def copier(self) -> Copier:
        """A stream of copies of its own."""
        ...

    def pages(self, size: int) -> Pages:
        """A range of so many bytes, all of it in the host's memory at first."""
        ...

    def fetched(self, array: Any) -> Any:
        """The array as NumPy's: a large one by pinned buffers, which is several times as fast."""
        ...

    def free_memory(self) -> int:
        """Bytes that could be taken now."""
        ...

    def release(self) -> None:
        """Gives the system back what memory has been let go of."""
        ...

    def wait(self, poll: Callable[[], None], flags: Any, at: int, stop: int) -> None:
        """Waits for what has been launched, and calls `poll` now and then.

        If that raises, the kernels are asked for an end, by `flags[at] = stop` while they run.
        """
        ...

    def synchronize(self) -> None:
        """Waits for all that has been launched; tells errors of kernels."""
        ...
