"""`Linear`: a closure by doubling (`p(x, y), p(y, z)`) is evaluated by a linear rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from gdatalog.engine.context import Operator, StratumInputs
from gdatalog.engine.draft import StratumDraft
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.once import Once
from gdatalog.engine.operators.wrapping import Wrapping
from gdatalog.plan.conditions import When
from gdatalog.plan.join_plan import RulePlan
from gdatalog.planner.check import CheckedRule, Schema, Stratum
from gdatalog.planner.rewrite.linear_closures import LinearStratum, made_linear
from gdatalog.records import dataclass, replace
from gdatalog.storage.relation import Relation


@dataclass(frozen=True, slots=True)
class Linear(Wrapping):
    """`first` evaluates the rows that the relation has without recursion; `then` evaluates the
    linear rule, which starts from these rows as the relation `schema`."""

    first: Once
    schema: Schema
    then: Operator

    @property
    def rules(self) -> Sequence[tuple[CheckedRule, RulePlan]]:
        return self.first.rules

    @property
    def rewriting(self) -> Callable[..., object]:
        """The pass that made its rules."""
        return made_linear

    def __str__(self) -> str:
        name = self.schema.name.partition("~")[0]
        return f"{name} is made linear: {self.schema.name} is what it has without recursion"

    def run(
        self, prepared: Any, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations | When:
        return self.run_then(prepared, linearised(self.first, self.schema, inputs), until)


def applies(stratum: Stratum, inputs: StratumInputs) -> tuple[Once, LinearStratum] | None:
    """The strata that replace a closure, cached together with their plans."""
    never = inputs.context.settings.split == "never"
    if never or not stratum.recursive or len(stratum.relations) != 1:
        return None
    (name,) = stratum.relations
    schema = inputs.schemas[name]
    found = inputs.plans.rewritten("linear", stratum.rules, partial(made_linear, stratum, schema))
    return None if found is None else (Once(StratumDraft(found.first, inputs).planned), found)


def linearised(first: Once, schema: Schema, inputs: StratumInputs) -> StratumInputs:
    """The inputs of the linear rule. The rows that it starts from are evaluated once."""
    name, where = schema.name, (schema.name, inputs.context.device.name)
    if where not in inputs.made:
        ((own, found),) = first.run(first.prepare(inputs.context), inputs).items()
        inputs.made[where] = found
        inputs.context.limits.account.rename(own, name)
    rows: Relation = inputs.made[where]

    def relation(asked: str) -> Relation:
        return rows if asked == name else inputs.relation(asked)

    return replace(inputs.with_schemas({name: schema}), relation=relation, seeds={})
