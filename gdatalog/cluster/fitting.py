"""Whether a rule's relations fit: into the user's process, into each worker."""

from __future__ import annotations

from gdatalog.cluster.harvest import EASILY
from gdatalog.cluster.stock import Stock
from gdatalog.engine.surroundings import Surroundings
from gdatalog.plan.nodes import RulePlan

PART = 0.5  # of the memory of the user's process that rows from afar may take


def largest_afar(plan: RulePlan, around: Surroundings) -> str | None:
    """The largest of the relations that a rule reads whose rows lie afar and are not here."""
    sizes = {
        name: rows.bytes_afar
        for name in sorted({ref.relation for join in plan.joins for ref in join.tries})
        if (rows := around.relation(name).afar) is not None and rows.away
    }
    return max(sizes, key=sizes.__getitem__, default=None)


def fits_nowhere(plan: RulePlan, around: Surroundings, but: str | None = None) -> bool:
    """Whether a rule reads rows that lie afar and are more than this process may have, or so many
    that it would wait for them; `but` for one relation."""
    asked = {ref.relation for join in plan.joins for ref in join.tries} - {but}
    afar = [rows for name in asked if (rows := around.relation(name).afar) is not None]
    most = min(EASILY, around.limits.spare() * PART)
    return sum(rows.bytes_afar for rows in afar if rows.away) > most


def fits_workers(
    plan: RulePlan, around: Surroundings, stock: Stock, but: str | None = None
) -> bool:
    """Whether each worker can have the tries of a rule whole, beside what it makes of them; `but`
    for those of one relation."""
    size = 0
    for ref in {ref for join in plan.joins for ref in join.tries if ref.relation != but}:
        relation = around.relation(ref.relation)
        rows = relation.afar
        whole = rows.bytes_afar if rows is not None and rows.away else relation.nbytes
        size += whole * len(ref.columns) // max(1, len(relation.types))
    return size <= stock.room()[0]
