"""`Wrapping`: what operators have in common that change how another one runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdatalog.engine.context import ExecutionContext, Operator, StratumInputs
from gdatalog.engine.operators import Relations
from gdatalog.plan.conditions import When
from gdatalog.plan.join_plan import RulePlan
from gdatalog.planner.check import CheckedRule


class Wrapping:
    """An operator that runs another one, `then`. Its text is a line of `explain`; empty: none."""

    __slots__ = ()
    then: Operator

    def __str__(self) -> str:
        return ""

    @property
    def parts(self) -> tuple[Operator, ...]:
        return (self.then,)

    @property
    def rules(self) -> Sequence[tuple[CheckedRule, RulePlan]]:
        return ()

    def lines(self, whole: bool = False) -> tuple[str, ...]:
        return (*filter(None, (str(self),)), *self.then.lines(whole))

    def prepare(self, context: ExecutionContext) -> Any:
        return self.then.prepare(context)

    def run_then(
        self, prepared: Any, inputs: StratumInputs, until: tuple[When, ...]
    ) -> Relations | When:
        """What `then` returns; its records begin with this operator's text."""
        strata, told = inputs.context.metrics.strata, str(self)
        began = len(strata)
        found = self.then.run(prepared, inputs, until)
        for record in strata[began:] if told else ():
            record.how = (told, *record.how)
        return found
