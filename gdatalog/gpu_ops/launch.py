"""A launch of a plan's kernel: its arguments and buffers, and how it runs until all work is done.

The grid has as many blocks as are resident at once. Tiles write rows to the free blocks of a pool.
When no block is free, tiles put their unfinished tasks back and the launch ends. The host drains or
enlarges the pool, and the next launch goes on with the same counter and queue of tasks.

If the loops read cached intersections by edge, a kernel computes those of all edges before the
loops run. So tiles only read them, and none waits for another.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar
from weakref import ref

import numpy as np

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
from gdatalog.cpu_ops.arrays import expand as host_expand
from gdatalog.errors import MemoryLimitError
from gdatalog.gpu_ops.buffers import LARGE_TABLE, Buffers
from gdatalog.gpu_ops.control_words import (
    CONTROL_WORDS,
    EVERYTHING,
    SLOT_WORDS,
    THREADS,
    Reason,
    Word,
    capacity,
)
from gdatalog.gpu_ops.cupy_driver import CupyDriver
from gdatalog.gpu_ops.cupy_kernel import CupyKernel
from gdatalog.gpu_ops.kept_lists import kept_lists, turned
from gdatalog.gpu_ops.loops import HOLDING, RESIDENT, TEAMS, LoopKernel
from gdatalog.gpu_ops.rows import Array
from gdatalog.gpu_ops.scratch import Need, Scratch, laid_out
from gdatalog.limits import Limits
from gdatalog.overhead import spending
from gdatalog.printer.nest_state import ARRAY
from gdatalog.records import dataclass, field
from gdatalog.storage.on_device import is_on_host
from gdatalog.storage.trie import Trie

Part = tuple[int, int]  # a part of the work: its number, and the number of parts
WHOLE: Part = 0, 1

Found = TypeVar("Found")
# Launches, one after the other: the control words of each, and what is read after it. Whoever has
# waited for it sends what was read; the last one gives what is found.
Launched = tuple[Array, Any]
Steps = Generator[Launched, Any, Found]
STOP = (Word.STOP,), int(Reason.STOPPED)  # what `driver.wait` writes to end a kernel

OF_TILE = 64  # entries: if tiles that hold lists had fewer, there are fewer tiles
ALIGNED = 128  # bytes: shared memory is given to blocks in multiples of it
PIECES = 16  # most pieces into which a tile cuts its task to share it
BLOCK_ROWS = 256  # of a block of the pool
SHARING = 8  # lanes: tiles at least as wide share long tasks
FEWER = 4  # times fewer tiles, if each needs more of the pool
PLACED_HERE = 1 << 16  # rows, below which the host says where they lie
# Bytes of the first blocks, which come with the control words of a run that may be brief; and of
# all its blocks, if they come next.
FIRST_BYTES, NEXT_BYTES = 1 << 16, 1 << 18


@dataclass(slots=True)
class _Pool:
    """The blocks of rows that tiles fill in one launch, and how many rows each has."""

    count: int
    block_rows: int
    outputs: list[Array]
    counts: Array  # how many rows each block has
    previous: Array  # the previous block of each block's tile
    nbytes: int  # of the outputs
    few: tuple[Array, ...]  # the counts and rows of the blocks that are read first

    def read_first(self, blocks: int) -> None:
        first = min(self.count, blocks)
        rows = [output[: first * self.block_rows] for output in self.outputs]
        self.few = self.counts[:first], *rows


@dataclass(slots=True)
class _FoundBlocks:
    """The rows of earlier launches; the first `apart` blocks are on the host."""

    blocks: list[Block] = field(default_factory=list)
    apart: int = 0

    @property
    def held(self) -> int:
        """The bytes that they take on the device."""
        return sum(part.nbytes for block in self.blocks[self.apart :] for part in block)


class Launch:
    """A prepared launch. It serves as long as the plan runs over the same tries.

    `nbytes`: of its buffers. `again`: whether its pool had room for all rows, so that it may be
    kept. It has arrays of the tries, but not the tries, so that the cache can drop them.
    """

    def __init__(
        self,
        shared: Buffers,
        loops: LoopKernel,
        kernel: CupyKernel,
        run: LoopRun,
        rooms: Mapping[str, int],
    ) -> None:
        self.shared, self.loops, self.kernel = shared, loops, kernel
        self.part, self.rooms, self.limits = WHOLE, rooms, run.limits
        self.thresholds = run.settings.thresholds
        # Whether only new rows are output; these are final once they are written.
        self.fresh = "marks" in run.beside or "known" in run.beside
        self.xp: Any = shared.driver.xp
        self.wanted = EVERYTHING
        tries = [run.tries[at] for at in run.printed.which]
        self.again = all(isinstance(trie, Trie) for trie in tries)
        self._tries = [ref(trie) for trie in tries] if self.again else []
        # Constants and tables depend on the scope.
        self.constants: Mapping[str, Array] = run.printed.expressions.arguments(run.scope)
        self.given = {**self._inputs(tries, run.beside), **run.beside}
        self.tally: Array | None = run.beside.get(ARRAY)  # the counts go there
        if self.tally is not None:
            self.given[ARRAY] = self.xp.asarray(self.tally)
        self.team, self.threads, blocks = self._team(tries, run.rows)
        self.scratch = self._scratch(tries, blocks)
        self.tiles = self.scratch.tiles
        if self.team:  # whole blocks; without memory for one of them, its tiles are no team
            whole = self.tiles - self.tiles % (self.threads // loops.lanes)
            self.team, self.tiles = (self.team, whole) if whole else (0, self.tiles)
        self._make_buffers()

    def serves(self, run: LoopRun) -> bool:
        """Whether it can run again; takes the run's constants."""
        tries = (run.tries[at] for at in run.printed.which)
        if any(known() is not trie for known, trie in zip(self._tries, tries, strict=True)):
            return False
        return self.thresholds is run.settings.thresholds and self.takes(run.scope, run.limits)

    def takes(self, scope: Any, limits: Limits) -> bool:
        """Whether it can run again over the same tries; takes the scope's constants."""
        if self.nbytes > limits.spare():
            return False
        if not self.constants:
            return True
        constants = self.loops.printed.expressions.arguments(scope)
        for name, now in constants.items():
            before = self.constants[name]
            if now is before or (now.shape == before.shape and bool((now == before).all())):
                continue
            if now.shape != before.shape or now.dtype != before.dtype or len(now) >= LARGE_TABLE:
                return False
            self.shared.driver.write(self.given[name], now)
        self.constants = constants
        return True

    @property
    def grid(self) -> int:
        return -(-self.tiles * self.loops.lanes // self.threads)

    def _inputs(self, tries: Sequence[Trie], beside: Mapping[str, Array]) -> dict[str, Array]:
        """The tries, constants and tables that the kernel reads."""
        printed, shared = self.loops.printed, self.shared
        given = {name: shared.upload(array) for name, array in self.constants.items()}
        sizes = [scalar_of(kind, tries[at.trie], at.depth) for kind, at in printed.scalars]
        lists = kept_lists(shared.ops, shared.indexes, printed.arguments, tries, self.limits)
        for name, trie in lists.items():
            given[name] = trie.levels[0].values
            starts = f"{name}_at" if name.startswith("joined") else name.replace("lists", "kept")
            given[starts] = trie.levels[0].offsets
        for name, at in self.loops.turned:
            given[name] = turned(shared.ops, shared.indexes, tries[at.trie], at.depth, self.limits)
        part = [0, len(beside[self.loops.given[0]])] if self.loops.given else []
        self.sizes = np.array([*part, *sizes] or [0], dtype=np.int64)
        given["sizes"] = self.xp.asarray(self.sizes)
        for argument in printed.arguments:
            if argument.kind in SHARED:
                at = argument.levels[0]
                found = SHARED[argument.kind](tries[at.trie], at.depth)
                # empty for a root without an index
                given[argument.name] = found if len(found) else self.xp.asarray(found)
        return given

    def _team(self, tries: Sequence[Trie], rows: float) -> tuple[int, int, int]:
        """The bytes of a table of counts in the shared memory of a block, the whole table if it
        fits, or 0 if units are too small for teams; the threads of a block, and the number of
        blocks."""
        loops, kernel = self.loops, self.kernel
        for table in (each for each in loops.scratch if each.name == loops.table):
            size = scratch_length(table, tries) * np.dtype(DTYPES[table.type]).itemsize
            room, threads, processors = kernel.room(TEAMS)
            size = min(-(-size // 16) * 16, room // ALIGNED * ALIGNED)
            large = self._rows_of_unit(tries, rows) >= self.thresholds.team_unit
            if size > 0 and loops.printed.parallel and large:
                kernel.enlarge(size)
                return size, max(32, threads // TEAMS // 32 * 32), TEAMS * processors
        return 0, THREADS, self.thresholds.grid_blocks or self._blocks(tries)

    def _blocks(self, tries: Sequence[Trie]) -> int:
        """As many blocks as are resident; some fewer, if their tiles had few entries to hold lists
        for."""
        most = self.kernel.resident(THREADS)
        entries = [len(tries[at.trie].levels[at.depth]) for _, at in self.loops.turned]
        blocks = max(entries, default=0) * self.loops.lanes // (THREADS * OF_TILE)
        return min(most, max(most * RESIDENT // HOLDING, blocks)) if entries else most

    def _rows_of_unit(self, tries: Sequence[Trie], rows: float) -> float:
        """The work that a row shares its unit with, on average; `rows`: all that is expected. It is
        divided among units by the lists that fill their tables. Means over all units would not
        tell those graphs apart whose longest lists alone keep a tile busy."""
        for a in self.loops.printed.arguments:
            if a.name == self.loops.filling and a.kind == "values":
                level = tries[a.levels[0].trie].levels[a.levels[0].depth]
                return rows * level.usual / max(1, len(level))
        return rows

    def _scratch(self, tries: Sequence[Trie], blocks: int) -> Scratch:
        """The scratch of as many tiles as are resident at once and have memory."""
        loops = self.loops
        tiles = blocks * (self.threads // loops.lanes) if loops.printed.parallel else 1
        needs = []
        for a in loops.scratch:
            room = self.rooms.get(a.name) or max(1, scratch_length(a, tries))
            width = np.dtype(DTYPES[a.type]).itemsize
            needs.append(Need(a.name, room, width, a.name in loops.buffers, a.kind == "rows"))
        spare = min(self.shared.driver.free_memory(), self.limits.spare())
        rows = loops.outputs and not loops.printed.single
        return laid_out(needs, tiles, spare // 2 if rows else spare - spare // 8)

    def _make_buffers(self) -> None:
        """Makes the buffers of all runs, and the first pool."""
        xp, loops, shared = self.xp, self.loops, self.shared
        self.slots = capacity(self.tiles)
        self.buffers = {
            a.name: xp.empty(self.scratch.length(a.name), dtype=DTYPES[a.type])
            for a in loops.scratch
        }
        self.cleared = [self.buffers[name] for name in self.rooms if name.startswith("seen")]
        self.cleared += [self.buffers[a.name] for a in loops.scratch if a.kind in CLEARED]
        self.lending: list[Any] = []
        if loops.buffers:
            rooms, lent = self.scratch.rooms(loops.buffers)
            lent_parts = xp.empty(lent, dtype=xp.int64)
            self.lending = [xp.asarray(rooms), lent_parts, len(self.scratch.classes)]
            self.cleared.append(lent_parts)
        self.ends = xp.empty(1, dtype=xp.int64) if shared.ends is None else shared.ends
        self._memory: Array | None = None  # control words, rows of one each, and the queue
        self._reader: Any = None  # of the words and these rows
        # The arguments of the last launch, and a graph of it, from its second time on.
        self._launches: tuple[Any, Callable[[], None] | None] = None, None
        self.scratch_bytes = sum(array.nbytes for array in self.buffers.values())
        self.limits.charge("lists of tiles", self.scratch_bytes)
        self.block_rows, count = self._pool()
        self.pool = self._new_pool(count)
        self.nbytes = self.scratch_bytes + self.pool.nbytes + 8 * self.slots * SLOT_WORDS
        self._listed: tuple[int, _Pool, Any] | None = None  # the arguments, and for what

    # ---------------------------------------------------------------------------------- runs

    def steps(
        self, limits: Limits, wanted: int | None, brief: bool = False, part: Part = WHOLE
    ) -> Steps[list[Block]]:
        """The rows, as blocks of columns: launches until no work is left of this part of the units
        of the plan's first level. Blocks of one row a worker lie on the host; if `brief`, so do few
        rows."""
        self.limits = limits
        if part != self.part:
            self.part, self._listed = part, None
        self.wanted = EVERYTHING if wanted is None else wanted
        limits.charge("lists of tiles", self.scratch_bytes)
        return self._one_row_each() if self.loops.printed.single else self._many_rows(brief)

    def _clear(self) -> None:
        """Clears what a launch that ended early leaves: marks, and counts."""
        for array in self.cleared:
            self.shared.driver.clear(array)

    def _many_rows(self, brief: bool) -> Steps[list[Block]]:
        pool, found, driver = self.pool, _FoundBlocks(), self.shared.driver
        if self._memory is None:
            self._make_memory(0)
        driver.clear(self._memory)
        while True:
            self._make_room(found, pool.nbytes)
            self._clear()
            status, counts, outputs = yield from self._launched(pool, brief)
            rows = self._drain(outputs, counts, self.block_rows)
            if rows is not None:
                found.blocks.append(rows)
            if status != Reason.FULL:
                self._tell()
                return found.blocks
            self.again = False
            for word in (Word.STATUS, Word.STOP, Word.POOL):
                self.control[word] = 0
            del outputs
            pool = self._new_pool(self._next_count(pool, len(rows[0]) if rows else 0))

    def _one_row_each(self) -> Steps[list[Block]]:
        """The steps if each tile gives one row: there is room for all. From the second time on, one
        launch of a graph clears, runs and copies."""
        driver, pool, args = self.shared.driver, self.pool, self._arguments(self.pool)
        self.limits.charge("blocks", pool.nbytes)
        if self._reader is None:
            self._reader = driver.reader([self._head])

        def launch() -> None:
            driver.clear(self._memory)
            self._clear()
            self.kernel.launch(self.grid, self.threads, args, shared=self.team)
            self._reader.copy()

        before, go = self._launches
        if before is not args:
            go = launch
        elif go is None:
            go = driver.recorded(launch)
        self._launches = args, None if go is launch else go
        go()
        (words,) = yield self.control, self._reader.begin()
        self._status(words)
        self._tell()
        used, at, found = int(words[Word.POOL]), CONTROL_WORDS, []
        for output in pool.outputs:
            found.append(words[at:].view(output.dtype)[:used])
            at += -(-output.nbytes // 8)
        return [tuple(found)] if used else []

    def _tell(self) -> None:
        """Copies a profile's counts."""
        if self.tally is not None:
            self.tally[:] = self.xp.asnumpy(self.given[ARRAY])

    def _make_memory(self, words: int) -> None:
        """Makes the control words, so many words for rows behind them, and the queue."""
        head = CONTROL_WORDS + words
        self._memory = self.xp.empty(head + self.slots * SLOT_WORDS, dtype=self.xp.int64)
        self._head, self.ring = self._memory[:head], self._memory[head:]
        self.control = self._memory[:CONTROL_WORDS]
        self._reader, self._launches = None, (None, None)

    def _new_pool(self, count: int) -> _Pool:
        xp, rows = self.xp, self.block_rows
        dtypes = [np.dtype(DTYPES[a.type]) for a in self.loops.outputs]
        if self.loops.printed.single:
            words = [-(-count * dtype.itemsize // 8) for dtype in dtypes]
            self._make_memory(sum(words))
            ends = CONTROL_WORDS + np.cumsum(words)
            outputs = [
                self._head[end - size : end].view(dtype)[:count]
                for end, size, dtype in zip(ends.tolist(), words, dtypes, strict=True)
            ]
        else:
            outputs = [xp.empty(count * rows, dtype=dtype) for dtype in dtypes]
        counts, previous = (xp.empty(count, dtype=xp.int32) for _ in range(2))
        size = sum(output.nbytes for output in outputs)
        pool = _Pool(count, rows, outputs, counts, previous, size, ())
        pool.read_first(FIRST_BYTES * count // max(1, size))
        return pool

    def _make_room(self, found: _FoundBlocks, size: int) -> None:
        """Moves rows to the host if a pool of `size` bytes needs their room."""
        held = found.held
        if held and self._short(held, size):
            if self.fresh:
                raise MemoryLimitError(f"new rows do not fit {self.shared.driver.name}")
            found.blocks[found.apart :] = [
                tuple(map(self._fetched, block)) for block in found.blocks[found.apart :]
            ]
            found.apart, held = len(found.blocks), 0
        self.limits.charge("blocks", held + size)

    def _launched(self, pool: _Pool, brief: bool) -> Steps[tuple[int, Array, Sequence[Array]]]:
        """Launches the kernel; returns why it ended, how many rows each block that it asked for
        has, and the blocks."""
        driver, outputs = self.shared.driver, pool.outputs
        driver.clear(pool.counts)
        self.kernel.launch(self.grid, THREADS, self._arguments(pool))
        reads = (pool.few if brief else (pool.counts,)) if outputs else ()
        words, *found = yield self.control, driver.reading((self.control, *reads))
        status, used = self._status(words), min(int(words[Word.POOL]), pool.count)
        if not outputs:  # a proposition, which holds if there is a row, or tables of counts
            counts = driver.fetched(pool.counts[:used]) if used else np.empty(0, dtype=np.int32)
            return status, counts, outputs
        counts, *rows = found
        if used > len(counts):
            counts, rows = driver.fetched(pool.counts[:used]), []
            if brief and used * pool.nbytes <= NEXT_BYTES * pool.count:
                rows = [driver.fetched(output[: used * pool.block_rows]) for output in outputs]
                pool.read_first(used + used // 2)  # the next run may have as many
        return status, counts[:used], rows or outputs

    def _status(self, words: Array) -> int:
        """Why a launch ended, by its control words."""
        status = int(words[Word.STATUS])
        if status in (Reason.FAILED, Reason.OVERFLOWED):
            raise GiveUp
        if status == Reason.OUTSIDE:
            raise Outside
        return status

    def _arguments(self, pool: _Pool) -> Any:
        """The kernel's arguments, in its order."""
        known = self._listed
        if known is not None and known[0] == self.wanted and known[1] is pool:
            return known[2]
        loops, buffers, grain = self.loops, self.buffers, self.thresholds.tile_grain
        numbers = {
            "capacity": self.slots, "grain": max(loops.printed.grain, grain, 1),
            "limit": self._ticks(), "pieces": PIECES, "blocks": pool.count,
            "block_rows": pool.block_rows, "wanted": self.wanted, "tiles": self.tiles,
            "part": self.part[0], "parts": self.part[1],
            "team": self.team if self.part == WHOLE else 0,
        }  # fmt: skip
        args: list[Any] = [self.control, self.ring, pool.counts, pool.previous]
        args += [self.ends, len(self.ends)]
        args += numbers.values()
        for name in loops.arrays:
            if name in self.given or name in buffers:
                args.append(self.given[name] if name in self.given else buffers[name])
                if name in loops.sized:
                    args.append(self.scratch.own.get(name, len(args[-1])))
        packed = self.kernel.packed([*args, *pool.outputs, *self.lending])
        self._listed = self.wanted, pool, packed
        return packed

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
                f"there is room for {room:,} rows on {self.shared.driver.name}, and most of them "
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
            held + size > spare or held > self.shared.driver.free_memory()
        )

    def _fetched(self, column: Array) -> Array:
        with spending("moving", int(column.nbytes)):
            return self.shared.driver.fetched(column)

    def _ticks(self) -> int:
        """The ticks of the kernels' clock between two checks whether other tiles wait."""
        limit = self.thresholds.tile_shares_after
        if limit > 0 and self.loops.lanes < SHARING:
            return -1  # so many narrow tiles would hinder each other
        return limit if limit <= 0 else max(1, int(limit * self.shared.driver.clock))

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
        return min(self.shared.driver.free_memory(), self.limits.spare()) // 4

    def _drain(self, outputs: Sequence[Array], counts: Array, block_rows: int) -> Block | None:
        """The rows of the pool's used blocks, without gaps. `counts`: on the host."""
        if not outputs or not len(counts):
            return () if counts.any() else None
        xp, total = self.xp, int(counts.sum())
        starts = np.arange(len(counts)) * block_rows
        if total < PLACED_HERE:
            positions = host_expand(starts, counts, total)[1]
            if not is_on_host(outputs[0]):
                positions = xp.asarray(positions)
        else:
            given = xp.asarray(starts), xp.asarray(counts.astype(np.int64))
            _, positions = self.shared.ops.expand(*given, total)
        return tuple(output[positions] for output in outputs)


def finished(
    steps: Steps[Found], driver: CupyDriver, limits: Limits, launched: Launched | None = None
) -> Found:
    """Waits for one launch after the other, and returns what is found. `launched`: the first, if
    it is under way."""
    read: Any = None
    try:
        while True:
            control, reading = launched or steps.send(read)
            launched = None
            read = driver.wait(limits.poll, control, *STOP, reading)
    except StopIteration as end:
        found: Found = end.value
        return found
    finally:
        steps.close()


def all_finished(
    several: Sequence[Steps[Found]], driver: CupyDriver, limits: Limits
) -> list[Found]:
    """The same for several, whose first launches are queued before it waits for any of them."""
    under_way: list[Launched] = []
    try:
        for steps in several:
            under_way.append(steps.send(None))
        return [finished(steps, driver, limits, under_way.pop(0)) for steps in several]
    except BaseException:
        for launched in under_way:
            stop(launched, driver)
        raise
    finally:
        for steps in several:
            steps.close()


def stop(launched: Launched, driver: CupyDriver) -> None:
    """Ends a launch that is under way, and waits for its end. There is an error already."""
    control, reading = launched
    with suppress(BaseException):
        driver.wait(_stopped, control, *STOP, reading)


def _stopped() -> None:
    raise InterruptedError
