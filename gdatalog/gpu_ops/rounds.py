"""The rounds of a fixpoint on a device, whose kernels tell new rows by a bitmap or a hash set.

The kernels of all rules are prepared once. How many rows there are, and which of them are new, is
in the device's memory (`kernels/rounds.cuh`). So the host queues the next round before it knows how
many rows the last one has found, and reads a few words after each; a round without new rows does
nothing. Rows are appended behind those of earlier rounds, for which the host makes room beforehand.
Rules that read all rows of a growing relation, or the old ones, look them up in hash tries, which
get the new rows behind each round (`growing.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import numpy as np

from gdatalog.calls import SHARED, GiveUp, LoopRun, Outside
from gdatalog.errors import MemoryLimitError
from gdatalog.gpu_ops.control_words import CONTROL_WORDS, SLOT_WORDS, THREADS, Reason, Word
from gdatalog.gpu_ops.cupy_kernel import CupyKernel
from gdatalog.gpu_ops.growing import GrowingTrie, Indexing, RowNumbers, groups_of, slots_for
from gdatalog.gpu_ops.kernels import Kernels, type_of
from gdatalog.gpu_ops.launch import Launch
from gdatalog.gpu_ops.rows import Array, Columns
from gdatalog.gpu_ops.walk import Walks
from gdatalog.limits import Limits
from gdatalog.printer.nest_state import ARRAY
from gdatalog.records import dataclass, field
from gdatalog.storage.key_space import KeySpace

# The words of `kernels/board.cuh`.
HALTED, BOARD_WORDS = 0, 1
ROWS, BEGIN, END, GROWN_WORDS = 0, 1, 2, 3
FOUND, FOLLOWS, SIZES, CONTROL, FOLLOWER_WORDS = 0, 1, 2, 3, 4
INDEX_OF, LACKS, FROM, TO, INDEX_WORDS = 0, 1, 2, 3, 4

RECORDED_FROM = 4  # rounds with the same launches, from which on one launch queues all of them
LINE = 16  # words to which control words are aligned
POOL_SHARE = 16  # a pool takes at most this part of the free memory
# The share of the memory beside the bitmaps that rows may take.
MOST_ROWS = 0.25
APPENDING: Final = 256  # threads of a block
# The first pools of rules whose rows go to a hash set: rows of a block, and blocks.
FEW_ROWS, FEW_BLOCKS = 32, 1 << 10
HELD, TILES = "rows of rounds", "lists of tiles"  # owners of the account


@dataclass(frozen=True, slots=True)
class RoundLoops:
    """Loops that add rows to relation `into`: in each round those that they find from the new rows
    of relation `follows`; without it, once before the rounds."""

    run: LoopRun
    follows: int | None
    into: int


@dataclass(slots=True, eq=False)
class GrowingRows:
    """The distinct rows of a relation, one after the other.

    `columns` have room for more than the `count` rows. Rows from `begin` to `end` are the new ones
    that rules read (at first, those that no rule has found), later ones the round has found.
    `most`: how many are possible. `passing`: rows before the new ones are not needed. `space`: if a
    hash set of their `numbers` tells which rows are new. `tries`: its indexes of earlier rows.
    """

    columns: Columns
    count: int
    most: int
    passing: bool = False
    begin: int = 0
    end: int = 0
    space: KeySpace | None = None
    numbers: RowNumbers | None = None
    dropped: int = 0  # rows that were not needed any more; their numbers are
    tries: list[GrowingTrie] = field(default_factory=list)

    @property
    def capacity(self) -> int:
        return len(self.columns[0])

    def bytes_for(self, capacity: int) -> int:
        """The bytes of so many rows, with those of their indexes."""
        own: int = capacity * sum(column.dtype.itemsize for column in self.columns)
        parts = 0 if self.space is None else len(self.space.parts)
        numbers = 8 * parts * slots_for(self.dropped + capacity)
        return own + numbers + sum(trie.bytes_for(capacity) for trie in self.tries)

    def whole(self) -> Columns:
        """All rows; copies if that frees much."""
        rows = tuple(column[: self.count] for column in self.columns)
        return tuple(column.copy() for column in rows) if 2 * self.count < self.capacity else rows


class _RoundLaunch(Launch):
    """The launch of a rule in every round; `at` is where its words are on the board."""

    def __init__(self, walks: Walks, loops: RoundLoops, at: int) -> None:
        run = loops.run
        with run.limits.watch.work("compiling", run.label):
            known, kernel = walks.kernel(run)
        # Where it reads arrays of indexes that grow.
        self.grown = [
            (argument.name, argument.kind, trie, argument.levels[0].depth)
            for argument in run.printed.arguments
            if argument.levels
            for trie in [cast(Any, run.tries[run.printed.which[argument.levels[0].trie]])]
            if isinstance(trie, GrowingTrie)
        ]
        for _, kind, trie, depth in self.grown:
            trie.reads(depth, kind)
        super().__init__(walks.buffers, known, kernel, run, {})
        self.follows, self.into, self.at = loops.follows, loops.into, at
        # The kernel that appends its rows, its blocks and arguments.
        self.appending: tuple[CupyKernel, int, Any] | None = None
        # Its tickets go on from round to round, so that it is empty after each.
        self.ring = self.xp.zeros(self.slots * SLOT_WORDS, dtype=np.int64)
        for array in (*self.cleared, self.pool.counts):
            array.fill(0)

    @property
    def held(self) -> int:
        held: int = self.scratch_bytes + self.ring.nbytes + self.pool.nbytes
        return held

    @property
    def most(self) -> int:
        """The most rows of a round."""
        return self.pool.count * self.pool.block_rows

    @property
    def counters(self) -> Array | None:
        """The counts of bindings so far, on the device."""
        return None if self.tally is None else self.given[ARRAY]

    def use(self, words: Array, sizes: int, control: int) -> None:
        """Takes words of the board for its own."""
        self.given["sizes"] = words[sizes : sizes + len(self.sizes)]
        self.control = words[control : control + CONTROL_WORDS]

    def follow(self, columns: Columns) -> None:
        for name in self.loops.given:
            self.given[name] = columns[int(name.removeprefix("new"))]
        self._listed = None

    def reread(self, rows: GrowingRows) -> None:
        """Takes the arrays of its relation and its indexes, which may be others."""
        if rows.numbers is not None:
            self.given["known"] = rows.numbers.slots
        for name, kind, trie, depth in self.grown:
            self.given[name] = SHARED[kind](trie, depth)
        self._listed = None

    def queue(self) -> None:
        self.kernel.launch(self.grid, THREADS, self._arguments(self.pool))

    def _pool(self) -> tuple[int, int]:
        """The host makes room for as many rows as fit into pools, so that these grow with need
        where each row takes more room."""
        rows, blocks = super()._pool()
        return (
            (min(rows, FEW_ROWS), min(blocks, FEW_BLOCKS))
            if "known" in self.given
            else (rows, blocks)
        )

    def grow(self) -> None:
        """Enlarges the pool after it was full."""
        count = min(2 * self.pool.count, max(self.pool.count, self._affordable()))
        if count > self.pool.count:
            self.pool, self.appending = self._new_pool(count), None
            self.pool.counts.fill(0)
        for array in self.cleared:  # a launch that ended early leaves marks
            array.fill(0)

    def _affordable_bytes(self) -> int:
        return min(self.shared.driver.free_memory(), self.limits.spare()) // POOL_SHARE


class DeviceRounds:
    """The rounds of one fixpoint. First `add` all rules, those without new rows last, then
    `prepare`, then run what is `first`. `found`: how many rows each rule has found so far."""

    def __init__(
        self, walks: Walks, kernels: Kernels, relations: Sequence[GrowingRows], limits: Limits
    ) -> None:
        self.walks, self.driver, self.limits = walks, walks.driver, limits
        self.xp: Any = walks.driver.xp
        self.kernels, self.relations = kernels, relations
        self.launches: list[_RoundLaunch] = []
        self.board: Any = None
        self.began = False  # whether what runs once has run
        self.found: list[int] = []
        self.words = BOARD_WORDS + GROWN_WORDS * len(relations)
        self._changed()

    def add(self, loops: RoundLoops) -> None:
        """Prepares the launch of a rule."""
        self.launches.append(_RoundLaunch(self.walks, loops, self.words))
        self.words += FOLLOWER_WORDS
        self.found.append(0)
        self.limits.charge(TILES, sum(launch.held for launch in self.launches))

    def prepare(self) -> None:
        """Prepares what rules share, and makes room for the first round."""
        self.followers = [launch for launch in self.launches if launch.follows is not None]
        self.running = self.launches
        self.next, self.resume = (
            self.kernels.kernel('#include "rounds.cuh"\n', name)
            for name in ("next_round", "resume")
        )
        self._lay_indexes()
        for rows in self.relations:
            if rows.space is not None:
                parts, known = rows.space.parts, [each[: rows.count] for each in rows.columns]
                rows.numbers = RowNumbers(self.kernels, len(parts), rows.count)
                numbers = []
                for part in parts:
                    own, known = known[: len(part.spans)], known[len(part.spans) :]
                    numbers.append(part.numbers(own, self.xp))
                rows.numbers.add(numbers)
            for trie in rows.tries:
                trie.make(rows.capacity)
        for launch in self.launches:
            launch.reread(self.relations[launch.into])
        self._make_room(1)
        self._make_board()
        counts = len(self.relations), len(self.followers), self.first_index, len(self.indexes)
        self._ended = self.next.packed([self.board, *counts])

    def _lay_indexes(self) -> None:
        """Gives the indexes that grow their words on the board."""
        owners = [(trie, of) for of, rows in enumerate(self.relations) for trie in rows.tries]
        self.indexes, self.first_index = owners, self.words
        places = range(self.words, self.words + INDEX_WORDS * len(owners), INDEX_WORDS)
        self.words += INDEX_WORDS * len(owners)
        self.groups = groups_of([trie for trie, _ in owners])
        self.indexing = []
        for group in self.groups:
            tries, columns = [owners[at][0] for at in group], self._columns_of(group)
            at = [places[number] for number in group]
            self.indexing.append(Indexing(self.kernels, tries, columns, at))
        self._indexed: Any = None  # the arguments of its launches

    def _columns_of(self, group: Sequence[int]) -> list[Columns]:
        """The columns of some indexes' relations."""
        return [self.relations[self.indexes[number][1]].columns for number in group]

    def _make_board(self) -> None:
        """Lays out the words, and gives launches theirs."""
        places, total = [], self.words
        for launch in self.launches:
            sizes = -(-total // LINE) * LINE
            control = -(-(sizes + len(launch.sizes)) // LINE) * LINE
            total = control + CONTROL_WORDS
            places.append((sizes, control))
        words = np.zeros(total, dtype=np.int64)
        for number, rows in enumerate(self.relations):
            words[BOARD_WORDS + GROWN_WORDS * number + ROWS] = rows.count
        for number, (trie, of) in enumerate(self.indexes):
            at = self.first_index + INDEX_WORDS * number
            words[at + INDEX_OF] = BOARD_WORDS + GROWN_WORDS * of
            words[at + LACKS] = int(trie.old)
        for launch, (sizes, control) in zip(self.launches, places, strict=True):
            if launch.follows is not None:
                words[launch.at + FOLLOWS] = BOARD_WORDS + GROWN_WORDS * launch.follows
            words[launch.at + SIZES : launch.at + FOLLOWER_WORDS] = sizes, control
            words[sizes : sizes + len(launch.sizes)] = launch.sizes
        self.board = self.xp.asarray(words)
        for launch, (sizes, control) in zip(self.launches, places, strict=True):
            launch.use(self.board, sizes, control)
        self.stops = [control + int(Word.STOP) for _, control in places]
        self.statuses = [control + int(Word.STATUS) for _, control in places]

    # ---------------------------------------------------------------------------------- rounds

    def first(self) -> None:
        """Runs what runs once, and begins the first round."""
        once = self.launches[len(self.followers) :]
        for launch in once:
            self._queue(launch)
        for launch in once:
            self._finish(launch, self._wait(self.driver.reading([self.board])))
        self.end_round()

    def run(self) -> Iterator[None]:
        """Runs rounds until no row is new; yields after each. Raises a `MemoryError` before or in
        the middle of a round if there is no room for more rows."""
        self._make_room(1)
        ahead = self._queued()
        while True:
            reading, ahead = ahead, None
            if self._roomy(2):
                ahead = self._queued()
            words = self._wait(reading)
            if words[HALTED] != Reason.DONE:
                if ahead is not None:
                    self._wait(ahead)  # does nothing
                    ahead = None
                for launch in self.followers:
                    self._finish(launch, self._wait(self.driver.reading([self.board])))
                self.end_round()
            else:
                self._read(words)
            yield
            if not self.left:
                return
            if ahead is None:
                self._make_room(1)
                ahead = self._queued()

    @property
    def left(self) -> bool:
        """Whether rows are new."""
        return any(rows.end > rows.begin for rows in self.relations)

    def step(self, number: int) -> Array | None:
        """Runs one rule of a round to its end; returns its counters so far."""
        launch = self.launches[number]
        self._make_room(1)
        self._queue(launch)
        reads = [self.board] if launch.counters is None else [self.board, launch.counters]
        self._finish(launch, self._wait(self.driver.reading(reads[:1])))
        return None if launch.counters is None else self.xp.asnumpy(launch.counters)

    def end_round(self) -> None:
        self.running, self.began = self.followers, True
        self._queue_end()
        self._read(self._wait(self._reading()))

    def _queued(self) -> Any:
        """Queues a round; returns the reading of its result."""
        if self._alike == RECORDED_FROM:
            self._launch = self.driver.recorded(self._launch_all)
        self._alike += 1
        self._launch()
        return self._reading()

    def _launch_all(self) -> None:
        for launch in self.followers:
            self._queue(launch)
        self._queue_end()

    def _queue_end(self) -> None:
        """Queues the end of a round: the rows that its rules have found are the new ones."""
        self.next.launch(1, THREADS, self._ended)
        self._index()

    def _index(self) -> None:
        if self._indexed is None:
            both = zip(self.indexing, self.groups, strict=True)
            self._indexed = [
                (each, each.packed(self.board, self._columns_of(group))) for each, group in both
            ]
        for each, packed in self._indexed:
            each.launch(packed)

    def _changed(self) -> None:
        """Arguments of kernels have changed."""
        self._alike, self._launch = 0, self._launch_all

    def _queue(self, launch: _RoundLaunch) -> None:
        """Queues the kernel of a rule, and the one that appends its rows."""
        launch.queue()
        if launch.appending is None:
            launch.appending = self._appending(launch)
        kernel, blocks, packed = launch.appending
        kernel.launch(blocks, APPENDING, packed)

    def _appending(self, launch: _RoundLaunch) -> tuple[CupyKernel, int, Any]:
        rows, pool = self.relations[launch.into], launch.pool
        kernel = self.kernels.kernel(_appending(pool.outputs, rows.columns), "append_rows")
        pairs = [each for both in zip(pool.outputs, rows.columns, strict=True) for each in both]
        at = BOARD_WORDS + GROWN_WORDS * launch.into
        numbers = at, launch.at, pool.count, pool.block_rows
        blocks = min(kernel.resident(APPENDING), -(-pool.count * 32 // APPENDING))
        return kernel, blocks, kernel.packed([self.board, pool.counts, *pairs, *numbers])

    def _reading(self) -> Any:
        return self.driver.reading([self.board[: self.words]])

    def _wait(self, reading: Any) -> Array:
        (words,) = self.driver.wait(
            self.limits.poll, self.board, self.stops, int(Reason.STOPPED), reading
        )
        return words

    def _read(self, words: Array) -> None:
        """Takes the numbers of rows."""
        for number, rows in enumerate(self.relations):
            at = BOARD_WORDS + GROWN_WORDS * number
            rows.count, begin, end = words[at : at + GROWN_WORDS].tolist()
            if self.began:
                rows.begin, rows.end = begin, end
        self.found = [int(words[each.at + FOUND]) for each in self.launches]

    def _finish(self, launch: _RoundLaunch, words: Array) -> None:
        """Launches the kernel of a rule again as long as its pool was full. `words`: the board."""
        status = self.statuses[self.launches.index(launch)]
        while words[status] != Reason.DONE:
            if words[status] == Reason.OUTSIDE:
                raise Outside
            if words[status] != Reason.FULL:
                raise GiveUp
            self._read(words)
            launch.grow()
            self._changed()
            self._make_room(1)
            self.resume.launch(1, 1, [self.board, launch.at])
            self._queue(launch)
            words = self._wait(self.driver.reading([self.board]))
        self._read(words)

    # ---------------------------------------------------------------------------------- memory

    def _needed(self, number: int, rounds: int) -> int:
        """The capacity that a relation needs for so many more rounds, whatever they find."""
        rows = self.relations[number]
        each = sum(launch.most for launch in self.running if launch.into == number)
        return min(rows.most, rows.count + rounds * each)

    def _roomy(self, rounds: int) -> bool:
        return all(
            rows.capacity >= self._needed(number, rounds)
            for number, rows in enumerate(self.relations)
        )

    def _make_room(self, rounds: int) -> None:
        """Makes room for so many rounds, if possible for more. No kernel runs."""
        for number, rows in enumerate(self.relations):
            needed = self._needed(number, rounds)
            if rows.capacity >= needed:
                continue
            first = rows.begin if rows.passing else 0
            needed, ample = needed - first, min(rows.most, 2 * self._needed(number, 2 * rounds))
            if rows.space is not None:
                ample = max(2 * rows.count, self._needed(number, 4 * rounds))
            room = self._row_bytes()
            if rows.bytes_for(needed) > room:
                raise MemoryLimitError(f"new rows do not fit {self.driver.name}")
            while ample > needed and rows.bytes_for(ample) > room:
                ample = (needed + ample) // 2
            self._move(number, first, max(needed, ample))
        self.limits.charge(HELD, self._held)
        self.limits.charge(TILES, sum(launch.held for launch in self.launches))

    @property
    def _held(self) -> int:
        return sum(rows.bytes_for(rows.capacity) for rows in self.relations)

    def _row_bytes(self) -> int:
        """The bytes that a relation's rows may take now."""
        held = self._held
        charged = self.limits.account.held.get(HELD, 0)
        most = MOST_ROWS * (self.limits.spare() + charged)
        return int(min(most, self.driver.free_memory() * MOST_ROWS + held))

    def _move(self, number: int, first: int, capacity: int) -> None:
        """Moves a relation's rows, from the `first` on, to longer columns."""
        rows = self.relations[number]
        columns = []
        for column in rows.columns:
            longer = self.xp.empty(capacity, dtype=column.dtype)
            longer[: rows.count - first] = column[first : rows.count]
            columns.append(longer)
        rows.columns = tuple(columns)
        rows.count, rows.begin, rows.end = (at - first for at in (rows.count, rows.begin, rows.end))
        rows.dropped += first
        if rows.numbers is not None:
            rows.numbers.make_room(rows.dropped + capacity)
        for trie in rows.tries:
            trie.make(capacity)
        self._place(number)

    def _place(self, number: int) -> None:
        """Tells the device where a relation's rows are."""
        self._changed()
        rows, at = self.relations[number], BOARD_WORDS + GROWN_WORDS * number
        for launch in self.launches:
            if launch.follows == number:
                launch.follow(rows.columns)
            if launch.into == number:
                launch.appending = None
            launch.reread(self.relations[launch.into])
        self._indexed = None
        if self.board is None:
            return
        read = (rows.begin, rows.end) if self.began else (0, 0)
        part = np.array([rows.count, *read], dtype=np.int64)
        self.board[at : at + GROWN_WORDS] = self.xp.asarray(part)
        begin, end = read
        given = self.xp.asarray(np.array([begin, end - begin], dtype=np.int64))
        for launch in self.launches:
            if launch.follows == number:
                launch.given["sizes"][:2] = given
        self._index_again(number)

    def _index_again(self, number: int) -> None:
        """Adds the rows of a relation to its indexes, which have been made anew."""
        if not (self.began and self.relations[number].tries):
            return
        part = []
        for trie, of in self.indexes:
            rows = self.relations[of]
            to = rows.begin if trie.old else rows.end
            part += [BOARD_WORDS + GROWN_WORDS * of, int(trie.old), 0 if of == number else to, to]
        words = np.array(part, dtype=np.int64)
        self.board[self.first_index : self.first_index + len(part)] = self.xp.asarray(words)
        self._index()

    def close(self) -> None:
        """Ends the charges of launches."""
        for what in (TILES, HELD):
            self.limits.charge(what, 0)


def _appending(outputs: Sequence[Array], columns: Columns) -> str:
    """The source of the kernel that appends rows of `outputs` to columns of these types."""
    kinds = [*enumerate(zip(map(type_of, outputs), map(type_of, columns), strict=True))]
    pairs = [f"ARRAY(const {a}) out{at}, ARRAY({b}) rows{at}" for at, (a, b) in kinds]
    copies = [f"rows{at}[to + i] = ({b})out{at}[from + i];" for at, (_, b) in kinds]
    return f"""#include "rounds.cuh"
KERNEL(append_rows)(ARRAY(i64) board, ARRAY(i32) counts, {", ".join(pairs)}, i64 relation,
                    i64 follower, i64 blocks, i64 block_rows) {{
    const i64 used = used_blocks(board, follower, blocks);
    for (i64 block = thread_of_grid() / 32; block < used; block += threads_of_grid() / 32) {{
        const i64 count = taken_from(counts, block), from = block * block_rows;
        const i64 to = place_of(board, relation, follower, count);
        for (i64 i = thread_of_block() & 31; i < count; i += 32) {{ {" ".join(copies)} }}
    }}
}}
"""
