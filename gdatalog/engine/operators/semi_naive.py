"""`SemiNaive`: rounds, in which rules read the rows derived since their last turn.

In a round each relation has its turn: each rule that reads it runs once for its delta, the rows
that were added since its last turn. Atoms of relations with earlier turns read all rows (`full`),
those with later turns the rows that have had their turn (`old`), so that no rows are joined twice.
Rows for a relation with a later turn are processed in the same round.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from gdatalog.engine.choose import ARRAYS
from gdatalog.engine.context import ExecutionContext, StratumInputs
from gdatalog.engine.derived import Derived, nbytes_of, together
from gdatalog.engine.device import CPU
from gdatalog.engine.fixpoint.delta import DeltaRelation
from gdatalog.engine.fixpoint.expected_spaces import expected_spaces
from gdatalog.engine.fixpoint.lattice_rounds import LatticeRounds, improves_for_ever, is_clamped
from gdatalog.engine.metrics import Round, RuleRound
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.base import LeafOperator
from gdatalog.engine.planned_rules import PlannedRules
from gdatalog.engine.prepared_rules import PreparedRules
from gdatalog.engine.replanning import Replanning
from gdatalog.engine.stratum_run import StratumRun, placed
from gdatalog.engine.variants import Variant
from gdatalog.errors import Caution, MemoryLimitError
from gdatalog.plan.conditions import LargeTurns, SmallRounds, When
from gdatalog.plan.join_plan import RulePlan, TrieRef
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.placement import Work
from gdatalog.planner.rewrite.dead_variables import split_at_dead_variables
from gdatalog.planner.rewrite.program_sizes import Expected
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.relation import Relation

NEW_ROWS = "new rows"  # the account's owner of a round's rows


@dataclass(slots=True)
class Came:
    """What rules added to a relation since its last turn: `parts` are candidate rows, `found` is
    the number of new rows that loops added. `both`: the rules with candidates, and how many rows
    their loops found."""

    parts: list[Derived] = field(default_factory=list)
    found: int = 0
    both: list[tuple[RuleRound, int]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.parts or self.found)


@dataclass(frozen=True, slots=True)
class SemiNaive(LeafOperator):
    """`projections` say where rules are split to project variables away early, into relations that
    no one else asks for (`passing`)."""

    of: PlannedRules
    projections: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "semi-naive rounds"

    @property
    def rules(self) -> Sequence[tuple[CheckedRule, RulePlan]]:
        return self.of.pairs

    @property
    def passing(self) -> tuple[str, ...]:
        return tuple(schema.name for schema in self.of.schemas) if self.projections else ()

    @property
    def rewriting(self) -> Callable[..., object] | None:
        """The pass that made its rules."""
        return split_at_dead_variables if self.projections else None

    def work(self, expected: Expected, context: ExecutionContext) -> Work:
        return replace(LeafOperator.work(self, expected, context), launches=ARRAYS)

    def prepare(self, context: ExecutionContext) -> PreparedRounds:
        return PreparedRounds(PreparedRules(self.of))

    def run(
        self, prepared: PreparedRounds, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations | When:
        rounds = Rounds(prepared, inputs)
        found = rounds.run(self.passing, until)
        for name in self.passing:
            inputs.context.limits.charge(name, 0)
        for record in (rounds.record,) if self.projections else ():
            record.how = (*record.how, *self.projections)
        return found


@dataclass(slots=True, eq=False)
class PreparedRounds:
    """What evaluations share: the rules, and the joins of each recursive one, with their compiled
    loops."""

    rules: PreparedRules
    joins: list[tuple[CheckedRule, list[Variant]]] = field(default_factory=list)


class Rounds(StratumRun):
    """One evaluation by rounds."""

    met: When | None = None
    variants: Sequence[Variant]
    replannings: Sequence[Replanning]

    def __init__(self, prepared: PreparedRounds, inputs: StratumInputs) -> None:
        super().__init__(prepared.rules, inputs)
        self.prepared = prepared

    def run(
        self, passing: Collection[str] = (), until: Sequence[When] = ()
    ) -> dict[str, Relation] | When:
        """Returns all relations except the `passing` ones, which no one asks for; or the condition
        of `until` that was met after a round."""
        self.until = until
        self._begin(passing)
        news: list[Round] = []
        with self.context.limits.watch.work("round", self.name, unit="rows") as work:
            for name in self.tables:
                self.deltas[name] = self.add(name, self.first(name))
                work.done += self.deltas[name].length
            self.record.end_round()
            self._expect(self.variants)
            try:
                while self._goes_on(news):
                    work.round = len(news) + 1
                    self.context.limits.poll()
                    done = self._round(work.round)
                    if done is None:
                        break
                    news.append(done)
                    for rule in self.replannings:
                        rule.look()
                    done.tell(work)
                    self._check_improving(done.number)
                    self.met = self._met(len(news), not any(done.new.values()))
                    if self.met is not None or self._full_enough():
                        break
            except MemoryLimitError as error:
                raise self.growth(error, news) from None
        if not (self.context.metrics.lasting or any(each.again for each in self.replannings)):
            self.prepared.joins = self.by_rule
        for variant in self.variants:  # they reference this object and so all rows
            variant.leave()
        self.replannings, self.variants = [], []
        self.context.limits.charge("rows followed", 0)
        return self.met or self.finished(passing)

    def _begin(self, passing: Collection[str]) -> None:
        """Prepares the rules, and the indexes of the growing relations that they read."""
        self.turns = 0  # of rules
        self.by_rule = by_rule = self._variants()
        self.variants = variants = [each for _, some in by_rule for each in some]
        self.replannings = [Replanning(self, rule, some) for rule, some in by_rule]
        self.sets = {n: each for n, each in self.tables.items() if isinstance(each, DeltaRelation)}
        read = [ref for each in variants for ref in each.growing]
        for ref in read if self.context.device is CPU else ():
            if ref.relation in self.sets:
                self.sets[ref.relation].indexed = True
        self.came = {name: Came() for name in self.tables}
        self.following: dict[str, list[Variant]] = {name: [] for name in self.tables}
        for variant in variants:
            self.following[variant.follows].append(variant)
        indexed = {name for name, table in self.sets.items() if table.indexed}
        self.olds_read = {ref.relation for ref in read if ref.version == "old"} - indexed
        for name in self.sets.keys() & set(passing):
            self.sets[name].passing = True

    def _goes_on(self, news: Sequence[Round]) -> bool:
        """Whether rows have not been followed yet; there is one round at least."""
        first = next(iter(self.tables))
        return bool(self.deltas[first].length or not news or any(self.came.values()))

    def _variants(self) -> list[tuple[CheckedRule, list[Variant]]]:
        """The joins of each recursive rule, one for the new rows of each of its atoms."""
        found, self.prepared.joins = self.prepared.joins, []
        if self.context.metrics.lasting:
            found = []  # its loops count
        for variant in (each for _, some in found for each in some):
            variant.enter(self)
            for loops in variant.loops.values():
                loops.renew(self.context.scope)
        return found or [
            (rule, [Variant(self, rule, plan, at) for at in range(len(plan.joins))])
            for rule, plan in self.of.later
        ]

    def _expect(self, variants: Sequence[Variant]) -> None:
        """Tells each relation the range of its future keys."""
        plans, relation = [variant.plan for variant in variants], self.inputs.relation
        known = dict.fromkeys(self.tables) | {n: table.space for n, table in self.sets.items()}
        spaces = expected_spaces(plans, known, relation, self.context.scope)
        for name, space in spaces.items():
            if name in self.sets:
                self.sets[name].expect(space)

    def _round(self, number: int) -> Round | None:
        """Runs the turn of each relation. Returns None if no new row was found."""
        first, *_ = self.tables
        new = dict.fromkeys(self.tables, 0)
        followed = False
        for name, table in self.tables.items():
            if number > 1 and name != first:
                new[name] = self._begin_turn(name)
            if not self.deltas[name].length:
                continue
            followed = True
            for variant in self._turn(name):
                self.turns += 1
                with placed(variant.rule):
                    rows, stats = variant.follow()
                came = self.came[variant.plan.relation]
                came.found += variant.found
                if rows:
                    self.context.limits.account.add(NEW_ROWS, sum(map(nbytes_of, rows)))
                    came.parts.append(together(rows))
                    came.both.append((stats, variant.found))
            if isinstance(table, DeltaRelation):
                table.runs.settle()
                if table.indexed:
                    index = table.runs.trie_nbytes + table.hash_indexes.nbytes
                    self.context.limits.charge(f"index of {name}", index)
            if name in self.olds_read:
                self.olds[name] = table.full()
        if not followed:
            return None
        new[first] = self._begin_turn(first)  # nothing more can be added to it
        return self._ended(number, new)

    def _ended(self, number: int, new: Mapping[str, int]) -> Round:
        total = {name: table.length for name, table in self.tables.items()}
        self.record.end_round()
        return Round(number, new, total)

    def _begin_turn(self, name: str) -> int:
        """Makes the rows added since a relation's last turn its delta; returns their number."""
        table, came = self.tables[name], self.came[name]
        if not came:
            if self.deltas[name].length:
                self.deltas[name] = Relation.empty(table.columns, table.types)
            return 0
        self.came[name] = Came()
        if name in self.olds_read:
            self.olds[name] = table.full()
        self.deltas[name] = self.add(name, came.parts, came.found)
        limits = self.context.limits
        limits.account.add(NEW_ROWS, -sum(map(nbytes_of, came.parts)))
        limits.charge(name, table.nbytes)
        limits.count(name, table.length)
        for stats, count in came.both:
            stats.new = None if stats.new is None else stats.new + count
        return self.deltas[name].length

    def behind(self, ref: TrieRef, follows: str, before: bool) -> bool:
        return ref.relation == follows and not before

    def _turn(self, name: str) -> Iterator[Variant]:
        """The variants for a relation's new rows. Those that read only its old rows run before its
        indexes get the new ones."""
        for before in (True, False):
            yield from [v for v in self.following[name] if v.before == before]
            if name in self.sets:
                self.sets[name].take_turn(not before)

    def _met(self, number: int, ended: bool) -> When | None:
        """The condition of `until` that is met after a round."""
        if not self.until:
            return None
        looked = sum(variant.looked for variant in self.variants)
        rows = sum(table.length for table in self.tables.values())
        for when in self.until:
            match when:
                case SmallRounds():
                    power = number & (number - 1) == 0
                    met = not ended and power and when.met(number, rows)
                case LargeTurns(least, each, most):
                    met = looked >= least and looked >= each * self.turns
                    met = met and self.context.limits.account.total <= most
                case _:  # the caller checks it
                    met = False
            if met:
                return when
        return None

    def _full_enough(self) -> bool:
        for name, size in self.context.limit_sizes.items():
            if name in self.tables and self.tables[name].length >= size:
                message = f"{name} has reached its .limitsize of {size} rows: the fixpoint stops"
                self.context.scope.cautions.setdefault(message, Caution(message))
                return True
        return False

    def _check_improving(self, number: int) -> None:
        """Raises an error for a derivation longer than the number of groups, which improves itself
        forever, unless `min(...)` or `max(...)` of two values bounds what is derived."""
        if not any(isinstance(table, LatticeRounds) for table in self.tables.values()):
            return
        groups = sum(table.length for table in self.tables.values())
        if number <= groups + 2 or any(map(is_clamped, self.stratum.rules)):
            return
        for name, table in self.tables.items():
            delta = self.deltas[name]
            if isinstance(table, LatticeRounds) and delta.length:
                rule = next(r for r in self.rules[name] if self.recursive(r))
                symbols = self.context.scope.symbols
                raise improves_for_ever(name, table.group(delta.keys, 0), symbols, rule)
