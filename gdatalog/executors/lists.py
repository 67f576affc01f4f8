"""The lists that a level may be expanded from.

If a level's lists do not depend on the last levels' variables, many rows need the same
intersection: rows that agree in the variables that it reads share it.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.executors.frontier import Frontier, Key
from gdatalog.executors.ops import Ops
from gdatalog.records import dataclass
from gdatalog.storage.table import Array
from gdatalog.storage.trie import TrieLevel

# Whose lists those of a level are, if not a participant's.
REUSED, ROOTS, SHARED = -1, -2, -3


@dataclass(slots=True)
class Roots:
    """Case 1: the intersection of root lists, and each value's position in each of them."""

    level: TrieLevel
    positions: Sequence[Array | None]  # None: where it stands here


@dataclass(slots=True)
class FrontierLists:
    """Lists that a level may be expanded from, one for each row of the frontier."""

    who: int  # a participant's place, or REUSED, or ROOTS, or SHARED
    values: Array
    starts: Array
    lengths: Array
    total: int | None = None  # of the lengths, where it is known
    met: Frontier | None = None  # SHARED: where what has been met stands


@dataclass(slots=True)
class Reused:
    """The list of an earlier level: `parents` are its list numbers, `own` this row's entry."""

    level: TrieLevel
    parents: Array
    own: Array


def shared(ops: Ops, frontier: Frontier, read: set[Key]) -> tuple[Frontier, Array] | None:
    """A frontier with a row for each combination of the variables that are read, and the number of
    each row's combination; None if there are hardly fewer combinations than rows."""
    base, rows = frontier, None
    while base.parent is not None and read.isdisjoint(base.columns):
        if base.rows is not None:
            rows = base.rows if rows is None else base.rows[rows]
        base = base.parent
    if rows is None:
        return None
    marks = ops.row_firsts((rows,))  # rows ascend, whatever they come from
    first = ops.survivors(marks)
    if 2 * len(first) > frontier.size:
        return None
    return base.take(rows[first]), ops.xp.cumsum(marks) - 1
