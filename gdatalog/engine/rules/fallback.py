"""`RuleFallback`: one operator of a rule runs, and if it meets a condition, another one."""

from __future__ import annotations

from gdatalog.calls import NotOnDevice
from gdatalog.engine.context import RuleInputs
from gdatalog.engine.rules.operator import Outcome, Refusal, RuleOperator
from gdatalog.plan.conditions import NoRoom, Unsuited
from gdatalog.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class RuleFallback:
    """Runs `first`. If it meets the condition `when`, its memory charges and what it remembers of
    processed rows are undone, and `then` runs."""

    first: RuleOperator
    when: type[NoRoom] | type[Unsuited] | type[Refusal]
    then: RuleOperator

    def run(self, inputs: RuleInputs) -> Outcome:
        account, report = inputs.limits.account, inputs.report
        before = dict(account.held)
        found: Outcome
        try:
            found = self.first.run(inputs)
        except (MemoryError, NotOnDevice) as error:
            found = Refusal(str(error)) if isinstance(error, NotOnDevice) else NoRoom()
            if not isinstance(found, self.when):
                raise
        # Not in the handler, because the error would keep device memory alive.
        if not isinstance(found, self.when):
            return found
        account.restore(before)
        if isinstance(found, Refusal) and report is not None:
            report.left = found.reason
        if inputs.lasting is not None:
            inputs.lasting.clear()
            inputs = replace(inputs, lasting={})
        return self.then.run(inputs)
