"""What joins ask of a device: `engine.device.Device.ops`, which executors are handed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gdatalog.plan.nodes import Expr
from gdatalog.storage.ops import RowOps
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Lookup, Meeting, TrieLevel


class Ops(RowOps, Protocol):
    """Operations of one device on bindings, levels of tries and groups.

    `cpu_ops`, a module, is one for NumPy; `gpu_ops.sums.Sums` is one for CuPy.
    """

    # -------------------------------------------------------------------------- expressions

    def evaluate(
        self, expr: Expr, column: Callable[[str], Array], size: int, scope: Any, /
    ) -> tuple[Array, Array | None]:
        """The keys of an expression, one a row, and where it failed (None: nowhere)."""
        ...

    def test(self, expr: Expr, column: Callable[[str], Array], size: int, scope: Any, /) -> Array:
        """Which rows pass a test; tests do not fail."""
        ...

    def ranks_of(self, symbols: SymbolTable, codes: Array, /) -> Array:
        """The place of each symbol among all texts in the order of code points."""
        ...

    # ----------------------------------------------------------------------- levels of tries

    def level_of(self, values: Array, offsets: Array, /) -> TrieLevel:
        """Lists that are made on the way."""
        ...

    def find(self, level: TrieLevel, values: Array, /) -> Array:
        """Positions of values in the root's list, -1 where absent."""
        ...

    def find_in(self, level: TrieLevel, parents: Array, values: Array, /) -> Array:
        """Positions of values in their parents' lists, -1 where absent."""
        ...

    def bound_in(
        self, level: TrieLevel, parents: Array, values: Array, after_equal: bool, /
    ) -> Array:
        """Where in its parent's list each value would stand; behind an equal one if asked."""
        ...

    def ranges(
        self, level: TrieLevel, parents: Array, cuts: Sequence[tuple[str, Array]], /
    ) -> tuple[Array, Array]:
        """Where each parent's list starts and how long it is, cut by (operator, bounds)."""
        ...

    def intersect_lists(
        self,
        values: Array,
        starts: Array,
        lengths: Array,
        size: int | None,
        which: int | Array,
        others: Sequence[Lookup],
        placed: bool,
        tests: Sequence[tuple[str, Array]] = (),
        /,
    ) -> Meeting:
        """The entries of lists that are in every other list of their row, and pass the tests."""
        ...

    def count_met(
        self,
        counts: Array,
        values: Array,
        starts: Array,
        lengths: Array,
        size: int,
        base: int,
        others: Sequence[Lookup],
        tests: Sequence[tuple[str, Array]],
        /,
    ) -> None:
        """Adds to `counts`, from row `base` on, how many entries `intersect_lists` would find."""
        ...

    def shortest(self, lists: Sequence[Array], /) -> tuple[list[int], int, Array | None]:
        """The sum of each array of lengths, that of each row's least length, and these."""
        ...

    def intersect(self, lists: Sequence[Array], /) -> tuple[Array, list[Array]]:
        """Values common to sorted lists, and where each stands in each list."""
        ...

    # ------------------------------------------------------------------------------- groups

    def add_at(self, totals: Array, rows: Array, amounts: Array | None, /) -> None:
        """Adds to `totals[row]` each amount (1 where None); `rows` ascends."""
        ...

    def add_counts(self, totals: Array, rows: Array, amounts: Array | None, /) -> Array:
        """The same; an error if a total does not fit into 64 bits."""
        ...

    def sums_by(self, groups: Array, count: int, amounts: Array | None, /) -> Array:
        """The sum of the amounts (1 where None) of each group."""
        ...

    def counts_by(self, groups: Array, count: int, weight: Array | None, /) -> Array:
        """How many rows each group has; an error if that does not fit into 64 bits."""
        ...

    def exact_sums(self, groups: Array, count: int, amounts: Array | None, /) -> Array:
        """Sums of ints by group: Python's ints, where 64 bits might not do."""
        ...

    def split_sums(
        self, groups: Array, count: int, values: Array, weight: Array | None, /
    ) -> tuple[Array, Array]:
        """The sum of value * weight of each group as high * 2^32 + low."""
        ...

    def means(self, high: Array, low: Array, counts: Array, /) -> Array:
        """(high * 2^32 + low) / count, rounded once."""
        ...

    def best_by(self, groups: Array, count: int, values: Array, least: bool, /) -> Array:
        """The first row that holds the least (or greatest) of each group; none is empty."""
        ...

    def times(self, counts: Array, weight: Array, /) -> Array:
        """Counts multiplied; an error if that does not fit into 64 bits."""
        ...
