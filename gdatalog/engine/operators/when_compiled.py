"""`WhenCompiled`: small work runs by kernels or compiled loops only if these are compiled.

Otherwise they are compiled on another thread, for the next call, and another operator runs.
"""

from __future__ import annotations

from typing import Any

from gdatalog.engine.context import Operator, StratumInputs
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.fallback import WithFallback
from gdatalog.engine.operators.wrapping import Wrapping
from gdatalog.plan.conditions import Uncompiled, Unsuited, When
from gdatalog.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class WhenCompiled(Wrapping):
    then: Operator

    def run(
        self, prepared: Any, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations | When:
        context = replace(inputs.context, compiled=True)
        found = self.then.run(prepared, replace(inputs, context=context), until)
        return Uncompiled() if isinstance(found, Unsuited) else found


def when_compiled(first: Operator, then: Operator) -> WithFallback:
    """An operator, and what runs while it is compiled."""
    return WithFallback(WhenCompiled(first), (Uncompiled(),), then)
