"""Atoms during planning: their columns, bound and not; and plans for a single atom.

A single atom needs no search for its order. Columns compared with constants come first, then
columns with the fewest values, until these identify the rows. Further columns cost the same in
every order: columns of the answer follow in its order, then the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from gdatalog.plan import join_plan as p
from gdatalog.plan.effects import all_steps, reads
from gdatalog.planner import items as n
from gdatalog.planner.comparisons import FLIPPED, Comparisons
from gdatalog.planner.order.formula import TINY, Formula
from gdatalog.planner.order.pattern import PatternAtom, QueryPattern, bits
from gdatalog.planner.order.search_space import Order
from gdatalog.planner.statistics import RelationStatistics, Statistics
from gdatalog.records import dataclass, field, replace
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


# Opening an atom: no level of its trie is bound yet.


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
    rises = size.rises if not item.ranked else frozenset()  # holds for values, not for ranks
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


# Plans for a single atom: its column order without a search, and scans.


MOST_ORDERED = 5  # most variables for which all orders are compared


def single_order(pattern: QueryPattern, rows: float) -> Order | None:
    """The order of a body with one atom, for `rows` outer rows; None if values are also generated
    or aggregated, or if one row is enough."""
    if pattern.given or pattern.aggregates or not (pattern.bag or pattern.live):
        return None
    (atom,) = pattern.atoms
    formula = Formula(pattern)
    path = pattern.closed(pattern.outer, pattern.everything)
    columns = _in_order(pattern, atom, path)
    order = Order()
    scale = rows / max(formula.rows(pattern.outer), TINY)
    for number, at in enumerate(columns, 1):
        wider = path | 1 << at
        known, mine = atom.mask & path, atom.mask & wider
        before = formula.rows(path) * scale
        lists = formula.paths(atom, mine) / max(TINY, formula.paths(atom, known) if known else 1.0)
        last = number == len(columns) and pattern.bag and not pattern.live >> at & 1
        order.work += (
            before if last and number > 1 else before * min(lists, formula.roots(atom, at))
        )
        order.rank[pattern.names[at]] = number
        order.estimates[pattern.names[at]] = formula.rows(wider, path) * scale
        path = pattern.closed(wider, pattern.everything, 1 << at)
        formula.rows(path, wider)
    return order


def _in_order(pattern: QueryPattern, atom: PatternAtom, path: int) -> list[int]:
    """The variables that the atom binds, in their order."""
    left = [at for at in atom.columns if not (path | pattern.computed) >> at & 1]
    values = {at: atom.degrees(at).powers[0] for at in left}
    ranges = pattern.ranges
    limited = sorted(
        (at for at in left if at in ranges), key=lambda at: (ranges[at].share(0) * values[at], at)
    )
    found = limited
    share, wanted = 1.0, atom.size.rows
    for at in limited:
        share *= values[at]
    for at in sorted([at for at in left if at not in ranges], key=lambda at: (values[at], at)):
        if share >= wanted:
            break
        share *= values[at]
        found.append(at)
    asked = [at for at in pattern.outputs if at in values]
    asked += [at for at in bits(pattern.live) if at in values]
    return list(dict.fromkeys((*found, *asked, *left)))


# Scans: an alternative of one atom reads the rows of its relation, and tests each.


def given_of(atom: n.AtomItem) -> tuple[p.GivenRows, list[n.TestItem]]:
    """An atom as given rows, and tests for its constants and repeated variables."""
    found: list[p.Slot] = []
    names: set[str] = set()
    tests: list[n.TestItem] = []
    for at, arg in enumerate(atom.args):
        if isinstance(arg, p.Slot) and arg.name not in names:
            found.append(arg)
            names.add(arg.name)
            continue
        slot = p.Slot(f"~given{at}", arg.type)
        found.append(slot)
        tests.append(n.TestItem(p.Apply("=", (slot, arg), "bool")))
    return p.GivenRows(atom.relation, tuple(found)), tests


WIDE = 12  # columns; a wider relation is always scanned, since an index costs more than it saves


def scan_of(
    items: n.Conjunction, sizes: Statistics, least: int
) -> tuple[n.Conjunction, p.GivenRows] | None:
    """The remaining items and the given rows of a scan, if the body is one atom over a relation of
    at least `least` rows, or a wide one."""
    atoms = [item for item in items if isinstance(item, n.AtomItem)]
    rest = [item for item in items if not isinstance(item, n.AtomItem)]
    if len(atoms) != 1 or not atoms[0].args:
        return None
    (atom,) = atoms
    if not all(isinstance(item, (n.TestItem, n.Equation, n.GenerateItem)) for item in rest):
        return None
    size = sizes(atom.relation, atom.version)
    few = size.rows < least and len(atom.args) < WIDE
    if few or atom.version != "full" or size.assumed:
        return None
    given, tests = given_of(atom)
    return (*tests, *rest), replace(given, columns=tuple(range(len(atom.args))))


def scanning(join: p.JoinPlan, asked: Collection[str]) -> p.JoinPlan:
    """A plan with given rows as a scan that reads only the columns that the plan uses, or that are
    `asked` for."""
    assert join.given is not None
    given_slots = join.given.slots
    used = set(asked).union(n.variables_of_exprs(join.outputs), *map(reads, all_steps(join.steps)))
    columns = tuple([at for at, slot in enumerate(given_slots) if slot.name in used]) or (0,)
    given = replace(join.given, slots=tuple([given_slots[at] for at in columns]), columns=columns)
    return replace(join, given=given)
