"""How many bindings a set of variables is expected to have, and how many values are tried for one.

What is estimated for a set of variables is the same whichever way it was reached: by walks where
they can be made, else by a formula, but never more than are tried for the last of them.
"""

from __future__ import annotations

from math import inf

from gdatalog.planner.order.formula import TINY, Formula
from gdatalog.planner.order.pattern import PatternAtom, QueryPattern, bits
from gdatalog.planner.order.sampling import Sampler
from gdatalog.records import dataclass

Made = frozenset[tuple[int, int]]  # lists: their kind, and the variables that led to them
NONE: Made = frozenset()


@dataclass(frozen=True, slots=True)
class LevelCost:
    """What binding one more variable takes: values tried for each binding so far.

    `others` is how many lists each of them is looked up in; `single`: the number of values can
    be read off, for they are all of one list.
    """

    tried: float
    others: int
    single: bool


class Estimates:
    """The estimates of one pattern, each made once."""

    def __init__(
        self, pattern: QueryPattern, sampler: Sampler | None = None, exact: bool = True
    ) -> None:
        """With a sampler, walks are believed rather than formulas, where there are any.

        `exact`: rows are bounded by every order in which their variables could be bound, of which
        there are very many; else by the one in which they were.
        """
        self.pattern = pattern
        self.sampler = sampler
        self.exact = exact
        self.formula = Formula(pattern)
        self._holding = self.formula.holding
        self._within_of = self._ranges()
        self._scopes = [self._scope(at) for at in range(len(pattern.names))]
        self._fixed = sum(1 << at for atom in pattern.atoms if atom.fixed for at in atom.columns)
        self._computed = [(at, found.needs) for at, found in pattern.aggregates.items()]
        self._computed += [
            (target, needs)
            for target, needs in pattern.equations
            if any(needs >> at & 1 for at in pattern.aggregates)
        ]
        self._rows: dict[int, float] = {}
        self._last = 0  # the variables that `whole` was asked of
        self._levels: dict[tuple[int, int], LevelCost] = {}  # by what they depend on
        self._refined: dict[tuple[int, int, int, int], LevelCost] = {}
        self._made: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._kinds: dict[object, int] = {}
        self._alike = [self._numbered(at) for at in range(len(pattern.names))]
        # By variable, what its lists could be made of at the most.
        self.wanted = [self.made(at, pattern.everything) for at in range(len(pattern.names))]

    def _ranges(self) -> list[list[int]]:
        """The variables with ranges that change how long each variable's lists are."""
        found: list[list[int]] = [[] for _ in self.pattern.names]
        for other, cut in self.pattern.ranges.items():
            near = 1 << other
            for others, _, _ in cut.rows:
                near |= others
            for at in bits(near):
                found[at].append(other)
        return found

    def _scope(self, at: int) -> int:
        """The variables on which a level's plain estimate depends, if they are bound."""
        pattern, formula = self.pattern, self.formula
        if self.sampler is not None or formula.orderings.compares(at):
            return pattern.everything
        found = formula.near[at]
        if at in formula.given:
            found |= formula.given[at].sources
        for atom in self._holding[at]:
            for parent in atom.columns if not atom.fixed else ():
                for other in self._holding[parent]:
                    if other.source == atom.source:
                        found |= other.mask
        return found

    def _numbered(self, at: int) -> list[tuple[int, list[PatternAtom]]]:
        """The atoms whose lists of a variable may be met with each other once for several."""
        found = []
        for group in self.formula.grouped(at, lambda atom: (atom.source, atom.turned)):
            first = group[0]
            kind = first.source, 0 if first.turned else first.columns[at]
            if len(group) > 1:
                found.append((self._kinds.setdefault(kind, len(self._kinds)), group))
        return found

    # ------------------------------------------------------------------- of a set of variables

    def rows(self, bound: int, path: int = 0) -> float:
        """How many bindings these variables have, by the atoms among them.

        `path`: those of them that are bound before the others, where that is known.
        """
        found = self._rows.get(bound)
        if found is None:
            if self.exact:
                found = self._bounded(bound)
            else:
                for at in bits(bound & ~path) if path & ~bound == 0 else ():
                    wider = path | 1 << at
                    if wider not in self._rows:
                        self._rows[wider] = self._wider(path, at)
                    path = wider
                found = self._rows.get(bound)
                if found is None:
                    found = self._formula(bound, path)
            self._rows[bound] = found
        return found

    def whole(self, bound: int) -> float:
        """The same of variables that no path leads to one by one."""
        found = self._rows.get(bound)
        if found is None and not self.exact:
            found = self._rows[bound] = self.formula.rows(bound, self._last)
            self._last = bound
        return self.rows(bound) if found is None else found

    def _bounded(self, bound: int) -> float:
        """No more than are tried when the last of them is bound, whichever that is."""
        if self.sampler is not None:
            sampled = self._sampled(bound)
            if sampled is not None:
                return sampled
        found = self._formula(bound)
        behind, near = self.pattern.behind, self.formula.near
        for at in bits(bound & ~self.pattern.outer):
            bit = 1 << at
            rest = bound ^ bit
            if rest and not behind[at] & bound and (near[at] & rest or self._fixed & bit):
                rows = self._rows.get(rest)
                tried = (self.rows(rest) if rows is None else rows) * self.level(at, rest).tried
                if tried < found:
                    found = tried
        return found

    def _wider(self, path: int, at: int) -> float:
        """No more than are tried when one variable is bound, with those of a path before it."""
        found = self._formula(path | 1 << at, path)
        if path and not self.pattern.outer >> at & 1 and self.joined(at, path):
            found = min(found, self.tried(at, path))
        return found

    def _formula(self, bound: int, path: int = 0) -> float:
        found = self.formula.rows(bound, path)
        if bound.bit_count() == 1:
            (at,) = bits(bound)
            found = min(found, *(self.formula.roots(atom, at) for atom in self._holding[at]), inf)
        # An aggregate has one value for each binding of what it hangs on.
        rest = self._without_computed(bound)
        if rest != bound:
            found = min(found, self.rows(rest, path & rest))
        return found

    def _without_computed(self, bound: int) -> int:
        """Of some variables those from which aggregates give the others their values."""
        for target, needs in reversed(self._computed):
            if not needs & ~bound:
                bound &= ~(1 << target)
        return bound

    def _sampled(self, bound: int) -> float | None:
        sample = self.sampler.sample(bound) if self.sampler and bound else None
        if sample is None:
            return None
        if not sample.count:  # rarer than can be seen
            return min(self.formula.rows(bound), float(sample.weight) / 2)
        return sample.rows * self.formula.passed(bound)

    # ------------------------------------------------------------------- of one variable more

    def joined(self, at: int, bound: int) -> bool:
        """Whether an atom holds a variable beside something known."""
        bit = 1 << at
        return bool(self.formula.near[at] & bound & ~bit or self._fixed & bit)

    def tried(self, at: int, bound: int) -> float:
        """How many values are tried for a variable, over all bindings of those before."""
        return self.rows(bound) * self.level(at, bound).tried

    def level(self, at: int, bound: int, made: Made = NONE) -> LevelCost:
        """Binding a variable, for each binding of those before, where some lists were made."""
        key = at, bound & self._scopes[at]
        plain = self._levels.get(key)
        if plain is None:
            own = self.pattern.aggregates.get(at)
            plain = self._plain(at, bound) if own is None else LevelCost(own.cost, 0, False)
            self._levels[key] = plain
        if not made or at in self.pattern.aggregates:
            return plain
        useful = [
            (group, parents & known)
            for group, parents in made
            for own, known in self.made(at, bound)
            if own == group and (parents & known).bit_count() > 1
        ]
        if not useful:
            return plain
        group, parents = max(useful, key=lambda found: found[1].bit_count())
        found = self._refined.get((at, bound, group, parents))
        if found is None:
            length = self._common(at, bound, group, parents, plain.tried)
            others = plain.others + 1 - parents.bit_count()
            found = LevelCost(length, others, others == 0) if length <= plain.tried else plain
            self._refined[at, bound, group, parents] = found
        return found

    def _plain(self, at: int, bound: int) -> LevelCost:
        bit = 1 << at
        atoms = self._holding[at]
        near = [atom for atom in atoms if atom.fixed or atom.mask & bound & ~bit]
        given = self.formula.given.get(at)
        if given is not None and given.sources & ~bound == 0 and not near:
            least = min([given.values, *(self.formula.roots(atom, at) for atom in atoms)])
            return LevelCost(least, len(atoms), not atoms)
        if not near:
            walked = self.rows(bit)
            if len(atoms) > 1:  # the shortest of the roots' lists
                least = min(self.formula.roots(atom, at) for atom in atoms)
                walked = max(walked, least * self._within(at, bound))
            return LevelCost(walked, 0, True)
        cut = self.formula.orderings.cut(at, bound)
        length = self._walked(at, bound, cut)
        if length is None:
            length = min(
                self.formula.fan(a, at, bound) * self._left(cut, a, at, bound) for a in near
            )
        others = len(atoms) - 1
        return LevelCost(length * self._within(at, bound), others, others == 0)

    def made(self, at: int, bound: int) -> list[tuple[int, int]]:
        """What lists of a variable's values are made of: the kind, and what leads to each."""
        key = at, bound & self.formula.near[at]
        found = self._made.get(key)
        if found is None:
            found = []
            for number, group in self._alike[at]:
                parents = self._parents(group, at, bound)
                if parents.bit_count() > 1:
                    found.append((number, parents))
            self._made[key] = found
        return found

    def _walked(self, at: int, bound: int, cut: float) -> float | None:
        """The length of the shortest list, as walks have seen it."""
        tried = self.sampler.tried(at, bound) if self.sampler else None
        if tried is None or self.sampler is None:
            return None
        sample = self.sampler.sample(bound)
        assert sample is not None
        lefts = [self._left(cut, a, at, bound) for a in self._holding[at] if a.mask & bound]
        return tried / sample.rows * min(lefts)

    def _left(self, cut: float, atom: PatternAtom, at: int, bound: int) -> float:
        """How much a cut leaves of an atom's list, whose rows may be within it already."""
        sees = any(at in pair and bound >> (pair[0] + pair[1] - at) & 1 for pair in atom.ascending)
        return min(1.0, cut / 0.5) if sees else cut

    def _common(self, at: int, bound: int, number: int, parents: int, plain: float) -> float:
        """How long a list is that all of some bound variables lead to."""
        if self.sampler and self.sampler.tried(at, bound) is not None:
            # Between the shortest list and what is left of it when all have been asked.
            rows, after = self.rows(bound), self.rows(bound | 1 << at)
            if not rows or not plain:
                return plain
            share = (parents.bit_count() - 1) / max(1, len(self._holding[at]) - 1)
            return float(plain * min(1.0, after / rows / plain) ** share)
        group = next(group for own, group in self._alike[at] if own == number)
        after = self.formula.rows(bound | 1 << at) / max(TINY, self.formula.rows(bound))
        length = self.formula.intersection(
            group[0], at, parents, bound, self.formula.orderings.cut(at, bound)
        )
        return max(after, length * self._within(at, bound))

    def _within(self, at: int, bound: int) -> float:
        """How long a variable's lists are, as comparisons with constants leave them, for one that
        nothing is compared with: of its values, and of those that lead to it."""
        found = 1.0
        for other in self._within_of[at]:
            cut = self.pattern.ranges[other]
            if other == at:
                found *= cut.listed(bound)
            elif bound >> other & 1:
                found *= cut.longer(at)
        return found

    def _parents(self, group: list[PatternAtom], at: int, bound: int) -> int:
        """The bound variables that alone lead to a variable, by atoms of a kind."""
        found = 0
        for atom in group:
            known = atom.mask & bound & ~(1 << at)
            if known and known & (known - 1) == 0 and not atom.fixed and len(atom.columns) == 2:
                found |= known
        return found
