"""What an evaluation holds, by owner, against its memory limit.

Whoever holds an array charges it, before making it where it is large, and gives the charge back
with the array. Working space (what a sort or a merge needs beside its input) is charged while the
operation runs. So the sum of the charges bounds what the process holds at any time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

from gdatalog.errors import MemoryLimitError
from gdatalog.progress import format_bytes
from gdatalog.values import shown_name

if TYPE_CHECKING:
    from gdatalog.storage.spill import Spill

UNLIMITED = 1 << 40
FILES = 64  # so many files hold at least as much as the limit
SMALL = 1 << 20  # bytes of working space that are not worth an entry
TRIM = 32  # working space of such a part of the limit is worth a look at what could be given back
MUCH = 1 << 24  # bytes that the allocator has free, which are worth giving back
LARGE = 1 << 22  # bytes of an array that the allocator asks the system for by itself
ARENAS = 2  # of the allocator: what a thread has freed serves others
# As mallopt numbers what it sets.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_NOTHING = nullcontext()

TEXTS = "texts"  # the owner of those that an evaluation makes
FILE_TEXTS = "texts of files"  # the owner of those that are read
RAISE = "raise it: gdatalog.connect(memory_limit=...) or --memory-limit"


def default_limit() -> int:
    """Most of what the machine has."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        total = 8 << 30
    return int(total * 0.8)


class Account:
    """Charges by owner. `memory`: the most bytes that may be held; None: there is no limit.

    `spill`: where rows go that are more than the limit; None: they are an error.

    Threads may charge at the same time.
    """

    __slots__ = ("_lock", "_total", "held", "high", "memory", "peak", "spill")

    def __init__(self, memory: int | None = None, spill: Spill | None = None) -> None:
        self.memory = memory
        self.spill = spill
        self.held: dict[str, int] = {}
        self._total = 0  # of these
        self.peak = 0
        self.high = 0  # the most that was held since `highest` was called
        self._lock = Lock()

    @property
    def total(self) -> int:
        """How many bytes are held."""
        return self._total

    def spare(self) -> int:
        """How many more bytes may be held."""
        return UNLIMITED if self.memory is None else max(0, self.memory - self.total)

    def spill_for(self, count: int) -> Spill | None:
        """Where rows go of which so many more bytes have no room in memory; None if they have."""
        spill = self.spill
        if spill is None or count < spill.least:
            return None
        return spill if spill.always or count > self.spare() else None

    def spill_half(self, count: int) -> Spill | None:
        """Where so many bytes that are held go, if half of the limit is held: what comes after
        needs some of it."""
        spill = self.spill
        if spill is None or count < spill.least:
            return None
        if spill.always:
            return spill
        if self.memory is None or count < self.memory // FILES:
            return None
        return spill if 2 * self.total > self.memory else None

    def highest(self) -> int:
        """The most bytes that were held since the last call of this."""
        now = self.total
        most, self.high = max(self.high, now), now
        return most

    def charge(self, what: str, count: int) -> None:
        """`what` holds so many bytes now; raises if all owners together exceed the limit."""
        with self._lock:
            self._total += count - self.held.get(what, 0)
            self.held[what] = count
        self._check()

    def add(self, what: str, count: int) -> None:
        """`what` holds so many bytes more than before, or fewer."""
        with self._lock:
            before = self.held.get(what, 0)
            self.held[what] = after = max(0, before + count)
            self._total += after - before
        if count > 0:
            self._check()

    def rename(self, what: str, name: str) -> None:
        """Another owner holds from now on what `what` held."""
        with self._lock:
            count = self.held.pop(what, 0)
            self._total -= count
        self.charge(name, count)

    def tidy(self, count: int) -> None:
        """So many bytes are about to be held, or have been freed: where these are many, what the
        allocator keeps goes back to the system."""
        if self.memory is not None and TRIM * count > self.memory:
            trim()

    @contextmanager
    def taking(self, what: str, count: int) -> Iterator[None]:
        """Charges working space until the block ends; raises before it if that does not fit."""
        self.tidy(count)
        try:
            self.add(what, count)
            yield
        finally:
            self.add(what, -count)

    def working(self, what: str, count: int) -> AbstractContextManager[None]:
        """The same, of which a little is free."""
        return _NOTHING if count < SMALL else self.taking(what, count)

    @contextmanager
    def giving_back(self, *names: str) -> Iterator[None]:
        """When the block ends these owners hold what they held before it."""
        before = [(name, self.held.get(name, 0)) for name in names]
        try:
            yield
        finally:
            with self._lock:
                self.held.update(before)
                self._total = sum(self.held.values())

    @contextmanager
    def other_limit(self, memory: int) -> Iterator[None]:
        """Within, so many bytes may be held, which are not all of the memory that the limit is of.
        What is charged within is given back at the end."""
        with self._lock:
            before, own, peak = dict(self.held), self.memory, self.peak
            self.memory = memory
        try:
            yield
        finally:
            with self._lock:
                self.held.clear()
                self.held.update(before)
                self._total = sum(self.held.values())
                self.memory = own
                self.peak = max(peak, self.peak if own is None else min(self.peak, own))
                self.high = self._total

    @contextmanager
    def restoring(self, *errors: type[BaseException]) -> Iterator[None]:
        """If one of these errors ends the block, whatever it charged is given back."""
        with self._lock:
            before = dict(self.held)
        try:
            yield
        except errors:
            with self._lock:
                self.held.clear()
                self.held.update(before)
                self._total = sum(self.held.values())
            raise

    def _check(self) -> None:
        with self._lock:
            total = self._total
            if self.memory is None or total <= self.memory:
                self.peak = max(self.peak, total)
                self.high = max(self.high, total)
                return
            parts = sorted(self.held.items(), key=lambda item: -item[1])
        owners = ", ".join(
            f"{shown_name(name)} {format_bytes(size)}" for name, size in parts[:4] if size
        )
        raise MemoryLimitError(
            f"this needs more than the memory limit of {format_bytes(self.memory)} ({owners})",
            hint=_instead(parts[0][0]) + RAISE,
        )


