"""Compiled loops that a fixpoint calls round after round, for rows that come for the first time.

What has been there by now is in arrays that the loops test and set (`printer/fresh.py`). A call
ends when all is done, or when somebody has to see to something: a row lies outside of the space of
marks, or the hash set has no room left. Whatever has come by then is kept, and the next call goes
on from there. What the calls of all rounds have in common is made once: a tiny round then costs
little more than its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gdatalog.account import Account
from gdatalog.executors import lftj
from gdatalog.executors.lftj import (
    COUNTER,
    COUNTS,
    DONE,
    FAILED,
    FULL,
    MOST_ROOM,
    OUTSIDE,
    OVERFLOW,
    SHARE,
    STOP_FLAG,
    Block,
    given_arrays,
    own_arguments,
    tallied,
    tell,
)
from gdatalog.executors.limits import Limits
from gdatalog.hands import Hand
from gdatalog.records import dataclass, field
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie
from gdatalog.watching import PATIENCE

CROWDED = 7  # a call ends: the rows that there was room for have come
TRIED, MET = 7, 8  # where a worker's state has how many rows came, and the row that lies outside
ENDLESS = 1 << 62


@dataclass(slots=True)
class FreshWorker:
    """One thread's part. `share`: how many rows it may still add to what is known."""

    function: Any
    arguments: dict[str, Array]
    outputs: list[str]
    scratch: list[str]
    state: Array
    control: Array
    share: int = 0
    room: int = 0  # of the next block
    block: Array | None = None
    blocks: list[Block] = field(default_factory=list)
    account: Account = field(default_factory=Account)
    kept: int = 0  # rows, since it began
    status: int = DONE
    error: BaseException | None = None

    def begin(self) -> None:
        self.state[0] = self.state[1] = self.state[TRIED] = self.kept = 0
        if COUNTS in self.arguments:
            self.arguments[COUNTS][:] = 0
        self.room = lftj.FIRST_ROOM
        self.status = FULL

    def run(self) -> None:
        if self.status == DONE:
            return
        try:
            self._run()
        except BaseException as error:
            self.error = error
        if self.error is not None or self.status != DONE:
            self.control[STOP_FLAG] = 1

    def _run(self) -> None:
        arguments, state = self.arguments, self.state
        while True:
            room = min(self.room, self.share)
            if room == 0:
                self.status = CROWDED
                return
            if len(arguments[self.outputs[0]]) < room:
                width = sum(arguments[name].itemsize for name in self.outputs)
                self.account.add("blocks", room * width)
                for name in self.outputs:
                    arguments[name] = np.empty(room, dtype=arguments[name].dtype)
            state[2], state[4] = room, 0
            self.status = self.function(*arguments.values())
            kept = int(state[4])
            if kept:
                self._keep(kept)
            for name in self.scratch if self.status != DONE else ():
                arguments[name][:] = 0  # loops that ended early left marks
            if self.status != FULL:
                return
            width = sum(arguments[name].itemsize for name in self.outputs)
            most = max(lftj.FIRST_ROOM, min(MOST_ROOM, self.account.spare() // (SHARE * width)))
            self.room = min(2 * self.room, most)

    def _keep(self, kept: int) -> None:
        """Takes the rows of a block, whose arrays serve again if the rows are few."""
        self.share -= kept
        self.kept += kept
        few = 2 * kept < len(self.arguments[self.outputs[0]])
        block = tuple(self.arguments[name][:kept] for name in self.outputs)
        if few:
            block = tuple(column.copy() for column in block)
        else:
            for name in self.outputs:
                self.arguments[name] = self.arguments[name][:0]
        self.blocks.append(block)


class Loops:
    """A printed plan's function, with what all its calls have in common."""

    def __init__(
        self, function: Any, printed: Any, tries: Sequence[Trie], scope: Any, threads: int
    ) -> None:
        self.printed = printed
        distinct = [tries[at] for at in printed.which]
        given = given_arrays(printed, distinct, scope)
        self.control = np.zeros(16, dtype=np.int64)
        beside = [argument.name for argument in printed.arguments if argument.kind == "given"]
        given |= dict.fromkeys(beside, np.empty(0, dtype=np.int64))
        count = threads if printed.parallel else 1
        outputs = [argument for argument in printed.arguments if argument.kind == "output"]
        self.workers: list[FreshWorker] = []
        self.at_work: list[FreshWorker] = []
        self.alone = False
        for _ in range(count):
            state = np.zeros(MET + len(outputs), dtype=np.int64)
            state[3], state[5], state[6] = count, printed.grain, ENDLESS
            arguments, scratch = own_arguments(printed, distinct, given, self.control, state)
            names = [argument.name for argument in outputs]
            self.workers.append(
                FreshWorker(function, arguments, names, scratch, state, self.control)
            )

    def use(self, function: Any) -> None:
        """Goes on with the same function, which may have better code by now."""
        for worker in self.workers:
            worker.function = function

    def begin(self, given: Mapping[str, Array], alone: bool) -> None:
        """From the first of these rows on. `alone`: there is so little to do that no thread is
        worth its start."""
        self.control[COUNTER] = 0
        # Who has begun must come to the end, so they are the same until all is done.
        self.alone = alone
        self.at_work = self.workers[:1] if alone else self.workers
        for worker in self.at_work:
            worker.arguments.update(given)
            worker.begin()

    def go_on(self, known: Mapping[str, Array], room: int, limits: Limits) -> int:
        """Goes on as far as it can; what has become of it.

        `known`: what has been there by now, to which `room` more rows may be added.
        """
        workers = self.at_work
        self.control[STOP_FLAG] = 0
        for worker in workers:
            worker.arguments.update(known)
            worker.share = room // len(workers)
            worker.account = limits.account
        if self.alone:
            workers[0].run()
        else:
            self._together(limits)
        for worker in workers:
            if worker.error is not None:
                error, worker.error, worker.blocks = worker.error, None, []
                raise error
        found = {worker.status for worker in workers}
        for status in (FAILED, OVERFLOW, OUTSIDE, CROWDED):
            if status in found:
                return status
        return DONE

    def _together(self, limits: Limits) -> None:
        pool = [Hand(worker.run) for worker in self.at_work]
        for thread in pool:
            thread.start()
        try:
            for thread in pool:
                while not thread.wait(PATIENCE):
                    limits.poll()
                    tell(self.control, limits)
        except BaseException:
            self.control[STOP_FLAG] = 1
            for thread in pool:
                thread.wait()
            raise

    def taken(self) -> list[Block]:
        """The rows that have come since this was asked last."""
        blocks = [block for worker in self.workers for block in worker.blocks]
        for worker in self.workers:
            worker.blocks = []
        return blocks

    def counts(self) -> tuple[int, int]:
        """How many rows have come since `begin`, and how many for the first time."""
        tried = sum(int(worker.state[TRIED]) for worker in self.at_work)
        return tried, sum(worker.kept for worker in self.at_work)

    def tallied(self) -> dict[str, Array]:
        """What has been bound since `begin`, by counter, if that is counted."""
        return {COUNTS: tallied(self.printed, self.at_work)} if self.printed.counters else {}

    def met(self) -> tuple[Array, ...]:
        """A row that lies outside, as columns of one."""
        for worker in self.at_work:
            if worker.status == OUTSIDE:
                return tuple(
                    worker.state[at : at + 1].copy() for at in range(MET, len(worker.state))
                )
        raise AssertionError("no row lies outside")
