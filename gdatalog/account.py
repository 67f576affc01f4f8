"""Accounting of an evaluation's memory by owner, against a limit.

An owner charges an array (a large one before it creates it), and returns the charge when it frees
the array. An operation charges its working space, what a sort or merge needs besides its input,
while it runs. So the sum of the charges bounds the memory of the process at any time.

"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from gdatalog.errors import MemoryLimitError
from gdatalog.progress import format_bytes
from gdatalog.values import shown_name

if TYPE_CHECKING:
    from gdatalog.storage.spill import Spill


UNLIMITED = 1 << 40
FILES = 64  # spilled arrays have at least 1/64 of the limit, which bounds the number of files
SMALL = 1 << 20  # bytes: smaller working space is not charged
TRIM = 32  # allocations above 1/32 of the limit return free memory to the system first
MUCH = 1 << 24  # bytes: less free memory of the allocator is not worth returning
LARGE = 1 << 22  # bytes: the allocator maps larger arrays separately
ARENAS = 2  # arenas of the allocator: few, so that threads reuse each other's freed memory
# Parameter numbers of mallopt.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_NOTHING = nullcontext()
TEXTS = "texts"  # owner of the texts that an evaluation creates
OTHERS = "other calls"  # owner of the bytes of evaluations at the same time
SHARED = ("index of ", "codes of ")  # owners of what evaluations share
FILE_TEXTS = "texts of files"  # owner of the texts read from files
RAISE = "raise the limit: gdatalog.connect(memory_limit=...) or --memory-limit"


def default_limit() -> int:
    """Most of the machine's memory."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        total = 8 << 30
    return int(total * 0.8)


class Account:
    """Bytes charged, by owner. `memory`: the limit in bytes, or None.

    `spill`: where rows beyond the limit go; None: exceeding it raises an error.

    `beside`: those of evaluations at the same time, whose bytes count against the limit, too.

    Thread-safe.
    """

    __slots__ = ("_lock", "beside", "held", "high", "memory", "peak", "spill", "total")

    def __init__(self, memory: int | None = None, spill: Spill | None = None) -> None:
        self.memory = memory
        self.spill = spill
        self.beside: Accounts | None = None
        self.held: dict[str, int] = {}
        self.total = 0  # bytes in use: the sum of `held`
        self.peak = 0
        self.high = 0  # the peak since the last call of `highest`
        self._lock = Lock()

    def spare(self) -> int:
        """How many more bytes may be used."""
        return UNLIMITED if self.memory is None else max(0, self.memory - self.total - self.others)

    @property
    def others(self) -> int:
        """The bytes in use by other evaluations. An index that this one reads too counts once."""
        running = () if self.beside is None else self.beside.running
        found = 0
        for account in running:
            if account is not self:
                for what, size in list(account.held.items()):
                    shared = what.startswith(SHARED)
                    found += max(0, size - self.held.get(what, 0)) if shared else size
        return found

    def spill_for(self, count: int) -> Spill | None:
        """The spill for an allocation that does not fit into memory; None if it fits."""
        spill = self.spill
        if spill is None or count < spill.least:
            return None
        return spill if spill.always or count > self.spare() else None

    def spill_half(self, count: int) -> Spill | None:
        """The spill for these bytes if half of the limit is in use: later steps need memory,
        too."""
        spill = self.spill
        if spill is None or count < spill.least:
            return None
        if spill.always:
            return spill
        if self.memory is None or count < self.memory // FILES:
            return None
        return spill if 2 * (self.total + self.others) > self.memory else None

    def highest(self) -> int:
        """The peak of bytes in use since the last call."""
        now = self.total
        most, self.high = max(self.high, now), now
        return most

    def charge(self, what: str, count: int) -> None:
        """Sets the bytes of `what`; raises an error if all owners together exceed the limit."""
        if self.held.get(what, 0) == count:
            return
        with self._lock:
            self.total += count - self.held.get(what, 0)
            self.held[what] = count
        self._check()

    def add(self, what: str, count: int) -> None:
        """Adds to the bytes of `what`, or subtracts from them."""
        with self._lock:
            before = self.held.get(what, 0)
            self.held[what] = after = max(0, before + count)
            self.total += after - before
        if count > 0:
            self._check()

    def rename(self, what: str, name: str) -> None:
        """Moves the charge of `what` to another owner."""
        with self._lock:
            count = self.held.pop(what, 0)
            self.total -= count
        self.charge(name, count)

    def tidy(self, count: int) -> None:
        """Called before large allocations and after large releases: returns the allocator's free
        memory to the system if it is much."""
        if self.memory is not None and TRIM * count > self.memory:
            trim()

    @contextmanager
    def taking(self, what: str, count: int) -> Iterator[None]:
        """Charges working space within this context; raises an error if it does not fit."""
        self.tidy(count)
        try:
            self.add(what, count)
            yield
        finally:
            self.add(what, -count)

    def working(self, what: str, count: int) -> AbstractContextManager[None]:
        """Like `taking`, but a small amount is not charged."""
        return _NOTHING if count < SMALL else self.taking(what, count)

    @contextmanager
    def giving_back(self, *names: str) -> Iterator[None]:
        """Restores the charges of these owners at the end of this context."""
        before = {name: self.held.get(name, 0) for name in names}
        try:
            yield
        finally:
            with self._lock:
                self._restore({**self.held, **before})

    @contextmanager
    def other_limit(self, memory: int) -> Iterator[None]:
        """Applies another limit within this context, for another kind of memory. Restores all
        charges at the end."""
        with self._lock:
            before, own, peak = dict(self.held), self.memory, self.peak
            beside, self.beside, self.memory = self.beside, None, memory
        try:
            yield
        finally:
            with self._lock:
                self._restore(before)
                self.memory, self.beside = own, beside
                self.peak = max(peak, self.peak if own is None else min(self.peak, own))
                self.high = self.total

    @contextmanager
    def restoring(self, *errors: type[BaseException]) -> Iterator[None]:
        """Restores the charges if one of these errors ends the context."""
        with self._lock:
            before = dict(self.held)
        try:
            yield
        except errors:
            self.restore(before)
            raise

    def restore(self, held: dict[str, int]) -> None:
        """Sets the charges of all owners, to what they were before something that failed."""
        with self._lock:
            self._restore(held)

    def _restore(self, held: dict[str, int]) -> None:
        self.held, self.total = held, sum(held.values())

    def _check(self) -> None:
        with self._lock:
            most = total = self.total
            for account in () if self.beside is None else self.beside.running:
                most += 0 if account is self else account.total
            others = 0 if self.memory is None or most <= self.memory else self.others
            if self.memory is None or total + others <= self.memory:
                self.peak = max(self.peak, total)
                self.high = max(self.high, total)
                return
            held = {**self.held, OTHERS: others} if others else self.held
            parts = sorted(held.items(), key=lambda item: -item[1])
        owners = ", ".join(
            f"{shown_name(name)} {format_bytes(size)}" for name, size in parts[:4] if size
        )
        message = f"this needs more than the memory limit of {format_bytes(self.memory)} ({owners})"
        raise MemoryLimitError(message, hint=_instead(parts[0][0]) + RAISE)


