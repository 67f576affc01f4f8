"""Which 32-byte sectors of memory a kernel has to read or write: what it moves at the least.

A GPU reads and writes memory in sectors. Counted from the very positions, on the device.
"""

from __future__ import annotations

from typing import Any

SECTOR, LANES = 32, 32
PIECE = 1 << 24  # positions looked at together


def streamed(count: int, itemsize: int) -> int:
    """Sectors of an array that is read or written from end to end."""
    return -(-count * itemsize // SECTOR)


def touched(xp: Any, positions: Any, size: int, itemsize: int) -> int:
    """Sectors that any of these positions of an array of `size` entries lie in, each once."""
    marks = xp.zeros(streamed(size, itemsize), dtype=bool)
    for start in range(0, len(positions), PIECE):
        piece = positions[start : start + PIECE].astype(xp.int64)
        marks[piece * itemsize // SECTOR] = xp.full(len(piece), True)
    return int(marks.sum())


def gathered(xp: Any, positions: Any, itemsize: int) -> int:
    """Sectors of a gather, lane i of each warp reading `positions[i]`, each once for a warp."""
    total = 0
    for start in range(0, len(positions), PIECE):
        piece = positions[start : start + PIECE].astype(xp.int64)
        warps = xp.arange(len(piece)) // LANES
        total += len(xp.unique(warps << 40 | piece * itemsize // SECTOR))
    return total
