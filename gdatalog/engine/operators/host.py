"""`OnHost`: the CPU runs an operator although the device is another one."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from gdatalog.account import default_limit
from gdatalog.engine.context import ExecutionContext, Operator, StratumInputs
from gdatalog.engine.device import CPU
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.base import work_of
from gdatalog.engine.operators.wrapping import Wrapping
from gdatalog.plan.conditions import When
from gdatalog.planner.placement import Work
from gdatalog.planner.rewrite.program_sizes import Expected
from gdatalog.records import dataclass, replace

NUMBERS = "it reads only how many rows there are"


@dataclass(frozen=True, slots=True)
class OnHost(Wrapping):
    """`reason`: why, for users; empty if work that is still small begins on the CPU."""

    then: Operator
    reason: str = ""

    def __str__(self) -> str:
        return f"on the CPU: {self.reason}" if self.reason else ""

    def lines(self, whole: bool = False) -> tuple[str, ...]:
        if self.reason:
            return Wrapping.lines(self, whole)
        first, *others = self.then.lines(whole) or ("",)
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
        began, most = len(context.metrics.runs), default_limit()
        less = context.memory < most  # the limit was the device's
        with context.limits.account.other_limit(most) if less else nullcontext():
            found = self.run_then(prepared, here, until)
        for run in context.metrics.runs[began:]:
            run.left = run.left or self.reason or None
        return found
