"""What a worker runs: one join of a rule, within some cells.

A call is given cells one by one until its time is over; what it has not come to goes back, and so
does a cell that takes long, to be cut. What all calls of a join have in common comes sealed, and a
worker opens it once.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from threading import Lock
from time import perf_counter
from typing import Any, Literal, NamedTuple

from gdatalog.cluster.texts import Anew, FewTexts, gathered_symbols, symbol_columns
from gdatalog.cpu_ops.evaluate import Scope
from gdatalog.engine.budget import chunk_rows
from gdatalog.engine.choose import TooSlow, choose, impatience
from gdatalog.engine.depth import Form, Nest, form_of_bag, form_of_rows
from gdatalog.engine.derived import Blocks
from gdatalog.engine.device import CPU, compiled_function
from gdatalog.engine.knobs import Knobs
from gdatalog.engine.ledger import RuleRun
from gdatalog.engine.run import Run
from gdatalog.engine.sources import Sources
from gdatalog.errors import Caution, MemoryLimitError
from gdatalog.executors.gather import Gathering
from gdatalog.executors.levelwise import Seen
from gdatalog.executors.limits import Limits
from gdatalog.executors.sinks import RowSet
from gdatalog.plan.cells import Cell, bounded, ends
from gdatalog.plan.effects import all_steps
from gdatalog.plan.nodes import Join, RulePlan, TrieRef
from gdatalog.spent import so_far
from gdatalog.storage.rows import Columns, concatenate
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.trie import Trie
from gdatalog.values import Value

PATIENCE = 2.0  # seconds, after which a cell is given back to be cut
SMALL = 1 << 16  # bytes that a call gives, up to which they are sent at once
SPARE = 0.6  # of a worker's memory: Dask ends workers that have filled it
MUCH = 1 << 26  # bytes of rows, which go back before there are more
OPENED = 64  # tasks that a worker remembers

Mode = Literal["set", "distinct", "bag"]


@dataclass(frozen=True, slots=True)
class Task:
    """What all parts of a join's work have in common: join `number` of a rule.

    `mode`: its rows as a set; rows that need not be compared, for no two bindings give the same;
    or what they come to, group by group. `known`: how many texts the table has that was sent, or
    would have been: instead there may be a `few`. `limit`: rows that are enough. `counted`: for a
    profile.
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


@dataclass(frozen=True, slots=True)
class Sealed:
    """A task as bytes."""

    name: bytes
    content: bytes

    @staticmethod
    def of(task: Task) -> Sealed:
        content = pickle.dumps(task, protocol=pickle.HIGHEST_PROTOCOL)
        return Sealed(blake2b(content, digest_size=16).digest(), content)


class Left(NamedTuple):
    """How many rows or groups stay, and what they take."""

    rows: int
    nbytes: int


