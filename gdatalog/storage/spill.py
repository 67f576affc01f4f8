"""Columns in temporary files, for data that exceeds the memory limit.

A column is written piece by piece to an unnamed file, so that nothing is left behind however the
process ends, and is memory-mapped when it is complete. The operating system caches as much of it as
fits, so the column is not charged to the account of memory (`held_bytes`). Its bytes on the disk
are charged to the `Spill` while the file exists, against the limit of temporary files.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import IO, Protocol

import numpy as np
from numpy.typing import DTypeLike

from gdatalog.errors import MemoryLimitError
from gdatalog.progress import format_bytes
from gdatalog.storage.load_options import FilePath
from gdatalog.storage.table import Array

LARGE_FILES = "/var/tmp"  # on a disk, also on systems that keep /tmp in memory
LEAST_BYTES, LEAST_ROWS = 1 << 20, 1 << 12
SHORT = 1 << 16  # bytes of a column that stays in memory
BUFFER = 1 << 20  # bytes of one write
STRETCH = 1 << 18  # values in one batch of widening
LOOK = 1 << 26  # bytes between two checks of the free space
KEPT_FREE = 0.05  # share of the disk that is left free
TIMES = 16  # default limit of temporary files, in memory limits

RAISE = (
    "raise the limits: gdatalog.connect(memory_limit=..., temp_limit=...) or --memory-limit and "
    "--temp-limit"
)


class Spill:
    """A folder for temporary files, and the bytes of those that exist, against a limit."""

    def __init__(
        self,
        folder: FilePath | None = None,
        least: int = LEAST_BYTES,
        run: int = LEAST_ROWS,
        short: int = SHORT,
        always: bool = False,
        memory: int | None = None,
        limit: int | None = None,
    ) -> None:
        """`folder`: None is the system's folder for large temporary files. `least`: fewer bytes
        stay in memory. `run`: the least rows that are sorted at a time. `short`: a column with at
        most so many bytes stays in memory, instead of a file of its own. `always`: everything goes
        to files, in the shortest runs, for tests. `limit`: the most bytes of all files together;
        by default a multiple of the `memory` limit, at most half of the free space."""
        self.folder = os.fspath(folder) if folder is not None else default_folder()
        self.least = least
        self.run = run
        self.short = short
        self.always = always
        self.memory = memory
        self.written = 0  # bytes, of deleted files too
        self._used = 0  # bytes of the files that exist, and of those in `_freed`
        self._given = limit
        self._most: int | None = None  # the limit that applies until the next look at the disk
        self._growing: list[float] = []  # the limits of recursions that make new values
        # Sizes of deleted files. A file may be deleted while this thread holds the lock.
        self._freed: deque[int] = deque()
        self._lock = Lock()

    @property
    def used(self) -> int:
        """The bytes of the files that exist."""
        with self._lock:
            self._take_back()
            return self._used

    @property
    def limit(self) -> int:
        """The most bytes of all temporary files together."""
        if self._given is not None:
            return self._given
        half = (shutil.disk_usage(self.folder).free + self._used) // 2
        return half if self.memory is None else min(TIMES * self.memory, half)

    @contextmanager
    def growing(self) -> Iterator[None]:
        """Within this context, a recursion that makes new values may write as much as the memory
        limit, unless a limit of temporary files was given."""
        if self._given is not None or self.memory is None:
            yield
            return
        limit = self.used + self.memory
        self._growing.append(limit)
        try:
            yield
        finally:
            self._growing.remove(limit)

    def column(self, dtype: DTypeLike) -> SpilledColumn:
        """A new, empty column."""
        return SpilledColumn(self, np.dtype(dtype))

    def columns(self, dtypes: Iterable[DTypeLike]) -> SpilledRows:
        """New, empty columns of rows."""
        return SpilledRows([self.column(dtype) for dtype in dtypes])

    def rows(self, blocks: Sequence[tuple[Array, ...]]) -> tuple[Array, ...]:
        """The rows of all blocks, in files."""
        dtypes = [np.result_type(*parts) for parts in zip(*blocks, strict=True)]
        return gathered(blocks, dtypes, self)

    def joined(self, parts: Sequence[Array], dtype: np.dtype[np.generic]) -> Array:
        """The parts of a column, in one file."""
        column = self.column(dtype)
        for part in parts:
            for start in range(0, len(part), STRETCH):
                column.append(part[start : start + STRETCH].astype(dtype, copy=False))
        return column.finish()

    def zeros(self, length: int, dtype: DTypeLike) -> Array:
        """An array of zeros in a file, which can be changed in place."""
        dtype = np.dtype(dtype)
        size = length * dtype.itemsize
        if not size:
            return np.zeros(length, dtype=dtype)
        charge = Charge(self)
        try:
            charge.add(size)
            with _unnamed(self.folder) as file:
                _reserve(file, size)
                return _mapped(file, dtype, length, charge, writable=True)
        except OSError as error:
            raise self.failed(error) from error

    def count(self, written: int) -> None:
        """Charges a write of so many bytes; raises if the limit is met or the disk almost full."""
        with self._lock:
            self._take_back()
            looked = self.written // LOOK if self._most is not None else -1
            if (self.written + written) // LOOK != looked:
                disk = shutil.disk_usage(self.folder)
                if disk.free - written < KEPT_FREE * disk.total:
                    raise OSError(errno.ENOSPC, f"only {format_bytes(disk.free)} are free")
                self._most = self.limit
            most, used = self._most or 0, self._used + written
            if used > min([most, *self._growing]):
                raise self._exceeded(most)
            self._used = used
            self.written += written

    def release(self, size: int) -> None:
        """Returns the charge of a deleted file."""
        self._freed.append(size)

    def _take_back(self) -> None:
        while self._freed:
            self._used -= self._freed.popleft()

    def _exceeded(self, most: int) -> MemoryLimitError:
        """The error for files that exceed the limit `most`, or that of a recursion."""
        memory = "" if self.memory is None else f" of {format_bytes(self.memory)}"
        if self._growing and min(self._growing) < most:
            return MemoryLimitError(
                f"this recursion makes new values, and needs more than the memory limit{memory} "
                "and as much again in temporary files",
                hint=RAISE,
            )
        half = "" if self._given or most == TIMES * (self.memory or 0) else ", half of the room"
        return MemoryLimitError(
            f"this needs more than the memory limit{memory} and {format_bytes(most)} of temporary "
            f"files in {self.folder}{half}",
            hint=RAISE,
        )

    def failed(self, error: OSError) -> MemoryLimitError:
        """The error for a folder that takes no more data."""
        return MemoryLimitError(
            f"this needs more than the memory limit, and {self.folder} cannot take what is over it,"
            f" {format_bytes(self.written)} so far: {error.strerror or error}",
            hint="make room there, or name another folder: gdatalog.connect(temp_directory=...)"
            " or --temp-directory",
        )


class Charge:
    """The bytes of one temporary file, charged until the file is deleted."""

    __slots__ = ("_size", "_spill")

    def __init__(self, spill: Spill) -> None:
        self._spill = spill
        self._size = 0

    def add(self, written: int) -> None:
        """Charges a write; raises if the limit is met or the disk almost full."""
        self._spill.count(written)
        self._size += written

    def give_back(self) -> None:
        size, self._size = self._size, 0
        self._spill.release(size)

    __del__ = give_back


class SpilledColumn:
    """A column that is being written to a temporary file; a short one stays in memory. Its type is
    widened for values that do not fit."""

    def __init__(self, spill: Spill, dtype: np.dtype[np.generic]) -> None:
        self.dtype = dtype
        self.length = 0
        self._spill = spill
        self._file: IO[bytes] | None = None
        self._charge = Charge(spill)
        self._pieces: list[Array] = []  # a short column

    def append(self, values: Array) -> None:
        """Appends values. A short column keeps the array itself."""
        if not len(values):
            return
        if not np.can_cast(values.dtype, self.dtype):
            self._widen(np.promote_types(values.dtype, self.dtype))
        self.length += len(values)
        if self._file is None and self.length * self.dtype.itemsize <= self._spill.short:
            self._pieces.append(values)
            return
        pieces, self._pieces = [*self._pieces, values], []
        try:
            self._charge.add(sum(map(len, pieces)) * self.dtype.itemsize)
            if self._file is None:
                self._file = _unnamed(self._spill.folder)
            for piece in pieces:
                self._file.write(np.ascontiguousarray(piece, dtype=self.dtype).view(np.uint8).data)
        except OSError as error:
            raise self._spill.failed(error) from error

    def _widen(self, dtype: np.dtype[np.generic]) -> None:
        """Writes the values again, in a wider type."""
        narrow = self.finish()
        self.dtype, self.length, self._file = dtype, 0, None
        self._charge = Charge(self._spill)
        for start in range(0, len(narrow), STRETCH):
            self.append(narrow[start : start + STRETCH])

    def written(self) -> Array:
        """The values so far."""
        if self._file is None:
            return np.concatenate([np.empty(0, self.dtype), *self._pieces], dtype=self.dtype)
        self._file.flush()
        return _mapped(self._file, self.dtype, self.length, Charge(self._spill))

    def finish(self) -> Array:
        """The complete column; nothing can be appended afterwards."""
        if self._file is None:
            pieces, self._pieces = self._pieces, []
            return np.concatenate([np.empty(0, self.dtype), *pieces], dtype=self.dtype)
        try:
            with self._file as file:
                file.flush()
                return _mapped(file, self.dtype, self.length, self._charge)
        except OSError as error:
            raise self._spill.failed(error) from error


class SpilledRows:
    """Columns of rows that are being written to temporary files."""

    def __init__(self, columns: Sequence[SpilledColumn]) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return self._columns[0].length

    def append(self, rows: Sequence[Array]) -> None:
        for column, values in zip(self._columns, rows, strict=True):
            column.append(values)

    def finish(self) -> tuple[Array, ...]:
        return tuple(column.finish() for column in self._columns)


def gathered(
    blocks: Iterable[tuple[Array, ...]], dtypes: Sequence[DTypeLike], spill: Spill | None
) -> tuple[Array, ...]:
    """The rows of all blocks: in files, if there is a `spill`."""
    if spill is None:
        columns = zip(*[[np.empty(0, dtype=dtype) for dtype in dtypes], *blocks], strict=True)
        return tuple(map(np.concatenate, columns))
    rows = spill.columns(dtypes)
    for block in blocks:
        rows.append(block)
    return rows.finish()


class SpillPolicy(Protocol):
    """Decides which rows go to files; implemented by an account of memory."""

    def spill_half(self, count: int) -> Spill | None: ...


class Blocks:
    """Blocks of rows: in memory, or in files once half of the limit is in use. Rows on a device
    stay there."""

    def __init__(self, policy: SpillPolicy) -> None:
        self._policy = policy
        self._spilled: list[tuple[Array, ...]] = []
        self._waiting: list[tuple[Array, ...]] = []  # wholly or partly in memory
        self.held = 0  # bytes, charged by the owner of the blocks

    def __iter__(self) -> Iterator[tuple[Array, ...]]:
        yield from self._spilled
        yield from self._waiting

    def add(self, block: tuple[Array, ...]) -> None:
        if not self._waiting and all(map(is_spilled, block)):
            self._spilled.append(block)
            return
        self._waiting.append(block)
        self.held += sum(map(held_bytes, block))
        here = all(isinstance(column, np.ndarray) for column in block)
        spill = self._policy.spill_half(self.held) if here else None
        if spill is not None:
            self._spilled.append(spill.rows(self._waiting))
            self._waiting, self.held = [], 0

    def take(self) -> list[tuple[Array, ...]]:
        """Removes and returns all blocks."""
        blocks = list(self)
        self._spilled, self._waiting, self.held = [], [], 0
        return blocks


class _Mapping:
    """A memory-mapped file, as long as an array of it exists.

    Python's own mappings each keep a file open, and there may be thousands.
    """

    __slots__ = ("__array_interface__", "__weakref__", "_charge")

    def __init__(
        self,
        file: IO[bytes],
        dtype: np.dtype[np.generic],
        length: int,
        charge: Charge,
        writable: bool,
    ) -> None:
        size = length * dtype.itemsize
        libc = _libc()
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        address = libc.mmap(None, size, access, mmap.MAP_SHARED, file.fileno(), 0)
        if address in (None, ctypes.c_void_p(-1).value):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        weakref.finalize(self, libc.munmap, address, size).atexit = False
        self._charge = charge
        self.__array_interface__ = {
            "data": (address, not writable), "shape": (length,), "typestr": dtype.str, "version": 3,
        }  # fmt: skip


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
    ]  # fmt: skip
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc


def _mapped(
    file: IO[bytes],
    dtype: np.dtype[np.generic],
    length: int,
    charge: Charge,
    writable: bool = False,
) -> Array:
    if os.name == "posix":
        return np.asarray(_Mapping(file, dtype, length, charge, writable))
    access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
    mapping = mmap.mmap(file.fileno(), 0, access=access)
    weakref.finalize(mapping, charge.give_back).atexit = False
    return np.frombuffer(mapping, dtype, length)


def _reserve(file: IO[bytes], size: int) -> None:
    """Makes an empty file so long, all zeros. The disk has room for all of it from now on: if a
    page of a mapping had none, the process would end."""
    reserve = getattr(os, "posix_fallocate", None)
    if reserve is not None:
        reserve(file.fileno(), 0, size)
        return
    zeros = bytes(BUFFER)
    for start in range(0, size, BUFFER):
        file.write(zeros[: size - start])
    file.flush()


def _unnamed(folder: str) -> IO[bytes]:
    """A new file that disappears when it is closed and unmapped."""
    return tempfile.TemporaryFile(dir=folder, prefix="gdatalog-", buffering=BUFFER)


def default_folder() -> str:
    """The default folder of large temporary files: $TMPDIR, else a folder on a disk."""
    if os.environ.get("TMPDIR") or not os.access(LARGE_FILES, os.W_OK):
        return tempfile.gettempdir()
    return LARGE_FILES


def is_spilled(values: object) -> bool:
    """Whether an array is in a mapped file."""
    base = values
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, _Mapping | mmap.mmap) or isinstance(
        getattr(base, "obj", None), mmap.mmap
    )


def held_bytes(values: Array) -> int:
    """The bytes of memory that an array uses: none if it is in a file."""
    return 0 if values.base is not None and is_spilled(values) else int(values.nbytes)
