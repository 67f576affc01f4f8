"""Which recursive strata are run by workers, and how."""

from __future__ import annotations

from math import inf

from gdatalog.cluster.owners import Owners
from gdatalog.cluster.pool import Pool
from gdatalog.cluster.stretches import Stretches
from gdatalog.engine.splits import Splits
from gdatalog.storage.relation import Relation
from gdatalog.storage.table import Array

# Seconds that a fixpoint is given here, before workers begin with it anew.
HERE_FIRST = 1.0


def patience(pool: Pool, splits: Splits) -> float:
    """For how many seconds a stratum is tried here first."""
    spread = splits.around.knobs.spread
    if spread in ("replicate", "partition"):
        return 0.0
    if spread == "never" or splits.split is None or pool.connection.slots < 2:
        return inf
    return HERE_FIRST


def fixpoint(pool: Pool, splits: Splits) -> dict[str, Relation] | None:
    """The relations of a recursive stratum; None if it is to be evaluated here."""
    spread = splits.around.knobs.spread
    if spread == "never":
        return None
    stretches = _stretches(pool, splits, counts=False)
    found = None if stretches is None else stretches.relations()
    if found is not None:
        return found
    owners = Owners(pool, splits, spread == "partition")
    return owners.relations() if owners.refusal is None else None


def counts(pool: Pool, splits: Splits) -> dict[str, tuple[Array, Array]] | None:
    """How many rows relations have for each value that they split by; None if only rounds can
    tell, or what is here."""
    stretches = _stretches(pool, splits, counts=True)
    return None if stretches is None else stretches.numbers()


def _stretches(pool: Pool, splits: Splits, counts: bool) -> Stretches | None:
    """Workers that run the fixpoints of single values, each with all that the rules read."""
    if splits.around.knobs.spread in ("never", "partition") or splits.split is None:
        return None
    stretches = Stretches(pool, splits, counts)
    return stretches if stretches.serves else None
