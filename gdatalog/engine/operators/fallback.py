"""`WithFallback`: one operator runs until a condition is met, then another one starts again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdatalog.engine.context import ExecutionContext, Operator, StratumInputs
from gdatalog.engine.metrics import StratumMetrics
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.base import work_of
from gdatalog.engine.operators.wrapping import Wrapping
from gdatalog.errors import MemoryLimitError
from gdatalog.limits import OverBudget
from gdatalog.plan.conditions import (
    CONDITIONS,
    Bytes,
    LargeTurns,
    NoRoom,
    SmallRounds,
    TooManyRows,
    Unsuited,
    When,
)
from gdatalog.planner.placement import Work
from gdatalog.planner.rewrite.program_sizes import Expected
from gdatalog.records import dataclass

CALLS = 4  # how often a call is expected to come again, if it does


@dataclass(frozen=True, slots=True)
class WithFallback(Wrapping):
    """Runs `first`. If it meets a condition of `when`, its charges and records are undone, and
    `then` evaluates the stratum."""

    first: Operator
    when: tuple[When, ...]
    then: Operator

    @property
    def parts(self) -> tuple[Operator, ...]:
        return self.first, self.then

    def lines(self, whole: bool = False) -> tuple[str, ...]:
        first = self.first.lines(whole)
        if not whole and any(isinstance(each, Unsuited | NoRoom) for each in self.when):
            return first
        then, *more = self.then.lines(whole)
        *others, last = map(str, self.when)
        when = f"{', '.join(others)} or {last}".replace(", after", ",") if others else last
        return (*first, f"{when}: {then}", *more)

    def work(self, expected: Expected, context: ExecutionContext) -> Work:
        """The work of the operator that is expected to finish."""
        first = work_of(self.first, expected, context)
        met = any(expects(when, expected, first.turns) for when in self.when)
        return work_of(self.then, expected, context) if met else first

    def prepare(self, context: ExecutionContext) -> PreparedFallback:
        return PreparedFallback(self.first.prepare(context))

    def run(
        self, prepared: PreparedFallback, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations | When:
        metrics = inputs.context.metrics
        began = len(metrics.strata)
        if prepared.too_many:
            return self._second(prepared, inputs, until)
        small = prepared.met(self.when)
        if small is not None:
            found = self._second(prepared, inputs, until)
            prepared.saw(metrics.strata[began:], small)
            return found
        with OperatorAttempt(self.when, inputs) as attempt:
            attempt.found = self.first.run(prepared.first, inputs, (*until, *self.when))
        found = attempt.found
        if not isinstance(found, CONDITIONS) or found not in self.when:
            prepared.saw(metrics.strata[began:])
            expected = prepared.met(self.when, CALLS)
            if expected is not None:
                inputs.met.append(expected)
            return found
        if isinstance(found, NoRoom | SmallRounds | TooManyRows):
            inputs.met.append(found)
        if isinstance(found, NoRoom):
            # Not in a handler, because the error would keep device memory alive.
            device = inputs.context.device.accelerator
            if device is not None:
                device.make_room(inputs.context.limits)
        if isinstance(found, SmallRounds):
            prepared.rounds, prepared.rows = found.count, 0
        prepared.too_many = isinstance(found, TooManyRows)
        then = self._second(prepared, inputs, until)
        for record in () if isinstance(found, NoRoom) else metrics.strata[began:]:
            record.how = (f"given up {found}: {self.first.lines()[0]}", *record.how)
        return then

    def _second(
        self, prepared: PreparedFallback, inputs: StratumInputs, until: tuple[When, ...]
    ) -> Relations | When:
        if prepared.then is None:
            prepared.then = self.then.prepare(inputs.context)
        return self.then.run(prepared.then, inputs, until)


def expects(when: When, expected: Expected, turns: float) -> bool:
    """Whether a condition is expected to be met by a stratum whose rules have so many turns."""
    match when:
        case TooManyRows(most):
            return expected.looked > most
        case LargeTurns(least, each):
            return expected.looked >= max(least, each * turns)
        case SmallRounds():
            return when.met(int(expected.rounds), int(expected.rows))
        case _:
            return False


@dataclass(slots=True, eq=False)
class PreparedFallback:
    """What both operators have prepared; `then` when it is needed first. `rounds` and `rows`: those
    of the runs of `first`; `too_many`: whether it has read too many rows."""

    first: Any
    then: Any = None
    rounds: int = 0
    rows: int = 0
    too_many: bool = False

    def met(self, when: tuple[When, ...], times: int = 1) -> SmallRounds | None:
        """The condition of `when` that the rounds of earlier runs have met together; `times`: or
        that they would, if they came again so often."""
        for each in when if self.rounds else ():
            if isinstance(each, SmallRounds) and each.met(times * self.rounds, times * self.rows):
                return each
        return None

    def saw(self, records: Sequence[StratumMetrics], small: SmallRounds | None = None) -> None:
        """Counts rounds; if none ran because they would be `small`, and there were more rows than
        so many rounds have, rounds are tried again."""
        rows = sum(sum(record.rows.values()) for record in records)
        if small is None:
            self.rounds += sum(record.rounds for record in records)
            self.rows += rows
        elif rows >= small.count * small.rows:
            self.rounds = self.rows = 0


class OperatorAttempt:
    """An operator is tried within this context, which ends without an error where `when` has that
    for a condition. If `found`, what the operator has returned, is a condition, its memory charges
    and profile records are undone."""

    __slots__ = ("_before", "_budget", "_errors", "_inputs", "_records", "_room", "_rows", "found")

    def __init__(self, when: tuple[When, ...], inputs: StratumInputs) -> None:
        self._inputs = inputs
        self.found: Relations | When = Unsuited()
        self._rows = next((each for each in when if isinstance(each, TooManyRows)), None)
        self._room = next((each for each in when if isinstance(each, Bytes | NoRoom)), None)
        self._errors: tuple[type[MemoryError], ...] = ()
        if self._room is not None:
            self._errors = (MemoryError if isinstance(self._room, NoRoom) else MemoryLimitError,)

    def __enter__(self) -> OperatorAttempt:
        limits, metrics = self._inputs.context.limits, self._inputs.context.metrics
        self._records = len(metrics.runs), len(metrics.strata)
        self._before = dict(limits.account.held)
        self._budget = limits.within(None if self._rows is None else self._rows.most)
        self._budget.__enter__()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self._budget.__exit__(None, None, None)
        over = isinstance(error, OverBudget) and error.budget is self._budget
        if over and self._rows is not None:
            self.found = self._rows
        elif self._room is not None and isinstance(error, self._errors):
            self.found = self._room
        elif error is not None:
            return False
        if isinstance(self.found, CONDITIONS):
            metrics, (runs, strata) = self._inputs.context.metrics, self._records
            self._inputs.context.limits.account.restore(self._before)
            del metrics.runs[runs:], metrics.strata[strata:]
        return True
