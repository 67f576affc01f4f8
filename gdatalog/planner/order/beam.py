"""The search for an order of many variables: a beam of the best orders, extended one by one.

At each level every order in the beam is extended by each variable that may come next. Orders that
lead to the same place are one: the cheaper is kept. How many turns a level may look at depends on
how many variables there are (`TURNS`): the search takes about as long for 50 variables as for 10.
With very many variables only the best order is extended, by the few variables that widen it
least: the search is then greedy.

What a branch costs is told by a greedy order of its own while the beam searches. A better one is
searched for once it is known which branches there are.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING

from gdatalog.planner.order.search_state import SearchState, VariableChoice
from gdatalog.records import dataclass

if TYPE_CHECKING:
    from gdatalog.planner.order.search import Search

TURNS = 6000  # at a level, divided by the square of the number of variables
FEWEST = 4  # at each level


@dataclass(slots=True, eq=False)
class Prefix:
    """An order of some variables: where it leads, and what it costs."""

    place: SearchState
    rows: float  # that come there, beside what its path's variables have
    cost: float
    work: float
    indexes: float
    before: Prefix | None
    variable: int
    own: VariableChoice  # what its last variable costs, for each row that comes to it
    share: float  # of the rows that came to the place before

    @property
    def total(self) -> float:
        return self.cost + self.indexes


def extend(
    search: Search, start: SearchState, allowed: int, found: dict[SearchState, VariableChoice]
) -> VariableChoice:
    """The best choice at a place, with so many turns at a level; those at the places behind it
    are noted in `found`."""
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


def _extended(search: Search, prefix: Prefix, allowed: int) -> list[Prefix]:
    place = prefix.place
    candidates = search.candidates(place)
    if not candidates:
        later = search.late(place)
        if later.rest == place.rest:
            later = later._replace(rest=0)  # nothing can bind what is left
        share = search.share(later, search.estimates.rows(place.path)) if later.rest else 1.0
        return [_longer(prefix, later, VariableChoice(0.0, 0.0, 0.0, -1), share)]
    if len(candidates) > allowed:
        candidates = nsmallest(allowed, candidates, key=lambda at: search.near(at, place))
    return [_with(search, prefix, at) for at in candidates]


def _with(search: Search, prefix: Prefix, at: int) -> Prefix:
    turn = search.turn(at, prefix.place)
    cost, work, indexes = search.step_cost(at, prefix.place, turn)
    following, rows = turn.next, turn.rows
    parts = turn.parts
    if parts and not following.rest:
        # Nothing follows the branches: the largest is searched as what follows.
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


def _promise(search: Search, prefix: Prefix) -> tuple[float, float]:
    """Orders with the least of this are extended: what they cost, and the rows to go on with."""
    rows = prefix.rows * search.estimates.rows(prefix.place.path)
    return prefix.total + rows, rows


def _noted(last: Prefix, found: dict[SearchState, VariableChoice]) -> VariableChoice:
    """The choices that made an order, from its end to its beginning."""
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
