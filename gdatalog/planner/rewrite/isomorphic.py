"""Isomorphic conjunctions are one term.

An isomorphism renames variables; it preserves relations, directions, constants and tests.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from itertools import count

from gdatalog.planner.items import Conjunction, Item
from gdatalog.planner.order.automorphisms import Literal, literals_of
from gdatalog.planner.order.plan_inputs import PlanInputs
from gdatalog.planner.rewrite.quotients import Signed
from gdatalog.records import dataclass, field

MOST_LEAVES = 200  # of one search for a canonical form
MOST_REFINED = 40_000  # literals that it looks at


@dataclass(slots=True)
class Isomorphic:
    """Gives isomorphic conjunctions the same key."""

    inputs: PlanInputs
    shapes: dict[Hashable, int] = field(default_factory=dict)

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
        literals = literals_of(items, self.inputs.sizes)
        assert literals is not None
        names = sorted(frozenset().union(*(literal.variables for literal in literals), fixed))
        place = {name: at for at, name in enumerate(names)}
        known = [
            (self._shape(each), each.unordered, tuple([place[name] for name in each.variables]))
            for each in literals
        ]
        known += [(-1 - at, False, (place[name],)) for at, name in enumerate(fixed)]
        key, looked = _canonical(len(names), tuple(known))
        self.inputs.steps.take(looked)
        return key

    def _shape(self, literal: Literal) -> int:
        return self.shapes.setdefault((literal.shape, literal.unordered), len(self.shapes))


_Literals = tuple[tuple[int, bool, tuple[int, ...]], ...]

_Form = tuple[tuple[int, tuple[int, ...]], ...]


@lru_cache(maxsize=1 << 12)
def _canonical(count: int, literals: _Literals) -> tuple[Hashable, int]:
    """The literals with canonical numbers of variables; and how many literals were looked at."""
    search = _CanonicalForm(literals)
    return (count, search.of(count)), search.looked


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A numbering of the variables: the choices that led there, the variable of each number, and
    the literals with these numbers."""

    path: tuple[int, ...]
    variables: tuple[int, ...]
    form: _Form


class _CanonicalForm:
    """A search for the least form: variables that look alike are told apart one by one.

    Two leaves of one form are an automorphism (McKay, 1981): what it maps to choices that were
    searched is not searched again. So a star of n leaves takes n searches instead of n!.
    """

    def __init__(self, literals: _Literals) -> None:
        self._literals = literals
        self._leaves = 0
        self.looked = 0
        self._known: list[_Leaf] = []  # the first leaf, and the least one
        self._automorphisms: list[list[int]] = []

    def of(self, count: int) -> _Form:
        self._search([0] * count, ())
        return self._known[-1].form

    def _search(self, colours: list[int], path: tuple[int, ...]) -> int:
        """Searches below some choices; returns how many of these the search keeps."""
        colours, looked = _refined(colours, self._literals)
        self.looked += looked
        classes: dict[int, list[int]] = {}
        for at, colour in enumerate(colours):
            classes.setdefault(colour, []).append(at)
        open_classes = [colour for colour, members in classes.items() if len(members) > 1]
        if not open_classes:
            return self._leaf(colours, path)
        tried: list[int] = []
        for member in classes[min(open_classes)]:
            if self._known and (self._leaves >= MOST_LEAVES or self.looked >= MOST_REFINED):
                return 0  # may miss isomorphic terms, which is harmless
            if tried and not self._images(member, path).isdisjoint(tried):
                continue
            tried.append(member)
            told = [2 * colour + (at == member) for at, colour in enumerate(colours)]
            kept = self._search(told, (*path, member))
            if kept < len(path):
                return kept
        return len(path)

    def _leaf(self, colours: list[int], path: tuple[int, ...]) -> int:
        self._leaves += 1
        variables = tuple(sorted(range(len(colours)), key=colours.__getitem__))
        leaf = _Leaf(path, variables, _numbered(colours, self._literals))
        for other in self._known:
            if other.form == leaf.form:
                way = dict(zip(other.variables, variables, strict=True))
                self._automorphisms.append([way[at] for at in range(len(way))])
                pairs = enumerate(zip(other.path, path, strict=False))
                return next(at for at, (choice, this) in pairs if choice != this)
        if not self._known or leaf.form < self._known[-1].form:
            self._known[1:] = [leaf]
        return len(path)

    def _images(self, member: int, path: tuple[int, ...]) -> set[int]:
        """Where automorphisms that keep the choices so far map a variable."""
        ways = [way for way in self._automorphisms if all(way[at] == at for at in path)]
        found, waiting = {member}, [member]
        while waiting:
            at = waiting.pop()
            new = {way[at] for way in ways} - found
            found |= new
            waiting += new
        return found


def _refined(colours: list[int], literals: _Literals) -> tuple[list[int], int]:
    """The colours told apart by the literals; and how many literals were looked at."""
    for turns in count(1):
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
            return new, turns * len(literals)
        colours = new
    raise AssertionError


def _numbered(colours: Sequence[int], literals: _Literals) -> _Form:
    found = set()
    for shape, unordered, variables in literals:
        numbers = [colours[name] for name in variables]
        found.add((shape, tuple(sorted(numbers) if unordered else numbers)))
    return tuple(sorted(found))
