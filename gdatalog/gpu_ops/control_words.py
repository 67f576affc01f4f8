"""The words of `kernels/work.cuh`, and the size of a ring."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Word(IntEnum):
    """The position of each number in the array `control`; each has its own line."""

    NEXT = 0
    STOP = 16
    STATUS = 32
    BUSY = 48
    HEAD = 64
    TAIL = 80
    POOL = 96
    SPLITS = 112
    IDLE = 128
    QUEUED = 144
    HELD = 160
    LIGHT = 176


CONTROL_WORDS: Final = 192
SLOT_WORDS: Final = 8
EVERYTHING: Final = 1 << 62
THREADS: Final = 128  # of a block


class Reason(IntEnum):
    """Why a launch ended: the greatest reason that a tile met."""

    DONE = 0
    FULL = 1
    STOPPED = 2
    FAILED = 3
    OVERFLOWED = 4
    ENOUGH = 5
    OUTSIDE = 6


def capacity(tiles: int) -> int:
    """The number of tasks that a ring has room for: one for each tile, and as many that wait.

    An empty ring is `capacity * SLOT_WORDS` zeros.
    """
    return 1 << max(1, (2 * tiles - 1).bit_length())
