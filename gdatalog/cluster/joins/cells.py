"""Runs a rule's join on a worker, within some cells.

A call runs its cells one by one until its time is over. The driver reassigns the cells that it did
not reach, and divides a cell that took too long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Literal

from gdatalog.chunks import chunk_rows, levels_of
from gdatalog.cluster.patience import TooSlow, time_limit
from gdatalog.cluster.pool.calls import RemoteValue
from gdatalog.cluster.rows.shuffle import PartSize
from gdatalog.cluster.rows.texts import FewTexts, NewTexts, gathered_symbols, symbol_columns
from gdatalog.cluster.workers.own_device import gathering_here, on_device, rows_here
from gdatalog.cluster.workers.own_process import CallContext, left_of, own_memory, own_threads
from gdatalog.engine.context import RuleInputs, Sources
from gdatalog.engine.depth import Form, form_of_bag
from gdatalog.engine.derived import blocks_of, laid
from gdatalog.engine.device import CPU, Device, compiled_function
from gdatalog.engine.rules.join import JoinRun
from gdatalog.engine.rules.joins import LocalJoins
from gdatalog.errors import Caution, MemoryLimitError
from gdatalog.executors.gather import Gathering
from gdatalog.executors.sinks import RowSet, StepCounts
from gdatalog.plan.cells import Cell, bounded, ends, places
from gdatalog.plan.effects import all_steps
from gdatalog.plan.join_plan import RulePlan, TrieRef
from gdatalog.plan.placement import ExecutorChoice
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.rows import Columns, concatenate
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.trie import Trie

SMALL = 1 << 16  # results up to so many bytes are sent with the call's summary

Mode = Literal["set", "distinct", "bag"]


@dataclass(frozen=True, slots=True)
class JoinTask:
    """What all calls of a join have in common: join `number` of a rule.

    `mode`: collect rows as a set; rows that are known to be distinct; or groups. `known`: the
    length of the symbol table. `limit`: stop after so many rows.
    """

    plan: RulePlan
    number: int
    context: CallContext
    mode: Mode
    known: int
    limit: int | None
    chunk: int | None
    bounded: dict[tuple[str, ...], RulePlan] = field(default_factory=dict)  # a worker's cache

    def plan_of(self, cell: Cell) -> RulePlan:
        """The plan within cells, cached by the variables that they bound."""
        names = tuple(cell.stretches)
        found = self.bounded.get(names)
        if found is None:
            joins = list(self.plan.joins)
            joins[self.number] = bounded(joins[self.number], names)
            found = self.bounded[names] = replace(self.plan, joins=tuple(joins))
        return found


@dataclass(slots=True)
class CellResult:
    """The result of a call for the first `cells` of its cells. The next cell may have been too
    `hard`: it took too long, or did not fit into memory (`error`).

    `given`: rows that the join gave, duplicates included. `seen`: row counts at the join's steps,
    by the step's place. `left`: the size of rows or groups that stay on the worker, in the value
    `kept`. `cuts`: for each variable, a key that cuts the hard cell, and the number of rows that it
    divides. `moved`: bytes that came from other workers.
    """

    cells: int = 0
    hard: bool = False
    error: MemoryLimitError | None = None
    blocks: list[Columns] = field(default_factory=list)
    count: int = 0
    gathering: Gathering | None = None
    given: int = 0
    executor: ExecutorChoice | None = None  # of the last run
    gpu: bool = False  # whether it ran on a GPU
    cautions: dict[str, Caution] = field(default_factory=dict)
    anew: NewTexts = field(default_factory=NewTexts)
    seen: dict[int, StepCounts] = field(default_factory=dict)
    left: PartSize | None = None
    kept: RemoteValue | None = None
    cuts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    moved: int = 0

    @property
    def row_bytes(self) -> int:
        return sum(column.nbytes for block in self.blocks for column in block)

    def __sizeof__(self) -> int:
        return self.row_bytes + (0 if self.gathering is None else self.gathering.nbytes)

    def columns(self) -> Columns:
        """The rows."""
        return concatenate(self.blocks)

    def light(self) -> CellResult:
        """The result as the driver gets it: many rows or groups stay on the worker, unless it also
        made texts."""
        gathering = self.gathering
        if gathering is not None:
            left = PartSize(gathering.groups, gathering.nbytes)
        else:
            left = PartSize(self.count, self.row_bytes)
        if left.nbytes <= SMALL or len(self.anew.codes):
            return self
        return replace(self, blocks=[], gathering=None, left=left)


PATIENCE = 2.0  # seconds until a cell is returned to be cut
SPARE = 0.6  # share of a worker's memory: Dask kills workers that fill it
MUCH = 1 << 26  # bytes of rows after which a call returns


def join_cells(
    task: JoinTask,
    cells: Sequence[Cell],
    seconds: float | None,
    firm: bool,
    tries: Mapping[TrieRef, Trie],
    symbols: SymbolTable,
    given: Columns = (),
) -> CellResult:
    """Runs a join within cells, until time is over. `firm`: runs each cell to its end. `given`: the
    rows that the join starts from, if any."""

    def run(device: Device, tries: Mapping[TrieRef, Trie]) -> CellResult:
        return _Call(task, tries, symbols, device, given).run(cells, seconds, firm)

    found = on_device(task.context.device, (task.plan,), tries, run)
    assert found is not None
    return found


def settled(
    found: CellResult, done: int, again: Callable[..., CellResult], *args: object
) -> CellResult:
    """The result of a call's first `done` cells.

    A kept result may have been lost and recomputed, and then the call may have reached other cells;
    `again` runs exactly those that it had reported.
    """
    if found.cells == done:
        return found
    exact = again(*args)
    if exact.cells != done:
        raise exact.error or MemoryLimitError("rows that were lost do not fit into a worker again")
    return exact


def room(tries: Mapping[TrieRef, Trie]) -> int:
    """The bytes that one call may take on this worker, beside the tries."""
    limit = own_memory()
    if limit is None:
        return 1 << 62
    held = sum({id(trie): trie.nbytes for trie in tries.values()}.values())
    return max(int(min(SPARE * limit, left_of(limit))) - held, limit // 10) // own_threads()


class _Call:
    """The run of one call."""

    def __init__(
        self,
        task: JoinTask,
        tries: Mapping[TrieRef, Trie],
        symbols: SymbolTable,
        device: Device,
        given: Columns,
    ) -> None:
        self.task = task
        rows = laid(given, device.ops), len(given[0]) if given else 0
        self.sources = Sources(tries.__getitem__, lambda _: rows)
        self.memory = min(task.context.memory, room(tries))
        self.context = replace(task.context, memory=self.memory).here(symbols, device)
        self.limits, scope = self.context.limits, self.context.scope
        self.limits.charge("given rows", sum(column.nbytes for column in given))
        most = chunk_rows(levels_of(task.plan), *device.room(self.memory))
        self.limits.chunk = task.chunk or most
        self.join = task.plan.joins[task.number]
        bag = task.mode == "bag"
        self.form = (
            form_of_bag(task.plan.keys, task.plan.gathers) if bag else Form(self.join.outputs)
        )
        self.joins: dict[tuple[str, ...], LocalJoins] = {}  # by the variables that cells bound
        outputs, thresholds = self.join.outputs, self.context.thresholds
        self.set = RowSet(outputs, device.ops, scope, self.limits, task.limit, thresholds)
        self.gathering = Gathering(task.plan.gathers, device.ops, scope, self.limits)
        self.found = CellResult(cautions=scope.cautions, gpu=device is not CPU)

    def run(self, cells: Sequence[Cell], seconds: float | None, firm: bool) -> CellResult:
        found = self.found
        for cell in {tuple(cell.stretches): cell for cell in cells}.values():
            self._compile(self._joins(cell))
        began = perf_counter()
        for cell in cells:
            try:
                with time_limit(self.limits, None if firm else PATIENCE):
                    self._within(cell)
            except TooSlow:
                found.hard = True
                break
            except MemoryLimitError as error:
                if not found.cells:
                    found.hard, found.error = True, error
                break
            found.cells += 1
            if self.set.done:
                found.cells = len(cells)
                break
            if seconds is not None and self._enough(perf_counter() - began > seconds):
                break
        try:
            self._finish()
        except MemoryLimitError as error:
            return CellResult(hard=True, error=error)
        return found

    def _enough(self, late: bool) -> bool:
        """Whether the call should return: its time is over, or it has many rows."""
        return late or self.set.nbytes + self.found.row_bytes > min(MUCH, self.memory // 4)

    def _joins(self, cell: Cell) -> LocalJoins:
        """The rule's joins within a cell. Cells that bound the same variables share their loops."""
        names, scope = tuple(cell.stretches), self.context.scope
        joins = self.joins.get(names)
        if joins is None:
            plan = self.task.plan_of(cell)
            report = self.context.metrics.run_of(plan)
            inputs = RuleInputs(self.sources, self.context, report=report)
            joins = self.joins[names] = LocalJoins(plan, inputs, {})
        scope = replace(scope, params={**scope.params, **ends(cell, names)})
        context = replace(self.context, scope=scope)
        joins.inputs = replace(joins.inputs, context=context)
        return joins

    def _compile(self, joins: LocalJoins) -> None:
        """Compiles the loops before they run, so that compiling takes no time of a cell."""
        run = JoinRun(joins.plan, self.task.number, joins.inputs, joins.loops)
        nest = run.nest(self.form)
        if self.context.device is CPU and not run.choice(nest).breadth_first:
            compiled_function(nest.printed, self.limits, joins.plan.relation)

    def _within(self, cell: Cell) -> None:
        task, found = self.task, self.found
        joins = self._joins(cell)
        if task.mode == "bag":
            gathering = joins.into_bag(task.number, self.gathering.copy())
            found.given += gathering.given - self.gathering.given
            self.gathering = gathering
        elif task.mode == "distinct":
            derived = joins.distinct(joins.set_of(task.plan.head, None))
            blocks = [block for block in blocks_of(derived) if len(block[0])]
            held = sum(column.nbytes for block in blocks for column in block)
            self.limits.charge("rows of cells", found.row_bytes + held)
            found.blocks += blocks  # only now, because a cell that is too large runs again
        else:
            given = self.set.given
            joins.into_set(task.number, self.set)
            found.given += self.set.given - given
        self.limits.charge("blocks", 0)

    def _finish(self) -> None:
        """Completes the result."""
        found, task = self.found, self.task
        keys = [key.type for key in task.plan.keys]
        types = [output.type for output in self.join.outputs]
        if task.mode == "bag":
            found.gathering = self.gathering
            gathering_here(found.gathering)
            columns = gathered_symbols(self.gathering, keys)
        elif task.mode == "set":
            rows, found.count = self.set.finish()
            found.blocks = [rows_here(rows)] if found.count else []
            columns = symbol_columns(found.blocks, types)
        else:
            found.count = found.given = sum(len(block[0]) for block in found.blocks)
            found.blocks = list(map(rows_here, found.blocks))
            if len(found.blocks) > 1:
                found.blocks = [concatenate(found.blocks)]
            columns = symbol_columns(found.blocks, types)
        symbols = self.context.scope.symbols
        if not isinstance(symbols, FewTexts):
            found.anew = NewTexts.among(columns, task.known, symbols)
        for joins in self.joins.values():
            report = joins.inputs.report
            if report is not None:
                found.executor = report.executors.get(task.number, found.executor)
                steps, own = self.join.steps, joins.plan.joins[task.number].steps
                for at, step in places(list(all_steps(steps)), list(all_steps(own))):
                    if id(step) in report.seen:
                        found.seen.setdefault(at, StepCounts()).add(report.seen[id(step)])
