"""A stratum's rules with their join plans: what an operator of rules is made of."""

from __future__ import annotations

from collections.abc import Iterator

from gdatalog.plan.join_plan import RulePlan
from gdatalog.planner.check import CheckedRule, Schema, Stratum
from gdatalog.planner.rewrite.adornments import as_called
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class PlannedRules:
    """`plans`: for each rule of the stratum its plan over all rows, and if it is recursive its plan
    over new rows; none if a run gets its plans from elsewhere. `schemas`: those of relations that a
    rewriting has added."""

    stratum: Stratum
    plans: tuple[tuple[RulePlan, RulePlan | None], ...]
    schemas: tuple[Schema, ...] = ()

    def plan(self, rule: CheckedRule, first: bool) -> RulePlan:
        """A rule's plan for the first round, or for later ones."""
        at = next(at for at, own in enumerate(self.stratum.rules) if own is rule)
        before, later = self.plans[at]
        if first:
            return before
        assert later is not None
        return later

    @property
    def every(self) -> list[tuple[CheckedRule, RulePlan]]:
        """Each rule with its plans."""
        rules = zip(self.stratum.rules, self.plans, strict=False)
        return [(rule, plan) for rule, plans in rules for plan in plans if plan is not None]

    @property
    def pairs(self) -> list[tuple[CheckedRule, RulePlan]]:
        """Each rule with its plans, without those that have no rows."""
        return [(rule, plan) for rule, plan in self.every if plan.joins]

    @property
    def later(self) -> Iterator[tuple[CheckedRule, RulePlan]]:
        """The recursive rules with their plans over new rows."""
        for rule, (_, later) in zip(self.stratum.rules, self.plans, strict=False):
            if later is not None:
                yield rule, later


def is_recursive(stratum: Stratum, rule: CheckedRule) -> bool:
    """Whether a rule reads relations of its own stratum."""
    if stratum.recursive:
        for atom in rule.atoms:
            if atom.name in stratum.relations:
                return True
    return False


def called(stratum: Stratum, rule: CheckedRule) -> str:
    """A rule's relation and number, for progress reports."""
    name, rules = as_called(rule.head.name), stratum.rules
    for number, own in enumerate(rules, 1):
        if own is rule and len(rules) > 1:
            return f"{name} (rule {number} of {len(rules)})"
    return name
