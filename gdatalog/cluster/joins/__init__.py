"""What a worker runs: a rule's join within some cells, and what it returns.

A call runs its cells one by one until its time is over. It returns the cells that it did not reach,
and a cell that takes too long, which the driver divides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, Literal

from gdatalog.account import time_spent
from gdatalog.calls import Limits, chunk_rows
from gdatalog.cluster.rows import PartSize
from gdatalog.cluster.rows.texts import FewTexts, NewTexts, gathered_symbols, symbol_columns
from gdatalog.cluster.workers import (
    gathering_here,
    left_of,
    on_device,
    own_memory,
    own_threads,
    rows_here,
)
from gdatalog.cpu_ops.functions import Scope
from gdatalog.engine.choose import TooSlow, choose, time_limit
from gdatalog.engine.context import ExecutionContext, Sources
from gdatalog.engine.depth import Form, JoinNest, form_of_bag
from gdatalog.engine.derived import blocks_of, laid
from gdatalog.engine.device import CPU, Device, compiled_function
from gdatalog.engine.metrics import RuleRun
from gdatalog.engine.run import PlanRun
from gdatalog.engine.session import Knobs
from gdatalog.errors import Caution, MemoryLimitError
from gdatalog.executors.gather import Gathering
from gdatalog.executors.levelwise import StepCounts
from gdatalog.executors.sinks import RowSet
from gdatalog.plan import RulePlan, TrieRef
from gdatalog.plan.cells import Cell, bounded, ends, places
from gdatalog.plan.effects import all_steps
from gdatalog.plan.tuning import Tuning
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.rows import Columns, concatenate
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.trie import Trie
from gdatalog.values import Value

SMALL = 1 << 16  # results up to so many bytes are sent with the call's summary

Mode = Literal["set", "distinct", "bag"]


@dataclass(frozen=True, slots=True)
class JoinTask:
    """What all calls of a join have in common: join `number` of a rule.

    `mode`: collect rows as a set; rows that are known to be distinct; or groups. `known`: the
    length of the symbol table, which workers get whole or as a `few` texts. `limit`: stop after so
    many rows. `counted`: count rows at each step, for a profile. `device`: the database's: "cpu",
    "auto" or "cuda".
    """

    plan: RulePlan
    number: int
    params: Mapping[str, Value]
    memory: int
    knobs: Knobs
    mode: Mode = "set"
    known: int = 1 << 62
    few: FewTexts | None = None
    limit: int | None = None
    counted: bool = False
    chunk: int | None = None
    device: str = "cpu"
    tuning: Tuning = Tuning()
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
    seconds: float = 0.0
    compiling: float = 0.0
    peak: int = 0
    executor: Any = None  # of the last run
    gpu: bool = False  # whether it ran on a GPU
    cautions: dict[str, Caution] = field(default_factory=dict)
    anew: NewTexts = field(default_factory=NewTexts)
    seen: dict[int, StepCounts] = field(default_factory=dict)
    left: PartSize | None = None
    kept: Any = None
    cuts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    moved: int = 0

    def __sizeof__(self) -> int:
        held = sum(column.nbytes for block in self.blocks for column in block)
        return held + (0 if self.gathering is None else self.gathering.nbytes)

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
            held = sum(column.nbytes for block in self.blocks for column in block)
            left = PartSize(self.count, held)
        if left.nbytes <= SMALL or len(self.anew.codes):
            return self
        return replace(self, blocks=[], gathering=None, left=left)


PATIENCE = 2.0  # seconds until a cell is returned to be cut
SPARE = 0.6  # share of a worker's memory: Dask kills workers that fill it
MUCH = 1 << 26  # bytes of rows after which a call returns


@dataclass(slots=True)
class CellRun(PlanRun):
    """A rule's run within several cells, which compiles its loops once."""

    nests: dict[Form, JoinNest] = field(default_factory=dict)

    def _nest(self, number: int, form: Form) -> JoinNest:
        found = self.nests.get(form)
        if found is None:
            found = self.nests[form] = PlanRun._nest(self, number, form)
        found.context = self.context  # with this cell's bounds
        return found

    def ready(self, number: int, form: Form) -> None:
        """Compiles the loops before they run, so that compiling takes no time of a cell."""
        nest = self._nest(number, form)
        if self.context.device is CPU and not choose(nest).breadth_first:
            compiled_function(nest.printed, self.limits, self.plan.relation)

    def distinct_blocks(self) -> list[Columns]:
        """The rows of a join that gives no duplicates."""
        sink = self.set_of(self.plan.head, None)
        found = self._distinct(sink)
        return list(blocks_of(found))


