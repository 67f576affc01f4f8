"""Beam search for an order of many variables: the best prefixes are extended, one variable at a
time.

At each level every prefix in the beam is extended by each variable that can come next. Of prefixes
that lead to the same state only the cheapest is kept. The number of extensions of a level falls
with the number of variables (`TURNS`), so that the search takes about as long for 50 variables as
for 10. With very many variables the search is greedy: it extends only the best prefix, by the few
variables with the least fan-out.

During the search, a branch costs what a small beam finds. The chosen branches are then searched
again with the full beam.
"""

from __future__ import annotations

from heapq import nsmallest

from gdatalog.planner.order.search_space import SearchSpace
from gdatalog.planner.order.search_state import SearchState, VariableChoice
from gdatalog.records import dataclass

TURNS = 6000  # extensions of a level, before division by the square of the number of variables
FEWEST = 4  # least number of extensions of a level


@dataclass(slots=True, eq=False)
class Prefix:
    """An order of some variables: the state it leads to, and its cost."""

    place: SearchState
    rows: float  # rows that reach it, relative to the bindings of its path
    cost: float
    work: float
    indexes: float
    before: Prefix | None
    variable: int
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
    none = VariableChoice(0.0, 0.0, 0.0, -1)
    prefixes = [Prefix(start, 1.0, 0.0, 0.0, 0.0, None, -1, none, 1.0)]
    best: Prefix | None = None
    while prefixes:
        search.watch.poll()
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
        prefixes = sorted(longer.values(), key=lambda prefix: _promise(search, prefix))
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
        return [_longer(prefix, later, VariableChoice(0.0, 0.0, 0.0, -1), share)]
    if len(candidates) > allowed:
        candidates = nsmallest(allowed, candidates, key=lambda at: search.near(at, place))
    return [_with(search, prefix, at) for at in candidates]


def _with(search: SearchSpace, prefix: Prefix, at: int) -> Prefix:
    turn = search.turn(at, prefix.place)
    cost, work, indexes = search.step_cost(at, prefix.place, turn)
    following, rows = turn.next, turn.rows
    parts = turn.parts
    if parts and not following.rest:
        # Only branches remain: the search continues with the largest.
        following, rows = max(parts, key=lambda part: part[0].rest.bit_count())
        parts = [part for part in parts if part[0] is not following]
    for branch, come in parts:
        found, share = search.branch(branch), search.share(branch, come)
        cost += found.cost * share
        work += found.work * share
        indexes += found.indexes
    share = search.share(following, rows) if following.rest else 1.0
    return _longer(prefix, following, VariableChoice(cost, work, indexes, at), share)


def _longer(prefix: Prefix, place: SearchState, own: VariableChoice, share: float) -> Prefix:
    return Prefix(
        place,
        prefix.rows * share,
        prefix.cost + own.cost * prefix.rows,
        prefix.work + own.work * prefix.rows,
        prefix.indexes + own.indexes,
        prefix,
        own.variable,
        own,
        share,
    )


def _promise(search: SearchSpace, prefix: Prefix) -> tuple[float, float]:
    """The sort key of prefixes: cost so far plus remaining rows, then remaining rows."""
    rows = prefix.rows * search.estimates.rows(prefix.place.path)
    return prefix.total + rows, rows


def _noted(last: Prefix, found: dict[SearchState, VariableChoice]) -> VariableChoice:
    """Records the choices of an order, from its end to its start."""
    choice = VariableChoice(0.0, 0.0, 0.0, -1)
    while last.before is not None:
        own, share = last.own, last.share
        choice = VariableChoice(
            own.cost + choice.cost * share,
            own.work + choice.work * share,
            own.indexes + choice.indexes,
            last.variable,
        )
        last = last.before
        found[last.place] = choice
    return choice
