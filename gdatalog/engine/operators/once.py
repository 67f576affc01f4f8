"""`Once`: each rule of a stratum runs once. The stratum is not recursive."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.engine.choose import work_of_rule
from gdatalog.engine.context import ExecutionContext, StratumInputs
from gdatalog.engine.device import CPU
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.base import LeafOperator
from gdatalog.engine.planned_rules import PlannedRules
from gdatalog.engine.prepared_rules import PreparedRules
from gdatalog.engine.stratum_run import StratumRun
from gdatalog.plan.conditions import When
from gdatalog.plan.join_plan import RulePlan
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.placement import Work, sum_of
from gdatalog.planner.rewrite.program_sizes import Expected
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class Once(LeafOperator):
    of: PlannedRules

    def __str__(self) -> str:
        return "once"

    @property
    def rules(self) -> Sequence[tuple[CheckedRule, RulePlan]]:
        return self.of.pairs

    def lines(self, whole: bool = False) -> tuple[str, ...]:
        return ()  # the usual way

    def prepare(self, context: ExecutionContext) -> PreparedRules:
        return PreparedRules(self.of)

    def run(
        self, prepared: PreparedRules, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations:
        run = StratumRun(prepared, inputs)
        if prepared.ahead and inputs.context.device is not CPU:
            prepared.ahead = False
            if sum(len(plan.joins) for _, plan in self.of.pairs) > 1:
                run.compile_ahead()
        return run.once(inputs.limit)

    def work(self, expected: Expected, context: ExecutionContext) -> Work:
        """What the plans of its rules expect."""
        return sum_of([work_of_rule(plan, context) for _, plan in self.of.pairs])

    def compile_ahead(self, inputs: StratumInputs) -> None:
        """Compiles loops on other threads, after building the indexes that they read."""
        StratumRun(self.of, inputs).compile_ahead()
