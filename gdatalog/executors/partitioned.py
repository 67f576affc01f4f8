"""Runs a partitioned fixpoint: workers claim values of the partition column.

Each worker has a worklist, which is a block of rows, and a stamp array or hash table for each
relation. When a block or table is full, the function returns; it is called again with a larger
one and restarts the current value. Rows of finished values stay where they were written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

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
    run_workers,
    tallied,
)
from gdatalog.records import dataclass, field
from gdatalog.storage.spill import Blocks

WIDER = 7  # an additional status: a hash table must be enlarged
STAMP, WHICH, HEAD, EACH = 6, 7, 8, 3  # entries of the state in `printer/worklist.py`
FIRST_TABLE = 1 << 12


@dataclass(frozen=True, slots=True)
class ListRoom:
    """A worker's memory for a relation: `stamps`: how many rows are possible; 0: a hash table."""

    rows: Mapping[int, DTypeLike]  # the dtypes of the columns that the function writes
    stamps: int
    kept: bool  # whether rows are kept, or only counted


@dataclass(slots=True)
class PartitionWorker(JoinWorker):
    """`filled`: the finished blocks of each relation; `found`: their row counts."""

    rooms: Sequence[ListRoom] = ()
    first: int | None = None
    filled: list[list[Block]] = field(default_factory=list)
    found: int = 0
    _room: list[int] = field(default_factory=list)
    _rows: list[Blocks] = field(default_factory=list)  # finished rows of each relation
    _owned: int = 0  # bytes of stamps

    def _run(self) -> None:
        for at, room in enumerate(self.rooms):
            self._rows.append(Blocks(self.account))
            self._room.append(self.first or max(FIRST_ROOM, min(room.stamps, self._most(at))))
            self._new_block(at)
            if room.stamps:
                name = f"stamps_{at}"
                self.arguments[name] = np.zeros(room.stamps, dtype=self.arguments[name].dtype)
                self._owned += self.arguments[name].nbytes
            else:
                self.arguments[f"table_{at}"] = np.zeros(FIRST_TABLE, dtype=np.int64)
        while True:
            self._count()
            self.status = self.function(*self.arguments.values())
            at = int(self.state[WHICH])
            if self.status == calls.FULL:
                self._full(at)
            elif self.status == WIDER:
                table = self.arguments[f"table_{at}"]
                self.arguments[f"table_{at}"] = np.zeros(2 * len(table), dtype=np.int64)
                self.state[HEAD + EACH * at + 2] = 0
            else:
                break
            for name in self.scratch:
                self.arguments[name][:] = 0  # loops that ended early left marks
        for at in range(len(self.rooms)):
            self._keep(at)
            for name in (f"stamps_{at}", f"table_{at}"):
                self.arguments.pop(name, None)
        self._owned = 0
        self._count()
        self.filled = [rows.take() for rows in self._rows]

    def _count(self) -> None:
        """Charges the memory in use."""
        tables = sum(array.nbytes for name, array in self.arguments.items() if name[:6] == "table_")
        rows = sum(array.nbytes for name, array in self.arguments.items() if name[:5] == "rows_")
        done = sum(blocks.held for blocks in self._rows)
        self.hold(done + self._owned + tables + rows)

    def _full(self, at: int) -> None:
        kept = self._keep(at)
        grown = 2 * self._room[at]
        self._room[at] = min(grown, max(self._most(at), self._room[at])) if kept else grown
        self._new_block(at)

    def _most(self, at: int) -> int:
        """The maximal rows of a block, unless a single value has more."""
        width = sum(np.dtype(dtype).itemsize for dtype in self.rooms[at].rows.values())
        share: int = self.account.spare() // (SHARE * len(self.rooms) * max(1, width))
        return max(FIRST_ROOM, min(MOST_ROOM, share))

    def _keep(self, at: int) -> int:
        """Puts finished rows of a block aside; returns their number."""
        room, entry = self.rooms[at], HEAD + EACH * at
        kept = int(self.state[entry])
        if kept and room.kept:
            columns = [self.arguments[f"rows_{at}_{column}"] for column in sorted(room.rows)]
            # The rest of a block has hardly been touched, so it takes no memory; a copy would.
            block = tuple(column[:kept] for column in columns)
            if 2 * kept < len(columns[0]):
                block = tuple(column.copy() for column in block)
            self._rows[at].add(block)
            self.found += kept
        for column, dtype in room.rows.items():
            self.arguments[f"rows_{at}_{column}"] = np.empty(0, dtype=dtype)
        self.state[entry] = 0
        return kept

    def _new_block(self, at: int) -> None:
        for column, dtype in self.rooms[at].rows.items():
            self.arguments[f"rows_{at}_{column}"] = np.empty(self._room[at], dtype=dtype)
        entry = HEAD + EACH * at
        self.state[entry], self.state[entry + 1] = 0, self._room[at]


def run_partitioned(
    function: Callable[..., int], run: LoopRun, rooms: Sequence[ListRoom], first: int | None
) -> list[list[Block]]:
    """Runs a printed fixpoint's function; returns each relation's blocks of rows.

    `run.beside` has values, seeds, spans, counts; and the array that is set to the workers'
    counters, if they count. `first`: the initial number of rows of a worker's block, for tests.
    """
    printed, limits = run.printed, run.limits
    beside = dict(run.beside)
    threads = max(1, min(run.settings.workers, len(beside["splits"])))  # a value is one thread's
    tally = beside.pop(calls.COUNTS, None)
    call = LoopCall.of(function, printed, run.tries, run.scope, beside)

    def worker() -> PartitionWorker:
        state = np.zeros(HEAD + EACH * len(rooms), dtype=np.int64)
        state[3], state[5] = threads, printed.grain
        arguments, scratch = call.arguments(state, {})
        return PartitionWorker(
            function, arguments, [], scratch, state, call.control, rooms=rooms, first=first
        )

    workers = [worker() for _ in range(threads)]
    counts = [array for name, array in run.beside.items() if name.startswith("counts_")]
    looked = limits.looked

    def counting() -> None:
        """Found rows count as looked at."""
        found = sum(worker.found for worker in workers)
        limits.looked = looked + found + sum(int(array.sum()) for array in counts)

    with limits.checking(counting):
        run_workers(workers, call.control, limits)
    if tally is not None:
        tally[:] = tallied(printed, [worker.arguments for worker in workers])
    return [
        [block for worker in workers for block in worker.filled[at]] for at in range(len(rooms))
    ]
