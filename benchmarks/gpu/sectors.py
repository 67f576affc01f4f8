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
        total += _of_warps(xp, positions[start : start + PIECE], itemsize, lanes)
    return total


def _of_warps(xp: Any, positions: Any, itemsize: int, lanes: int) -> int:
    sectors = xp.where(positions < 0, -1, positions.astype(xp.int64) * itemsize // SECTOR)
    spare = -len(sectors) % lanes
    if spare:
        sectors = xp.concatenate([sectors, xp.full(spare, -1, dtype=xp.int64)])
    by_warp = xp.sort(sectors.reshape(-1, lanes), axis=1)
    new = by_warp[:, 1:] != by_warp[:, :-1]
    first = by_warp[:, 0] >= 0
    return int(new.sum()) + int(first.sum())


def probes(xp: Any, haystack: Any, needles: Any, right: bool = False) -> Iterator[Any]:
    """The positions that a binary search of each needle in a sorted array reads, step by step."""
    low = xp.zeros(len(needles), dtype=xp.int64)
    high = xp.full(len(needles), len(haystack), dtype=xp.int64)
    while True:
        left = low < high
        if not bool(left.any()):
            return
        middle = (low + high) >> 1
        yield xp.where(left, middle, -1)
        value = haystack[xp.minimum(middle, len(haystack) - 1)]
        above = (value <= needles) if right else (value < needles)
        low, high = xp.where(left & above, middle + 1, low), xp.where(left & ~above, middle, high)
