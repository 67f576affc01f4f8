"""Which work a cluster does, and how: what an evaluation asks for is done here, or left to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gdatalog.cluster.connection import Connection
from gdatalog.cluster.pool import Pool
from gdatalog.cluster.replicated import SpreadRun
from gdatalog.engine.derived import Derived, Rows
from gdatalog.engine.ledger import RuleRound, RuleRun
from gdatalog.engine.sources import Sources
from gdatalog.engine.surroundings import Surroundings
from gdatalog.plan.nodes import RulePlan
from gdatalog.planner.checked import Stratum
from gdatalog.storage.relation import Relation

WORTH = 1e7  # rows that a rule is expected to look at, from which on it is spread


class Spreading:
    """A cluster, as an evaluation asks it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.pool = Pool(connection)

    def rule(
        self,
        plan: RulePlan,
        sources: Sources,
        around: Surroundings,
        limit: int | None,
        report: RuleRun | None,
        did: RuleRound | None,
    ) -> Derived | None:
        knobs = around.knobs
        if limit is not None or knobs.spread == "never":
            return None
        if knobs.spread == "auto" and sum(join.cost for join in plan.joins) < WORTH:
            return None
        run = SpreadRun(
            plan, sources, around.scope, around.limits, replace(knobs, threads=1), report,
            device=around.device, did=did, pool=self.pool,
        )  # fmt: skip
        return run.rows(limit)

    def fixpoint(
        self, stratum: Stratum, seeds: Mapping[str, Sequence[Rows]], around: Surroundings
    ) -> dict[str, Relation] | None:
        return None

    def close(self) -> None:
        self.pool.close()
