"""Estimates by formula: how many bindings variables have, how long lists are.

An atom's rows are spread over its columns' values as the relation's degrees tell: where k atoms
share a variable, the sum of the k-th powers of its degrees stands for how often they meet (a few
hubs meet most). Atoms are independent otherwise.
"""

from __future__ import annotations

from collections.abc import Callable

from gdatalog.planner.orderings import Orderings
from gdatalog.planner.pattern import Pattern, PatternAtom, bits

TINY = 1e-9


class Formula:
    """What degrees alone say of a pattern."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.orderings = Orderings(pattern)
        names = range(len(pattern.names))
        self.holding = [[a for a in pattern.atoms if a.mask >> at & 1] for at in names]
        self.near = [0] * len(pattern.names)  # the variables that share an atom with each
        for atom in pattern.atoms:
            for at in atom.columns:
                self.near[at] |= atom.mask
        self.given = {given.variable: given for given in pattern.given}
        self._known: dict[int, float] = {}
        self._paths: dict[tuple[int, int], float] = {}
        self._shares: dict[tuple[int, int], float] = {}
        self._groups = [self.grouped(at, lambda atom: (atom.kind, atom.mirrored)) for at in names]
        self._equal = [(whole, self._domain(whole)) for whole in pattern.equal]

    def rows(self, bound: int) -> float:
        """How many bindings variables have."""
        known = self._known.get(bound)
        if known is not None:
            return known
        total = 1.0
        for atom in self.pattern.atoms:
            if atom.mask & bound or atom.fixed:
                total *= self.paths(atom, atom.mask & bound)
        for at in bits(bound):
            total *= self._share(at, bound)
        for whole, domain in self._equal:
            if whole & ~bound == 0:
                total /= domain
        total *= self.orderings.share(bound) * self.passed(bound)
        self._known[bound] = total
        return total

    def passed(self, bound: int) -> float:
        """How much of the rows tests let through that nothing is known of."""
        passed = 1.0
        for at, cut in self.pattern.ranges.items():
            if bound >> at & 1:
                passed *= cut.share(bound & ~(1 << at))
        for whole, passes in self.pattern.tests:
            if whole & ~bound == 0:
                passed *= passes
        return passed

    def paths(self, atom: PatternAtom, bound: int) -> float:
        """How many distinct rows an atom has in its bound columns, for each constant."""
        key = (id(atom), bound)
        found = self._paths.get(key)
        if found is None:
            size = atom.size
            columns = atom.fixed.union(
                column for variable, column in atom.columns.items() if bound >> variable & 1
            )
            if atom.mirrored:
                powers = size.degrees(0, (), atom.ranked).powers
                found = powers[len(columns) - 1] / max(1.0, powers[0]) ** len(atom.fixed)
            else:
                found = float(size.distinct(columns))
                if len(columns) == 1:
                    (only,) = columns
                    found = size.degrees(only, atom.tests).powers[0]
                elif atom.tests:
                    found *= size.size(atom.tests) / max(1, size.rows)
                for column in atom.fixed:
                    found /= max(1.0, size.degrees(column, atom.tests).powers[0])
            self._paths[key] = found
        return found

    def grouped(
        self, at: int, told: Callable[[PatternAtom], tuple[object, bool]]
    ) -> list[list[PatternAtom]]:
        """The atoms that hold a variable, those together that hold it in the same column.

        `told` is what makes two atoms the same, and whether the column does not matter.
        """
        groups: dict[object, list[PatternAtom]] = {}
        for atom in self.holding[at]:
            source, either = told(atom)
            groups.setdefault((source, 0 if either else atom.columns[at]), []).append(atom)
        return list(groups.values())

    def _share(self, at: int, bound: int) -> float:
        """By how much the atoms' meeting in a variable changes the product of their rows."""
        groups = self._groups[at]
        given = self.given.get(at)
        if not groups:
            return 1.0 if given is None else given.values
        key = (at, bound & self.near[at])
        found = self._shares.get(key)
        if found is not None:
            return found
        found, most = 1.0, self._values(groups, at)
        for group in groups:
            powers = group[0].spread(at).powers
            values = max(powers[0], TINY)
            rows = max(powers[1], TINY)
            many = 0
            for atom in group:
                if atom.fixed or atom.mask & bound & ~(1 << at):
                    many += 1
                    found /= rows
                else:
                    found /= values
            found *= powers[min(many, len(powers) - 1)]
            if group[0].size.assumed and most < values:
                # What is not there yet is made of values that are.
                found *= (values / most) ** (many - 1)
        found /= most ** (len(groups) - 1)
        if given is not None:
            found *= min(1.0, given.values / most)
        self._shares[key] = found
        return found

    def _values(self, groups: list[list[PatternAtom]], at: int) -> float:
        """Of how many values a variable takes some: those of what is there, if any of it is."""
        sizes = [(group[0].size.assumed, group[0].spread(at)) for group in groups]
        known = [degrees.powers[0] for assumed, degrees in sizes if not assumed]
        return max(TINY, *(known or [degrees.powers[0] for _, degrees in sizes]))

    def _domain(self, whole: int) -> float:
        """How many values the side of an equation can have, as far as atoms tell.

        A variable that no atom holds takes whatever value there is.
        """
        most = 1.0
        if not all(self.holding[at] for at in bits(whole)):
            return most
        for at in bits(whole):
            for atom in self.holding[at]:
                most = max(most, atom.spread(at).powers[0])
        return most

    def roots(self, atom: PatternAtom, at: int) -> float:
        """How many values an atom has for a variable."""
        return atom.degrees(at).powers[0]

    def fan(self, atom: PatternAtom, at: int, bound: int) -> float:
        """How long an atom's list of a variable's values is, for a binding of those before."""
        known = atom.mask & bound
        if known & (known - 1) or atom.fixed or not known:
            known_paths = max(TINY, self.paths(atom, known))
            return min(self.paths(atom, known | 1 << at) / known_paths, self.roots(atom, at))
        # What a binding sees: values of many rows are in many bindings.
        (parent,) = bits(known)
        degrees = atom.degrees(parent)
        powers = degrees.powers
        many = min(self._uses(atom, parent, bound), len(powers) - 2)
        fan = powers[many + 1] / max(TINY, powers[many])
        if len(atom.columns) + len(atom.fixed) > 2:
            mean = max(TINY, powers[1] / max(TINY, powers[0]))
            fan *= self.paths(atom, known | 1 << at) / max(TINY, powers[0]) / mean
        return min(fan, float(degrees.most), self.roots(atom, at))

    def _uses(self, atom: PatternAtom, at: int, bound: int) -> int:
        """How many atoms like this one widen a variable's bindings already."""
        column = atom.columns[at]
        return sum(
            1
            for other in self.holding[at]
            if other.source == atom.source
            and (atom.turned or other.columns[at] == column)
            and (other.fixed or other.mask & bound & ~(1 << at))
        )

    def intersection(
        self, atom: PatternAtom, at: int, parents: int, bound: int, cut: float
    ) -> float:
        powers = atom.degrees(at).powers
        rows = max(TINY, powers[1])
        count = parents.bit_count()
        length = powers[min(count, len(powers) - 1)] / rows**count
        for parent in bits(parents):
            holding = [
                a for a in self.holding[parent] if a.mask >> at & 1 or a.source == atom.source
            ]
            like = next(a for a in holding if a.source == atom.source)
            own = like.degrees(parent).powers
            many = min(self._uses(like, parent, bound), len(own) - 2)
            length *= own[many + 1] / max(TINY, own[many])
        return length * (min(1.0, cut / 0.5) if atom.ascending else cut)
