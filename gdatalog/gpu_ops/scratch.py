"""The layout of a launch's scratch memory: the tiles' own parts, and parts that tiles borrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

import numpy as np
import numpy.typing as npt

from gdatalog.records import dataclass

LEAST = 64  # least elements of a tile's own part; if there is less memory, fewer tiles run
LONGER = 1.5  # length of a class of buffers, relative to the class before
OWN = 8  # the tiles' own parts take 1/8 of the memory, if that gives each `LEAST` elements
BITS = 32  # parts in a word of the bitmap of lent parts; LENT_BITS in walk.cuh


@dataclass(frozen=True, slots=True)
class Need:
    """An array of which each tile needs `length` elements, or fewer if it is a buffer. `bits`: the
    buffer holds rows of bits, one for each value of a list."""

    name: str
    length: int
    width: int
    buffer: bool
    bits: bool = False

    @property
    def nbytes(self) -> int:
        return self.length * self.width


@dataclass(frozen=True, slots=True)
class BufferClass:
    """Longer parts of one class: their length in each buffer, and their number."""

    lengths: Mapping[str, int]
    count: int


@dataclass(frozen=True, slots=True)
class Scratch:
    """The layout. `own`: the number of elements of each array that a tile owns."""

    tiles: int
    own: Mapping[str, int]
    classes: tuple[BufferClass, ...] = ()

    def length(self, name: str) -> int:
        """The number of elements of an array: the own parts of all tiles, then the longer parts."""
        return self.tiles * self.own[name] + sum(
            part.count * part.lengths[name] for part in self.classes if name in part.lengths
        )

    def rooms(self, buffers: Sequence[str]) -> tuple[npt.NDArray[np.int64], int]:
        """The classes as kernels read them, and the number of words of the bitmap of lent parts."""
        found, word = [], 0
        for name in buffers:
            begin = self.tiles * self.own[name]
            for part in self.classes:
                found += [part.lengths[name], part.count, begin, word]
                begin += part.count * part.lengths[name]
                word += -(-part.count // BITS)
        return np.array(found or [0], dtype=np.int64), max(1, word)


def laid_out(needs: Sequence[Need], tiles: int, room: int) -> Scratch:
    """The scratch for up to `tiles` tiles, within `room` bytes if one tile fits."""
    all_needs = sum(need.nbytes for need in needs)
    whole = {need.name: need.length for need in needs}
    plain = Scratch(max(1, min(tiles, room // all_needs)) if all_needs else tiles, whole)
    buffers = [need for need in needs if need.buffer]
    if tiles * all_needs <= room or not buffers:
        return plain
    fixed = all_needs - sum(need.nbytes for need in buffers)
    if fixed:  # large tables leave few tiles; half the memory is for buffers
        tiles = max(1, min(tiles, room // 2 // fixed))
    lengths = [{need.name: need.length for need in buffers}]
    while tiles * _size(buffers, lengths[-1]) > (room - tiles * fixed) // OWN:
        shorter = {name: _shorter(length) for name, length in lengths[-1].items()}
        if shorter == lengths[-1]:
            break
        lengths.append(shorter)
    own, longer = lengths[-1], lengths[-2::-1]
    mine, sizes = fixed + _size(buffers, own), [_size(buffers, each) for each in longer]
    tiles = max(1, min(tiles, room // 2 // mine, (room - sum(sizes)) // mine))
    left = room - tiles * mine - sum(sizes)
    if not longer or left < 0 or tiles < plain.tiles:
        return plain
    weights = [1.0 if any(need.bits for need in buffers) else 1 / sqrt(size) for size in sizes]
    unit = left / sum(weight * size for weight, size in zip(weights, sizes, strict=True))
    counts = [min(tiles, 1 + int(unit * weight)) for weight in weights]
    return Scratch(tiles, whole | own, tuple(map(BufferClass, longer, counts)))


def _shorter(length: int) -> int:
    return max(min(length, LEAST), int(length / LONGER))


def _size(buffers: Sequence[Need], lengths: Mapping[str, int]) -> int:
    return sum(need.width * lengths[need.name] for need in buffers)
