"""A rule whose relations every worker holds whole: idle workers take morsels of its joins.

`CellScheduler` sends the calls of a join, reports progress, and takes back cells that a call had no
time for or that were too large. Its subclasses decide what each call runs.

The driver merges few rows or groups (`Collector`). Many rows stay on the workers as parts of a
relation; many groups are merged there, by an owner for each hash of their keys.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any

from gdatalog.cluster.joins.cells import CellResult, JoinTask, Mode, join_cells, settled
from gdatalog.cluster.joins.morsels import DEEP, Morsel, Morsels
from gdatalog.cluster.joins.share_search import ShareChoice
from gdatalog.cluster.pool.calls import Call, RemoteValue, TooLarge
from gdatalog.cluster.pool.task_stage import Pool, TaskStage
from gdatalog.cluster.rows.shuffle import (
    OwnedRows,
    PartSize,
    Shuffle,
    ShuffleBlock,
    columns_of,
    owner_of,
    parts_of,
    size_of,
    stays_remote,
)
from gdatalog.cluster.rows.texts import FewTexts, makes_texts, placed_texts, texts_for
from gdatalog.cluster.workers.own_process import CallContext
from gdatalog.cpu_ops.expressions import Scope
from gdatalog.engine.choose import ASKED_FOR, looked_at
from gdatalog.engine.context import ExecutionContext, RuleInputs
from gdatalog.engine.derived import Derived, DistinctBlocks, remote_blocks, rows_of_groups
from gdatalog.engine.device import CPU
from gdatalog.engine.rules.joins import LocalJoins
from gdatalog.engine.rules.rows import rows_of
from gdatalog.errors import MemoryLimitError
from gdatalog.executors.gather import Gathering
from gdatalog.executors.sinks import RowSet
from gdatalog.plan.effects import all_steps, longest_first, one_row_each
from gdatalog.plan.join_plan import Expr, JoinPlan, RulePlan, Slot, TrieRef
from gdatalog.plan.placement import Spread
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import Keeper, RemotePart, RemoteRows
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.trie import Trie


class CellScheduler(ABC):
    """Runs one join's cells on the workers. `total`: the cost of all cells; `done`: of those that
    ran. `task` and `symbols`: what all calls get.

    A call may return cells that it had no time for, and one that was too large.
    """

    def __init__(
        self, run: ClusterRun, number: int, mode: Mode, limit: int | None, memory: int
    ) -> None:
        """`mode`, `limit`: see `JoinTask`. `memory`: what a call may hold, in bytes."""
        self.join_run, self.pool = run, run.pool
        self.inputs, self.limits = run.inputs, run.inputs.limits
        self.plan, self.join = run.plan, run.plan.joins[number]
        self.name = self.plan.relation
        self.symbols = texts_for(self.pool, [self.plan], self.inputs.scope)
        cost = sum(join.cost for join in self.plan.joins)
        device = self.pool.connection.device_for(cost, self.inputs.context.thresholds)
        self.device = device if isinstance(self.symbols, FewTexts) else "cpu"
        context = CallContext.of(self.inputs.context, memory, device=self.device)
        if context.settings.strategy == "auto" and self._compiles():
            context = replace(context, settings=replace(context.settings, strategy="lftj"))
        known = len(self.inputs.scope.symbols)
        task = JoinTask(self.plan, number, context, mode, known, limit, self.limits.chunk)
        self.task = self.pool.broadcast(None, task)
        self.total, self.done = 1.0, 0.0

    def run(self) -> Generator[CellResult, None, None]:
        """Yields results as calls end."""
        stage = self.pool.stage(self.name, self.limits, self._smaller)
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
                    exact = given, found.cells, function, *args
                    stage.add(Call(settled, exact, True, call.worker, tag=found))
                self._send(stage)
                if found.left is None and found.cells:
                    yield found
        finally:
            stage.cancel()

    def _call(
        self,
        tag: object,
        function: Callable[..., CellResult],
        args: tuple[object, ...],
        worker: str | None,
    ) -> Call:
        return Call(function, args, self.join_run.keep, worker, tag, CellResult.light)

    def _compiles(self) -> bool:
        """Whether workers compile the loops at once, and do not try slow strategies first."""
        return self.join.cost >= self.inputs.context.thresholds.loops_worth

    def _smaller(self, large: TooLarge) -> list[Call]:
        """Replaces a call that ran out of memory by smaller calls."""
        return [] if isinstance(large.call.tag, CellResult) else self._cut(large)

    @abstractmethod
    def _send(self, stage: TaskStage) -> None:
        """Submits enough calls to keep all workers busy."""

    @abstractmethod
    def _ended(self, stage: TaskStage, call: Call, found: CellResult) -> tuple[object, ...]:
        """Takes back what a call has left. Returns a function and arguments that compute its result
        again."""

    @abstractmethod
    def _cut(self, large: TooLarge) -> list[Call]:
        """Like `_smaller`, for calls that run cells."""


def too_small(error: MemoryLimitError) -> MemoryLimitError:
    """The error if even one value of each variable does not fit into a worker."""
    error.hint = "workers with more memory; or fewer threads on each, which share it"
    return error


BUDGET = 1.0  # seconds until a call returns the cells that it has not started
SHARES = 1.5  # a call gets a thread's share of what is left, divided by this (self-scheduling)
AHEAD = 2  # calls for each thread of the workers: one runs, one waits


class MorselScheduler(CellScheduler):
    """Assigns the morsels of a join to workers until all are done.

    At first, it deals all morsels to threads, at about equal expected cost. After `BUDGET` seconds,
    a thread returns the morsels that it has not started; these are assigned in ever smaller parts
    to the threads that end first.
    """

    def __init__(self, run: ClusterRun, number: int, mode: Mode, limit: int | None) -> None:
        super().__init__(run, number, mode, limit, run.inputs.context.memory)
        tries = run.tries(self.join)
        self.tries = {ref: self.pool.broadcast(id(trie), trie) for ref, trie in tries.items()}
        gpus = self.device != "cpu" and self.pool.connection.gpus
        gpus = gpus and run.inputs.context.device.refuses(self.plan) is None
        self.slots = self.pool.slots
        self.cutting = Morsels(self.join, tries, run.inputs.scope, self.slots, gpus)
        self.total = self.cutting.total
        self.begun = False

    def _send(self, stage: TaskStage) -> None:
        """Submits enough calls to keep all threads busy. The first calls name their workers: two
        calls on one worker would leave another one idle."""
        if not self.begun:
            self.begun = True
            workers = [at for at, threads in self.pool.threads.items() for _ in range(threads)]
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
        args = (self.task, cells, BUDGET, firm, self.tries, self.symbols)
        return self._call(pieces, join_cells, args, worker)

    def _cut(self, large: TooLarge) -> list[Call]:
        pieces = large.call.tag
        if len(pieces) == 1:
            deep = pieces[0].again >= DEEP
            pieces = () if deep else self.cutting.smaller(pieces[0]) or ()
        return [self._made([piece]) for piece in pieces]

    def _ended(self, stage: TaskStage, call: Call, found: CellResult) -> tuple[object, ...]:
        pieces: Sequence[Morsel] = call.tag
        done, left = pieces[: found.cells], list(pieces[found.cells :])
        self.done += sum(piece.cost for piece in done)
        if found.error is not None and len(pieces) > 1:
            for piece in left:  # each alone, before one of them is an error
                stage.add(self._made([piece]))
        else:
            self.cutting.add(self._rest(stage, left, found))
        cells = [piece.cell for piece in done]
        return join_cells, self.task, cells, None, True, self.tries, self.symbols

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


# Makes the scheduler of a join, from the run, the join's number, the mode and the limit.
Schedule = Callable[["ClusterRun", int, Mode, int | None], CellScheduler]


@dataclass(slots=True)
class ClusterRun:
    """The run of a rule whose joins run on workers; the driver combines their results.

    `spread`: what explain and profile show of it. `relation_of`: the relations that it reads.
    """

    pool: Pool
    keeper: Keeper
    plan: RulePlan
    inputs: RuleInputs
    spread: Spread
    schedule: Schedule
    relation_of: Callable[[str], Relation]
    choices: list[ShareChoice] = field(default_factory=list)  # of joins over buckets
    keep: bool = False  # whether many rows or groups stay on workers
    moved: int = 0  # bytes moved between workers
    calls: int = 0
    gpu_calls: int = 0

    def told(self) -> Spread:
        """How the rule was spread, for a profile."""
        moved = self.moved or (None if self.spread.way == "replicated" else 0)
        return replace(self.spread, moved=moved, calls=self.calls, on_gpus=self.gpu_calls)

    def rows(self) -> Derived:
        plan, inputs = self.plan, self.inputs
        collects = inputs.limit is None and plan.head and plan.joins
        if not collects or (plan.gathers and not merges_remotely(plan)):
            return rows_of(plan, inputs, self)
        collector = Collector(self.pool, self.keeper, plan, inputs.context)
        self.keep = True
        distinct = self._apart()
        mode: Mode = "bag" if plan.gathers else "distinct" if distinct else "set"
        for number in range(len(plan.joins)):
            for found in self._spread(number, mode):
                inputs.tried(found.given)
                collector.add(found)
        derived = collector.groups() if plan.gathers else collector.rows(distinct)
        self.moved += collector.moved
        return derived

    def _apart(self) -> bool:
        """Whether calls give disjoint rows."""
        join, name = self.plan.joins[0], self.plan.passes_over
        if len(self.plan.joins) > 1 or not one_row_each(join):
            return False
        if name is None or join.given is None:
            return True
        relation = self.relation_of(name)
        whole = len(join.given.columns) == len(relation.types)
        return whole and relation.store.known >= KnownRows.DISTINCT

    def set_of(self, outputs: Sequence[Expr], limit: int | None) -> RowSet:
        return LocalJoins(self.plan, self.inputs).set_of(outputs, limit)

    def distinct(self, sink: RowSet) -> Derived:
        self.into_set(0, sink)
        self.inputs.tried(sink.given)
        return sink.finish()

    def into_set(self, number: int, sink: RowSet) -> None:
        if sink.done:
            return
        sink.outputs = self.plan.joins[number].outputs
        with closing(self._spread(number, "set", sink.limit)) as parts:
            for found in parts:
                given = sink.given + found.given
                sink.add_blocks(found.blocks)
                sink.given = given
                if sink.limit is not None and sink.settle():
                    return

    def into_bag(self, number: int, gathering: Gathering) -> Gathering:
        for found in self._spread(number, "bag"):
            if found.gathering is not None:  # None if a call completed no cell
                gathering.join(found.gathering)
        return gathering

    # ------------------------------------------------------------------------------ spreading

    def _spread(
        self, number: int, mode: Mode, limit: int | None = None
    ) -> Generator[CellResult, None, None]:
        """The workers' results for the cells of a join."""
        self.inputs.limits.watch.innermost.one_of(number, len(self.plan.joins))
        with closing(self.schedule(self, number, mode, limit).run()) as results:
            for found in results:
                self._take(number, found)
                yield found

    def tries(self, join: JoinPlan) -> dict[TrieRef, Trie]:
        """The tries of a join, built largest first."""
        made = {ref: self.inputs.sources.trie_of(ref) for ref in longest_first(join.tries)}
        return {ref: made[ref] for ref in join.tries}

    def _take(self, number: int, found: CellResult) -> None:
        """Translates a worker's new texts, and records what it did."""
        self.calls += 1
        self.moved += found.moved
        self.gpu_calls += found.gpu
        inputs, join = self.inputs, self.plan.joins[number]
        if len(found.anew.codes):
            recoded = found.anew.coder(inputs.scope.symbols)
            if found.gathering is not None:
                found.gathering.recode([key.type for key in self.plan.keys], recoded)
            types = [output.type for output in join.outputs]
            found.blocks = [
                tuple(
                    recoded(column) if kind == "symbol" else column
                    for column, kind in zip(block, types, strict=True)
                )
                for block in found.blocks
            ]
        for message, caution in found.cautions.items():
            inputs.scope.cautions.setdefault(message, caution)
        if found.executor is not None:
            chosen = found.executor
            if chosen.reason == ASKED_FOR and inputs.context.settings.strategy == "auto":
                chosen = replace(chosen, reason=looked_at(join.cost))  # which is why we asked
            inputs.chose(number, chosen)
        if inputs.report is not None:
            steps = list(all_steps(join.steps))
            inputs.report.saw({id(steps[at]): seen for at, seen in found.seen.items()})


