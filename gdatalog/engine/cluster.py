"""The interface of an evaluation to other machines; `gdatalog/cluster` implements it.

Each call may return None: then this process does the work, as it does without a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from gdatalog.engine.derived import Derived
from gdatalog.engine.metrics import RuleRound, RuleRun
from gdatalog.engine.sources import Sources
from gdatalog.plan.nodes import RulePlan
from gdatalog.plan.placement import OnWorkers, Spread
from gdatalog.records import dataclass
from gdatalog.storage.load_options import Declared
from gdatalog.storage.relation import Relation
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array

if TYPE_CHECKING:
    from gdatalog.engine.context import StratumInputs
    from gdatalog.engine.fixpoint.partitioned import PartitionedStratum


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
    """Workers that can run parts of a rule."""

    @property
    def connection(self) -> Any:
        """Dask's client, the workers, and their addresses."""
        ...

    def load(self, data: Any, wanted: Wanted, symbols: SymbolTable) -> Relation | None:
        """Loads data that workers read themselves, or already have, as a relation."""
        ...

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
        ...

    def stays(self, plan: RulePlan, inputs: StratumInputs) -> str | None:
        """The relation whose rows stay on the workers while a rule reads them there in parts, if
        the rule can be planned so."""
        ...

    def plan_placement(
        self, plan: RulePlan, inputs: StratumInputs, known: Callable[[str], Relation | None]
    ) -> Spread | None:
        """Plans where a rule would run; None if on this machine, or if that is unknown before its
        relations are: `known` returns those that are."""
        ...

    def placement(self, splits: PartitionedStratum) -> OnWorkers | None:
        """Where a recursive stratum runs; None if only on this machine."""
        ...

    def fixpoint(
        self, splits: PartitionedStratum, placement: OnWorkers
    ) -> dict[str, Relation] | None:
        """Evaluates a recursive stratum with this placement, if possible."""
        ...

    def counts(self, splits: PartitionedStratum) -> dict[str, tuple[Array, Array]] | None:
        """For a partitioned stratum, how many rows each of its relations has for each value."""
        ...

    def close(self) -> None:
        """Frees all data on the workers."""
        ...
