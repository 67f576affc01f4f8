"""A frontier: the bindings of a level as (parent, value) arrays; and the operations on frontiers.

A frontier stores the parent row of each of its rows and the columns that its level added; earlier
columns are gathered through the parents on demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from gdatalog.errors import EvaluationError
from gdatalog.executors.ops import Ops, RowsAhead
from gdatalog.plan.join_plan import Expr, Slot, Step, slots
from gdatalog.records import dataclass, field
from gdatalog.storage.table import Array
from gdatalog.storage.trie import KEPT_WHOLE, Through, TrieLevel

if TYPE_CHECKING:
    from gdatalog.cpu_ops.expressions import Scope


# Columns are named by variables, by numbers of tries (the current node of the trie), and by WEIGHT:
# the number of bindings that a row represents.
Key = str | int
WEIGHT = "#"
FAR = 8  # frontiers, above which a column that was found is remembered


@dataclass(slots=True, eq=False)
class Frontier:
    """`most`: how many rows there are or, if they are `ahead`, at most. Then the rows and columns
    of this frontier are longer than that, until something asks for its `size`."""

    most: int
    parent: Frontier | None = None
    rows: Array | None = None  # None: the parent's rows, one to one
    # That this frontier added: arrays, or `Through` others, gathered when they are first asked for.
    columns: dict[Key, Any] = field(default_factory=dict)
    level: str | None = None  # the variable whose lists this frontier is
    whole: bool = True  # whether those lists are whole: no chunk cuts one
    distinct: bool = False  # whether all rows have different nodes in its columns
    # Levels of tries in which each parent row has a list of its own, with all its values here.
    within: Sequence[TrieLevel] = ()
    ahead: RowsAhead | None = None
    # The variables whose values the next level's kernel seeks in roots, by the number of the trie.
    sought: dict[int, str] = field(default_factory=dict)
    _gathered: dict[Key, Array] = field(default_factory=dict)  # cached columns of ancestors
    _lists: TrieLevel | None = None

    @property
    def size(self) -> int:
        """The number of rows. Waits for the device if they are ahead."""
        if self.ahead is not None:
            self.settle()
        return self.most

    def settle(self) -> None:
        """Waits for the number of rows that are ahead."""
        if self.ahead is None:
            return
        count, self.ahead = self.ahead.settled(), None
        spare, known = self.most > max(KEPT_WHOLE, 4 * count), dict[int, Array]()

        def cut(array: Any) -> Any:
            if isinstance(array, Through):
                return Through(array.values, (*array.rows[:-1], cut(array.rows[-1])))
            if id(array) not in known:  # a copy frees the rest
                known[id(array)] = array[:count].copy() if spare else array[:count]
            return known[id(array)]

        assert self.rows is not None
        self.most, self.rows = count, cut(self.rows)
        self.columns = {key: cut(column) for key, column in self.columns.items()}

    def has(self, key: Key) -> bool:
        frontier: Frontier | None = self
        while frontier is not None:
            if key in frontier.columns:
                return True
            frontier = frontier.parent
        return False

    def column(self, key: Key) -> Array:
        """A column in the order of this frontier's rows, gathered through the parents."""
        below: list[Frontier] = []
        frontier: Frontier | None = self
        found: Any = None
        while frontier is not None:
            if frontier.ahead is not None:
                frontier.settle()
            found = frontier.columns.get(key)
            if isinstance(found, Through):
                found = frontier.columns[key] = found.gathered()
            if found is None:
                found = frontier._gathered.get(key)
            if found is not None:
                break
            below.append(frontier)
            frontier = frontier.parent
        assert found is not None, key
        for frontier in reversed(below):
            if frontier.rows is not None:
                found = frontier._gathered[key] = found[frontier.rows]
        if len(below) > FAR:
            self._gathered[key] = found
        column: Array = found
        return column

    def entries(self, key: Key) -> Array | Through:
        """A column as kernels read it, which may be ahead."""
        frontier, through = self, list[Array]()
        while frontier.rows is not None and frontier.parent is not None:
            found = frontier.columns.get(key)
            if found is None and not through and frontier.ahead is None:
                found = frontier._gathered.get(key)
            if isinstance(found, Through):
                return Through(found.values, (*found.rows, *through))
            if found is not None:
                return Through(found, tuple(through)) if through else found
            through.insert(0, frontier.rows)
            frontier = frontier.parent
        found = frontier.column(key)
        return Through(found, tuple(through)) if through else found

    def take(self, rows: Array) -> Frontier:
        return Frontier(len(rows), self, rows)

    def adding(self, columns: dict[Key, Array]) -> Frontier:
        """The same rows with more columns."""
        return Frontier(self.size, self, None, columns)

    @property
    def weight(self) -> Array | None:
        """How many bindings each row represents; None: one each."""
        return self.column(WEIGHT) if self.has(WEIGHT) else None

    def weighed(self, ops: Ops, counts: Array) -> Array:
        """Counts of each row times its weight; raises an error if one does not fit into 64 bits."""
        weight = self.weight
        return counts if weight is None else ops.times(counts, weight)

    def weighing(self, ops: Ops, weight: Array) -> Frontier:
        """The same rows with weights multiplied by these."""
        return self.adding({WEIGHT: self.weighed(ops, weight)})

    def read_by(self, expr: Expr) -> dict[str, Array]:
        """The columns that an expression reads."""
        if isinstance(expr, Slot):
            return {expr.name: self.column(expr.name)}
        return {name: self.column(name) for name in slots(expr)}

    def values(self, exprs: Sequence[Expr], ops: Ops, scope: Scope) -> tuple[Array, ...]:
        """The keys of expressions that cannot fail."""
        found = []
        for expr in exprs:
            if isinstance(expr, Slot):
                found.append(self.column(expr.name))
            else:
                found.append(ops.evaluate(expr, self.read_by(expr), self.size, scope)[0])
        return tuple(found)

    def lists(self, ops: Ops) -> TrieLevel:
        """This level's values as lists, one for each parent row."""
        if self._lists is None:
            assert self.parent is not None and self.level is not None
            self.settle()
            bounds = ops.xp.searchsorted(self.rows, ops.xp.arange(self.parent.size + 1))
            self._lists = ops.level_of(self.columns[self.level], bounds)
        return self._lists


class DeeperLoops(Protocol):
    """What takes rows of a level that are more than a chunk."""

    def take(self, steps: Sequence[Step], at: int, frontier: Frontier, sink: Any, /) -> bool:
        """Runs the steps from `at` on over the rows of a frontier, depth-first, into a sink; False
        if it cannot."""


# The intersection of root lists, and the position of each of its values in each of them (None: the
# same as here).
Roots = tuple[TrieLevel, Sequence[Array | None]]


@dataclass(slots=True)
class FailedRows:
    """The outer rows of a branch with a failed computation, and the error to raise."""

    base: str
    failed: Array
    error: EvaluationError | None = None

    def note(self, rows: Array, error: EvaluationError) -> None:
        """Records a failed computation for these outer rows."""
        self.failed[rows] = True
        self.error = error
