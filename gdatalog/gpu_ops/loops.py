"""The CUDA source of a printed plan, as one kernel, its arguments, and the layout of its scratch
memory.

The kernel is called `walk_plan`. Each tile of `LANES` lanes takes tasks until none is left.

A buffer must have room for the longest list, but almost all lists are far shorter. If memory does
not suffice for a long buffer for each tile, each tile owns a short part of the buffer, and borrows
a longer part for lists that do not fit (`kernels/walk.cuh`). Few lists are long, but a tile works
longer on them; so the number of longer parts falls with the square root of their length. Rows of
bits are still more work, so that there are as many longer parts of each length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from math import sqrt
from typing import Final

import numpy as np
import numpy.typing as npt

from gdatalog.gpu_ops.kernels import whole
from gdatalog.gpu_ops.translate import Translation
from gdatalog.printer.arguments import Argument
from gdatalog.printer.module import PrintedPlan
from gdatalog.printer.nest_state import ARRAY, Counter
from gdatalog.records import dataclass

_RENAMED = {"f64": "double", "bool": "u8"}

# The numbers that every kernel has as arguments, after the arrays that its tiles share.
NUMBERS = (
    "capacity", "grain", "limit", "pieces", "blocks", "block_rows", "wanted", "tiles",
    "part", "parts",
)  # fmt: skip

_HEAD = """#include "walk.cuh"
#include "bits.cuh"
#include "tallies.cuh"
#include "values.cuh"
"""

_START = """\
    const Tile<LANES> t = tile_here<LANES>();
    const Run run = {control, ring,   counts,     previous, capacity, grain, limit,
                     pieces,  blocks, block_rows, wanted,   tiles,    part,  parts};
    Work work = work_open();
"""

_END = """\
finish:
    if (troubled(t, run, work)) work.pool.n = 0;
    pool_close(t, work.pool, counts);
    if (thread_of_block() == 0 && block_of_grid() < ends_n) ends[block_of_grid()] = nanoseconds();
"""


_FINISH = """\
finish:
    return_rooms(t, lent, borrowed, 0);
"""


@dataclass(frozen=True, slots=True)
class LoopKernel:
    """The kernel of a plan. `arrays`: its array arguments, in order, after those that all kernels
    have. `sized`: the arrays that are followed by their length."""

    printed: PrintedPlan
    source: str
    arrays: tuple[str, ...]
    sized: frozenset[str]
    scratch: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    lanes: int
    buffers: tuple[str, ...]  # scratch of which tiles may borrow longer parts


def element(kind: str) -> str:
    """The C++ type of an array's elements."""
    name = kind.removesuffix("[]")
    return _RENAMED.get(name, name)


