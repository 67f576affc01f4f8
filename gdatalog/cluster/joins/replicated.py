"""A rule whose relations every worker holds whole: idle workers take morsels of its joins."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from gdatalog.cluster.joins.cells import CellResult, Mode, join_cells
from gdatalog.cluster.joins.cluster_run import ClusterRun, JoinCalls, too_small
from gdatalog.cluster.joins.morsels import DEEP, Morsel, Morsels
from gdatalog.cluster.pool.calls import Call, TooLarge
from gdatalog.cluster.pool.task_stage import TaskStage

BUDGET = 1.0  # seconds until a call returns the cells that it has not started
SHARES = 1.5  # a call gets a thread's share of what is left, divided by this (self-scheduling)
AHEAD = 2  # calls for each thread of the workers: one runs, one waits


class MorselCells:
    """Assigns the morsels of a join to workers until all are done.

    At first, it deals all morsels to threads, at about equal expected cost. After `BUDGET` seconds,
    a thread returns the morsels that it has not started; these are assigned in ever smaller parts
    to the threads that end first.
    """

    def __init__(self, run: ClusterRun, number: int, mode: Mode, limit: int | None) -> None:
        self.calls = JoinCalls(run, number, mode, limit, run.inputs.context.memory)
        tries = run.tries(self.calls.join)
        self.tries = {ref: self.calls.pool.broadcast(id(trie), trie) for ref, trie in tries.items()}
        gpus = self.calls.device != "cpu" and self.calls.pool.connection.gpus
        gpus = gpus and run.inputs.context.device.refuses(self.calls.plan) is None
        self.slots = self.calls.pool.slots
        self.cutting = Morsels(self.calls.join, tries, run.inputs.scope, self.slots, gpus)
        self.calls.total = self.cutting.total
        self.begun = False

    def results(self) -> Generator[CellResult, None, None]:
        return self.calls.results(self)

    def send(self, stage: TaskStage) -> None:
        """Submits enough calls to keep all threads busy. The first calls name their workers: two
        calls on one worker would leave another one idle."""
        if not self.begun:
            self.begun = True
            workers = [
                at for at, threads in self.calls.pool.threads.items() for _ in range(threads)
            ]
            for worker, pieces in zip(workers, self.cutting.deal(len(workers)), strict=False):
                stage.add(self._made(pieces, worker=worker))
        while self.cutting and stage.pending < AHEAD * self.slots:
            # Ever smaller parts, so that all threads end at about the same time.
            pieces = self.cutting.take(self.cutting.left / (SHARES * self.slots))
            stage.add(self._made(pieces))

    def _made(
        self, pieces: Sequence[Morsel], firm: bool = False, worker: str | None = None
    ) -> Call:
        cells = [piece.cell for piece in pieces]
        args = (self.calls.task, cells, BUDGET, firm, self.tries, self.calls.symbols)
        return self.calls.call(pieces, join_cells, args, worker)

    def cut(self, large: TooLarge) -> list[Call]:
        pieces = large.call.tag
        if len(pieces) == 1:
            deep = pieces[0].again >= DEEP
            pieces = () if deep else self.cutting.smaller(pieces[0]) or ()
        return [self._made([piece]) for piece in pieces]

    def ended(self, stage: TaskStage, call: Call, found: CellResult) -> tuple[object, ...]:
        pieces: Sequence[Morsel] = call.tag
        done, left = pieces[: found.cells], list(pieces[found.cells :])
        self.calls.done += sum(piece.cost for piece in done)
        if found.error is not None and len(pieces) > 1:
            for piece in left:  # each alone, before one of them is an error
                stage.add(self._made([piece]))
        else:
            self.cutting.add(self._rest(stage, left, found))
        cells = [piece.cell for piece in done]
        return join_cells, self.calls.task, cells, None, True, self.tries, self.calls.symbols

    def _rest(self, stage: TaskStage, left: list[Morsel], found: CellResult) -> list[Morsel]:
        """The morsels that a call has left; the first is cut if it was too large."""
        if not found.hard:
            return left
        hard, *rest = left
        smaller = self.cutting.smaller(hard)
        if found.error is not None and (smaller is None or hard.again >= DEEP):
            raise too_small(found.error)
        if smaller is None:
            stage.add(self._made([hard], True))
        return rest + (smaller or [])
