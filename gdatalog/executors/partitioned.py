"""Runs a partitioned fixpoint: workers claim values of the partition column.

Each worker has a worklist, which is a block of rows, and a stamp array or hash table for each
relation. When a block or table is full, the function returns; it is called again with a larger
one and restarts the current value. Rows of finished values stay where they were written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import mul
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from gdatalog import calls
from gdatalog.calls import Block, LoopRun
from gdatalog.executors.lftj import (
    FIRST_ROOM,
    MOST_ROOM,
    SHARE,
    JoinWorker,
    LoopCall,
    check,
    run_workers,
    tallied,
)
from gdatalog.records import dataclass, field
from gdatalog.storage.spill import Blocks

if TYPE_CHECKING:
    from gdatalog.printer.arguments import Argument

WIDER = 7  # an additional status: a hash table must be enlarged
STAMP, WHICH, HEAD, EACH = 6, 7, 8, 3  # entries of the state in `printer/worklist.py`
FIRST_TABLE = 1 << 12


@dataclass(frozen=True, slots=True)
class ListRoom:
    """A worker's memory for a relation: `stamps`: how many rows are possible; 0: a hash table."""

    rows: Mapping[int, DTypeLike]  # the dtypes of the columns that the function writes
    stamps: int
    kept: bool  # whether rows are kept, or only counted
    stamp: DTypeLike = np.int32  # the dtype of a stamp

    @property
    def width(self) -> int:
        """The bytes of a row."""
        return sum(np.dtype(dtype).itemsize for dtype in self.rows.values())


@dataclass(slots=True)
class PartitionWorker(JoinWorker):
    """`filled`: the finished blocks of each relation; `found`: their row counts."""

    rooms: Sequence[ListRoom] = ()
    first: int | None = None
    filled: list[list[Block]] = field(default_factory=list)
    found: int = 0
    _room: list[int] = field(default_factory=list)
    _rows: list[Blocks] = field(default_factory=list)  # finished rows of each relation
    _tables: int = 0  # bytes of hash tables and stamps
    _widths: list[int] = field(default_factory=list)  # bytes of a row of each relation

    def __post_init__(self) -> None:
        self._widths = [room.width for room in self.rooms]

    def begin(self, first: int | None, rows: int = 0) -> None:
        """Starts over. `first`: the initial number of rows of a block; `rows` if None, or enough
        for most values."""
        self.filled, self.found, self.first, self.status = [], 0, first, calls.FULL
        self._rows = [Blocks(self.account) for _ in self.rooms]
        self._room = [first or rows or self._usual(at) for at in range(len(self.rooms))]
        self.state[0] = self.state[1] = self.state[STAMP] = self._tables = 0
        for at, room in enumerate(self.rooms):
            self._new_block(at)
            if room.stamps:
                empty = np.zeros(room.stamps, dtype=room.stamp)
                self.call.set(f"stamps_{at}", empty)
            else:
                empty = np.zeros(FIRST_TABLE, dtype=np.int64)
                self.call.set(f"table_{at}", empty)
            self.state[HEAD + EACH * at + 2] = 0
            self._tables += empty.nbytes

    def _run(self) -> None:
        while not self.step():
            pass

    def step(self) -> bool:
        """Calls the function; returns whether it has finished, and otherwise makes room."""
        self._count()
        self.status = self.call()
        at = int(self.state[WHICH])
        if self.status == calls.FULL:
            self._full(at)
        elif self.status == WIDER:
            table = self.call.arrays[f"table_{at}"]
            self.call.set(f"table_{at}", np.zeros(2 * len(table), dtype=np.int64))
            self._tables += table.nbytes
            self.state[HEAD + EACH * at + 2] = 0
        else:
            for at in range(len(self.rooms)):
                self._keep(at)
                for name in (f"stamps_{at}", f"table_{at}"):
                    if name in self.call.arrays:
                        self.call.let_go(name)
            self._tables = 0
            self._count()
            self.filled = [rows.take() for rows in self._rows]
            return True
        self.clear()
        return False

    def _count(self) -> None:
        """Charges the memory in use."""
        rows = sum(map(mul, self._room, self._widths))
        self.hold(sum(blocks.held for blocks in self._rows) + self._tables + rows)

    def _full(self, at: int) -> None:
        room = self._room[at]
        grown = 2 * room if self.first else max(2 * room, self._usual(at))
        kept = self._keep(at)
        self._room[at] = min(grown, max(self._most(at), room)) if kept else grown
        self._new_block(at)

    def _usual(self, at: int) -> int:
        """The rows of a first block."""
        return max(FIRST_ROOM, min(self.rooms[at].stamps, self._most(at)))

    def _most(self, at: int) -> int:
        """The maximal rows of a block, unless a single value has more."""
        share: int = self.account.spare() // (SHARE * len(self.rooms) * max(1, self._widths[at]))
        return max(FIRST_ROOM, min(MOST_ROOM, share))

    def _keep(self, at: int) -> int:
        """Puts finished rows of a block aside; returns their number."""
        room, entry, arrays = self.rooms[at], HEAD + EACH * at, self.call.arrays
        kept = int(self.state[entry])
        if kept and room.kept:
            columns = [arrays[f"rows_{at}_{column}"] for column in sorted(room.rows)]
            # The rest of a block has hardly been touched, so it takes no memory; a copy would.
            block = tuple(column[:kept] for column in columns)
            if 2 * kept < len(columns[0]):
                block = tuple(column.copy() for column in block)
            self._rows[at].add(block)
            self.found += kept
        for column in room.rows:
            self.call.let_go(f"rows_{at}_{column}")
        self._room[at], self.state[entry] = 0, 0
        return kept

    def _new_block(self, at: int) -> None:
        for column, dtype in self.rooms[at].rows.items():
            self.call.set(f"rows_{at}_{column}", np.empty(self._room[at], dtype=dtype))
        entry = HEAD + EACH * at
        self.state[entry], self.state[entry + 1] = 0, self._room[at]


