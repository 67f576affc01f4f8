"""A conjunction as the search for an order sees it: variables are bits, literals sets of bits."""

from __future__ import annotations

from functools import lru_cache

from gdatalog.planner.order.sizes import ColumnTest, DegreeMoments, ListSizes, RelationStatistics
from gdatalog.records import dataclass, field


@lru_cache(maxsize=1 << 12)
def bits(mask: int) -> tuple[int, ...]:
    """The numbers of the bits that are set, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return tuple(found)


@dataclass(slots=True, eq=False)
class PatternAtom:
    """An atom: which column each variable has, and which columns hold a constant."""

    source: tuple[object, ...]  # equal where two atoms read the same rows
    kind: tuple[object, ...]  # the same, but for comparisons of a mirrored one
    size: RelationStatistics
    columns: dict[int, int]  # by variable
    fixed: frozenset[int]
    tests: tuple[ColumnTest, ...]
    mask: int
    mirrored: bool  # whether each row stands the other way round too, but for comparisons
    ranked: bool
    ascending: tuple[tuple[int, int], ...]  # pairs of variables that ascend in every row of it
    known: dict[int, DegreeMoments] = field(default_factory=dict)  # degrees, by variable
    paths: dict[int, float] = field(default_factory=dict)  # see `Formula.paths`

    @property
    def turned(self) -> bool:
        """Whether its two columns are alike."""
        return self.mirrored and self.source == self.kind

    def spread(self, at: int) -> DegreeMoments:
        """As `degrees`, but the comparisons of a mirrored relation are left to others.

        In how many orders of all variables they hold says more than what each lets through.
        """
        if not self.mirrored:
            return self.degrees(at)
        return self.size.degrees(0, (), self.ranked)

    def degrees(self, at: int) -> DegreeMoments:
        """In how many of its rows each value of a variable stands."""
        found = self.known.get(at)
        if found is None:
            found = self.size.degrees(self.columns[at], self.tests, self.ranked)
            self.known[at] = found
        return found

    def lists(self, at: int, ranked: bool = True) -> ListSizes | None:
        """The other variable's values for each of one's, where they are at hand; of ranks those of
        ranks, or of values."""
        return self.size.lists(self.columns[at], self.tests, self.ranked and ranked)


@dataclass(slots=True, eq=False)
class GivenValues:
    """Values that a variable is generated from, so many for each binding of `sources`."""

    variable: int
    sources: int
    values: float


@dataclass(frozen=True, slots=True)
class ValueRange:
    """What comparisons with constants leave of a variable's values: which share of them.

    `rows`: for each atom that holds it, the atom's other variables, whether a constant stands
    there too, and how many times as large a share of its rows is left.
    """

    bounds: tuple[object, ...]
    values: float
    rows: tuple[tuple[int, bool, float], ...] = ()

    def share(self, bound: int) -> float:
        """Which share of the bindings of the variable and some others is left."""
        found = self.values
        for others, fixed, times in self.rows:
            if fixed or others & bound:
                found *= times
        return min(1.0, found)

    def listed(self, bound: int) -> float:
        """Which share is left of a list of the variable's values that others lead to."""
        near = [times for others, fixed, times in self.rows if fixed or others & bound]
        return min(1.0, self.values * min(near, default=1.0))

    def longer(self, at: int) -> float:
        """How many times as long as others the lists of a variable are that its values lead to."""
        return min((times for others, _, times in self.rows if others >> at & 1), default=1.0)


@dataclass(frozen=True, slots=True)
class Aggregated:
    """A variable that holds an aggregate: what it hangs on, and what it costs for each row."""

    needs: int
    cost: float


@dataclass(slots=True)
class QueryPattern:
    """A conjunction's variables and literals; sets of variables are ints, a bit for each."""

    names: list[str]
    atoms: list[PatternAtom] = field(default_factory=list)
    given: list[GivenValues] = field(default_factory=list)
    links: list[int] = field(default_factory=list)  # the variables of each literal
    risky: int = 0  # variables of literals that may fail
    computed: int = 0  # variables that wait for such a literal, or for an aggregate
    late: list[tuple[int, int]] = field(default_factory=list)  # of them, and what each needs
    aggregates: dict[int, Aggregated] = field(default_factory=dict)  # those that may come early
    equations: list[tuple[int, int]] = field(default_factory=list)  # variable, what it needs
    equal: list[int] = field(default_factory=list)  # the variables of each equation
    tests: list[tuple[int, float]] = field(default_factory=list)  # what they read, how many pass
    filters: list[int] = field(default_factory=list)  # what is tested once these are bound
    ranges: dict[int, ValueRange] = field(default_factory=dict)  # by variable: cuts by constants
    below: dict[tuple[int, int], bool] = field(default_factory=dict)  # a <= b, whether a < b
    unequal: set[frozenset[int]] = field(default_factory=set)
    outer: int = 0
    live: int = 0
    outputs: tuple[int, ...] = ()  # the variables asked for, in the order of the answer
    bag: bool = False
    compacts: bool = False
    before: list[int] = field(default_factory=list)  # of each variable, its twins before it
    behind: list[int] = field(default_factory=list)
    lower: list[int] = field(default_factory=list)  # of each rank, its neighbours of lower rank
    solved: list[list[tuple[int, int]]] = field(
        default_factory=list
    )  # equations, by what they need

    held: int = 0  # variables that atoms or generators give values to
    around_each: list[int] = field(default_factory=list)  # what shares a literal with a variable

    @property
    def everything(self) -> int:
        return (1 << len(self.names)) - 1

    def finish(self) -> None:
        """Finds what follows from all literals, once they are there."""
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
        self._find_lower()

    def _find_lower(self) -> None:
        """Finds the ranks that are neighbours in ascending order.

        A vertex has few neighbours of higher degree, whatever its own; so lists are short if the
        lower of two is bound first.
        """
        self.lower = [0] * len(self.names)
        for atom in self.atoms:
            if atom.ranked and len(atom.columns) == 2:
                a, b = atom.columns
                for low, high in ((a, b), (b, a)):
                    if self.below.get((low, high)):
                        self.lower[high] |= 1 << low

    def components(self, among: int) -> list[int]:
        """The parts of some unbound variables that no literal connects."""
        parts: list[int] = []
        around = self.around_each
        left = among
        while left:
            part = new = left & -left
            while new:
                low = new & -new
                more = around[low.bit_length() - 1] & left & ~part
                part |= more
                new = new ^ low | more
            left &= ~part
            if around[part.bit_length() - 1]:
                parts.append(part)
        return sorted(parts)

    def widens(self, part: int) -> bool:
        """Whether some variables can have several values: else they are computed of others."""
        return bool(part & self.held)

    def around(self, part: int) -> int:
        """The variables that share a literal with some others, and these."""
        found = 0
        for at in bits(part):
            found |= self.around_each[at]
        return found

    def apart_from(self, rest: int, some: int) -> int:
        """Those of some variables that share no literal with the rest."""
        found = left = some
        while left:
            low = left & -left
            left ^= low
            if self.around_each[low.bit_length() - 1] & rest:
                found ^= low
        return found

    def closed(self, bound: int, among: int, new: int | None = None) -> int:
        """What is bound once every equation that can give a variable its value has.

        `new`: the bound variables that no equation has been asked about, if not all.
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
