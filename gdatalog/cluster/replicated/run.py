"""A rule over relations that each worker has whole: its joins cut into pieces, many more than
workers, that these take as they become free."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

from gdatalog.cluster.pool import Broadcast, Pool
from gdatalog.cluster.replicated.cell_scheduler import JoinWork
from gdatalog.cluster.replicated.collector import Collector, merges_remotely
from gdatalog.cluster.replicated.morsel_scheduler import MorselScheduler
from gdatalog.cluster.replicated.morsels import Morsels
from gdatalog.cluster.replicated.tasks import CellResult, JoinTask, Mode
from gdatalog.cluster.rows.texts import FewTexts, placed_texts, reads_texts
from gdatalog.engine.choose import ASKED_FOR, looked_at
from gdatalog.engine.context import ExecutionContext, Sources
from gdatalog.engine.derived import Derived
from gdatalog.engine.device import WORTH
from gdatalog.engine.metrics import RuleRound, RuleRun
from gdatalog.engine.run import PlanRun
from gdatalog.engine.session.knobs import Knobs
from gdatalog.executors.gather import Gathering
from gdatalog.executors.sinks import RowSet
from gdatalog.plan.effects import all_steps, longest_first, one_row_each
from gdatalog.plan.nodes import JoinPlan, RulePlan, TrieRef
from gdatalog.plan.placement import ExecutorChoice, Spread
from gdatalog.records import replace
from gdatalog.storage.remote import Keeper
from gdatalog.storage.trie import Trie


class ReplicatedRun(PlanRun):
    """The run of a rule whose joins are run by workers, piece by piece; what they give is put
    together here."""

    def __init__(
        self,
        pool: Pool,
        keeper: Keeper,
        plan: RulePlan,
        sources: Sources,
        context: ExecutionContext,
        report: RuleRun | None,
        stats: RuleRound | None,
    ) -> None:
        super().__init__(plan, sources, context, report, stats=stats)
        self.pool, self.keeper = pool, keeper
        self.keep = False  # whether rows and groups stay where they are made, if they are many
        self.moved = 0  # bytes that went from worker to worker
        self.calls = self.gpu_calls = 0

    def spread(self) -> Spread:
        """How the work was spread, for a profile."""
        return Spread(
            "replicated",
            len(self.pool.workers),
            moved=self.moved or None,
            calls=self.calls,
            on_gpus=self.gpu_calls,
        )

    def rows(self, limit: int | None) -> Derived:
        plan = self.plan
        collects = limit is None and plan.head and plan.joins
        if not collects or (plan.gathers and not merges_remotely(plan)):
            return PlanRun.rows(self, limit)
        collector = Collector(self.pool, self.keeper, plan, self.context)
        self.keep = True
        distinct = self._apart()
        mode: Mode = "bag" if plan.gathers else "distinct" if distinct else "set"
        for number in range(len(plan.joins)):
            for found in self._spread(number, mode):
                self._count(found.given)
                collector.add(found)
        derived = collector.groups() if plan.gathers else collector.rows(distinct)
        self.moved += collector.moved
        return derived

    def _apart(self) -> bool:
        """Whether no two calls give the same row."""
        return len(self.plan.joins) == 1 and one_row_each(self.plan.joins[0])

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
            if found.gathering is not None:  # some come to no cell: theirs were too much
                gathering.join(found.gathering)
        return gathering

    # ------------------------------------------------------------------------------ spreading

    def _spread(
        self, number: int, mode: Mode, limit: int | None = None
    ) -> Generator[CellResult, None, None]:
        """What workers give for the cells of a join."""
        self.limits.watch.innermost.one_of(number, len(self.plan.joins))
        with closing(self._cells(number, mode, limit)) as results:
            for found in results:
                self._take(number, mode, found)
                yield found

    def _cells(
        self, number: int, mode: Mode, limit: int | None
    ) -> Generator[CellResult, None, None]:
        """The same, as the workers tell it."""
        join = self.plan.joins[number]
        tries = self.tries(join)
        placed = {ref: self.pool.broadcast(id(trie), trie) for ref, trie in tries.items()}
        gpus = self.pool.connection.gpus and self.context.device.refuses(self.plan) is None
        cutting = Morsels(join, tries, self.scope, self.pool.slots, gpus)
        work = self.work(number, mode, limit, self.limits.memory or 1 << 40)
        return MorselScheduler(self.pool, self.limits, work, placed, cutting).run()

    def tries(self, join: JoinPlan) -> dict[TrieRef, Trie]:
        """The tries of a join, which are made largest first."""
        made = {ref: self.sources.trie_of(ref) for ref in longest_first(join.tries)}
        return {ref: made[ref] for ref in join.tries}

    def _take(self, number: int, mode: Mode, found: CellResult) -> None:
        """Translates what a worker has given, and notes what it did."""
        self.calls += 1
        self.moved += found.moved
        self.gpu_calls += found.gpu
        join = self.plan.joins[number]
        if len(found.anew.codes):
            recoded = found.anew.coder(self.scope.symbols)
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
            self.scope.cautions.setdefault(message, caution)
        if found.executor is not None:
            chosen: ExecutorChoice = found.executor
            if chosen.reason == ASKED_FOR and self.context.knobs.strategy == "auto":
                chosen = replace(chosen, reason=looked_at(join.cost))  # which is why we asked
            self._chosen(number, chosen)
        if self.report is not None:
            steps = list(all_steps(join.steps))
            self.report.saw({id(steps[at]): seen for at, seen in found.seen.items()})

    def work(self, number: int, mode: Mode, limit: int | None, memory: int) -> JoinWork:
        """What all calls of a join have in common, and the symbol table if its texts are read."""
        plan, symbols = self.plan, self.scope.symbols
        table: Broadcast | None = None
        few: FewTexts | None = None
        if reads_texts(plan):
            table = placed_texts(self.pool, symbols)
        else:
            few = FewTexts.of([plan], self.scope.params, symbols)
        task = JoinTask(
            plan, number, self.scope.params, memory, self._knobs(plan.joins[number]), mode,
            len(symbols), few, limit, self.report is not None, self.limits.chunk,
            self.pool.connection.device if table is None else "cpu", self.context.tuning,
        )  # fmt: skip
        return JoinWork(plan.relation, self.pool.broadcast(None, task), table, self.keep)

    def _knobs(self, join: JoinPlan) -> Knobs:
        """What workers are told: each call has one thread, and none tries first what is too slow
        for so much work."""
        knobs = replace(self.context.knobs, threads=1)
        if knobs.strategy == "auto" and join.cost >= WORTH:
            knobs = replace(knobs, strategy="lftj")
        return knobs