@dataclass(slots=True)
class PartitionCalls:
    """The workers of a printed fixpoint, which later runs of it use again. `scratch`: arguments
    whose length depends on the tries. Between runs nothing refers to rows or tries."""

    call: LoopCall
    workers: list[PartitionWorker]
    scratch: list[Argument]

    @staticmethod
    def of(call: LoopCall, run: LoopRun, rooms: Sequence[ListRoom], threads: int) -> PartitionCalls:
        """Those that an earlier run has kept, if they suit this one."""
        kept = run.kept.pop() if run.kept else None
        if isinstance(kept, PartitionCalls) and kept._take(call, rooms, threads):
            return kept
        workers = []
        for _ in range(threads):
            state = np.zeros(HEAD + EACH * len(rooms), dtype=np.int64)
            state[3], state[5] = threads, run.printed.grain
            bound, scratch = call.bound(state, {})
            workers.append(PartitionWorker(bound, [], scratch, state, call.control, rooms=rooms))
        own = ("own", "counts", *calls.SHARED)
        of_tries = [each for each in run.printed.arguments if each.levels and each.kind not in own]
        return PartitionCalls(call, workers, of_tries)

    def _take(self, call: LoopCall, rooms: Sequence[ListRoom], threads: int) -> bool:
        """Sets the arguments of another run; returns whether that is possible."""
        same = self.call.printed is call.printed and len(self.workers) == threads
        if not same or any(worker.rooms != rooms for worker in self.workers):
            return False
        self.call, given = call, {"control": call.control, **call.given}
        for worker in self.workers:
            arrays, worker.call.function = worker.call.arrays, call.function
            worker.control = call.control
            for name in given.keys() & arrays.keys():
                worker.call.set(name, given[name])
            for argument in self.scratch:
                if len(arrays[argument.name]) < calls.scratch_length(argument, call.tries):
                    worker.call.set(argument.name, calls.scratch_of(argument, call.tries))
            if calls.COUNTS in arrays:
                arrays[calls.COUNTS][:] = 0
        return True

    def let_go(self) -> None:
        for worker in self.workers:
            worker.filled = []
            for name in self.call.given.keys() & worker.call.arrays.keys():
                worker.call.let_go(name)
        self.call = LoopCall(self.call.function, self.call.printed, (), {}, self.call.control)


def run_partitioned(
    function: Callable[..., int], run: LoopRun, rooms: Sequence[ListRoom], first: int | None
) -> list[list[Block]]:
    """Runs a printed fixpoint's function; returns each relation's blocks of rows.

    `run.beside` has values, seeds, spans, counts; and the array that is set to the workers'
    counters, if they count. `first`: the initial number of rows of a worker's block, for tests.
    Little work begins on this thread, because waking another one takes longer.
    """
    printed, limits = run.printed, run.limits
    beside = dict(run.beside)
    most = 1 if run.little else run.settings.workers
    threads = max(1, min(most, len(beside["splits"])))  # a value is one thread's
    tally = beside.pop(calls.COUNTS, None)
    call = LoopCall.of(function, printed, run.tries, run.scope, beside)
    made = PartitionCalls.of(call, run, rooms, threads)
    workers = made.workers
    for worker in workers:
        worker.account = limits.account
        worker.begin(first, FIRST_ROOM if run.little else 0)
    counts = [array for name, array in run.beside.items() if name.startswith("counts_")]
    looked = limits.looked

    def counting() -> None:
        """Found rows count as looked at."""
        found = sum(worker.found for worker in workers)
        limits.looked = looked + found + sum(int(array.sum()) for array in counts)

    with limits.checking(counting):
        if run.little and workers[0].step():
            check(workers)
        else:
            run_workers(workers, call.control, limits)
    if tally is not None:
        tally[:] = tallied(printed, [worker.call.arrays for worker in workers])
    found = [
        [block for worker in workers for block in worker.filled[at]] for at in range(len(rooms))
    ]
    if run.kept is not None:
        made.let_go()
        run.kept.append(made)
    return found
