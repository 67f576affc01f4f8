"""A stratum to be planned: its rules' join plans, made on demand, and the sizes of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from functools import cache, partial

from gdatalog.cancellation import cancellable
from gdatalog.engine.compiler.plans import Looking, planned
from gdatalog.engine.context import StratumInputs
from gdatalog.engine.derived import count_of
from gdatalog.engine.device import CPU
from gdatalog.engine.fixpoint.lattice_rounds import optimum_columns
from gdatalog.engine.host_tries import on_the_host
from gdatalog.engine.planned_rules import PlannedRules, atoms, called, is_recursive
from gdatalog.engine.rule_plans import plan_rule
from gdatalog.engine.rules.signed_sum import algebra_of
from gdatalog.engine.scan_or_index import indexed, least_scanned
from gdatalog.overhead import spending
from gdatalog.parser.syntax import Aggregate
from gdatalog.plan.join_plan import RulePlan, Version
from gdatalog.planner.check import CheckedRule, Schema, Stratum
from gdatalog.planner.check.rule_text import rule_text
from gdatalog.planner.check.walk import all_of
from gdatalog.planner.order.plan_inputs import PlanInputs
from gdatalog.planner.passes import PassNotes
from gdatalog.planner.rule import RuleOptions, plan_over
from gdatalog.planner.statistics import Assumed, Looked, RelationStatistics
from gdatalog.records import cached_property
from gdatalog.storage.relation import Relation

# The assumed size of relations that are not evaluated yet.
UNKNOWN, DELTA = 100_000, 100


class StratumDraft:
    """What operators look at to decide whether they apply to a stratum."""

    def __init__(
        self, stratum: Stratum, inputs: StratumInputs, schemas: Mapping[str, Schema] | None = None
    ) -> None:
        """`schemas`: those of relations that a rewriting has added."""
        self.added = schemas or {}
        self.stratum = stratum
        self.inputs = inputs.with_schemas(self.added) if self.added else inputs
        self.context = inputs.context
        self._plans: dict[tuple[int, bool], RulePlan] = {}
        self._recursive: dict[int, bool] = {}

    def grows(self, name: str) -> bool:
        """Whether it is a relation of this stratum, and the stratum is recursive."""
        return self.stratum.recursive and name in self.stratum.relations

    def recursive(self, rule: CheckedRule) -> bool:
        found = self._recursive.get(id(rule))
        if found is None:
            found = self._recursive[id(rule)] = is_recursive(self.stratum, rule)
        return found

    @property
    def recursive_rules(self) -> list[CheckedRule]:
        return [rule for rule in self.stratum.rules if self.recursive(rule)]

    @cached_property
    def later(self) -> list[RulePlan]:
        """The plans of recursive rules over new rows."""
        return [self.plan(rule, first=False) for rule in self.recursive_rules]

    @cached_property
    def optima(self) -> Mapping[str, Mapping[int, str]]:
        """The relations that keep the best value of each group: the columns of these values, and
        whether the best is the least or the greatest."""
        names, rules = self.stratum.relations, self.stratum.rules
        found = {n: optimum_columns([rule for rule in rules if rule.head.name == n]) for n in names}
        return {name: kinds for name, kinds in found.items() if kinds}

    @property
    def limited(self) -> bool:
        """Whether `.limitsize` stops one of its relations."""
        return bool(self.context.limit_sizes.keys() & set(self.stratum.relations))

    @property
    def read_rows(self) -> int:
        """How many rows the rules read, with the stratum's own data."""
        names = {atom.name for rule in self.stratum.rules for atom in atoms(rule)}
        below = names - set(self.stratum.relations)
        own = sum(count_of(part) for parts in self.inputs.seeds.values() for part in parts)
        return own + sum(self.inputs.relation(name).length for name in below)

    @property
    def planned(self) -> PlannedRules:
        """The stratum with the plans of all rules."""
        plans = tuple(
            (
                self.plan(rule, first=True),
                self.plan(rule, first=False) if self.recursive(rule) else None,
            )
            for rule in self.stratum.rules
        )
        return PlannedRules(self.stratum, plans, tuple(self.added.values()))

    def plan(self, rule: CheckedRule, first: bool) -> RulePlan:
        """The plan of a rule in the first round, or in later ones."""
        found = self._plans.get((id(rule), first))
        if found is None:
            found = self._plans[id(rule), first] = self._plan(rule, first)
        return found

    def _plan(self, rule: CheckedRule, first: bool) -> RulePlan:
        inputs, context = self.inputs, self.context
        recursive = self.stratum.relations if self.stratum.recursive else ()
        on_cpu = context.device is CPU
        algebra, least_rows = None, None  # sums and scans run on one machine, as a whole
        if not recursive and context.cluster is None:
            if context.settings.algebra != "never" and (
                rule.aggregated or all_of(Aggregate, rule.body)
            ):
                algebra = algebra_of(context.settings, on_cpu, context.limits)
            least_rows = least_scanned(context.settings) if on_cpu else None

        def planned_with(least: int | None) -> RulePlan:
            plans, values = inputs.plans, context.scope.params
            device = "" if algebra is None else context.device.name  # only sums differ
            plan = plans.found(rule, first, inputs.relation, values, least, device)
            if plan is None:
                looking, looked = Looking(inputs.relation), list[Looked]()
                options: RuleOptions = {"first": first, "scans": least, "algebra": algebra}
                making = partial(self._make, rule, looking, looked, recursive, options)
                plan = planned([rule], making)
                plans.keep(rule, first, plan, looking.at, looked, least, device)
            return plan

        # Statistics of rows on the host do not count as device memory.
        here = nullcontext() if on_cpu else on_the_host(context.limits)
        work = context.limits.watch.work("planning", called(self.stratum, rule))
        with here, work, spending("planning"):
            plan = None if least_rows is None else planned_with(least_rows)
            scans = context.thresholds.index_scans
            if plan is None or not plan.joins or indexed(plan, inputs.relation, scans):
                names = {atom.name for atom in atoms(rule) if on_cpu and not self.grows(atom.name)}
                rows = max((inputs.relation(name).at_most for name in names), default=0)
                plan = cancellable(rows, partial(planned_with, None), None)
            if context.cluster is not None and not self.recursive(rule):
                plan = self._where_it_lies(rule, plan) or plan
        return plan

    def _make(
        self,
        rule: CheckedRule,
        relation: Callable[[str], Relation],
        looked: list[Looked],
        recursive: Collection[str],
        options: RuleOptions,
    ) -> RulePlan:
        """Plans a rule. `relation` looks up relations; `looked`: selectivities that decided."""
        inputs, context = self.inputs, self.context

        @cache  # planning asks thousands of times
        def sizes(name: str, version: Version) -> RelationStatistics:
            arity = inputs.schemas[name].arity
            if version == "delta":
                return Assumed(DELTA, DELTA, arity)
            if self.grows(name):
                return Assumed(UNKNOWN, UNKNOWN // 10, arity)
            found = relation(name)
            context.device.hold(found)
            return found.statistics

        values, orders, trace = context.scope.params, inputs.plans.orders, context.passes
        notes = None if trace is None else PassNotes((rule_text(rule),), [])
        given = PlanInputs(sizes, orders, context.thresholds, values, looked, notes)
        stored = not context.scope.bounded
        plan = plan_rule(rule, inputs.param_types, given, recursive, stored, **options)
        if trace is not None and notes is not None:
            trace.plans.append((plan, notes.records))
        return plan

    def _where_it_lies(self, rule: CheckedRule, plan: RulePlan) -> RulePlan | None:
        """A plan that reads one relation's rows where the cluster stores them, if that pays."""
        inputs, context = self.inputs, self.context
        assert context.cluster is not None
        name = context.cluster.stays(plan, inputs)
        if name is None:
            return None

        def sizes(name: str, version: Version) -> RelationStatistics:
            return inputs.relation(name).statistics

        given = PlanInputs(sizes, thresholds=context.thresholds, values=context.scope.params)
        return plan_over(rule, inputs.param_types, given, name, plan)
