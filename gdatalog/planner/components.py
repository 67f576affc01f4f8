"""The parts of a body that share no variable: they can be run apart from each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sys import getrecursionlimit

from gdatalog.errors import Error
from gdatalog.planner.items import AtomItem, Item

# Calls that a branch within a branch takes, at most, in any pass over a plan; and calls that are
# left to whoever asked.
CALLS, CALLERS = 5, 200


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


def is_single(item: Item) -> bool:
    """Whether an atom alone in its part needs no walk: only that, or how many, rows there are."""
    return isinstance(item, AtomItem) and len(item.variables) == len(item.args)


def too_deep(branches: int) -> bool:
    """Whether so many branches within each other are more than calls may be nested."""
    return branches * CALLS > getrecursionlimit() - CALLERS


def check_depth(part: Sequence[Item], depth: int) -> None:
    """An error where a part would be a branch within more branches than there may be."""
    if too_deep(depth):
        atoms = [item for item in part if isinstance(item, AtomItem)]
        raise Error(
            f"more than {depth - 1} joins depend on each other in a row",
            atoms[0].span if atoms else None,
            hint="give a part of this body a relation of its own",
        )


class Connected:
    """Which unbound variables hang together: what tells quickly that nothing falls apart."""

    def __init__(self, literals: Iterable[Iterable[str]], asked: Iterable[str]) -> None:
        """`literals`: the variables of each; `asked`: those that are asked for."""
        self._bits: dict[str, int] = {}
        self._around: list[int] = []
        for names in literals:
            link = 0
            for name in names:
                if name not in self._bits:
                    self._bits[name] = 1 << len(self._bits)
                    self._around.append(0)
                link |= self._bits[name]
            rest = link
            while rest:
                low = rest & -rest
                rest ^= low
                self._around[low.bit_length() - 1] |= link
        self._left = (1 << len(self._bits)) - 1
        self._asked = sum(self._bits.get(name, 0) for name in frozenset(asked))

    def bound(self, names: Iterable[str]) -> None:
        for name in names:
            self._left &= ~self._bits.get(name, 0)

    def may_split(self, several: bool) -> bool:
        """Whether a part of what is unbound may hold none of the variables that are asked for;
        `several`: where there are other parts."""
        wanted, left = self._asked, self._left
        parts, apart = 0, False
        if not left & ~wanted:
            return False
        while left:
            part = new = left & -left
            while new:
                low = new & -new
                more = self._around[low.bit_length() - 1] & left & ~part
                part |= more
                new = new ^ low | more
            left &= ~part
            parts += 1
            apart = apart or not part & wanted
        return apart and (parts > 1 or not several)
