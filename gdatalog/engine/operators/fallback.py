"""`WithFallback`: one operator runs until a condition is met, then another one starts again."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.calls import OverBudget
from gdatalog.engine.context import Operator, StratumInputs
from gdatalog.engine.operators import Relations
from gdatalog.errors import MemoryLimitError
from gdatalog.plan.conditions import CONDITIONS, Bytes, NoRoom, TooManyRows, Unsuited, When
from gdatalog.plan.join_plan import RulePlan
from gdatalog.planner.check import CheckedRule
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class WithFallback:
    """Runs `first`. If it meets a condition of `when`, its charges and records are undone, and
    `then` evaluates the stratum."""

    first: Operator
    when: tuple[When, ...]
    then: Operator

    @property
    def parts(self) -> tuple[Operator, ...]:
        return self.first, self.then

    @property
    def rules(self) -> Sequence[tuple[CheckedRule, RulePlan]]:
        return ()

    def lines(self, whole: bool = False) -> tuple[str, ...]:
        first = self.first.lines(whole)
        if not whole and any(isinstance(each, Unsuited | NoRoom) for each in self.when):
            return first
        then, *more = self.then.lines(whole)
        return (*first, f"{' or '.join(map(str, self.when))}: {then}", *more)

    def run(self, inputs: StratumInputs, until: tuple[When, ...] = ()) -> Relations | When:
        metrics = inputs.context.metrics
        began = len(metrics.strata)
        found = attempt(self.first, self.when, inputs, until)
        if not isinstance(found, CONDITIONS) or found not in self.when:
            return found
        if isinstance(found, NoRoom):
            # Not in a handler, because the error would keep device memory alive.
            device = inputs.context.device.accelerator
            if device is not None:
                device.make_room(inputs.context.limits)
            inputs.unfit.append(found)
        then = self.then.run(inputs, until)
        for record in () if isinstance(found, NoRoom) else metrics.strata[began:]:
            record.how = (f"given up {found}: {self.first.lines()[0]}", *record.how)
        return then


def attempt(
    first: Operator, when: tuple[When, ...], inputs: StratumInputs, until: tuple[When, ...] = ()
) -> Relations | When:
    """What an operator returns, or the first of these conditions that it meets: then its memory
    charges and profile records are undone."""
    limits, metrics = inputs.context.limits, inputs.context.metrics
    runs, strata = len(metrics.runs), len(metrics.strata)
    rows = next((each for each in when if isinstance(each, TooManyRows)), None)
    room = next((each for each in when if isinstance(each, Bytes | NoRoom)), None)
    errors: tuple[type[MemoryError], ...] = ()
    if room is not None:
        errors = (MemoryError,) if isinstance(room, NoRoom) else (MemoryLimitError,)
    found: Relations | When
    with limits.within(rows.most if rows else None) as budget:
        before = dict(limits.account.held)
        try:
            found = first.run(inputs, (*until, *when))
        except OverBudget as error:
            if error.budget is not budget or rows is None:
                raise
            found = rows
        except errors:
            assert room is not None
            found = room
    if isinstance(found, CONDITIONS):
        limits.account.restore(before)
        del metrics.runs[runs:], metrics.strata[strata:]
    return found
