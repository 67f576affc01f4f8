"""What an evaluation asks of other machines. `gdatalog/cluster` answers.

Each call may answer None: then the work is done here, as it is where there is no cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from gdatalog.engine.derived import Derived, Rows
from gdatalog.engine.ledger import RuleRound, RuleRun
from gdatalog.engine.sources import Sources
from gdatalog.plan.nodes import RulePlan
from gdatalog.planner.checked import Stratum
from gdatalog.storage.relation import Relation

if TYPE_CHECKING:
    from gdatalog.engine.surroundings import Surroundings


class Cluster(Protocol):
    """Workers that can be given parts of a rule's work."""

    @property
    def connection(self) -> Any:
        """The client of Dask's, the workers, and where they are."""
        ...

    def rule(
        self,
        plan: RulePlan,
        sources: Sources,
        around: Surroundings,
        limit: int | None,
        report: RuleRun | None,
        did: RuleRound | None,
    ) -> Derived | None:
        """The rows of a rule all of whose relations are finished."""
        ...

    def fixpoint(
        self, stratum: Stratum, seeds: Mapping[str, Sequence[Rows]], around: Surroundings
    ) -> dict[str, Relation] | None:
        """The relations of a recursive stratum."""
        ...

    def close(self) -> None:
        """Lets go of all that lies on the workers."""
        ...
