"""A conjunction as the search for an order sees it: variables are bits, literals sets of bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from gdatalog.plan.nodes import Apply, Expr, Slot, slots
from gdatalog.planner.atoms import AtomState
from gdatalog.planner.comparisons import FLIPPED, Comparisons
from gdatalog.planner.items import (
    AggregateItem,
    Equation,
    GenerateItem,
    Item,
    NotItem,
    RestoreItem,
    TestItem,
    item_may_fail,
)
from gdatalog.planner.sizes import ColumnTest, Degrees, Lists, Size

# How much of the rows a test lets through, by its operator, where nothing else is known.
PASSES = {"=": 0.1, "<": 0.4, "<=": 0.4, ">": 0.4, ">=": 0.4, "!=": 0.95}
OTHERWISE, NEGATED = 0.5, 0.7
# How many values a range has whose ends are not known.
RANGE = 100.0


def bits(mask: int) -> Iterator[int]:
    """The numbers of the bits that are set."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass(slots=True, eq=False)
class PatternAtom:
    """An atom: which column each variable has, and which columns hold a constant."""

    source: tuple[object, ...]  # equal where two atoms read the same rows
    kind: tuple[object, ...]  # the same, but for comparisons of a mirrored one
    size: Size
    columns: dict[int, int]  # by variable
    fixed: frozenset[int]
    tests: tuple[ColumnTest, ...]
    mask: int
    mirrored: bool  # whether each row stands the other way round too, but for comparisons
    ranked: bool
    ascending: tuple[tuple[int, int], ...]  # pairs of variables that ascend in every row of it

    @property
    def turned(self) -> bool:
        """Whether its two columns are alike."""
        return self.mirrored and self.source == self.kind

    def spread(self, at: int) -> Degrees:
        """As `degrees`, but the comparisons of a mirrored relation are left to others.

        In how many orders of all variables they hold says more than what each lets through.
        """
        if not self.mirrored:
            return self.degrees(at)
        return self.size.degrees(0, (), self.ranked)

    def degrees(self, at: int) -> Degrees:
        """In how many of its rows each value of a variable stands."""
        return self.size.degrees(self.columns[at], self.tests, self.ranked)

    def lists(self, at: int) -> Lists | None:
        """The other variable's values for each of one's, where they are at hand."""
        return self.size.lists(self.columns[at], self.tests, self.ranked)


@dataclass(slots=True, eq=False)
class Given:
    """Values that a variable is generated from, so many for each binding of `sources`."""

    variable: int
    sources: int
    values: float