class Accounts:
    """The accounts of the evaluations of a database that run now; they share its limit."""

    def __init__(self) -> None:
        self.running: tuple[Account, ...] = ()
        self._lock = Lock()

    def begin(self, account: Account) -> bool:
        """Notes that an evaluation with this account runs; returns whether it did not before."""
        if account in self.running:
            return False
        with self._lock:
            self.running = (*self.running, account)
        return True

    def end(self, account: Account) -> None:
        """Notes that it does not run any more."""
        with self._lock:
            self.running = tuple([each for each in self.running if each is not account])


@cache
def _allocator(name: str) -> Callable[..., int] | None:
    """A function of the C allocator, or None if it does not exist (glibc has them)."""
    import ctypes

    return getattr(ctypes.CDLL(None), name, None) if os.name == "posix" else None


def trim() -> None:
    """Returns the allocator's free memory to the system, if possible (glibc).

    Arrays that live for one chunk lie between longer-lived ones, so the allocator would keep the
    gaps that they leave.
    """
    found = _allocator("malloc_trim")
    if found is not None:
        found(0)


def trim_if_much() -> None:
    """Like `trim`, but only if much memory is free."""
    figures = _allocator_figures()
    if figures is not None and figures().fordblks >= MUCH:
        trim()


@cache
def _allocator_figures() -> Callable[[], Any] | None:
    """Returns the allocator's figures; None if unknown (glibc 2.33 or later has them)."""
    found = _allocator("mallinfo2")
    if found is None:
        return None
    import ctypes

    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    fields = [(name, ctypes.c_size_t) for name in names.split()]
    found.restype = type("mallinfo2", (ctypes.Structure,), {"_fields_": fields})  # type: ignore[attr-defined]  # made at run time
    return found


def free_at_once() -> None:
    """Makes the allocator return large freed arrays to the system at once (glibc).

    By default glibc raises its size limit whenever such an array is freed, up to 32 MiB, and each
    thread keeps smaller ones. Only for a process of our own.
    """
    found = _allocator("mallopt")
    if found is not None:
        found(_M_MMAP_THRESHOLD, LARGE)
        found(_M_TRIM_THRESHOLD, LARGE)
        found(_M_ARENA_MAX, ARENAS)


def _instead(most: str) -> str:
    """Suggests how to use less memory, by the largest owner."""
    if most in ("rows followed", "best values", OTHERS):
        return ""
    if most == TEXTS:
        return (
            "gdatalog keeps each different text that a query makes: let it make fewer or shorter "
            "ones; or "
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
