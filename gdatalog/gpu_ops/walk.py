"""Depth-first joins on a GPU: launches a plan's kernel until all of its work is done.

The grid has as many blocks as are resident at once. Tiles write rows to the free blocks of a pool.
When no block is free, tiles put their unfinished tasks back and the launch ends. The host drains or
enlarges the pool, and the next launch goes on with the same counter and queue of tasks.

If the loops read cached intersections by edge, a kernel computes those of all edges before the
loops run. So tiles only read them, and none waits for another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from gdatalog.account import spending
from gdatalog.calls import (
    CLEARED,
    DTYPES,
    SHARED,
    Block,
    GiveUp,
    LoopRun,
    Outside,
    scalar_of,
    scratch_length,
)
from gdatalog.errors import MemoryLimitError
from gdatalog.gpu_ops.cupy_driver import CupyDriver, CupyKernel
from gdatalog.gpu_ops.kept_lists import KEPT_LISTS, kept_lists
from gdatalog.gpu_ops.loops import (
    CONTROL_WORDS,
    EVERYTHING,
    SLOT_WORDS,
    THREADS,
    LoopKernel,
    Need,
    Reason,
    Scratch,
    Word,
    capacity,
    laid_out,
    loops_of,
)
from gdatalog.gpu_ops.rows import Array
from gdatalog.gpu_ops.trie_cache import DeviceTries
from gdatalog.printer.module import PrintedPlan
from gdatalog.printer.nest_state import ARRAY
from gdatalog.records import dataclass, field
from gdatalog.storage.row_ops import DeviceOps
from gdatalog.storage.trie import Trie

Part = tuple[int, int]  # a part of the work: its number, and the number of parts
WHOLE: Part = 0, 1

PIECES = 16  # most pieces into which a tile cuts its task to share it
BLOCK_ROWS = 256  # of a block of the pool
SHARING = 8  # lanes: tiles at least as wide share long tasks
MOST_KERNELS = 256
FEWER = 4  # times fewer tiles, if each needs more of the pool


class Walks:
    """The kernels of plans on one device."""

    def __init__(self, driver: CupyDriver, ops: DeviceOps, indexes: DeviceTries) -> None:
        """`indexes`: where intersections by edge are cached."""
        self.driver = driver
        self.ops = ops
        self.indexes = indexes
        self.ends: Array | None = None  # an array for the time at which each block of a launch ends
        self._kernels: dict[str, CupyKernel] = {}  # by their source
        self._loops: dict[int, LoopKernel] = {}  # by the id of the printed plan
        self._ring: Array | None = None
        self._uploaded: dict[int, tuple[Array, Array]] = {}  # tables by their id

    def _loops_of(self, printed: PrintedPlan) -> LoopKernel:
        """The loops of one plan. Plans with the same source may have different constants."""
        found = self._loops.get(id(printed))
        if found is None or found.printed is not printed:
            if len(self._loops) >= MOST_KERNELS:
                self._loops.clear()
            found = self._loops[id(printed)] = loops_of(printed)
        return found

    def loops_like(self, other: Walks, printed: PrintedPlan) -> None:
        """Takes a plan's loops from another device, so that they are translated once."""
        self._loops[id(printed)] = other._loops_of(printed)

    def kernel(self, printed: PrintedPlan, label: str) -> tuple[LoopKernel, CupyKernel]:
        """The kernel of a plan, compiled on first use."""
        loops = self._loops_of(printed)
        kernel = self._kernels.get(loops.source)
        if kernel is None:
            with spending("compiling"):
                kernel = self.driver.kernels(loops.source, ["walk_plan"], label)["walk_plan"]
            if len(self._kernels) >= MOST_KERNELS:
                self._kernels.clear()
            self._kernels[loops.source] = kernel
        return loops, kernel

    def run(
        self,
        run: LoopRun,
        wanted: int | None,
        part: Part = WHOLE,
        rooms: Mapping[str, int] = MappingProxyType({}),
    ) -> list[Block]:
        """The rows of a plan, as blocks of columns on the device.

        `part`: a part of the units of the plan's first level. `rooms`: the number of elements that
        a tile needs of scratch whose size does not depend on tries.
        """
        limits = run.limits
        with limits.watch.work("compiling", run.label):
            loops, kernel = self.kernel(run.printed, run.label)
        try:
            return _Launch(self, loops, kernel, run, wanted, part, rooms).blocks()
        finally:
            for what in ("blocks", "lists of tiles", KEPT_LISTS):
                limits.charge(what, 0)

    def upload(self, array: Array) -> Array:
        """A host array on the device. Large arrays are cached."""
        if len(array) < 1024:
            return self.driver.xp.asarray(array)
        found = self._uploaded.get(id(array))
        if found is None or found[0] is not array:
            if len(self._uploaded) >= 32:
                self._uploaded.clear()
            with spending("moving", array.nbytes):
                found = array, self.driver.xp.asarray(array)
            self._uploaded[id(array)] = found
        return found[1]

    def ring(self, words: int) -> Array:
        """An empty queue of tasks, with tickets from 0 on. Plans share its memory."""
        if self._ring is None or len(self._ring) < words:
            self._ring = self.driver.xp.empty(words, dtype=self.driver.xp.int64)
        self._ring[:words] = 0
        return self._ring[:words]

    def forget(self) -> None:
        """Frees kernels and arrays."""
        self._kernels.clear()
        self._loops.clear()
        self._uploaded.clear()
        self._ring = self.ends = None