@dataclass(slots=True)
class Pattern:
    """A conjunction's variables and literals; sets of variables are ints, a bit for each."""

    names: list[str]
    atoms: list[PatternAtom] = field(default_factory=list)
    given: list[Given] = field(default_factory=list)
    links: list[int] = field(default_factory=list)  # the variables of each literal
    risky: int = 0  # variables of literals that may fail
    computed: int = 0  # variables that wait for such a literal, or for an aggregate
    equations: list[tuple[int, int]] = field(default_factory=list)  # variable, what it needs
    equal: list[int] = field(default_factory=list)  # the variables of each equation
    tests: list[tuple[int, float]] = field(default_factory=list)  # what they read, how many pass
    filters: list[int] = field(default_factory=list)  # what is tested once these are bound
    ranges: dict[int, float] = field(default_factory=dict)  # by variable: cuts by constants
    below: dict[tuple[int, int], bool] = field(default_factory=dict)  # a <= b, whether a < b
    unequal: set[frozenset[int]] = field(default_factory=set)
    outer: int = 0
    live: int = 0
    outputs: tuple[int, ...] = ()  # the variables asked for, in the order of the answer
    bag: bool = False
    compacts: bool = False
    before: list[int] = field(default_factory=list)  # of each variable, its twins before it
    behind: list[int] = field(default_factory=list)

    @property
    def everything(self) -> int:
        return (1 << len(self.names)) - 1

    def find_twins(self) -> None:
        """Finds variables that can stand for each other: whatever is said of one is of both.

        Only the first of them need be tried next, and only the last can have been last.
        """
        opaque = self.outer | self.live | self.computed | self.risky
        for whole in (*self.equal, *(whole for whole, _ in self.tests)):
            opaque |= whole
        for given in self.given:
            opaque |= 1 << given.variable | given.sources
        free = [at for at in range(len(self.names)) if not opaque >> at & 1]
        self.before, self.behind = [0] * len(self.names), [0] * len(self.names)
        for at in free:
            for other in free[: free.index(at)]:
                both = 1 << at | 1 << other
                swapped = self._said(both, {at: other, other: at})
                if self.ranges.get(at) == self.ranges.get(other) and swapped == self._said(
                    both, {}
                ):
                    self.before[at] |= 1 << other
                    self.behind[other] |= 1 << at

    def _said(self, some: int, renamed: Mapping[int, int]) -> Counter[object]:
        """All literals that hold one of some variables, these under other names."""
        said: Counter[object] = Counter()
        for atom in self.atoms:
            if atom.mask & some:
                places = [
                    (0 if atom.turned and len(atom.columns) == 2 else column, renamed.get(at, at))
                    for at, column in atom.columns.items()
                ]
                said[atom.source, atom.fixed, frozenset(places)] += 1
        for (low, high), strict in self.below.items():
            if (1 << low | 1 << high) & some:
                said[renamed.get(low, low), renamed.get(high, high), strict] += 1
        for whole in (*self.filters, *(sum(1 << at for at in pair) for pair in self.unequal)):
            if whole & some:
                said[sum(1 << renamed.get(at, at) for at in bits(whole))] += 1
        return said

    def components(self, among: int) -> list[int]:
        """The parts of some unbound variables that no literal connects."""
        parts: list[int] = []
        for link in self.links:
            mine = link & among
            if not mine:
                continue
            apart = []
            for part in parts:
                if part & mine:
                    mine |= part
                else:
                    apart.append(part)
            apart.append(mine)
            parts = apart
        return sorted(parts)

    def around(self, part: int) -> int:
        """The variables that share a literal with some others, and these."""
        found = 0
        for link in self.links:
            if link & part:
                found |= link
        return found

    def closed(self, bound: int, among: int) -> int:
        """What is bound once every equation that can give a variable its value has."""
        more = True
        while more:
            more = False
            for target, needs in self.equations:
                bit = 1 << target
                if bit & among and not bit & bound and needs & ~bound == 0:
                    bound |= bit
                    more = True
        return bound


