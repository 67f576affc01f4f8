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
        size = len(steps[0])
        spare = xp.full(-size % lanes, -1, dtype=xp.int64)
        by_warp = [xp.concatenate([step, spare]).reshape(-1, lanes) for step in steps]
        together = xp.concatenate(by_warp, axis=1)
        total += _of_warps(xp, together.reshape(-1), values.dtype.itemsize, lanes * len(steps))
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
