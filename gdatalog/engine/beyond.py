"""Recursive strata whose relations do not fit the device: what has no room there lies in the host's
memory, where kernels read and write it (`gpu_ops/overflow.py`). The answer goes to the host."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from gdatalog.plan.placement import Local
from gdatalog.plan.stratum import BeyondDevice
from gdatalog.records import replace

if TYPE_CHECKING:
    from gdatalog.engine.strata import Ready, Relations


def beyond_device(ready: Ready) -> Ready:
    """A stratum's plan, if it is expected not to fit or has not fitted. Other devices do not take
    part: they would read the first one's arrays."""
    context = ready.inputs.context
    alone = replace(context.tuning, shared_from=inf, shared_inputs_from=1 << 62)
    plan = replace(
        ready.plan,
        rewrites=(*ready.plan.rewrites, BeyondDevice(context.device.name)),
        placement=Local(context.device.members[0]),
    )
    inputs = replace(ready.inputs, context=replace(context, tuning=alone))
    return replace(ready, plan=plan, inputs=inputs)


def is_beyond(ready: Ready) -> bool:
    return any(isinstance(rewrite, BeyondDevice) for rewrite in ready.plan.rewrites)


def run_beyond(ready: Ready, run: Callable[[Ready], Relations]) -> Relations:
    """What a run gives whose large arrays may lie in the host's memory."""
    context = ready.inputs.context
    with context.device.beyond(context.limits):
        found = run(ready)
        for relation in found.values():
            if relation.types:
                relation.store.let_go()  # the rows come to the host, and stay there
    return found


def if_it_fits(ready: Ready, run: Callable[[Ready], Relations]) -> Relations | None:
    """What a run gives; None if memory is short. Its error, which holds what was made, is gone."""
    context = ready.inputs.context
    ledger = context.ledger
    runs, strata = len(ledger.runs), len(ledger.strata)
    try:
        with context.limits.account.restoring(MemoryError):
            return run(ready)
    except MemoryError:
        del ledger.runs[runs:], ledger.strata[strata:]
    return None
