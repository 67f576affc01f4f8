"""The calls of a join's cells: sent until all cells are done, and sent again in smaller parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from typing import Any

from gdatalog.calls import Limits
from gdatalog.cluster.pool import Broadcast, Call, Pool, TaskStage, TooLarge
from gdatalog.cluster.replicated.cells import settled
from gdatalog.cluster.replicated.tasks import CellResult
from gdatalog.errors import MemoryLimitError
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class JoinWork:
    """What all calls of a join are given. `name`: the rule's. `symbols`: the table, where texts are
    read. `keep`: whether rows and groups stay where they are made, if they are many."""

    name: str
    task: Broadcast
    symbols: Broadcast | None
    keep: bool


class CellScheduler(ABC):
    """Runs one join's cells on the workers. `total`: what all cells cost; `done`: those that ran.

    A call may give back cells: those that it had no time for, and one that was too much.
    """

    def __init__(self, pool: Pool, limits: Limits, work: JoinWork) -> None:
        self.pool, self.limits, self.work = pool, limits, work
        self.total, self.done = 1.0, 0.0

    def run(self) -> Generator[CellResult, None, None]:
        """What the calls give, as they end."""
        stage = self.pool.stage(self.work.name, self.limits, self._smaller)
        stage.reports = False
        try:
            self._send(stage)
            for call, given in stage:
                if isinstance(call.tag, CellResult):
                    call.tag.kept = given
                    yield call.tag
                    continue
                found = given.summary if call.keep else given
                function, *args = self._ended(stage, call, found)
                self.limits.watch.part(int(1000 * self.done / self.total), 1000)
                if found.left is not None:
                    exact = given, found.cells, found.taken, function, *args
                    stage.add(Call(settled, exact, True, call.worker, tag=found))
                self._send(stage)
                if found.left is None and found.cells:
                    yield found
        finally:
            stage.cancel()

    def _call(
        self,
        tag: Any,
        function: Callable[..., CellResult],
        args: tuple[Any, ...],
        worker: str | None,
    ) -> Call:
        return Call(function, args, self.work.keep, worker, tag, CellResult.light)

    def _smaller(self, large: TooLarge) -> list[Call]:
        """Calls in the place of one for which a worker had not enough memory."""
        return [] if isinstance(large.call.tag, CellResult) else self._cut(large)

    @abstractmethod
    def _send(self, stage: TaskStage) -> None:
        """Has as many calls under way as keep all workers at work."""

    @abstractmethod
    def _ended(self, stage: TaskStage, call: Call, found: CellResult) -> tuple[Any, ...]:
        """Takes back what a call has left; a function and arguments that run what it has done."""

    @abstractmethod
    def _cut(self, large: TooLarge) -> list[Call]:
        """The same as `_smaller`, of cells."""


def too_small(error: MemoryLimitError) -> MemoryLimitError:
    """What to say where even one value of each variable does not fit into a worker."""
    error.hint = "workers with more memory; or fewer threads on each, which share it"
    return error
