"""The depth-first executor: worker threads run a plan's compiled loops.

Workers share a counter: each claims an interval of the first variable's values, then the next one.
They share the tries; each has its own marks, buffers and a block for rows. When a block is full,
the function returns the number of complete rows and where to continue, and is called again with
another block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from gdatalog import calls
from gdatalog.account import Account
from gdatalog.calls import Block, LoopRun
from gdatalog.cancellation import PATIENCE
from gdatalog.limits import Limits
from gdatalog.records import dataclass, field
from gdatalog.storage.spill import Blocks
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie
from gdatalog.threads import PoolTask, begun
from gdatalog.values import INT_MAX

if TYPE_CHECKING:
    from gdatalog.codegen.native_calls import Bound
    from gdatalog.cpu_ops.expressions import Scope
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
        check(workers)
    except BaseException:
        for worker in workers:  # the error's handler may need their memory
            worker.drop()
        raise


def check(workers: Sequence[JoinWorker]) -> None:
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
        from gdatalog.codegen.native_calls import Bound

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
