"""`OnWorkers`: a cluster evaluates a recursive stratum, unless this process finishes it first."""

from __future__ import annotations

from typing import Any

from gdatalog.engine.context import Operator, StratumInputs
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.fallback import OperatorAttempt
from gdatalog.engine.operators.partitioned import Partitioned
from gdatalog.engine.operators.semi_naive import SemiNaive
from gdatalog.engine.operators.wrapping import Wrapping
from gdatalog.plan.conditions import CONDITIONS, When
from gdatalog.plan.placement import WorkerPlacement
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class OnWorkers(Wrapping):
    """`then` runs here, first or instead, as `placement` says. Workers take ranges of the keys of
    `fixpoint`, or exchange the rows of `rounds`. `counted`: only the number of rows of each value
    is needed."""

    then: Operator
    placement: WorkerPlacement
    fixpoint: Partitioned | None
    rounds: SemiNaive
    counted: bool = False

    def run(
        self, prepared: Any, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations | When:
        if self.placement.refusal is not None:
            return self.then.run(prepared, inputs, until)
        if self.placement.until:
            with OperatorAttempt(self.placement.until, inputs) as attempt:
                every = *until, *self.placement.until
                attempt.found = self.then.run(prepared, inputs, every)
            found = attempt.found
            if not isinstance(found, CONDITIONS) or found not in self.placement.until:
                return found
        cluster = inputs.context.cluster
        assert cluster is not None
        return cluster.fixpoint(self, inputs) or self.then.run(prepared, inputs, until)
