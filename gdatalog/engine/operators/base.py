"""`LeafOperator`: what operators have in common that evaluate a stratum themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdatalog.engine.context import ExecutionContext, Operator
from gdatalog.plan.join_plan import RulePlan
from gdatalog.planner.check import CheckedRule


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
