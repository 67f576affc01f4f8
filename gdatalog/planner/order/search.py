"""Search for the cheapest order of variables, as a tree.

Up to `Thresholds.ordered_exactly` variables, the search is exhaustive. A single atom needs no
search (`single_order`). Beyond, it is a beam search (`beam.py`). During the search, a branch
costs what a small beam finds. The chosen branches are then searched again with the full beam.

Where the head needs few groups of rows compared, the order may start with a variable of the head:
rows with the same values of the first variables then follow each other (`plan/nest.py`), and each
is compared only with its group, which fits the cache, rather than with all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from gdatalog.planner.order.beam import FEWEST, TURNS, extend
from gdatalog.planner.order.cost import LevelCost
from gdatalog.planner.order.formula import TINY, Formula
from gdatalog.planner.order.pattern import PatternAtom, QueryPattern, bits
from gdatalog.planner.order.sampling import Sampler
from gdatalog.planner.order.search_space import (
    NOTHING,
    Order,
    SearchSpace,
    SearchState,
    VariableChoice,
)
from gdatalog.settings import Thresholds

MOST_ORDERED = 5  # most variables for which all orders are compared


def single_order(pattern: QueryPattern, rows: float) -> Order | None:
    """The order of a body with one atom, for `rows` outer rows; None if values are also generated
    or aggregated, or if one row is enough.

    Columns compared with constants come first, then columns with the fewest values, until these
    identify the rows. Further columns cost the same in every order: columns of the answer follow in
    its order, then the others.
    """
    if pattern.given or pattern.aggregates or not (pattern.bag or pattern.live):
        return None
    (atom,) = pattern.atoms
    formula = Formula(pattern)
    path = pattern.closed(pattern.outer, pattern.everything)
    columns = _in_order(pattern, atom, path)
    order = Order()
    scale = rows / max(formula.rows(pattern.outer), TINY)
    for number, at in enumerate(columns, 1):
        wider = path | 1 << at
        known, mine = atom.mask & path, atom.mask & wider
        before = formula.rows(path) * scale
        lists = formula.paths(atom, mine) / max(TINY, formula.paths(atom, known) if known else 1.0)
        last = number == len(columns) and pattern.bag and not pattern.live >> at & 1
        order.work += (
            before if last and number > 1 else before * min(lists, atom.degrees(at).powers[0])
        )
        order.rank[pattern.names[at]] = number
        order.estimates[pattern.names[at]] = formula.rows(wider, path) * scale
        path = pattern.closed(wider, pattern.everything, 1 << at)
        formula.rows(path, wider)
    return order


def _in_order(pattern: QueryPattern, atom: PatternAtom, path: int) -> list[int]:
    """The variables that the atom binds, in their order."""
    left = [at for at in atom.columns if not (path | pattern.computed) >> at & 1]
    values = {at: atom.degrees(at).powers[0] for at in left}
    ranges = pattern.ranges
    limited = sorted(
        (at for at in left if at in ranges), key=lambda at: (ranges[at].share(0) * values[at], at)
    )
    found = limited
    share, wanted = 1.0, atom.size.rows
    for at in limited:
        share *= values[at]
    for at in sorted([at for at in left if at not in ranges], key=lambda at: (values[at], at)):
        if share >= wanted:
            break
        share *= values[at]
        found.append(at)
    asked = [at for at in pattern.outputs if at in values]
    asked += [at for at in bits(pattern.live) if at in values]
    return list(dict.fromkeys((*found, *asked, *left)))


# Costs of a row, in values tried: deduplicating against all rows, or within its group; and sorting,
# if rows do not come in the order of the head.
ALL, GROUP, SORTED = 25.0, 1.0, 3.0


class Search(SearchSpace):
    """The search for one conjunction's order."""

    def __init__(
        self, pattern: QueryPattern, sampler: Sampler | None, thresholds: Thresholds
    ) -> None:
        super().__init__(pattern, sampler, thresholds)
        self._found: dict[SearchState, VariableChoice] = {}
        self._sketched: dict[SearchState, VariableChoice] = {}
        self._allowed = max(FEWEST, TURNS // max(1, self.variables) ** 2)
        self._of_branch = max(2, self._allowed // 8)

    def order(self, rows: float) -> Order:
        """The best order, for `rows` outer rows."""
        pattern = self.pattern
        path = pattern.closed(pattern.outer, pattern.everything)
        exists = not pattern.bag and not pattern.live
        scale = rows / max(self.estimates.rows(pattern.outer), TINY)
        place = SearchState(path, pattern.everything & ~path, exists)
        if place.rest:
            self.best(place)
            group(self, place, scale)
        return self._described(place, scale)

    def best(self, place: SearchState) -> VariableChoice:
        """The best variable to bind next, and its cost."""
        found = self._found.get(place)
        if found is None and not self.exact:
            found = self._found[place] = extend(self, place, self._allowed, self._found)
        elif found is None:
            # The states that wait for the best choice of the one above them.
            waiting = [self._choosing(place)]
            while waiting:
                below = next(waiting[-1], None)
                if below is None:
                    waiting.pop()
                else:
                    waiting.append(self._choosing(below))
            found = self._found[place]
        return found

    def _choosing(self, place: SearchState) -> Iterator[SearchState]:
        """Finds the best choice at a state. Yields the states whose best choices must be found
        before."""
        known, estimates, rows_of = self._found, self.estimates, self.estimates.known
        candidates = self.candidates(place)
        least: dict[int, float] = {}
        levels: dict[int, LevelCost] = {}
        if len(candidates) > 1:
            # Cheapest first, to prune the others.
            rows = estimates.rows(place.path)
            for at in candidates:
                levels[at] = estimates.level(at, place.path, place.made)
                least[at] = rows * levels[at].tried
            candidates = sorted(least, key=least.__getitem__)
        found, total = VariableChoice(inf, inf, 0.0, -1), inf
        for at in candidates:
            if least and least[at] > total and not place.exists and place.rest != 1 << at:
                break
            turn = self.turn(at, place, levels.get(at))
            choice = self.step_cost(at, place, turn)
            for below, rows in (*turn.parts, (turn.next, turn.rows)):
                # The cost is exact only up to that of the best choice.
                if below.rest and choice.cost + choice.indexes <= total:
                    if below not in known:
                        yield below
                    arrive = rows_of.get(below.path)
                    arrive = estimates.rows(below.path) if arrive is None else arrive
                    choice = choice.plus(known[below], rows / max(TINY, arrive))
            if found.variable < 0 or choice.better(found):
                found, total = choice, choice.cost + choice.indexes
        if not candidates:
            later, after = self.late(place), NOTHING
            if later.rest != place.rest:
                if later not in known:
                    yield later
                after = known[later]
            found = after._replace(variable=-1)
        known[place] = found

    def begin(self, place: SearchState, choice: VariableChoice) -> None:
        """Fixes the choice at a state."""
        self._found[place] = choice

    def branch(self, place: SearchState) -> VariableChoice:
        """The cost of a branch, by an order that may not be optimal."""
        if self.exact:
            return self.best(place)
        found = self._sketched.get(place)
        if found is None:
            found = self._sketched[place] = extend(self, place, self._of_branch, self._sketched)
        return found

    def choice(self, at: int, place: SearchState) -> VariableChoice:
        """The cost of binding a variable next."""
        turn = self.turn(at, place)
        found = self.step_cost(at, place, turn)
        for below, rows in (*turn.parts, (turn.next, turn.rows)):
            if below.rest:
                share = rows / max(TINY, self.estimates.rows(below.path))
                found = found.plus(self.best(below), share)
        return found

    def _described(self, place: SearchState, scale: float) -> Order:
        """The tree that was found, with `scale` rows for each row of the path."""
        order = Order()
        todo = [(place, scale)]
        while todo:
            place, scale = todo.pop()
            if not place.rest:
                continue
            at = self.best(place).variable
            if at < 0:
                later = self.late(place)
                if later.rest != place.rest:
                    rows = self.estimates.rows(place.path) * scale
                    todo.append((later, self.share(later, rows)))
                continue
            turn = self.turn(at, place)
            name = self.pattern.names[at]
            order.rank[name] = len(order.rank)
            order.work += self.step_cost(at, place, turn).work * scale
            # For an aggregate, count the rows that pass the tests of its value.
            rows = turn.rows if at in self.pattern.aggregates else turn.after
            order.estimates[name] = rows * scale
            todo.append((turn.next, self.share(turn.next, turn.rows) * scale))
            todo += [
                (branch, self.share(branch, rows) * scale) for branch, rows in reversed(turn.parts)
            ]
        return order


def best_order(pattern: QueryPattern, rows: float, thresholds: Thresholds) -> Order:
    """The best order by formulas; by samples, if the work is large and sampling is possible."""
    variables = (pattern.everything & ~pattern.outer).bit_count()
    if len(pattern.atoms) == 1 and variables > MOST_ORDERED:
        alone = single_order(pattern, rows)
        if alone is not None:
            return alone
    search = Search(pattern, None, thresholds)
    always, mixed = thresholds.walked_from <= 0, thresholds.walked_from < 0
    few = search.variables <= 2 and not any(cut.ranks for cut in pattern.ranges.values())
    if not search.exact or (few and not mixed):
        return search.order(rows)
    # From this many rows on, sampling pays without a search by formulas first.
    enough = thresholds.walked_from << search.variables
    order = None
    if max([atom.size.rows for atom in pattern.atoms]) < enough:
        order = search.order(rows)
        if order.work < enough:
            return order
    sampler = Sampler(pattern, always, mixed)
    if sampler.usable:
        return Search(pattern, sampler, thresholds).order(rows)
    return order or search.order(rows)


def group(search: Search, place: SearchState, scale: float) -> None:
    """Chooses a variable of the head as the first, if that pays."""
    pattern, thresholds = search.pattern, search.thresholds
    if pattern.bag or not pattern.compacts or not pattern.live or pattern.outer:
        return
    found = search.best(place)
    if found.variable < 0 or pattern.live >> found.variable & 1:
        return
    rows, groups = _given(search, place, found.variable, scale)
    if not groups or rows < thresholds.grouped_from:
        return
    least = found.cost * scale + found.indexes + ALL * rows
    different = search.estimates.whole(pattern.live) * scale
    for at in search.candidates(place):
        few = search.estimates.rows(1 << at) < thresholds.grouped_least
        if few or not pattern.live >> at & 1:
            continue
        choice = search.choice(at, place)
        rows, groups = _given(search, place, at, scale)
        total = choice.cost * scale + choice.indexes + GROUP * rows
        if pattern.outputs[:1] != (at,):
            total += SORTED * min(rows, different)
        if rows <= thresholds.grouped_rows_most * groups and total < least:
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
