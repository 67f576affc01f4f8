"""Which rules and strata a cluster evaluates, and how.

A rule runs replicated, partitioned or in place (`DaskCluster.rule`); a recursive stratum by key
ranges or by hash partitions (`fixpoint`); the rest stays in the user's process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Any

from gdatalog.cluster.joins.bucket_store import BucketStore
from gdatalog.cluster.joins.cluster_run import CellsOf, ClusterRun
from gdatalog.cluster.joins.in_place import BlockCells
from gdatalog.cluster.joins.partitioned import bucket_cells, partitioned_spread
from gdatalog.cluster.joins.replicated import MorselCells
from gdatalog.cluster.patience import TooSlow, time_limit
from gdatalog.cluster.pool.task_stage import Pool
from gdatalog.cluster.recursion.hash_partitions import HashPartitions, refusal_of, remote_rows_of
from gdatalog.cluster.recursion.key_ranges import KeyRangeFixpoint, device_for
from gdatalog.cluster.rows.dask_frames import frame_relation, is_frame
from gdatalog.cluster.rows.loading import Loading
from gdatalog.cluster.rows.parquet_files import files_relation
from gdatalog.cluster.rows.row_keeper import RowKeeper
from gdatalog.cluster.rows.texts import asks_for_ranks
from gdatalog.cluster.workers.connection import Connection, raises_if_lost
from gdatalog.engine.context import RuleInputs, StratumInputs, Wanted
from gdatalog.engine.derived import Derived, count_of
from gdatalog.engine.device import CPU
from gdatalog.engine.draft import StratumDraft
from gdatalog.engine.operators.counted import counted_relations
from gdatalog.engine.operators.partitioned import Partitioned
from gdatalog.engine.operators.workers import OnWorkers
from gdatalog.engine.rules.evaluate import run_rule
from gdatalog.errors import MemoryLimitError
from gdatalog.plan.cells import cuttable
from gdatalog.plan.conditions import Bytes, TooManyRows, When
from gdatalog.plan.join_plan import RulePlan
from gdatalog.plan.placement import Spread, SpreadWay, WorkerPlacement
from gdatalog.records import replace
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import RemoteRows
from gdatalog.storage.symbols import SymbolTable

DRIVER_SECONDS = 1.5  # seconds that the driver tries a rule first, if spreading it may not pay
PART = 0.5  # share of the driver's spare memory that fetched rows may take


class DaskCluster:
    """A cluster, as evaluation uses it."""

    _keeping: RowKeeper | None = None

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.pool = Pool(connection)
        self.store = BucketStore(self.pool)

    def keeper(self, memory: int) -> RowKeeper:
        """The keeper of the database's rows on workers. `memory`: the driver's limit."""
        if self._keeping is None:
            self._keeping = RowKeeper(self.pool, memory)
        return self._keeping

    @raises_if_lost
    def load(self, data: Any, wanted: Wanted, symbols: SymbolTable) -> Relation | None:
        asked = Loading(wanted, symbols, self.keeper(wanted.memory))
        if is_frame(data):
            return frame_relation(asked, data)
        path = isinstance(data, str | os.PathLike)
        return files_relation(asked, os.fspath(data)) if path else None

    @raises_if_lost
    def rule(self, plan: RulePlan, inputs: RuleInputs, stratum: StratumInputs) -> Derived | None:
        context = inputs.context
        placed = self._placed(plan, stratum, inputs.limit)
        if placed is None:
            return None
        way, patient = placed
        if patient:  # the driver tries it first
            with (
                suppress(TooSlow, MemoryLimitError),
                context.limits.account.restoring(TooSlow, MemoryLimitError),
                time_limit(context.limits, DRIVER_SECONDS),
            ):
                return run_rule(plan, inputs)
        began = perf_counter()
        keeper = self.keeper(context.memory)
        spread = Spread(way, len(self.pool.workers), stays=plan.passes_over)
        cells: CellsOf = MorselCells
        if way == "in place":
            cells = BlockCells
        elif way == "partitioned":
            cells = partial(bucket_cells, self.store)
        run = ClusterRun(self.pool, keeper, plan, inputs, spread, cells, stratum.relation)
        derived = run.rows()
        for what in ("answers", "aggregates"):
            context.limits.charge(what, 0)
        seconds = perf_counter() - began
        context.metrics.done_by(len(self.pool.threads))
        if inputs.report is not None:
            inputs.report.rows += count_of(derived)
            inputs.report.seconds += seconds
            inputs.report.spread = run.told()
        if inputs.stats is not None:
            inputs.stats.seconds += seconds
        return derived

    @raises_if_lost
    def stays(self, plan: RulePlan, inputs: StratumInputs) -> str | None:
        settings = inputs.context.settings
        if settings.spread in ("never", "replicate") or asks_for_ranks(plan):
            return None
        remote = unfetched(relations_of(plan), inputs)
        sizes = {name: rows.remote_bytes for name, rows in remote.items()}
        name = max(sizes, key=sizes.__getitem__, default=None)
        if name is None or (settings.spread == "auto" and not fits_nowhere(plan, inputs)):
            return None
        asked = [ref for join in plan.joins for ref in join.tries if ref.relation == name]
        if not any(ref.columns or ref.tests for ref in asked):
            return None  # the rule only needs the number of rows
        beside = fits_workers(plan, inputs, self.store, name)
        return name if beside and not fits_nowhere(plan, inputs, name) else None

    @raises_if_lost
    def plan_placement(
        self, plan: RulePlan, inputs: StratumInputs, known: Callable[[str], Relation | None]
    ) -> Spread | None:
        if plan.passes_over is None and None in map(known, relations_of(plan)):
            return None
        placed = self._placed(plan, inputs)
        if placed is None:
            return None
        way, patient = placed
        if plan.passes_over is not None:
            rows, workers = inputs.relation(plan.passes_over).remote, len(self.pool.threads)
            blocks = None if rows is None else len(rows.parts)
            return Spread(way, workers, blocks, stays=plan.passes_over)
        if way == "partitioned":
            found = partitioned_spread(plan, inputs.relation, self.store)
        else:
            found = Spread("replicated", len(self.pool.workers))
        return replace(found, patient=DRIVER_SECONDS) if patient else found

    def _placed(
        self, plan: RulePlan, inputs: StratumInputs, limit: int | None = None
    ) -> tuple[SpreadWay, bool] | None:
        """How a rule is spread, and whether the driver first tries it for some seconds; None: it
        runs in the driver."""
        context = inputs.context
        settings, cost = context.settings, sum(join.cost for join in plan.joins)
        if plan.passes_over is not None:
            return "in place", False
        if settings.spread == "never" or asks_for_ranks(plan):
            return None
        if settings.spread != "auto":
            return ("partitioned" if settings.spread == "partition" else "replicated"), False
        if not any(map(cuttable, plan.joins)):
            return None
        if fits_nowhere(plan, inputs):
            return "partitioned", False
        thresholds = context.thresholds
        gpus = self.connection.gpus and self.connection.device_for(cost, thresholds) != "cpu"
        least = thresholds.spread_gpus_from if gpus else thresholds.spread_from
        patient = cost < least or limit is not None
        if patient and (cost < context.thresholds.spread_never or context.device is not CPU):
            return None
        whole = fits_workers(plan, inputs, self.store)
        return ("replicated" if whole else "partitioned"), patient

    @raises_if_lost
    def placement(
        self, draft: StratumDraft, fixpoint: Partitioned | None
    ) -> WorkerPlacement | None:
        context, thresholds, pool = draft.context, draft.context.thresholds, self.pool
        spread = context.settings.spread
        if spread == "never" or context.device is not CPU:
            return None
        many = _too_many(draft)
        by = None
        if fixpoint is not None and spread != "partition" and not many:
            by = ", ".join(map(str, fixpoint.keys))
        if by is not None and any(map(asks_for_ranks, draft.later)):
            by = None
        refusal = None if by is not None else refusal_of(draft.limited, draft.later)
        parted = by is None and (spread == "partition" or many)
        if spread != "auto" or many:
            return WorkerPlacement(len(pool.workers), by, parted, (), "", refusal)
        until: tuple[When, ...] = (Bytes(context.memory),)
        why, least = "", thresholds.rounds_spread_threads * context.settings.workers
        if draft.optima:
            why = "best values are improved in place"
        elif by is not None and _on_gpus(pool, draft):
            until = ()
        elif fixpoint is not None and pool.slots > 1:
            until = (TooManyRows(thresholds.partitions_spread_from), *until)
        elif fixpoint is None and pool.slots >= least:
            until = (TooManyRows(thresholds.rounds_spread_from), *until)
        else:
            why = "the workers have too few threads"
        return WorkerPlacement(len(pool.workers), by, parted, until, why, refusal)

    @raises_if_lost
    def fixpoint(self, operator: OnWorkers, inputs: StratumInputs) -> Mapping[str, Relation] | None:
        found = self._fixpoint(operator, inputs)
        if found is not None:
            inputs.context.metrics.done_by(len(self.pool.threads))
        return found

    def _fixpoint(
        self, operator: OnWorkers, inputs: StratumInputs
    ) -> Mapping[str, Relation] | None:
        """The relations of a recursive stratum or, if they are counted, their numbers of rows for
        each value of the partitioning column. None if the driver must evaluate it after all."""
        given = self.pool, self.keeper(inputs.context.memory)
        placement, counted, fixpoint = operator.placement, operator.counted, operator.fixpoint
        ranged = fixpoint if placement.by is not None else None
        if counted and ranged is not None:
            counting = KeyRangeFixpoint(*given, ranged, inputs, True)
            counts = counting.numbers()
            if counts is not None:
                return counted_relations(counting.splits, counts)
        if counted and placement.until:
            return None
        if ranged is not None:
            found = KeyRangeFixpoint(*given, ranged, inputs, False).relations()
            if found is not None:
                return found
        owners = HashPartitions(*given, operator.rounds, inputs, placement.parted)
        limited = bool(inputs.context.limit_sizes.keys() & {*operator.rounds.of.stratum.relations})
        refusal = refusal_of(limited, owners.plans)
        return owners.relations() if refusal is None else None

    def close(self) -> None:
        self.pool.close()


def relations_of(plan: RulePlan) -> set[str]:
    """The relations that a rule's joins read."""
    return {ref.relation for join in plan.joins for ref in join.tries}


