"""Atoms during planning: how they are opened, and which of their columns are bound."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from gdatalog.plan import join_plan as p
from gdatalog.planner import items as n
from gdatalog.planner.comparisons import FLIPPED, Comparisons, shares_two
from gdatalog.planner.statistics import RelationStatistics
from gdatalog.records import dataclass, field
from gdatalog.values import TypeName


@dataclass(slots=True, eq=False)
class AtomState:
    """The state of an atom during planning: the columns bound so far are its trie's first
    levels."""

    item: n.AtomItem
    number: int  # the number of its trie in the plan
    columns: dict[str, int]  # the columns of the variables that are needed
    tests: tuple[p.RowTest, ...]
    weighted: bool
    rises: frozenset[tuple[int, int]]  # pairs of columns that ascend in every row
    size: RelationStatistics
    order: list[int] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)  # `order` as a set

    def take(self, column: int) -> p.Participant:
        """Binds a column, which becomes the next level of the trie."""
        self.order.append(column)
        self.taken.add(column)
        return p.Participant(self.number, len(self.order) - 1)

    def open(self, name: str) -> bool:
        """Whether a variable is in one of its columns and not bound yet."""
        column = self.columns.get(name)
        return column is not None and column not in self.taken

    def trie(self) -> p.TrieRef:
        item, order, tests = self.item, tuple(self.order), self.tests
        if order[:1] == (1,) and (item.ranked or self.size.symmetric):
            # The relation is symmetric: one trie serves both orders, under one name.
            order = tuple([1 - column for column in order])
            tests = tuple([(1 - left, op, 1 - right) for left, op, right in tests])
        if tests:
            tests = tuple(
                (left, op, right) if left <= right else (right, FLIPPED[op], left)
                for left, op, right in tests
            )
        return p.TrieRef(item.relation, item.version, order, tests, self.weighted, item.ranked)

    def prefix(self) -> tuple[n.Term, ...]:
        """The arguments of its columns without the last."""
        return tuple([self.item.args[column] for column in self.order[:-1]])

    def ensures(self, name: str, op: str, other: str) -> bool:
        """Whether the trie holds only rows in which `name op other`."""
        places: dict[str, int] = {}
        for at, arg in enumerate(self.item.args):
            if isinstance(arg, p.Slot):
                places.setdefault(arg.name, at)
        if other not in places or name not in places:
            return False
        pair = (places[name], places[other])
        if op in (">", ">="):
            pair = pair[::-1]
        if pair in self.rises:
            return True
        wanted = (places[name], op, places[other])
        flipped = (places[other], FLIPPED[op], places[name])
        return wanted in self.tests or flipped in self.tests


def open_atom(
    item: n.AtomItem,
    number: int,
    size: RelationStatistics,
    comparisons: Comparisons,
    bound: Collection[str],
    uses: Mapping[str, int],
    bag: bool,
) -> tuple[AtomState, list[tuple[int, p.Expr]]]:
    """An atom without bound levels, and its columns with known values.

    Tests within the atom filter its trie. Columns whose variable has no other use are dropped; in a
    bag, the rows then have weights.
    """
    looks = shares_two(item, uses) or not item.variables.isdisjoint(comparisons.compared)
    # They hold for values, not for ranks.
    rises = size.rises if looks and not item.ranked else frozenset()
    tests: list[p.RowTest] = []
    columns: dict[str, int] = {}
    known: list[tuple[int, p.Expr]] = []
    dropped = False
    for at, arg in enumerate(item.args):
        if not isinstance(arg, p.Slot):
            known.append((at, arg))
        elif arg.name in columns:
            tests.append((columns[arg.name], "=", at))
        else:
            columns[arg.name] = at
    names = list(columns)
    places = {name: place for place, name in enumerate(names)}
    for right in names:
        compared = comparisons.compared.get(right, set()) & places.keys()
        for left in sorted(compared, key=places.__getitem__):
            if places[left] >= places[right]:
                break
            pair = (columns[left], columns[right])
            for op in comparisons.between(left, right):
                risen = pair if op in ("<", "<=", "!=") else pair[::-1]
                if risen not in rises and not (op == "!=" and pair[::-1] in rises):
                    tests.append((pair[0], op, pair[1]))
    for name in names:
        if name in bound:
            column = columns.pop(name)
            known.append((column, item.args[column]))
        elif uses[name] == 1:
            del columns[name]
            dropped = True
    weighted = bag and (dropped or item.counted > 0) and not item.once
    return AtomState(item, number, columns, tuple(tests), weighted, rises, size), known


def within_atom(test: p.Expr, atoms: Sequence[n.AtomItem]) -> bool:
    """Whether a test compares two columns of one atom, so that it can filter the atom's trie."""
    match test:
        case p.Apply("<" | "<=" | ">" | ">=" | "!=" as op, (p.Slot(a, kind), p.Slot(b))) if a != b:
            ordered = kind != "symbol" or op == "!="
            return ordered and any({a, b} <= atom.variables for atom in atoms)
    return False


def all_cuts(
    name: str,
    tests: Sequence[n.Item],
    bound: Collection[str],
    comparisons: Comparisons,
    items: Sequence[n.Item],
) -> list[tuple[n.Item | None, p.Comparison]]:
    """The cuts of a variable by bound values, each with the test that it replaces; and implied
    cuts, which replace none."""
    found: list[tuple[n.Item | None, p.Comparison]] = []
    for item in tests:
        test = item.test if isinstance(item, n.TestItem) else None
        if isinstance(test, p.Apply) and test.function == "!=" and n.tests_null(test):
            if isinstance(test.args[0], p.Slot):
                found.append((item, ("<", test.args[1])))  # a null is the greatest key
            continue
        if not isinstance(test, p.Apply) or test.function not in ("<", "<=", ">", ">="):
            continue
        (left, right), op = test.args, test.function
        for side, limit, way in ((left, right, op), (right, left, FLIPPED[op])):
            own = isinstance(side, p.Slot) and side.name == name and side.type != "symbol"
            if own and p.slots(limit).issubset(bound):
                found.append((item, (way, limit)))
                break
    # An implied comparison is worth a cut unless a bound variable between the two implies it.
    bounds = {limit.name for _, (_, limit) in found if isinstance(limit, p.Slot)}
    for other, op in comparisons.bounds(name, bound):
        if other not in bounds:
            found.append((None, (op, p.Slot(other, kind_of(other, items)))))
    return [*found, *((None, limit) for limit in comparisons.implied_limits(name, bound))]


def computed_late(items: Iterable[n.Item]) -> set[str]:
    """The variables that are computed when nothing else is left, and so are not bound by atoms."""
    late: set[str] = set()
    for item in items:
        match item:
            case n.AggregateItem():
                late.update(slot.name for slot in (item.slot, *item.exports))
            case n.Equation(left=p.Slot(name=name), may_fail=True):
                late.add(name)
            case n.RestoreItem():
                late.update(value.name for value in item.values)
    return late


def kind_of(name: str, items: Sequence[n.Item]) -> TypeName:
    """The type of a variable in comparisons."""
    places = n.places_of(name, items)
    return places[0][0].args[places[0][1]].type if places else "int"  # ordered keys are ints
