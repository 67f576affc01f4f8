"""What evaluating a stratum needs from outside of it, and what a round did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gdatalog.cpu_ops.evaluate import Scope
from gdatalog.engine.cluster import Cluster
from gdatalog.engine.device import CPU, Device
from gdatalog.engine.knobs import Knobs
from gdatalog.engine.ledger import Ledger, RuleRound
from gdatalog.engine.prepared import Plans
from gdatalog.executors.limits import Limits
from gdatalog.planner.checked import Schema
from gdatalog.records import dataclass, field
from gdatalog.storage.relation import Relation
from gdatalog.values import TypeName
from gdatalog.watching import Work


@dataclass(slots=True)
class Round:
    """What a round of a fixpoint did, for errors and for who looks on.

    `rules`: what each rule did that ran in it.
    """

    number: int
    new: Mapping[str, int]
    total: Mapping[str, int]
    rules: Sequence[RuleRound] = ()

    def tell(self, work: Work) -> None:
        """Says that it has ended."""
        work.new_rows = sum(self.new.values())
        work.at(sum(self.total.values()))


@dataclass(slots=True)
class Surroundings:
    """What evaluating a stratum needs from outside of it."""

    schemas: Mapping[str, Schema]
    param_types: Mapping[str, TypeName]
    relation: Callable[[str], Relation]  # of the strata below
    scope: Scope
    limits: Limits
    memory: int
    limit_sizes: Mapping[str, int] = field(default_factory=dict)  # .limitsize
    ledger: Ledger = field(default_factory=lambda: Ledger(lasting=False))
    force_chunk: int | None = None
    knobs: Knobs = Knobs()
    plans: Plans = field(default_factory=Plans)
    device: Device = CPU
    cluster: Cluster | None = None
