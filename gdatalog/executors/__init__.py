"""A frontier: the bindings of a level as (parent, value) arrays; and the operations on frontiers.

A frontier stores the parent row of each of its rows and the columns that its level added; earlier
columns are gathered through the parents on demand. `Ops` are the operations of a device on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from gdatalog.errors import EvaluationError
from gdatalog.plan import Apply, Constant, Expr, Slot
from gdatalog.plan.format import format_expr
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.keys import decode_value
from gdatalog.storage.on_device import RowOps
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.storage.trie import ListEntries, Lookup, TrieLevel, ValueTests
from gdatalog.values import timestamp_to_text

if TYPE_CHECKING:
    from gdatalog.cpu_ops.functions import Scope


# Columns are named by variables, by numbers of tries (the current node of the trie), and by WEIGHT:
# the number of bindings that a row represents.
Key = str | int
WEIGHT = "#"
FAR = 8  # frontiers, above which a column that was found is remembered


@dataclass(slots=True, eq=False)
class Frontier:
    size: int
    parent: Frontier | None = None
    rows: Array | None = None  # None: the parent's rows, one to one
    columns: dict[Key, Array] = field(default_factory=dict)  # that this frontier added
    level: str | None = None  # the variable whose lists this frontier is
    whole: bool = True  # whether those lists are whole: no chunk cuts one
    _gathered: dict[Key, Array] = field(default_factory=dict)  # cached columns of ancestors
    _lists: TrieLevel | None = None

    def above(self) -> Iterator[Frontier]:
        """This frontier and its ancestors."""
        frontier: Frontier | None = self
        while frontier is not None:
            yield frontier
            frontier = frontier.parent

    def has(self, key: Key) -> bool:
        return any(key in frontier.columns for frontier in self.above())

    def column(self, key: Key) -> Array:
        """A column in the order of this frontier's rows, gathered through the parents."""
        below: list[Frontier] = []
        for frontier in self.above():
            found = frontier.columns.get(key)
            if found is None:
                found = frontier._gathered.get(key)
            if found is not None:
                break
            below.append(frontier)
        else:
            raise AssertionError(key)
        for frontier in reversed(below):
            if frontier.rows is not None:
                found = frontier._gathered[key] = found[frontier.rows]
        if len(below) > FAR:
            self._gathered[key] = found
        return found

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

    def values(self, exprs: Sequence[Expr], ops: Ops, scope: Scope) -> tuple[Array, ...]:
        """The keys of expressions that cannot fail."""
        return tuple(ops.evaluate(expr, self.column, self.size, scope)[0] for expr in exprs)

    def lists(self, ops: Ops) -> TrieLevel:
        """This level's values as lists, one for each parent row."""
        if self._lists is None:
            assert self.parent is not None and self.rows is not None and self.level is not None
            bounds = ops.xp.searchsorted(self.rows, ops.xp.arange(self.parent.size + 1))
            self._lists = ops.level_of(self.columns[self.level], bounds)
        return self._lists


# The intersection of root lists, and the position of each of its values in each of them (None: the
# same as here).
Roots = tuple[TrieLevel, Sequence[Array | None]]


# Messages for computations that failed, with the values they failed on.

_WHY = {
    "/": "division by zero",
    "%": "division by zero",
    "^": "a power that is not a number",
    "to_number": "not a number",
    "to_int": "not an int",
    "to_float": "not a float",
}


def describe_failure(expr: Expr, frontier: Frontier, ops: Ops, scope: Scope) -> EvaluationError:
    """The error of an expression that fails on the only row of a frontier."""
    culprit = _innermost(expr, frontier, ops, scope)
    why = _WHY.get(culprit.function, "the result is not a number (NaN)")
    slots = sorted(_slots(culprit), key=lambda slot: slot.name)
    known = values_of(slots, [frontier.column(slot.name) for slot in slots], 0, scope.symbols)
    given = f" with {known}" if known else ""
    last = frontier.values(culprit.args[-1:], ops, scope)[0][0]
    culprit = _as_written(culprit)
    hint = f"{_test(culprit)}: what can fail is computed only where the tests pass"
    if culprit.function in ("/", "^") and culprit.type == "int":
        divided = last == 0 if culprit.function == "/" else last < 0
        why = "division by zero" if divided else "the result does not fit into 64 bits"
        if not divided:
            hint = f"compute with floats instead: `{format_expr(_of_floats(culprit))}`"
    return EvaluationError(f"{why}: {format_expr(culprit)}{given}", culprit.span, hint=hint)


def _as_written(expr: Apply) -> Apply:
    """The expression with the program's names of variables."""

    def written(arg: Expr) -> Expr:
        if isinstance(arg, Slot):
            return Slot(arg.name.split("~")[0] or "...", arg.type)
        return _as_written(arg) if isinstance(arg, Apply) else arg

    return replace(expr, args=tuple(map(written, expr.args)))


def _of_floats(expr: Apply) -> Apply:
    """The same function of floats."""
    args = (
        Constant(float(arg.value), "float")
        if isinstance(arg, Constant)
        else Apply("to_float", (arg,), "float")
        for arg in expr.args
    )
    return Apply(expr.function, tuple(args), "float")


def values_of(
    slots: Sequence[Slot], columns: Sequence[Array], row: int, symbols: SymbolTable
) -> str:
    """The values of variables in a row: `x = 1, y = "a"`."""
    known = []
    for slot, column in zip(slots, columns, strict=True):
        value = decode_value(int(column[row]), slot.type, symbols)
        if slot.type == "timestamp":
            value = timestamp_to_text(value)
        shown = f'"{value}"' if isinstance(value, str) and slot.type == "symbol" else value
        known.append(f"{slot.name.split('~')[0]} = {shown}")
    return ", ".join(known)


