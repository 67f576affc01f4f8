"""A rule over one relation whose rows are on workers: each block is processed where it is.

A block is a part of the relation, or a range of a part. Each worker has all other relations of the
rule. The relation's rows are not moved, sorted or indexed; only the columns that the rule needs are
read from files. If duplicates would count twice they are removed first, for selective rules only
among the rows that pass the tests.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import pairwise, takewhile

import numpy as np

from gdatalog.cluster.joins.cells import CellResult, JoinTask, Mode, join_cells
from gdatalog.cluster.joins.cluster_run import ClusterRun, JoinCalls, too_small
from gdatalog.cluster.pool.calls import Call, TooLarge
from gdatalog.cluster.pool.task_stage import TaskStage
from gdatalog.cluster.rows.shuffle import columns_of, parts_of, place_of, size_of
from gdatalog.cpu_ops.expressions import Scope
from gdatalog.engine.device import CPU
from gdatalog.executors.frontier import Frontier, Key
from gdatalog.executors.levelwise import Levelwise
from gdatalog.executors.sinks import DistinctSink
from gdatalog.limits import Limits
from gdatalog.plan.cells import EVERYTHING
from gdatalog.plan.effects import widens
from gdatalog.plan.join_plan import Filter, Guard, JoinPlan, Seek, Slot, Step, TrieRef
from gdatalog.records import dataclass, replace
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.remote import RemotePart, RemoteRows
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


NEVER_CUT_UP_TO = 1000  # blocks of so few rows are never cut


class BlockCells:
    """Runs a join over all blocks of a relation."""

    def __init__(self, run: ClusterRun, number: int, mode: Mode, limit: int | None) -> None:
        self.calls = JoinCalls(
            run, number, mode, limit, run.inputs.context.memory, widens(run.plan.joins[number])
        )
        join, name = self.calls.join, self.calls.plan.passes_over
        assert join.given is not None and name is not None
        rows = run.relation_of(name).remote
        assert rows is not None
        self.scope = run.inputs.scope
        self.columns = join.given.columns
        self.firm = not widens(join)
        self.made = run.tries(join)
        self.tries = {ref: run.pool.broadcast(id(trie), trie) for ref, trie in self.made.items()}
        self.parts = self._distinct(rows, join) if join.bag else rows.parts
        run.spread = replace(run.spread, cells=(run.spread.cells or 0) + len(self.parts))
        self.calls.total = max(1, sum(part.rows for part in self.parts))

    def results(self) -> Generator[CellResult, None, None]:
        return self.calls.results(self)

    # ---------------------------------------------------------------------- rows, each once

    def _distinct(self, rows: RemoteRows, join: JoinPlan) -> Sequence[RemotePart]:
        """Parts with distinct rows; rows that fail the tests may be missing."""
        if rows.known >= KnownRows.DISTINCT or self._share(rows, join) > WORTH:
            return rows.make_distinct()
        stage = self.calls.pool.stage(f"{self.calls.name}: tests", self.calls.limits)
        for block in self._blocks(rows.parts):
            args = (self.calls.task, block.part.value, self.tries, self.calls.symbols)
            stage.add(Call(passing, args, True, block.home, summary=size_of))
        parts = parts_of([kept for _, kept in stage])
        return RemoteRows(parts, rows.keeper, KnownRows.NOTHING).make_distinct() if parts else ()

    def _share(self, rows: RemoteRows, join: JoinPlan) -> float:
        """The estimated share of rows that pass the join's tests."""
        if not tests_of(join):
            return 1.0
        sample = rows.survey.sample
        passed = only_passing(join, sample, [self.made[ref] for ref in join.tries], self.scope)
        return len(passed) / max(1, len(sample[0]))

    # --------------------------------------------------------------------------- blocks

    def _blocks(self, parts: Sequence[RemotePart]) -> Iterator[PartRange]:
        homes = place_of(self.calls.pool, [part.value for part in parts])
        for part, home in zip(parts, homes, strict=True):
            yield PartRange(part, 0, part.rows, home)

    def send(self, stage: TaskStage) -> None:
        """Sends all blocks, once."""
        parts, self.parts = self.parts, ()
        for block in self._blocks(parts):
            stage.add(self._run(block))

    def _run(self, block: PartRange) -> Call:
        firm = self.firm or block.rows <= NEVER_CUT_UP_TO
        return self.calls.call(block, run_block, self._args(block, firm), block.home)

    def _args(self, block: PartRange, firm: bool) -> tuple[object, ...]:
        where = (block.start, block.stop) if block.rows < block.part.rows else None
        value = block.part.value
        return self.calls.task, value, self.columns, where, firm, self.tries, self.calls.symbols

    def ended(self, stage: TaskStage, call: Call, found: CellResult) -> tuple[object, ...]:
        """Cuts a block that was too large."""
        block = call.tag
        if found.cells:
            self.calls.done += block.rows
        elif pieces := block.cut():
            for piece in pieces:
                stage.add(self._run(piece))
        else:
            assert found.error is not None
            raise too_small(found.error)
        return run_block, *self._args(block, True)

    def cut(self, large: TooLarge) -> list[Call]:
        return [self._run(piece) for piece in large.call.tag.cut()]
