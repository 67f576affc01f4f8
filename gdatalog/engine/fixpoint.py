"""One stratum, evaluated: once if nothing in it is recursive, else semi-naively to a fixpoint.

A round runs each rule once for each recursive atom, with that atom reading what the round
before made (`delta`), atoms before it all rows (`full`), and atoms after it those that were
there before (`old`).

Above 300 lines, for the rounds and the errors that they tell read the same tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gdatalog.cpu_ops.evaluate import Scope
from gdatalog.engine.budget import chunk_rows
from gdatalog.engine.derived import Derived, Rows, in_order, relation_of, union_rows
from gdatalog.engine.device import CPU, Device
from gdatalog.engine.growing import Best, Growing, optimum_columns
from gdatalog.engine.knobs import Knobs
from gdatalog.engine.narrowing import TrieOf, narrowed
from gdatalog.engine.prepared import Plans
from gdatalog.engine.run import RuleRun, run_rule
from gdatalog.errors import Caution, EvaluationError, MemoryLimitError, Note
from gdatalog.executors.limits import Limits
from gdatalog.parser.syntax import Atom, Call
from gdatalog.plan.nodes import RulePlan, TrieRef, Version
from gdatalog.planner.checked import CheckedRule, Schema, Stratum
from gdatalog.planner.rules import plan_rule
from gdatalog.planner.sizes import Assumed, Size
from gdatalog.planner.walk import walk
from gdatalog.storage.keys import decode_value
from gdatalog.storage.relation import Relation
from gdatalog.storage.trie import Trie
from gdatalog.values import TypeName

# What is assumed of relations that are not there yet.
UNKNOWN, DELTA = 100_000, 100

# What a short text takes in the symbol table.
TEXT_BYTES = 160


@dataclass(slots=True)
class Round:
    """What a round of a fixpoint did, for the progress line and for errors."""

    number: int
    new: Mapping[str, int]
    total: Mapping[str, int]


@dataclass(slots=True)
class Surroundings:
    """What evaluating a stratum needs from outside of it."""

    schemas: Mapping[str, Schema]
    param_types: Mapping[str, TypeName]
    relation: Callable[[str], Relation]  # of the strata below
    scope: Scope
    limits: Limits
    memory: int
    limit_sizes: Mapping[str, int] = field(default_factory=dict)  # .limitsize
    on_round: Callable[[Stratum, Round], None] = lambda stratum, round_: None
    reports: list[RuleRun] | None = None
    force_chunk: int | None = None
    knobs: Knobs = Knobs()
    plans: Plans = field(default_factory=Plans)
    device: Device = CPU


class StratumRun:
    """The evaluation of one stratum."""

    def __init__(self, stratum: Stratum, seeds: Mapping[str, Sequence[Rows]], around: Surroundings):
        self.stratum = stratum
        self.seeds = seeds
        self.around = around
        self.ops = around.device.ops
        self.rules = {
            name: [rule for rule in stratum.rules if rule.head.name == name]
            for name in stratum.relations
        }
        self.tables: dict[str, Growing | Best] = {}
        self.deltas: dict[str, Relation] = {}
        self.olds: dict[str, Relation] = {}
        # What the rounds remember of rows they followed, by id of the step: of the plans of
        # `_rounds`, which live as long as this.
        self.lasting: dict[int, Any] = {}
        self.made = 0  # texts that were in no data
        for name in stratum.relations:
            schema = around.schemas[name]
            kinds = optimum_columns(self.rules[name])
            self.tables[name] = (
                Best(schema.columns, schema.types, kinds, around.scope.symbols, self.ops)
                if kinds
                else Growing(schema.columns, schema.types, self.ops)
            )

    def run(self, limit: int | None = None) -> dict[str, Relation]:
        """The stratum's relations; at most `limit` rows of the one there is, if given."""
        for name, table in self.tables.items():
            parts: list[Derived] = [*self.seeds.get(name, ())]
            for rule in self.rules[name]:
                plan = self.plan(rule, first=True)
                if plan.joins:
                    parts.append(self._run(plan, limit))
            if not self.stratum.recursive and isinstance(table, Growing):
                relation = relation_of(table.columns, table.types, parts, self.ops)
                self.around.device.hold(relation)
                self.around.limits.charge(name, relation.nbytes)
                return {name: relation}
            self.deltas[name] = self._add(table, parts)
        if self.stratum.recursive:
            self._rounds()
            self.around.limits.charge("rows followed", 0)
        for name, table in self.tables.items():
            self.around.limits.charge(name, table.nbytes)
            self.around.device.hold(table.full())
        return {name: table.full() for name, table in self.tables.items()}

    def _add(self, table: Growing | Best, parts: Sequence[Derived]) -> Relation:
        """Adds what rules have given; gives what of it is new."""
        return table.add(*union_rows([in_order(part, self.ops) for part in parts], self.ops))

    def recursive(self, rule: CheckedRule) -> bool:
        if not self.stratum.recursive or rule.body is None:
            return False
        names = set(self.stratum.relations)
        return any(atom.name in names for atom in _atoms(rule))

    # ---------------------------------------------------------------------------------- rounds

    def _rounds(self) -> None:
        plans = [
            self.plan(rule, first=False) for rule in self.stratum.rules if self.recursive(rule)
        ]
        news: list[Round] = []
        number = 0
        try:
            while any(delta.length for delta in self.deltas.values()):
                number += 1
                self.around.limits.poll()
                derived: dict[str, list[Derived]] = {}
                for plan in plans:
                    if any(self.deltas[name].length for name in plan.recursive_on):
                        rows = self._run(plan, None, self.lasting)
                        derived.setdefault(plan.relation, []).append(rows)
                if any(ref.version == "old" for p in plans for j in p.joins for ref in j.tries):
                    self.olds = {name: table.full() for name, table in self.tables.items()}
                self.deltas = {}
                for name, table in self.tables.items():
                    self.deltas[name] = self._add(table, derived.get(name, ()))
                    self.around.limits.charge(name, table.nbytes)
                news.append(
                    Round(
                        number,
                        {name: delta.length for name, delta in self.deltas.items()},
                        {name: table.length for name, table in self.tables.items()},
                    )
                )
                self.around.on_round(self.stratum, news[-1])
                self._check_improving(number, plans)
                if self._full_enough():
                    break
        except MemoryLimitError as error:
            raise self._growth(error, news) from None

    def _full_enough(self) -> bool:
        for name, size in self.around.limit_sizes.items():
            if name in self.tables and self.tables[name].length >= size:
                message = f"{name} has reached its .limitsize of {size} rows: the fixpoint stops"
                self.around.scope.cautions.setdefault(message, Caution(message))
                return True
        return False

    def _check_improving(self, number: int, plans: Sequence[RulePlan]) -> None:
        """A derivation longer than there are groups repeats one: it improves itself for ever.

        Not so where `min(...)` or `max(...)` of two values bounds what is derived.
        """
        if not any(isinstance(table, Best) for table in self.tables.values()):
            return
        groups = sum(table.length for table in self.tables.values())
        if number <= groups + 1 or any(map(_clamped, self.stratum.rules)):
            return
        for name, table in self.tables.items():
            delta = self.deltas[name]
            if isinstance(table, Best) and delta.length:
                symbols = self.around.scope.symbols
                group = ", ".join(
                    f"{column} = {decode_value(key, kind, symbols)!r}"
                    for column, key, kind in table.group(delta, 0)
                )
                rule = next(r for r in self.rules[name] if self.recursive(r))
                raise EvaluationError(
                    f"{name} improves for ever: a cycle makes the best value of "
                    f"({group or 'its one group'}) better each time around",
                    rule.span,
                    hint="look for a cycle of negative weight (for max: of positive weight)",
                )

    def _growth(self, error: MemoryLimitError, news: Sequence[Round]) -> MemoryLimitError:
        """The same error, with the rules that grow and by how much each round."""
        rounds = ", ".join(str(sum(n.new.values())) for n in news[-6:])
        names = " and ".join(self.stratum.relations)
        notes = [
            Note("this rule is recursive", rule.span)
            for rule in self.stratum.rules
            if self.recursive(rule)
        ]
        told = f"; new rows in the last rounds: {rounds}" if news else ""
        return MemoryLimitError(
            f"{error.message}, in round {len(news) + 1} of {names}{told}",
            notes[0].span if notes else None,
            notes=notes,
            hint="does the recursion end? A rule that makes new values can go on for ever. "
            "Otherwise raise the limit: gdatalog.connect(memory_limit=...) or --memory-limit",
        )

    # ----------------------------------------------------------------------------------- rules

    def plan(self, rule: CheckedRule, first: bool) -> RulePlan:
        """What a rule gives in the first round, or in the later ones."""
        around = self.around
        recursive = self.stratum.relations if self.stratum.recursive else ()

        def make(relation: Callable[[str], Relation]) -> RulePlan:
            def sizes(name: str, version: Version) -> Size:
                return self._sizes(name, version, relation)

            return plan_rule(
                rule, around.schemas, around.param_types, sizes, recursive, first=first
            )

        return around.plans.plan(rule, first, around.relation, make)

    def _sizes(self, name: str, version: Version, relation_of: Callable[[str], Relation]) -> Size:
        arity = self.around.schemas[name].arity
        if version == "delta":
            return Assumed(DELTA, DELTA, arity)
        if name in self.tables:
            return Assumed(UNKNOWN, UNKNOWN // 10, arity)
        relation = relation_of(name)
        self.around.device.hold(relation)
        return relation.statistics

    def _run(
        self, plan: RulePlan, limit: int | None, lasting: dict[int, Any] | None = None
    ) -> Derived:
        around = self.around
        limits = around.limits
        held = sum(limits.held.values())
        room = around.device.room(max(0, around.memory - held))
        limits.chunk = around.force_chunk or chunk_rows(plan, *room)
        report = None
        if around.reports is not None:
            report = next((r for r in around.reports if r.plan is plan), None)
            if report is None:
                report = RuleRun(plan)
                around.reports.append(report)
        texts = len(around.scope.symbols)
        trie_of: TrieOf = self._trie
        if around.device is CPU and not self.stratum.recursive and len(plan.joins) == 1:
            trie_of = narrowed(plan.joins[0], self._trie, self._finished, around.scope)
        found = run_rule(
            plan,
            trie_of,
            around.scope,
            limits,
            limit,
            report,
            lasting,
            around.knobs,
            around.device,
            partial(self._trie, device=CPU),
        )
        self.made += len(around.scope.symbols) - texts
        limits.charge(f"texts of {plan.relation}", self.made * TEXT_BYTES)
        return found

    def _finished(self, ref: TrieRef) -> Relation | None:
        return None if ref.relation in self.tables else self.around.relation(ref.relation)

    def _trie(self, ref: TrieRef, device: Device | None = None) -> Trie:
        if ref.version == "delta":
            relation = self.deltas[ref.relation]
        elif ref.version == "old":
            schema = self.around.schemas[ref.relation]
            relation = self.olds.get(ref.relation) or Relation.empty(schema.columns, schema.types)
        elif ref.relation in self.tables:
            relation = self.tables[ref.relation].full()
        else:
            relation = self.around.relation(ref.relation)
        device = device or self.around.device
        trie = device.trie(relation, ref)
        what = ("" if ref.version == "full" else f"{ref.version} ") + ref.relation
        device.charge(self.around.limits, what, relation)
        return trie


def plan_stratum(stratum: Stratum, around: Surroundings) -> list[tuple[CheckedRule, RulePlan]]:
    """The plans that evaluating a stratum would run, without running them."""
    run = StratumRun(stratum, {}, around)
    return [
        (rule, plan)
        for rule in stratum.rules
        for first in (True, False)
        if (plan := run.plan(rule, first=first)).joins
    ]


def _atoms(rule: CheckedRule) -> list[Atom]:
    return [part for part in walk(rule.body) if isinstance(part, Atom)] if rule.body else []


def _clamped(rule: CheckedRule) -> bool:
    nodes = [*rule.head.args, *([] if rule.body is None else [rule.body])]
    return any(
        isinstance(part, Call) and part.name in ("min", "max")
        for node in nodes
        for part in walk(node)
    )