@dataclass(slots=True)
class Found:
    """What a call gives of its cells: of the first `cells` of them. The next one may have been
    too `hard`: `error` says if it did not fit into memory.

    `given`: rows that the joins gave, equal ones included. `seen`: what happened at the steps, by
    their place among all steps of the join. `left`: what is told of rows or groups that stay
    where they were made, in what is `kept`.
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
    cautions: dict[str, Caution] = field(default_factory=dict)
    anew: Anew = field(default_factory=Anew)
    seen: dict[int, Seen] = field(default_factory=dict)
    left: Left | None = None
    kept: Any = None

    def columns(self) -> Columns:
        """The rows."""
        return concatenate(self.blocks)

    def light(self) -> Found:
        """The same to be sent, without rows and groups if they are many: these stay. Those whose
        texts are told go with them."""
        gathering = self.gathering
        if gathering is not None:
            left = Left(gathering.groups, gathering.nbytes)
        else:
            held = sum(column.nbytes for block in self.blocks for column in block)
            left = Left(self.count, held)
        if left.nbytes <= SMALL or len(self.anew.codes):
            return self
        return replace(self, blocks=[], gathering=None, left=left)


@dataclass(slots=True)
class Opened:
    """A task on a worker, and its plan within cells: one plan for all that tell the same variables
    apart."""

    task: Task
    plans: dict[tuple[str, ...], RulePlan] = field(default_factory=dict)

    def plan(self, cell: Cell) -> RulePlan:
        names = tuple(cell.stretches)
        found = self.plans.get(names)
        if found is None:
            plan, number = self.task.plan, self.task.number
            joins = list(plan.joins)
            joins[number] = bounded(joins[number], names)
            found = self.plans[names] = replace(plan, joins=tuple(joins))
        return found


_opened: OrderedDict[bytes, Opened] = OrderedDict()
_lock = Lock()


def _open(sealed: Sealed) -> Opened:
    with _lock:
        found = _opened.get(sealed.name)
        if found is None:
            found = _opened[sealed.name] = Opened(pickle.loads(sealed.content))
            if len(_opened) > OPENED:
                _opened.popitem(last=False)
        return found


@dataclass(slots=True)
class CellRun(Run):
    """A rule's run within one cell after the other, whose loops are printed once."""

    nests: dict[Form, Nest] = field(default_factory=dict)

    def _nest(self, number: int, form: Form) -> Nest:
        found = self.nests.get(form)
        if found is None:
            found = self.nests[form] = Run._nest(self, number, form)
        return found

    def ready(self, number: int, form: Form) -> None:
        """Has loops compiled that will run: that is no reason to be impatient."""
        nest = self._nest(number, form)
        if not choose(nest).breadth_first:
            compiled_function(nest.printed, self.limits, self.plan.relation)

    def distinct_blocks(self) -> list[Columns]:
        """The rows of a join that gives none of them twice."""
        sink = RowSet(self.plan.head, self.device.ops, self.scope, self.limits, None)
        found = self._distinct(sink)
        return list(found.blocks) if isinstance(found, Blocks) else [found[0]]


def look_through(
    sealed: Sealed,
    cells: bytes | Sequence[Cell],
    seconds: float,
    firm: bool,
    tries: Mapping[TrieRef, Trie],
    symbols: SymbolTable | None,
) -> Found:
    """Runs a join within cells, as many as there is time for. `firm`: each is run to its end."""
    opened = _open(sealed)
    call = _Call(opened, tries, symbols or opened.task.few or SymbolTable())
    return call.run(pickle.loads(cells) if isinstance(cells, bytes) else cells, seconds, firm)


def light(found: Found) -> Found:
    """What is told of what is kept."""
    return found.light()


def rows_within(
    task: Task, cells: Sequence[Cell], tries: Mapping[TrieRef, Trie], symbols: SymbolTable
) -> Columns:
    """The distinct rows that a join gives within some cells."""
    found = _Call(Opened(task), tries, symbols).run(cells, None, True)
    return found.blocks[0] if found.blocks else ()


def gathered_within(
    task: Task, cells: Sequence[Cell], tries: Mapping[TrieRef, Trie], symbols: SymbolTable
) -> Gathering:
    """What a join's bindings within some cells come to, group by group."""
    found = _Call(Opened(replace(task, mode="bag")), tries, symbols).run(cells, None, True)
    assert found.gathering is not None
    return found.gathering


