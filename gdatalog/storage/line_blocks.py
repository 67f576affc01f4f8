"""Blocks of whole lines of a text file, read one after the other."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import BinaryIO

from gdatalog.cancellation import current_watch
from gdatalog.storage.delimited import MARK

Block = tuple[int, int]  # its first byte in the file, and its end

PIECE = 1 << 24  # bytes of one read
LEAST_BYTES, MOST_BYTES = 1 << 23, 1 << 27  # bounds for the bytes of a block
SHARE = 16  # a block takes at most 1/16 of the free memory
_HEAD = 1 << 16  # bytes that are read to find the end of a line


def blocks_of(path: str) -> list[Block]:
    """The blocks of a file; one if it is small."""
    most = max(LEAST_BYTES, min(MOST_BYTES, current_watch().account.spare() // SHARE))
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= most:
            return [(0, size)]
        ends = [0]
        while ends[-1] < size:
            file.seek(min(size, ends[-1] + most))
            while (part := file.readline(_HEAD)) and not part.endswith(b"\n"):
                pass
            ends.append(file.tell())
        return list(pairwise(ends))


def report_size(size: int) -> None:
    """Tells progress of the bytes of the file that is loaded. Of several, all bytes are told of."""
    work = current_watch().innermost
    if work.stage == "loading" and size and not work.several:
        work.total, work.unit = size, "bytes"


def each_block(blocks: Sequence[Block]) -> Iterator[Block]:
    """The blocks in turn, with progress."""
    work, size = current_watch().innermost, blocks[-1][1]
    for start, end in blocks:
        current_watch().poll()
        with work.within(start / size, end / size):
            yield start, end


def bytes_of_block(path: str, block: Block) -> bytes:
    """The text of a block, without the byte order mark of the file."""
    start, end = block
    with open(path, "rb") as file:
        file.seek(start)
        data = file.read(end - start)
    return data if start else data.removeprefix(MARK)


def lines_between(file: BinaryIO, start: int, end: int) -> int:
    """The number of lines that end between two positions of a file."""
    file.seek(start)
    count = 0
    while start < end and (piece := file.read(min(PIECE, end - start))):
        count += piece.count(b"\n")
        start += len(piece)
    return count
