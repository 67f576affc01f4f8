"""What an executor asks of a device: operations on arrays and frontiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from gdatalog.plan.join_plan import Expr
from gdatalog.storage.row_ops import RowOps
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Choice, ListEntries, Lookup, TrieLevel, ValueTests

if TYPE_CHECKING:
    from gdatalog.cpu_ops.expressions import Scope


class RowsAhead(Protocol):
    """Rows that a device makes, whose number the host has not read yet."""

    def settled(self) -> int:
        """How many there are. Waits for the device."""


class RowsOfKernel(Protocol):
    """Rows of a level: the numbers of their parents, their values, and their places in lists by the
    list's number; the entry to go on from, and the row that begins there, if one does; and whether
    the lists of these rows are whole. If the rows are `ahead`, arrays are longer, and nothing else
    is known."""

    @property
    def rows(self) -> Array: ...

    @property
    def values(self) -> Array: ...

    @property
    def places(self) -> Mapping[int, Array]: ...

    @property
    def stop(self) -> int: ...

    @property
    def row(self) -> int | None: ...

    @property
    def whole(self) -> bool: ...

    @property
    def ahead(self) -> RowsAhead | None: ...


class LevelKernel(Protocol):
    """A level that a device expands by one kernel: from the shortest list of each row, as
    `intersect_lists` does from given ones. `total`: how many entries these lists have, known after
    a call; `tried`: how many of them were looked at; `within`: the levels of tries in which each
    row has a list of its own."""

    total: int
    tried: int
    within: Sequence[TrieLevel]

    def expand(self, start: int, room: int, ahead: bool, /) -> RowsOfKernel:
        """The rows from entry `start` on, at most `room`; `ahead`: the host need not wait for their
        number if all have room."""

    def leave_out(self, wanted: Array, start: int, /) -> None:
        """Drops the entries before `start`, and the lists that are not wanted."""

    def counts(self) -> Array:
        """How many entries of each list remain."""

    def count(self) -> int:
        """How many entries remain."""


# Of choices, other look-ups, tests, the way, the rows of a chunk, and those of the frontier.
Fused = Callable[
    [Sequence[Choice], Sequence[Lookup], ValueTests, str, int, int, Any],
    LevelKernel | None,
]


class Ops(RowOps, Protocol):
    """Operations of one device on bindings, trie levels and groups.

    The module `cpu_ops` implements them with NumPy, `gpu_ops.device.Sums` with CuPy.
    """

    # -------------------------------------------------------------------------- expressions

    def evaluate(
        self, expr: Expr, columns: Mapping[str, Array], size: int, scope: Scope, /
    ) -> tuple[Array, Array | None]:
        """The keys of an expression, one for each row, and where it failed (None: nowhere)."""

    def test(self, expr: Expr, columns: Mapping[str, Array], size: int, scope: Scope, /) -> Array:
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

    @property
    def fused(self) -> Fused | None:
        """What makes one kernel of a level, of lists and look-ups, tests, what is wanted (`expand`,
        `counts` or `count`), and the rows of a chunk; None if there are no kernels."""

    def shortest(self, lists: Sequence[Array], /) -> tuple[list[int], int]:
        """The sum of each array of lengths, and that of each row's minimum."""

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
