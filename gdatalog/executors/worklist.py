"""Runs a partitioned fixpoint: workers claim values of the partition column.

Each worker has a worklist, which is a block of rows, and a stamp array or hash table for each
relation. When a block or table is full, the function returns; it is called again with a larger one
and restarts the current value. Rows of finished values stay where they were written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gdatalog.calls import COUNTS, DTYPES, FULL, Block, scratch_of
from gdatalog.executors.lftj import SHARE, JoinWorker, given_arrays, run_workers, tallied
from gdatalog.limits import Limits
from gdatalog.records import dataclass, field
from gdatalog.storage.spill import Blocks
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie

WIDER = 7  # what the function returns beside those of `lftj`: a hash table is to be larger
STAMP, WHICH, HEAD, EACH = 6, 7, 8, 3  # entries of the state, as `printer/worklist.py` has them
FIRST_ROOM, MOST_ROOM = 1 << 12, 1 << 20  # rows of a block, but that one value's rows fit into it
FIRST_TABLE = 1 << 12


@dataclass(frozen=True, slots=True)
class ListRoom:
    """A worker's memory for a relation: `stamps`: how many rows are possible; 0: a hash table."""

    rows: Mapping[int, Any]  # the dtypes of the columns that the function writes
    stamps: int
    kept: bool  # whether rows stay, or only their numbers


@dataclass(slots=True)
class PartitionWorker(JoinWorker):
    """`filled`: the finished blocks of each relation; `found`: their row counts."""

    rooms: Sequence[ListRoom] = ()
    first: int | None = None
    filled: list[list[Block]] = field(default_factory=list)
    found: int = 0
    _room: list[int] = field(default_factory=list)
    _rows: list[Blocks] = field(default_factory=list)  # of each relation those that are done
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
            if self.status == FULL:
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
    function: Any,
    printed: Any,
    tries: Sequence[Trie],
    scope: Any,
    limits: Limits,
    threads: int,
    beside: Mapping[str, Array],
    rooms: Sequence[ListRoom],
    first: int | None = None,
) -> list[list[Block]]:
    """Runs a printed fixpoint's function; returns each relation's blocks of rows.

    `beside`: the arguments that belong to no trie: values, seeds, spans, counts; and the array that
    is set to the workers' counters, if they count. `first`: the initial number of rows of a
    worker's block, for tests.
    """
    distinct = [tries[at] for at in printed.which]
    given = {**given_arrays(printed, distinct, scope), **beside}
    tally = given.pop(COUNTS, None)
    control = np.zeros(16, dtype=np.int64)
    workers = [
        _worker(function, printed, distinct, given, control, threads, rooms, first)
        for _ in range(threads)
    ]
    counts = [array for name, array in beside.items() if name.startswith("counts_")]
    poll, looked = limits.poll, limits.looked

    def counting() -> None:
        """Found rows count as looked at."""
        found = sum(worker.found for worker in workers)
        limits.looked = looked + found + sum(int(array.sum()) for array in counts)
        poll()

    limits.poll = counting
    try:
        run_workers(workers, control, limits)
    finally:
        limits.poll = poll
    if tally is not None:
        tally[:] = tallied(printed, [worker.arguments for worker in workers])
    return [
        [block for worker in workers for block in worker.filled[at]] for at in range(len(rooms))
    ]


def _worker(
    function: Any,
    printed: Any,
    tries: Sequence[Trie],
    given: Mapping[str, Array],
    control: Array,
    threads: int,
    rooms: Sequence[ListRoom],
    first: int | None,
) -> PartitionWorker:
    state = np.zeros(HEAD + EACH * len(rooms), dtype=np.int64)
    state[3], state[5] = threads, printed.grain
    arguments: dict[str, Array] = {"control": control, "state": state, "sizes": given["sizes"]}
    arguments |= {name: given[name] for name in printed.expressions.types()}
    scratch = []
    for argument in printed.arguments:
        if argument.name in given:
            arguments[argument.name] = given[argument.name]
        elif argument.kind == "own":
            arguments[argument.name] = np.empty(0, dtype=DTYPES[argument.type])
        elif argument.kind == "counts":
            arguments[argument.name] = np.zeros(len(printed.counters), dtype=np.int64)
        else:
            if argument.kind in ("marks", "places"):
                scratch.append(argument.name)
            arguments[argument.name] = scratch_of(argument, tries)
    return PartitionWorker(
        function, arguments, [], scratch, state, control, rooms=rooms, first=first
    )
