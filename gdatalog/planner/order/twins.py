"""Twins: interchangeable variables of a pattern, of which the search tries only one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from gdatalog.planner.order.pattern import QueryPattern, ValueRange, bits

# A literal's shape, and its variables with their places.
Literal = tuple[object, tuple[tuple[int, int], ...]]


def find_twins(pattern: QueryPattern) -> None:
    """Finds interchangeable variables, which occur in the same literals.

    Only the first unbound twin is tried next, and only the last bound twin can have been last.
    """
    opaque = pattern.outer | pattern.live | pattern.computed | pattern.risky
    for whole in (*pattern.equal, *(whole for whole, _ in pattern.tests)):
        opaque |= whole
    for given in pattern.given:
        opaque |= 1 << given.variable | given.sources
    for needs in (*(a.needs for a in pattern.aggregates.values()), *dict(pattern.late).values()):
        opaque |= needs
    pattern.before, pattern.behind = [0] * len(pattern.names), [0] * len(pattern.names)
    free = pattern.everything & ~opaque
    if not free & (free - 1):
        return
    said = _said_of_each(pattern)
    # Twins of a twin are twins: each variable is compared with one of each class.
    classes: dict[object, list[list[int]]] = {}
    for at in bits(free):
        alike = classes.setdefault(_signature(at, said[at], pattern.ranges.get(at)), [])
        for twins in alike:
            if _are_twins(pattern, at, twins[0], said):
                for other in twins:
                    pattern.before[at] |= 1 << other
                    pattern.behind[other] |= 1 << at
                twins.append(at)
                break
        else:
            alike.append([at])


def _are_twins(
    pattern: QueryPattern, at: int, other: int, said: Sequence[Sequence[Literal]]
) -> bool:
    both = 1 << at | 1 << other
    if (pattern.around_each[at] ^ pattern.around_each[other]) & ~both:
        return False
    # A literal with both variables is in both lists, and must count once.
    some = [literal for literal in said[other] if at not in _variables(literal)]
    some += said[at]
    swap = {at: other, other: at}
    return Counter(_renamed(one, swap) for one in some) == Counter(
        _renamed(one, {}) for one in some
    )


def _said_of_each(pattern: QueryPattern) -> list[list[Literal]]:
    """The literals of each variable: their shape, and their variables with places."""
    said: list[list[Literal]] = [[] for _ in pattern.names]
    literals: list[Literal] = []
    for atom in pattern.atoms:
        turned = atom.turned and len(atom.columns) == 2
        places = tuple([(0 if turned else column, at) for at, column in atom.columns.items()])
        literals.append(((atom.source, atom.fixed), places))
    for (low, high), strict in pattern.below.items():
        literals.append((strict, ((0, low), (1, high))))
    wholes = (*pattern.filters, *(sum([1 << at for at in pair]) for pair in pattern.unequal))
    literals += [(None, tuple([(0, at) for at in bits(whole)])) for whole in wholes]
    for literal in literals:
        for at in _variables(literal):
            said[at].append(literal)
    return said


def _variables(literal: Literal) -> list[int]:
    return [at for _, at in literal[1]]


def _renamed(literal: Literal, names: Mapping[int, int]) -> object:
    what, places = literal
    return what, frozenset([(place, names.get(at, at)) for place, at in places])


def _signature(at: int, said: Sequence[Literal], cut: ValueRange | None) -> object:
    """A key that twins share."""
    literals = Counter(
        (what, len(places), next(place for place, own in places if own == at))
        for what, places in said
    )
    return frozenset(literals.items()), None if cut is None else cut.bounds
