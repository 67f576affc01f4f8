"""The worker process that runs a call: its address, threads and memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gdatalog.cpu_ops.expressions import Scope
from gdatalog.engine.context import ExecutionContext
from gdatalog.engine.device import CPU, Device
from gdatalog.engine.metrics import Metrics
from gdatalog.limits import Limits
from gdatalog.records import dataclass, replace
from gdatalog.settings import Settings
from gdatalog.storage.symbols import SymbolTable
from gdatalog.values import Value

ITSELF = 240 << 20  # bytes that an idle worker takes, compiled loops included
PAUSE = 0.8  # share of its memory at which Dask pauses a worker


def left_of(memory: int) -> float:
    """The bytes that a worker has for data before Dask pauses it."""
    return max(memory / 16, PAUSE * memory - ITSELF)


def own_worker() -> Any:
    """Dask's worker that runs this thread's call; None outside of a worker."""
    from distributed import get_worker

    try:
        return get_worker()
    except ValueError:
        return None


def own_address() -> str:
    """This worker's address; empty outside of a worker."""
    worker = own_worker()
    return "" if worker is None else str(worker.address)


def own_memory() -> int | None:
    """This worker's memory limit in bytes; None if it has none."""
    worker = own_worker()
    return None if worker is None else worker.memory_manager.memory_limit or None


def own_threads() -> int:
    """How many calls this worker runs at once."""
    worker = own_worker()
    return 1 if worker is None else int(worker.state.nthreads)


@dataclass(frozen=True, slots=True)
class CallContext:
    """What calls get of the driver's context. `memory`: what one may hold, in bytes. `counted`:
    count rows, for a profile. `device`: of the workers, "cpu", "auto" or "cuda"."""

    params: Mapping[str, Value]
    memory: int
    settings: Settings
    counted: bool
    device: str

    @staticmethod
    def of(
        context: ExecutionContext, memory: int, threads: int = 1, device: str = "cpu"
    ) -> CallContext:
        settings, counted = replace(context.settings, threads=threads), context.metrics.lasting
        return CallContext(context.scope.params, memory, settings, counted, device)

    def here(self, symbols: SymbolTable, device: Device = CPU) -> ExecutionContext:
        """The context of a call on this worker."""
        limits, scope = Limits(memory=self.memory), Scope(symbols, self.params)
        metrics = Metrics(self.counted)
        return ExecutionContext(limits, scope, metrics, self.settings, device)


UNLIMITED = 4 << 30  # a worker's memory if it has no limit
# Shares of a worker's memory for data: for rows that it reads from files, and for rows in transit.
READING, MOVING, MOST_MOVING = 1 / 4, 1 / 4, 128 << 20


def room_of(memory: int) -> float:
    """The bytes that a worker has for its calls."""
    left = left_of(memory)
    return left - left * READING - min(MOST_MOVING, left * MOVING)
