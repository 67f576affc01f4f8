"""The rest of a conjunction during planning: its connected components, waiting items, open columns.

Components share no variable and can run separately. Items and columns that are not bound are
indexed by variable, so that a step costs time in proportion to the uses of the variable it binds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from sys import getrecursionlimit

from gdatalog.errors import Error
from gdatalog.planner.atoms import AtomState, computed_late
from gdatalog.planner.check.walk import connected
from gdatalog.planner.items import AtomItem, Item, TestItem
from gdatalog.planner.order.pattern import bits, parts_of

# The most calls that a nested branch takes in any pass over a plan, and the calls reserved for
# callers.
CALLS, CALLERS = 5, 200


def components(items: Sequence[Item], bound: Iterable[str]) -> list[list[Item]]:
    """The connected components of items, in which bound variables connect nothing; in the order of
    the text."""
    known = frozenset(bound)
    groups = connected([item.variables - known for item in items])
    return [[items[at] for at in group] for group in groups]


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


class Rest:
    """The rest of a conjunction: waiting items, in the order of the text; variables that atoms can
    bind, in the chosen order; and how unbound variables are connected."""

    def __init__(
        self,
        items: Iterable[Item],
        atoms: Sequence[AtomState],
        asked: Iterable[str],
        rank: Mapping[str, float],
    ) -> None:
        """`asked`: the variables of the answer. `rank`: the places of variables in the order."""
        self._items = list(dict.fromkeys(items))
        self._numbers: dict[int, int] = {}  # of the items that are left, by id
        self._mentions: dict[str, list[int]] = {}
        for number, item in enumerate(self._items):
            self._numbers[id(item)] = number
            for name in item.variables:
                self._mentions.setdefault(name, []).append(number)
        self.others: dict[int, Item] = {}  # those that are no tests, by id
        for item in self._items:
            if not isinstance(item, TestItem):
                self.others[id(item)] = item
        self._to_ask = list(range(len(self._items)))  # a heap
        self._holding: dict[str, list[AtomState]] = {}
        for atom in atoms:
            for name in atom.columns:
                self._holding.setdefault(name, []).append(atom)
        late = computed_late(self._items)
        self._names = [name for name in self._holding if name not in late]
        self._keys = {name: (rank.get(name, inf), at) for at, name in enumerate(self._names)}
        self._all = list(self._keys.values())
        heapify(self._all)
        self._joined: list[tuple[float, int]] = []
        for atom in atoms:
            if atom.order:
                self.begun(atom)
        self._connect([*[atom.columns for atom in atoms], *[i.variables for i in self._items]])
        self._asked = sum([self._bits.get(name, 0) for name in frozenset(asked)])

    def _connect(self, literals: Iterable[Iterable[str]]) -> None:
        """Connects the variables of each literal."""
        self._bits: dict[str, int] = {}
        self._around: list[int] = []
        for names in literals:
            link = 0
            for name in names:
                if name not in self._bits:
                    self._bits[name] = 1 << len(self._bits)
                    self._around.append(0)
                link |= self._bits[name]
            for at in bits(link):
                self._around[at] |= link
        self._left = (1 << len(self._bits)) - 1

    def bound(self, names: Collection[str]) -> None:
        """Notes newly bound variables: items that contain them may be ready."""
        for name in names:
            for number in self._mentions.get(name, ()):
                heappush(self._to_ask, number)
        self.split_off(names)

    def split_off(self, names: Iterable[str]) -> None:
        """Notes variables that connect nothing any more: bound ones, or those of a branch."""
        for name in names:
            self._left &= ~self._bits.get(name, 0)

    def may_split(self, several: bool) -> bool:
        """Whether a component of the unbound variables has no variable of the answer; `several`:
        and there is another component. It is a quick test."""
        if not self._left & ~self._asked:
            return False
        parts = list(parts_of(self._left, self._around))
        return (len(parts) > 1 or not several) and not all(part & self._asked for part in parts)

    # ----------------------------------------------------------------------------------- items

    @property
    def items(self) -> list[Item]:
        return [item for item in self._items if id(item) in self._numbers]

    def mentioning(self, name: str) -> list[Item]:
        """The items that contain a variable."""
        found = []
        for number in self._mentions.get(name, ()):
            item = self._items[number]
            if id(item) in self._numbers:
                found.append(item)
        return found

    def remove(self, item: Item) -> None:
        del self._numbers[id(item)]
        self.others.pop(id(item), None)

    def to_ask(self) -> Item | None:
        """The next item that may be ready, in order; each is given out once for each new
        variable."""
        while self._to_ask:
            item = self._items[heappop(self._to_ask)]
            if id(item) in self._numbers:
                return item
        return None

    # ----------------------------------------------------------------------------------- atoms

    def begun(self, atom: AtomState) -> None:
        """Notes that an atom's first column is bound, so that its other columns are connected."""
        for name in atom.columns:
            if name in self._keys and atom.open(name):
                heappush(self._joined, self._keys[name])

    def holding(self, name: str) -> list[AtomState]:
        """The atoms in which a variable is not bound yet."""
        found = []
        for atom in self._holding.get(name, ()):
            column = atom.columns.get(name)
            if column is not None and column not in atom.taken:
                found.append(atom)
        return found

    def binding(self, name: str) -> list[AtomState]:
        """The atoms that can bind a variable; none if it is computed."""
        return self.holding(name) if name in self._keys else []

    def first(self, joined: bool = False) -> str | None:
        """The first variable to bind; `joined`: of those that are connected to a bound one."""
        heap = self._joined if joined else self._all
        while heap:
            name = self._names[heap[0][1]]
            for atom in self._holding[name]:
                column = atom.columns.get(name)
                if column is not None and column not in atom.taken and (atom.order or not joined):
                    return name
            heappop(heap)
        return None
