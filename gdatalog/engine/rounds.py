"""A recursive stratum, evaluated semi-naively to a fixpoint.

A round runs each rule once for each recursive atom: for the rows that the round before made of
its relation. Atoms before it read all rows (`full`), and atoms after it those that were there
before (`old`). A rule runs only if there are such rows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gdatalog.engine.best import Best, improves_for_ever, is_clamped
from gdatalog.engine.choose import DEEP, SHALLOW, FallbackMet
from gdatalog.engine.derived import Derived, nbytes_of, together
from gdatalog.engine.device import CPU
from gdatalog.engine.growing import Growing
from gdatalog.engine.ledger import RuleRound
from gdatalog.engine.replanning import Replanning
from gdatalog.engine.spaces import expected_spaces
from gdatalog.engine.stratum import DELTA, StratumRun, placed
from gdatalog.engine.surroundings import Round
from gdatalog.engine.variants import Variant, alone
from gdatalog.errors import Caution, MemoryLimitError, Note
from gdatalog.plan.stratum import SmallRounds
from gdatalog.planner.checked import CheckedRule
from gdatalog.storage.relation import Relation
from gdatalog.watching import Work

NEW_ROWS = "new rows"  # who holds what the rules of a round have given


class Rounds(StratumRun):
    """Semi-naive rounds."""

    def run(self, passing: Collection[str] = (), deep: bool = True) -> dict[str, Relation]:
        """All relations but the `passing` ones, which nobody asks for in the end.

        Unless it may be `deep`, many rounds that give few rows are a `FallbackMet`.
        """
        self.deep = deep
        by_rule = [(rule, self._variants(rule)) for rule in self.stratum.rules]
        variants = [each for _, some in by_rule for each in some]
        self.replannings = [Replanning(self, rule, some) for rule, some in by_rule if some]
        if self.around.device is CPU:
            for each in variants:
                for ref in each.growing:
                    table = self.tables[ref.relation]
                    if isinstance(table, Growing):
                        table.indexed = True
        for name in passing:
            table = self.tables[name]
            if isinstance(table, Growing):
                table.passing = True
        with self.around.limits.watch.work("round", self.name, unit="rows") as work:
            for name in self.tables:
                self.deltas[name] = self._add(name, self.first(name))
                work.done += self.deltas[name].length
            self.record.end_round()
            self._expect(variants)
            self._rounds(variants, work)
        self.replannings = []  # they hold this, and all its rows would wait for the collector
        self.around.limits.charge("rows followed", 0)
        return self.finished(passing)

    def _variants(self, rule: CheckedRule) -> list[Variant]:
        """The joins of a rule, each for the new rows of one of its atoms."""
        if not self.recursive(rule):
            return []
        plan = self.plan(rule, first=False)
        return [
            Variant(self, rule, alone(plan, number), DELTA, plan, number)
            for number in range(len(plan.joins))
        ]

    def _expect(self, variants: Sequence[Variant]) -> None:
        """Tells relations where their rows may be."""
        growing = {name: t for name, t in self.tables.items() if isinstance(t, Growing)}
        spaces = expected_spaces(
            [variant.plan for variant in variants],
            {name: table.space for name, table in growing.items()},
            {
                ref.relation: self.around.relation(ref.relation)
                for variant in variants
                for ref in variant.join.tries
                if ref.relation not in self.tables
            },
        )
        for name, space in spaces.items():
            if name in growing:
                growing[name].expect(space)

    def _rounds(self, variants: Sequence[Variant], work: Work) -> None:
        news: list[Round] = []
        try:
            while any(delta.length for delta in self.deltas.values()):
                work.round = len(news) + 1
                self.around.limits.poll()
                news.append(self._round(work.round, variants))
                for rule in self.replannings:
                    rule.look()
                news[-1].tell(work)
                self._check_improving(news[-1].number)
                if not self.deep and any(delta.length for delta in self.deltas.values()):
                    self._check_depth(len(news))
                if self._full_enough():
                    break
        except MemoryLimitError as error:
            raise self.growth(error, news) from None

    def _round(self, number: int, variants: Sequence[Variant]) -> Round:
        """Follows what is new; what is new after that."""
        derived: dict[str, list[Derived]] = {}
        found: dict[str, int] = {}  # by loops
        both: list[tuple[RuleRound, int]] = []
        account = self.around.limits.account
        for variant in variants:
            if self.deltas[variant.follows].length:
                with placed(variant.rule):
                    rows, did = variant.follow()
                account.add(NEW_ROWS, sum(map(nbytes_of, rows)))
                name = variant.plan.relation
                found[name] = found.get(name, 0) + variant.found
                if rows:
                    derived.setdefault(name, []).append(together(rows))
                    both.append((did, variant.found))
        self.olds = {
            ref.relation: self.tables[ref.relation].full()
            for variant in variants
            for ref in variant.growing
            if ref.version == "old" and not self._in_runs(ref.relation)
        }
        for name, table in self.tables.items():
            parts = derived.pop(name, [])
            self.deltas[name] = self._add(name, parts, found.get(name, 0))
            account.add(NEW_ROWS, -sum(map(nbytes_of, parts)))
            self.around.limits.charge(name, table.nbytes)
            if isinstance(table, Growing) and table.indexed:
                self.around.limits.charge(f"index of {name}", table.runs.trie_nbytes)
            self.around.limits.count(name, table.length)
            del parts
        for did, count in both:
            did.new = None if did.new is None else did.new + count
        return Round(
            number,
            {name: delta.length for name, delta in self.deltas.items()},
            {name: table.length for name, table in self.tables.items()},
            self.record.end_round(),
        )

    def _check_depth(self, rounds: int) -> None:
        """At each power of two from `DEEP` on."""
        rows = sum(table.length for table in self.tables.values())
        if rounds >= DEEP and rounds & (rounds - 1) == 0 and rows < rounds * SHALLOW:
            raise FallbackMet(SmallRounds(DEEP, SHALLOW))

    def _in_runs(self, name: str) -> bool:
        table = self.tables[name]
        return isinstance(table, Growing) and table.indexed

    def _full_enough(self) -> bool:
        for name, size in self.around.limit_sizes.items():
            if name in self.tables and self.tables[name].length >= size:
                message = f"{name} has reached its .limitsize of {size} rows: the fixpoint stops"
                self.around.scope.cautions.setdefault(message, Caution(message))
                return True
        return False

    def _check_improving(self, number: int) -> None:
        """A derivation longer than there are groups repeats one: it improves itself for ever.

        Not so where `min(...)` or `max(...)` of two values bounds what is derived.
        """
        if not any(isinstance(table, Best) for table in self.tables.values()):
            return
        groups = sum(table.length for table in self.tables.values())
        if number <= groups + 1 or any(map(is_clamped, self.stratum.rules)):
            return
        for name, table in self.tables.items():
            delta = self.deltas[name]
            if isinstance(table, Best) and delta.length:
                rule = next(r for r in self.rules[name] if self.recursive(r))
                symbols = self.around.scope.symbols
                raise improves_for_ever(name, table.group(delta, 0), symbols, rule)

    def growth(self, error: MemoryLimitError, news: Sequence[Round]) -> MemoryLimitError:
        """The same error, with the rules that grow and by how much each round."""
        rounds = ", ".join(str(sum(n.new.values())) for n in news[-6:])
        names = " and ".join(self.stratum.relations)
        notes = [
            Note("this rule is recursive too", rule.span)
            for rule in self.stratum.rules
            if self.recursive(rule)
        ]
        told = f"; new rows in the last rounds: {rounds}" if news else ""
        return MemoryLimitError(
            f"{error.message}, in round {len(news) + 1} of {names}{told}",
            notes[0].span if notes else None,
            notes=notes[1:],
            hint="does the recursion end? A rule that makes new values can go on for ever. "
            "Otherwise raise the limit: gdatalog.connect(memory_limit=...) or --memory-limit",
        )
