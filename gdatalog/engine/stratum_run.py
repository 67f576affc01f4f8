"""The run of a stratum's rules: its growing relations, the indexes that it reads, its metrics.

It runs each rule of a nonrecursive stratum once; the operators of recursion extend it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial

from gdatalog import cancellation
from gdatalog.account import RAISE
from gdatalog.cancellation import cancellable
from gdatalog.chunks import chunk_rows
from gdatalog.engine.context import RuleInputs, Sources, StratumInputs
from gdatalog.engine.derived import Derived, count_of, relation_of, union_rows
from gdatalog.engine.device import CPU, HOST
from gdatalog.engine.fixpoint.lattice_rounds import optimum_columns
from gdatalog.engine.metrics import Round, RuleRound, RuleRun, StratumMetrics, Way, measured
from gdatalog.engine.planned_rules import PlannedRules, is_recursive
from gdatalog.engine.prepared_rules import PreparedRules
from gdatalog.engine.rules.evaluate import run_rule
from gdatalog.engine.rules.joins import LocalJoins
from gdatalog.engine.rules.signed_sum import Sum
from gdatalog.engine.semi_joins import semi_joined
from gdatalog.engine.stratum_tables import (
    NO_PARTS,
    Narrowed,
    Parts,
    StratumTables,
)
from gdatalog.errors import NOWHERE, MemoryLimitError, Note
from gdatalog.overhead import spending
from gdatalog.plan.join_plan import JoinPlan, RulePlan, TrieRef
from gdatalog.plan.placement import ExecutorChoice
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.new_values import makers_of_values
from gdatalog.settings import Strategy
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_ops import SeenRows


class StratumRun(StratumTables):
    """One evaluation of a stratum's rules."""

    def __init__(self, of: PlannedRules | PreparedRules, inputs: StratumInputs):
        self.prepared_rules = rules = of if isinstance(of, PreparedRules) else PreparedRules(of)
        self.of = rules.of
        inputs = inputs.with_schemas(rules.schemas) if rules.schemas else inputs
        super().__init__(rules.of.stratum, rules.rules, inputs)
        self._record: StratumMetrics | None = None

    @property
    def name(self) -> str:
        """The relations as users call them, for progress reports."""
        return self.prepared_rules.name

    @property
    def record(self) -> StratumMetrics:
        """Its metrics, from the first rule on."""
        if self._record is None:
            self._record = self.context.metrics.begun(self.stratum, self.context.limits)
            self._record.plans = self.of.every
        return self._record

    def once(self, limit: int | None = None) -> dict[str, Relation]:
        """The only relation of a nonrecursive stratum; at most `limit` of its rows."""
        (name,) = self.rules
        parts = self.first(name, limit)
        if optimum_columns(self.rules[name]):
            self.add(name, parts)
            return self.finished()
        relation = self.relation(name, parts)
        self.context.device.hold(relation)
        self.context.limits.charge(name, self._held(relation))
        rows: dict[str, int] = {}
        if self.context.metrics.lasting:  # otherwise its rows are deduplicated on demand
            self.record.derived(name, parts, relation, self.ops)
            rows[name] = relation.length
        self.record.end(rows)
        return {name: relation}

    def relation(self, name: str, parts: Sequence[Derived]) -> Relation:
        """The union of rows of a relation."""
        schema = self.inputs.schemas[name]
        return relation_of(schema.columns, schema.types, parts, self.ops)

    def _held(self, relation: Relation) -> int:
        """The bytes of its rows, except for those that a device had no room for."""
        spilled = self.context.device is not CPU and relation.types and relation.store.on_host
        return 0 if spilled else relation.nbytes

    def first(self, name: str, limit: int | None = None) -> list[Derived]:
        """A relation's rows without recursive atoms: its data, facts, and rules."""
        parts: list[Derived] = [*self.inputs.seeds.get(name, ())]
        for rule, plan in self.prepared_rules.first(name):
            if plan.joins:
                with placed(rule):
                    parts.append(self.run_plan(plan, limit))
        return parts

    def finished(self, passing: Collection[str] = ()) -> dict[str, Relation]:
        """All relations except the `passing` ones."""
        tables = {name: table for name, table in self.tables.items() if name not in passing}
        for name, table in tables.items():
            self.context.limits.charge(name, table.nbytes)
            self.context.device.hold(table.full())
        self.record.end({name: table.length for name, table in self.tables.items()})
        return {name: table.full() for name, table in tables.items()}

    def add(self, name: str, parts: Sequence[Derived], found: int = 0) -> Relation:
        """Adds the rows that rules derived; returns the new ones, after those that loops found."""
        table = self.tables[name]
        count = found + sum(map(count_of, parts))
        if not parts:
            new = table.add((), 0)
        elif self.context.device is not CPU or count < cancellation.LATE:
            new = table.add(*union_rows(parts, self.ops))
        else:
            new = cancellable(count, lambda: table.add(*union_rows(parts, self.ops)))
        if self.context.metrics.lasting and (parts or not found):
            self.record.derived(name, parts, new.behind(found) if found else new, self.ops)
        return new

    def behind(self, ref: TrieRef, follows: str, before: bool) -> bool:
        """Whether an index of `old` rows gets the delta only after all rules have processed it.
        `before`: the calling rule follows the delta of `follows`, and runs before the indexes of
        that relation get it."""
        return True

    def recursive(self, rule: CheckedRule) -> bool:
        return is_recursive(self.stratum, rule)

    def tell_way(
        self, way: Way, plans: Sequence[RulePlan], rows: Mapping[str, int], executor: str
    ) -> None:
        """Reports a fixpoint to a profile. Its rules run as one: the first one's report has the
        rows and the costs of all."""
        self.record.way = way
        self.record.end(dict(rows))
        for number, plan in enumerate(plans):
            report = self.context.metrics.run_of(plan)
            if report is None:
                return
            if number == 0:
                report.device = self.context.device.name
                report.rows, report.seconds = sum(rows.values()), way.seconds
                report.costs += way.costs
                report.bytes = self.record.peak
            choice = ExecutorChoice(False, executor)
            report.executors = dict.fromkeys(range(len(plan.joins)), choice)
            report.saw(way.seen)

    def growth(
        self, error: MemoryLimitError, news: Sequence[Round] | None = None
    ) -> MemoryLimitError:
        """Adds the growing rules to the error and, of rounds, by how much they grow each round."""
        makers = makers_of_values(self.stratum)
        others = (rule for rule in self.stratum.rules if self.recursive(rule))
        rules = [*makers, *(rule for rule in others if rule not in makers)]
        hint = error.hint
        if makers:
            remedy = (hint or RAISE).rpartition("; or ")[2]
            hint = "does the recursion end? A rule that makes new values can go on for ever. "
            hint += f"Otherwise {remedy}"
        where = "the fixpoint" if news is None else f"round {len(news) + 1}"
        rounds = ", ".join(str(sum(n.new.values())) for n in (news or ())[-6:])
        recent = f"; new rows in the last rounds: {rounds}" if news else ""
        return MemoryLimitError(
            f"{error.message}, in {where} of {' and '.join(self.stratum.relations)}{recent}",
            rules[0].span if rules else None,
            notes=[Note("this rule is recursive too", rule.span) for rule in rules[1:]],
            hint=hint,
        )

    # ----------------------------------------------------------------------------------- rules

    def run_plan(
        self,
        plan: RulePlan,
        limit: int | None,
        lasting: dict[int, SeenRows] | None = None,
        parts: Parts = NO_PARTS,
        report: RuleRun | None = None,
        stats: RuleRound | None = None,
        strategy: Strategy | None = None,
    ) -> Derived:
        """Runs a rule; `parts`: the relations to build tries from, if these are others."""
        inputs, context = self.inputs, self.context
        limits = context.limits
        device = context.device if plan.left is None else CPU
        room = device.room(max(0, context.memory - limits.account.total))
        own = self.prepared_rules.prepared(plan, None if stats is None else stats.rule)
        limits.chunk = context.force_chunk or chunk_rows(own.levels, *room)
        report = report or context.metrics.run_of(plan)
        timed = self.record.time_of(plan) if report is None and stats is None else None
        if stats is None and (self.stratum.recursive or context.metrics.lasting):
            stats = self.record.running(plan.relation, own.rule)
        narrowed = None
        alone = len(plan.joins) == 1 and not plan.terms and not plan.within
        if alone and context.device is CPU and not self.stratum.recursive:
            with measured(report), spending("indexing"):
                narrowed = self._narrowed(plan.joins[0], parts)
        with limits.watch.work("joining", own.called), measured(timed):
            trie_of = partial(self.trie_of, parts=parts, narrowed=narrowed)
            sources = Sources(trie_of, self.rows_of, self.scanned_once)
            on_host = Sources(
                partial(self.trie_of, device=CPU, parts=parts), partial(self.rows_of, device=CPU)
            )
            found, beside = None, (limit, report, stats, lasting, on_host)
            if context.cluster is not None and self.reads_finished(plan):
                here = sources if context.device is CPU else on_host
                found = context.cluster.rule(plan, RuleInputs(here, context, *beside), inputs)
            if found is None:
                if strategy is not None:
                    context = context.forced(strategy)
                whole = plan if plan.left is not None else plan.otherwise or plan
                resident = self._resident(whole, parts)
                found = run_rule(plan, RuleInputs(sources, context, *beside, *resident), own.here)
        if stats is not None:
            self.record.ran(stats, report)
        return found

    def _narrowed(self, join: JoinPlan, parts: Parts) -> Narrowed:
        """The indexes of a join that are built of only the rows that matter to it; the relations
        that it reads do not grow."""
        relations = [
            parts[ref] if parts and ref in parts else self.inputs.relation(ref.relation)
            for ref in join.tries
        ]
        found = semi_joined(join, relations, self.context)
        for ref, (trie, seconds) in found.items():
            self.record_index(ref, trie, seconds)
        return {ref: trie for ref, (trie, _) in found.items()} if found else None

    def compile_ahead(self) -> None:
        """Compiles loops of the planned rules on other threads, after building the indexes that
        they read on this one."""
        device, account = self.context.device, self.context.limits.account
        inputs = RuleInputs(Sources(self.trie_of, self.rows_of, self.scanned_once), self.context)
        # If memory is short, the rule's own run reports it or counts in another way.
        with suppress(MemoryError), account.restoring(MemoryError):
            for _, plan in self.of.pairs:
                if device is not CPU and (plan.left or device.refuses(plan)):
                    continue
                if plan.terms:
                    Sum(plan, inputs).compile_ahead()
                elif device is not CPU and not plan.within:
                    LocalJoins(plan, inputs).compile_ahead()

    def _resident(self, plan: RulePlan, parts: Parts) -> tuple[Sources | None, bool]:
        """The host's tries for a rule that may run in cells on a device, and whether it is expected
        to need them."""
        on_cpu = self.context.device is CPU or plan.left is not None
        if on_cpu or self.stratum.recursive or plan.terms or not self.reads_finished(plan):
            return None, False
        from gdatalog.engine.host_tries import too_large

        sources = Sources(partial(self.trie_of, device=HOST, parts=parts), self.rows_of)
        return sources, too_large([plan], self.inputs.relation, self.context)


class placed:
    """Within this context, memory limit errors name the place of this rule."""

    __slots__ = ("_rule",)

    def __init__(self, rule: CheckedRule) -> None:
        self._rule = rule

    def __enter__(self) -> None:
        """Nothing is to do before an error."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MemoryLimitError) and error.span is None:
            span = self._rule.span
            error.span = span if span.source != NOWHERE.source else None