# Collecting the results of cells: few are fetched, many stay on the workers.


@dataclass(slots=True)
class Collector:
    """Collects the results of one rule's calls, and makes them a relation's rows."""

    pool: Pool
    keeper: Keeper
    plan: RulePlan
    context: ExecutionContext
    blocks: list[Columns] = field(default_factory=list)  # fetched rows
    gathering: Gathering = field(init=False)  # fetched groups
    left: list[tuple[RemoteValue, PartSize]] = field(default_factory=list)
    held: int = 0  # bytes of fetched rows
    moved: int = 0  # bytes moved between workers to merge results

    def __post_init__(self) -> None:
        context = self.context
        self.gathering = Gathering(self.plan.gathers, CPU.ops, context.scope, context.limits)

    def add(self, found: CellResult) -> None:
        if found.blocks:
            self.blocks += found.blocks
            self.held += found.row_bytes
            self.context.limits.charge("answers", self.held)
        if found.gathering is not None:
            self.gathering.join(found.gathering)
        if found.left is not None and found.kept is not None:
            self.left.append((found.kept, found.left))

    def rows(self, distinct: bool) -> Derived:
        """The rows, of at least one column. `distinct`: calls gave disjoint rows."""
        if not self._few():
            parts = self._parts()
            if not distinct:
                nbytes = sum(part.nbytes for part in parts)
                told = f"{self.plan.relation}: distinct"
                shuffle = Shuffle.over(self.pool, told, self.context.limits, nbytes)
                owned = shuffle.distinct([part.value for part in parts])
                self.moved = sum(kept.summary.moved for kept in owned)
                parts, distinct, self.blocks = parts_of(owned), True, []
                self.left = [(kept, kept.summary) for kept in owned]
            if not self._few():
                return remote_blocks(RemoteRows(parts, self.keeper, KnownRows.DISTINCT))
        blocks = [*self.blocks, *map(columns_of, self._brought())]
        blocks = [block for block in blocks if len(block[0])]
        if distinct and len(blocks) > 1:
            return DistinctBlocks(blocks, sum(len(block[0]) for block in blocks))
        context = self.context
        sink = RowSet(
            self.plan.head, CPU.ops, context.scope, context.limits, None, context.thresholds
        )
        sink.add_blocks(blocks)
        return sink.finish()

    def groups(self) -> Derived:
        """The head's rows for all groups; several calls may have given parts of a group."""
        plan, limits, scope = self.plan, self.context.limits, self.context.scope
        if self._few():
            for value in self._brought():
                self.gathering.join(gathering_of(value))
            return rows_of_groups(plan, self.gathering, CPU.ops, scope)
        texts = tells_texts(plan)
        symbols = placed_texts(self.pool, scope.symbols) if texts else SymbolTable()
        merging = plan, CallContext.of(self.context, self.context.memory), symbols
        values: list[object] = [kept for kept, _ in self.left]
        if self.gathering.groups:
            values.append(self.gathering)
        nbytes = sum(left.nbytes for _, left in self.left)
        shuffle = Shuffle.over(self.pool, f"{plan.relation}: groups", limits, nbytes)
        pieces = shuffle.partition(values, split_groups, *merging)
        owned = shuffle.merge(pieces, merged_groups, *merging, summary=size_of)
        parts, self.moved = parts_of(owned), sum(kept.summary.moved for kept in owned)
        names = {expr.name for expr in plan.head if isinstance(expr, Slot)}
        apart = names.issuperset(key.name for key in plan.keys)
        return remote_blocks(
            RemoteRows(parts, self.keeper, KnownRows.DISTINCT if apart else KnownRows.NOTHING)
        )

    def _few(self) -> bool:
        return not stays_remote(sum(told.nbytes for _, told in self.left), self.context)

    def _parts(self) -> list[RemotePart]:
        left = (RemotePart(kept, told.rows, told.nbytes) for kept, told in self.left)
        return [*left, *map(RemotePart.of, self.blocks)]

    def _brought(self) -> list[Any]:
        values = [kept for kept, _ in self.left]
        told = f"{self.plan.relation}: fetch"
        return self.pool.bring(values, told, self.context.limits) if values else []


