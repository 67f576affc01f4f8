"""How the scratch of a launch is laid out: what each tile has, and what tiles borrow.

A buffer of a tile would have to be as long as any list may be, and almost no list is. Where there
is no room for as many such buffers as tiles can run, each tile has a short one of its own, and
borrows a longer one for what does not fit there (`kernels/borrow.cuh`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from gdatalog.records import dataclass

LEAST = 64  # elements of a buffer of a tile's own; there are fewer tiles before it is shorter
LONGER = 4  # times as long as the last: a class of buffers
BITS = 32  # parts of a word of those that are lent: LENT_BITS


@dataclass(frozen=True, slots=True)
class Need:
    """An array that each tile needs `length` elements of; a buffer may be shorter."""

    name: str
    length: int
    width: int
    buffer: bool

    @property
    def nbytes(self) -> int:
        return self.length * self.width


@dataclass(frozen=True, slots=True)
class BufferClass:
    """Buffers of one class: how long they are, by their names, and how many there are of each."""

    lengths: Mapping[str, int]
    count: int


@dataclass(frozen=True, slots=True)
class Scratch:
    """`own`: how many elements of each array a tile has."""

    tiles: int
    own: Mapping[str, int]
    classes: tuple[BufferClass, ...] = ()

    def length(self, name: str) -> int:
        """Of all tiles' parts of an array, and the longer ones behind them."""
        return self.tiles * self.own[name] + sum(
            part.count * part.lengths[name] for part in self.classes if name in part.lengths
        )

    def rooms(self, buffers: Sequence[str]) -> tuple[npt.NDArray[np.int64], int]:
        """What kernels read of the classes, and how many words say which parts are lent."""
        found, word = [], 0
        for name in buffers:
            begin = self.tiles * self.own[name]
            for part in self.classes:
                found += [part.lengths[name], part.count, begin, word]
                begin += part.count * part.lengths[name]
                word += -(-part.count // BITS)
        return np.array(found or [0], dtype=np.int64), max(1, word)


def laid_out(needs: Sequence[Need], tiles: int, room: int) -> Scratch:
    """The scratch of up to so many tiles, within `room` bytes if one tile's fits."""
    each = sum(need.nbytes for need in needs)
    whole = {need.name: need.length for need in needs}
    plain = Scratch(max(1, min(tiles, room // each)) if each else tiles, whole)
    buffers = [need for need in needs if need.buffer]
    if tiles * each <= room or not buffers:
        return plain
    # Half for what tiles have, half for what they borrow: as many bytes for each class.
    half, widths = room // 2, sum(need.width for need in buffers)
    fixed = each - sum(need.nbytes for need in buffers)
    longest = max(need.length for need in buffers)
    tiles = max(1, min(tiles, half // (fixed + widths * min(LEAST, longest))))
    own = min(longest, max(LEAST, (half // tiles - fixed) // widths))
    lengths: list[dict[str, int]] = []
    while not lengths or 2 * own < longest:
        lengths.append({need.name: min(need.length, own) for need in buffers})
        own *= LONGER
    lengths.append({need.name: need.length for need in buffers})
    sizes = [sum(longer[need.name] * need.width for need in buffers) for longer in lengths[1:]]
    spare = half - sum(sizes)  # beside one of each class
    classes = tuple(
        BufferClass(longer, min(tiles, 1 + max(0, spare // len(sizes) // size)))
        for longer, size in zip(lengths[1:], sizes, strict=True)
    )
    if spare < 0:
        tiles = (room - sum(sizes)) // (fixed + sum(n.width * lengths[0][n.name] for n in buffers))
    found = Scratch(tiles, whole | lengths[0], classes)
    held = sum(found.length(need.name) * need.width for need in needs)
    return found if tiles >= plain.tiles and held <= room else plain
