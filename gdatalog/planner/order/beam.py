"""Beam search: extends the best prefixes of an order by each variable that can come next.

Of prefixes that lead to the same state only the cheapest is kept. The number of extensions of a
level falls with the number of variables (`TURNS`), so that the search takes about as long for 50
variables as for 10. With very many variables the search is greedy: it extends only the best prefix,
by the few variables with the least fan-out.
"""

from __future__ import annotations

from heapq import nsmallest

from gdatalog.planner.order.search_space import NOTHING, SearchSpace, SearchState, VariableChoice
from gdatalog.records import dataclass

TURNS = 6000  # extensions of a level, before division by the square of the number of variables
FEWEST = 4  # least number of extensions of a level


@dataclass(slots=True, eq=False)
class Prefix:
    """An order of some variables: the state it leads to, and its cost."""

    place: SearchState
    rows: float  # rows that reach it, relative to the bindings of its path
    cost: float
    indexes: float
    before: Prefix | None
    own: VariableChoice  # the cost of its last variable, for each row
    share: float  # share of the rows of the state before

    @property
    def total(self) -> float:
        return self.cost + self.indexes


def extend(
    search: SearchSpace, start: SearchState, allowed: int, found: dict[SearchState, VariableChoice]
) -> VariableChoice:
    """The best choice at a state, with `allowed` extensions of each level; adds the choices at
    later states to `found`."""

    def promise(prefix: Prefix) -> tuple[float, float]:
        """Cost so far plus remaining rows, then remaining rows."""
        rows = prefix.rows * search.estimates.rows(prefix.place.path)
        return prefix.total + rows, rows

    prefixes = [Prefix(start, 1.0, 0.0, 0.0, None, NOTHING, 1.0)]
    best: Prefix | None = None
    while prefixes:
        longer: dict[SearchState, Prefix] = {}
        turns = 0
        for prefix in prefixes:
            if turns >= allowed or (best is not None and prefix.total >= best.total):
                break
            for other in _extended(search, prefix, allowed):
                turns += 1
                place = other.place
                if not place.rest:
                    if best is None or other.total < best.total:
                        best = other
                elif place not in longer or other.total < longer[place].total:
                    longer[place] = other
        prefixes = sorted(longer.values(), key=promise)
    assert best is not None
    return _noted(best, found)


def _extended(search: SearchSpace, prefix: Prefix, allowed: int) -> list[Prefix]:
    place = prefix.place
    candidates = search.candidates(place)
    if not candidates:
        later = search.late(place)
        if later.rest == place.rest:
            later = later._replace(rest=0)  # nothing can bind the rest
        share = search.share(later, search.estimates.rows(place.path)) if later.rest else 1.0
        return [_longer(prefix, later, NOTHING, share)]
    if len(candidates) > allowed:
        candidates = nsmallest(allowed, candidates, key=lambda at: search.near(at, place))
    return [_with(search, prefix, at) for at in candidates]


def _with(search: SearchSpace, prefix: Prefix, at: int) -> Prefix:
    turn = search.turn(at, prefix.place)
    own = search.step_cost(at, prefix.place, turn)
    following, rows = turn.next, turn.rows
    parts = turn.parts
    if parts and not following.rest:
        # Only branches remain: the search continues with the largest.
        following, rows = max(parts, key=lambda part: part[0].rest.bit_count())
        parts = [part for part in parts if part[0] is not following]
    for branch, come in parts:
        own = own.plus(search.branch(branch), search.share(branch, come))
    share = search.share(following, rows) if following.rest else 1.0
    return _longer(prefix, following, own, share)


def _longer(prefix: Prefix, place: SearchState, own: VariableChoice, share: float) -> Prefix:
    cost, indexes = prefix.cost + own.cost * prefix.rows, prefix.indexes + own.indexes
    return Prefix(place, prefix.rows * share, cost, indexes, prefix, own, share)


def _noted(last: Prefix, found: dict[SearchState, VariableChoice]) -> VariableChoice:
    """Records the choices of an order, from its end to its start."""
    choice = NOTHING
    while last.before is not None:
        choice = last.own.plus(choice, last.share)
        last = last.before
        found[last.place] = choice
    return choice
