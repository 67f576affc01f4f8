"""How many bindings a set of variables is expected to have, and how many values are tried for one.

An atom's rows are spread over its columns' values as the relation's degrees tell: where k atoms
share a variable, the sum of the k-th powers of its degrees stands for how often they meet (a few
hubs meet most). Atoms are independent otherwise. What is estimated for a set of variables is the
same whichever way it was reached, and never above what the largest degrees allow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from gdatalog.planner.pattern import Pattern, PatternAtom, bits
from gdatalog.planner.sampling import Sampler

# A pattern's comparisons are counted exactly up to so many variables.
COMPARED = 10
TINY = 1e-9
Made = frozenset[tuple[int, int]]  # lists: their kind, and the variables that led to them
NONE: Made = frozenset()


@dataclass(frozen=True, slots=True)
class Level:
    """What binding one more variable takes: values tried for each binding so far.

    `others` is how many lists each of them is looked up in; `single`: the number of values can
    be read off, for they are all of one list.
    """

    tried: float
    others: int
    single: bool


class Estimates:
    """The estimates of one pattern, each made once."""

    def __init__(self, pattern: Pattern, sampler: Sampler | None = None) -> None:
        """With a sampler, walks are believed rather than formulas, where there are any."""
        self.pattern = pattern
        self.sampler = sampler
        self._rows: dict[int, float] = {}
        self._levels: dict[tuple[int, int], Level] = {}
        self._refined: dict[tuple[int, int, int, int], Level] = {}
        self._paths: dict[tuple[int, int], float] = {}
        self._shares: dict[tuple[int, int], float] = {}
        self._holding = [
            [atom for atom in pattern.atoms if atom.mask >> at & 1]
            for at in range(len(pattern.names))
        ]
        names = range(len(pattern.names))
        self._groups = [self._grouped(at, lambda atom: (atom.kind, atom.mirrored)) for at in names]
        numbers: dict[object, int] = {}
        self._alike = [
            [
                (
                    numbers.setdefault((group[0].source, self._column(group[0], at)), len(numbers)),
                    group,
                )
                for group in self._grouped(at, lambda atom: (atom.source, atom.turned))
                if len(group) > 1
            ]
            for at in names
        ]
        self._made: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._near = [0] * len(pattern.names)
        for atom in pattern.atoms:
            for at in atom.columns:
                self._near[at] |= atom.mask
        self._given = {given.variable: given for given in pattern.given}
        self._under: list[int] = [0] * len(pattern.names)
        compared = 0
        for low, high in pattern.below:
            self._under[high] |= 1 << low
            compared |= 1 << low | 1 << high
        self._compared = compared
        own = [0] * len(pattern.names)
        for atom in pattern.atoms:
            for low, high in () if atom.mirrored else atom.ascending:
                own[high] |= 1 << low
        self._within = own
        self._orders: tuple[dict[int, int], dict[int, int]] = ({0: 1}, {0: 1})
        self._equal = [(whole, self._domain(whole)) for whole in pattern.equal]

    # ------------------------------------------------------------------- of a set of variables

    def rows(self, bound: int) -> float:
        """How many bindings these variables have, by the atoms among them."""
        found = self._rows.get(bound)
        if found is None:
            found = self._sampled(bound)
            if found is None:
                found = self._formula(bound)
                if bound.bit_count() == 1:
                    (at,) = bits(bound)
                    found = min(found, *(self._roots(atom, at) for atom in self._holding[at]), inf)
                # No more than are tried when the last of them is bound, whichever that is.
                for at in bits(bound & ~self.pattern.outer):
                    rest = bound & ~(1 << at)
                    twins = self.pattern.behind[at] & bound
                    if rest and not twins and self.joined(at, rest):
                        found = min(found, self.tried(at, rest))
            self._rows[bound] = found
        return found

    def _sampled(self, bound: int) -> float | None:
        sample = self.sampler.sample(bound) if self.sampler and bound else None
        if sample is None:
            return None
        if not sample.count:  # rarer than can be seen
            return min(self._formula(bound), sample.weight / 2)
        return sample.rows * self._passed(bound)

    def _formula(self, bound: int) -> float:
        total = 1.0
        for atom in self.pattern.atoms:
            if atom.mask & bound or atom.fixed:
                total *= self._paths_of(atom, atom.mask & bound)
        for at in bits(bound):
            total *= self._share(at, bound)
        for whole, domain in self._equal:
            if whole & ~bound == 0:
                total /= domain
        if self._compared & bound:
            total *= self._ordered(bound)
        return total * self._passed(bound)

    def _passed(self, bound: int) -> float:
        """How much of the rows tests let through that nothing is known of."""
        passed = 1.0
        for at, passes in self.pattern.ranges.items():
            if bound >> at & 1:
                passed *= passes
        for whole, passes in self.pattern.tests:
            if whole & ~bound == 0:
                passed *= passes
        return passed

    def _paths_of(self, atom: PatternAtom, bound: int) -> float:
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

    def _grouped(
        self, at: int, told: Callable[[PatternAtom], tuple[object, bool]]
    ) -> list[list[PatternAtom]]:
        """The atoms that hold a variable, those together that hold it in the same column.

        `told` is what makes two atoms the same, and whether the column does not matter.
        """
        groups: dict[object, list[PatternAtom]] = {}
        for atom in self._holding[at]:
            source, either = told(atom)
            groups.setdefault((source, 0 if either else atom.columns[at]), []).append(atom)
        return list(groups.values())

    @staticmethod
    def _column(atom: PatternAtom, at: int) -> int:
        return 0 if atom.turned else atom.columns[at]

    def _share(self, at: int, bound: int) -> float:
        """By how much the atoms' meeting in a variable changes the product of their rows."""
        groups = self._groups[at]
        given = self._given.get(at)
        if not groups:
            return 1.0 if given is None else given.values
        key = (at, bound & self.near(at))
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

    def near(self, at: int) -> int:
        """The variables that share an atom with one, and it."""
        return self._near[at]

    def _domain(self, whole: int) -> float:
        """How many values the side of an equation can have, as far as atoms tell.

        A variable that no atom holds takes whatever value there is.
        """
        most = 1.0
        if not all(self._holding[at] for at in bits(whole)):
            return most
        for at in bits(whole):
            for atom in self._holding[at]:
                most = max(most, atom.spread(at).powers[0])
        return most

    def _ordered(self, bound: int) -> float:
        """How much the comparisons let through that no atom's own rows see to."""
        among = bound & self._compared
        if self._compared.bit_count() > COMPARED:
            pairs = sum(
                (self._under[at] & ~self._within[at] & among).bit_count() for at in bits(among)
            )
            return float(0.5 ** min(pairs, among.bit_count()))
        every = self._linear(among, self._under, self._orders[0])
        own = self._linear(among, self._within, self._orders[1])
        return every / own if own else 0.0

    def _linear(self, among: int, under: list[int], known: dict[int, int]) -> int:
        """In how many orders of these variables all comparisons hold."""
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

    # ------------------------------------------------------------------- of one variable more

    def holding(self, at: int) -> list[PatternAtom]:
        """The atoms that hold a variable."""
        return self._holding[at]

    def joined(self, at: int, bound: int) -> bool:
        """Whether an atom holds a variable beside something known."""
        return any(atom.fixed or atom.mask & bound & ~(1 << at) for atom in self._holding[at])

    def tried(self, at: int, bound: int) -> float:
        """How many values are tried for a variable, over all bindings of those before."""
        return self.rows(bound) * self.level(at, bound).tried

    def level(self, at: int, bound: int, made: Made = NONE) -> Level:
        """Binding a variable, for each binding of those before, where some lists were made."""
        plain = self._levels.get((at, bound))
        if plain is None:
            plain = self._levels[at, bound] = self._plain(at, bound)
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
            found = Level(length, others, others == 0) if length <= plain.tried else plain
            self._refined[at, bound, group, parents] = found
        return found

    def _plain(self, at: int, bound: int) -> Level:
        bit = 1 << at
        atoms = self._holding[at]
        near = [atom for atom in atoms if atom.fixed or atom.mask & bound & ~bit]
        given = self._given.get(at)
        if given is not None and given.sources & ~bound == 0 and not near:
            least = min([given.values, *(self._roots(atom, at) for atom in atoms)])
            return Level(least, len(atoms), not atoms)
        if not near:
            return Level(self.rows(bit), 0, True)
        cut = self._cut(at, bound)
        length = self._walked(at, bound, cut)
        if length is None:
            length = min(self._fan(a, at, bound) * self._left(cut, a, at, bound) for a in near)
        others = len(atoms) - 1
        return Level(length * self.pattern.ranges.get(at, 1.0), others, others == 0)

    def made(self, at: int, bound: int) -> list[tuple[int, int]]:
        """What lists of a variable's values are made of: the kind, and what leads to each."""
        key = at, bound & self.near(at)
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

    def _roots(self, atom: PatternAtom, at: int) -> float:
        return atom.degrees(at).powers[0]

    def _fan(self, atom: PatternAtom, at: int, bound: int) -> float:
        """How long an atom's list of a variable's values is, for a binding of those before."""
        known = atom.mask & bound
        if known & (known - 1) or atom.fixed or not known:
            known_paths = max(TINY, self._paths_of(atom, known))
            return min(self._paths_of(atom, known | 1 << at) / known_paths, self._roots(atom, at))
        # What a binding sees: values of many rows are in many bindings.
        (parent,) = bits(known)
        degrees = atom.degrees(parent)
        powers = degrees.powers
        many = min(self._uses(atom, parent, bound), len(powers) - 2)
        fan = powers[many + 1] / max(TINY, powers[many])
        if len(atom.columns) + len(atom.fixed) > 2:
            mean = max(TINY, powers[1] / max(TINY, powers[0]))
            fan *= self._paths_of(atom, known | 1 << at) / max(TINY, powers[0]) / mean
        return min(fan, float(degrees.most), self._roots(atom, at))

    def _uses(self, atom: PatternAtom, at: int, bound: int) -> int:
        """How many atoms like this one widen a variable's bindings already."""
        column = atom.columns[at]
        return sum(
            1
            for other in self._holding[at]
            if other.source == atom.source
            and (atom.turned or other.columns[at] == column)
            and (other.fixed or other.mask & bound & ~(1 << at))
        )

    def _cut(self, at: int, bound: int) -> float:
        """How much of a list comparisons with what is bound leave."""
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
        after = self._formula(bound | 1 << at) / max(TINY, self._formula(bound))
        length = self._intersection(group[0], at, parents, bound, self._cut(at, bound))
        return max(after, length * self.pattern.ranges.get(at, 1.0))

    def _parents(self, group: list[PatternAtom], at: int, bound: int) -> int:
        """The bound variables that alone lead to a variable, by atoms of a kind."""
        found = 0
        for atom in group:
            known = atom.mask & bound & ~(1 << at)
            if known and known & (known - 1) == 0 and not atom.fixed and len(atom.columns) == 2:
                found |= known
        return found

    def _intersection(
        self, atom: PatternAtom, at: int, parents: int, bound: int, cut: float
    ) -> float:
        powers = atom.degrees(at).powers
        rows = max(TINY, powers[1])
        count = parents.bit_count()
        length = powers[min(count, len(powers) - 1)] / rows**count
        for parent in bits(parents):
            holding = [
                a for a in self._holding[parent] if a.mask >> at & 1 or a.source == atom.source
            ]
            like = next(a for a in holding if a.source == atom.source)
            own = like.degrees(parent).powers
            many = min(self._uses(like, parent, bound), len(own) - 2)
            length *= own[many + 1] / max(TINY, own[many])
        return length * (min(1.0, cut / 0.5) if atom.ascending else cut)
