"""Which recursive strata are run by workers, and how."""

from __future__ import annotations

from math import inf

from gdatalog.cluster.owners import Owners
from gdatalog.cluster.pool import Pool
from gdatalog.cluster.stretches import Stretches
from gdatalog.engine.splits import Splits
from gdatalog.storage.relation import Relation

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


def by_values(splits: Splits) -> bool:
    """Whether workers run the fixpoints of single values, each with all that the rules read."""
    spread = splits.around.knobs.spread
    if spread in ("never", "partition") or splits.split is None:
        return False
    return any(group is not None for group in splits.groups.values())


def fixpoint(pool: Pool, splits: Splits) -> dict[str, Relation] | None:
    """The relations of a recursive stratum; None if it is to be evaluated here."""
    if splits.around.knobs.spread == "never":
        return None
    if by_values(splits):
        found = Stretches(pool, splits, counts=False).relations()
        if found is not None:
            return found
    if splits.around.limit_sizes.keys() & set(splits.stratum.relations):
        return None  # where it stops is said by rounds, one after the other
    owners = Owners(pool, splits, splits.around.knobs.spread == "partition")
    return None if owners.makes_texts else owners.relations()
