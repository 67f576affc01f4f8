"""Queries bound to the relations that they read.

While a catalog stays the same, so do the relations below a query, if no parameter decides their
rows. A query that is asked again over the same catalog only runs what depends on its parameters:
its own rules, and the rules of relations of which it needs a part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from gdatalog.calls import GiveUp, NotOnDevice
from gdatalog.engine.compiler.compiled import Compiled
from gdatalog.engine.context import ExecutionContext, StratumInputs
from gdatalog.engine.counting import only_count
from gdatalog.engine.derived import relation_of
from gdatalog.engine.device import CPU
from gdatalog.engine.encoding import may_pay_now
from gdatalog.engine.evaluator.asked_parts import AskedParts, asked_parts
from gdatalog.engine.evaluator.demanded import PartOf, demanded_for, speaking_plainly
from gdatalog.engine.evaluator.evaluator import Evaluator
from gdatalog.engine.evaluator.kept_plans import KeptPlans
from gdatalog.engine.exact_counts import SumUnsuited
from gdatalog.engine.fixpoint.lattice_rounds import optimum_columns
from gdatalog.engine.operators.once import Once
from gdatalog.engine.operators.placed import context_there
from gdatalog.engine.planned_rules import called
from gdatalog.engine.rules import index_lookup
from gdatalog.engine.rules.index_lookup import IndexLookup
from gdatalog.engine.rules.operator import Refusal
from gdatalog.engine.stratum_plan import StratumPlan
from gdatalog.engine.stratum_planner import plan_stratum, run
from gdatalog.engine.stratum_run import placed
from gdatalog.limits import accounted
from gdatalog.parser.syntax import Compare, Param
from gdatalog.planner.check import Schema, Stratum
from gdatalog.planner.check.walk import conjuncts
from gdatalog.planner.statistics import Looked
from gdatalog.records import dataclass, field
from gdatalog.storage.relation import Relation

if TYPE_CHECKING:
    from gdatalog.engine.rules.launched import LaunchedRule


@dataclass(slots=True, eq=False)
class BoundRules:
    """A query whose rules read only relations that are at hand."""

    compiled: Compiled
    stratum: Stratum
    relations: Mapping[str, Relation]
    lookup: IndexLookup | None = None  # if one serves all values of its parameters and all limits
    plan: StratumPlan | None = None  # for parameters of a selectivity as was `looked` at
    looked: tuple[Looked, ...] = ()
    launched: LaunchedRule | None = None  # the plan's loops, if they are prepared on a device
    unsuited: bool = False  # whether they turned out not to suit

    @property
    def schema(self) -> Schema:
        return self.compiled.checked.schemas[self.stratum.relations[0]]

    def relation(self, context: ExecutionContext, limit: int | None) -> Relation:
        found = self._looked_up(context, limit)
        if found is not None:
            context.metrics.devices.append(CPU.name)
            return found
        with accounted(context.limits, context.device.name):
            plan = self._kept(context) if limit is None else None
            if plan is not None and self.launched is not None:
                there = context if plan.placed is None else context_there(context, plan.device)
                found = self._again(there)
                if found is not None:
                    context.metrics.devices.append(plan.device)
                    return found
            checked, plans = self.compiled.checked, self.compiled.planned.plans
            inputs = StratumInputs(
                context, checked.schemas, checked.param_types, self.relations.__getitem__,
                plans, {name: [] for name in self.stratum.relations}, limit,
            )  # fmt: skip
            if plan is None:
                plan = plan_stratum(self.stratum, inputs)
                if self.plan is None:
                    self._keep(plan)
            relation = run(plan, inputs)[self.stratum.relations[0]]
            if plan is self.plan and plan.device != CPU.name and not self.unsuited:
                self._prepare(plan, context)
            return relation

    def _kept(self, context: ExecutionContext) -> StratumPlan | None:
        """The plan that was kept, if it serves these parameters, and codes would not pay by now."""
        plans, params = self.compiled.planned.plans, context.scope.params
        if self.plan is None:
            return None
        alike = not self.looked or plans.alike(self.looked, self.relations.__getitem__, params)
        if may_pay_now(self.stratum, plans, context.thresholds) or not alike:
            self.plan = self.launched = None
        return self.plan

    def _prepare(self, plan: StratumPlan, context: ExecutionContext) -> None:
        """Prepares the loops of the only rule of a plan that has run on a device."""
        from gdatalog.engine.rules.launched import launched, launches

        rules, (own, *others) = self.stratum.rules, [own for _, own in plan.rules]
        context = context if plan.placed is None else context_there(context, plan.device)
        if others or optimum_columns(rules) or not launches(own, context):
            self.unsuited = True
            return
        label = called(self.stratum, rules[0])
        self.launched = launched(own, self.relations.__getitem__, context, label)

    def _again(self, context: ExecutionContext) -> Relation | None:
        """The answer, if the loops are prepared; None if they are gone, or do not suit."""
        assert self.launched is not None
        (rule,), schema = self.stratum.rules, self.schema
        with placed(rule):
            try:
                found = self.launched.run(context)
            except (GiveUp, NotOnDevice, SumUnsuited, MemoryError) as reason:
                found = Refusal(str(reason))
        if found is None or isinstance(found, Refusal):
            self.launched, self.unsuited = None, found is not None
            context.limits.account.restore({})
            return None
        if self.launched.counts:
            assert isinstance(found, tuple)
            return Relation(schema.columns, schema.types, *found)
        relation = relation_of(schema.columns, schema.types, [found], context.device.ops)
        if not relation.store.on_host:
            context.device.hold(relation)
            context.limits.charge(schema.name, relation.nbytes)
        return relation

    def _looked_up(self, context: ExecutionContext, limit: int | None) -> Relation | None:
        """The answer, if it is a look-up by an index that is there."""
        lookup, scope, limits = self.lookup, context.scope, context.limits
        if lookup is None or context.device is not CPU:
            return None
        (ref,) = lookup.plan.joins[0].tries
        relation, schema = self.relations[ref.relation], self.schema
        found = lookup.of_parts(relation, scope, limits, limit)
        if found is None:
            return None
        if len(found) == 1 and lookup.in_order:
            ((rows, count),) = found
            return Relation(schema.columns, schema.types, rows, count)
        blocks, count = [rows for rows, _ in found], sum(count for _, count in found)
        distinct = len(found) == 1 or len(ref.columns) == len(relation.types)
        return Relation.of_blocks(schema.columns, schema.types, blocks, count, distinct)

    def _keep(self, plan: StratumPlan) -> None:
        """Keeps a plan. A look-up serves all values of parameters, because it reads no more than
        the rows below its keys."""
        rules = [rule for _, rule in plan.rules]
        scans = any(join.scan for rule in rules for join in rule.joins)
        if scans or not isinstance(plan.main, Once):
            return
        self.lookup = index_lookup.applies(rules[0]) if len(rules) == 1 else None
        if self.lookup is not None and self._serves_any(self.lookup):
            self.compiled.planned.lookups[self.stratum.relations] = self.lookup
        self.plan, self.unsuited = plan, False
        self.looked = self.compiled.planned.plans.looked_at(rules)

    def _serves_any(self, lookup: IndexLookup) -> bool:
        """Whether a look-up serves other rows too: nothing that holds only for these was used."""
        (rule,), (ref,) = self.stratum.rules, lookup.plan.joins[0].tries
        tests = sum(isinstance(part, Compare) for part in conjuncts(rule.body))
        return tests == len(lookup.cuts) and not self.relations[ref.relation].symmetric


@dataclass(slots=True, eq=False)
class BoundPart:
    """A query for which the needed part of other relations is evaluated. `known`: the relations
    that do not depend on its parameters, all of them once it has been `answered`. `asked`: the
    questions for parts of these views so far; `then`: what the query is bound to since the whole
    views are evaluated."""

    compiled: Compiled
    name: str
    part: PartOf
    known: Mapping[str, Relation]
    asked: AskedParts | None
    answered: bool = False
    plans: KeptPlans = field(default_factory=KeptPlans)
    then: Bound | None = None

    def relation(self, context: ExecutionContext, limit: int | None) -> Relation | None:
        """None: most of a relation would be evaluated."""
        if self.then is None and self.asked is not None:
            evaluator = self.part.whole(context, self.compiled.planned)
            if self.asked.evaluated(evaluator):
                self.then = bind(evaluator, self.compiled)
        if self.then is not None:
            return self.then.relation(context, limit)
        found = self.part.evaluator(context, self.known, self.plans)
        if found is None:
            return None
        with speaking_plainly():
            relation = found.relation(self.name, limit)
        if self.asked is not None:
            self.asked.count(found.known)
        if not self.answered:
            lasting, given = self.part.lasting(found, self.name), self.part.demanded.program.given
            whole = self.part.whole(context, self.compiled.planned)
            users = {own: given.get(own, own) for own in lasting}
            self.known = {n: lasting[n] for n in lasting if not _by_values(whole, [users[n]])}
            self.answered = True
        return relation


@dataclass(slots=True, eq=False)
class BoundStrata:
    """A query that reads relations whose rows its parameters decide, or are only counted.
    `evaluator`: of the call that bound it, which may have evaluated the answer for its own values.
    `known`: the relations that do not depend on parameters, all of them once it has been
    `answered`."""

    compiled: Compiled
    name: str
    evaluator: Evaluator
    known: Mapping[str, Relation]
    answered: bool = False
    plans: KeptPlans = field(default_factory=KeptPlans)

    def relation(self, context: ExecutionContext, limit: int | None) -> Relation:
        before = self.evaluator
        answer = before.known.pop(self.name, None)
        if answer is not None and before.context.scope.params == context.scope.params:
            self.answered = True
            return answer
        found = Evaluator(
            context, before.program, before.stored, before.facts, before.results, before.keep,
            before.asked, known=dict(self.known), kept_plans=self.plans, number=before.number,
        )  # fmt: skip
        relation = found.relation(self.name, limit)
        if not self.answered:
            self.known, self.answered = _lasting(found), True
        return relation


Bound = BoundRules | BoundPart | BoundStrata


def bind(evaluator: Evaluator, compiled: Compiled) -> Bound | None:
    """Binds a query to the relations that it reads; None if these depend on more than the catalog.
    Evaluates them if necessary."""
    context, program, name = evaluator.context, evaluator.program, compiled.asked
    if context.cluster is not None:
        return None
    if context.scope.bounded or compiled.limit_sizes or compiled.sources:
        return None
    if any(ask.directive is not None for ask in compiled.asks) or name in compiled.validity.broken:
        return None
    stratum = program.homes.get(name)
    if stratum is None or stratum.recursive or evaluator.keep([name]) or evaluator.has_seeds(name):
        return None
    found = demanded_for(evaluator, name)
    if found is not None and found.planned is not None:
        asked = asked_parts(evaluator, found)
        if asked is not None and asked.evaluated(evaluator):
            return bind(evaluator, compiled)
        part, known = PartOf.of(found, evaluator), _lasting(evaluator)
        return BoundPart(compiled, name, part, known, asked)
    names = program.reads(stratum)
    lookup = program.lookups.get(stratum.relations)
    if lookup is None and not all(map(evaluator.checked.schemas.get, names)):
        return None
    if lookup is None and _by_values(evaluator, names):
        if program.checked.lists:
            return None
        evaluator.known = _lasting(evaluator)  # rows of this call are not kept
        return BoundStrata(compiled, name, evaluator, evaluator.known)
    if any(_may_be_counted(evaluator, stratum, read) for read in names):
        evaluator.relation(name)
        if not all(map(evaluator.known.__contains__, names)):  # their rows were only counted
            return BoundStrata(compiled, name, evaluator, _lasting(evaluator))
    relations = {read: evaluator.relation(read) for read in names}
    return BoundRules(compiled, stratum, relations, lookup)


def _lasting(evaluator: Evaluator) -> dict[str, Relation]:
    """The relations that are evaluated and do not depend on parameters; not those of counts."""
    made = evaluator.known.keys() & evaluator.checked.schemas.keys()
    return {name: evaluator.known[name] for name in made if not _by_values(evaluator, [name])}


def _may_be_counted(evaluator: Evaluator, reader: Stratum, name: str) -> bool:
    """Whether a stratum may count the rows of a relation that would have to be evaluated."""
    home = evaluator.program.homes.get(name)
    if home is None or not home.recursive or evaluator.is_current(home):
        return False
    return only_count([reader], home.relations)


def _by_values(evaluator: Evaluator, names: Collection[str]) -> bool:
    """Whether values of parameters decide the rows of relations, or of those below them."""
    program, seen = evaluator.program, set(names)
    waiting = [*seen]
    while waiting:
        name = waiting.pop()
        if name in program.checked.lists or evaluator.facts(name).params:
            return True
        stratum = program.homes.get(name)
        if stratum is None:
            continue
        if any(isinstance(part, Param) for rule in stratum.rules for part in rule.parts):
            return True
        more = {*stratum.relations, *program.reads(stratum)} - seen
        seen |= more
        waiting += more
    return False
