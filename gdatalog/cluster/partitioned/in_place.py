"""A rule over one relation whose rows lie on workers: its blocks are worked on where they lie.

A block is a part of the relation, or some of its rows. What else the rule reads each worker has
whole. No row of the relation is moved, sorted or indexed; of files only the columns are read that
the rule asks for. Where rows that are there twice would count twice they are compared first, and of
a rule with tests only those that pass.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Any

import numpy as np

from gdatalog.cluster.pool import Call, TaskStage, TooLarge
from gdatalog.cluster.replicated.cells import complete, join_cells
from gdatalog.cluster.replicated.morsel_scheduler import too_small
from gdatalog.cluster.replicated.run import ReplicatedRun
from gdatalog.cluster.replicated.tasks import CellResult, Mode, PackedTask, light
from gdatalog.cluster.rows.parts import columns_of
from gdatalog.cluster.rows.shuffle import parts_of, place_of, size_of
from gdatalog.cpu_ops.functions import Scope
from gdatalog.engine.device import CPU
from gdatalog.engine.session.knobs import Knobs
from gdatalog.executors.frontier import Frontier, Key
from gdatalog.executors.levelwise import Levelwise
from gdatalog.executors.sinks import Sink
from gdatalog.limits import Limits
from gdatalog.plan.cells import EVERYTHING
from gdatalog.plan.effects import longest_first, one_row_each, widens
from gdatalog.plan.nodes import Filter, Guard, JoinPlan, Seek, Step, TrieRef
from gdatalog.plan.placement import Spread
from gdatalog.records import dataclass, replace
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import RemotePart, RemoteRows
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie

PIECES = 8  # into which a block is cut that takes long, or does not fit
FEW = 1000  # rows that are run to their end, however long that takes
WORTH = 0.1  # of the rows that pass tests, up to which these are found before rows are compared
PLACE = "~place"  # of a row in its part


@dataclass(frozen=True, slots=True)
class PartRange:
    """Some rows of a part, on the worker that has them, if one has."""

    part: RemotePart
    start: int
    stop: int
    home: str | None

    @property
    def rows(self) -> int:
        return self.stop - self.start

    def cut(self) -> list[PartRange]:
        ends = np.linspace(self.start, self.stop, min(PIECES, self.rows) + 1).astype(int).tolist()
        return [replace(self, start=low, stop=high) for low, high in pairwise(ends)]


@dataclass(slots=True)
class InPlaceRun(ReplicatedRun):
    """The run of a rule that is given the rows of one relation, block by block."""

    relation: Relation = None  # type: ignore[assignment]  # whoever makes a run sets it
    blocks: int = 0

    def spread(self) -> Spread:
        name, workers = self.plan.passes_over, len(self.pool.connection.client.nthreads())
        assert name is not None
        told = in_place(name, self.relation, workers)
        return replace(told, cells=self.blocks, moved=self.merged, calls=self.calls)

    def _apart(self) -> bool:
        if len(self.plan.joins) > 1 or not one_row_each(self.plan.joins[0]):
            return False
        given, rows = self.plan.joins[0].given, self.relation.remote
        assert given is not None and rows is not None
        return len(given.columns) == len(self.relation.types) and rows.known >= KnownRows.DISTINCT

    def _knobs(self, join: JoinPlan) -> Knobs:
        one_thread = replace(self.context.knobs, threads=1)
        return ReplicatedRun._knobs(self, join) if widens(join) else one_thread

    def _spread(
        self, number: int, mode: Mode, limit: int | None = None
    ) -> Generator[CellResult, None, None]:
        self.limits.watch.innermost.one_of(number, len(self.plan.joins))
        for found in _Passing(self, number, mode, limit).run():
            self._take(number, mode, found)
            yield found


def in_place(name: str, relation: Relation, workers: int) -> Spread:
    """How a rule is spread that is given the rows of a relation where they lie."""
    rows = relation.remote
    return Spread("in place", workers, None if rows is None else len(rows.parts), stays=name)


class _Passing:
    """One join, on its way over all blocks."""

    def __init__(self, run: InPlaceRun, number: int, mode: Mode, limit: int | None) -> None:
        join = run.plan.joins[number]
        assert join.given is not None and run.relation.remote is not None
        self.run_of = run
        self.columns = join.given.columns
        self.firm = not widens(join)
        self.made = {ref: run.sources.trie_of(ref) for ref in longest_first(join.tries)}
        self.tries = {ref: run.pool.broadcast(id(trie), trie) for ref, trie in self.made.items()}
        memory = run.limits.memory or 1 << 40
        self.sealed, self.table = run.task(number, mode, limit, memory)
        rows = run.relation.remote
        self.parts = self._distinct(rows, join) if join.bag else rows.parts
        run.blocks += len(self.parts)
        self.whole = max(1, sum(part.rows for part in self.parts))
        self.done = 0

    # ---------------------------------------------------------------------- rows, each once

    def _distinct(self, rows: RemoteRows, join: JoinPlan) -> Sequence[RemotePart]:
        """Parts that have each of the rows once, but for rows that come to nothing."""
        if rows.known >= KnownRows.DISTINCT or self._share(rows, join) > WORTH:
            return rows.make_distinct()
        run = self.run_of
        stage = run.pool.stage(f"{run.plan.relation}: tests", run.limits)
        for block in self._blocks(rows.parts):
            args = (self.sealed, block.part.value, self.tries, self.table)
            stage.add(Call(passing, args, True, block.home, summary=size_of))
        parts = parts_of([kept for _, kept in stage])
        return RemoteRows(parts, rows.keeper, KnownRows.NOTHING).make_distinct() if parts else ()

    def _share(self, rows: RemoteRows, join: JoinPlan) -> float:
        """About which part of the rows passes what each is asked by itself."""
        if not _tests(join):
            return 1.0
        sample, scope = rows.survey.sample, self.run_of.scope
        passed = _passed(join, sample, [self.made[ref] for ref in join.tries], scope)
        return len(passed) / max(1, len(sample[0]))

    # --------------------------------------------------------------------------- blocks

    def _blocks(self, parts: Sequence[RemotePart]) -> Iterator[PartRange]:
        homes = place_of(self.run_of.pool, [part.value for part in parts])
        for part, home in zip(parts, homes, strict=True):
            yield PartRange(part, 0, part.rows, home)

    def run(self) -> Iterator[CellResult]:
        """What the blocks give, as they are done."""
        run = self.run_of
        stage = run.pool.stage(run.plan.relation, run.limits, self._smaller)
        for block in self._blocks(self.parts):
            stage.add(self._call(block))
        try:
            for call, given in stage:
                if isinstance(call.tag, CellResult):
                    call.tag.kept = given
                    yield call.tag
                    continue
                found = given.summary if call.keep else given
                self._back(stage, call.tag, found)
                if found.left is not None:
                    stage.add(Call(of_same_cells, (given, *call.args), True, call.worker, found))
                elif found.cells:
                    yield found
        finally:
            stage.cancel()

    def _call(self, block: PartRange) -> Call:
        firm = self.firm or block.rows <= FEW
        where = (block.start, block.stop) if block.rows < block.part.rows else None
        args = (
            self.sealed, block.part.value, self.columns, where, firm, self.tries, self.table,
        )  # fmt: skip
        return Call(run_block, args, self.run_of.keep, block.home, block, light)

    def _back(self, stage: TaskStage, block: PartRange, found: CellResult) -> None:
        """A block that was too much is cut."""
        if found.cells:
            self.done += block.rows
            self.run_of.limits.watch.part(int(1000 * self.done / self.whole), 1000)
            return
        if block.rows < 2:
            assert found.error is not None
            raise too_small(found.error)
        for piece in block.cut():
            stage.add(self._call(piece))

    def _smaller(self, large: TooLarge) -> list[Call]:
        """Calls in the place of one for which a worker had not enough memory."""
        block = large.call.tag
        if isinstance(block, CellResult) or block.rows < 2:
            return []
        return [self._call(piece) for piece in block.cut()]


# ------------------------------------------------------------------------------- on a worker


def run_block(
    sealed: PackedTask,
    value: Any,
    columns: Sequence[int],
    where: tuple[int, int] | None,
    firm: bool,
    tries: Mapping[TrieRef, Any],
    symbols: SymbolTable | None,
) -> CellResult:
    """What a join gives for the rows of a part, or for those from one place to another."""
    rows = columns_of(value, columns)
    if where is not None:
        rows = tuple(column[slice(*where)].copy() for column in rows)
    return join_cells(sealed, [EVERYTHING], None, firm, tries, symbols, given=rows)


def of_same_cells(
    found: CellResult,
    sealed: PackedTask,
    value: Any,
    columns: Sequence[int],
    where: tuple[int, int] | None,
    firm: bool,
    tries: Mapping[TrieRef, Any],
    symbols: SymbolTable | None,
) -> CellResult:
    """What a call found, as it was told: see `work.of_same_cells`."""
    if found.cells:
        return found
    return complete(run_block(sealed, value, columns, where, True, tries, symbols), 1)


def passing(
    sealed: PackedTask, value: Any, tries: Mapping[TrieRef, Trie], symbols: SymbolTable | None
) -> Columns:
    """The rows of a part, whole, that pass what a join asks of each by itself."""
    rows, task = columns_of(value), sealed.opened().task
    join = task.plan.joins[task.number]
    scope = Scope(symbols or task.few or SymbolTable(), task.params)
    kept = _passed(join, rows, [tries[ref] for ref in join.tries], scope)
    return tuple(column[kept] for column in rows)


def _tests(join: JoinPlan) -> list[Step]:
    """The steps that only tell whether a row goes on, up to the first that does more."""
    return list(takewhile(lambda step: isinstance(step, (Filter, Seek, Guard)), join.steps))


def _passed(join: JoinPlan, rows: Columns, tries: Sequence[Trie], scope: Scope) -> Array:
    """The places of the rows that pass these tests."""
    assert join.given is not None
    limits, sink = Limits(), _Places()
    names = [slot.name for slot in join.given.slots]
    columns: dict[Key, Array] = {
        name: rows[at] for name, at in zip(names, join.given.columns, strict=True)
    }
    columns[PLACE] = np.arange(len(rows[0]))
    walk = Levelwise(tries, CPU.ops, scope, limits)
    walk.run(_tests(join), 0, Frontier(len(rows[0]), columns=columns), sink)
    return np.concatenate([np.empty(0, dtype=np.int64), *sink.places])


class _Places(Sink):
    """Which rows went on."""

    def __init__(self) -> None:
        self.places: list[Array] = []

    def emit(self, frontier: Frontier) -> None:
        self.places.append(frontier.column(PLACE))
