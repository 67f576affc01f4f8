"""`RuleOnHost`: the CPU runs a rule that the device refuses."""

from __future__ import annotations

from gdatalog.engine.context import RuleInputs
from gdatalog.engine.device import CPU
from gdatalog.engine.rules.operator import Outcome, RuleOperator
from gdatalog.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class RuleOnHost:
    """`reason`: why, for users; empty if that turns out when the device runs it."""

    then: RuleOperator
    reason: str = ""

    def run(self, inputs: RuleInputs) -> Outcome:
        report, sources = inputs.report, inputs.on_host or inputs.sources
        if report is not None:
            report.device = "cpu"
            report.left, report.in_cells, report.in_pages = self.reason or report.left, None, None
        here = replace(inputs.context, device=CPU)
        return self.then.run(replace(inputs, sources=sources, context=here))
