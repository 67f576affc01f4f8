"""The connected components of a body: parts that share no variable and can run separately."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sys import getrecursionlimit

from gdatalog.errors import Error
from gdatalog.planner.items import AtomItem, Item

# The most calls that a nested branch takes in any pass over a plan, and the calls reserved for
# callers.
CALLS, CALLERS = 5, 200


def components(items: Sequence[Item], bound: Iterable[str]) -> list[list[Item]]:
    """The connected components of items, in which bound variables connect nothing; in the order of
    the text."""
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
    """Whether an atom that is a component by itself has only variables that occur once, so that its
    number of rows is enough."""
    return isinstance(item, AtomItem) and len(item.variables) == len(item.args)


def too_deep(branches: int) -> bool:
    """Whether so many nested branches would exceed Python's recursion limit."""
    return branches * CALLS > getrecursionlimit() - CALLERS


def check_depth(part: Sequence[Item], depth: int) -> None:
    """Raises an error if a part would be nested too deeply."""
    if too_deep(depth):
        atoms = [item for item in part if isinstance(item, AtomItem)]
        raise Error(
            f"more than {depth - 1} joins depend on each other in a row",
            atoms[0].span if atoms else None,
            hint="give a part of this body a relation of its own",
        )


class Connected:
    """How unbound variables are connected: a quick test whether a component can split off."""

    def __init__(self, literals: Iterable[Iterable[str]], asked: Iterable[str]) -> None:
        """`literals`: the variables of each; `asked`: the variables of the answer."""
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
        """Whether a component of the unbound variables has no variable of the answer; `several`:
        and there is another component."""
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
