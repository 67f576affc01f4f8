"""Columns in temporary files, for data that exceeds the memory limit.

A column is written piece by piece to an unnamed file, so that nothing is left behind however the
process ends, and is memory-mapped when it is complete. The operating system caches as much of it as
fits, so the column is not charged to the account (`held_bytes`).
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from threading import Lock
from typing import IO, Protocol

import numpy as np
from numpy.typing import DTypeLike

from gdatalog.errors import MemoryLimitError
from gdatalog.progress import format_bytes
from gdatalog.storage import FilePath
from gdatalog.storage.table import Array

LARGE_FILES = "/var/tmp"  # on a disk, also on systems that keep /tmp in memory
LEAST_BYTES, LEAST_ROWS = 1 << 20, 1 << 12
SHORT = 1 << 16  # bytes of a column that stays in memory
BUFFER = 1 << 20  # bytes of one write
STRETCH = 1 << 18  # values in one batch of widening
LOOK = 1 << 26  # bytes between two checks of the free space
KEPT_FREE = 0.05  # share of the disk that is left free


class Spill:
    """A folder for temporary files, and the number of bytes written to them."""

    def __init__(
        self,
        folder: FilePath | None = None,
        least: int = LEAST_BYTES,
        run: int = LEAST_ROWS,
        short: int = SHORT,
        always: bool = False,
    ) -> None:
        """`folder`: None is the system's folder for large temporary files. `least`: fewer bytes
        stay in memory. `run`: the least rows that are sorted at a time. `short`: a column with at
        most so many bytes stays in memory, instead of a file of its own. `always`: everything goes
        to files, in the shortest runs, for tests."""
        self.folder = os.fspath(folder) if folder is not None else default_folder()
        self.least = least
        self.run = run
        self.short = short
        self.always = always
        self.written = 0
        self._lock = Lock()

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
        try:
            self.count(size)
            with _unnamed(self.folder) as file:
                _reserve(file, size)
                return _mapped(file, dtype, length, writable=True)
        except OSError as error:
            raise self.failed(error) from error

    def count(self, written: int) -> None:
        """Announces a write of so many bytes; raises if the disk is almost full."""
        with self._lock:
            looked = self.written // LOOK if self.written else -1
            self.written += written
        if self.written // LOOK != looked:
            disk = shutil.disk_usage(self.folder)
            if disk.free - written < KEPT_FREE * disk.total:
                raise OSError(errno.ENOSPC, f"only {format_bytes(disk.free)} are free")

    def failed(self, error: OSError) -> MemoryLimitError:
        """The error for a folder that takes no more data."""
        return MemoryLimitError(
            f"this needs more than the memory limit, and {self.folder} cannot take what is over it,"
            f" {format_bytes(self.written)} so far: {error.strerror or error}",
            hint="make room there, or name another folder: gdatalog.connect(temp_directory=...)"
            " or --temp-directory",
        )


class SpilledColumn:
    """A column that is being written to a temporary file; a short one stays in memory. Its type is
    widened for values that do not fit."""

    def __init__(self, spill: Spill, dtype: np.dtype[np.generic]) -> None:
        self.dtype = dtype
        self.length = 0
        self._spill = spill
        self._file: IO[bytes] | None = None
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
            self._spill.count(sum(map(len, pieces)) * self.dtype.itemsize)
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
        for start in range(0, len(narrow), STRETCH):
            self.append(narrow[start : start + STRETCH])

    def finish(self) -> Array:
        """The complete column; nothing can be appended afterwards."""
        if self._file is None:
            pieces, self._pieces = self._pieces, []
            return np.concatenate([np.empty(0, self.dtype), *pieces], dtype=self.dtype)
        try:
            with self._file as file:
                file.flush()
                return _mapped(file, self.dtype, self.length)
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

    __slots__ = ("__array_interface__", "__weakref__")

    def __init__(
        self, file: IO[bytes], dtype: np.dtype[np.generic], length: int, writable: bool
    ) -> None:
        size = length * dtype.itemsize
        libc = _libc()
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        address = libc.mmap(None, size, access, mmap.MAP_SHARED, file.fileno(), 0)
        if address in (None, ctypes.c_void_p(-1).value):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        weakref.finalize(self, libc.munmap, address, size).atexit = False
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
    file: IO[bytes], dtype: np.dtype[np.generic], length: int, writable: bool = False
) -> Array:
    if os.name == "posix":
        return np.asarray(_Mapping(file, dtype, length, writable))
    access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
    return np.frombuffer(mmap.mmap(file.fileno(), 0, access=access), dtype, length)


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
