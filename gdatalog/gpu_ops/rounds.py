"""The rounds of a fixpoint on a device, whose kernels tell new rows by a bitmap or a hash set.

The kernels of all rules are prepared once. How many rows there are, and which of them are new, is
in the device's memory (`kernels/rounds.cuh`). Where the driver has graphs with loops, the device
repeats rounds by itself; it leaves the loop when no row is new, when there may be no room for
another round, or when a kernel has ended early. Elsewhere the host queues the next round before it
knows how many rows the last one has found, and reads a few words after each; a round without new
rows does nothing. Rows are appended behind those of earlier rounds, for which the host makes room
beforehand (`round_memory.py`). Rules that read all rows of a growing relation, or the old ones,
look them up in hash tries, which get the new rows behind each round (`growing.py`).

The same rounds may run again, over the same tries: then only the bitmaps, the queues and the words
are cleared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final
from weakref import ref

import numpy as np

from gdatalog.calls import GiveUp, Outside
from gdatalog.gpu_ops.control_words import CONTROL_WORDS, THREADS, Reason, Word
from gdatalog.gpu_ops.growing import Indexing, RowNumbers, groups_of
from gdatalog.gpu_ops.growing_rows import GrowingRows
from gdatalog.gpu_ops.kernels import Kernels
from gdatalog.gpu_ops.round_launches import APPENDING, RoundLaunch, RoundLoops, appending
from gdatalog.gpu_ops.round_memory import RoundMemory
from gdatalog.gpu_ops.rows import Array, Columns
from gdatalog.gpu_ops.walk import Walks
from gdatalog.limits import Limits
from gdatalog.storage.on_device import LentRows

# The words of `kernels/board.cuh`.
HALTED, GOES_ON, ROUNDS, LOG, BOARD_WORDS = 0, 1, 2, 3, 4
ROWS, BEGIN, END, LIMIT, GROWN_WORDS = 0, 1, 2, 3, 4
FOUND, FOLLOWS, SIZES, CONTROL, FOLLOWER_WORDS = 0, 1, 2, 3, 4
INDEX_OF, LACKS, FROM, TO, INDEX_WORDS = 0, 1, 2, 3, 4

LOGGED: Final = 128  # rounds that are logged
RECORDED_FROM = 4  # rounds with the same launches, from which on one launch queues all of them
LINE = 16  # words to which control words are aligned


class DeviceRounds:
    """The rounds of one fixpoint. First `add` all rules, those without new rows last, then
    `prepare`, then `run`. `found`: how many rows each rule has found so far."""

    def __init__(
        self, walks: Walks, kernels: Kernels, relations: Sequence[GrowingRows], limits: Limits
    ) -> None:
        self.walks, self.driver, self.limits = walks, walks.driver, limits
        self.xp: Any = walks.driver.xp
        self.kernels, self.relations = kernels, relations
        self.launches: list[RoundLaunch] = []
        self.memory = RoundMemory(self.driver, relations, self.launches)
        self.board: Any = None
        self.began = False  # whether what runs once has run
        self.opened = False  # whether it is queued
        self.found: list[int] = []
        self.rounds = 0  # that are read of the log
        self.words = BOARD_WORDS + GROWN_WORDS * len(relations)
        self._lent: list[ref[LentRows]] = []
        self._copies = True  # whether few rows are copied for their readers
        self._graph: Callable[[], None] | None = None  # of a round
        self._loop: Callable[[], None] | None = None  # of all rounds
        self._changed()

    def add(self, loops: RoundLoops) -> None:
        """Prepares the launch of a rule."""
        self.launches.append(RoundLaunch(self.walks, loops, self.words))
        self.words += FOLLOWER_WORDS
        self.found.append(0)
        self.memory.charge_tiles(self.limits)

    def prepare(self) -> None:
        """Prepares what rules share, and makes room for the first round."""
        self.followers = [launch for launch in self.launches if launch.follows is not None]
        self.next, self.resume = (
            self.kernels.kernel('#include "rounds.cuh"\n', name)
            for name in ("next_round", "resume")
        )
        self._limits = [0] * len(self.relations)
        self._lay_indexes()
        for rows in self.relations:
            if rows.marks is None:
                rows.numbers = RowNumbers(self.kernels, len(rows.space.parts), rows.count)
                rows.number()
            for trie in rows.tries:
                trie.make(rows.capacity)
        for launch in self.launches:
            launch.reread(self.relations[launch.into])
        self._make_room(1)
        self._make_board()
        indexes = self.first_index, len(self.indexes), LOGGED
        self._opening, self._ending = (
            self.next.packed([self.board, len(self.relations), len(ended), *indexes])
            for ended in (self.launches, self.followers)
        )

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
        log, self.words = self.words, self.words + LOGGED * len(self.relations)
        places, total = [], self.words
        for launch in self.launches:
            sizes = -(-total // LINE) * LINE
            control = -(-(sizes + len(launch.sizes)) // LINE) * LINE
            total = control + CONTROL_WORDS
            places.append((sizes, control))
        words = self._first = np.zeros(total, dtype=np.int64)
        words[LOG] = log
        for number, (trie, of) in enumerate(self.indexes):
            at = self.first_index + INDEX_WORDS * number
            words[at + INDEX_OF] = self._word(of, ROWS)
            words[at + LACKS] = int(trie.old)
        for launch, (sizes, control) in zip(self.launches, places, strict=True):
            if launch.follows is not None:
                words[launch.at + FOLLOWS] = self._word(launch.follows, ROWS)
            words[launch.at + SIZES : launch.at + FOLLOWER_WORDS] = sizes, control
            words[sizes : sizes + len(launch.sizes)] = launch.sizes
        self._set_counts()
        self.board = self.xp.asarray(words)
        for launch, (sizes, control) in zip(self.launches, places, strict=True):
            launch.use(self.board, sizes, control)
        self.stops = [control + int(Word.STOP) for _, control in places]
        self.statuses = [control + int(Word.STATUS) for _, control in places]

    def _word(self, number: int, word: int) -> int:
        """The place of a word of a relation."""
        return BOARD_WORDS + GROWN_WORDS * number + word

    def _set_counts(self) -> None:
        """Writes the numbers of rows to the words of the begin."""
        for number, rows in enumerate(self.relations):
            at = self._word(number, ROWS)
            self._first[at : at + GROWN_WORDS] = rows.count, 0, 0, self._limits[number]

    # ---------------------------------------------------------------------------------- again

    @property
    def nbytes(self) -> int:
        held: int = sum(launch.held for launch in self.launches)
        held += sum(rows.marks.nbytes for rows in self.relations if rows.marks is not None)
        return held + self.memory.held

    def again(self, scope: Any, limits: Limits, first: Sequence[Columns]) -> bool:
        """Begins anew over the same tries, with the `first` rows of each relation, which the caller
        marks if there is a bitmap; False if these rounds do not serve the scope, or there is no
        room for them."""
        self.settle(copies=True)
        if self.nbytes > limits.spare():
            return False
        if not all(launch.takes(scope, limits) for launch in self.launches):
            return False
        self.limits, self.memory.running = limits, self.launches
        self.began = self.opened = False
        self.rounds, self.found = 0, [0] * len(self.launches)
        for launch in self.launches:
            launch.limits = limits
            self.driver.clear(launch.ring)
        for rows, columns in zip(self.relations, first, strict=True):
            rows.clear(len(columns[0]))
        self._make_room(1)
        self._set_counts()
        self.driver.write(self.board, self._first)
        for rows, columns in zip(self.relations, first, strict=True):
            if rows.count:
                rows.fill(columns)
        return True

    def lend(self, number: int) -> LentRows:
        """The rows of a relation, which stay here until somebody reads them."""
        rows = self.relations[number]
        take = partial(self._take, number)
        lent = LentRows(self.walks.buffers.ops, take, rows.count, rows.width * rows.count)
        self._lent.append(ref(lent))
        return lent

    def _take(self, number: int) -> Columns:
        found = self.relations[number].taken(self._copies)
        if not self.relations[number].capacity:
            self._reread(number)
        return found

    def settle(self, copies: bool) -> None:
        """Gives away the rows that are lent, and not read yet. `copies`: as copies, if they are
        few."""
        self._copies, lent, self._lent = copies, self._lent, []
        for known in lent:
            rows = known()
            if rows is not None:
                rows.as_they_are()

    # ---------------------------------------------------------------------------------- rounds

    def run(self) -> Iterator[Sequence[Sequence[int]]]:
        """Runs what runs once, and rounds until no row is new. Yields for rounds that have ended
        how many rows of each relation are new, what runs once included. Raises a `MemoryError`
        before or in the middle of a round if there is no room for more rows."""
        self._make_room(1)
        ahead = self._queued()
        while True:
            reading, ahead = ahead, None
            if self._loop is None and self.memory.roomy(2):
                ahead = self._queued()
            words = self._wait(reading)
            ended = self._read(words)
            if words[HALTED] != Reason.DONE:
                if ahead is not None:
                    self._wait(ahead)  # does nothing
                    ahead = None
                if ended:
                    yield ended
                self._finish(self.memory.running)
                ended = self.end_round()
            yield ended
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
        self._finish([launch])
        return None if launch.counters is None else self.xp.asnumpy(launch.counters)

    def end_round(self) -> Sequence[Sequence[int]]:
        """Ends a round whose rules have run; returns how many rows are new."""
        self.opened = True
        self._queue_end(self._ending if self.began else self._opening)
        return self._read(self._wait(self._reading()))

    def _queued(self) -> Any:
        """Queues what runs once, then rounds: one, or all of them; returns the reading of their
        result."""
        if not self.opened:
            self.opened = True
            self._launch_all(self.launches[len(self.followers) :], self._opening)
            if self._loop is not None:
                self._loop()
        elif self._loop is not None:
            self.driver.write(self.board[GOES_ON : GOES_ON + 1], np.ones(1, dtype=np.int64))
            self._loop()
        else:
            if self._alike == RECORDED_FROM:
                self._record()
            self._alike += 1
            (self._graph or self._round)()
        return self._reading()

    def _record(self) -> None:
        """Prepares rounds as a graph: if possible one that repeats them, from the next launch
        on."""
        self._loop = self.driver.looped(self._round, self.board, GOES_ON)
        if self._loop is None:
            self._graph = self.driver.recorded(self._round)

    def _launch_all(self, launches: Sequence[RoundLaunch], ending: Any) -> None:
        """Queues rules side by side: they read rows of earlier rounds, test and set marks by
        atomics, and append rows to places of their own."""
        self.driver.side_by_side([partial(self._queue, launch) for launch in launches])
        self._queue_end(ending)

    def _queue_end(self, ending: Any) -> None:
        """Queues the end of a round: what its rules have found are the new rows, also in
        indexes."""
        self.next.launch(1, THREADS, ending)
        self._index()

    def _index(self) -> None:
        if self._indexed is None:
            both = zip(self.indexing, self.groups, strict=True)
            self._indexed = [
                (each, each.packed(self.board, self._columns_of(group))) for each, group in both
            ]
        self.driver.side_by_side([partial(each.launch, packed) for each, packed in self._indexed])

    def _round(self) -> None:
        self._launch_all(self.followers, self._ending)

    def _changed(self) -> None:
        """Arguments of kernels have changed. What was recorded is recorded again at once."""
        recorded = self._graph is not None or self._loop is not None
        self._alike = RECORDED_FROM if recorded else 0
        self._graph = self._loop = None

    def _queue(self, launch: RoundLaunch) -> None:
        """Queues the kernel of a rule, and the one that appends its rows."""
        launch.queue()
        if launch.appending is None:
            launch.appending = self._appending(launch)
        kernel, blocks, packed = launch.appending
        kernel.launch(blocks, APPENDING, packed)

    def _appending(self, launch: RoundLaunch) -> tuple[Any, int, Any]:
        rows, pool = self.relations[launch.into], launch.pool
        kernel = self.kernels.kernel(appending(pool.outputs, rows.columns), "append_rows")
        pairs = [each for both in zip(pool.outputs, rows.columns, strict=True) for each in both]
        numbers = self._word(launch.into, ROWS), launch.at, pool.count, pool.block_rows
        blocks = min(kernel.resident(APPENDING), -(-pool.count * 32 // APPENDING))
        return kernel, blocks, kernel.packed([self.board, pool.counts, *pairs, *numbers])

    def _reading(self) -> Any:
        return self.driver.reading([self.board[: self.words]])

    def _wait(self, reading: Any) -> Array:
        (words,) = self.driver.wait(
            self.limits.poll, self.board, self.stops, int(Reason.STOPPED), reading
        )
        return words

    def _read(self, words: Array) -> Sequence[Sequence[int]]:
        """Takes the numbers of rows; returns how many were new after each round since the last
        time."""
        rounds, log, count = int(words[ROUNDS]), int(words[LOG]), len(self.relations)
        if rounds and not self.began:
            self.began, self.memory.running = True, self.followers
        ends, ended = [rows.end if self.rounds else 0 for rows in self.relations], []
        for number in range(self.rounds, rounds):
            at = log + number % LOGGED * count
            now = words[at : at + count].tolist()
            ended.append([end - begin for begin, end in zip(ends, now, strict=True)])
            ends = now
        self.rounds = rounds
        for number, rows in enumerate(self.relations):
            at = self._word(number, ROWS)
            rows.count, begin, end = words[at : at + LIMIT].tolist()
            if self.began:
                rows.begin, rows.end = begin, end
        self.found = [int(words[each.at + FOUND]) for each in self.launches]
        return ended

    def _finish(self, launches: Sequence[RoundLaunch]) -> None:
        """Launches kernels of rules again as long as their pools were full."""
        places = {id(each): at for each, at in zip(self.launches, self.statuses, strict=True)}
        words = self._wait(self.driver.reading([self.board]))
        while full := [each for each in launches if words[places[id(each)]] != Reason.DONE]:
            reasons = {int(words[places[id(each)]]) for each in full}
            if Reason.OUTSIDE in reasons:
                raise Outside
            if reasons != {Reason.FULL}:
                raise GiveUp
            self._read(words)
            for launch in full:
                launch.grow()
            self._changed()
            self._make_room(1)
            for launch in full:
                self.resume.launch(1, 1, [self.board, launch.at])
                self._queue(launch)
            words = self._wait(self.driver.reading([self.board]))
        self._read(words)

    # ---------------------------------------------------------------------------------- memory

    def _make_room(self, rounds: int) -> None:
        """Makes room for so many rounds. No kernel runs."""
        for number in self.memory.lacking(rounds):
            rows = self.relations[number]
            first, others = rows.dropped, self.memory.grown(number, rounds, self.limits)
            if others:
                self._reread(number)
            if others or rows.dropped > first:
                self._place(number)
            if rows.tries:
                self._index_again(number)
        self._set_limits()
        self.memory.charge(self.limits)

    def _set_limits(self) -> None:
        """Tells the device how many rows each relation may have before another round."""
        for number in range(len(self.relations)):
            limit = self.memory.limit(number)
            if limit != self._limits[number]:
                self._limits[number] = limit
                if self.board is not None:
                    at = self._word(number, LIMIT)
                    self.driver.write(self.board[at : at + 1], np.array([limit], dtype=np.int64))

    def _place(self, number: int) -> None:
        """Tells the device where a relation's rows are."""
        if self.board is None:
            return
        rows, at = self.relations[number], self._word(number, ROWS)
        read = (rows.begin, rows.end) if self.began else (0, 0)
        part = np.array([rows.count, *read], dtype=np.int64)
        self.board[at : at + LIMIT] = self.xp.asarray(part)
        begin, end = read
        given = self.xp.asarray(np.array([begin, end - begin], dtype=np.int64))
        for launch in self.launches:
            if launch.follows == number:
                launch.given["sizes"][:2] = given

    def _reread(self, number: int) -> None:
        """Takes the arrays of a relation, which are others, for arguments."""
        self._changed()
        rows = self.relations[number]
        for launch in self.launches:
            if launch.follows == number:
                launch.follow(rows.columns)
            if launch.into == number:
                launch.appending = None
            launch.reread(self.relations[launch.into])
        self._indexed = None

    def _index_again(self, number: int) -> None:
        """Adds the rows of a relation to its indexes, which have been made anew."""
        if self.board is None or not self.began:
            return
        part = []
        for trie, of in self.indexes:
            rows = self.relations[of]
            to = rows.begin if trie.old else rows.end
            part += [self._word(of, ROWS), int(trie.old), 0 if of == number else to, to]
        words = np.array(part, dtype=np.int64)
        self.board[self.first_index : self.first_index + len(part)] = self.xp.asarray(words)
        self._index()

    def close(self) -> None:
        """Ends the charges."""
        self.memory.let_go(self.limits)
