"""The depth-first executor: worker threads run a plan's compiled loops; also partitioned fixpoints.

Workers share a counter: each claims an interval of the first variable's values, then the next one.
They share the tries; each has its own marks, buffers and a block for rows. When a block is full,
the function returns the number of complete rows and where to continue, and is called again with
another block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from gdatalog import calls
from gdatalog.account import Account
from gdatalog.calls import Block, Limits, LoopRun
from gdatalog.cancellation import PATIENCE
from gdatalog.records import dataclass, field
from gdatalog.storage.spill import Blocks
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie
from gdatalog.threads import PoolTask, begun
from gdatalog.values import INT_MAX

if TYPE_CHECKING:
    from gdatalog.codegen.native import Bound
    from gdatalog.cpu_ops.functions import Scope
    from gdatalog.printer.module import PrintedPlan

FIRST_ROOM, MOST_ROOM = 1 << 12, 1 << 20  # rows of a block
SHARE = 16  # a block takes at most 1/16 of the free memory


@dataclass(slots=True)
class JoinWorker:
    """One thread's part: its call, and the blocks that it has filled."""

    call: Bound
    outputs: Sequence[tuple[str, DTypeLike]]  # names and dtypes
    scratch: list[str]
    state: Array
    control: Array
    blocks: list[Block] = field(default_factory=list)
    held: int = 0  # bytes charged
    account: Account = field(default_factory=Account)
    status: int = calls.DONE
    error: BaseException | None = None

    def run(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.error = error
        if self.error is not None or self.status in (
            calls.FAILED,
            calls.OVERFLOW,
            calls.ENOUGH,
            calls.OUTSIDE,
        ):
            self.control[calls.STOP_FLAG] = 1

    def hold(self, count: int) -> None:
        """Charges this many bytes."""
        change, self.held = count - self.held, count
        self.account.add("blocks", change)

    def drop(self) -> None:
        """Frees the worker's memory."""
        self.blocks, self.error = [], None
        self.call.arrays.clear()
        self.hold(0)

    def _run(self) -> None:
        room, slots = FIRST_ROOM, 0
        width = sum(np.dtype(dtype).itemsize for _, dtype in self.outputs)
        rows = Blocks(self.account)
        while True:
            self.hold(rows.held + slots + room * width)
            self._new_block(room)
            self.status = self.call()
            kept = int(self.state[4])
            if kept:
                # The rest of a block has not been touched.
                rows.add(tuple(self.call.arrays[name][:kept] for name, _ in self.outputs))
            if self.status == calls.LACKS_SLOTS:
                slots += self._more_slots()
            elif self.status != calls.FULL:
                self.hold(rows.held + slots)
                self.blocks = rows.take()
                return
            most = max(FIRST_ROOM, min(MOST_ROOM, self.account.spare() // (SHARE * (width or 1))))
            room = min(2 * room, most) if kept else 2 * room
            self.clear()

    def clear(self) -> None:
        """Removes the marks of loops that ended early."""
        for name in self.scratch:
            self.call.arrays[name][:] = 0

    def _more_slots(self) -> int:
        """Enlarges a group's hash set that has become full; returns how many bytes more it has."""
        more = 0
        for name in ("slots", "taken"):
            old = self.call.arrays[name]
            self.call.set(name, np.empty(4 * len(old), dtype=old.dtype))
            more += 3 * old.nbytes
        return more

    def _new_block(self, room: int) -> None:
        for name, dtype in self.outputs:
            self.call.set(name, np.empty(room, dtype=dtype))
        self.state[2], self.state[4] = room, 0


def run_nest(function: Callable[..., int], run: LoopRun, wanted: int | None) -> list[Block]:
    """Runs a printed plan's function; returns the blocks of its rows. If it counts bindings, their
    array of counters among `run.beside` is set to the sums over all workers."""
    beside, printed = dict(run.beside), run.printed
    tally, local = beside.pop(calls.COUNTS, None), beside.pop(calls.LOCAL, None)
    call = LoopCall.of(function, printed, run.tries, run.scope, beside)
    count = run.settings.workers if printed.parallel else 1
    workers = [call.worker(count, wanted) for _ in range(count)]
    run_workers(workers, call.control, run.limits)
    if tally is not None:
        tally[:] = tallied(printed, [worker.call.arrays for worker in workers])
    if local is not None:
        add_local(local, [worker.call.arrays[calls.LOCAL] for worker in workers])
    return [block for worker in workers for block in worker.blocks]


def add_local(local: Array, counts: Sequence[Array]) -> None:
    """Adds up the workers' counts; gives up if the sums may exceed 64 bits."""
    for more in counts:
        if int(local.max(initial=0)) + int(more.max(initial=0)) >= 1 << 63:
            raise calls.GiveUp
        local += more


def tallied(printed: PrintedPlan, workers: Sequence[Mapping[str, Array]]) -> Array:
    """The workers' counters, added up, by argument."""
    counts = np.array([arguments[calls.COUNTS] for arguments in workers])
    again = np.array([counter.again for counter in printed.counters], dtype=np.bool_)
    together: Array = np.where(again, counts.max(axis=0), counts.sum(axis=0))
    return together


def run_workers(workers: Sequence[JoinWorker], control: Array, limits: Limits) -> None:
    """Runs each worker in its own thread to the end, or stops them all."""
    for worker in workers:
        worker.account = limits.account
    try:
        run_together([worker.run for worker in workers], control, limits)
        _check(workers)
    except BaseException:
        for worker in workers:  # the error's handler may need their memory
            worker.drop()
        raise


def _check(workers: Sequence[JoinWorker]) -> None:
    """Raises an error if one of the workers has failed."""
    error = next((worker.error for worker in workers if worker.error is not None), None)
    if error is not None:
        raise error
    if any(worker.status in (calls.FAILED, calls.OVERFLOW) for worker in workers):
        raise calls.GiveUp
    if any(worker.status == calls.OUTSIDE for worker in workers):
        raise calls.Outside


def run_together(work: Sequence[Callable[[], None]], control: Array, limits: Limits) -> None:
    """Runs each piece of work in its own thread to the end, or stops them all."""
    tasks: list[PoolTask] = []
    try:
        for each in work:
            tasks.append(begun(each))
        for task in tasks:
            while not task.wait(PATIENCE):
                limits.poll()
                units = int(control[calls.UNITS])
                if units > 1:  # a worker has claimed work
                    limits.watch.part(min(units, int(control[calls.COUNTER])), units)
    except BaseException:
        control[calls.STOP_FLAG] = 1
        for task in tasks:
            task.wait()
        raise


@dataclass(slots=True)
class LoopCall:
    """A printed function, and the arguments that its workers share: distinct tries, constants,
    tables, and the array by which workers claim work."""

    function: Callable[..., int]
    printed: PrintedPlan
    tries: Sequence[Trie]
    given: dict[str, Array]
    control: Array

    @staticmethod
    def of(
        function: Callable[..., int],
        printed: PrintedPlan,
        tries: Sequence[Trie],
        scope: Scope,
        beside: Mapping[str, Array],
    ) -> LoopCall:
        """`tries`: those of the plan. `beside`: arguments that are neither tries nor constants."""
        tries = [tries[at] for at in printed.which]
        given = dict(printed.expressions.arguments(scope))
        sizes = [calls.scalar_of(kind, tries[at.trie], at.depth) for kind, at in printed.scalars]
        given["sizes"] = np.array(sizes, dtype=np.int64)
        for argument in printed.arguments:
            if argument.levels and argument.kind in calls.SHARED:
                at = argument.levels[0]
                array = calls.SHARED[argument.kind](tries[at.trie], at.depth)
                given[argument.name] = np.ascontiguousarray(array)
        return LoopCall(function, printed, tries, given | dict(beside), np.zeros(16, np.int64))

    def worker(
        self, threads: int, wanted: int | None = None, own: Mapping[str, Array] | None = None
    ) -> JoinWorker:
        """The worker of one of `threads` threads. `wanted`: it may stop after so many rows. `own`:
        its own arguments."""
        state = np.zeros(16, dtype=np.int64)
        state[3], state[5] = threads, self.printed.grain
        state[6] = INT_MAX if wanted is None else wanted
        call, scratch = self.bound(state, own or {})
        outputs = [
            (a.name, calls.DTYPES[a.type]) for a in self.printed.arguments if a.kind == "output"
        ]
        return JoinWorker(call, outputs, scratch, state, self.control)

    def bound(self, state: Array, own: Mapping[str, Array]) -> tuple[Bound, list[str]]:
        """The function with a worker's arguments, with its own scratch and without a block; and
        those that must be cleared after loops have ended early."""
        from gdatalog.codegen.native import Bound

        printed = self.printed
        known: dict[str, Array] = {"control": self.control, "state": state, **self.given, **own}
        names = ("control", "state", "sizes", *printed.expressions.types())
        ordered = {name: known[name] for name in names}
        scratch = []
        for argument in printed.arguments:
            if argument.name in known:
                ordered[argument.name] = known[argument.name]
            elif argument.kind in ("output", "own"):
                ordered[argument.name] = np.empty(0, dtype=calls.DTYPES[argument.type])
            elif argument.kind == "counts":
                ordered[argument.name] = np.zeros(len(printed.counters), dtype=np.int64)
            else:
                if argument.kind in calls.CLEARED and argument.kind != calls.LOCAL:
                    scratch.append(argument.name)
                ordered[argument.name] = calls.scratch_of(argument, self.tries)
        return Bound(self.function, ordered), scratch


# Runs a partitioned fixpoint: workers claim values of the partition column.
#
# Each worker has a worklist, which is a block of rows, and a stamp array or hash table for each
# relation. When a block or table is full, the function returns; it is called again with a larger
# one and restarts the current value. Rows of finished values stay where they were written.

WIDER = 7  # an additional status: a hash table must be enlarged
STAMP, WHICH, HEAD, EACH = 6, 7, 8, 3  # entries of the state in `printer/worklist.py`
FIRST_TABLE = 1 << 12
HERE = 1 << 20  # rows of tries, up to which the first call cannot take long


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
        blocks = zip(self._room, self.rooms, strict=True)
        rows = sum(count * room.width for count, room in blocks)
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
        share: int = self.account.spare() // (
            SHARE * len(self.rooms) * max(1, self.rooms[at].width)
        )
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
    """A printed fixpoint with the workers that run it, which later runs over the same tries use
    again."""

    call: LoopCall
    tries: Sequence[Trie]
    workers: list[PartitionWorker]

    @staticmethod
    def of(
        function: Callable[..., int],
        run: LoopRun,
        rooms: Sequence[ListRoom],
        beside: Mapping[str, Array],
        threads: int,
    ) -> PartitionCalls:
        """Those that an earlier run has kept, if they suit this one."""
        kept = run.kept.pop() if run.kept else None
        if isinstance(kept, PartitionCalls) and kept._suit(run, rooms, threads):
            kept._take(function, run, beside)
            return kept
        call = LoopCall.of(function, run.printed, run.tries, run.scope, beside)
        workers = []
        for _ in range(threads):
            state = np.zeros(HEAD + EACH * len(rooms), dtype=np.int64)
            state[3], state[5] = threads, run.printed.grain
            bound, scratch = call.bound(state, {})
            workers.append(PartitionWorker(bound, [], scratch, state, call.control, rooms=rooms))
        return PartitionCalls(call, run.tries, workers)

    def _suit(self, run: LoopRun, rooms: Sequence[ListRoom], threads: int) -> bool:
        same = self.call.printed is run.printed and len(self.workers) == threads
        tries = all(map(is_, self.tries, run.tries))
        return same and tries and all(worker.rooms == rooms for worker in self.workers)

    def _take(
        self, function: Callable[..., int], run: LoopRun, beside: Mapping[str, Array]
    ) -> None:
        self.call.control[:] = 0
        given = {**run.printed.expressions.arguments(run.scope), **beside}
        for worker in self.workers:
            worker.call.function = function
            for name in given.keys() & worker.call.arrays.keys():
                worker.call.set(name, given[name])
            if calls.COUNTS in worker.call.arrays:
                worker.call.arrays[calls.COUNTS][:] = 0

    def let_go(self, beside: Mapping[str, Array]) -> None:
        """Drops the rows of a run."""
        for worker in self.workers:
            worker.filled = []
            for name in beside.keys() & worker.call.arrays.keys():
                worker.call.let_go(name)


def run_partitioned(
    function: Callable[..., int], run: LoopRun, rooms: Sequence[ListRoom], first: int | None
) -> list[list[Block]]:
    """Runs a printed fixpoint's function; returns each relation's blocks of rows.

    `run.beside` has values, seeds, spans, counts; and the array that is set to the workers'
    counters, if they count. `first`: the initial number of rows of a worker's block, for tests. The
    first rows of a single value come on this thread, because waking another one takes longer.
    """
    printed, limits = run.printed, run.limits
    beside = dict(run.beside)
    threads = max(1, min(run.settings.workers, len(beside["splits"])))  # a value is one thread's
    tally = beside.pop(calls.COUNTS, None)
    made = PartitionCalls.of(function, run, rooms, beside, threads)
    workers = made.workers
    alone = len(beside["splits"]) == 1 and sum(trie.total for trie in run.tries) <= HERE
    for worker in workers:
        worker.account = limits.account
        worker.begin(first, FIRST_ROOM if alone else 0)
    counts = [array for name, array in run.beside.items() if name.startswith("counts_")]
    looked = limits.looked

    def counting() -> None:
        """Found rows count as looked at."""
        found = sum(worker.found for worker in workers)
        limits.looked = looked + found + sum(int(array.sum()) for array in counts)

    with limits.checking(counting):
        if alone and workers[0].step():
            _check(workers)
        else:
            run_workers(workers, made.call.control, limits)
    if tally is not None:
        tally[:] = tallied(printed, [worker.call.arrays for worker in workers])
    found = [
        [block for worker in workers for block in worker.filled[at]] for at in range(len(rooms))
    ]
    if run.kept is not None:
        made.let_go(beside)
        run.kept.append(made)
    return found
