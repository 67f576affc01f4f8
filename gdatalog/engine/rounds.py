"""A recursive stratum, evaluated semi-naively to a fixpoint.

A round runs each rule once for each recursive atom, with that atom reading what the round
before made (`delta`), atoms before it all rows (`full`), and atoms after it those that were
there before (`old`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gdatalog.engine.best import Best
from gdatalog.engine.derived import Derived, Rows
from gdatalog.engine.stratum import StratumRun
from gdatalog.engine.surroundings import Round, Surroundings
from gdatalog.errors import Caution, EvaluationError, MemoryLimitError, Note
from gdatalog.parser.syntax import Call
from gdatalog.plan.nodes import RulePlan
from gdatalog.planner.checked import CheckedRule, Stratum
from gdatalog.planner.walk import walk
from gdatalog.storage.keys import decode_value
from gdatalog.storage.relation import Relation


class Rounds(StratumRun):
    """Semi-naive rounds."""

    def __init__(self, stratum: Stratum, seeds: Mapping[str, Sequence[Rows]], around: Surroundings):
        super().__init__(stratum, seeds, around)
        # What the rounds remember of rows they followed, by id of the step: of the plans of
        # `_rounds`, which live as long as this.
        self.lasting: dict[int, Any] = {}

    def run(self) -> dict[str, Relation]:
        for name in self.tables:
            self.deltas[name] = self._add(name, self.first(name))
        self.record.end_round()
        self._rounds()
        self.around.limits.charge("rows followed", 0)
        return self.finished()

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
                    self.deltas[name] = self._add(name, derived.get(name, ()))
                    self.around.limits.charge(name, table.nbytes)
                news.append(
                    Round(
                        number,
                        {name: delta.length for name, delta in self.deltas.items()},
                        {name: table.length for name, table in self.tables.items()},
                        self.record.end_round(),
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


def _clamped(rule: CheckedRule) -> bool:
    nodes = [*rule.head.args, *([] if rule.body is None else [rule.body])]
    return any(
        isinstance(part, Call) and part.name in ("min", "max")
        for node in nodes
        for part in walk(node)
    )
