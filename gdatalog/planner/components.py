"""The parts of a body that share no variable: they can be run apart from each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gdatalog.planner.items import Item


def components(items: Sequence[Item], bound: Iterable[str]) -> list[list[Item]]:
    """The items in parts that share no variable but bound ones, in the order of the text."""
    known = frozenset(bound)
    parts: list[tuple[set[str], list[int]]] = []
    for at, item in enumerate(items):
        names = set(item.variables - known)
        numbers = [at]
        apart = []
        for part in parts:
            if part[0] & names:
                names |= part[0]
                numbers += part[1]
            else:
                apart.append(part)
        parts = [*apart, (names, numbers)]
    return [
        [items[at] for at in sorted(part[1])] for part in sorted(parts, key=lambda p: min(p[1]))
    ]
