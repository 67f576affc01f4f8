"""`LeafOperator`: what operators have in common that evaluate a stratum themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdatalog.engine.context import ExecutionContext, Operator
from gdatalog.plan.join_plan import RulePlan
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.placement import Work
from gdatalog.planner.rewrite.program_sizes import Expected

KERNELS = 3.0  # launches that a turn of a rule takes on a device, in rounds of kernels


class LeafOperator:
    """An operator that evaluates a stratum itself."""

    __slots__ = ()

    @property
    def parts(self) -> tuple[Operator, ...]:
        return ()

    @property
    def rules(self) -> Sequence[tuple[CheckedRule, RulePlan]]:
        return ()

    def prepare(self, context: ExecutionContext) -> Any:
        return None

    def lines(self, whole: bool = False) -> tuple[str, ...]:
        return (str(self),)

    def work(self, expected: Expected, context: ExecutionContext) -> Work:
        """What it does, if so much is expected of the stratum: rounds in kernels."""
        turns = expected.rounds * max(1, len(self.rules))
        return Work(expected.looked, new=expected.rows, turns=turns, launches=KERNELS)


def work_of(operator: Operator, expected: Expected, context: ExecutionContext) -> Work:
    """What an operator says that it does; otherwise the first of its parts."""
    own = getattr(operator, "work", None)
    if own is None:
        return work_of(operator.parts[0], expected, context)
    found: Work = own(expected, context)
    return found
