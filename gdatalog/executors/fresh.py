"""Compiled loops that a fixpoint calls in each round to find new rows.

The loops test and set the dedup index (`printer/distinct.py`). A call returns when all work is
done, when a row lies outside the range of the bitmap, or when the hash set is full. The next call
continues after the new rows so far. State that all rounds share is created once, so that small
rounds are cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from gdatalog import calls
from gdatalog.account import Account
from gdatalog.calls import Block
from gdatalog.executors import lftj
from gdatalog.executors.lftj import MOST_ROOM, SHARE, tallied
from gdatalog.limits import Limits
from gdatalog.records import dataclass, field
from gdatalog.storage.loop_tables import HashTrie
from gdatalog.storage.spill import Blocks
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie

if TYPE_CHECKING:
    from gdatalog.codegen.native_calls import Bound
    from gdatalog.cpu_ops.expressions import Scope
    from gdatalog.printer.arguments import Argument
    from gdatalog.printer.module import PrintedPlan

MARKING = ("marks", "places")  # scratch that is all zero between runs
SCRATCH = (*MARKING, "buffer", "rows", "words")

CROWDED = 7  # status: the free room is used up
TRIED, MET = 7, 8  # places in a worker's state: rows derived, and the row outside the space
ENDLESS = 1 << 62
LARGE = 1 << 16  # bytes: larger blocks of rows are not used again


@dataclass(slots=True)
class FreshWorker:
    """One thread's part. `share`: how many rows it may still add to the dedup index."""

    call: Bound
    outputs: list[str]
    width: int  # bytes of an output row
    scratch: list[Argument]
    state: Array
    control: Array
    share: int = 0
    room: int = 0  # rows of the next block
    few: list[Block] = field(default_factory=list)  # the rows, if one small block has all
    rows: Blocks | None = None
    account: Account = field(default_factory=Account)
    charged: int = 0  # bytes
    kept: int = 0  # rows kept since `begin`
    status: int = calls.DONE
    error: BaseException | None = None

    def begin(self) -> None:
        self.state[0] = self.state[1] = self.state[TRIED] = self.kept = 0
        if calls.COUNTS in self.call.arrays:
            self.call.arrays[calls.COUNTS][:] = 0
        self.room = lftj.FIRST_ROOM
        self.status = calls.FULL

    def run(self) -> None:
        if self.status == calls.DONE:
            return
        try:
            self._run()
        except BaseException as error:
            self.error = error
        if self.error is not None or self.status != calls.DONE:
            self.control[calls.STOP_FLAG] = 1

    def _run(self) -> None:
        call, state, width = self.call, self.state, self.width
        arrays = call.arrays
        while True:
            room = min(self.room, self.share)
            if room == 0:
                self.status = CROWDED
                return
            if len(arrays[self.outputs[0]]) < room:
                self._let_go_of_outputs()
                self._charge(room * width)
                for name in self.outputs:
                    call.set(name, np.empty(room, dtype=arrays[name].dtype))
            state[2], state[4] = room, 0
            self.status = call()
            kept = int(state[4])
            if kept:
                self._keep(kept)
            if self.status != calls.DONE:
                self.clear()  # loops that ended early left marks
            if self.status != calls.FULL:
                return
            most = max(lftj.FIRST_ROOM, min(MOST_ROOM, self.account.spare() // (SHARE * width)))
            self.room = min(2 * self.room, most)

    def _keep(self, kept: int) -> None:
        """Takes the rows of a block. If they are few, the block's arrays are reused."""
        self.share -= kept
        self.kept += kept
        arrays = self.call.arrays
        room = len(arrays[self.outputs[0]])
        if 2 * kept < room and self.status != calls.FULL and self.rows is None:
            self.few.append(tuple([arrays[name][:kept].copy() for name in self.outputs]))
            return  # the caller takes them at once
        block = tuple(arrays[name][:kept] for name in self.outputs)
        if 2 * kept < room:
            block = tuple(column.copy() for column in block)
        else:
            self._let_go_of_outputs()
        if self.rows is None:
            self.rows = Blocks(self.account)
        self.rows.add(block)
        self._charge(sum(arrays[name].nbytes for name in self.outputs))

    def _let_go_of_outputs(self) -> None:
        arrays = self.call.arrays
        for name in self.outputs:
            self.call.set(name, np.empty(0, dtype=arrays[name].dtype))

    def _charge(self, outputs: int) -> None:
        """Charges the kept rows, and this many bytes of the current block."""
        held = outputs + (0 if self.rows is None else self.rows.held)
        change, self.charged = held - self.charged, held
        if change:
            self.account.add("blocks", change)

    def take_rows(self) -> list[Block]:
        """Returns the kept rows, which are no longer charged. A short block is reused."""
        if self.width * len(self.call.arrays[self.outputs[0]]) > LARGE:
            self._let_go_of_outputs()
        blocks, self.few = self.few, []
        if self.rows is not None:
            blocks += self.rows.take()
            self.rows = None
        if self.charged:
            self._charge(0)
        return blocks

    def clear(self) -> None:
        for argument in self.scratch:
            if argument.kind in MARKING:
                self.call.arrays[argument.name][:] = 0

    def take(self, lengths: Mapping[str, int]) -> None:
        """Sets scratch of at least these lengths."""
        call = self.call
        for argument in self.scratch:
            if len(call.arrays[argument.name]) < lengths[argument.name]:
                made = np.zeros(lengths[argument.name], dtype=calls.DTYPES[argument.type])
                call.set(argument.name, made)


@dataclass(frozen=True, slots=True)
class Reads:
    """The loops' arguments for one trie: entries of `sizes`, by place, kind and depth; arrays, by
    name, kind and depth; and the scratch whose length depends on it."""

    scalars: list[tuple[int, str, int]]
    arrays: list[tuple[str, str, int]]
    scratch: list[Argument]

    @staticmethod
    def of(printed: PrintedPlan, trie: int) -> Reads:
        scalars = enumerate(printed.scalars)
        arguments = [a for a in printed.arguments if any(at.trie == trie for at in a.levels)]
        return Reads(
            [(place, kind, at.depth) for place, (kind, at) in scalars if at.trie == trie],
            [(a.name, a.kind, a.levels[0].depth) for a in arguments if a.kind in calls.SHARED],
            [argument for argument in arguments if argument.kind in SCRATCH],
        )


class NewRowTest(Protocol):
    """What tells loops which rows are new: their arguments, all arrays, and a `version` that is
    another one when an array is; no two share one."""

    @property
    def version(self) -> int: ...

    @property
    def arguments(self) -> Mapping[str, Array]: ...


class PlanFunction:
    """A printed plan's function, with the state that all its calls share.

    What a turn reads is lent: indexes whose arrays have changed since the last turn, its rows, and
    another dedup index. Scratch is reused. There are as many workers as the largest turn needed.
    """

    def __init__(
        self, function: Callable[..., int], printed: PrintedPlan, scope: Scope, threads: int
    ) -> None:
        self.function = function
        self.threads = threads if printed.parallel else 1
        self.printed = printed
        self.scope = scope
        self.control = np.zeros(16, dtype=np.int64)
        self.workers: list[FreshWorker] = []
        self.at_work: list[FreshWorker] = []
        # The tries that stay as they are, with their arrays, and the versions of those that grow.
        self._tries: list[Trie | int | None] = [None] * len(printed.which)
        self._arrays: list[Sequence[Array]] = [()] * len(printed.which)
        self._known = 0  # the version of the dedup index
        self._sizes = np.zeros(len(printed.scalars), dtype=np.int64)
        self._reads = [Reads.of(printed, at) for at in range(len(printed.which))]
        given = (each.name for each in printed.arguments if each.kind == "given")
        self._columns = [name for name in given if name.startswith("new")]
        self._lengths: dict[str, int] = {}  # of scratch

    def _worker(self) -> FreshWorker:
        from gdatalog.codegen.native_calls import Bound

        printed = self.printed
        outputs = [argument.name for argument in printed.arguments if argument.kind == "output"]
        scratch = [argument for argument in printed.arguments if argument.kind in SCRATCH]
        texts = printed.expressions.arguments(self.scope)
        state = np.zeros(MET + len(outputs), dtype=np.int64)
        state[5], state[6] = printed.grain, ENDLESS
        arrays = {"control": self.control, "state": state, "sizes": self._sizes}
        arrays |= {name: texts[name] for name in printed.expressions.types()}
        for argument in printed.arguments:
            length = len(printed.counters) if argument.kind == "counts" else 0
            length = length or argument.length
            arrays[argument.name] = np.zeros(length, dtype=calls.DTYPES[argument.type])
        width, call = sum(arrays[name].itemsize for name in outputs), Bound(self.function, arrays)
        self._known, self._tries = 0, [None] * len(self._tries)  # nothing is lent to this one yet
        return FreshWorker(call, outputs, width, scratch, state, self.control)

    def renew(self, scope: Scope) -> None:
        """Continues in another evaluation, with its parameters."""
        self.scope = scope
        for name, array in self.printed.expressions.arguments(scope).items():
            for worker in self.workers if name in self.printed.expressions.types() else ():
                worker.call.set(name, array)

    def use(self, function: Callable[..., int]) -> None:
        """Continues with the same function, perhaps in better code."""
        self.function = function
        for worker in self.workers:
            worker.call.function = function

    def _read(self, tries: Sequence[Trie | HashTrie]) -> None:
        """Lends the tries that are others than in the last turn, or that have grown out of their
        arrays."""
        scratch: list[Argument] = []
        for at, number in enumerate(self.printed.which):
            trie, before = tries[number], self._tries[at]
            if trie is before or (isinstance(trie, HashTrie) and trie.version == before):
                continue
            reads = self._reads[at]
            for place, kind, depth in reads.scalars:
                self._sizes[place] = calls.scalar_of(kind, trie, depth)
            found = [calls.SHARED[kind](trie, depth) for _, kind, depth in reads.arrays]
            if isinstance(trie, HashTrie):
                self._tries[at] = trie.version
            else:
                found = self._arrays[at] = list(map(np.ascontiguousarray, found))
                self._tries[at] = trie
                scratch += reads.scratch
            for (name, _, _), array in zip(reads.arrays, found, strict=True):
                for worker in self.workers:
                    worker.call.lend(name, array)
        for argument in scratch:
            self._lengths[argument.name] = calls.scratch_length(
                argument, [tries[number] for number in self.printed.which]
            )

    def let_go(self, numbers: Collection[int]) -> None:
        """Drops these tries."""
        for at, number in enumerate(self.printed.which):
            if number in numbers:
                self._tries[at], self._arrays[at] = None, ()

    def begin(self, tries: Sequence[Trie | HashTrie], given: Sequence[Array], hands: int) -> None:
        """Starts a turn from the first of the given rows; `tries`: the plan's; `hands`: how many
        threads are worth starting."""
        self.control[calls.COUNTER] = 0
        # Workers that have begun must finish, so their number stays the same until all is done.
        hands = min(hands, self.threads)
        while len(self.workers) < hands:
            self.workers.append(self._worker())
        self.at_work = self.workers[:hands]
        self._read(tries)
        lent, texts = dict(zip(self._columns, given, strict=True)), self.printed.expressions
        if texts.of_symbols:  # there may be new symbols
            self.renew(self.scope)
        for worker in self.at_work:
            worker.state[3] = hands
            if worker.scratch:
                worker.take(self._lengths)
            for name, array in lent.items():
                worker.call.lend(name, array)
            worker.begin()

    def go_on(self, known: NewRowTest, room: int, limits: Limits) -> int:
        """Continues as far as possible; returns why it stopped.

        `known`: the dedup index, which has room for `room` more rows.
        """
        workers = self.at_work
        self.control[calls.STOP_FLAG] = 0
        if self._known != known.version:
            self._known = known.version
            for worker in self.workers:
                for name, array in known.arguments.items():
                    worker.call.lend(name, array)
        for worker in workers:
            worker.share = room // len(workers)
            worker.account = limits.account
        if len(workers) == 1:
            workers[0].run()
        else:
            lftj.run_together([worker.run for worker in workers], self.control, limits)
        for worker in workers:
            if worker.error is not None:
                error, worker.error, worker.rows, worker.few = worker.error, None, None, []
                raise error
        if len(workers) == 1 and workers[0].status == calls.DONE:
            return calls.DONE
        found = {worker.status for worker in workers}
        for status in (calls.FAILED, calls.OVERFLOW, calls.OUTSIDE, CROWDED):
            if status in found:
                return status
        return calls.DONE

    def taken(self) -> list[Block]:
        """The rows that were found since the last call."""
        return [block for worker in self.workers for block in worker.take_rows()]

    def counts(self) -> tuple[int, int]:
        """How many rows were derived since `begin`, and how many of them are new."""
        tried = sum(int(worker.state[TRIED]) for worker in self.at_work)
        return tried, sum(worker.kept for worker in self.at_work)

    def tallied(self) -> dict[str, Array]:
        """The bindings since `begin`, by counter, if they are counted."""
        if not self.printed.counters:
            return {}
        return {
            calls.COUNTS: tallied(self.printed, [worker.call.arrays for worker in self.at_work])
        }

    def met(self) -> tuple[Array, ...]:
        """A row outside the space, as columns with one row."""
        worker = next(worker for worker in self.at_work if worker.status == calls.OUTSIDE)
        return tuple(worker.state[MET:].reshape(-1, 1).copy())
