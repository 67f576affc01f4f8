"""Delimited text without quotes, split in one pass.

Compiled code reads a large file a piece at a time. Threads split pieces into cells in parallel, and
look the texts up in one set, one thread at a time. So a text is hashed in place, and only distinct
texts are stored. For a small file Python is faster than starting the compiler. Quotes, line breaks
within values, spaces around numbers, rows of another width, and errors are left to Arrow.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from threading import Lock
from typing import IO

import numpy as np

from gdatalog.cancellation import current_watch
from gdatalog.records import dataclass
from gdatalog.storage.table import (
    NOT_ASCII,
    PADDING,
    Array,
    Column,
    TextColumn,
    TextSet,
    TextSetFunctions,
)
from gdatalog.storage.text_functions import text_functions_for
from gdatalog.storage.threads import cores, spread
from gdatalog.values import TypeName

PIECE = 1 << 21  # bytes that are read at once
SMALL = 1 << 20  # bytes: Python splits smaller files if the compiler has not been started
_NUMBERS = re.compile("[+-]?[0-9]{1,18}(?:\n[+-]?[0-9]{1,18})*+")
_ROWS = 1 << 15  # rows that are split at once

# The same constants as in the compiled code (`codegen/helpers/text_sets.py`).
_TEXT, _INT, _NOTHING = 0, 1, 2
_PLACE, _ROW, _SEEN = 0, 1, 2
_NEWLINE = ord("\n")


class _Odd(Exception):
    """The text is not plain."""


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """The columns of a text. `wanted`: the type of each, None to skip it; `quoted`: quotes have a
    meaning; `blank`: an empty line is a row."""

    delimiter: str
    wanted: tuple[TypeName | None, ...]
    quoted: bool = False
    blank: bool = False


def cut_columns(
    file: IO[bytes],
    length: int,
    layout: ColumnLayout,
    texts_for: Callable[[TextSetFunctions], TextSet],
) -> tuple[tuple[Column, ...], int] | None:
    """The wanted columns of the next `length` bytes of a file, and the number of rows; None if the
    text is not plain. `texts_for`: returns the set for the texts of a large file."""
    if {*layout.wanted} - {"symbol", "int", None} or not {*layout.wanted} - {None}:
        return None
    kernels = text_functions_for(length)
    if kernels is None:
        return _by_python(file.read(length), layout) if length <= SMALL else None
    return cut_large(file, length, layout, texts_for(kernels))


def cut_large(
    file: IO[bytes], length: int, layout: ColumnLayout, texts: TextSet
) -> tuple[tuple[Column, ...], int] | None:
    """As `cut_columns`, for a large file, by compiled code."""
    cutting = _Cutting(file, length, layout, texts)
    workers = min(cores(), 1 + length // PIECE)
    try:
        spread(lambda _: cutting.work(), range(workers), workers > 1)
    except _Odd:
        return None
    columns = tuple(cutting.columns())
    return columns, len(columns[0])


def _by_python(data: bytes, layout: ColumnLayout) -> tuple[tuple[Column, ...], int] | None:
    try:
        text = data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError:
        return None
    if "\r" in text or (layout.quoted and '"' in text):
        return None
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    if not layout.blank:
        lines = list(filter(None, lines))
    by, width = layout.delimiter, len(layout.wanted)
    if {line.count(by) for line in lines} != {width - 1}:
        return None
    cells = by.join(lines).split(by)
    columns: list[Column] = []
    for at, kind in enumerate(layout.wanted):
        own = cells[at::width]
        if kind == "symbol":
            codes = {text: code for code, text in enumerate(dict.fromkeys(own))}
            which = np.fromiter(map(codes.__getitem__, own), np.int32, len(own))
            columns.append(TextColumn(which, np.array(list(codes), dtype=object)))
        elif kind == "int":
            if not _NUMBERS.fullmatch("\n".join(own)):
                return None
            columns.append(np.fromiter(map(int, own), np.int64, len(own)))
    return tuple(columns), len(lines)


class _Cutting:
    """A file that threads split."""

    def __init__(self, file: IO[bytes], length: int, layout: ColumnLayout, texts: TextSet) -> None:
        kinds: dict[TypeName | None, int] = {"symbol": _TEXT, "int": _INT, None: _NOTHING}
        self.texts = texts
        self._file, self._length, self._layout = file, length, layout
        self._wanted = np.array([kinds[kind] for kind in layout.wanted], dtype=np.int64)
        self._kinds = [kinds[kind] for kind in layout.wanted if kind is not None]
        self._lock = Lock()
        self._left, self._tail, self._pieces = length, b"", 0
        self._found: dict[tuple[int, int], list[Array]] = {}  # by piece and part of it
        self._progress = current_watch().innermost

    def columns(self) -> list[Column]:
        """The columns of all pieces, in order."""
        pieces = [self._found[at] for at in sorted(self._found)]
        found: list[Column] = []
        for at, kind in enumerate(self._kinds):
            none = np.empty(0, dtype=np.int32 if kind == _TEXT else np.int64)
            column = np.concatenate([none, *(piece[at] for piece in pieces)])
            found.append(TextColumn(column, self.texts) if kind == _TEXT else column)
        return found

    def work(self) -> None:
        """Splits pieces until none is left."""
        room = bytearray(PIECE + 1 + PADDING)
        try:
            while True:
                current_watch().poll()
                with self._lock:
                    number, stop = self._pieces, self._next(room)
                    self._pieces += 1
                if not stop:
                    return
                self._cut(number, room, stop)
        except _Odd:
            with self._lock:
                self._left, self._tail = 0, b""  # stops the other threads
            raise

    def _next(self, room: bytearray) -> int:
        """Fills the buffer with whole lines; returns their length in bytes."""
        held, tail = len(self._tail), self._tail
        room[:held] = tail  # may enlarge the buffer
        while True:
            missing = max(2 * held, PIECE) + 1 + PADDING - len(room)
            room += bytes(max(0, missing))
            if self._left:
                end = min(held + self._left, len(room) - 1 - PADDING)
                with memoryview(room)[held:end] as into:
                    count = self._file.readinto(into)  # type: ignore[attr-defined]  # binary files have it
                if not count:
                    raise _Odd  # the file has become shorter
                self._left, held = self._left - count, held + count
                self._progress.share(1 - self._left / self._length)
            if not self._left and held and room[held - 1] != _NEWLINE:
                room[held] = _NEWLINE  # the last line has no line break
                held += 1
            stop = room.rfind(b"\n", 0, held) + 1
            if stop or not self._left:
                self._tail = bytes(room[stop:held])
                return stop

    def _cut(self, number: int, room: bytearray, stop: int) -> None:
        layout, kinds, kernels = self._layout, self._kinds, self.texts.kernels
        if room.find(b"\r", 0, stop) >= 0:
            lines = room[:stop].replace(b"\r\n", b"\n")
            if b"\r" in lines:
                raise _Odd
            room, stop = lines + bytes(PADDING), len(lines)
        if layout.quoted and room.find(b'"', 0, stop) >= 0:
            raise _Odd
        data = np.frombuffer(room, dtype=np.uint8)
        width, others = kinds.count(_TEXT), kinds.count(_INT)
        begins, sizes = np.empty((2, width * _ROWS), dtype=np.int64)
        numbers, state = np.empty((others, _ROWS), dtype=np.int64), np.zeros(3, dtype=np.int64)
        how = ord(layout.delimiter), layout.blank, self._wanted, _ROWS
        part = 0
        while state[_PLACE] < stop:
            if kernels.scan(data, stop, *how, begins, sizes, numbers.ravel(), state):
                raise _Odd
            rows = int(state[_ROW])
            cells = rows * width
            codes = self.texts.look_up(data, begins[:cells], sizes[:cells]).reshape(rows, width)
            columns = iter(np.ascontiguousarray(codes.T)), iter(numbers[:, :rows].copy())
            self._found[number, part] = [next(columns[kind]) for kind in kinds]
            part += 1
        if int(state[_SEEN]) & NOT_ASCII:
            try:
                room[:stop].decode()
            except UnicodeDecodeError:
                raise _Odd from None
