"""A rule over a block of a relation, on the worker that has the block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile

import numpy as np

from gdatalog.cluster.joins.cells import CellResult, JoinTask, join_cells
from gdatalog.cluster.rows.shuffle import columns_of
from gdatalog.cpu_ops.expressions import Scope
from gdatalog.engine.device import CPU
from gdatalog.executors.frontier import Frontier, Key
from gdatalog.executors.levelwise import Levelwise
from gdatalog.executors.sinks import DistinctSink
from gdatalog.limits import Limits
from gdatalog.plan.cells import EVERYTHING
from gdatalog.plan.join_plan import Filter, Guard, JoinPlan, Seek, Slot, Step, TrieRef
from gdatalog.records import dataclass, replace
from gdatalog.storage.remote import RemotePart
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie

PIECES = 8  # pieces of a block that takes too long or does not fit
# Share of rows that pass tests, up to which rows are filtered before they are deduplicated.
WORTH = 0.1
PLACE = "~place"  # a row's place in its part


@dataclass(frozen=True, slots=True)
class PartRange:
    """A range of a part's rows, and the worker that has the part, if known."""

    part: RemotePart
    start: int
    stop: int
    home: str | None

    @property
    def rows(self) -> int:
        return self.stop - self.start

    def cut(self) -> list[PartRange]:
        """Smaller ranges; none for a single row."""
        ends = np.linspace(self.start, self.stop, min(PIECES, self.rows) + 1).astype(int).tolist()
        parts = [replace(self, start=low, stop=high) for low, high in pairwise(ends)]
        return parts if self.rows > 1 else []


def run_block(
    task: JoinTask,
    value: object,
    columns: Sequence[int],
    where: tuple[int, int] | None,
    firm: bool,
    tries: Mapping[TrieRef, Trie],
    symbols: SymbolTable,
) -> CellResult:
    """Runs a join over the rows of a part, or over a range of them."""
    rows = columns_of(value, columns)
    if where is not None:
        rows = tuple(column[slice(*where)].copy() for column in rows)
    return join_cells(task, [EVERYTHING], None, firm, tries, symbols, given=rows)


def passing(
    task: JoinTask, value: object, tries: Mapping[TrieRef, Trie], symbols: SymbolTable
) -> Columns:
    """The rows of a part, with all columns, that pass the join's tests."""
    rows = columns_of(value)
    join = task.plan.joins[task.number]
    scope = Scope(symbols, task.context.params)
    kept = only_passing(join, rows, [tries[ref] for ref in join.tries], scope)
    return tuple(column[kept] for column in rows)


def tests_of(join: JoinPlan) -> list[Step]:
    """The join's first steps that only filter rows."""
    return list(takewhile(lambda step: isinstance(step, (Filter, Seek, Guard)), join.steps))


def only_passing(join: JoinPlan, rows: Columns, tries: Sequence[Trie], scope: Scope) -> Array:
    """The places of rows that pass the tests."""
    assert join.given is not None
    limits = Limits()
    sink = DistinctSink([Slot(PLACE, "int")], CPU.ops, scope, limits)
    names = [slot.name for slot in join.given.slots]
    columns: dict[Key, Array] = {
        name: rows[at] for name, at in zip(names, join.given.columns, strict=True)
    }
    columns[PLACE] = np.arange(len(rows[0]))
    walk = Levelwise(tries, CPU.ops, scope, limits)
    walk.run(tests_of(join), 0, Frontier(len(rows[0]), columns=columns), sink)
    return np.concatenate([np.empty(0, dtype=np.int64), *(places for (places,) in sink.blocks())])