def join_cells(
    task: JoinTask,
    cells: Sequence[Cell],
    seconds: float | None,
    firm: bool,
    tries: Mapping[TrieRef, Trie],
    symbols: SymbolTable | None,
    given: Columns = (),
) -> CellResult:
    """Runs a join within cells, until time is over. `firm`: runs each cell to its end. `given`: the
    rows that the join starts from, if any."""
    table = symbols or task.few or SymbolTable()

    def run(device: Device, tries: Mapping[TrieRef, Trie]) -> CellResult:
        return _Call(task, tries, table, device, given).run(cells, seconds, firm)

    return on_device(task.device, (task.plan,), tries, run)


def settled(
    found: CellResult,
    done: int,
    again: Callable[..., CellResult],
    *args: Any,
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
        device: Device = CPU,
        given: Columns = (),
    ) -> None:
        self.task, self.symbols, self.device = task, symbols, device
        rows = laid(given, device.ops), len(given[0]) if given else 0
        self.sources = Sources(tries.__getitem__, lambda _: rows)
        self.limits = Limits(memory=min(task.memory, room(tries)))
        self.limits.charge("given rows", sum(column.nbytes for column in given))
        spare, largest = device.room(self.limits.memory or 0)
        self.limits.chunk = task.chunk or chunk_rows(task.plan, spare, largest)
        self.cautions: dict[str, Caution] = {}
        self.scope = self._scope({})
        self.context = ExecutionContext(
            self.limits, self.scope, knobs=task.knobs, device=device, tuning=task.tuning
        )
        self.join = task.plan.joins[task.number]
        bag = task.mode == "bag"
        self.form = (
            form_of_bag(task.plan.keys, task.plan.gathers) if bag else Form(self.join.outputs)
        )
        self.runs: dict[tuple[str, ...], CellRun] = {}
        self.set = RowSet(
            self.join.outputs, device.ops, self.scope, self.limits, task.limit, task.tuning
        )
        self.gathering = Gathering(task.plan.gathers, device.ops, self.scope, self.limits)
        self.found = CellResult()

    def _scope(self, ends: Mapping[str, int]) -> Scope:
        return Scope(self.symbols, {**self.task.params, **ends}, self.cautions)

    def run(self, cells: Sequence[Cell], seconds: float | None, firm: bool) -> CellResult:
        found = self.found
        compiling = time_spent().compiling
        for run in {tuple(cell.stretches): self._run(cell) for cell in cells}.values():
            run.ready(self.task.number, self.form)
        found.compiling = time_spent().compiling - compiling
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
        found.seconds = perf_counter() - began
        try:
            self._finish()
        except MemoryLimitError as error:
            return CellResult(hard=True, error=error)
        return found

    def _enough(self, late: bool) -> bool:
        """Whether the call should return: its time is over, or it has many rows."""
        blocks = (column.nbytes for block in self.found.blocks for column in block)
        return late or self.set.nbytes + sum(blocks) > min(MUCH, (self.limits.memory or 0) // 4)

    def _run(self, cell: Cell) -> CellRun:
        names = tuple(cell.stretches)
        run = self.runs.get(names)
        if run is None:
            plan = self.task.plan_of(cell)
            report = RuleRun(plan) if self.task.counted else None
            context = replace(self.context, scope=self._scope(ends(cell, names)))
            run = self.runs[names] = CellRun(plan, self.sources, context, report)
        return run

    def _within(self, cell: Cell) -> None:
        task, found = self.task, self.found
        run = self._run(cell)
        scope = self._scope(ends(cell, tuple(cell.stretches)))
        run.context = replace(self.context, scope=scope)
        if task.mode == "bag":
            gathering = run.into_bag(task.number, self.gathering.copy())
            found.given += gathering.given - self.gathering.given
            self.gathering = gathering
        elif task.mode == "distinct":
            blocks = [block for block in run.distinct_blocks() if len(block[0])]
            held = sum(column.nbytes for block in (*found.blocks, *blocks) for column in block)
            self.limits.charge("rows of cells", held)
            found.blocks += blocks  # only now, because a cell that is too large runs again
        else:
            given = self.set.given
            run.into_set(task.number, self.set)
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
        if task.few is None:
            found.anew = NewTexts.among(columns, task.known, self.symbols)
        found.peak = self.limits.account.peak
        found.cautions = self.cautions
        found.gpu = self.device is not CPU
        for run in self.runs.values():
            report = run.report
            if report is not None:
                found.executor = report.executors.get(task.number, found.executor)
                _add(found.seen, report, self.join, run.plan.joins[task.number])


def _add(seen: dict[int, StepCounts], report: RuleRun, join: Any, cut: Any) -> None:
    """Adds the counts of a bounded plan's steps to those of the original steps."""
    for at, step in places(list(all_steps(join.steps)), list(all_steps(cut.steps))):
        mine = report.seen.get(id(step))
        if mine is None:
            continue
        entry = seen.setdefault(at, StepCounts())
        entry.rows_in += mine.rows_in
        entry.tried += mine.tried
        entry.rows_out += mine.rows_out
        entry.seconds += mine.seconds
