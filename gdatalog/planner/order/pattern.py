"""A conjunction in the form that the search uses: variables are bits, literals are bitsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, reduce
from operator import or_

from gdatalog.plan.join_plan import Expr
from gdatalog.planner.statistics import ColumnTest, RelationStatistics
from gdatalog.records import dataclass, field
from gdatalog.storage.degrees import AdjacencyLists, Degrees


@lru_cache(maxsize=1 << 12)
def bits(mask: int) -> tuple[int, ...]:
    """The positions of the set bits, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return tuple(found)


def parts_of(left: int, around: Sequence[int]) -> Iterator[int]:
    """The connected components of some variables; `around`: those that each is connected to."""
    while left:
        part = new = left & -left
        while new:
            low = new & -new
            more = around[low.bit_length() - 1] & left & ~part
            part |= more
            new = new ^ low | more
        left &= ~part
        yield part


@dataclass(slots=True, eq=False)
class PatternAtom:
    """An atom: the column of each variable, and the columns with constants."""

    source: tuple[object, ...]  # equal for atoms that read the same rows
    kind: tuple[object, ...]  # the same, without comparisons of a mirrored atom
    size: RelationStatistics
    columns: dict[int, int]  # by variable
    fixed: frozenset[int]
    tests: tuple[ColumnTest, ...]
    mask: int
    mirrored: bool  # whether the relation is symmetric, apart from comparisons
    ranked: bool
    ascending: tuple[tuple[int, int], ...]  # pairs of variables that ascend in every row
    turned: bool  # whether its two columns are interchangeable
    known: dict[int | None, Degrees] = field(default_factory=dict)  # see `of_column`
    paths: dict[int, float] = field(default_factory=dict)  # see `Formula.paths`
    sorts: dict[int, int] = field(default_factory=dict)  # rows to sort for an index, by column

    def spread(self, at: int) -> Degrees:
        """Like `degrees`, but without the comparisons of a mirrored atom.

        For these, the share of orders of all variables that satisfy them is more accurate.
        """
        return self.of_column(None if self.mirrored else self.columns[at])

    def degrees(self, at: int) -> Degrees:
        """The degree moments of a variable's column."""
        column = self.columns[at]
        return self.known.get(column) or self.of_column(column)

    def of_column(self, column: int | None) -> Degrees:
        """The degree moments of a column; None: of either one, without comparisons."""
        found = self.known.get(column)
        if found is None:
            own = (0, ()) if column is None else (column, self.tests)
            found = self.known[column] = self.size.degrees(*own, self.ranked)
        return found

    def sorting(self, column: int) -> int:
        """How many rows must be sorted for an index that begins with a column."""
        found = self.sorts.get(column)
        if found is None:
            found = self.sorts[column] = self.size.sorting(column, self.tests, self.ranked)
        return found

    def lists(self, at: int, ranked: bool = True) -> AdjacencyLists | None:
        """The lists of the other variable's values by this one's, if they exist; `ranked`: lists of
        ranks if the atom is ranked."""
        return self.size.lists(self.columns[at], self.tests, self.ranked and ranked)


@dataclass(slots=True, eq=False)
class GivenValues:
    """A generator of values for a variable, for each binding of `sources`."""

    variable: int
    sources: int
    values: float


@dataclass(frozen=True, slots=True)
class ValueRange:
    """The share of a variable's values that comparisons with constants leave.

    `rows`: for each atom of the variable: its other variables, whether it has a constant, and the
    share of its rows that is left divided by the share of values. `ranks`: from and to which the
    variable's ranks are, if these are compared; samples then follow only such ranks.
    """

    bounds: tuple[object, ...]
    values: float
    rows: tuple[tuple[int, bool, float], ...] = ()
    ranks: tuple[int, int] | None = None

    @property
    def near(self) -> int:
        """The variables that share an atom with the variable."""
        return reduce(or_, (others for others, _, _ in self.rows), 0)

    def share(self, bound: int) -> float:
        """The share that is left of the bindings of the variable and some others."""
        found = self.values
        for others, fixed, times in self.rows:
            if fixed or others & bound:
                found *= times
        return min(1.0, found)

    def listed(self, bound: int) -> float:
        """The share that is left of a list of the variable's values."""
        near = [times for others, fixed, times in self.rows if fixed or others & bound]
        return min(1.0, self.values * min(near, default=1.0))

    def longer(self, at: int) -> float:
        """The factor by which lists that the variable's values lead to are longer."""
        return min([times for others, _, times in self.rows if others >> at & 1], default=1.0)


@dataclass(frozen=True, slots=True)
class Aggregated:
    """A variable that holds an aggregate: the variables it needs, and its cost for each row."""

    needs: int
    cost: float


