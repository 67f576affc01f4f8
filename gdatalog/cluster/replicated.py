"""A rule over relations that each worker has whole: its joins cut into stretches of a variable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gdatalog.cluster.pool import Call, Pool
from gdatalog.cluster.work import Task, gathered_within, rows_within
from gdatalog.engine.run import Run
from gdatalog.executors.gather import Gathering
from gdatalog.executors.sinks import RowSet
from gdatalog.plan.cells import EVERYTHING, Cell, Stretch, cuttable, roles

PARTS = 8  # cells for each thread of a worker


@dataclass(slots=True)
class SpreadRun(Run):
    """The run of a rule whose joins are run by workers, cell by cell; what they give is put
    together here."""

    pool: Pool = None  # type: ignore[assignment]

    def _distinct(self, sink: RowSet) -> Any:
        self.into_set(0, sink)
        self._count(sink.given)
        return sink.finish()

    def into_set(self, number: int, sink: RowSet) -> None:
        sink.outputs = self.plan.joins[number].outputs
        for rows in self._spread(number, rows_within):
            sink.add_blocks([rows])

    def into_bag(self, number: int, gathering: Gathering) -> Gathering:
        for part in self._spread(number, gathered_within):
            gathering.join(part)
        return gathering

    def _spread(self, number: int, function: Callable[..., Any]) -> Any:
        """What workers give for the cells of a join."""
        join = self.plan.joins[number]
        tries = {ref: self.sources.trie_of(ref) for ref in join.tries}
        placed = {ref: self.pool.place(id(trie), trie) for ref, trie in tries.items()}
        symbols = self.scope.symbols
        table = self.pool.place((id(symbols), len(symbols)), symbols)
        memory = self.limits.memory or 1 << 40
        task = Task(self.plan, number, self.scope.params, memory, self.knobs)
        stage = self.pool.stage(self.plan.relation, self.limits)
        for cell in self._cells(number):
            stage.add(Call(function, (task, [cell], placed, table)))
        for _, found in stage:
            yield found

    def _cells(self, number: int) -> list[Cell]:
        """Cells of about as many values of the first variable each."""
        join = self.plan.joins[number]
        variables = cuttable(join)
        if not variables:
            return [EVERYTHING]
        first = variables[0].name
        at = next(at for at, names in enumerate(roles(join)) if names[:1] == (first,))
        values = self.sources.trie_of(join.tries[at]).levels[0].values
        wanted = min(len(values), PARTS * self.pool.connection.slots)
        ends = np.unique(values[np.linspace(0, len(values), wanted, endpoint=False, dtype=int)])
        bounds = [None, *ends[1:].tolist(), None]
        return [Cell({first: Stretch(low, high)}) for low, high in pairwise(bounds)]
