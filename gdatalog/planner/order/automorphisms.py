"""The automorphisms of a conjunction: permutations of the variables that leave it unchanged.

Solutions then come in orbits, and one solution of each orbit is enough. `Symmetries.restrictions`
returns the `<` between variables that select it (Grochow and Kellis): the first variable of an
orbit has the orbit's least value, and so on for the automorphisms that fix that variable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from math import factorial

from gdatalog.plan.join_plan import Apply, Slot
from gdatalog.planner import items as n
from gdatalog.planner.comparisons import FLIPPED
from gdatalog.planner.order.edges import Pair, in_order, types_of, unlike_pairs
from gdatalog.planner.statistics import Statistics
from gdatalog.records import dataclass, fields, is_dataclass

# Limits: variables of a conjunction, and assignments tried in one search.
MOST_VARIABLES = 10
MOST_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class Literal:
    """An item with holes for its variables; `unordered`: its two holes are interchangeable."""

    shape: Hashable
    variables: tuple[str, ...]
    unordered: bool = False

    def under(self, mapping: Mapping[str, str]) -> Hashable:
        """The item with its variables mapped; equal for items with the same meaning."""
        names = [mapping[name] for name in self.variables]
        return self.shape, tuple(sorted(names) if self.unordered else names)


def literals_of(items: Sequence[n.Item], sizes: Statistics | None) -> list[Literal] | None:
    """The items as literals; None if automorphisms do not support one of them. Without `sizes`, all
    relations are symmetric."""
    outside = frozenset().union(*(item.variables for item in items))
    found = []
    for item in items:
        if isinstance(item, (n.AggregateItem, n.RestoreItem)):
            return None
        unordered = plain = False
        match item:
            case n.TestItem(Apply("!=", (Slot(a), Slot(b)))):
                found.append(Literal("!=", (a, b), unordered=True))
                continue
            case n.TestItem(Apply(op, (one, other), kind)):
                plain = isinstance(one, Slot) and isinstance(other, Slot)
                if op in (">", ">="):
                    item = n.TestItem(Apply(FLIPPED[op], (other, one), kind))
            case n.AtomItem(relation, args, version):
                plain = all(isinstance(arg, Slot) for arg in args)
                unordered = plain and len(args) == 2
                if unordered and sizes is not None:
                    unordered = sizes(relation, version).symmetric
        shape, names = _plain(item) if plain else _with_holes(item, outside)
        found.append(Literal(shape, names, unordered))
    return found


def _with_holes(item: n.Item, outside: frozenset[str]) -> tuple[Hashable, tuple[str, ...]]:
    """The shape of an item, and the variables in its holes."""
    holes: list[str] = []
    return _shape(item, outside, holes, {}), tuple(holes)


@lru_cache(512)
def _plain(item: n.Item) -> tuple[Hashable, tuple[str, ...]]:
    """The same for items without local variables or constants; a cache cannot tell 1 from 1.0."""
    return _with_holes(item, item.variables)


def _shape(
    node: object, outside: frozenset[str], holes: list[str], own: dict[str, int]
) -> Hashable:
    """A node without its variables; local variables are numbered in order of appearance."""
    if isinstance(node, Slot):
        if node.name in outside:
            holes.append(node.name)
            return "hole", node.type
        return "own", own.setdefault(node.name, len(own)), node.type
    if isinstance(node, n.NotItem):
        return n.NotItem, _shape(node.alternatives, outside, holes, own)
    if isinstance(node, tuple):
        return tuple([_shape(part, outside, holes, own) for part in node])
    if isinstance(node, frozenset):
        return len(node)
    if is_dataclass(node):
        parts = (getattr(node, field.name) for field in fields(node) if field.compare)
        return type(node), tuple([_shape(part, outside, holes, own) for part in parts])
    assert isinstance(node, Hashable)
    return type(node), node  # 1 is not 1.0 nor True


def restrictions_of(
    items: Sequence[n.Item],
    sizes: Statistics,
    by_degree: bool = False,
    last: Sequence[str] = (),
    fixed: Collection[str] = (),
) -> Restrictions | None:
    """The restrictions that select one solution of each orbit, by value or by degree; None if
    automorphisms do not support an item.

    Permutations of the variables `last` alone are not restricted; automorphisms fix `fixed` ones.
    """
    literals = literals_of(items, sizes)
    if literals is None:
        return None
    types, unlike = types_of(items), unlike_pairs(items, sizes)
    atoms = [item for item in items if isinstance(item, n.AtomItem)]

    def distinct(a: str, b: str) -> bool:
        ordered = by_degree or types.get(a, "symbol") != "symbol"
        return ordered and frozenset((a, b)) in unlike

    def near(a: str, b: str) -> bool:
        return any({a, b} <= atom.variables for atom in atoms)

    names = [*(name for name in in_order(items) if name not in last), *last]
    return Symmetries(literals, names).restrictions(distinct, near, last, fixed)


@dataclass(frozen=True, slots=True)
class Restrictions:
    """`pairs`: in each, the first variable has the lesser value; `orbit`: the number of solutions
    that each one stands for.

    `moves` has, for each step, an automorphism from the orbit's first variable to each of its
    variables.
    """

    pairs: tuple[Pair, ...]
    orbit: int
    moves: tuple[tuple[str, Mapping[str, Mapping[str, str]]], ...]


class Symmetries:
    """The automorphisms of some literals."""

    def __init__(self, literals: Sequence[Literal], variables: Sequence[str]) -> None:
        self.variables = tuple(variables)
        same = dict.fromkeys(variables, "")
        as_is = {name: name for name in variables}
        once = {literal.under(as_is): literal for literal in literals}
        self._there = once.keys()
        self._of: dict[str, list[Literal]] = {name: [] for name in variables}
        kinds: dict[str, list[Hashable]] = {name: [] for name in variables}
        for literal in once.values():
            for name in set(literal.variables):
                self._of[name].append(literal)
                where = None if literal.unordered else _places(literal.variables, name)
                kinds[name].append((literal.under(same), where))
        numbers: dict[Hashable, int] = {}
        told = {name: frozenset(Counter(found).items()) for name, found in kinds.items()}
        self._kinds = {name: numbers.setdefault(each, len(numbers)) for name, each in told.items()}
        self._steps = MOST_STEPS

    def extend(self, start: Mapping[str, str]) -> dict[str, str] | None:
        """An automorphism that extends `start`; None if there is none, or the search gives up."""
        if len(self.variables) > MOST_VARIABLES or len(set(start.values())) < len(start):
            return None
        placed: dict[str, str] = {}
        for name, image in start.items():
            if not self._place(placed, name, image):
                return None
        return placed if self._search(placed) else None

    def _place(self, placed: dict[str, str], name: str, image: str) -> bool:
        """Maps one more variable, unless a literal has no image."""
        self._steps -= 1
        if self._steps < 0 or self._kinds[name] != self._kinds[image]:
            return False
        placed[name] = image
        for literal in self._of[name]:
            if placed.keys() >= {*literal.variables} and literal.under(placed) not in self._there:
                del placed[name]
                return False
        return True

    def _search(self, placed: dict[str, str]) -> bool:
        left = [name for name in self.variables if name not in placed]
        if not left:
            return True
        taken = set(placed.values())
        for image in (left[0], *self.variables):  # try the identity first
            if image not in taken and self._place(placed, left[0], image):
                if self._search(placed):
                    return True
                del placed[left[0]]
        return False

    def orbit(self, name: str, fixed: Collection[str]) -> dict[str, dict[str, str]]:
        """The orbit of a variable under the automorphisms that fix others, with an automorphism for
        each image."""
        stay = {other: other for other in fixed}
        found = {name: {other: other for other in self.variables}}
        for image in self.variables:
            way = None if image == name else self.extend({**stay, name: image})
            if way is not None:
                found[image] = way
        return found

    def restrictions(
        self,
        distinct: Callable[[str, str], bool],
        near: Callable[[str, str], bool],
        alike: Collection[str] = (),
        fixed: Collection[str] = (),
    ) -> Restrictions:
        """The restrictions that select one solution of each orbit.

        Only orbits whose variables have pairwise different values can be restricted. The largest
        come first; among equal ones those whose variables share atoms (`near`), so that the
        restrictions cut lists. Permutations of `alike` variables alone are not restricted.
        Automorphisms fix `fixed` variables.
        """
        stay = [*fixed]
        pairs: list[Pair] = []
        moves: list[tuple[str, Mapping[str, Mapping[str, str]]]] = []
        number = 1
        while True:
            best: tuple[tuple[int, int], str, dict[str, dict[str, str]]] | None = None
            seen: set[str] = set(stay)
            for name in self.variables:
                if name in seen or name in alike:
                    continue
                ways = self.orbit(name, stay)
                seen.update(ways)
                others = [other for other in ways if other != name]
                if others and all(distinct(b, a) for a, b in combinations(ways, 2)):
                    score = len(ways), sum([near(name, other) for other in others])
                    if best is None or score > best[0]:
                        best = score, name, ways
            if self._steps < 0:  # an orbit may be incomplete
                return Restrictions((), 1, ())
            if best is None:
                return Restrictions(tuple(pairs), number, tuple(moves))
            _, name, ways = best
            pairs += [(name, other) for other in ways if other != name]
            moves.append((name, ways))
            number *= len(ways)
            stay.append(name)

    def moved(self) -> frozenset[str]:
        """The variables that some automorphism moves."""
        return frozenset([name for name in self.variables if len(self.orbit(name, ())) > 1])


def share_of(
    order: Collection[Pair], members: Sequence[str], restrictions: Restrictions
) -> int | None:
    """The number of solutions of each orbit whose values satisfy an order; None if it depends on
    the orbit.

    Automorphisms move only `members`. Members that are compared or moved onto each other differ;
    equality of the others makes no difference, because nothing compares them. If the share depends
    on their values, no other order can replace this one.
    """
    extensions = _extensions(order, members)
    if extensions is None:
        return None
    of_orbit: Counter[tuple[str, ...]] = Counter()
    for extension in extensions:
        place = {name: at for at, name in enumerate(extension)}
        for _, ways in restrictions.moves:
            least = min(ways, key=place.__getitem__)
            place = {other: place[ways[least][other]] for other in members}
        of_orbit[tuple(sorted(members, key=place.__getitem__))] += 1
    shares = set(of_orbit.values())
    if len(shares) != 1 or len(of_orbit) * restrictions.orbit != factorial(len(members)):
        return None
    return shares.pop()


def _extensions(order: Collection[Pair], members: Sequence[str]) -> list[tuple[str, ...]] | None:
    """The linear extensions of an order of the members; None if there are too many."""
    lines: list[tuple[str, ...]] = [()]
    for _ in members:
        longer = []
        for line in lines:
            left = [name for name in members if name not in line]
            longer += [
                (*line, name) for name in left if not any((other, name) in order for other in left)
            ]
        lines = longer
        if len(lines) > MOST_STEPS // 4:
            return None
    return lines


def _places(names: Iterable[str], name: str) -> tuple[int, ...]:
    return tuple([at for at, other in enumerate(names) if other == name])