def room(tries: Mapping[TrieRef, Trie]) -> int:
    """How many bytes one call of several may take on this worker, beside the tries."""
    from distributed import get_worker

    try:
        worker = get_worker()
        limit: int | None = worker.memory_manager.memory_limit
        threads = worker.state.nthreads
    except (ValueError, AttributeError):  # called by hand
        limit, threads = None, 1
    if not limit:
        return 1 << 62
    held = sum({id(trie): trie.nbytes for trie in tries.values()}.values())
    return max(int(SPARE * limit) - held, limit // 10) // threads


class _Call:
    """One call at work."""

    def __init__(self, opened: Opened, tries: Mapping[TrieRef, Trie], symbols: SymbolTable) -> None:
        task = opened.task
        self.opened, self.task, self.symbols = opened, task, symbols
        self.sources = Sources(tries.__getitem__)
        self.limits = Limits(memory=min(task.memory, room(tries)))
        self.limits.chunk = task.chunk or chunk_rows(task.plan, self.limits.memory or 0)
        self.cautions: dict[str, Caution] = {}
        self.scope = self._scope({})
        self.join = task.plan.joins[task.number]
        bag = task.mode == "bag"
        self.form = (
            form_of_bag(task.plan.keys, task.plan.gathers) if bag else form_of_rows(self.join)
        )
        self.runs: dict[tuple[str, ...], CellRun] = {}
        self.set = RowSet(self.join.outputs, CPU.ops, self.scope, self.limits, task.limit)
        self.gathering = Gathering(task.plan.gathers, CPU.ops, self.scope, self.limits)
        self.found = Found()

    def _scope(self, ends: Mapping[str, int]) -> Scope:
        return Scope(self.symbols, {**self.task.params, **ends}, self.cautions)

    def run(self, cells: Sequence[Cell], seconds: float | None, firm: bool) -> Found:
        found = self.found
        compiling = so_far().compiling
        for run in {tuple(cell.stretches): self._run(cell) for cell in cells}.values():
            run.ready(self.task.number, self.form)
        found.compiling = so_far().compiling - compiling
        began = perf_counter()
        for cell in cells:
            if seconds is not None and found.cells and perf_counter() - began > seconds:
                break
            try:
                with impatience(self.limits, None if firm else PATIENCE, TooSlow):
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
            if seconds is not None and self._held() > min(MUCH, (self.limits.memory or 0) // 4):
                break
        found.seconds = perf_counter() - began
        try:
            self._finish()
        except MemoryLimitError as error:
            return Found(hard=True, error=error)
        return found

    def _held(self) -> int:
        """How many bytes of rows there are to give back."""
        blocks = (column.nbytes for block in self.found.blocks for column in block)
        return self.set.nbytes + sum(blocks)

    def _run(self, cell: Cell) -> CellRun:
        names = tuple(cell.stretches)
        run = self.runs.get(names)
        if run is None:
            plan = self.opened.plan(cell)
            report = RuleRun(plan) if self.task.counted else None
            scope = self._scope(ends(cell, names))
            run = CellRun(plan, self.sources, scope, self.limits, self.task.knobs, report)
            self.runs[names] = run
        return run

    def _within(self, cell: Cell) -> None:
        task, found = self.task, self.found
        run = self._run(cell)
        run.scope = self._scope(ends(cell, tuple(cell.stretches)))
        if task.mode == "bag":
            gathering = run.into_bag(task.number, self.gathering.copy())
            found.given += gathering.given - self.gathering.given
            self.gathering = gathering
        elif task.mode == "distinct":
            blocks = run.distinct_blocks()
            found.blocks += [block for block in blocks if len(block[0])]
            held = sum(column.nbytes for block in found.blocks for column in block)
            self.limits.charge("rows of cells", held)
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
            columns = gathered_symbols(self.gathering, keys)
        elif task.mode == "set":
            rows, found.count = self.set.finish()
            found.blocks = [rows] if found.count else []
            columns = symbol_columns(found.blocks, types)
        else:
            found.count = found.given = sum(len(block[0]) for block in found.blocks)
            if len(found.blocks) > 1:
                found.blocks = [concatenate(found.blocks)]
            columns = symbol_columns(found.blocks, types)
        if task.few is None:
            found.anew = Anew.among(columns, task.known, self.symbols)
        found.peak = self.limits.peak
        found.cautions = self.cautions
        for run in self.runs.values():
            report = run.report
            if report is not None:
                found.executor = report.executors.get(task.number, found.executor)
                _add(found.seen, report, self.join, run.plan.joins[task.number])


def _add(seen: dict[int, Seen], report: RuleRun, join: Any, cut: Any) -> None:
    """What happened at the steps of a join within cells, by their place in the join itself."""
    places = _places(list(all_steps(join.steps)), list(all_steps(cut.steps)))
    for at, step in places:
        mine = report.seen.get(id(step))
        if mine is None:
            continue
        entry = seen.setdefault(at, Seen())
        entry.rows_in += mine.rows_in
        entry.tried += mine.tried
        entry.rows_out += mine.rows_out
        entry.seconds += mine.seconds


def _places(steps: Sequence[Any], cut: Sequence[Any]) -> list[tuple[int, Any]]:
    """Which step of a join each step is that is not a test of a cell's ends."""
    found: list[tuple[int, Any]] = []
    for step in cut:
        at = len(found)
        if at < len(steps) and (step == steps[at] or _cut_from(step, steps[at])):
            found.append((at, step))
    return found


def _cut_from(step: Any, whole: Any) -> bool:
    return isinstance(step, Join) and isinstance(whole, Join) and step.variable == whole.variable
