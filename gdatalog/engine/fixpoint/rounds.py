"""Semi-naive evaluation of a recursive stratum.

In a round each relation has its turn: each rule that reads it runs once for its delta, the rows
that were added since its last turn. Atoms of relations with earlier turns read all rows (`full`),
those with later turns the rows that have had their turn (`old`), so that no rows are joined twice.
Rows for a relation with a later turn are processed in the same round.

The first plan assumes sizes, because there are no rows yet. After its rounds have read some rows,
and a relation or its delta has become sixteen times larger or smaller, the variable order is
searched again with the current sizes: at most three times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from gdatalog.cancellation import WorkItem
from gdatalog.engine.choose import FallbackMet
from gdatalog.engine.derived import Derived, nbytes_of, together
from gdatalog.engine.device import CPU
from gdatalog.engine.fixpoint import DELTA, UNKNOWN, StratumRun, placed
from gdatalog.engine.fixpoint.delta import DeltaRelation
from gdatalog.engine.fixpoint.lattice_rounds import LatticeRounds, improves_for_ever, is_clamped
from gdatalog.engine.fixpoint.spans import expected_spaces
from gdatalog.engine.fixpoint.variants import Variant
from gdatalog.engine.metrics import Round, RuleRound
from gdatalog.errors import Caution, MemoryLimitError
from gdatalog.plan import Join, TrieRef, Version
from gdatalog.plan.tuning import LargeTurns, SmallRounds, When
from gdatalog.planner import plan_rule
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.order import Assumed, RelationStatistics
from gdatalog.planner.order.search import PlanInputs
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


class Rounds(StratumRun):
    """Semi-naive rounds."""

    def run(self, passing: Collection[str] = (), until: Sequence[When] = ()) -> dict[str, Relation]:
        """Returns all relations except the `passing` ones, which no one asks for.

        Raises `FallbackMet` when a condition of `until` is met.
        """
        self.until = until
        self.turns = 0  # of rules
        by_rule = [(rule, self._variants(rule)) for rule in self.stratum.rules]
        self.variants = variants = [each for _, some in by_rule for each in some]
        self.replannings = [Replanning(self, rule, some) for rule, some in by_rule if some]
        self.sets = {n: each for n, each in self.tables.items() if isinstance(each, DeltaRelation)}
        read = [ref for each in variants for ref in each.growing]
        for ref in read if self.context.device is CPU else ():
            if ref.relation in self.sets:
                self.sets[ref.relation].indexed = True
        self.came = {name: Came() for name in self.tables}
        indexed = {name for name, table in self.sets.items() if table.indexed}
        self.olds_read = {ref.relation for ref in read if ref.version == "old"} - indexed
        for name in self.sets.keys() & set(passing):
            self.sets[name].passing = True
        with self.context.limits.watch.work("round", self.name, unit="rows") as work:
            for name in self.tables:
                self.deltas[name] = self._add(name, self.first(name))
                work.done += self.deltas[name].length
            self.record.end_round()
            self._expect(variants)
            self._rounds(variants, work)
        self.replannings, self.variants = [], []  # they reference this object and so all rows
        self.context.limits.charge("rows followed", 0)
        return self.finished(passing)

    def _variants(self, rule: CheckedRule) -> list[Variant]:
        """The joins of a rule, one for the new rows of each of its atoms."""
        if not self.recursive(rule):
            return []
        plan = self.plan(rule, first=False)
        return [Variant(self, rule, plan, at) for at in range(len(plan.joins))]

    def _expect(self, variants: Sequence[Variant]) -> None:
        """Tells each relation the range of its future keys."""
        plans, relation = [variant.plan for variant in variants], self.inputs.relation
        known = dict.fromkeys(self.tables) | {n: table.space for n, table in self.sets.items()}
        spaces = expected_spaces(plans, known, relation, self.context.scope)
        for name, space in spaces.items():
            if name in self.sets:
                self.sets[name].expect(space)

    def _rounds(self, variants: Sequence[Variant], work: WorkItem) -> None:
        news: list[Round] = []
        try:
            first = next(iter(self.tables))
            while self.deltas[first].length or not news or any(self.came.values()):
                work.round = len(news) + 1
                self.context.limits.poll()
                done = self._round(work.round, variants)
                if done is None:
                    break
                news.append(done)
                for rule in self.replannings:
                    rule.look()
                news[-1].tell(work)
                self._check_improving(news[-1].number)
                self._check(len(news), not any(news[-1].new.values()))
                if self._full_enough():
                    break
        except MemoryLimitError as error:
            raise self.growth(error, news) from None

    def _round(self, number: int, variants: Sequence[Variant]) -> Round | None:
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
            for variant in self._turn(name, variants):
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
        return Round(number, new, total, self.record.end_round())

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
        self.deltas[name] = self._add(name, came.parts, came.found)
        limits = self.context.limits
        limits.account.add(NEW_ROWS, -sum(map(nbytes_of, came.parts)))
        limits.charge(name, table.nbytes)
        limits.count(name, table.length)
        for stats, count in came.both:
            stats.new = None if stats.new is None else stats.new + count
        return self.deltas[name].length

    def behind(self, ref: TrieRef, follows: str, before: bool) -> bool:
        return ref.relation == follows and not before

    def _turn(self, name: str, variants: Sequence[Variant]) -> Iterator[Variant]:
        """The variants for a relation's new rows. Those that read only its old rows run before its
        indexes get the new ones."""
        for before in (True, False):
            yield from (v for v in variants if v.follows == name and v.before == before)
            if name in self.sets:
                self.sets[name].take_turn(not before)

    def _check(self, number: int, ended: bool) -> None:
        """Whether a condition for switching to another strategy is met."""
        if not self.until:
            return
        looked = sum(variant.looked for variant in self.variants)
        rows = sum(table.length for table in self.tables.values())
        for when in self.until:
            match when:
                case SmallRounds(count, most):
                    power = number & (number - 1) == 0
                    met = not ended and power and number >= count and rows < number * most
                case LargeTurns(least, each, most):
                    met = looked >= least and looked >= each * self.turns
                    met = met and self.context.limits.account.total <= most
                case _:  # the caller checks it
                    met = False
            if met:
                raise FallbackMet(when)

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


# Replans recursive rules when the sizes of the relations that they read have changed.


SAMPLE = 2000  # rows sampled for distinct values


class Replanning:
    """For one rule: the sizes that its plan assumes, and when to plan again."""

    def __init__(self, run: StratumRun, rule: CheckedRule, variants: Sequence[Variant]) -> None:
        self.run = run
        self.rule = rule
        self.variants = variants
        self.tuning = run.context.tuning
        read = {ref.relation for each in variants for ref in each.growing}
        self.planned: dict[tuple[str, Version], int] = dict.fromkeys(
            ((name, "full") for name in read), UNKNOWN
        )
        self.planned |= {(each.follows, "delta"): DELTA for each in variants}
        self.looked = 0
        self.again = 0  # how often it was replanned
        # With at most one other atom there is no order to choose.
        self.chooses = any(
            sum(isinstance(step, Join) for step in each.join.steps) > 1 for each in variants
        )

    def look(self) -> None:
        """Replans the rule if that pays by now."""
        if not self.chooses or self.again >= self.tuning.replanned_times:
            return
        looked = sum(each.looked for each in self.variants)
        if looked - self.looked < self.tuning.replanned_from:
            return
        sizes = {key: self._rows(*key) for key in self.planned}
        pairs = [(max(1, rows), max(1, self.planned[key])) for key, rows in sizes.items()]
        if not any(max(pair) >= self.tuning.replanned_shift * min(pair) for pair in pairs):
            return
        self.looked, self.planned = looked, sizes
        self.again += 1
        run = self.run
        given = PlanInputs(self._size, run.inputs.plans.orders, self.tuning)
        types, recursive = run.inputs.param_types, run.stratum.relations
        plan = plan_rule(self.rule, types, given, recursive, first=False)
        old = self.variants[0].whole
        if len(plan.joins) != len(old.joins) or plan.joins == old.joins:
            return
        # An unchanged join stays the same object, so that its cached state stays valid.
        both = zip(old.joins, plan.joins, strict=True)
        joins = tuple(before if before == after else after for before, after in both)
        whole = replace(plan, joins=joins)
        for each in self.variants:
            each.change(whole, sizes[each.follows, "delta"])

    def _rows(self, name: str, version: Version) -> int:
        if version == "delta":
            return self.run.deltas[name].length
        return self.run.tables[name].length

    def _size(self, name: str, version: Version) -> RelationStatistics:
        run = self.run
        if name not in run.tables:
            return run.inputs.relation(name).statistics
        arity, rows = run.inputs.schemas[name].arity, max(1, self._rows(name, version))
        table = run.tables[name]
        sample: Relation | None = run.deltas[name]
        if version != "delta" and isinstance(table, DeltaRelation):
            sample = max(table.runs.all(), key=lambda run: run.length, default=None)
        each = _different(sample, rows) if sample is not None and sample.length else None
        return Assumed(rows, max(1, rows // 10), arity, each=each)


def _different(sample: Relation, rows: int) -> tuple[int, ...]:
    """The approximate number of distinct values of each column, from some of its rows."""
    counts = []
    for column in sample.rows:
        some = column[:: max(1, len(column) // SAMPLE)]
        found = len(np.unique(some))
        seen = found if 2 * found <= len(some) else found * rows // len(some)
        span = int(some.max()) - int(some.min()) + 1
        counts.append(max(1, min(rows, seen, span)))
    return tuple(counts)
