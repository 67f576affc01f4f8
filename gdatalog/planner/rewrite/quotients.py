"""A count of bindings with `!=` as a signed sum of counts without.

Let tests `x != y` connect variables of a conjunction. By Moebius inversion over the partitions of
these variables, the bindings that pass all tests are a signed sum over quotients, in which the
variables of each block are merged. The coefficient of a block is the sum, over the connected
spanning subgraphs of its tests, of (-1)^edges; for k variables that all differ it is (-1)^(k-1)
(k-1)!.

A negated atom is likewise a difference: all bindings minus those with the atom. Isomorphic
quotients are one term (`isomorphic.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, product
from math import factorial, prod
from operator import add

from gdatalog.plan.join_plan import Apply, Slot
from gdatalog.planner.aggregate_items import renamed
from gdatalog.planner.items import AtomItem, Conjunction, Equation, Item, NotItem, TestItem
from gdatalog.planner.order.automorphisms import literals_of
from gdatalog.planner.order.edges import edge_of, ends
from gdatalog.planner.order.pattern import bits
from gdatalog.planner.order.plan_inputs import PlanInputs
from gdatalog.planner.order.symmetry import without_implied
from gdatalog.planner.statistics import Statistics
from gdatalog.records import replace

MOST_TESTED = 9  # most variables in `!=` tests, whose partitions are enumerated
MOST_CLASSES = 4  # ... or most classes of interchangeable variables, if all of these differ
MOST_QUOTIENTS = 2_000
OF_ITEM = 10  # steps of merging variables in one item
Signed = tuple[int, Conjunction]
Names = frozenset[str]


def differences(items: Sequence[Item], negated: Iterable[Item]) -> list[Signed]:
    """A signed sum in place of some negated atoms: all bindings, minus those with the atom."""
    terms: list[Signed] = [(1, tuple([item for item in items if item not in set(negated)]))]
    for item in negated:
        assert isinstance(item, NotItem)
        ((atom,),) = item.alternatives
        assert isinstance(atom, AtomItem)
        held = replace(atom, once=not atom.variables <= item.variables)
        terms += [(-sign, (*rest, held)) for sign, rest in terms]
    return terms


def is_difference(item: Item) -> bool:
    """Whether an item is the negation of a single atom."""
    if not isinstance(item, NotItem) or len(item.alternatives) != 1:
        return False
    inner = item.alternatives[0]
    return len(inner) == 1 and isinstance(inner[0], AtomItem)


def quotients(
    items: Sequence[Item], inputs: PlanInputs, kept: Collection[str] = ()
) -> list[Signed] | None:
    """The signed sum without `!=` between variables; None if there are too many variables. All
    terms bind the variables `kept`."""
    sizes = inputs.sizes
    items = without_implied(tuple(dict.fromkeys(items)), sizes)
    tests = {frozenset(ends(item)) for item in items if unequal(item)}
    rest = tuple([item for item in items if not unequal(item)])
    tested = sorted(frozenset().union(*tests), key=lambda name: (name not in kept, name))
    alike = interchangeable(items, tested, sizes, kept)
    many = len(tested) > MOST_TESTED
    if many and len(alike) > MOST_CLASSES:
        return None
    if many:
        inputs.steps.take(len(tested) ** 2 * len(items))
    apart = _kept_apart(rest, tested, sizes)
    # otherwise the coefficients of blocks take too long
    if many and not {frozenset(pair) for pair in combinations(tested, 2)} <= tests | apart:
        return None
    tests_of = [item.test for item in items if isinstance(item, TestItem) and unequal(item)]
    sides = (arg for test in tests_of if isinstance(test, Apply) for arg in test.args)
    slots = {slot.name: slot for slot in sides if isinstance(slot, Slot)}
    found: list[Signed] = []
    for number, (coefficient, names) in enumerate(partitions(tested, tests, apart, alike)):
        inputs.steps.take(OF_ITEM * len(items))
        if number == MOST_QUOTIENTS:
            return None
        quotient = merged(rest, names, sizes)
        if quotient is not None:
            equal = [Equation(slots[a], slots[b]) for a, b in names.items() if a in kept]
            found.append((coefficient, (*quotient, *equal)))
    return found


def unequal(item: Item) -> bool:
    match item:
        case TestItem(Apply("!=", (Slot(a, one), Slot(b, other)))):
            return a != b and one == other
    return False


def _kept_apart(rest: Conjunction, names: Sequence[str], sizes: Statistics) -> set[Names]:
    """Pairs of variables that no binding makes equal."""
    found = set()
    for at, a in enumerate(names):
        for b in names[:at]:
            if merged(rest, {a: b}, sizes) is None:
                found.add(frozenset((a, b)))
    return found


def merged(rest: Conjunction, names: Mapping[str, str], sizes: Statistics) -> Conjunction | None:
    """The items after merging variables; None if nothing can match them."""
    if not names:
        return rest
    found: dict[Item, None] = {}
    for item in rest:
        new: Item = renamed(item, names) if not item.variables.isdisjoint(names) else item
        if isinstance(new, AtomItem) and not item.variables.isdisjoint(names):
            size = sizes(new.relation, new.version)
            if len(new.args) == 2 and new.args[0] == new.args[1] and size.loopless:
                return None
            if edge_of(new) and replace(new, args=new.args[::-1]) in found and size.symmetric:
                continue
        match new:
            case TestItem(Apply(op, (Slot(a), Slot(b)))) if a == b and op in ("<", ">", "!="):
                return None
            case TestItem(Apply("<=" | ">=", (Slot(a), Slot(b)))) if a == b:
                continue
        found[new] = None
    return tuple(found)


def partitions(
    names: Sequence[str],
    tests: set[Names],
    apart: set[Names],
    alike: Sequence[Sequence[str]] | None = None,
) -> Iterator[tuple[int, dict[str, str]]]:
    """The partitions with a coefficient other than 0: the coefficient, and a replacement of
    variables. Of partitions that differ by interchanging variables of a class in `alike` there is
    one, with the sum of their coefficients."""
    place = {name: at for at, name in enumerate(names)}
    near, never = _neighbours(tests, place), _neighbours(apart, place)
    classes = [sorted([place[name] for name in each]) for each in alike or [[n] for n in names]]
    classes.sort()

    @cache
    def edgeless(block: int) -> bool:
        return all(not near[at] & block for at in bits(block))

    @cache
    def weight(block: int) -> int:
        """The sum over connected spanning subgraphs of (-1)^edges."""
        members = bits(block)
        if all(near[at] | 1 << at == near[at] | 1 << at | block for at in members):
            return (-1 if len(members) % 2 == 0 else 1) * factorial(len(members) - 1)
        first = block & -block
        total = int(edgeless(block))
        rest = block ^ first
        part = (rest - 1) & rest  # proper subsets
        while rest:
            if edgeless(rest ^ part):
                total -= weight(first | part)
            if not part:
                break
            part = (part - 1) & rest
        return total

    def allowed(block: int) -> bool:
        return all(not never[at] & block for at in bits(block))

    def split(
        used: _Shares, before: _Shares | None
    ) -> Iterator[tuple[int, list[_Shares], list[int]]]:
        """The partitions of the variables that are not used: the product of weights, and of each
        block how many variables of each class it has, and its variables."""
        left = [len(own) - count for own, count in zip(classes, used, strict=True)]
        at = next((at for at, count in enumerate(left) if count), None)
        if at is None:
            yield 1, [], []
            return
        least = [int(other == at) for other in range(len(left))]
        ranges = [range(most, few - 1, -1) for few, most in zip(least, left, strict=True)]
        for shares in map(_backwards, product(*reversed(ranges))):
            # blocks that begin in the same class come in one order
            if before is not None and not any(before[:at]) and before[::-1] < shares[::-1]:
                continue
            block = sum(
                1 << own[first + number]
                for own, first, count in zip(classes, used, shares, strict=True)
                for number in range(count)
            )
            if allowed(block) and weight(block):
                now = tuple(map(add, used, shares))
                for sign, others, blocks in split(now, shares):
                    yield sign * weight(block), [shares, *others], [block, *blocks]

    for sign, shares, blocks in split((0,) * len(classes), None):
        replaced = {}
        for block in blocks:
            first, *others = bits(block)
            replaced.update({names[at]: names[first] for at in others})
        yield sign * _ways(shares), replaced


_Shares = tuple[int, ...]


def _backwards(shares: _Shares) -> _Shares:
    return shares[::-1]


def _ways(blocks: Sequence[_Shares]) -> int:
    """The number of partitions into blocks that take so many variables of each class."""
    ways = prod(map(factorial, map(sum, zip(*blocks, strict=True))))
    for shares in blocks:
        ways //= prod(map(factorial, shares))
    return ways // prod(map(factorial, Counter(blocks).values()))


def _neighbours(pairs: Iterable[Names], place: Mapping[str, int]) -> list[int]:
    found = [0] * len(place)
    for pair in pairs:
        a, b = (place[name] for name in pair)
        found[a] |= 1 << b
        found[b] |= 1 << a
    return found


def interchangeable(
    items: Sequence[Item], names: Sequence[str], sizes: Statistics, kept: Collection[str]
) -> list[list[str]]:
    """The variables in classes, in which any two can change places: the items stay the same. Those
    that are `kept` stay alone."""
    literals = literals_of(items, sizes)
    if literals is None:
        return [[name] for name in names]
    as_is = {name: name for literal in literals for name in literal.variables}
    there = {literal.under(as_is) for literal in literals}
    classes: list[list[str]] = []
    for name in names:
        for members in classes:
            first = members[0]
            if first in kept or name in kept:
                continue
            swapped = {**as_is, name: first, first: name}
            own = (each for each in literals if name in each.variables or first in each.variables)
            if all(literal.under(swapped) in there for literal in own):
                members.append(name)
                break
        else:
            classes.append([name])
    return classes
