"""Estimates by formula: numbers of bindings, and lengths of lists.

Degree moments tell how rows are distributed over values: if k atoms share a variable, the sum of
the k-th powers of its degrees says how often they meet, because a few hubs meet most. Otherwise
atoms are independent.

The estimate for a set of variables is derived from the estimate for a set with one variable more or
less, so that only the literals of that variable are examined. Comparisons between variables are as
selective as in random orders.
"""

from __future__ import annotations

from gdatalog.planner.order.pattern import PatternAtom, QueryPattern, bits
from gdatalog.storage.degrees import MOMENTS

TINY = 1e-9
HUGE = 1e200  # products saturate here
WIDE = 8  # columns of an atom, above which not all column sets are counted
COUNTED = 12  # most columns of a set that is counted
APART = 0.99  # columns with this share of distinct combinations count as a key
COMPARED = 10  # with at most this many compared variables, orders are counted exactly


class Formula:
    """Estimates of a pattern from degrees alone."""

    def __init__(self, pattern: QueryPattern) -> None:
        self.pattern = pattern
        names = range(len(pattern.names))
        self.holding: list[list[PatternAtom]] = [[] for _ in names]
        self.near = [0] * len(names)  # the variables that share an atom with each
        for atom in pattern.atoms:
            for at in atom.columns:
                self.holding[at].append(atom)
                self.near[at] |= atom.mask
        self.given = {given.variable: given for given in pattern.given}
        self._apart: dict[int, list[int]] = {}  # keys of wide atoms, as sets of variables
        self._shares: dict[tuple[int, int], float] = {}
        # By variable: its atoms with constants, as bits; others' bits, and their variables.
        self._fixed = [0] * len(names)
        self._leading: list[list[tuple[int, int]]] = [[] for _ in names]
        for at, atoms in enumerate(self.holding):
            for number, atom in enumerate(atoms):
                if atom.fixed:
                    self._fixed[at] |= 1 << number
                else:
                    self._leading[at].append((1 << number, atom.mask))
        self._groups = [
            [[self.holding[at].index(atom) for atom in group] for group in self.grouped(at)]
            for at in names
        ]
        # By variable: its literals, and the share of bindings that pass each.
        self._passes: list[list[tuple[int, float]]] = [[] for _ in names]
        self._spreads: list[list[tuple[float, ...]]] = [[] for _ in names]
        for at, groups in enumerate(self._groups):
            for group in groups:
                self._spreads[at].append(self.holding[at][group[0]].spread(at).powers)
        self._values = [self._most(groups, at) for at, groups in enumerate(self._groups)]
        start = 1.0
        for whole, passes in (
            *((whole, 1.0 / self._domain(whole)) for whole in pattern.equal),
            *pattern.tests,
        ):
            for at in bits(whole):
                self._passes[at].append((whole, passes))
            if not whole:
                start *= passes
        for atom in pattern.atoms:
            if atom.fixed:
                start = min(HUGE, start * self.paths(atom, 0))
        self._known: dict[int, float] = {0: start}
        # By variable: those that comparisons place below it, and those that an atom's rows do.
        # (A mirrored atom has rows in both directions.)
        self._under, self._within = [0] * len(names), [0] * len(names)
        self.compared = 0  # variables
        for low, high in pattern.below:
            self._under[high] |= 1 << low
            self.compared |= 1 << low | 1 << high
        for atom in pattern.atoms:
            for low, high in () if atom.mirrored else atom.ascending:
                self._within[high] |= 1 << low
        self._orders: tuple[dict[int, int], dict[int, int]] = ({0: 1}, {0: 1})
        # By variable: the other variables whose value ranges depend on it.
        self._ranges: list[list[int]] = [[] for _ in names]
        for at, cut in pattern.ranges.items():
            for other in bits(cut.near):
                self._ranges[other].append(at)

    # ------------------------------------------------------------------- of a set of variables

    def rows(self, bound: int, path: int = 0) -> float:
        """The number of bindings of some variables; `path`: a similar set with a known estimate."""
        known = self._known  # without comparisons between variables
        found = known.get(bound)
        if found is not None:
            return min(HUGE, found * self._ordered(bound))
        # By way of intermediate sets.
        if path not in known or (path ^ bound).bit_count() > bound.bit_count():
            path = 0
        for at in bits(path & ~bound):
            rest = path & ~(1 << at)
            if rest not in known:
                change = self._change(at, rest) if known[path] else 0.0
                if not change:  # an empty set tells nothing
                    path = 0
                    break
                known[rest] = min(HUGE, known[path] / change)
            path = rest
        for at in bits(bound & ~path):
            wider = path | 1 << at
            if wider not in known:
                found = known[path]
                known[wider] = min(HUGE, found * self._change(at, path)) if found else 0.0
            path = wider
        return min(HUGE, known[bound] * self._ordered(bound))

    def _change(self, at: int, bound: int) -> float:
        """The factor by which one more variable changes the number of bindings."""
        bit = 1 << at
        wider = bound | bit
        found = self._share(at, wider)
        parents = 0  # bound variables that an atom connects to the new one
        for atom in self.holding[at]:
            before, paths = atom.mask & bound, atom.paths
            after = paths.get(before | bit)
            found *= self.paths(atom, before | bit) if after is None else after
            if before or atom.fixed:
                found /= paths.get(before) or self.paths(atom, before) or TINY
                if not before & (before - 1) and not atom.fixed:
                    parents |= before
        for parent in bits(parents):
            found *= self._share(parent, wider) / (self._share(parent, bound) or TINY)
        for whole, passes in self._passes[at]:
            if not whole & ~wider:
                found *= passes
        ranges = self.pattern.ranges
        if at in ranges:
            found *= ranges[at].share(bound)
        for other in self._ranges[at]:
            if bound >> other & 1:
                rest = bound & ~(1 << other)
                found *= ranges[other].share(rest | bit) / (ranges[other].share(rest) or TINY)
        return found

    def passed(self, bound: int) -> float:
        """The selectivity of what samples do not test."""
        passed = 1.0
        for at, cut in self.pattern.ranges.items():
            if bound >> at & 1 and cut.ranks is None:
                passed *= cut.share(bound & ~(1 << at))
        for whole, passes in self.pattern.tests:
            if whole & ~bound == 0:
                passed *= passes
        return passed

    def paths(self, atom: PatternAtom, bound: int) -> float:
        """The number of distinct rows of an atom in its bound columns, for each constant."""
        found = atom.paths.get(bound)
        if found is None:
            size = atom.size
            columns = [*atom.fixed]
            for at in bits(bound):
                columns.append(atom.columns[at])
            count = len(columns)
            if atom.mirrored:
                powers = atom.of_column(None).powers
                found = powers[count - 1] / max(1.0, powers[0]) ** len(atom.fixed)
            else:
                if count == 1:
                    found = atom.of_column(columns[0]).powers[0]
                else:
                    if len(atom.columns) <= WIDE:
                        found = float(size.distinct(frozenset(columns)))
                    else:
                        found = self._combinations(atom, bound, columns)
                    if atom.tests:
                        found *= size.size(atom.tests) / max(1, size.rows)
                for column in atom.fixed:
                    found /= max(1.0, atom.of_column(column).powers[0])
            atom.paths[bound] = found
        return found

    def _combinations(self, atom: PatternAtom, bound: int, columns: list[int]) -> float:
        """The number of distinct values in the columns of a wide atom's bound variables and
        constants. Few sets are counted: a superset of a key is a key."""
        size = atom.size
        apart = self._apart.setdefault(id(atom), [])
        if bound.bit_count() > COUNTED or any(not known & ~bound for known in apart):
            return float(size.rows)
        found = float(size.distinct(frozenset(columns)))
        if found >= APART * size.rows:
            apart.append(bound)
        return found

    def grouped(self, at: int, compared: bool = False) -> list[list[PatternAtom]]:
        """The atoms that contain a variable, in groups with the same source and column.
        `compared`: comparisons of mirrored atoms tell their sources apart."""
        groups: dict[object, list[PatternAtom]] = {}
        for atom in self.holding[at]:
            source, either = atom.kind, atom.mirrored
            if compared:
                source, either = atom.source, atom.turned
            groups.setdefault((source, 0 if either else atom.columns[at]), []).append(atom)
        return list(groups.values())

    def _share(self, at: int, bound: int) -> float:
        """The factor by which atoms that meet in a variable change the product of their rows."""
        groups = self._groups[at]
        given = self.given.get(at)
        if not groups:
            return 1.0 if given is None else given.values
        atoms = self.holding[at]
        others = bound & ~(1 << at)
        led = self._fixed[at]  # the atoms with another bound variable or a constant
        for number, mask in self._leading[at]:
            if mask & others:
                led |= number
        found = self._shares.get((at, led))
        if found is not None:
            return found
        found, most = 1.0, self._values[at]
        for group, powers in zip(groups, self._spreads[at], strict=True):
            values = max(powers[0], TINY)
            rows = max(powers[1], TINY)
            many = 0
            for number in group:
                many += led >> number & 1
                found /= rows if led >> number & 1 else values
            found *= powers[min(many, len(powers) - 1)]
            if most < values and atoms[group[0]].size.assumed:
                # Relations to come are made of existing values.
                found *= (values / most) ** (many - 1)
        found /= most ** (len(groups) - 1)
        if given is not None:
            found *= min(1.0, given.values / most)
        self._shares[at, led] = found
        return found

    def _most(self, groups: list[list[int]], at: int) -> float:
        """The number of values in a variable's domain: by existing relations if there are any."""
        holding = self.holding[at]
        values = [(p[0], holding[g[0]]) for g, p in zip(groups, self._spreads[at], strict=True)]
        known = [count for count, atom in values if not atom.size.assumed]
        return max([TINY, *(known or [count for count, _ in values])])

    def _domain(self, whole: int) -> float:
        """The number of values that the side of an equation can have, by its atoms.

        A variable without atoms takes whatever value there is.
        """
        if not all(self.holding[at] for at in bits(whole)):
            return 1.0
        sides = ((at, atom) for at in bits(whole) for atom in self.holding[at])
        return max((1.0, *(atom.spread(at).powers[0] for at, atom in sides)))

    def fan(self, atom: PatternAtom, at: int, bound: int) -> float:
        """The length of an atom's list of a variable's values, for a binding of the path."""
        known = atom.mask & bound
        values = (atom.known.get(atom.columns[at]) or atom.degrees(at)).powers[0]
        wide = len(atom.columns) + len(atom.fixed) > 2
        wider = 0.0
        if wide or atom.fixed or not known:
            wider = atom.paths.get(known | 1 << at) or self.paths(atom, known | 1 << at)
        if known & (known - 1) or atom.fixed or not known:
            paths = atom.paths.get(known) or self.paths(atom, known)
            return min(wider / max(TINY, paths), values)
        # Size-biased: values with many rows are in many bindings.
        parent = known.bit_length() - 1
        degrees = atom.known.get(atom.columns[parent]) or atom.degrees(parent)
        powers = degrees.powers
        many = min(self._uses(atom, parent, bound), len(powers) - 2)
        met = self._met(atom, parent, bound) if atom.ranked else None
        fan = powers[many + 1] / max(TINY, powers[many]) if met is None else met
        if wide:
            mean = max(TINY, powers[1] / max(TINY, powers[0]))
            fan *= wider / max(TINY, powers[0]) / mean
        return min(fan, float(degrees.most), values)

    def _uses(self, atom: PatternAtom, at: int, bound: int) -> int:
        """The number of atoms of the same source that have contributed to a variable's bindings."""
        column, others = atom.columns[at], bound & ~(1 << at)
        found = 0
        for other in self.holding[at]:
            if (other.fixed or other.mask & others) and other.source == atom.source:
                found += atom.turned or other.columns[at] == column
        return found

    def _met(self, atom: PatternAtom, at: int, bound: int) -> float | None:
        """The length of an atom's lists at values reached by edges of the same graph, when
        comparisons cut them differently: a vertex with many lower neighbours may have few higher
        ones."""
        graph = atom.size.graph
        if graph is None:
            return None
        others = [
            other
            for other in self.holding[at]
            if other.kind == atom.kind and other.mask & bound & ~(1 << at)
        ][: MOMENTS - 1]
        ways = sorted([(other.columns[at], other.tests) for other in others])
        own = atom.columns[at], atom.tests
        if all(way == own for way in ways):
            return None
        met, all_met = graph.paths(tuple(ways)), graph.paths((*ways, own))
        return None if met is None or all_met is None else all_met / max(TINY, met)

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

    # ------------------------------------------------------------------- of comparisons

    def _ordered(self, bound: int) -> float:
        """The selectivity of the comparisons that no atom's rows imply, assuming random order."""
        among = bound & self.compared
        if not among:
            return 1.0
        if self.compared.bit_count() > COMPARED:
            pairs = sum(
                (self._under[at] & ~self._within[at] & among).bit_count() for at in bits(among)
            )
            return float(0.5 ** min(pairs, among.bit_count()))
        every, own = self._orders[0].get(among), self._orders[1].get(among)
        if every is None or own is None:
            every = self._linear(among, self._under, self._orders[0])
            own = self._linear(among, self._within, self._orders[1])
        return every / own if own else 0.0

    def _linear(self, among: int, under: list[int], known: dict[int, int]) -> int:
        """The number of orders of these variables that satisfy all comparisons."""
        found = known.get(among)
        if found is None:
            covered = found = 0
            for at in bits(among):
                covered |= under[at] & among
            for at in bits(among & ~covered):
                rest = among & ~(1 << at)
                count = known.get(rest)
                found += self._linear(rest, under, known) if count is None else count
            known[among] = found
        return found

    def cut(self, at: int, bound: int) -> float:
        """The share of a list that comparisons with bound variables leave."""
        if not self.compared >> at & 1:
            return 1.0
        bound &= self.compared
        if not bound:
            return 1.0
        if self.compared.bit_count() > COMPARED:
            return 0.5 if self._under[at] & bound else 1.0
        known, wider = self._orders[0], bound | 1 << at
        before, after = known.get(bound), known.get(wider)
        if before is None or after is None:
            before = self._linear(bound, self._under, known)
            after = self._linear(wider, self._under, known)
        return after / before / (bound.bit_count() + 1) if before else 0.0
