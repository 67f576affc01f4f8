"""What an evaluation asks of other machines. `gdatalog/cluster` answers.

Each call may answer None: then the work is done here, as it is where there is no cluster.
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
from gdatalog.storage.raw import Declared
from gdatalog.storage.relation import Relation
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array

if TYPE_CHECKING:
    from gdatalog.engine.context import StratumInputs
    from gdatalog.engine.partitioned import PartitionedStratum


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to become of some data: the relation `name`, of such columns and types if that is
    said. `memory`: what may be held here. `forced`: however few the rows are."""

    name: str
    memory: int
    columns: Sequence[str] | None = None
    declared: Declared | None = None
    forced: bool = False


class Cluster(Protocol):
    """Workers that can be given parts of a rule's work."""

    @property
    def connection(self) -> Any:
        """The client of Dask's, the workers, and where they are."""
        ...

    def load(self, data: Any, wanted: Wanted, symbols: SymbolTable) -> Relation | None:
        """The relation of data that workers read themselves, or have."""
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
        """The rows of a rule all of whose relations are finished."""
        ...

    def stays(self, plan: RulePlan, inputs: StratumInputs) -> str | None:
        """The relation that a rule reads whose rows lie on workers, and are to stay there: they are
        given to it some at a time, where they are, if it can be planned so."""
        ...

    def plan_placement(
        self, plan: RulePlan, inputs: StratumInputs, known: Callable[[str], Relation | None]
    ) -> Spread | None:
        """How the rows of a rule would be found; None if here, or if that is not known before its
        relations are: `known` gives those that are."""
        ...

    def placement(self, splits: PartitionedStratum) -> OnWorkers | None:
        """Where a recursive stratum is evaluated; None if only here."""
        ...

    def fixpoint(
        self, splits: PartitionedStratum, placement: OnWorkers
    ) -> dict[str, Relation] | None:
        """The relations of a recursive stratum that is placed so, if it can be."""
        ...

    def counts(self, splits: PartitionedStratum) -> dict[str, tuple[Array, Array]] | None:
        """Of a stratum that splits how many rows each of its relations has for each value."""
        ...

    def close(self) -> None:
        """Lets go of all that lies on the workers."""
        ...
