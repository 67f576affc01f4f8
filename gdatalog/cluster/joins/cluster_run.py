"""The run of a rule on workers: the calls that run its joins' cells, and their results together.

`JoinCalls` runs the calls of a join and reports progress. `Cells` decide what each call runs, and
take back what a call had no time for or what was too large.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import Protocol

from gdatalog.cluster.joins.cells import CellResult, JoinTask, Mode, settled
from gdatalog.cluster.joins.collector import Collector, merges_remotely
from gdatalog.cluster.joins.share_search import ShareChoice
from gdatalog.cluster.pool.calls import Call, TooLarge
from gdatalog.cluster.pool.task_stage import Pool, TaskStage
from gdatalog.cluster.rows.texts import FewTexts, texts_for
from gdatalog.cluster.workers.own_process import CallContext
from gdatalog.engine.choose import ASKED_FOR, looked_at
from gdatalog.engine.context import RuleInputs
from gdatalog.engine.derived import Derived
from gdatalog.engine.rules.operator import RuleJoins
from gdatalog.engine.rules.rows import RuleRows
from gdatalog.errors import MemoryLimitError
from gdatalog.executors.gather import Gathering
from gdatalog.executors.sinks import RowSet
from gdatalog.plan.cells import over_parts
from gdatalog.plan.effects import all_steps, longest_first, one_row_each
from gdatalog.plan.join_plan import JoinPlan, RulePlan, TrieRef
from gdatalog.plan.placement import Spread
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import Keeper
from gdatalog.storage.trie import Trie


class Cells(Protocol):
    """What the calls of a join run. A call may return cells that it had no time for, and one that
    was too large."""

    def results(self) -> Generator[CellResult, None, None]:
        """Runs all of them; yields results as calls end."""

    def send(self, stage: TaskStage) -> None:
        """Submits enough calls to keep all workers busy."""

    def ended(self, stage: TaskStage, call: Call, found: CellResult) -> tuple[object, ...]:
        """Takes back what a call has left. Returns a function and arguments that compute its result
        again."""

    def cut(self, large: TooLarge) -> list[Call]:
        """Replaces a call that ran out of memory by smaller calls."""


class JoinCalls:
    """The calls that run one join's cells on the workers. `total`: the cost of all cells; `done`:
    of those that ran. `task` and `symbols`: what all calls get."""

    def __init__(
        self,
        run: ClusterRun,
        number: int,
        mode: Mode,
        limit: int | None,
        memory: int,
        compiles: bool = True,
        in_parts: bool = False,
    ) -> None:
        """`mode`, `limit`: see `JoinTask`. `memory`: what a call may hold, in bytes. `compiles`:
        whether workers compile costly loops at once, and do not try slow strategies first.
        `in_parts`: whether tries have parts of the relations."""
        self.join_run, self.pool = run, run.pool
        self.inputs, self.limits = run.inputs, run.inputs.limits
        self.plan, self.join = run.plan, run.plan.joins[number]
        if in_parts:
            joins = list(self.plan.joins)
            joins[number] = self.join = over_parts(self.join)
            self.plan = replace(self.plan, joins=tuple(joins))
        self.name = self.plan.relation
        self.symbols = texts_for(self.pool, [self.plan], self.inputs.scope)
        cost = sum(join.cost for join in self.plan.joins)
        device = self.pool.connection.device_for(cost, self.inputs.context.thresholds)
        self.device = device if isinstance(self.symbols, FewTexts) else "cpu"
        context = CallContext.of(self.inputs.context, memory, device=self.device)
        compiles = compiles and self.join.cost >= self.inputs.context.thresholds.loops_worth
        if context.settings.strategy == "auto" and compiles:
            context = replace(context, settings=replace(context.settings, strategy="lftj"))
        known = len(self.inputs.scope.symbols)
        task = JoinTask(self.plan, number, context, mode, known, limit, self.limits.chunk)
        self.task = self.pool.broadcast(None, task)
        self.total, self.done = 1.0, 0.0

    def results(self, cells: Cells) -> Generator[CellResult, None, None]:
        """Yields results as calls end."""

        def smaller(large: TooLarge) -> list[Call]:
            return [] if isinstance(large.call.tag, CellResult) else cells.cut(large)

        stage = self.pool.stage(self.name, self.limits, smaller)
        stage.reports = False
        try:
            cells.send(stage)
            for call, given in stage:
                if isinstance(call.tag, CellResult):
                    call.tag.kept = given
                    yield call.tag
                    continue
                found = given.summary if call.keep else given
                function, *args = cells.ended(stage, call, found)
                self.limits.watch.part(int(1000 * self.done / self.total), 1000)
                if found.left is not None:
                    exact = given, found.cells, function, *args
                    stage.add(Call(settled, exact, True, call.worker, tag=found))
                cells.send(stage)
                if found.left is None and found.cells:
                    yield found
        finally:
            stage.cancel()

    def call(
        self,
        tag: object,
        function: Callable[..., CellResult],
        args: tuple[object, ...],
        worker: str | None,
    ) -> Call:
        return Call(function, args, self.join_run.keep, worker, tag, CellResult.light)


def too_small(error: MemoryLimitError) -> MemoryLimitError:
    """The error if even one value of each variable does not fit into a worker."""
    error.hint = "workers with more memory; or fewer threads on each, which share it"
    return error


# Makes the cells of a join, from the run, the join's number, the mode and the limit.
CellsOf = Callable[["ClusterRun", int, Mode, int | None], Cells]


@dataclass(slots=True)
class ClusterRun(RuleJoins):
    """The run of a rule whose joins run on workers; the driver combines their results.

    `spread`: what explain and profile show of it. `relation_of`: the relations that it reads.
    """

    pool: Pool
    keeper: Keeper
    plan: RulePlan
    inputs: RuleInputs
    spread: Spread
    cells: CellsOf
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
            return RuleRows(plan).run(inputs, self)
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

    def _spread(
        self, number: int, mode: Mode, limit: int | None = None
    ) -> Generator[CellResult, None, None]:
        """The workers' results for the cells of a join."""
        self.inputs.limits.watch.innermost.one_of(number, len(self.plan.joins))
        with closing(self.cells(self, number, mode, limit).results()) as results:
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
