"""`Incremental`: a stratum continues from its old result when rows were added.

If a stratum is monotone in what was added (no negation or aggregate reads it, except a min or max
in the head), its relations keep all their rows. Each rule runs for the new rows of each of its
atoms in turn, with all rows of the other atoms, and then the fixpoint continues. New facts, and the
rows of new rules, come first.

Old rows are neither copied nor indexed again: a relation has several parts, and a join runs for
each combination of one part per relation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from math import isqrt
from typing import Any

from gdatalog.engine.context import Operator, StratumInputs
from gdatalog.engine.derived import Derived, DistinctBlocks, union_rows
from gdatalog.engine.draft import DELTA
from gdatalog.engine.fixpoint.lattice_rounds import MaintainedLattice, optimum_columns
from gdatalog.engine.fixpoint.maintained import MaintainedRelation, rows_with
from gdatalog.engine.fixpoint.nearby import ByBitmap, led_to, nearby
from gdatalog.engine.metrics import Round
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.again import Again
from gdatalog.engine.operators.base import LeafOperator
from gdatalog.engine.operators.fallback import WithFallback
from gdatalog.engine.operators.semi_naive import PreparedRounds, Rounds
from gdatalog.engine.planned_rules import PlannedRules
from gdatalog.engine.prepared_rules import PreparedRules
from gdatalog.engine.rule_plans import plan_rule
from gdatalog.engine.rules.index_lookup import IndexLookup, applies
from gdatalog.engine.variants import alone
from gdatalog.errors import MemoryLimitError
from gdatalog.plan.cells import over_parts
from gdatalog.plan.conditions import Grown, When
from gdatalog.plan.effects import participants
from gdatalog.plan.join_plan import Branch, Guard, RulePlan, Step, TrieRef, Version
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.planner.order.plan_inputs import PlanInputs
from gdatalog.planner.statistics import Alike, Assumed, RelationStatistics, Statistics
from gdatalog.records import cached_property, dataclass, replace
from gdatalog.storage.relation import Relation
from gdatalog.storage.table import Array

LOOKED_UP = 16  # new rows up to which each is looked up by itself


@dataclass(frozen=True, slots=True)
class Incremental(LeafOperator):
    """Keeps the relations, and adds the rows that follow from new rows of the `changed` relations,
    or from new rules and facts. Rules are planned for the deltas that come."""

    stratum: Stratum
    changed: tuple[str, ...]

    def __str__(self) -> str:
        news = f"new rows of {', '.join(self.changed)}" if self.changed else "new rules and facts"
        return f"incremental maintenance: what follows from {news} is added"

    def run(
        self, prepared: Any, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations | When:
        return Maintenance(self.stratum, inputs).follow(until)


def of_news(stratum: Stratum, inputs: StratumInputs) -> Operator:
    """The maintenance of a stratum; if too many rows follow, it is evaluated again."""
    assert inputs.since is not None
    grown = Grown(inputs.context.thresholds.news_derived_most)
    first = Incremental(stratum, tuple(sorted(inputs.since.rows)))
    return WithFallback(first, (grown,), Again(stratum, "news"))


@dataclass(frozen=True, slots=True)
class DeltaJoin:
    """A join for the new rows of relation `follows`, which have these `columns`. `lookup`: what it
    is for each of them, if it only looks rows up; `same`: the columns that it gives, if it reads
    nothing else."""

    plan: RulePlan
    follows: str
    columns: tuple[str, ...]
    lookup: IndexLookup | None
    same: tuple[int, ...] | None

    @staticmethod
    def of(plan: RulePlan) -> DeltaJoin:
        (join,) = plan.joins
        assert join.given is not None
        slots = join.given.slots
        alone = not (join.steps or join.tries or plan.gathers)
        own = alone and join.orbit == 1 and all(expr in slots for expr in plan.head)
        same = tuple(slots.index(expr) for expr in plan.head) if own and plan.head else None
        names = tuple(slot.name for slot in slots)
        return DeltaJoin(plan, join.given.relation, names, applies(plan, given=True), same)


class Maintenance(Rounds):
    """One evaluation that continues from known relations."""

    def __init__(self, stratum: Stratum, inputs: StratumInputs) -> None:
        super().__init__(PreparedRounds(PreparedRules(PlannedRules(stratum, ()))), inputs)
        assert inputs.since is not None
        self.since = since = inputs.since
        self.read = frozenset(since.rows).union(stratum.relations)
        self._delta_joins: dict[int, Sequence[DeltaJoin]] = {}  # by the ids of rules

    @cached_property
    def tables(self) -> dict[str, Any]:
        """The relations with what is added to them."""
        return {
            name: MaintainedLattice(relation, kinds, self.context.scope.symbols, self.ops)
            if (kinds := optimum_columns(self.rules[name]))
            else MaintainedRelation(relation, self.ops)
            for name, relation in self.since.known.items()
        }

    def follow(self, until: Sequence[When]) -> Relations | When:
        """Returns the relations with all rows that follow from new rows, from the inputs' seeds,
        and from new rules; or the condition of `until` that was met, because too many follow."""
        seeds = self.inputs.seeds
        derived: dict[str, list[Derived]] = {name: list(rows) for name, rows in seeds.items()}
        self.deltas = dict(self.since.rows)
        for rule in self.stratum.rules:
            found = self._of_new_rule(rule) if rule in self.since.rules else self._of_new_rows(rule)
            derived.setdefault(rule.head.name, []).extend(found)
        rounds: list[Round] = []
        try:
            with self.context.limits.watch.work("round", self.name, unit="rows") as work:
                while self._take(derived):
                    work.round = len(rounds) + 1
                    self.context.limits.poll()
                    for when in (each for each in until if isinstance(each, Grown)):
                        for name, table in self.tables.items():
                            if table.came > max(when.least, self.since.known[name].at_most):
                                return when
                    if not self.stratum.recursive:
                        break
                    derived = {}
                    for rule in self.stratum.rules:
                        derived.setdefault(rule.head.name, []).extend(self._of_new_rows(rule))
                    new = {name: delta.length for name, delta in self.deltas.items()}
                    rounds.append(self._ended(len(rounds) + 1, new))
                    rounds[-1].tell(work)
                    self._check_improving(len(rounds))
        except MemoryLimitError as error:
            raise self.growth(error, rounds) from None
        self.record.end({name: table.length for name, table in self.tables.items()})
        return {name: table.finished() for name, table in self.tables.items()}

    def _take(self, derived: Mapping[str, Sequence[Derived]]) -> bool:
        """Adds derived rows; the new ones are the delta. Returns whether there are any."""
        self.deltas = {}
        for name, table in self.tables.items():
            parts = derived.get(name, ())
            rows = union_rows(parts, self.ops)
            self.deltas[name] = new = table.add(*rows)
            self.record.derived(name, parts, new, self.ops)
            self.context.limits.charge(name, table.nbytes)
        return any(delta.length for delta in self.deltas.values())

    # ----------------------------------------------------------------------------------- rules

    def _of_new_rule(self, rule: CheckedRule) -> Iterator[Derived]:
        """All new rows of a rule."""
        inputs = self.inputs
        given = PlanInputs(self._sizes_of, inputs.plans.orders, self.context.thresholds)
        stored = not self.context.scope.bounded
        plan = plan_rule(rule, inputs.param_types, given, stored=stored)
        for join in range(len(plan.joins)):
            yield from self._by_parts(alone(plan, join), True)

    def _of_new_rows(self, rule: CheckedRule) -> Iterator[Derived]:
        """The rows that a rule derives from the new rows of each of its atoms."""
        most = self.context.thresholds.news_breadth_first
        for join in self._joins_of(rule):
            delta = self.deltas.get(join.follows)
            if delta is None or not delta.length:
                continue
            found = self._looked_up(join, delta)
            if found is not None:
                yield from found
            else:
                yield from self._by_parts(join.plan, delta.length > most)

    def _joins_of(self, rule: CheckedRule) -> Sequence[DeltaJoin]:
        """One join for each atom that may have new rows, with all rows of the other atoms; planned
        once while the relations have about as many rows."""
        found = self._delta_joins.get(id(rule))
        if found is None:
            inputs, read = self.inputs, self.read

            def make(sizes: Statistics) -> Sequence[DeltaJoin]:
                given = PlanInputs(sizes, inputs.plans.orders, self.context.thresholds)
                plan = plan_rule(
                    rule, inputs.param_types, given, read,
                    first=False, old="full", stored=not self.context.scope.bounded,
                )  # fmt: skip
                return [DeltaJoin.of(alone(plan, at)) for at in range(len(plan.joins))]

            found = inputs.plans.delta_joins(rule, read, self._sizes_of, make)
            self._delta_joins[id(rule)] = found
        return found

    def _looked_up(self, join: DeltaJoin, delta: Relation) -> list[Derived] | None:
        """What a join gives for a few rows, if they only look up what is indexed."""
        if self.context.metrics.lasting:  # it shows what each step does
            return None
        if join.same is not None:
            rows = delta.rows
            return [DistinctBlocks([tuple(rows[at] for at in join.same)], delta.length)]
        if join.lookup is None or delta.length > LOOKED_UP:
            return None
        (ref,) = join.lookup.plan.joins[0].tries
        relation = self.named(ref.relation)
        keys = [column.tolist() for column in delta.rows]
        every = []
        for at in range(delta.length):
            row = dict(zip(join.columns, [column[at] for column in keys], strict=True))
            found = join.lookup.of_parts(
                relation, self.context.scope, self.context.limits, None, row
            )
            if found is None:
                return None
            every += found
        return [DistinctBlocks([rows for rows, _ in every], sum(count for _, count in every))]

    def _by_parts(self, plan: RulePlan, large: bool) -> Iterator[Derived]:
        """Runs a plan of one join for each combination of parts of the relations that it reads.

        Negations and counts need all rows at once and are not split.
        """
        (join,) = plan.joins
        whole, thresholds = _asked_as_a_whole(join.steps), self.context.thresholds
        choices: list[list[TrieRef]] = []
        replaced: dict[TrieRef, Relation] = {}
        led: Mapping[int, Array] = {}
        if join.given is not None and not large:
            led = led_to(join, self.rows_of(join)[0])
        for number, ref in enumerate(join.tries):
            relation = self.named(ref.relation)
            near = None
            if number in led and number not in whole:
                by_bitmap = self._by_bitmap(ref.relation, relation)
                near = nearby(relation, ref, by_bitmap, led[number], thresholds)
            parts = relation.parts if near is None else (near,)
            if number in whole or ref.ranked or ref.weighted or parts == (relation,):
                choices.append([ref])
                continue
            names = (f"{ref.relation} ({number}, {at + 1})" for at in range(len(parts)))
            own = [replace(ref, relation=name) for name in names]
            replaced.update(zip(own, parts, strict=True))
            choices.append(own)
        for tries in product(*choices):
            chosen = replace(plan, joins=(replace(over_parts(join), tries=tries),))
            forced = self.context.settings.strategy
            quick = "levelwise" if forced == "auto" and not large else forced
            yield self.run_plan(chosen, None, parts=replaced, strategy=quick)

    def _by_bitmap(self, name: str, relation: Relation) -> ByBitmap:
        """What looks rows of a relation up in its bitmap, if there is one."""
        table = self.tables.get(name)
        if isinstance(table, MaintainedRelation):
            return table.rows_with
        return partial(rows_with, relation)

    def _sizes_of(self, name: str, version: Version) -> RelationStatistics:
        if version == "delta":
            return Assumed(DELTA, DELTA, self.inputs.schemas[name].arity)
        table = self.tables.get(name)
        if table is None:
            relation = self.inputs.relation(name)
            return Alike(relation.parts[0].statistics, relation.at_most)
        if table.length > self.context.thresholds.news_statistics_most:
            return Assumed(table.length, isqrt(table.length), self.inputs.schemas[name].arity)
        return Alike(table.known.parts[0].statistics, table.length)


def _asked_as_a_whole(steps: Sequence[Step], inside: bool = False) -> set[int]:
    """The tries that need all rows at once: those of negations and aggregates."""
    found: set[int] = set()
    for step in steps:
        if inside:
            found.update(part.trie for part in participants(step))
            if isinstance(step, Guard):
                found.add(step.trie)
        if isinstance(step, Branch):
            for alternative in step.alternatives:
                found |= _asked_as_a_whole(alternative, inside or step.mode != "exists")
    return found
