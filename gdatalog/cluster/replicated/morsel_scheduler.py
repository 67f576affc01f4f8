"""The pieces of a join, handed to workers until all are done."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from gdatalog.cluster.pool import Broadcast, Call, Pool, RemoteValue, TaskStage, TooLarge
from gdatalog.cluster.replicated.cells import join_cells, of_same_cells
from gdatalog.cluster.replicated.morsels import DEEP, Morsel, Morsels
from gdatalog.cluster.replicated.tasks import CellResult, PackedTask, light
from gdatalog.errors import MemoryLimitError
from gdatalog.limits import Limits
from gdatalog.plan.cells import Cell
from gdatalog.plan.nodes import TrieRef
from gdatalog.records import dataclass

BUDGET = 1.0  # seconds that a call may take, and then gives back what it has not come to
SHARES = 1.5  # a call has such a part of a thread's share of what is left (guided self-scheduling)
AHEAD = 2  # calls for each thread of the workers: one runs, one waits there


@dataclass(frozen=True, slots=True)
class JoinWork:
    """What all calls are given. `symbols`: the table, where texts are read. `name`: the rule's.
    `keep`: whether rows and groups stay where they are made, if they are many."""

    name: str
    sealed: PackedTask
    tries: Mapping[TrieRef, Broadcast]
    symbols: Broadcast | None
    keep: bool


class MorselScheduler:
    """The pieces of a join, handed to workers until all are done.

    Where workers see a folder of the driver's, a call is told all pieces and claims one after the
    other. Elsewhere, and where pieces come back, calls have shares of their own.
    """

    def __init__(self, pool: Pool, limits: Limits, work: JoinWork, cutting: Morsels) -> None:
        self.pool, self.limits, self.work, self.cutting = pool, limits, work, cutting
        self.slots = cutting.slots
        self.flying = 0
        self.done = 0.0
        self.claims = pool.claims()
        self.common = () if self.claims is None else self.cutting.all()
        self.cells = tuple(piece.cell for piece in self.common)
        self.unseen = set(range(len(self.common)))  # of the common pieces: they did not come back
        self.claiming = Counter[str]()  # calls that claim, of each worker

    def run(self) -> Iterator[CellResult]:
        """What the calls give, as they end."""
        stage = self.pool.stage(self.work.name, self.limits, self._smaller)
        self._claim(stage)
        self._send(stage)
        try:
            for call, given in stage:
                if isinstance(call.tag, CellResult):
                    call.tag.kept = given
                    yield call.tag
                    continue
                found = given.summary if call.keep else given
                pieces = self._taken(stage, call, found)
                if found.left is not None:
                    stage.add(self._of_same_cells(call, given, found, pieces[: found.cells]))
                self._back(stage, pieces, found)
                self._send(stage)
                if found.left is None:
                    yield found
        finally:
            stage.cancel()
            if self.claims is not None:
                shutil.rmtree(self.claims.folder, ignore_errors=True)

    def _send(self, stage: TaskStage) -> None:
        """Has as many calls under way as keep all workers at work."""
        while self.cutting and self.flying < AHEAD * self.slots:
            self._call(stage, self.cutting.take(self._next()), False)

    def _next(self) -> float:
        """What the next call is to cost: a part of what is left, so that all end together."""
        return self.cutting.left / (SHARES * self.slots)

    def _of_same_cells(
        self, call: Call, kept: RemoteValue, found: CellResult, pieces: Sequence[Morsel]
    ) -> Call:
        """What stays of a call: however often it is made again, of the same cells."""
        cells = [piece.cell for piece in pieces]
        work = self.work
        args = (kept, found.taken, work.sealed, cells, work.tries, work.symbols)
        return Call(of_same_cells, args, True, tag=found)

    def _smaller(self, large: TooLarge) -> list[Call]:
        """Calls in the place of one for which a worker had not enough memory."""
        pieces, cells = large.call.tag, large.call.args[1]
        if isinstance(pieces, CellResult) or not cells:
            return []
        if pieces is self.common:  # what it had claimed will be missing
            return [self._made(pieces, (), BUDGET, False, large.call.worker)]
        if len(pieces) == 1:
            deep = pieces[0].again >= DEEP
            pieces = () if deep else self.cutting.smaller(pieces[0]) or ()
        self.flying += len(pieces) - 1
        return [self._own([piece], False) for piece in pieces]

    def _claim(self, stage: TaskStage, left: bool = True) -> None:
        """Has each thread of the workers claim pieces, if some are left. Calls are told where to
        run: two on one worker would leave another with nothing."""
        if self.unseen and left:
            for worker, threads in self.pool.threads.items():
                for _ in range(self.claiming[worker], threads):
                    stage.add(self._made(self.common, self.cells, BUDGET, False, worker))
                    self.claiming[worker] += 1
        if not self.claiming.total():  # what is missing was claimed on workers that died
            self.cutting.add([self.common[number] for number in sorted(self.unseen)])
            self.unseen.clear()

    def _call(self, stage: TaskStage, pieces: Sequence[Morsel], firm: bool) -> None:
        stage.add(self._own(pieces, firm))
        self.flying += 1

    def _own(self, pieces: Sequence[Morsel], firm: bool) -> Call:
        """A call that has pieces of its own."""
        return self._made(tuple(pieces), [piece.cell for piece in pieces], BUDGET, firm)

    def _made(
        self,
        pieces: tuple[Morsel, ...],
        cells: Sequence[Cell],
        seconds: float,
        firm: bool,
        worker: str | None = None,
    ) -> Call:
        claims = self.claims if pieces is self.common else None
        work = self.work
        args = (work.sealed, cells, seconds, firm, work.tries, work.symbols, claims)
        return Call(join_cells, args, work.keep, worker, pieces, light)

    def _taken(self, stage: TaskStage, call: Call, found: CellResult) -> Sequence[Morsel]:
        """The pieces that a call had."""
        pieces: tuple[Morsel, ...] = call.tag
        if pieces is not self.common:
            self.flying -= 1
            return pieces
        self.unseen.difference_update(found.taken)
        self.claiming[call.worker or ""] -= 1
        self._claim(stage, left=not found.out)
        return [pieces[number] for number in found.taken]

    def _back(self, stage: TaskStage, pieces: Sequence[Morsel], found: CellResult) -> None:
        """What a call has done of its pieces, and what it has left."""
        self.done += sum(piece.cost for piece in pieces[: found.cells])
        left = list(pieces[found.cells :])
        if found.error is not None and len(pieces) > 1:
            for piece in left:  # each by itself, before it is said that one is too much
                self._call(stage, [piece], False)
            left = []
        elif found.hard:
            hard = left.pop(0)
            smaller = self.cutting.smaller(hard)
            if found.error is not None and (smaller is None or hard.again >= DEEP):
                raise too_small(found.error)
            if smaller is not None:
                left += smaller
            else:
                self._call(stage, [hard], True)
        self.cutting.add(left)
        self.limits.watch.part(int(1000 * self.done / self.cutting.total), 1000)


def too_small(error: MemoryLimitError) -> MemoryLimitError:
    """What to say where even one value of each variable does not fit into a worker."""
    error.hint = "workers with more memory; or fewer threads on each, which share it"
    return error
