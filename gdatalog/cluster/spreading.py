"""Which work a cluster does, and how: what an evaluation asks for is done here, or left to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

from gdatalog.cluster.connection import Connection, told_if_lost
from gdatalog.cluster.datasets import files_relation
from gdatalog.cluster.fitting import fits_nowhere, fits_workers
from gdatalog.cluster.fixpoints import counts, fixpoint, foreseen, patience
from gdatalog.cluster.foreseeing import parted
from gdatalog.cluster.keeping import Keeping
from gdatalog.cluster.loading import Loading
from gdatalog.cluster.partitioned import PartitionedRun
from gdatalog.cluster.partitions import frame_relation, is_frame
from gdatalog.cluster.pool import Pool
from gdatalog.cluster.replicated import SpreadRun
from gdatalog.cluster.stock import Stock
from gdatalog.cluster.texts import asks_for_ranks
from gdatalog.engine.choose import TooSlow, impatience
from gdatalog.engine.cluster import Wanted
from gdatalog.engine.derived import Blocks, Derived
from gdatalog.engine.device import CPU
from gdatalog.engine.ledger import RuleRound, RuleRun
from gdatalog.engine.run import run_rule
from gdatalog.engine.sources import Sources
from gdatalog.engine.splits import Splits
from gdatalog.engine.spread import Spread, SpreadFixpoint
from gdatalog.engine.surroundings import Surroundings
from gdatalog.errors import MemoryLimitError
from gdatalog.plan.cells import cuttable
from gdatalog.plan.nodes import RulePlan
from gdatalog.storage.relation import Relation
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array

# Rows that a rule is expected to look at: so many are spread, and so few never are. In between it
# is given some seconds here, for what is expected may be wrong; and so is what has a limit.
WORTH, SMALL = 1e8, 1e5
HERE = 1.5  # seconds


class Spreading:
    """A cluster, as an evaluation asks it."""

    _keeping: Keeping | None = None

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.pool = Pool(connection)
        self.stock = Stock(self.pool)

    def keeper(self, memory: int) -> Keeping:
        """Who keeps what a database has on the workers, that may hold so much here."""
        if self._keeping is None:
            self._keeping = Keeping(self.pool, memory)
        return self._keeping

    @told_if_lost
    def load(self, data: Any, wanted: Wanted, symbols: SymbolTable) -> Relation | None:
        asked = Loading(wanted, symbols, self.keeper(wanted.memory))
        if is_frame(data):
            return frame_relation(asked, data)
        path = isinstance(data, str | os.PathLike)
        return files_relation(asked, os.fspath(data)) if path else None

    @told_if_lost
    def rule(
        self,
        plan: RulePlan,
        sources: Sources,
        around: Surroundings,
        limit: int | None,
        report: RuleRun | None,
        did: RuleRound | None,
    ) -> Derived | None:
        knobs, cost = around.knobs, sum(join.cost for join in plan.joins)
        if knobs.spread == "never" or asks_for_ranks(plan):
            return None
        in_parts = knobs.spread == "partition"
        if knobs.spread == "auto":
            if not any(map(cuttable, plan.joins)):
                return None
            in_parts = fits_nowhere(plan, around)
            if (cost < WORTH or limit is not None) and not in_parts:
                if cost < SMALL or around.device is not CPU:
                    return None
                found = patiently_here(plan, sources, around, limit, report, did)
                if found is not None:
                    return found
            in_parts = in_parts or not fits_workers(plan, around, self.stock)
        began = perf_counter()
        keeper = self.keeper(around.memory)
        if in_parts:
            run: SpreadRun = PartitionedRun(
                plan, sources, around.scope, around.limits, knobs, report, did=did,
                pool=self.pool, keeper=keeper, relation_of=around.relation, stock=self.stock,
            )  # fmt: skip
        else:
            run = SpreadRun(
                plan, sources, around.scope, around.limits, knobs, report, did=did,
                pool=self.pool, keeper=keeper,
            )  # fmt: skip
        derived = run.rows(limit)
        for what in ("answers", "aggregates"):
            around.limits.charge(what, 0)
        seconds = perf_counter() - began
        if report is not None:
            report.rows += derived.count if isinstance(derived, Blocks) else derived[1]
            report.seconds += seconds
            report.spread = run.told()
        if did is not None:
            did.seconds += seconds
        return derived

    @told_if_lost
    def foreseen(
        self, plan: RulePlan, around: Surroundings, known: Callable[[str], Relation | None]
    ) -> Spread | None:
        asked = {ref.relation for join in plan.joins for ref in join.tries}
        knobs, cost = around.knobs, sum(join.cost for join in plan.joins)
        auto = knobs.spread == "auto"
        if knobs.spread == "never" or asks_for_ranks(plan) or None in map(known, asked):
            return None
        if auto and not any(map(cuttable, plan.joins)):
            return None
        workers = len(self.stock.workers)
        nowhere = knobs.spread == "partition" or (auto and fits_nowhere(plan, around))
        if nowhere or (auto and cost >= SMALL and not fits_workers(plan, around, self.stock)):
            found = parted(plan, around.relation, self.stock)
        else:
            found = Spread("replicated", workers)
        if not auto or nowhere or cost >= WORTH:
            return found
        if cost < SMALL or around.device is not CPU:
            return None
        return replace(found, patient=HERE)

    @told_if_lost
    def patience(self, splits: Splits) -> float:
        return patience(self.pool, splits)

    @told_if_lost
    def foreseen_fixpoint(self, splits: Splits) -> SpreadFixpoint | None:
        return foreseen(self.pool, splits, len(self.stock.workers))

    @told_if_lost
    def fixpoint(self, splits: Splits) -> dict[str, Relation] | None:
        return fixpoint(self.pool, self.keeper(splits.around.memory), splits)

    @told_if_lost
    def counts(self, splits: Splits) -> dict[str, tuple[Array, Array]] | None:
        return counts(self.pool, self.keeper(splits.around.memory), splits)

    def close(self) -> None:
        self.stock.close()
        self.pool.close()


def patiently_here(
    plan: RulePlan,
    sources: Sources,
    around: Surroundings,
    limit: int | None,
    report: RuleRun | None,
    did: RuleRound | None,
) -> Derived | None:
    """A rule's rows, if it is soon done here."""
    held = dict(around.limits.held)
    try:
        with impatience(around.limits, HERE, TooSlow):
            return run_rule(
                plan, sources, around.scope, around.limits, limit, report, None, around.knobs,
                around.device, None, did,
            )  # fmt: skip
    except (TooSlow, MemoryLimitError):
        around.limits.held.clear()
        around.limits.held.update(held)
        return None
