"""Estimates: the number of bindings of a set of variables, and of values tried to bind one more.

The estimate for a set does not depend on the order in which it was bound. It comes from sampled
walks if these are possible, otherwise from a formula, and is at most the number of values tried for
its last variable.

The search for an order compares orders of one body by values tried. To compare plans of different
kinds, `work_of` estimates the work of their loops: an intersection costs the length of its shorter
list, for each binding; the length of the list of a vertex that was reached by an edge is a
size-biased mean.
"""

from __future__ import annotations

from math import inf

from gdatalog.planner.order.formula import TINY, Formula
from gdatalog.planner.order.pattern import PatternAtom, QueryPattern, bits
from gdatalog.planner.order.sampling import Sampler
from gdatalog.records import dataclass

# Intersections: their kind, and the variables whose lists they intersect.
Made = frozenset[tuple[int, int]]
NONE: Made = frozenset()


@dataclass(frozen=True, slots=True)
class LevelCost:
    """The cost of binding one more variable: values tried for each binding so far.

    `others`: the number of lists in which each value is looked up; `keyed`: a key leads to the
    value, so that no list is read.
    """

    tried: float
    others: int = 0
    keyed: bool = False


class Estimates:
    """Memoised estimates of one pattern."""

    def __init__(
        self, pattern: QueryPattern, sampler: Sampler | None = None, exact: bool = True
    ) -> None:
        """A sampler's walks take precedence over formulas.

        `exact`: rows are bounded by every order of their variables, of which there are very many;
        otherwise by the order of the search.
        """
        self.pattern = pattern
        self.sampler = sampler
        self.exact = exact
        self.formula = Formula(pattern)
        self._holding = self.formula.holding
        self._within_of = self._ranges()
        self._scopes = [self._scope(at) for at in range(len(pattern.names))]
        # The variables of atoms with constants.
        self.fixed = sum([1 << at for atom in pattern.atoms if atom.fixed for at in atom.columns])
        self._computed = [(at, found.needs) for at, found in pattern.aggregates.items()]
        self._computed += [
            (target, needs)
            for target, needs in pattern.equations
            if any(needs >> at & 1 for at in pattern.aggregates)
        ]
        self.known: dict[int, float] = {}  # see `rows`
        self._last = 0  # the last argument of `whole`
        # by the variable, and the bound ones it depends on
        self._levels: dict[tuple[int, int], LevelCost] = {}
        self._refined: dict[tuple[int, int, int, int], LevelCost] = {}
        self._made: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._kinds: dict[object, int] = {}
        self._alike = [self._numbered(at) for at in range(len(pattern.names))]
        # By variable: the largest intersections it could use.
        self.wanted = [self.made(at, pattern.everything) for at in range(len(pattern.names))]

    def _ranges(self) -> list[list[int]]:
        """For each variable, the variables whose value ranges change the length of its lists."""
        found: list[list[int]] = [[] for _ in self.pattern.names]
        for other, cut in self.pattern.ranges.items():
            for at in bits(cut.near | 1 << other):
                found[at].append(other)
        return found

    def _scope(self, at: int) -> int:
        """The variables that can affect the plain estimate of a level."""
        pattern, formula = self.pattern, self.formula
        if self.sampler is not None or formula.compared >> at & 1:
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
        """Groups of atoms whose lists of a variable may share intersections with other
        variables."""
        found = []
        for group in self.formula.grouped(at, compared=True):
            first = group[0]
            kind = first.source, 0 if first.turned else first.columns[at]
            if len(group) > 1:
                found.append((self._kinds.setdefault(kind, len(self._kinds)), group))
        return found

    # ------------------------------------------------------------------- of a set of variables

    def rows(self, bound: int, path: int = 0) -> float:
        """The number of bindings of these variables, by the atoms among them.

        `path`: a subset that is bound first, if known.
        """
        known = self.known
        found = known.get(bound)
        if found is not None:
            return found
        if self.exact:
            todo = [bound]
            while todo:
                some = todo[-1]
                before, lacking = self._before(some)
                if some not in known and not lacking:
                    known[some] = self._bounded(self._formula(some), before)
                todo.extend(lacking)
                if not lacking:
                    todo.pop()
            return known[bound]
        for at in bits(bound & ~path) if path & ~bound == 0 else ():
            wider = path | 1 << at
            if wider not in known:
                known[wider] = self._wider(path, at)
            path = wider
        found = known.get(bound)
        if found is None:
            found = known[bound] = self._formula(bound, path)
        return found

    def whole(self, bound: int) -> float:
        """The same for a set that no known path reaches."""
        found = self.known.get(bound)
        if found is None and not self.exact:
            found = self.known[bound] = self.formula.rows(bound, self._last)
            self._last = bound
        return self.rows(bound) if found is None else found

    def _before(self, bound: int) -> tuple[list[tuple[int, int]], list[int]]:
        """The variables that may be bound last, each with the others; and sets of others whose rows
        must be found before. Sets that samples tell are known at once."""
        sampled = None if self.sampler is None else self._sampled(bound)
        if sampled is not None:
            self.known[bound] = sampled
            return [], []
        behind, near = self.pattern.behind, self.formula.near
        last, lacking = [], []
        for at in bits(bound & ~self.pattern.outer):
            bit = 1 << at
            rest = bound ^ bit
            if rest and not behind[at] & bound and (near[at] & rest or self.fixed & bit):
                last.append((at, rest))
                if rest not in self.known:
                    lacking.append(rest)
        return last, lacking

    def _bounded(self, rows: float, last: list[tuple[int, int]]) -> float:
        """Rows, bounded by the values tried for the last variable, whichever it is."""
        for at, rest in last:
            level = self._levels.get((at, rest & self._scopes[at]))
            rows = min(rows, self.known[rest] * (level or self.level(at, rest)).tried)
        return rows

    def _wider(self, path: int, at: int) -> float:
        """The rows, bounded by the values tried for the variable `at`, bound after `path`."""
        found = self._formula(path | 1 << at, path)
        if path and not self.pattern.outer >> at & 1 and self.joined(at, path):
            found = min(found, self.tried(at, path))
        return found

    def _formula(self, bound: int, path: int = 0) -> float:
        found = self.formula.rows(bound, path)
        if bound.bit_count() == 1:
            at = bound.bit_length() - 1
            for atom in self._holding[at]:
                found = min(found, atom.degrees(at).powers[0])
        # An aggregate has one value for each binding of the variables it reads.
        rest = self._without_computed(bound) if self._computed else bound
        if rest != bound:
            found = min(found, self.rows(rest, path & rest))
        return found

    def _without_computed(self, bound: int) -> int:
        """The variables without aggregates of the others."""
        for target, needs in reversed(self._computed):
            if not needs & ~bound:
                bound &= ~(1 << target)
        return bound

    def _sampled(self, bound: int) -> float | None:
        sample = self.sampler.sample(bound) if self.sampler and bound else None
        if sample is None:
            return None
        if not sample.count:  # too rare for the sample: never estimate zero
            return min(self.formula.rows(bound), float(sample.weight) / 2)
        return sample.rows * self.formula.passed(bound)

    # ------------------------------------------------------------------- of one variable more

    def joined(self, at: int, bound: int) -> bool:
        """Whether an atom contains the variable and a bound variable or constant."""
        bit = 1 << at
        return bool(self.formula.near[at] & bound & ~bit or self.fixed & bit)

    def tried(self, at: int, bound: int) -> float:
        """The number of values tried for a variable, over all bindings of the path."""
        return self.rows(bound) * self.level(at, bound).tried

    def level(self, at: int, bound: int, made: Made = NONE) -> LevelCost:
        """The cost of binding a variable, given intersections computed before."""
        key = at, bound & self._scopes[at]
        plain = self._levels.get(key)
        if plain is None:
            own = self.pattern.aggregates.get(at)
            plain = self._plain(at, bound) if own is None else LevelCost(own.cost)
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
            found = LevelCost(length, others) if length <= plain.tried else plain
            self._refined[at, bound, group, parents] = found
        return found

    def _plain(self, at: int, bound: int) -> LevelCost:
        bit = 1 << at
        atoms = self._holding[at]
        known = bound & ~bit
        near = []
        for atom in atoms:
            if atom.fixed or atom.mask & known:
                near.append(atom)
        given = self.formula.given.get(at)
        if given is not None and given.sources & ~bound == 0 and not near:
            least = min([given.values, *(atom.degrees(at).powers[0] for atom in atoms)])
            return LevelCost(least, len(atoms))
        if not near:
            walked = self.rows(bit)
            if len(atoms) > 1:  # the smallest root is walked
                least = min([atom.degrees(at).powers[0] for atom in atoms])
                walked = max(walked, least * self._within(at, bound))
            return LevelCost(walked)
        cut = self.formula.cut(at, bound)
        length = None if self.sampler is None else self._walked(at, bound, cut)
        sampled = length is not None
        keyed = False  # whether a bound variable is a key of an atom's rows
        fans = inf
        for atom in near:
            if not sampled:
                fan = self.formula.fan(atom, at, bound)
                if atom.ascending:
                    fan *= _cut(cut, atom, at, bound)
                else:
                    fan *= cut
                fans = min(fans, fan)
            parent = atom.mask & known
            if not self.pattern.bag or keyed or atom.fixed or atom.size.assumed:
                continue
            if parent & (parent - 1) == 0:
                at_parent = parent.bit_length() - 1
                degrees = atom.known.get(atom.columns[at_parent]) or atom.degrees(at_parent)
                keyed = degrees.most == 1
        length = fans if length is None else length
        if self._within_of[at]:
            length *= self._within(at, bound, sampled)
        return LevelCost(length, len(atoms) - 1, keyed)

    def made(self, at: int, bound: int) -> list[tuple[int, int]]:
        """The intersections that a variable's lists form: the kind, and the variables that lead to
        the lists."""
        key = at, bound & self.formula.near[at]
        found = self._made.get(key)
        if found is None:
            found = []
            others = bound & ~(1 << at)
            for number, group in self._alike[at]:
                parents = 0  # the bound variables that alone lead to the variable
                for atom in group:
                    known = atom.mask & others
                    if known & (known - 1) == 0 and not atom.fixed and len(atom.columns) == 2:
                        parents |= known
                if parents & (parents - 1):
                    found.append((number, parents))
            self._made[key] = found
        return found

    def _walked(self, at: int, bound: int, cut: float) -> float | None:
        """The mean length of the shortest list in the sample."""
        tried = self.sampler.tried(at, bound) if self.sampler else None
        if tried is None or self.sampler is None:
            return None
        sample = self.sampler.sample(bound)
        assert sample is not None
        lefts = [_cut(cut, a, at, bound) for a in self._holding[at] if a.mask & bound]
        return tried / sample.rows * min(lefts)

    def _common(self, at: int, bound: int, number: int, parents: int, plain: float) -> float:
        """The length of the intersection of the lists of some bound variables."""
        if self.sampler and self.sampler.tried(at, bound) is not None:
            # Interpolates between the shortest list and the full intersection.
            rows, after = self.rows(bound), self.rows(bound | 1 << at)
            if not rows or not plain:
                return plain
            share = (parents.bit_count() - 1) / max(1, len(self._holding[at]) - 1)
            return float(plain * min(1.0, after / rows / plain) ** share)
        group = next(group for own, group in self._alike[at] if own == number)
        after = self.formula.rows(bound | 1 << at) / max(TINY, self.formula.rows(bound))
        cut = self.formula.cut(at, bound)
        length = self.formula.intersection(group[0], at, parents, bound, cut)
        return max(after, length * self._within(at, bound))

    def _within(self, at: int, bound: int, sampled: bool = False) -> float:
        """The length of a variable's lists relative to lists without comparisons with constants,
        which can be on the variable itself or on a bound variable that leads to it. Samples satisfy
        those of ranks already."""
        found = 1.0
        for other in self._within_of[at]:
            cut = self.pattern.ranges[other]
            if other == at:
                found *= cut.listed(bound)
            elif bound >> other & 1 and not (sampled and cut.ranks is not None):
                found *= cut.longer(at)
        return found


def _cut(cut: float, atom: PatternAtom, at: int, bound: int) -> float:
    """The share that a cut leaves of an atom's list, whose rows may satisfy it already."""
    for pair in atom.ascending:
        if at in pair and bound >> (pair[0] + pair[1] - at) & 1:
            return min(1.0, cut / 0.5)
    return cut
