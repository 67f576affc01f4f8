"""How a stratum is evaluated: once where nothing in it is recursive, else to a fixpoint.

On dictionary codes, where that pays. The ways of a fixpoint are imported for a recursive stratum.
"""

from __future__ import annotations

from gdatalog.engine.derived import Seeds
from gdatalog.engine.encoding import encode
from gdatalog.engine.stratum import StratumRun
from gdatalog.engine.surroundings import Surroundings
from gdatalog.errors import EvaluationError
from gdatalog.planner.checked import Stratum
from gdatalog.storage.relation import Relation


def run_stratum(
    stratum: Stratum,
    seeds: Seeds,
    around: Surroundings,
    limit: int | None = None,
) -> dict[str, Relation]:
    """The stratum's relations; at most `limit` rows of the one there is, if given.

    `seeds`: the rows that they have without any rule.
    """
    encoded = None if limit is not None else encode(stratum, seeds, around)
    if encoded is None:
        return _run(stratum, seeds, around, limit)
    try:
        found = _run(encoded.stratum, encoded.seeds, encoded.around)
    except EvaluationError:  # its message would show codes
        return _run(stratum, seeds, around)
    return encoded.decoded(found)


def _run(
    stratum: Stratum,
    seeds: Seeds,
    around: Surroundings,
    limit: int | None = None,
) -> dict[str, Relation]:
    if not stratum.recursive:
        return StratumRun(stratum, seeds, around).once(limit)
    from gdatalog.engine.fixpoint import run_recursive

    return run_recursive(stratum, seeds, around)