def unfetched(names: Set[str], inputs: StratumInputs) -> dict[str, RemoteRows]:
    """Those relations whose rows are on workers and were not fetched."""
    found = {name: inputs.relation(name).remote for name in sorted(names)}
    return {name: rows for name, rows in found.items() if rows is not None and rows.unfetched}


def fits_nowhere(plan: RulePlan, inputs: StratumInputs, but: str | None = None) -> bool:
    """Whether a rule's rows on workers exceed what the driver can hold, or would wait for. `but`: a
    relation to leave out."""
    context, remote = inputs.context, unfetched(relations_of(plan), inputs)
    most = min(context.thresholds.fetched_bytes, context.limits.spare() * PART)
    return sum(rows.remote_bytes for name, rows in remote.items() if name != but) > most


def fits_workers(
    plan: RulePlan, inputs: StratumInputs, store: BucketStore, but: str | None = None
) -> bool:
    """Whether each worker can hold all tries of a rule, and what it derives from them. `but`: a
    relation to leave out."""
    size = 0
    for ref in {ref for join in plan.joins for ref in join.tries if ref.relation != but}:
        relation = inputs.relation(ref.relation)
        rows = relation.remote
        whole = rows.remote_bytes if rows is not None and rows.unfetched else relation.nbytes
        size += whole * len(ref.columns) // max(1, len(relation.types))
    return size <= store.room()[0]


def _on_gpus(pool: Pool, draft: StratumDraft) -> bool:
    """Whether a partitioned fixpoint starts on the workers' GPUs."""
    gpus = (
        pool.connection.gpus
        and device_for(pool, draft.later, draft.read_rows, draft.context.thresholds) != "cpu"
    )
    return gpus and draft.read_rows >= draft.context.thresholds.tiles_from


def _too_many(draft: StratumDraft) -> bool:
    """Whether the rules read more rows on workers than the driver should fetch."""
    names = {atom.name for rule in draft.stratum.rules for atom in rule.atoms}
    remote = [*unfetched(names - set(draft.stratum.relations), draft.inputs).values()]
    seeds = (remote_rows_of(part) for parts in draft.inputs.seeds.values() for part in parts)
    remote += [rows for rows in seeds if rows is not None]
    most = draft.context.memory // draft.context.thresholds.fetched_share
    return sum(rows.remote_bytes for rows in remote) > most
