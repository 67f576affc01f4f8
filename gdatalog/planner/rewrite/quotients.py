"""A count of bindings with `!=` as a signed sum of counts without.

Let tests `x != y` connect variables of a conjunction. By Moebius inversion over the partitions of
these variables, the bindings that pass all tests are a signed sum over quotients, in which the
variables of each block are merged. The coefficient of a block is the sum, over the connected
spanning subgraphs of its tests, of (-1)^edges; for k variables that all differ it is (-1)^(k-1)
(k-1)!.

A negated atom is likewise a difference: all bindings minus those with the atom.

Isomorphic quotients are one term. An isomorphism renames variables; it preserves relations,
directions, constants and tests.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache

from gdatalog.plan import Apply, Slot
from gdatalog.planner.items import AtomItem, Conjunction, Equation, Item, NotItem, TestItem, renamed
from gdatalog.planner.order.edges import Literal, edge_of, ends, literals_of
from gdatalog.planner.order.pattern import bits
from gdatalog.planner.order.symmetry import without_implied
from gdatalog.planner.statistics import Statistics
from gdatalog.records import dataclass, replace

MOST_TESTED = 9  # most variables in `!=` tests, whose partitions are enumerated
MOST_QUOTIENTS = 2_000
MOST_LEAVES = 200  # of one search for a canonical form

Signed = tuple[int, Conjunction]
Names = frozenset[str]


def differences(items: Sequence[Item], negated: Iterable[Item]) -> list[Signed]:
    """A signed sum in place of some negated atoms: all bindings, minus those with the atom."""
    terms: list[Signed] = [(1, tuple(item for item in items if item not in set(negated)))]
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
    items: Sequence[Item], sizes: Statistics, kept: Collection[str] = ()
) -> list[Signed] | None:
    """The signed sum without `!=` between variables; None if there are too many variables. All
    terms bind the variables `kept`."""
    items = without_implied(tuple(dict.fromkeys(items)), sizes)
    tests = {frozenset(ends(item)) for item in items if unequal(item)}
    rest = tuple(item for item in items if not unequal(item))
    tested = sorted(frozenset().union(*tests), key=lambda name: (name not in kept, name))
    if len(tested) > MOST_TESTED:
        return None
    apart = _kept_apart(rest, tested, sizes)
    tests_of = [item.test for item in items if isinstance(item, TestItem) and unequal(item)]
    sides = (arg for test in tests_of if isinstance(test, Apply) for arg in test.args)
    slots = {slot.name: slot for slot in sides if isinstance(slot, Slot)}
    found: list[Signed] = []
    for number, (coefficient, names) in enumerate(partitions(tested, tests, apart)):
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
    names: Sequence[str], tests: set[Names], apart: set[Names]
) -> Iterator[tuple[int, dict[str, str]]]:
    """The partitions with a coefficient other than 0: the coefficient, and a replacement of
    variables."""
    place = {name: at for at, name in enumerate(names)}
    edges = [tuple(sorted(place[name] for name in test)) for test in tests]
    near = [0] * len(names)
    for a, b in edges:
        near[a] |= 1 << b
        near[b] |= 1 << a
    never = [0] * len(names)
    for pair in apart:
        a, b = (place[name] for name in pair)
        never[a] |= 1 << b
        never[b] |= 1 << a

    @cache
    def edgeless(block: int) -> bool:
        return all(not near[at] & block for at in bits(block))

    @cache
    def weight(block: int) -> int:
        """The sum over connected spanning subgraphs of (-1)^edges."""
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

    def split(left: int) -> Iterator[tuple[int, list[int]]]:
        if not left:
            yield 1, []
            return
        first = left & -left
        others = left ^ first
        part = others
        while True:
            block = first | part
            if allowed(block) and weight(block):
                for sign, blocks in split(left ^ block):
                    yield sign * weight(block), [block, *blocks]
            if not part:
                return
            part = (part - 1) & others

    for coefficient, blocks in split((1 << len(names)) - 1):
        replaced = {}
        for block in blocks:
            first, *others = bits(block)
            replaced.update({names[at]: names[first] for at in others})
        yield coefficient, replaced


# ------------------------------------------------------------------------------ isomorphic terms


@dataclass(slots=True)
class Isomorphic:
    """Gives isomorphic conjunctions the same key."""

    sizes: Statistics
    shapes: dict[Hashable, int]

    def merged(self, terms: Iterable[Signed], fixed: Sequence[str] = ()) -> list[Signed]:
        """The terms, with isomorphic ones added up, without those that cancel."""
        first: dict[Hashable, Conjunction] = {}
        sums: dict[Hashable, int] = {}
        for coefficient, items in terms:
            key = self.key(items, fixed)
            first.setdefault(key, items)
            sums[key] = sums.get(key, 0) + coefficient
        return [(sums[key], items) for key, items in first.items() if sums[key]]

    def key(self, items: Sequence[Item], fixed: Sequence[str] = ()) -> Hashable:
        """A key that isomorphic conjunctions share; isomorphisms map `fixed` variables in order."""
        literals = literals_of(items, self.sizes)
        assert literals is not None
        names = sorted(frozenset().union(*(literal.variables for literal in literals), fixed))
        place = {name: at for at, name in enumerate(names)}
        known = [
            (self._shape(each), each.unordered, tuple(place[name] for name in each.variables))
            for each in literals
        ]
        known += [(-1 - at, False, (place[name],)) for at, name in enumerate(fixed)]
        return _canonical(len(names), tuple(known))

    def _shape(self, literal: Literal) -> int:
        return self.shapes.setdefault((literal.shape, literal.unordered), len(self.shapes))


_Literals = tuple[tuple[int, bool, tuple[int, ...]], ...]


@lru_cache(maxsize=1 << 12)
def _canonical(count: int, literals: _Literals) -> Hashable:
    """The literals with canonical numbers of variables."""
    leaves = 0
    best: Hashable = None

    def search(colours: list[int]) -> None:
        nonlocal leaves, best
        colours = _refined(colours, literals)
        classes: dict[int, list[int]] = {}
        for at, colour in enumerate(colours):
            classes.setdefault(colour, []).append(at)
        open_classes = [colour for colour, members in classes.items() if len(members) > 1]
        if not open_classes:
            leaves += 1
            key = _numbered(colours, literals)
            best = key if best is None else min(best, key)  # type: ignore[call-overload]  # keys are of one shape
            return
        colour = min(open_classes)
        for member in classes[colour]:
            if (
                leaves >= MOST_LEAVES
            ):  # a partial search may miss isomorphic terms, which is harmless
                return
            search([2 * c + (at == member) for at, c in enumerate(colours)])

    search([0] * count)
    return count, best


def _refined(colours: list[int], literals: _Literals) -> list[int]:
    while True:
        told: list[list[tuple[int, int, tuple[int, ...]]]] = [[] for _ in colours]
        for shape, unordered, variables in literals:
            around = [colours[other] for other in variables]
            if unordered:
                around.sort()
            for at, name in enumerate(variables):
                told[name].append((shape, -1 if unordered else at, tuple(around)))
        seen = [(colour, tuple(sorted(each))) for colour, each in zip(colours, told, strict=True)]
        ranks = {each: at for at, each in enumerate(sorted(set(seen)))}
        new = [ranks[each] for each in seen]
        if len(ranks) == len(set(colours)):
            return new
        colours = new


def _numbered(
    colours: Sequence[int], literals: _Literals
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    found = set()
    for shape, unordered, variables in literals:
        numbers = [colours[name] for name in variables]
        found.add((shape, tuple(sorted(numbers) if unordered else numbers)))
    return tuple(sorted(found))
