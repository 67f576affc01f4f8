"""The context of an execution, and the inputs of a stratum."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gdatalog.cpu_ops.functions import Scope
from gdatalog.engine.cluster import Cluster
from gdatalog.engine.derived import Seeds
from gdatalog.engine.device import CPU, Device
from gdatalog.engine.metrics import Metrics
from gdatalog.engine.session.knobs import Knobs
from gdatalog.engine.session.prepared import Plans
from gdatalog.limits import Limits
from gdatalog.plan.tuning import Tuning
from gdatalog.planner.check.checked import Schema
from gdatalog.records import dataclass, field
from gdatalog.storage.relation import Relation
from gdatalog.values import TypeName


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """What stays the same for a whole execution: a call of a database, or a task of a worker.

    It is made where the call begins and passed on as a whole. `force_chunk`: how many rows a level
    has at once; None: as many as memory allows. `limit_sizes`: the rows at which `.limitsize` stops
    a relation.
    """

    limits: Limits
    scope: Scope
    metrics: Metrics = field(default_factory=lambda: Metrics(lasting=False))
    knobs: Knobs = Knobs()
    device: Device = CPU
    cluster: Cluster | None = None
    force_chunk: int | None = None
    tuning: Tuning = Tuning()
    limit_sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def memory(self) -> int:
        """The memory limit, in bytes."""
        memory = self.limits.account.memory
        assert memory is not None
        return memory


@dataclass(frozen=True, slots=True)
class StratumInputs:
    """What a stratum reads: the execution's context, schemas, and relations of lower strata.

    `seeds`: the rows that its own relations have without rules.
    """

    context: ExecutionContext
    schemas: Mapping[str, Schema]
    param_types: Mapping[str, TypeName]
    relation: Callable[[str], Relation]
    plans: Plans = field(default_factory=Plans)
    seeds: Seeds = field(default_factory=dict)
