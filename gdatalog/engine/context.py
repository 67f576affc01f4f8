"""The context of an execution, the inputs of a stratum or plan, and the interface to workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from gdatalog.calls import Limits
from gdatalog.cpu_ops.functions import Scope
from gdatalog.engine.derived import Derived, Rows, Seeds
from gdatalog.engine.device import CPU, Device
from gdatalog.engine.devices import LaterGpu
from gdatalog.engine.metrics import Metrics, RuleRound, RuleRun
from gdatalog.engine.session import Knobs
from gdatalog.engine.session.prepared import Plans
from gdatalog.plan import JoinPlan, RulePlan, TrieRef
from gdatalog.plan.placement import OnWorkers, Spread
from gdatalog.plan.tuning import Tuning
from gdatalog.planner.check import Schema, Stratum
from gdatalog.records import dataclass, field
from gdatalog.storage import Declared
from gdatalog.storage.relation import Relation
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.trie import Trie
from gdatalog.values import TypeName


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """What stays the same for a whole execution: a call of a database, or a task of a worker.

    `force_chunk`: how many rows a level has at once; None: as many as memory allows. `limit_sizes`:
    the number of rows at which `.limitsize` stops a relation. `later`: the GPU that plans may
    choose instead of the CPU, under `device="auto"`.
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
    later: LaterGpu | None = None

    @property
    def memory(self) -> int:
        """The memory limit, in bytes."""
        memory = self.limits.account.memory
        assert memory is not None
        return memory


@dataclass(frozen=True, slots=True)
class StratumInputs:
    """What a stratum reads: the execution's context, schemas, and relations of lower strata.

    `seeds`: the rows of its own relations that no rule derives.
    """

    context: ExecutionContext
    schemas: Mapping[str, Schema]
    param_types: Mapping[str, TypeName]
    relation: Callable[[str], Relation]
    plans: Plans = field(default_factory=Plans)
    seeds: Seeds = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The target of loaded data: the relation `name`, with these columns and types if they are
    declared. `memory`: the limit on this machine. `forced`: spread it even if it has few rows."""

    name: str
    memory: int
    columns: Sequence[str] | None = None
    declared: Declared | None = None
    forced: bool = False


class Cluster(Protocol):
    """Workers that can run parts of a rule; `gdatalog/cluster` implements it. A call may return
    None: then this process does the work, as it does without a cluster."""

    @property
    def connection(self) -> Any:
        """Dask's client, the workers, and their addresses."""

    def load(self, data: Any, wanted: Wanted, symbols: SymbolTable) -> Relation | None:
        """Loads data that workers read themselves, or already have, as a relation."""

    def rule(
        self,
        plan: RulePlan,
        sources: Sources,
        inputs: StratumInputs,
        limit: int | None,
        report: RuleRun | None,
        stats: RuleRound | None,
    ) -> Derived | None:
        """Evaluates a rule whose relations are all complete."""

    def stays(self, plan: RulePlan, inputs: StratumInputs) -> str | None:
        """The relation of which each worker reads its own part where it is stored; None if the rule
        cannot be planned so."""

    def plan_placement(
        self, plan: RulePlan, inputs: StratumInputs, known: Callable[[str], Relation | None]
    ) -> Spread | None:
        """Plans where a rule would run. None: on this machine, or unknown until more relations are
        evaluated. `known` returns the relations that are."""

    def placement(self, stratum: Stratum, inputs: StratumInputs) -> OnWorkers | None:
        """Where a recursive stratum runs; None if only on this machine."""

    def fixpoint(
        self, stratum: Stratum, inputs: StratumInputs, placement: OnWorkers, counted: bool
    ) -> Mapping[str, Relation] | None:
        """Evaluates a recursive stratum with this placement, if possible. If `counted`, returns how
        many rows each of its relations has for each value."""

    def close(self) -> None:
        """Frees all data on the workers."""


TrieOf = Callable[[TrieRef], Trie]
RowsOf = Callable[[JoinPlan], Rows]


def no_rows(join: JoinPlan) -> Rows:
    raise AssertionError("nothing is given to this plan")


@dataclass(frozen=True, slots=True)
class Sources:
    """What a running plan reads. `rows_of`: the rows that a join starts from, on the device, in any
    order: a delta, or all rows of a scanned relation. `once`: whether a scan outputs no duplicates
    of the columns that it reads."""

    trie_of: TrieOf
    rows_of: RowsOf = no_rows
    once: Callable[[JoinPlan], bool] = lambda join: False
