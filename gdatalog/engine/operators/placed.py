"""`Placed`: a stratum for which the planner has chosen between the CPU and a GPU."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gdatalog.engine.context import ExecutionContext, Operator, StratumInputs
from gdatalog.engine.derived import Derived, DistinctBlocks, blocks_of, far_rows
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.wrapping import Wrapping
from gdatalog.overhead import time_spent
from gdatalog.plan.conditions import When
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass, replace
from gdatalog.storage.on_device import brought, is_on_host


@dataclass(frozen=True, slots=True)
class Placed(Wrapping):
    """`then` runs on `device`, for the reason `why`."""

    then: Operator
    device: str
    why: str

    def __str__(self) -> str:
        where = "the CPU" if self.device == "cpu" else self.device
        return f"on {where}: {self.why}"

    def prepare(self, context: ExecutionContext) -> Any:
        return self.then.prepare(context_there(context, self.device))

    def run(
        self, prepared: Any, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations | When:
        metrics = inputs.context.metrics
        began, before = len(metrics.strata), time_spent()
        found = self.run_then(prepared, there(inputs, self.device), until)
        metrics.devices.append(self.device)
        moved = (time_spent() - before).moved
        for record in metrics.strata[began:] if moved else ():
            first, *others = record.how
            did = f"{format_bytes(moved)} were copied to or from the GPU"
            record.how = (first, did, *others)
        return found


def lasts(placed: Placed, inputs: StratumInputs, reads: Collection[str]) -> bool:
    """Whether a choice and its reason hold for later calls: the GPU is open, and what it `reads`
    lies there if it runs there."""
    later = inputs.context.later
    if later is None or later.device is None:
        return False
    stores = (inputs.relation(name).store for name in reads)
    return placed.device == "cpu" or all(store.on_device is not None for store in stores)


def there(inputs: StratumInputs, device: str) -> StratumInputs:
    """The inputs for a device; for the CPU, with a stratum's own rows on the host."""
    if device == "cpu":
        seeds = {name: tuple(map(_on_host, parts)) for name, parts in inputs.seeds.items()}
        return replace(inputs, seeds=seeds)
    return replace(inputs, context=context_there(inputs.context, device))


def context_there(context: ExecutionContext, device: str) -> ExecutionContext:
    if device == "cpu":
        return context
    assert context.later is not None and context.later.device is not None
    return replace(context, device=context.later.device)


def bytes_there(part: Derived) -> int:
    """The bytes of rows that lie on a device."""
    if far_rows(part) is not None:
        return 0
    return sum(int(c.nbytes) for block in blocks_of(part) for c in block if not is_on_host(c))


def _on_host(part: Derived) -> Derived:
    if not bytes_there(part):
        return part
    blocks = [tuple(map(brought, block)) for block in blocks_of(part)]
    if isinstance(part, DistinctBlocks):
        return DistinctBlocks(blocks, part.count)
    return blocks[0], part[1]
