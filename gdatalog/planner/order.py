"""A first order of variables, by simple statistics: what is cheapest to bind next.

The cost of binding a variable is how many values it is expected to take for each binding so
far: the shortest of the lists that it could be read from. Sizes and distinct values of whole
columns are all that is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gdatalog.plan.nodes import Slot, Version
from gdatalog.planner.items import AtomItem


class Shape(Protocol):
    """What can be asked of a finished binary relation over one type; the answers take a while.

    `symmetric`: it holds every row turned round. `loops`: it holds some (x, x). `skew`: how many
    more pairs of higher neighbours its vertices have by their keys than by their degrees.
    """

    @property
    def symmetric(self) -> bool: ...
    @property
    def loops(self) -> bool: ...
    @property
    def skew(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Size:
    """How many rows a relation has, and how many distinct values each of its columns.

    `rises` are pairs of columns of which the first is less than the second in every row, as in
    a graph whose edges all go from the lower to the higher vertex. `graph` is there only if the
    relation is finished: what grows is never symmetric for long.
    """

    rows: int
    distinct: tuple[int, ...]
    rises: frozenset[tuple[int, int]] = frozenset()
    graph: Shape | None = field(default=None, compare=False, repr=False)

    @property
    def symmetric(self) -> bool:
        return self.graph is not None and self.graph.symmetric

    @property
    def loopless(self) -> bool:
        """Whether no row holds a value twice, as far as is known."""
        return bool(self.rises) or (self.graph is not None and not self.graph.loops)


Statistics = Callable[[str, Version], Size]


def fanout(atom: AtomItem, name: str, known: Collection[int], sizes: Statistics) -> float:
    """How many values `name` has in an atom whose `known` columns are bound."""
    size = sizes(atom.relation, atom.version)
    if size.rows == 0:
        return 0.0
    column = next(
        at for at, arg in enumerate(atom.args) if isinstance(arg, Slot) and arg.name == name
    )
    prefixes = 1.0
    for at in known:
        prefixes *= max(1, size.distinct[at])
    left = size.rows / min(prefixes, size.rows)
    return min(float(max(1, size.distinct[column])), left)


def cheapest(
    candidates: Mapping[str, Sequence[tuple[AtomItem, Sequence[int]]]],
    cuts: Callable[[str], int],
    wanted: Collection[str],
    sizes: Statistics,
) -> tuple[str, float]:
    """The variable to bind next and the number of values expected.

    `candidates` are variables with the atoms that hold them and those atoms' bound columns.
    Ties go to the variable that more atoms restrict, then to one that is asked for.
    """

    def cost(name: str) -> tuple[float, float, int, bool]:
        atoms = candidates[name]
        values = min(fanout(atom, name, known, sizes) for atom, known in atoms)
        values *= 0.5 ** cuts(name)
        # A variable of an atom with nothing bound multiplies what is bound so far by a whole
        # column: last among equals, whatever its size.
        joined = any(known for _, known in atoms)
        return (not joined, values, -len(atoms), name not in wanted)

    # In the order of the text where all else is equal, so that plans are stable.
    name = min(candidates, key=cost)
    return name, cost(name)[1]