def _test(culprit: Apply) -> str:
    """The test of the body that excludes the failing values."""
    args = [format_expr(arg) for arg in culprit.args]
    tests = {
        "/": f"{args[-1]} != 0",
        "%": f"{args[-1]} != 0",
        "sqrt": f"{args[0]} >= 0",
        "log": f"{args[0]} >= 0",
        "to_number": f'match("-?[0-9]+", {args[0]})',
    }
    test = tests.get(culprit.function)
    plain = isinstance(culprit.args[-1], Slot)
    as_in = f", as in `{test}`" if test is not None and plain else ""
    return f"test for it in the body{as_in}"


def _innermost(expr: Expr, frontier: Frontier, ops: Ops, scope: Scope) -> Apply:
    assert isinstance(expr, Apply)
    for arg in expr.args:
        if isinstance(arg, Apply):
            _, failed = ops.evaluate(arg, frontier.column, frontier.size, scope)
            if failed is not None and bool(failed.any()):
                return _innermost(arg, frontier, ops, scope)
    return expr


def _slots(expr: Expr) -> set[Slot]:
    if isinstance(expr, Slot):
        return {expr}
    return set().union(*map(_slots, expr.args)) if isinstance(expr, Apply) else set()


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


# The operations that joins need of a device: `engine.device.Device.ops`.


class Ops(RowOps, Protocol):
    """Operations of one device on bindings, trie levels and groups.

    The module `cpu_ops` implements them with NumPy, `gpu_ops.device.Sums` with CuPy.
    """

    # -------------------------------------------------------------------------- expressions

    def evaluate(
        self, expr: Expr, column: Callable[[str], Array], size: int, scope: Scope, /
    ) -> tuple[Array, Array | None]:
        """The keys of an expression, one for each row, and where it failed (None: nowhere)."""

    def test(self, expr: Expr, column: Callable[[str], Array], size: int, scope: Scope, /) -> Array:
        """Which rows pass a test; tests do not fail."""

    def ranks_of(self, symbols: SymbolTable, codes: Array, /) -> Array:
        """The rank of each symbol among all strings in code point order."""

    # ----------------------------------------------------------------------- levels of tries

    def level_of(self, values: Array, offsets: Array, /) -> TrieLevel:
        """Wraps lists that were made on the way."""

    def find(self, level: TrieLevel, values: Array, /) -> Array:
        """Positions of values in the root's list, -1 if absent."""

    def find_in(self, level: TrieLevel, parents: Array, values: Array, /) -> Array:
        """Positions of values in their parents' lists, -1 if absent."""

    def bound_in(
        self, level: TrieLevel, parents: Array, values: Array, after_equal: bool, /
    ) -> Array:
        """The lower bound of each value in its parent's list, or the upper bound if requested."""

    def ranges(
        self, level: TrieLevel, parents: Array, cuts: Sequence[tuple[str, Array]], /
    ) -> tuple[Array, Array]:
        """The start and length of each parent's list, cut by (operator, bounds)."""

    def intersect_lists(
        self, entries: ListEntries, others: Sequence[Lookup], tests: ValueTests, placed: bool, /
    ) -> tuple[Array, Array, list[Array]]:
        """The entries of lists, of known `size`, that are in every other list of their row and pass
        the tests: their rows, their values, and their positions in the lists for which positions
        are wanted; in their own lists, which come first, if `placed`."""

    def count_met(
        self, counts: Array, entries: ListEntries, others: Sequence[Lookup], tests: ValueTests, /
    ) -> None:
        """Adds how many entries `intersect_lists` would find to `counts`, by row."""

    def shortest(self, lists: Sequence[Array], /) -> tuple[list[int], int, Array | None]:
        """The sum of each array of lengths, that of each row's minimum, and these minima."""

    def intersect(self, lists: Sequence[Array], /) -> tuple[Array, list[Array]]:
        """The values common to sorted lists, and their positions in each list."""

    # ------------------------------------------------------------------------------- groups

    def add_at(self, totals: Array, rows: Array, amounts: Array | None, /) -> None:
        """Adds each amount (1 if None) to `totals[row]`; `rows` ascends."""

    def add_counts(self, totals: Array, rows: Array, amounts: Array | None, /) -> Array:
        """The same; raises an error if a total does not fit into 64 bits."""

    def counts_by(self, groups: Array, count: int, weight: Array | None, /) -> Array:
        """The row count of each group; raises an error if one does not fit into 64 bits."""

    def exact_sums(self, groups: Array, count: int, amounts: Array | None, /) -> Array:
        """Sums of ints by group, as Python's ints if 64 bits might not suffice."""

    def split_sums(
        self, groups: Array, count: int, values: Array, weight: Array | None, /
    ) -> tuple[Array, Array]:
        """The sum of value * weight of each group as high * 2^32 + low."""

    def means(self, high: Array, low: Array, counts: Array, /) -> Array:
        """(high * 2^32 + low) / count, rounded once."""

    def best_by(self, groups: Array, count: int, values: Array, least: bool, /) -> Array:
        """The first row with the minimum (or maximum) of each group; no group is empty."""

    def times(self, counts: Array, weight: Array, /) -> Array:
        """Multiplies counts; raises an error if a product does not fit into 64 bits."""
