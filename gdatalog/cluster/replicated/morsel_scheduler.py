"""The pieces of a join, handed to workers until all are done."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from gdatalog.calls import Limits
from gdatalog.cluster.pool import Broadcast, Call, Pool, TaskStage, TooLarge
from gdatalog.cluster.replicated.cell_scheduler import CellScheduler, JoinWork, too_small
from gdatalog.cluster.replicated.cells import join_cells
from gdatalog.cluster.replicated.morsels import DEEP, Morsel, Morsels
from gdatalog.cluster.replicated.tasks import CellResult
from gdatalog.plan.nodes import TrieRef
from gdatalog.records import replace

BUDGET = 1.0  # seconds that a call may take, and then gives back what it has not come to
SHARES = 1.5  # a call has such a part of a thread's share of what is left (guided self-scheduling)
AHEAD = 2  # calls for each thread of the workers: one runs, one waits there


class MorselScheduler(CellScheduler):
    """The pieces of a join, handed to workers until all are done.

    Where workers see a folder of the driver's, a call is told all pieces and claims one after the
    other. Elsewhere, and where pieces come back, calls have shares of their own.
    """

    def __init__(
        self,
        pool: Pool,
        limits: Limits,
        work: JoinWork,
        tries: Mapping[TrieRef, Broadcast],
        cutting: Morsels,
    ) -> None:
        super().__init__(pool, limits, work)
        self.tries, self.cutting = tries, cutting
        self.slots, self.total = cutting.slots, cutting.total
        self.flying = 0
        self.claims = pool.claims()
        self.common = () if self.claims is None else cutting.all()
        self.cells = tuple(piece.cell for piece in self.common)
        self.unseen = set(range(len(self.common)))  # of the common pieces: they did not come back
        self.claiming = Counter[str]()  # calls that claim, of each worker
        self.out = False  # whether all common pieces are claimed

    def run(self) -> Generator[CellResult, None, None]:
        try:
            yield from super().run()
        finally:
            if self.claims is not None:
                shutil.rmtree(self.claims.folder, ignore_errors=True)

    def _send(self, stage: TaskStage) -> None:
        """Has each thread of the workers claim pieces, if some are left, and as many calls under
        way as keep all at work. Calls that claim are told where to run: two on one worker would
        leave another with nothing."""
        if self.unseen and not self.out:
            for worker, threads in self.pool.threads.items():
                for _ in range(self.claiming[worker], threads):
                    stage.add(self._made(self.common, False, worker))
                    self.claiming[worker] += 1
        if not self.claiming.total():  # what is missing was claimed on workers that died
            self.cutting.add([self.common[number] for number in sorted(self.unseen)])
            self.unseen.clear()
        while self.cutting and self.flying < AHEAD * self.slots:
            # A part of what is left, so that all end together.
            most = self.cutting.left / (SHARES * self.slots)
            self._add(stage, tuple(self.cutting.take(most)))

    def _add(self, stage: TaskStage, pieces: tuple[Morsel, ...], firm: bool = False) -> None:
        stage.add(self._made(pieces, firm))
        self.flying += 1

    def _made(self, pieces: tuple[Morsel, ...], firm: bool, worker: str | None = None) -> Call:
        common = pieces is self.common
        cells = self.cells if common else [piece.cell for piece in pieces]
        claims = self.claims if common else None
        args = (self.work.task, cells, BUDGET, firm, self.tries, self.work.symbols, claims)
        return self._call(pieces, join_cells, args, worker)

    def _cut(self, large: TooLarge) -> list[Call]:
        pieces = large.call.tag
        if pieces is self.common:  # what it had claimed will be missing
            nothing = (*large.call.args[:1], (), *large.call.args[2:])
            return [replace(large.call, args=nothing)] if large.call.args[1] else []
        if len(pieces) == 1:
            deep = pieces[0].again >= DEEP
            pieces = () if deep else self.cutting.smaller(pieces[0]) or ()
        self.flying += len(pieces) - 1
        return [self._made((piece,), False) for piece in pieces]

    def _ended(self, stage: TaskStage, call: Call, found: CellResult) -> tuple[Any, ...]:
        pieces: Sequence[Morsel] = call.tag
        if pieces is self.common:
            self.unseen.difference_update(found.taken)
            self.claiming[call.worker or ""] -= 1
            self.out |= found.out
            pieces = [self.common[number] for number in found.taken]
        else:
            self.flying -= 1
        done, left = pieces[: found.cells], list(pieces[found.cells :])
        self.done += sum(piece.cost for piece in done)
        if found.error is not None and len(pieces) > 1:
            for piece in left:  # each by itself, before it is said that one is too much
                self._add(stage, (piece,))
        else:
            self.cutting.add(self._rest(stage, left, found))
        cells = [piece.cell for piece in done]
        return join_cells, self.work.task, cells, None, True, self.tries, self.work.symbols

    def _rest(self, stage: TaskStage, left: list[Morsel], found: CellResult) -> list[Morsel]:
        """The pieces that a call has left; the first is cut if it was too much."""
        if not found.hard:
            return left
        hard, *rest = left
        smaller = self.cutting.smaller(hard)
        if found.error is not None and (smaller is None or hard.again >= DEEP):
            raise too_small(found.error)
        if smaller is None:
            self._add(stage, (hard,), True)
        return rest + (smaller or [])