@dataclass(slots=True)
class _Arguments:
    """What all launches of a run share. `slots`: of the `ring`, a queue of tasks. `lending`: the
    rooms of buffers that tiles lend each other, and how many these are."""

    control: Array
    slots: int
    ring: Array
    scratch: Mapping[str, Array]
    ends: Array
    lending: tuple[Array, int] | None


@dataclass(slots=True)
class _Pool:
    """The blocks of rows that tiles fill in one launch, and how many rows each has."""

    count: int
    block_rows: int
    outputs: list[Array]
    counts: Array
    previous: Array

    @property
    def nbytes(self) -> int:
        return sum(output.nbytes for output in self.outputs)


@dataclass(slots=True)
class _FoundBlocks:
    """The rows of earlier launches; the first `apart` blocks are on the host."""

    blocks: list[Block] = field(default_factory=list)
    apart: int = 0

    @property
    def held(self) -> int:
        """The bytes that they take on the device."""
        return sum(part.nbytes for block in self.blocks[self.apart :] for part in block)


class _Launch:
    """One run of a plan."""

    def __init__(
        self,
        walks: Walks,
        loops: LoopKernel,
        kernel: CupyKernel,
        run: LoopRun,
        wanted: int | None,
        part: Part,
        rooms: Mapping[str, int],
    ) -> None:
        self.walks = walks
        self.part = part
        self.rooms = rooms
        self.fresh = (
            "marks" in run.beside
        )  # whether only new rows are output; these are final once they are written
        self.loops = loops
        self.cleared = [name for name in rooms if name.startswith("seen")]
        self.cleared += [a.name for a in loops.scratch if a.kind in CLEARED]
        self.kernel = kernel
        self.limits = run.limits
        self.thresholds = run.settings.thresholds
        self.xp: Any = walks.driver.xp
        self.tries: list[Trie] = [run.tries[at] for at in run.printed.which]
        self.wanted = EVERYTHING if wanted is None else wanted
        # Constants and tables depend on the scope; a group of devices passes the arrays instead.
        found = run.scope
        constants = found if isinstance(found, dict) else run.printed.expressions.arguments(found)
        self.given = {**self._inputs(constants), **run.beside}
        self.tally: Array | None = run.beside.get(ARRAY)  # the counts go there
        if self.tally is not None:
            self.given[ARRAY] = self.xp.asarray(self.tally)
        self.scratch = self._scratch()
        self.tiles = self.scratch.tiles

    @property
    def grid(self) -> int:
        return -(-self.tiles * self.loops.lanes // THREADS)

    def _inputs(self, constants: Mapping[str, Array]) -> dict[str, Array]:
        """The tries, constants and tables that the kernel reads."""
        printed, walks = self.loops.printed, self.walks
        given = {name: walks.upload(array) for name, array in constants.items()}
        sizes = [scalar_of(kind, self.tries[at.trie], at.depth) for kind, at in printed.scalars]
        # The cache drops only what is not in use.
        self.kept = kept_lists(walks.ops, walks.indexes, printed.arguments, self.tries, self.limits)
        for name, trie in self.kept.items():
            given[name] = trie.levels[0].values
            given[name.replace("lists", "kept")] = trie.levels[0].offsets
        given["sizes"] = self.xp.asarray(np.array(sizes or [0], dtype=np.int64))
        for argument in printed.arguments:
            if argument.kind in SHARED:
                at = argument.levels[0]
                found = SHARED[argument.kind](self.tries[at.trie], at.depth)
                # empty for a root without an index
                given[argument.name] = found if len(found) else self.xp.asarray(found)
        return given

    def _scratch(self) -> Scratch:
        """The scratch of as many tiles as are resident at once and have memory."""
        loops = self.loops
        blocks = self.thresholds.grid_blocks or self.kernel.resident(THREADS)
        tiles = blocks * (THREADS // loops.lanes) if loops.printed.parallel else 1
        needs = []
        for a in loops.scratch:
            room = self.rooms.get(a.name) or max(1, scratch_length(a, self.tries))
            width = np.dtype(DTYPES[a.type]).itemsize
            needs.append(Need(a.name, room, width, a.name in loops.buffers, a.kind == "rows"))
        spare = min(self.walks.driver.free_memory(), self.limits.spare())
        rows = loops.outputs and not loops.printed.single
        return laid_out(needs, tiles, spare // 2 if rows else spare - spare // 8)

    # ------------------------------------------------------------------------------ launches

    def blocks(self) -> list[Block]:
        """The rows, as blocks of columns: launches until no work is left."""
        arguments = self._arguments()
        block_rows, count = self._pool()
        found = _FoundBlocks()
        while True:
            pool = self._new_pool(count, block_rows)
            for name in self.cleared:  # a launch that ended early leaves marks, or counts
                arguments.scratch[name].fill(0)
            self._make_room(found, pool.nbytes)
            status, used = self._launched(arguments, pool)
            rows = self._drain(pool.outputs, pool.counts[: min(used, count)], block_rows)
            if rows is not None:
                found.blocks.append(rows)
            if status != Reason.FULL:
                if self.tally is not None:
                    self.tally[:] = self.xp.asnumpy(self.given[ARRAY])
                return found.blocks
            for word in (Word.STATUS, Word.STOP, Word.POOL):
                arguments.control[word] = 0
            count = self._next_count(pool, 0 if rows is None else len(rows[0]))

    def _arguments(self) -> _Arguments:
        """What all launches of the run share."""
        xp, loops = self.xp, self.loops
        control = xp.zeros(CONTROL_WORDS, dtype=xp.int64)
        slots = capacity(self.tiles)
        ring = self.walks.ring(slots * SLOT_WORDS)
        scratch = {
            a.name: xp.empty(self.scratch.length(a.name), dtype=DTYPES[a.type])
            for a in loops.scratch
        }
        rooms, lent = self.scratch.rooms(loops.buffers)
        lending = (xp.asarray(rooms), lent) if loops.buffers else None
        self.limits.charge("lists of tiles", sum(array.nbytes for array in scratch.values()))
        ends = xp.empty(1, dtype=xp.int64) if self.walks.ends is None else self.walks.ends
        return _Arguments(control, slots, ring, scratch, ends, lending)

    def _new_pool(self, count: int, block_rows: int) -> _Pool:
        xp = self.xp
        outputs = [xp.empty(count * block_rows, dtype=DTYPES[a.type]) for a in self.loops.outputs]
        counts, previous = xp.zeros((2, count), dtype=xp.int32)
        return _Pool(count, block_rows, outputs, counts, previous)

    def _make_room(self, found: _FoundBlocks, size: int) -> None:
        """Moves rows to the host if a pool of `size` bytes needs their room."""
        held = found.held
        if held and self._short(held, size):
            if self.fresh:
                raise MemoryLimitError(f"new rows do not fit {self.walks.driver.name}")
            found.blocks[found.apart :] = [
                tuple(map(self._fetched, block)) for block in found.blocks[found.apart :]
            ]
            found.apart, held = len(found.blocks), 0
        self.limits.charge("blocks", held + size)

    def _launched(self, arguments: _Arguments, pool: _Pool) -> tuple[int, int]:
        """Launches the kernel and waits for it; returns why it ended, and how many blocks of the
        pool it asked for."""
        driver, control = self.walks.driver, arguments.control
        self.kernel.launch(self.grid, THREADS, self._listed(arguments, pool))
        driver.wait(self.limits.poll, control, int(Word.STOP), int(Reason.STOPPED))
        words = driver.xp.asnumpy(control)
        status = int(words[Word.STATUS])
        if status in (Reason.FAILED, Reason.OVERFLOWED):
            raise GiveUp
        if status == Reason.OUTSIDE:
            raise Outside
        return status, int(words[Word.POOL])

    def _listed(self, arguments: _Arguments, pool: _Pool) -> list[Any]:
        """The kernel's arguments, in its order."""
        loops, scratch, grain = self.loops, arguments.scratch, self.thresholds.tile_grain
        numbers = {
            "capacity": arguments.slots, "grain": max(loops.printed.grain, grain, 1),
            "limit": self._ticks(), "pieces": PIECES, "blocks": pool.count,
            "block_rows": pool.block_rows, "wanted": self.wanted, "tiles": self.tiles,
            "part": self.part[0], "parts": self.part[1],
        }  # fmt: skip
        ends = arguments.ends
        args = [arguments.control, arguments.ring, pool.counts, pool.previous, ends, len(ends)]
        args += numbers.values()
        for name in loops.arrays:
            if name in self.given or name in scratch:
                args.append(self.given[name] if name in self.given else scratch[name])
                if name in loops.sized:
                    args.append(self.scratch.own.get(name, len(args[-1])))
        args += pool.outputs
        if arguments.lending is not None:
            rooms, lent = arguments.lending
            args += [rooms, self.xp.zeros(lent, dtype=self.xp.int64), len(self.scratch.classes)]
        return args

    def _next_count(self, pool: _Pool, kept: int) -> int:
        """The number of blocks of the next launch, after one that was full and kept these rows."""
        count, room = pool.count, pool.count * pool.block_rows
        most = self.thresholds.pool_rows_most // pool.block_rows
        more = max(count, min(2 * count, most, self._affordable()))
        short = more == count if self.rooms else more < 2 * count
        if short and 2 * kept < room:
            more = max(more, self._with_fewer_tiles(count, room))
        return more

    def _with_fewer_tiles(self, count: int, room: int) -> int:
        """The number of blocks of the next launches, if most rows were undone and the pool cannot
        grow.

        When no block is free, a tile in the middle of a unit undoes the unit's rows. Fewer tiles
        have more blocks each; a single tile only undoes a unit with more rows than the whole pool.
        So at most as many rows are undone as are kept, plus one pool of rows for each reduction.
        """
        if self.rooms:
            raise MemoryLimitError(
                f"there is room for {room:,} rows on {self.walks.driver.name}, and most of them "
                f"were of fixpoints that had not ended"
            )
        if self.tiles == 1:
            return 2 * count
        self.tiles = max(1, self.tiles // FEWER)
        return count

    def _short(self, held: int, size: int) -> bool:
        """Whether blocks must go to the host to make room. A fixpoint's rows may always go, since
        nothing reads them before its end; other rows only if the caller wants rows on the host."""
        if self.limits.to_host:
            return held > self._affordable_bytes()
        spare = self.limits.spare() + self.limits.account.held.get("blocks", 0)
        return (bool(self.rooms) or self.fresh) and (
            held + size > spare or held > self.walks.driver.free_memory()
        )

    def _fetched(self, column: Array) -> Array:
        with spending("moving", int(column.nbytes)):
            return self.walks.driver.fetched(column)

    def _ticks(self) -> int:
        """The ticks of the kernels' clock between two checks whether other tiles wait."""
        limit = self.thresholds.tile_shares_after
        if limit > 0 and self.loops.lanes < SHARING:
            return -1  # so many narrow tiles would hinder each other
        return limit if limit <= 0 else max(1, int(limit * self.walks.driver.clock))

    def _pool(self) -> tuple[int, int]:
        """The rows of a block, and the number of blocks at first: at least one for each tile.
        Reduces the tiles if memory is short."""
        if not self.loops.outputs:
            return BLOCK_ROWS, self.tiles
        if self.loops.printed.single:
            return 1, self.tiles
        blocks, affordable = self.thresholds.pool_rows // BLOCK_ROWS, self._affordable()
        if not self.rooms:  # with few tiles, a fixpoint is faster on the CPU
            self.tiles = max(1, min(self.tiles, affordable))
        return BLOCK_ROWS, max(self.tiles, min(blocks, affordable))

    def _affordable(self) -> int:
        """How many blocks of rows fit into a quarter of the free memory."""
        each = BLOCK_ROWS * sum(np.dtype(DTYPES[a.type]).itemsize for a in self.loops.outputs)
        return self._affordable_bytes() // max(1, each)

    def _affordable_bytes(self) -> int:
        return min(self.walks.driver.free_memory(), self.limits.spare()) // 4

    def _drain(self, outputs: Sequence[Array], counts: Array, block_rows: int) -> Block | None:
        """The rows of the pool's used blocks, without gaps."""
        if not len(counts):
            return None
        if self.loops.printed.single:  # each used block has one row
            return tuple(output[: len(counts)] for output in outputs)
        starts = self.xp.arange(len(counts), dtype=self.xp.int64) * block_rows
        _, positions = self.walks.ops.expand(starts, counts.astype(self.xp.int64))
        return tuple(output[positions] for output in outputs)
