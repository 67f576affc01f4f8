"""What a worker runs: one join of a rule within some cells, and what it returns.

A call runs its cells one by one until its time is over. It returns the cells that it did not reach,
and a cell that takes long, which the driver divides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, Literal

from gdatalog.account import time_spent
from gdatalog.calls import Limits, chunk_rows
from gdatalog.cluster.rows.shuffle import PartSize
from gdatalog.cluster.rows.texts import FewTexts, NewTexts, gathered_symbols, symbol_columns
from gdatalog.cluster.workers.devices import gathering_here, on_device, rows_here
from gdatalog.cluster.workers.worker import left_of, own_memory, own_threads
from gdatalog.cpu_ops.functions import Scope
from gdatalog.engine.choose import TooSlow, choose, time_limit
from gdatalog.engine.context import ExecutionContext, Sources
from gdatalog.engine.depth import Form, JoinNest, form_of_bag, form_of_rows
from gdatalog.engine.derived import DistinctBlocks, laid
from gdatalog.engine.device import CPU, Device, compiled_function
from gdatalog.engine.metrics import RuleRun
from gdatalog.engine.run import PlanRun
from gdatalog.engine.session.knobs import Knobs
from gdatalog.errors import Caution, MemoryLimitError
from gdatalog.executors.gather import Gathering
from gdatalog.executors.levelwise import StepCounts
from gdatalog.executors.sinks import RowSet
from gdatalog.plan.cells import Cell, bounded, ends, places
from gdatalog.plan.effects import all_steps
from gdatalog.plan.nodes import RulePlan, TrieRef
from gdatalog.plan.tuning import Tuning
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.rows import Columns, concatenate
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.trie import Trie
from gdatalog.values import Value

SMALL = 1 << 16  # bytes that a call gives, up to which they are sent at once

Mode = Literal["set", "distinct", "bag"]


@dataclass(frozen=True, slots=True)
class JoinTask:
    """What all parts of a join's work have in common: join `number` of a rule.

    `mode`: its rows as a set; rows that need not be compared, for no two bindings give the same;
    or what they come to, group by group. `known`: how many texts the table has that was sent, or
    would have been: instead there may be a `few`. `limit`: rows that are enough. `counted`: for a
    profile. `device`: that of a database: "cpu", or "auto", or "cuda".
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
    bounded: dict[tuple[str, ...], RulePlan] = field(default_factory=dict)  # on a worker

    def plan_of(self, cell: Cell) -> RulePlan:
        """The plan within cells: one for all that bound the same variables."""
        names = tuple(cell.stretches)
        found = self.bounded.get(names)
        if found is None:
            joins = list(self.plan.joins)
            joins[self.number] = bounded(joins[self.number], names)
            found = self.bounded[names] = replace(self.plan, joins=tuple(joins))
        return found


@dataclass(slots=True)
class CellResult:
    """What a call gives of its cells: of the first `cells` of them. The next one may have been
    too `hard`: `error` says if it did not fit into memory.

    `given`: rows that the joins gave, equal ones included. `seen`: what happened at the steps, by
    their place among all steps of the join. `left`: what is told of rows or groups that stay
    where they were made, in what is `kept`. `cuts`: for each variable a key that cuts the hard
    cell, and how many rows that tells apart. `moved`: bytes that came from other workers.
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
    executor: Any = None  # the last choice
    gpu: bool = False  # whether a GPU did it
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
        """The same to be sent, without rows and groups if they are many: these stay. Those whose
        texts are told go with them."""
        gathering = self.gathering
        if gathering is not None:
            left = PartSize(gathering.groups, gathering.nbytes)
        else:
            held = sum(column.nbytes for block in self.blocks for column in block)
            left = PartSize(self.count, held)
        if left.nbytes <= SMALL or len(self.anew.codes):
            return self
        return replace(self, blocks=[], gathering=None, left=left)


PATIENCE = 2.0  # seconds, after which a cell is given back to be cut
SPARE = 0.6  # of a worker's memory: Dask ends workers that have filled it
MUCH = 1 << 26  # bytes of rows, which go back before there are more


@dataclass(slots=True)
class CellRun(PlanRun):
    """A rule's run within one cell after the other, whose loops are printed once."""

    nests: dict[Form, JoinNest] = field(default_factory=dict)

    def _nest(self, number: int, form: Form) -> JoinNest:
        found = self.nests.get(form)
        if found is None:
            found = self.nests[form] = PlanRun._nest(self, number, form)
        found.context = self.context  # with the ends of this cell
        return found

    def ready(self, number: int, form: Form) -> None:
        """Has loops compiled that will run: that is no reason to be impatient."""
        nest = self._nest(number, form)
        if self.context.device is CPU and not choose(nest).breadth_first:
            compiled_function(nest.printed, self.limits, self.plan.relation)

    def distinct_blocks(self) -> list[Columns]:
        """The rows of a join that gives none of them twice."""
        sink = self.set_of(self.plan.head, None)
        found = self._distinct(sink)
        return list(found.blocks) if isinstance(found, DistinctBlocks) else [found[0]]


def join_cells(
    task: JoinTask,
    cells: Sequence[Cell],
    seconds: float | None,
    firm: bool,
    tries: Mapping[TrieRef, Trie],
    symbols: SymbolTable | None,
    given: Columns = (),
) -> CellResult:
    """Runs a join within cells, as many as there is time for. `firm`: each is run to its end.
    `given`: the rows that it is run for, if it is."""
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
    """What a call found in the first `done` of its cells.

    What stays may have been lost and made again, and then it was others that there was time for;
    `again` runs those that were told of to their end.
    """
    if found.cells == done:
        return found
    exact = again(*args)
    if exact.cells != done:
        raise exact.error or MemoryLimitError("rows that were lost do not fit into a worker again")
    return exact


def room(tries: Mapping[TrieRef, Trie]) -> int:
    """How many bytes one call of several may take on this worker, beside the tries."""
    limit = own_memory()
    if limit is None:
        return 1 << 62
    held = sum({id(trie): trie.nbytes for trie in tries.values()}.values())
    return max(int(min(SPARE * limit, left_of(limit))) - held, limit // 10) // own_threads()


class _Call:
    """One call at work."""

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
            form_of_bag(task.plan.keys, task.plan.gathers) if bag else form_of_rows(self.join)
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
        """Whether the call ends here: its time is over, or it has many rows to give back."""
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
            found.blocks += blocks  # only now: the rows of a cell that is too much come again
        else:
            given = self.set.given
            run.into_set(task.number, self.set)
            found.given += self.set.given - given
        self.limits.charge("blocks", 0)

    def _finish(self) -> None:
        """Puts together what goes back."""
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
        found.peak = self.limits.peak
        found.cautions = self.cautions
        found.gpu = self.device is not CPU
        for run in self.runs.values():
            report = run.report
            if report is not None:
                found.executor = report.executors.get(task.number, found.executor)
                _add(found.seen, report, self.join, run.plan.joins[task.number])


def _add(seen: dict[int, StepCounts], report: RuleRun, join: Any, cut: Any) -> None:
    """What happened at the steps of a join within cells, by their place in the join itself."""
    for at, step in places(list(all_steps(join.steps)), list(all_steps(cut.steps))):
        mine = report.seen.get(id(step))
        if mine is None:
            continue
        entry = seen.setdefault(at, StepCounts())
        entry.rows_in += mine.rows_in
        entry.tried += mine.tried
        entry.rows_out += mine.rows_out
        entry.seconds += mine.seconds
