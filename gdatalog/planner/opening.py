"""Atoms as they are opened, and what comparisons can do for them: tests in tries, and cuts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from gdatalog.plan.nodes import Apply, Expr, RangeBound, RowTest, Slot, slots
from gdatalog.planner.atoms import AtomState
from gdatalog.planner.comparisons import FLIPPED, Comparisons
from gdatalog.planner.items import (
    AggregateItem,
    AtomItem,
    Equation,
    Item,
    RestoreItem,
    TestItem,
)
from gdatalog.planner.order.sizes import RelationStatistics
from gdatalog.values import TypeName


def open_atom(
    item: AtomItem,
    number: int,
    size: RelationStatistics,
    comparisons: Comparisons,
    bound: Collection[str],
    uses: Mapping[str, int],
    bag: bool,
) -> tuple[AtomState, list[tuple[int, Expr]]]:
    """An atom before anything of it is bound, and its columns that are known already.

    Tests within the atom go into its trie; columns of variables with one use are left out, but
    counted in a bag.
    """
    rises = size.rises if not item.ranked else frozenset()  # values rise, ranks need not
    tests = []
    columns: dict[str, int] = {}
    known: list[tuple[int, Expr]] = []
    dropped = False
    for at, arg in enumerate(item.args):
        if not isinstance(arg, Slot):
            known.append((at, arg))
        elif arg.name in columns:
            tests.append(RowTest(columns[arg.name], "=", at))
        else:
            columns[arg.name] = at
    names = list(columns)
    places = {name: place for place, name in enumerate(names)}
    for right in names:
        compared = comparisons.compared_with(right) & places.keys()
        for left in sorted(compared, key=places.__getitem__):
            if places[left] >= places[right]:
                break
            pair = (columns[left], columns[right])
            for op in comparisons.between(left, right):
                risen = pair if op in ("<", "<=", "!=") else pair[::-1]
                if risen not in rises and not (op == "!=" and pair[::-1] in rises):
                    tests.append(RowTest(pair[0], op, pair[1]))
    for name in names:
        if name in bound:
            column = columns.pop(name)
            known.append((column, item.args[column]))
        elif uses[name] == 1:
            del columns[name]
            dropped = True
    weighted = bag and (dropped or item.counted > 0) and not item.once
    return AtomState(item, number, columns, tuple(tests), weighted, rises, size), known


def within_atom(test: Expr, atoms: Sequence[AtomItem]) -> bool:
    """Whether a test compares two columns of one atom, so that its trie can see to it."""
    if not isinstance(test, Apply) or test.function not in ("<", "<=", ">", ">=", "!="):
        return False
    left, right = test.args
    if not (isinstance(left, Slot) and isinstance(right, Slot)) or left == right:
        return False
    if left.type == "symbol" and test.function != "!=":
        return False
    return any({left.name, right.name} <= atom.variables for atom in atoms)


def cuts_of(
    name: str, items: Sequence[Item], bound: Collection[str]
) -> Iterator[tuple[TestItem, RangeBound]]:
    """The tests that compare a variable with what is bound, each as a cut."""
    for item in items:
        test = item.test if isinstance(item, TestItem) else None
        if not isinstance(test, Apply) or test.function not in ("<", "<=", ">", ">="):
            continue
        assert isinstance(item, TestItem)
        left, right = test.args
        for side, other, op in (
            (left, right, test.function),
            (right, left, FLIPPED[test.function]),
        ):
            if (
                isinstance(side, Slot)
                and side.name == name
                and side.type != "symbol"
                and slots(other).issubset(bound)
            ):
                yield item, RangeBound(op, other)
                break


def all_cuts(
    name: str,
    tests: Sequence[Item],
    bound: Collection[str],
    comparisons: Comparisons,
    items: Sequence[Item],
) -> list[tuple[Item | None, RangeBound]]:
    """The comparisons that bound a variable by what is bound, with the test each settles; and
    those that follow from the tests of a conjunction's items."""
    found: list[tuple[Item | None, RangeBound]] = list(cuts_of(name, tests, bound))
    # What only follows from other tests is worth a cut where no bound variable between
    # the two says as much.
    bounds = {cut.bound.name for _, cut in found if isinstance(cut.bound, Slot)}
    for other, op in comparisons.bounds(name, bound):
        if other not in bounds:
            found.append((None, RangeBound(op, Slot(other, kind_of(other, items)))))
    return found + [(None, RangeBound(*limit)) for limit in comparisons.implied_limits(name, bound)]


def computed_late(items: Iterable[Item]) -> set[str]:
    """The variables that no atom is to bind: they are computed, once nothing else is left."""
    late: set[str] = set()
    for item in items:
        match item:
            case AggregateItem():
                late.update(slot.name for slot in (item.slot, *item.exports))
            case Equation(left=Slot(name=name), may_fail=True):
                late.add(name)
            case RestoreItem():
                late.update(value.name for value in item.values)
    return late


def kind_of(name: str, items: Sequence[Item]) -> TypeName:
    """The type of a variable that is compared with others."""
    for item in items:
        if isinstance(item, AtomItem):
            for arg in item.args:
                if isinstance(arg, Slot) and arg.name == name:
                    return arg.type
    return "int"  # every ordered type's keys compare as ints
