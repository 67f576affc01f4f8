"""The fraction of orders of some variables that satisfy a pattern's comparisons."""

from __future__ import annotations

from gdatalog.planner.order.pattern import QueryPattern, bits

# With at most this many compared variables, orders are counted exactly.
COMPARED = 10


class Orderings:
    """The selectivity of comparisons between variables, assuming random order."""

    def __init__(self, pattern: QueryPattern) -> None:
        names = len(pattern.names)
        self._under = [0] * names
        self._compared = 0
        for low, high in pattern.below:
            self._under[high] |= 1 << low
            self._compared |= 1 << low | 1 << high
        # Comparisons that hold in every row of an atom; a mirrored atom has rows in both
        # directions.
        self._within = [0] * names
        for atom in pattern.atoms:
            for low, high in () if atom.mirrored else atom.ascending:
                self._within[high] |= 1 << low
        self._orders: tuple[dict[int, int], dict[int, int]] = ({0: 1}, {0: 1})

    def compares(self, at: int) -> bool:
        """Whether a variable is compared with others."""
        return bool(self._compared >> at & 1)

    def share(self, bound: int) -> float:
        """The selectivity of the comparisons that no atom's rows imply."""
        among = bound & self._compared
        if not among:
            return 1.0
        if self._compared.bit_count() > COMPARED:
            pairs = sum(
                (self._under[at] & ~self._within[at] & among).bit_count() for at in bits(among)
            )
            return float(0.5 ** min(pairs, among.bit_count()))
        every = self._linear(among, self._under, self._orders[0])
        own = self._linear(among, self._within, self._orders[1])
        return every / own if own else 0.0

    def _linear(self, among: int, under: list[int], known: dict[int, int]) -> int:
        """The number of orders of these variables that satisfy all comparisons."""
        found = known.get(among)
        if found is None:
            covered = 0
            for at in bits(among):
                covered |= under[at] & among
            found = sum(
                self._linear(among & ~(1 << at), under, known) for at in bits(among & ~covered)
            )
            known[among] = found
        return found

    def cut(self, at: int, bound: int) -> float:
        """The share of a list that comparisons with bound variables leave."""
        if not self._compared >> at & 1:
            return 1.0
        bound &= self._compared
        if not bound:
            return 1.0
        if self._compared.bit_count() > COMPARED:
            return 0.5 if self._under[at] & bound else 1.0
        before = self._linear(bound, self._under, self._orders[0])
        after = self._linear(bound | 1 << at, self._under, self._orders[0])
        return after / before / (bound.bit_count() + 1) if before else 0.0
