"""`OnHost`: the CPU runs an operator although the device is another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdatalog.account import default_limit
from gdatalog.engine.context import ExecutionContext, Operator, StratumInputs
from gdatalog.engine.device import CPU
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.base import work_of
from gdatalog.plan.conditions import When
from gdatalog.plan.join_plan import RulePlan
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.placement import Work
from gdatalog.planner.rewrite.program_sizes import Expected
from gdatalog.records import dataclass, replace

NUMBERS = "it reads only how many rows there are"


@dataclass(frozen=True, slots=True)
class OnHost:
    """`reason`: why, for users; empty if work that is still small begins on the CPU."""

    then: Operator
    reason: str = ""

    @property
    def parts(self) -> tuple[Operator, ...]:
        return (self.then,)

    @property
    def rules(self) -> Sequence[tuple[CheckedRule, RulePlan]]:
        return ()

    def lines(self, whole: bool = False) -> tuple[str, ...]:
        first, *others = self.then.lines(whole) or ("",)
        if self.reason:
            return tuple(filter(None, (f"on the CPU: {self.reason}", first, *others)))
        return (f"{first} on the CPU", *others)

    def work(self, expected: Expected, context: ExecutionContext) -> Work:
        return replace(work_of(self.then, expected, context), on_host=True)

    def prepare(self, context: ExecutionContext) -> Any:
        return self.then.prepare(replace(context, device=CPU))

    def run(
        self, prepared: Any, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations | When:
        context = inputs.context
        here = replace(inputs, context=replace(context, device=CPU))
        runs, strata = len(context.metrics.runs), len(context.metrics.strata)
        if context.memory < default_limit():  # the limit was the device's
            with context.limits.account.other_limit(default_limit()):
                found = self.then.run(prepared, here, until)
        else:
            found = self.then.run(prepared, here, until)
        if self.reason:
            for run in context.metrics.runs[runs:]:
                run.left = run.left or self.reason
            for record in context.metrics.strata[strata:]:
                record.how = (f"on the CPU: {self.reason}", *record.how)
        return found
