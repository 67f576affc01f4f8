"""`WhenCompiled`: a device runs small work only if its kernels are compiled.

Otherwise they are compiled on another thread, for the next call, and another operator runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdatalog.engine.context import ExecutionContext, Operator, StratumInputs
from gdatalog.engine.operators import Relations
from gdatalog.plan.conditions import Uncompiled, Unsuited, When
from gdatalog.plan.join_plan import RulePlan
from gdatalog.planner.check import CheckedRule
from gdatalog.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class WhenCompiled:
    then: Operator

    @property
    def parts(self) -> tuple[Operator, ...]:
        return (self.then,)

    @property
    def rules(self) -> Sequence[tuple[CheckedRule, RulePlan]]:
        return ()

    def lines(self, whole: bool = False) -> tuple[str, ...]:
        return self.then.lines(whole)

    def prepare(self, context: ExecutionContext) -> Any:
        return self.then.prepare(context)

    def run(
        self, prepared: Any, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations | When:
        context = replace(inputs.context, compiled=True)
        found = self.then.run(prepared, replace(inputs, context=context), until)
        return Uncompiled() if isinstance(found, Unsuited) else found
