"""Orders that start with a variable of the head, so that duplicates are dropped group by group.

Rows with the same values of the first variables then follow each other (`plan/dedup.py`), and each
is compared only with its group, which fits the cache, rather than with all rows.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from gdatalog.planner.order.search_state import SearchState

if TYPE_CHECKING:
    from gdatalog.planner.order.search import Search

# Costs of a row, in values tried: deduplicating against all rows, or within its group; and sorting,
# if rows do not come in the order of the head.
ALL, GROUP, SORTED = 25.0, 1.0, 3.0


def group(search: Search, place: SearchState, scale: float) -> None:
    """Chooses a variable of the head as the first, if that pays."""
    pattern, tuning = search.pattern, search.tuning
    if pattern.bag or not pattern.compacts or not pattern.live or pattern.outer:
        return
    found = search.best(place)
    if found.variable < 0 or pattern.live >> found.variable & 1:
        return
    rows, groups = _given(search, place, found.variable, scale)
    if not groups or rows < tuning.grouped_from:
        return
    least = found.cost * scale + found.indexes + ALL * rows
    different = search.estimates.whole(pattern.live) * scale
    for at in search.candidates(place):
        few = search.estimates.rows(1 << at) < tuning.grouped_least
        if few or not pattern.live >> at & 1:
            continue
        choice = search.choice(at, place, inf)
        rows, groups = _given(search, place, at, scale)
        total = choice.cost * scale + choice.indexes + GROUP * rows
        if pattern.outputs[:1] != (at,):
            total += SORTED * min(rows, different)
        if rows <= tuning.grouped_rows_most * groups and total < least:
            least = total
            search.begin(place, choice)


def _given(search: Search, place: SearchState, at: int, scale: float) -> tuple[float, float]:
    """The number of rows that an order with this first variable gives, and of groups: bindings of
    the head's variables before the first other one. No groups: all rows are distinct."""
    live, groups = search.pattern.live, 0.0
    rows = search.estimates.rows(place.path) * scale
    while place.rest and at >= 0:
        if not live >> at & 1 and not groups:
            groups = max(1.0, rows)
        turn = search.turn(at, place)
        rows = turn.rows * scale
        scale *= search.share(turn.next, turn.rows)
        place = turn.next
        at = search.best(place).variable if place.rest else -1
    return rows, groups