def merges_remotely(plan: RulePlan) -> bool:
    """Whether workers can merge a rule's groups."""
    alone = all(len(group) == 1 for group in plan.groups)
    return alone and bool(plan.keys) and not makes_texts(plan.head)


def tells_texts(plan: RulePlan) -> bool:
    """Whether merging groups needs texts: for aggregates over texts, or for error messages."""
    targets = [target for gather in plan.gathers for target in gather.targets]
    return any(expr.type == "symbol" for expr in (*plan.keys, *targets))


# ------------------------------------------------------------------------------- on a worker


def gathering_of(value: Gathering | CellResult) -> Gathering:
    """The groups, or the groups of a cell's result."""
    found = value if isinstance(value, Gathering) else value.gathering
    assert found is not None
    return found


def _together(
    values: Sequence[Gathering | CellResult],
    plan: RulePlan,
    there: CallContext,
    symbols: SymbolTable,
) -> tuple[Gathering, Scope]:
    """All groups of some values."""
    context = there.here(symbols)
    whole = Gathering(plan.gathers, CPU.ops, context.scope, context.limits)
    for value in values:
        whole.join(gathering_of(value))
    return whole, context.scope


def split_groups(
    values: Sequence[Gathering | CellResult], owners: int, *merging: Any
) -> list[Gathering]:
    """Groups by owner. `merging`: the plan, the context and the symbols."""
    whole, _ = _together(values, *merging)
    return whole.dealt(owners, owner_of)


def merged_groups(pieces: Sequence[ShuffleBlock], plan: RulePlan, *merging: Any) -> OwnedRows:
    """The head's rows for an owner's groups."""
    whole, scope = _together([one.value for one in pieces], plan, *merging)
    rows, _ = rows_of_groups(plan, whole, CPU.ops, scope)
    return OwnedRows(rows, sum(one.moved for one in pieces))