@cache
def _allocator(name: str) -> Callable[..., int] | None:
    """A function of the allocator's; None where there is none such (glibc has them)."""
    import ctypes

    return getattr(ctypes.CDLL(None), name, None) if os.name == "posix" else None


def trim() -> None:
    """Gives the memory that the allocator has free back to the system, where it can (glibc).

    Arrays of a chunk lie between those that stay. What they leave would be held for long.
    """
    found = _allocator("malloc_trim")
    if found is not None:
        found(0)


def trim_if_much() -> None:
    """The same, if that is much."""
    free = _free()
    if free is not None and free() >= MUCH:
        trim()


@cache
def _free() -> Callable[[], int] | None:
    """How many bytes the allocator has free; None where there is no telling (glibc 2.33 tells)."""
    found = _allocator("mallinfo2")
    if found is None:
        return None
    import ctypes

    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    fields = [(name, ctypes.c_size_t) for name in names.split()]
    found.restype = type("mallinfo2", (ctypes.Structure,), {"_fields_": fields})  # type: ignore[attr-defined]
    return lambda: found().fordblks  # type: ignore[attr-defined]


def free_at_once() -> None:
    """From now on the memory of a large array that is freed goes back to the system (glibc).

    By default glibc raises the size from which it does so whenever such an array is freed, up to
    32 MiB, and each thread keeps what it frees below that, where no other can use it. This is for a
    process of our own.
    """
    found = _allocator("mallopt")
    if found is not None:
        found(_M_MMAP_THRESHOLD, LARGE)
        found(_M_TRIM_THRESHOLD, LARGE)
        found(_M_ARENA_MAX, ARENAS)


def _instead(most: str) -> str:
    """What may need less, by what holds the most."""
    if most in ("rows followed", "best values"):
        return ""
    if most == TEXTS:
        return (
            "each different text that a query makes is kept: let it make fewer or shorter ones; or "
        )
    if most == FILE_TEXTS:
        return (
            "each different text of a file stays in memory: read only the columns that are needed, "
            "columns=[...]; or "
        )
    if most.startswith("index of "):
        name = most.removeprefix("index of ")
        return f"a rule that keeps the columns of {name} that are needed makes a smaller one; or "
    return (
        "where the rows are only counted or summed up, let the rule do it: "
        "`count()`, `sum(x)`, `min(x)` keep no rows; or "
    )