def loops_of(printed: PrintedPlan) -> LoopKernel:
    """The kernel of a plan that was printed for a tile."""
    lanes = printed.lanes
    types = {"sizes": "i64[]"} | printed.expressions.types()
    inputs = {name: element(kind) for name, kind in types.items()}
    results: dict[str, str] = {}
    scratch, outputs = [], []
    for argument in printed.arguments:
        if argument.kind == "output":
            outputs.append(argument)
        elif argument.kind in ("buffer", "rows", "words", "own", "tally", "tallied"):
            scratch.append(argument)
        elif argument.kind in ("result", "counts", "local"):
            results[argument.name] = element(argument.type)
        else:
            inputs[argument.name] = element(argument.type)
    own = {argument.name: element(argument.type) for argument in scratch}
    columns = [element(argument.type) for argument in outputs]
    counters = printed.counters
    kept = [counter for counter in counters if counter.kept in printed.source]
    # All tasks read a buffer that is filled before the first task, so a tile cannot borrow it.
    first, _, inside = printed.source.partition("while next_task")
    buffers = tuple(
        argument.name
        for argument in scratch
        if argument.kind in ("buffer", "rows") and f"{argument.name})" not in first and inside
    )
    translation = Translation(
        inputs | results | own, columns, lanes, buffers, counters=counters, undone=kept
    )
    scalars = [f"{kind}{at.trie}_{at.depth}" for kind, at in printed.scalars]
    prologue = [f"{name} = sizes[{at}]" for at, name in enumerate(scalars)]
    prologue += printed.expressions.prologue()
    text = printed.source.replace(
        "def walk():\n", "def walk():\n" + "".join(f"    {line}\n" for line in prologue)
    )
    body = translation.body(text)
    sized = frozenset(translation.lengths) | own.keys()
    arrays = [*inputs, *results, *own, *(argument.name for argument in outputs)]
    parameters = [
        "ARRAY(i64) control", "ARRAY(i64) ring", "ARRAY(i32) counts", "ARRAY(i32) previous",
        "ARRAY(i64) ends", "i64 ends_n", *(f"i64 {name}" for name in NUMBERS),
    ]  # fmt: skip
    parameters += [_parameter(f"const {kind}", name, sized) for name, kind in inputs.items()]
    parameters += [_parameter(kind, name, sized) for name, kind in results.items()]
    parameters += [_parameter(kind, name, sized, "_all") for name, kind in own.items()]
    parameters += [f"ARRAY({kind}) out{at}" for at, kind in enumerate(columns)]
    if buffers:
        parameters += ["ARRAY(const i64) rooms", "ARRAY(i64) lent", "i64 classes"]
    wide = ["double" if kind == "double" else "i64" for kind in columns]
    give = [f"    {kind} give{at} = 0;" for at, kind in enumerate(wide)]
    give += ["    i64 give_place = 0;"] if translation.fresh else []
    give += ["    i64 give_key = 0, give_count = 0;"] if translation.counts else []
    tails = translation.lists * THREADS // lanes  # lengths of the worklists of a block's tiles
    none = ", ".join("-1" for _ in buffers)
    lines = [
        _HEAD,
        *(f"// {line.removeprefix('# ')}" for line in printed.source.splitlines()
          if line.startswith("# ")),
        f"enum {{ LANES = {lanes} }};", "",
        "KERNEL(walk_plan)(" + ",\n             ".join(parameters) + ") {",
        *_top(translation.root, inputs),
        *([f"    SHARED(u32, tails, {tails});"] if tails else []),
        "    if (tile_of_grid<LANES>() >= tiles) return;",
        *(_slice(name, kind, buffers) for name, kind in own.items()),
        *([f"    i64 borrowed[{len(buffers)}] = {{{none}}};"] if buffers else []),
        *translation.declarations(), *give, "    bool gives = false;",
        _START.rstrip("\n"),
        *body,
        _END.replace("finish:\n", _FINISH) if buffers else _END,
        *_counted(counters),
        "}", "",
    ]  # fmt: skip
    return LoopKernel(
        printed,
        whole("\n".join(lines)),
        tuple(arrays),
        sized,
        tuple(scratch),
        tuple(outputs),
        lanes,
        buffers,
    )


def _counted(counters: Sequence[Counter]) -> Iterator[str]:
    """The lines that add the tile's counters to the totals when the tile ends."""
    for at, counter in enumerate(counters):
        what = "at_least" if counter.again else "add"
        yield f"    {what}_counted(t, {ARRAY}, {at}, {counter.name});"


def _top(root: str | None, inputs: Mapping[str, str]) -> list[str]:
    """The lines in which all threads of a block load the top of a root's search tree."""
    if root is None:
        return []
    load = f"    const int n_top = load_top({root}, {root}_n, top);"
    return [f"    SHARED({inputs[root]}, top, TOP);", load]


def _parameter(kind: str, name: str, sized: frozenset[str], suffix: str = "") -> str:
    length = f", i64 {name}_n" if name in sized else ""
    return f"ARRAY({kind}) {name}{suffix}{length}"


def _slice(name: str, kind: str, buffers: Sequence[str]) -> str:
    """A tile's own part of its scratch."""
    part = f"slice({name}_all, tile_of_grid<LANES>() * {name}_n, {name}_n)"
    array = f"    Array<{kind}> {name}"
    if name in buffers:
        return f"    const Array<{kind}> {name}_own = {part};\n{array} = {name}_own;"
    return f"{array} = {part};"


# The words of `kernels/work.cuh`, and the size of a ring.


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


CONTROL_WORDS: Final = 176
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


# The layout of a launch's scratch memory: the tiles' own parts, and parts that tiles borrow.


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