@dataclass(slots=True)
class QueryPattern:
    """A conjunction's variables and literals; a set of variables is an int, one bit for each."""

    names: list[str]
    place: dict[str, int]  # of each name
    everything: int  # all variables
    atoms: list[PatternAtom] = field(default_factory=list)
    given: list[GivenValues] = field(default_factory=list)
    links: list[int] = field(default_factory=list)  # the variables of each literal
    risky: int = 0  # variables of literals that can fail
    computed: int = 0  # variables that such a literal, or an aggregate, computes
    late: list[tuple[int, int]] = field(default_factory=list)  # computed last: variable, its needs
    aggregates: dict[int, Aggregated] = field(default_factory=dict)  # those placed freely
    equations: list[tuple[int, int]] = field(default_factory=list)  # variable, those it needs
    equal: list[int] = field(default_factory=list)  # the variables of each equation
    tests: list[tuple[int, float]] = field(default_factory=list)  # variables, share that passes
    filters: list[int] = field(default_factory=list)  # variables of tests without cuts
    # `x <= y + 3`: its variables, and the one that it cuts if it is bound last
    one_sided: list[tuple[int, int]] = field(default_factory=list)
    bounds: dict[int, list[tuple[str, Expr]]] = field(default_factory=dict)  # by variable
    ranges: dict[int, ValueRange] = field(default_factory=dict)  # by variable: cuts by constants
    below: dict[tuple[int, int], bool] = field(default_factory=dict)  # a <= b; whether a < b
    unequal: set[frozenset[int]] = field(default_factory=set)
    outer: int = 0
    live: int = 0
    outputs: tuple[int, ...] = ()  # variables of the answer, in order
    bag: bool = False
    compacts: bool = False
    before: list[int] = field(default_factory=list)  # by variable: earlier twins
    behind: list[int] = field(default_factory=list)
    lower: list[int] = field(default_factory=list)  # by rank variable: neighbours of lower rank
    solved: list[list[tuple[int, int]]] = field(default_factory=list)  # equations, by their needs
    held: int = 0  # variables of atoms and generators
    around_each: list[int] = field(default_factory=list)  # by variable: those that share a literal

    def mask(self, names: Iterable[str]) -> int:
        found = 0
        for name in names:
            if name in self.place:
                found |= 1 << self.place[name]
        return found

    @staticmethod
    def mask_of(variables: Iterable[int]) -> int:
        found = 0
        for at in variables:
            found |= 1 << at
        return found

    def finish(self) -> None:
        """Computes derived fields, once all literals are added."""
        names = len(self.names)
        self.links = list(dict.fromkeys(self.links))
        self.filters = list(dict.fromkeys(self.filters))
        tests: dict[int, float] = {}
        for whole, passes in self.tests:
            tests[whole] = tests.get(whole, 1.0) * passes
        self.tests = list(tests.items())
        self.around_each = [0] * names
        for link in self.links:
            for at in bits(link):
                self.around_each[at] |= link
        for atom in self.atoms:
            self.held |= atom.mask
        for given in self.given:
            self.held |= 1 << given.variable
        self.solved = [[] for _ in range(names)]
        for target, needs in self.equations:
            for at in bits(needs):
                self.solved[at].append((1 << target, needs))

    def find_lower(self, of_values: bool) -> None:
        """Finds neighbouring ranks that are compared; `of_values`: neighbouring values, too.

        A vertex has few neighbours of higher degree, whatever its own degree: lists are short if
        the lower rank is bound first.
        """
        self.lower = [0] * len(self.names)
        for atom in self.atoms:
            if (atom.ranked or of_values) and len(atom.columns) == 2:
                a, b = atom.columns
                for low, high in ((a, b), (b, a)):
                    if self.below.get((low, high)):
                        self.lower[high] |= 1 << low

    def components(self, among: int) -> list[int]:
        """The connected components of some unbound variables."""
        around = self.around_each
        return sorted([p for p in parts_of(among, around) if around[p.bit_length() - 1]])

    def widens(self, part: int) -> bool:
        """Whether some of the variables can have several values; otherwise they are computed."""
        return bool(part & self.held)

    def around(self, part: int) -> int:
        """The variables that share a literal with these, and these."""
        return reduce(or_, (self.around_each[at] for at in bits(part)), 0)

    def apart_from(self, rest: int, some: int) -> int:
        """Those of `some` that share no literal with `rest`."""
        found = 0
        for at in bits(some):
            if not self.around_each[at] & rest:
                found |= 1 << at
        return found

    def closed(self, bound: int, among: int, new: int | None = None) -> int:
        """The bound variables after solving equations.

        `new`: the bound variables whose equations have not been checked; None: all.
        """
        if new is None:
            new = bound
            for target, needs in self.equations:
                if not needs and among >> target & 1 and not bound >> target & 1:
                    bound |= 1 << target
                    new |= 1 << target
        while new:
            low = new & -new
            new ^= low
            for bit, needs in self.solved[low.bit_length() - 1]:
                if bit & among and not bit & bound and not needs & ~bound:
                    bound |= bit
                    new |= bit
        return bound
