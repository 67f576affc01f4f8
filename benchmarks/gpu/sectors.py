"""Which 32-byte sectors of memory a warp's requests touch: what a kernel moves at the least.

A GPU reads and writes memory in sectors. The lanes of a warp that read one word each in the same
instruction need as many sectors as their addresses lie in. Counted from the very positions, on the
device, in pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

SECTOR, LANES = 32, 32
PIECE = 1 << 24  # positions looked at together


def streamed(count: int, itemsize: int) -> int:
    """Sectors of an array that is read or written from end to end."""
    return -(-count * itemsize // SECTOR)


def gathered(xp: Any, positions: Any, itemsize: int, lanes: int = LANES) -> int:
    """Sectors of a gather, lane i of each warp reading `positions[i]`; < 0: it reads nothing."""
    total = 0
    for start in range(0, len(positions), PIECE):
        piece = positions[start : start + PIECE]
        total += _of_warps(xp, piece, xp.arange(len(piece)) // lanes, itemsize)
    return total


def _of_warps(xp: Any, positions: Any, warps: Any, itemsize: int) -> int:
    """The sectors of each warp. `warps`: that of each position."""
    there = positions >= 0
    sectors = positions[there].astype(xp.int64) * itemsize // SECTOR
    return len(xp.unique(warps[there] << 40 | sectors))


def searched(xp: Any, values: Any, keys: Any, low: Any, high: Any, lanes: int = LANES) -> int:
    """Sectors of binary searches, key i in the ascending `values[low[i]:high[i]]`.

    Each counts once for a warp: at its next step it lies in the first cache.
    """
    total = 0
    piece = PIECE // 8
    for start in range(0, len(keys), piece):
        part = slice(start, start + piece)
        steps = list(probes(xp, values, keys[part], low[part], high[part]))
        if not steps:
            continue
        warps = xp.arange(len(steps[0])) // lanes
        together = xp.concatenate(steps), xp.concatenate([warps] * len(steps))
        total += _of_warps(xp, *together, values.dtype.itemsize)
    return total


def probes(xp: Any, values: Any, keys: Any, low: Any, high: Any) -> Iterator[Any]:
    """The positions that binary searches read, step by step; -1: this one has come to its end."""
    while True:
        left = low < high
        if not bool(left.any()):
            return
        middle = (low + high) >> 1
        yield xp.where(left, middle, -1)
        below = values[xp.minimum(middle, len(values) - 1)] < keys
        low, high = xp.where(left & below, middle + 1, low), xp.where(left & ~below, middle, high)
