"""Which recursive strata are run by workers, and how."""

from __future__ import annotations

from collections.abc import Mapping

from gdatalog.cluster.pool import Pool
from gdatalog.cluster.recursion.hash_partitions import HashPartitions, refusal_of, remote_rows_of
from gdatalog.cluster.recursion.key_ranges import KeyRangeFixpoint, device_for
from gdatalog.cluster.rows.texts import asks_for_ranks
from gdatalog.engine.device import CPU
from gdatalog.engine.fixpoint.lattice_rounds import LatticeRounds
from gdatalog.engine.fixpoint.partitioned import PartitionedStratum
from gdatalog.engine.fixpoint.strategies import counted_relations
from gdatalog.engine.fixpoint.stratum import atoms
from gdatalog.plan.placement import OnWorkers
from gdatalog.plan.tuning import Bytes, TooManyRows, When
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import Keeper, RemoteRows


def placement_of(pool: Pool, splits: PartitionedStratum) -> OnWorkers | None:
    """Where a stratum is evaluated, as far as can be said before it is; None if only here."""
    context, tuning = splits.context, splits.context.tuning
    spread = context.knobs.spread
    if spread == "never" or context.device is not CPU:
        return None
    many = _too_many(splits)
    by = None if splits.split is None or spread == "partition" or many else splits.split_by()
    if by is not None and any(map(asks_for_ranks, splits.later)):
        by = None
    refusal = None if by is not None else refusal_of(splits, splits.later)
    parted = by is None and (spread == "partition" or many)
    if spread != "auto" or many:
        return OnWorkers(len(pool.workers), by, parted, (), "", refusal)
    until: tuple[When, ...] = (Bytes(context.memory),)
    why, least = "", tuning.rounds_spread_threads * context.knobs.workers
    if any(isinstance(table, LatticeRounds) for table in splits.tables.values()):
        why = "best values are improved in place"
    elif by is not None and _on_gpus(pool, splits):
        until = ()
    elif splits.split is not None and pool.slots > 1:
        until = (TooManyRows(tuning.partitions_spread_from), *until)
    elif splits.split is None and pool.slots >= least:
        until = (TooManyRows(tuning.rounds_spread_from), *until)
    else:
        why = "there are too few threads elsewhere"
    return OnWorkers(len(pool.workers), by, parted, until, why, refusal)


def _on_gpus(pool: Pool, splits: PartitionedStratum) -> bool:
    """Whether workers' GPUs take the values of a partitioned fixpoint at once."""
    gpus = pool.connection.gpus and device_for(pool, splits) != "cpu"
    return gpus and splits.read_rows >= splits.context.tuning.tiles_from


def _too_many(splits: PartitionedStratum) -> bool:
    """Whether the rules read more rows that lie on workers than can well be here."""
    names = {atom.name for rule in splits.stratum.rules for atom in atoms(rule)}
    stores = [splits.inputs.relation(name).store for name in names - set(splits.stratum.relations)]
    remote = [store for store in stores if isinstance(store, RemoteRows) and store.unfetched]
    seeds = (remote_rows_of(part) for parts in splits.inputs.seeds.values() for part in parts)
    remote += [rows for rows in seeds if rows is not None]
    most = splits.context.memory // splits.context.tuning.fetched_share
    return sum(store.remote_bytes for store in remote) > most


def fixpoint(
    pool: Pool, keeper: Keeper, splits: PartitionedStratum, placement: OnWorkers, counted: bool
) -> Mapping[str, Relation] | None:
    """The relations of a recursive stratum or, if `counted`, how many rows they have for each value
    that they split by; None if it is to be evaluated here after all."""
    if counted and placement.by is not None:
        ranges = KeyRangeFixpoint(pool, keeper, splits, True)
        counts = ranges.numbers() if ranges.serves else None
        if counts is not None:
            return counted_relations(splits, counts)
    if counted and placement.until:
        return None
    if placement.by is not None:
        ranges = KeyRangeFixpoint(pool, keeper, splits, False)
        found = ranges.relations() if ranges.serves else None
        if found is not None:
            return found
    owners = HashPartitions(pool, keeper, splits, placement.parted)
    return owners.relations() if owners.refusal is None else None
