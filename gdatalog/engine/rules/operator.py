"""What operators of rules have in common: how they run, and what runs their joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gdatalog.engine.context import RuleInputs
from gdatalog.engine.derived import Derived
from gdatalog.executors.gather import Gathering
from gdatalog.executors.sinks import RowSet
from gdatalog.plan.conditions import NoRoom, Unsuited
from gdatalog.plan.join_plan import Expr
from gdatalog.records import dataclass

TURN = 10_000  # fixed cost of a rule's turn, in rows


@dataclass(frozen=True, slots=True)
class Refusal:
    """The device does not run a rule. `reason`: why, for users."""

    reason: str


# The distinct rows that a rule derives, or the condition that kept it from running.
Outcome = Derived | Refusal | Unsuited | NoRoom


class RuleOperator(Protocol):
    """A part of how a rule is evaluated: plain data, which runs itself."""

    def run(self, inputs: RuleInputs) -> Outcome:
        """Evaluates the rule."""


class RuleJoins(Protocol):
    """Runs the joins of a rule: here, in cells, or on workers."""

    inputs: RuleInputs

    def set_of(self, outputs: Sequence[Expr], limit: int | None) -> RowSet:
        """An empty row set for these expressions."""
        inputs, thresholds = self.inputs, self.inputs.context.thresholds
        return RowSet(outputs, inputs.ops, inputs.scope, inputs.limits, limit, thresholds)

    def into_set(self, number: int, sink: RowSet) -> None:
        """Adds a join's rows to a set."""

    def into_bag(self, number: int, gathering: Gathering) -> Gathering:
        """Aggregates a join's bindings into `gathering` or a copy of it; returns that."""

    def distinct(self, sink: RowSet) -> Derived:
        """The rows of the only join, whose loops may output no duplicates; `sink` is empty."""
