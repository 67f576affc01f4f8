"""The order in which variables are bound, as a tree, by what it costs.

The search goes over sets: `rest` is to be bound, `path` is what is known on the way (what is
bound, less what nobody needs any more). Where the rest falls into parts that share no literal,
parts that are not asked for become branches: of a set a witness is enough (`exists`), of a bag
how many there are (`count`), and what a branch costs depends on what it reads alone. Up to
`EXACT` variables every order is weighed; beyond, the cheapest next variable is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from gdatalog.planner.cost import TINY, Estimates
from gdatalog.planner.pattern import Pattern, bits
from gdatalog.planner.sampling import Sampler

EXACT = 8
WALK = 2000  # values tried, for each set of variables, that make walks worth their while
# What things cost, in values tried.
ROW, PROBE, EMIT, UNORDERED, COMPACT = 0.3, 0.1, 0.3, 0.1, 0.5
SORT, FREE = 3.0, 1000  # of an index that is not there: for each row, but for so many


@dataclass(slots=True)
class Order:
    """What the search has found: when each variable is bound, and what is expected then."""

    rank: dict[str, int] = field(default_factory=dict)
    estimates: dict[str, float] = field(default_factory=dict)  # bindings after it
    work: float = 0.0  # values tried at all levels


@dataclass(slots=True)
class Turn:
    """What follows when a variable has been bound.

    `parts` are the branches, each with how many distinct rows come to it; `rest` goes on below
    `path`, for `rows` rows.
    """

    tried: float  # values, over all rows of the path
    after: float  # bindings with the variable
    parts: list[tuple[int, int, float]]  # what it reads, its variables, rows
    path: int
    rest: int
    rows: float
    extra: float  # what making rows one costs


class Search:
    """The search for one conjunction's order."""

    def __init__(self, pattern: Pattern, sampler: Sampler | None = None) -> None:
        self.pattern = pattern
        self.estimates = Estimates(pattern, sampler)
        self._found: dict[tuple[int, int, bool], tuple[float, int]] = {}
        self._indexes: dict[tuple[int, int], float] = {}

    def order(self, rows: float) -> Order:
        """The best order, for so many rows from outside."""
        pattern = self.pattern
        order = Order()
        path = pattern.closed(pattern.outer, pattern.everything)
        rest = pattern.everything & ~path
        exists = not pattern.bag and not pattern.live
        scale = rows / max(self.estimates.rows(pattern.outer), TINY)
        self._describe(path, rest, exists, scale, order)
        return order

    # ------------------------------------------------------------------------------ candidates

    def _candidates(self, path: int, rest: int) -> list[int]:
        """What may be bound next: what something known leads to, if there is such a thing."""
        pattern, estimates = self.pattern, self.estimates
        free = rest & ~pattern.computed
        found = [
            at for at in bits(free) if not pattern.before[at] & free and estimates.joined(at, path)
        ]
        if found or not free:
            return found
        if rest & pattern.computed:
            return []  # what is computed last may connect what is left
        sourced = {given.variable for given in pattern.given if given.sources & ~path == 0}
        return [
            at
            for at in bits(free)
            if not pattern.before[at] & free and (estimates.holding(at) or at in sourced)
        ]

    # ------------------------------------------------------------------------------- the search

    def _best(self, path: int, rest: int, exists: bool) -> tuple[float, int]:
        """The least cost of binding the rest, for all bindings of the path, and what is next."""
        key = (path, rest, exists)
        found = self._found.get(key)
        if found is None:
            candidates = self._candidates(path, rest)
            if candidates and rest.bit_count() > EXACT:
                candidates = [min(candidates, key=lambda at: self._near(at, path))][:1]
            best = inf, -1
            for at in candidates:
                cost = self._cost(at, path, rest, exists, best[0])
                if best[1] < 0 or cost < best[0] * (1 - 1e-9):
                    best = cost, at
            if not candidates:
                best = self._computed(path, rest, exists), -1
            found = self._found[key] = best
        return found

    def _near(self, at: int, path: int) -> float:
        return self.estimates.tried(at, path) + self.estimates.rows(path | 1 << at)

    def _computed(self, path: int, rest: int, exists: bool) -> float:
        """What is left when only what is computed last can bind more."""
        late = rest & self.pattern.computed
        path, rest = self._late(path, rest)
        return self._best(path, rest, exists)[0] if rest and late else 0.0

    def _late(self, path: int, rest: int) -> tuple[int, int]:
        path = self.pattern.closed(path | rest & self.pattern.computed, rest)
        return path, rest & ~path

    def _cost(self, at: int, path: int, rest: int, exists: bool, enough: float) -> float:
        """What it costs to bind a variable next; it need not be known where it is `enough`."""
        estimates = self.estimates
        turn = self._turn(at, path, rest, exists)
        level = estimates.level(at, path)
        cost = ROW * estimates.rows(path) + turn.tried * (1 + PROBE * level.others) + turn.extra
        cost += self._index(at, path)
        for reads, part, rows in turn.parts:
            cost += self._below(reads, part, rows, not self.pattern.bag)
        if cost > enough:
            return cost
        return cost + self._below(turn.path, turn.rest, turn.rows, exists)

    def _below(self, path: int, rest: int, rows: float, exists: bool) -> float:
        """What the rest costs when only so many rows of a path come to it."""
        if not rest:
            return 0.0
        return self._best(path, rest, exists)[0] * rows / max(TINY, self.estimates.rows(path))

    def _turn(self, at: int, path: int, rest: int, exists: bool) -> Turn:
        pattern, estimates = self.pattern, self.estimates
        bit = 1 << at
        bound = pattern.closed(path | bit, rest)
        left = rest & ~bound
        tried = estimates.tried(at, path)
        after, rows = estimates.rows(path | bit), estimates.rows(bound)
        if exists:
            # Once there is a witness nobody looks on.
            matches = estimates.rows(path | rest) / max(TINY, estimates.rows(path))
            if matches > 1:
                tried, after, rows = tried / matches, after / matches, rows / matches
        elif pattern.bag and not left and not bit & pattern.live and self._measured(at, path):
            tried = estimates.rows(path)
        turn = Turn(tried, after, [], bound, left, rows, 0.0)
        self._split(turn)
        if not exists:
            self._emit(turn, at, path)
        return turn

    def _measured(self, at: int, path: int) -> bool:
        """Whether the last level of a count is the length of a list."""
        bound = path | 1 << at
        return self.estimates.level(at, path).single and not any(
            whole >> at & 1 and whole & ~bound == 0 for whole in self.pattern.filters
        )

    def _split(self, turn: Turn) -> None:
        """Parts that are not asked for become branches."""
        pattern, estimates = self.pattern, self.estimates
        parts = pattern.components(turn.rest)
        if pattern.bag and len(parts) < 2:
            return
        kept = 0
        for part in parts:
            if part & (pattern.live | pattern.risky):
                kept |= part
                continue
            reads = pattern.around(part) & turn.path
            rows = estimates.rows(reads)
            turn.parts.append((reads, part, min(turn.rows, rows)))
            turn.rows *= min(1.0, estimates.rows(reads | part) / max(TINY, rows))
        turn.rest = kept

    def _emit(self, turn: Turn, at: int, path: int) -> None:
        """What it costs to hand rows on: to the answer, or on as fewer rows."""
        pattern = self.pattern
        asked = pattern.live & turn.path
        if asked and not turn.rest:
            # Rows of one group that come one after the other are one.
            grouped = pattern.bag and not pattern.live >> at & 1
            turn.extra += EMIT * (self.estimates.rows(path) if grouped else turn.rows)
        if pattern.live >> at & 1 and not pattern.bag:
            missing = [output for output in pattern.outputs if not path >> output & 1]
            if missing and missing[0] != at:
                turn.extra += UNORDERED * turn.after  # the answer has to be sorted
        if pattern.compacts and turn.rest:
            needed = pattern.live | pattern.around(turn.rest)
            kept = turn.path & needed
            few = self.estimates.rows(kept)
            if kept != turn.path and few < 0.9 * turn.rows:
                turn.extra += COMPACT * turn.rows
                # Rows become one breadth-first only, so they count by half.
                turn.rows = (turn.rows + few) / 2
                turn.path = kept

    def _index(self, at: int, path: int) -> float:
        """What sorting takes where an atom's columns are in an order that has no index yet."""
        key = (at, path & self.estimates.near(at))
        found = self._indexes.get(key)
        if found is None:
            sorts: dict[object, float] = {}
            for atom in self.estimates.holding(at):
                known = frozenset(
                    column for variable, column in atom.columns.items() if path >> variable & 1
                )
                column = atom.columns[at]
                first = not atom.fixed and known == frozenset(range(len(known)))
                if first and not atom.size.indexed(known, column):
                    sorts[atom.source, column] = SORT * max(0, atom.size.rows - FREE)
            found = self._indexes[key] = sum(sorts.values())
        return found

    # ------------------------------------------------------------------------------ the outcome

    def _describe(self, path: int, rest: int, exists: bool, scale: float, order: Order) -> None:
        """Writes down the tree that was found: `scale` times the path's rows come to it."""
        if not rest:
            return
        at = self._best(path, rest, exists)[1]
        if at < 0:
            later, left = self._late(path, rest)
            if left != rest:
                before = self.estimates.rows(path) * scale
                scale = before / max(TINY, self.estimates.rows(later))
                self._describe(later, left, exists, scale, order)
            return
        turn = self._turn(at, path, rest, exists)
        name = self.pattern.names[at]
        order.rank[name] = len(order.rank)
        order.estimates[name] = turn.after * scale
        order.work += turn.tried * scale
        for reads, part, rows in turn.parts:
            share = rows / max(TINY, self.estimates.rows(reads))
            self._describe(reads, part, not self.pattern.bag, share * scale, order)
        share = turn.rows / max(TINY, self.estimates.rows(turn.path))
        self._describe(turn.path, turn.rest, exists, share * scale, order)


def best_order(pattern: Pattern, rows: float) -> Order:
    """The best order by formulas; by walks, if that is much work and walks are possible."""
    search = Search(pattern)
    variables = (pattern.everything & ~pattern.outer).bit_count()
    sampler = Sampler(pattern) if 2 < variables <= EXACT else None
    if sampler is None or not sampler.usable:
        return search.order(rows)
    # So many rows of the data take long enough that formulas need not be asked.
    if max(atom.size.rows for atom in pattern.atoms) < WALK << variables:
        order = search.order(rows)
        if order.work < WALK << variables:
            return order
    return Search(pattern, sampler).order(rows)