class PatternMaker:
    """Makes the pattern of a conjunction whose atoms have been opened."""

    def __init__(
        self,
        items: Sequence[Item],
        outer: Collection[str],
        live: Collection[str],
        outputs: Sequence[str] = (),
    ) -> None:
        names = list(dict.fromkeys(name for item in items for name in sorted(item.variables)))
        self.place = {name: at for at, name in enumerate(names)}
        self.pattern = Pattern(names, outer=self.mask(outer), live=self.mask(live))
        asked = (name for name in outputs if name in self.place)
        self.pattern.outputs = tuple(self.place[name] for name in asked)

    def mask(self, names: Collection[str]) -> int:
        return sum(1 << self.place[name] for name in frozenset(names) if name in self.place)

    def finish(self, comparisons: Comparisons, bag: bool, compacts: bool) -> Pattern:
        """The pattern, once all atoms and other items are in it."""
        place = self.place
        self.pattern.bag, self.pattern.compacts = bag, compacts
        self.pattern.below = {
            (place[low], place[high]): strict
            for (low, high), strict in comparisons.below.items()
            if low in place and high in place and low != high
        }
        self.pattern.unequal = {
            frozenset(place[name] for name in pair)
            for pair in comparisons.unequal
            if len(pair) == 2 and pair <= place.keys()
        }
        self.pattern.find_twins()
        return self.pattern

    def atom(self, atom: AtomState, size: Size) -> None:
        item = atom.item
        columns: dict[int, int] = {}
        fixed = set()
        for at, arg in enumerate(item.args):
            if not isinstance(arg, Slot):
                fixed.add(at)
            elif arg.name in atom.columns or self.mask((arg.name,)) & self.pattern.outer:
                columns.setdefault(self.place[arg.name], at)
        tests = tuple((t.left, t.op, t.right) for t in atom.tests)
        variables = {column: variable for variable, column in columns.items()}
        pairs = [*atom.rises]
        pairs += [(left, right) for left, op, right in tests if op in ("<", "<=")]
        pairs += [(right, left) for left, op, right in tests if op in (">", ">=")]
        ascending = tuple(
            (variables[low], variables[high])
            for low, high in pairs
            if low in variables and high in variables
        )
        mirrored = item.ranked or size.balanced
        if mirrored and any(op in (">", ">=") for _, op, _ in tests):
            # The same rows read the other way round: one name for both.
            columns = {variable: 1 - column for variable, column in columns.items()}
            fixed = {1 - column for column in fixed}
            tests = tuple((left, FLIPPED[op], right) for left, op, right in tests)
        # That the ends of an edge differ is hardly a test.
        ordered = tuple(test for test in tests if test[1] != "!=" or not mirrored)
        kept = () if mirrored else tests
        found = PatternAtom(
            (item.relation, item.version, item.ranked, ordered),
            (item.relation, item.version, item.ranked, kept),
            size,
            columns,
            frozenset(fixed),
            tests,
            sum(1 << variable for variable in columns),
            mirrored,
            item.ranked,
            ascending,
        )
        self.pattern.atoms.append(found)
        self.pattern.links.append(found.mask)

    def item(self, item: Item) -> None:
        """What an item that is no atom means for the search."""
        pattern = self.pattern
        whole = self.mask(item.variables)
        pattern.links.append(whole)
        if item_may_fail(item):
            pattern.risky |= whole
        match item:
            case TestItem():
                self._test(item.test, whole)
            case NotItem():
                pattern.tests.append((whole, NEGATED))
                pattern.filters.append(whole)
            case Equation(may_fail=False):
                for slot, value in item.ways():
                    pattern.equations.append((self.place[slot.name], self.mask(slots(value))))
                pattern.equal.append(whole)
            case Equation(left=Slot(name=name)):
                pattern.computed |= self.mask((name,))
            case GenerateItem(slot=slot):
                values = item.size()
                values = RANGE if values == inf else float(values)
                pattern.given.append(Given(self.place[slot.name], self.mask(item.sources), values))
            case RestoreItem():
                ranks = self.mask(item.ranks)
                pattern.equations += [(self.place[value.name], ranks) for value in item.values]
            case AggregateItem():
                computed = (item.slot, *item.exports)
                pattern.computed |= self.mask([slot.name for slot in computed])

    def _test(self, test: Expr, whole: int) -> None:
        pattern = self.pattern
        if not isinstance(test, Apply) or test.function not in PASSES or len(test.args) != 2:
            pattern.tests.append((whole, OTHERWISE))
            pattern.filters.append(whole)
            return
        if test.function == "!=" and all(isinstance(arg, Slot) for arg in test.args):
            return  # one of the comparisons
        ordered = [arg for arg in test.args if isinstance(arg, Slot) and arg.type != "symbol"]
        if test.function in ("=", "!=") or not ordered:
            pattern.filters.append(whole)
        elif len(ordered) == 2:
            return  # one of the comparisons
        elif whole & (whole - 1) == 0:
            at = self.place[ordered[0].name]
            pattern.ranges[at] = pattern.ranges.get(at, 1.0) * PASSES[test.function]
            return
        pattern.tests.append((whole, PASSES[test.function]))
