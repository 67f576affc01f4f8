"""Blocks of whole lines of a text file, which are read one after the other."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import BinaryIO

from gdatalog.cancellation import watching

Block = tuple[int, int]  # from which byte of a file to which

PIECE = 1 << 24  # bytes that are read at a time
LEAST_BYTES, MOST_BYTES = 1 << 23, 1 << 27  # of a block
SHARE = 16  # of the memory that is left: one part of so many
_HEAD = 1 << 16  # bytes in which the end of a line is sought


def blocks_of(path: str) -> list[Block]:
    """The blocks of a file; one where it is small."""
    most = max(LEAST_BYTES, min(MOST_BYTES, watching().account.spare() // SHARE))
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= most:
            return [(0, size)]
        ends = [0]
        while ends[-1] < size:
            ends.append(line_end(file, min(size, ends[-1] + most), size))
        return list(pairwise(ends))


def line_end(file: BinaryIO, place: int, size: int) -> int:
    """Where the line ends that a place lies in."""
    file.seek(place)
    while piece := file.read(_HEAD):
        found = piece.find(b"\n")
        if found >= 0:
            return place + found + 1
        place += len(piece)
    return size


def lines_before(file: BinaryIO, place: int) -> int:
    """How many lines stand before a place of a file."""
    file.seek(0)
    count = 0
    while place > 0 and (piece := file.read(min(PIECE, place))):
        count += piece.count(b"\n")
        place -= len(piece)
    return count


def bytes_of(file: BinaryIO, count: int) -> bytes:
    """The next bytes of a file, so many."""
    parts = []
    while count > 0 and (piece := file.read(min(PIECE, count))):
        parts.append(piece)
        count -= len(piece)
    return b"".join(parts)
