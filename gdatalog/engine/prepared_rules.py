"""What the runs of a stratum's rules share: made once for a plan that is kept."""

from __future__ import annotations

from gdatalog.chunks import levels_of
from gdatalog.engine.planned_rules import PlannedRules, called
from gdatalog.engine.rules.evaluate import operator_here
from gdatalog.engine.rules.operator import RuleOperator
from gdatalog.plan.join_plan import RulePlan
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.rewrite.adornments import as_called
from gdatalog.records import cached_property, dataclass

MOST_PLANS = 500  # long recursions are planned again


@dataclass(frozen=True, slots=True)
class PreparedRule:
    """A plan of a rule. `called`: the rule, for progress reports. `here`: how it is evaluated on
    this machine. `levels`: how many levels hold a chunk of rows."""

    plan: RulePlan
    rule: CheckedRule
    called: str
    here: RuleOperator
    levels: int


class PreparedRules:
    """`of`: the rules with their plans. `rules`: by relation."""

    def __init__(self, of: PlannedRules) -> None:
        self.of, stratum = of, of.stratum
        self.schemas = {schema.name: schema for schema in of.schemas}
        self.rules: dict[str, list[CheckedRule]] = {name: [] for name in stratum.relations}
        for rule in stratum.rules:
            self.rules[rule.head.name].append(rule)
        self._made: dict[int, PreparedRule] = {}  # by id of the plan
        self.ahead = True  # whether a run is still to compile several loops together

    @cached_property
    def name(self) -> str:
        """The relations as users call them, for progress reports."""
        return ", ".join(dict.fromkeys(map(as_called, self.of.stratum.relations)))

    def first(self, name: str) -> list[tuple[CheckedRule, RulePlan]]:
        """A relation's rules with their plans for the first round."""
        return [(rule, self.of.plan(rule, first=True)) for rule in self.rules[name]]

    def rule_of(self, plan: RulePlan) -> CheckedRule:
        """The rule of a plan, found by its place in the text."""
        return next(rule for rule in self.rules[plan.relation] if rule.span is plan.span)

    def prepared(self, plan: RulePlan, rule: CheckedRule | None = None) -> PreparedRule:
        """`rule`: the rule of the plan, if it is known."""
        found = self._made.get(id(plan))
        if found is None:
            if len(self._made) >= MOST_PLANS:
                self._made.clear()
            rule = rule or self.rule_of(plan)
            told = called(self.of.stratum, rule), operator_here(plan), levels_of(plan)
            found = self._made[id(plan)] = PreparedRule(plan, rule, *told)
        return found
