"""A stratum to be planned: its rules' join plans, made on demand, and the sizes of its inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from functools import cache, partial

from gdatalog import cancellation
from gdatalog.cancellation import apart, cancellable
from gdatalog.engine.compiler.plans import takes_long
from gdatalog.engine.context import StratumInputs
from gdatalog.engine.derived import count_of
from gdatalog.engine.device import CPU
from gdatalog.engine.fixpoint.lattice_rounds import optimum_columns
from gdatalog.engine.host_tries import on_the_host
from gdatalog.engine.planned_rules import PlannedRules, called, is_recursive
from gdatalog.engine.rule_plans import plan_rule
from gdatalog.engine.rules.signed_sum import algebra_of
from gdatalog.engine.scan_or_index import indexed, least_scanned
from gdatalog.importing import uncollected
from gdatalog.overhead import spending
from gdatalog.parser.syntax import Aggregate
from gdatalog.plan.conditions import When
from gdatalog.plan.join_plan import RulePlan, Version
from gdatalog.planner.check import CheckedRule, Schema, Stratum
from gdatalog.planner.check.checked import rule_text
from gdatalog.planner.order.plan_inputs import PlanInputs
from gdatalog.planner.passes import PassNotes
from gdatalog.planner.rule import RuleOptions, plan_over
from gdatalog.planner.statistics import Assumed, Looked, RelationStatistics, RuleStatistics
from gdatalog.storage.relation import Relation

# The assumed size of relations that are not evaluated yet.
UNKNOWN, DELTA = 100_000, 100


class StratumDraft:
    """What operators look at to decide whether they apply to a stratum."""

    def __init__(
        self,
        stratum: Stratum,
        inputs: StratumInputs,
        schemas: Mapping[str, Schema] | None = None,
        of: Stratum | None = None,
    ) -> None:
        """`schemas`: those of relations that a rewriting has added. `of`: what the stratum was
        before."""
        self.of = of or stratum
        self.added = schemas or {}
        self.stratum = stratum
        self.inputs = inputs.with_schemas(self.added) if self.added else inputs
        self.context = inputs.context
        self._plans: dict[tuple[int, bool], RulePlan] = {}
        self._recursive: dict[int, bool] = {}
        self._optima: dict[str, Mapping[int, str]] | None = None

    def met(self, conditions: Collection[When]) -> bool:
        """Whether an earlier call over the same rows met one of these conditions, so that another
        operator took over, or is expected to."""
        plans, relation = self.inputs.plans, self.inputs.relation
        params = tuple(sorted(self.context.scope.params.items()))
        return any(plans.holds((each, params), self.of, relation) for each in conditions)

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

    @property
    def later(self) -> list[RulePlan]:
        """The plans of recursive rules over new rows."""
        plans = []
        for rule in self.recursive_rules:
            plans.append(self.plan(rule, first=False))
        return plans

    @property
    def optima(self) -> Mapping[str, Mapping[int, str]]:
        """The relations that keep the best value of each group: the columns of these values, and
        whether the best is the least or the greatest."""
        if self._optima is None:
            self._optima, rules = {}, self.stratum.rules
            for name in self.stratum.relations:
                kinds = optimum_columns([rule for rule in rules if rule.head.name == name])
                if kinds:
                    self._optima[name] = kinds
        return self._optima

    @property
    def limited(self) -> bool:
        """Whether `.limitsize` stops one of its relations."""
        return bool(self.context.limit_sizes.keys() & set(self.stratum.relations))

    @property
    def read_rows(self) -> int:
        """How many rows the rules read, with the stratum's own data."""
        names = {atom.name for rule in self.stratum.rules for atom in rule.atoms}
        below = names - set(self.stratum.relations)
        own = sum(count_of(part) for parts in self.inputs.seeds.values() for part in parts)
        return own + sum(self.inputs.relation(name).length for name in below)

    @property
    def planned(self) -> PlannedRules:
        """The stratum with the plans of all rules."""
        plans = []
        for rule in self.stratum.rules:
            first, later = self.plan(rule, first=True), None
            if self.recursive(rule):
                later = self.plan(rule, first=False)
            plans.append((first, later))
        return PlannedRules(self.stratum, tuple(plans), tuple(self.added.values()))

    def plan(self, rule: CheckedRule, first: bool) -> RulePlan:
        """The plan of a rule in the first round, or in later ones: one that was kept, or a new
        one."""
        found = self._plans.get((id(rule), first))
        if found is not None:
            return found
        inputs, context, plans = self.inputs, self.context, self.inputs.plans
        on_cpu, values = context.device is CPU, context.scope.params
        options: RuleOptions = {"first": first, "scans": None, "algebra": None}
        tries: Sequence[int | None] = (None,)
        if not self.stratum.recursive and context.cluster is None:
            # Sums and scans run on one machine, as a whole.
            if context.settings.algebra != "never" and (
                rule.aggregated or Aggregate in map(type, rule.parts)
            ):
                options["algebra"] = algebra_of(context.settings, on_cpu, context.limits)
            least = least_scanned(context.settings) if on_cpu else None
            tries = (None,) if least is None else (least, None)
        device = "" if options["algebra"] is None else context.device.name  # only sums differ
        # Statistics of rows on the host do not count as device memory.
        here = nullcontext() if on_cpu else on_the_host(context.limits)
        work = context.limits.watch.work("planning", called(self.stratum, rule))
        with here, work, spending("planning"):
            for least in tries:
                options["scans"] = least
                plan = plans.found(rule, first, inputs.relation, values, least, device)
                if plan is None:
                    given, read = self._given(rule)
                    context.limits.poll()
                    recursive = self.stratum.relations if self.stratum.recursive else ()
                    beside = inputs.param_types, given, recursive, not context.scope.bounded
                    rows = max([each.at_most for each in read.values()], default=0) * on_cpu
                    if takes_long([rule]):
                        plan = apart(partial(plan_rule, rule, *beside, **options))
                    elif rows >= cancellation.LATE:
                        plan = cancellable(rows, partial(plan_rule, rule, *beside, **options), None)
                    else:
                        with uncollected():
                            plan = plan_rule(rule, *beside, **options)
                    if context.passes is not None and given.notes is not None:
                        context.passes.plans.append((plan, given.notes.records))
                    plans.keep(rule, first, plan, read, given.looked, least, device)
                scans = context.thresholds.index_scans
                if least is not None and plan.joins and not indexed(plan, inputs.relation, scans):
                    break  # it scans
            assert plan is not None
            if context.cluster is not None and not self.recursive(rule):
                plan = self._where_it_lies(rule, plan) or plan
        self._plans[id(rule), first] = plan
        return plan

    def _given(self, rule: CheckedRule) -> tuple[PlanInputs, dict[str, Relation]]:
        """What a rule is planned by, and the finished relations that it reads."""
        inputs, context = self.inputs, self.context
        read: dict[str, Relation] = {}
        sizes, looked = RuleStatistics(), list[Looked]()
        for name in dict.fromkeys([atom.name for atom in rule.atoms]):
            if self.grows(name):
                arity = inputs.schemas[name].arity
                sizes.whole[name] = Assumed(UNKNOWN, UNKNOWN // 10, arity)
                sizes.new[name] = Assumed(DELTA, DELTA, arity)
            else:
                read[name] = relation = inputs.relation(name)
                context.device.hold(relation)
                sizes.whole[name] = relation.statistics
        notes = None if context.passes is None else PassNotes((rule_text(rule),), [])
        orders, values = inputs.plans.orders, context.scope.params
        return PlanInputs(cache(sizes), orders, context.thresholds, values, looked, notes), read

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
