"""Which recursive strata are run by workers, and how."""

from __future__ import annotations

from math import inf

from gdatalog.cluster.pool import Pool
from gdatalog.cluster.recursion.owners import Owners, afar_of, refusal_of
from gdatalog.cluster.recursion.stretches import Stretches
from gdatalog.cluster.rows.texts import asks_for_ranks
from gdatalog.engine.best import Best
from gdatalog.engine.device import CPU
from gdatalog.engine.splits import Splits
from gdatalog.engine.spread import SpreadFixpoint
from gdatalog.engine.stratum import atoms
from gdatalog.storage.afar import AfarRows, Keeper
from gdatalog.storage.relation import Relation
from gdatalog.storage.table import Array

# Seconds that a fixpoint is given here, before workers begin with it anew: one whose values are
# apart; one whose rows have to be exchanged, which pays where there are so many times more threads.
HERE_FIRST, HERE_LONG, THREADS = 1.0, 10.0, 4
SHARE = 4  # rows that lie afar are brought if they are no more than this part of the memory


def patience(pool: Pool, splits: Splits) -> float:
    """For how many seconds a stratum is tried here first."""
    knobs = splits.around.knobs
    if knobs.spread in ("replicate", "partition"):
        return 0.0
    if knobs.spread == "never" or splits.around.device is not CPU:
        return inf
    if _too_many(splits):
        return 0.0
    if any(isinstance(table, Best) for table in splits.tables.values()):
        return inf  # they are improved in place, and not round by round
    if splits.split is None:
        return HERE_LONG if pool.slots >= THREADS * knobs.workers else inf
    return HERE_FIRST if pool.slots > 1 else inf


def foreseen(pool: Pool, splits: Splits, workers: int) -> SpreadFixpoint | None:
    """How a stratum would be evaluated, as far as can be said before it is; None if only here."""
    spread = splits.around.knobs.spread
    if spread == "never" or splits.around.device is not CPU:
        return None
    many = _too_many(splits)
    seconds = patience(pool, splits)
    by = None if splits.split is None or spread == "partition" or many else splits.split_by()
    if by is not None and any(map(asks_for_ranks, splits.later)):
        by = None
    refusal = None if by is not None else refusal_of(splits, splits.later)
    why = ""
    if seconds == inf:
        best = any(isinstance(table, Best) for table in splits.tables.values())
        why = "best values are improved in place" if best else "there are too few threads elsewhere"
    parted = by is None and (spread == "partition" or many)
    return SpreadFixpoint(workers, by, parted, seconds, why, refusal)


def _too_many(splits: Splits) -> bool:
    """Whether the rules read more rows that lie on workers than can well be here."""
    around = splits.around
    names = {atom.name for rule in splits.stratum.rules for atom in atoms(rule)}
    stores = [around.relation(name).store for name in names - set(splits.stratum.relations)]
    afar = [store for store in stores if isinstance(store, AfarRows) and store.away]
    seeds = (afar_of(part) for parts in splits.seeds.values() for part in parts)
    afar += [rows for rows in seeds if rows is not None]
    return sum(store.bytes_afar for store in afar) > around.memory // SHARE


def fixpoint(pool: Pool, keeper: Keeper, splits: Splits) -> dict[str, Relation] | None:
    """The relations of a recursive stratum; None if it is to be evaluated here."""
    if splits.around.knobs.spread == "never":
        return None
    stretches = _stretches(pool, keeper, splits, counts=False)
    found = None if stretches is None else stretches.relations()
    if found is not None:
        return found
    parted = splits.around.knobs.spread == "partition" or _too_many(splits)
    owners = Owners(pool, keeper, splits, parted)
    return owners.relations() if owners.refusal is None else None


def counts(pool: Pool, keeper: Keeper, splits: Splits) -> dict[str, tuple[Array, Array]] | None:
    """How many rows relations have for each value that they split by; None if only rounds can
    tell, or what is here."""
    stretches = _stretches(pool, keeper, splits, counts=True)
    return None if stretches is None else stretches.numbers()


def _stretches(pool: Pool, keeper: Keeper, splits: Splits, counts: bool) -> Stretches | None:
    """Workers that run the fixpoints of single values, each with all that the rules read."""
    if splits.around.knobs.spread in ("never", "partition") or splits.split is None:
        return None
    if _too_many(splits):
        return None
    stretches = Stretches(pool, keeper, splits, counts)
    return stretches if stretches.serves else None
