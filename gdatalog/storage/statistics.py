"""Statistics of a relation, for the planner: each is computed on first use and cached.

A statistic costs a pass over a column or two, or a sort of a sample, never a sort of all rows. A
device computes those of many rows that it holds (`degrees.py`). Those of rows on other machines
come from a survey and its sample (`remote.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any, TypeVar

import numpy as np

from gdatalog.cancellation import current_watch
from gdatalog.storage import device_statistics, quantiles
from gdatalog.storage.degrees import AdjacencyLists, Degrees
from gdatalog.storage.graph import EdgeStatistics
from gdatalog.storage.keys import key_of
from gdatalog.storage.on_device import DeviceStore, KnownRows, brought, is_on_host
from gdatalog.storage.quantiles import Quantiles
from gdatalog.storage.remote import RemoteGraph, RemoteRows
from gdatalog.storage.row_store import RowStore
from gdatalog.storage.row_tests import mask, passing
from gdatalog.storage.rows import Columns, row_firsts
from gdatalog.storage.spill import is_spilled
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Tests, Trie, TrieName
from gdatalog.storage.value_counts import (
    counts_between,
    estimated,
    how_many,
    mixed,
    runs_of,
    values_by_hash,
)
from gdatalog.values import TypeName, Value

Made = TypeVar("Made")

Bound = tuple[str, Value]  # a comparison with a constant: operator and value
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
SAMPLE = 50_000
SHORT = 200_000  # rows: so few are sorted rather than sampled
FETCHED = 1 << 14  # rows on a device: fewer are copied to the host
WALKED = 1 << 22  # entries of lists on a device that are worth copying for random walks
DENSE, WIDE = 2, 4  # most possible values for each row that are counted, or sorted
FIRST = 16  # rows that are compared first
MANY = 1_000_000  # rows: the values of more are only counted if they are sorted
RARE = 2  # values of a sample for each one that recurs: with more, a sample says too little


class Statistics:
    """The statistics of a relation's rows."""

    def __init__(
        self, store: RowStore, types: Sequence[TypeName], tries: Mapping[TrieName, Trie]
    ) -> None:
        """`tries`: the relation's tries so far."""
        self.assumed = False
        self._store = store
        self._types = tuple(types)
        self._tries = tries
        self._kept: dict[object, Any] = {}
        self._distinct: dict[frozenset[int], int] = {}
        self._rises: dict[tuple[int, int], bool] = {}
        self._edges = len(types) == 2 and types[0] == types[1]
        self._graph: EdgeStatistics | None = None

    @property
    def graph(self) -> Any:
        """The rows as edges, if both columns have the same type."""
        if not self._edges:
            return None
        if self._graph is not None and self._store.on_host and self._store.on_device is None:
            return self._graph
        remote, there = self._remote, self._there
        if remote is not None:
            return self._once("remote graph", lambda: RemoteGraph(remote))
        return self.graph_here if there is None else there.graph

    @property
    def graph_here(self) -> EdgeStatistics | None:
        """The same, on the host."""
        if self._graph is None and self._edges:
            self._graph = EdgeStatistics(self._store)
        return self._graph

    @property
    def _there(self) -> DeviceStore | None:
        """The rows on a device, if they are analysed there."""
        device_rows = self._store.on_device
        return None if device_rows is None or device_rows.count < FETCHED else device_rows

    @property
    def _remote(self) -> RemoteRows | None:
        """The rows on other machines, until they are fetched: a survey has their statistics."""
        store = self._store
        return store if isinstance(store, RemoteRows) and store.unfetched else None

    @property
    def _here(self) -> bool:
        """Whether the rows may be analysed on the host."""
        return self._store.on_host or (self._there is None and self._remote is None)

    @property
    def rows(self) -> int:
        """The number of rows; duplicates count until they have been removed."""
        return self._store.at_most

    @property
    def _keys(self) -> Columns:
        return self._store.as_they_are() if self._types else ()

    @property
    def _sorted(self) -> bool:
        return self._store.known == KnownRows.SORTED

    @property
    def _sampled(self) -> bool:
        """Whether columns are sampled, never read as a whole."""
        return self._store.at_most > MANY and not self._sorted

    @property
    def _wanted(self) -> int:
        """The number of rows in a sample."""
        return SAMPLE // 3 if self._sampled else SAMPLE

    @property
    def codes(self) -> bool:
        """Whether some keys are codes of texts, which differ from process to process."""
        return "symbol" in self._types

    @property
    def symmetric(self) -> bool:
        """Whether a binary relation has (y, x) for every (x, y)."""
        graph = self.graph
        return graph is not None and graph.symmetric

    @property
    def loopless(self) -> bool:
        """Whether a binary relation is known to have no (x, x)."""
        return bool(self.rises) or (self.graph is not None and not self.graph.loops)

    # ------------------------------------------------------------------------ distinct values

    def distinct(self, columns: frozenset[int]) -> int:
        """The number of distinct combinations of values in some columns; an estimate if there are
        many."""
        if columns and len(columns) == len(self._types):
            return self._store.at_most  # fewer once duplicates have been removed
        found = self._distinct.get(columns)
        if found is None:
            found = self._distinct[columns] = self._count(columns)
        return found

    def _once(self, key: object, make: Callable[[], Made]) -> Made:
        """Calls `make` on first use of a key, and caches its result."""
        found: Made | None = self._kept.get(key)
        if found is None:
            found = self._kept[key] = make()
        return found

    def _indexed(self, columns: frozenset[int]) -> Trie | None:
        """A trie whose first levels are these columns."""
        for name, trie in (*self._tries.items(), *self._store.tries_there.items()):
            order, tests, _, ranked = name
            if not tests and not ranked and columns == frozenset(order[: len(columns)]):
                return trie
        return None

    def counted(self, columns: frozenset[int]) -> bool:
        """Whether `distinct` is exact."""
        if self._remote is not None:
            return False
        if len(columns) == len(self._types) or self.rows == 0:
            return True
        if self._indexed(columns) is not None:
            return True
        if self._there is not None:
            return False
        in_order = self._sorted and columns == frozenset(range(len(columns)))
        return in_order or (len(columns) == 1 and self.rows <= SHORT)

    def _count(self, columns: frozenset[int]) -> int:
        rows = self._store.at_most
        if not columns or rows == 0:
            return min(1, rows)
        remote = self._remote
        if remote is not None and len(columns) == 1:
            return remote.survey.distinct[min(columns)]
        if remote is not None:
            some = [remote.survey.sample[at] for at in sorted(columns)]
            return min(self.rows, estimated(some, remote.step))
        known = [self._kept[at, (), False] for at in columns if (at, (), False) in self._kept]
        if known and len(columns) == 1:
            return int(known[0].powers[0])
        few = [some for some, found in [*self._distinct.items()] if found >= self.rows]
        if any(map(columns.issuperset, few)) or any(d.powers[0] >= self.rows for d in known):
            return self.rows  # columns that identify rows do so with more columns, too
        trie = self._indexed(columns)
        if trie is not None:
            return len(trie.levels[len(columns) - 1])
        there = self._there
        if there is not None:
            return device_statistics.distinct(there, sorted(columns))
        in_order, every = self._sorted, self._keys  # another thread may sort the rows meanwhile
        keys = [every[column] for column in sorted(columns)]
        if in_order and columns == frozenset(range(len(columns))):
            return int(np.count_nonzero(row_firsts(keys)))
        if len(keys) == 1:
            key = keys[0]
            if self.rows <= SHORT or (
                not self._sampled and int(key.max()) - int(key.min()) < self.rows
            ):
                return int(self.degrees(min(columns)).powers[0])
        step = max(1, self.rows // self._wanted)
        sample = [self._every(step, column) for column in sorted(columns)]
        counts = runs_of(np.sort(mixed(sample)))
        often = np.count_nonzero(counts > 1)
        if len(keys) == 1 and len(counts) > RARE * often and not is_spilled(keys[0]):
            return min(self.rows, values_by_hash(keys[0], self.rows // SAMPLE))
        return int(how_many(counts, len(sample[0]), step))

    def _every(self, step: int, column: int) -> Array:
        """A systematic sample of a column: every `step`-th key. Cached, because each key is a cache
        miss."""
        return self._once((column, step), lambda: np.ascontiguousarray(self._keys[column][::step]))

    # -------------------------------------------------------------------------------- degrees

    def size(self, tests: Tests = (), ranked: bool = False) -> int:
        """How many rows pass some tests."""
        return round(self.degrees(0, tests, ranked).powers[1]) if tests or ranked else self.rows

    def degrees(self, column: int, tests: Tests = (), ranked: bool = False) -> Degrees:
        """The degrees of a column, among the rows that pass some tests.

        `ranked`: of both directions of every edge, with tests on ranks.
        """
        key = column, tests, ranked
        found: Degrees | None = self._kept.get(key)
        if found is None:
            if self._remote is not None and not tests and not ranked:
                return self._remote.survey.degrees[column]
            found = self._kept[key] = self._new_degrees(*key)
        return found

    def _new_degrees(self, column: int, tests: Tests, ranked: bool) -> Degrees:
        remote = self._remote
        if remote is not None and ranked:
            return remote.keeper.ranked_degrees(remote, column, tests)
        if remote is not None:
            survey, step = remote.survey, remote.step
            key = survey.sample[column][mask(survey.sample, tests)]
            if not len(key):
                return Degrees.of(key)
            rows = len(key) * step
            values = min(survey.distinct[column], rows)
            return Degrees.of_sample(runs_of(np.sort(key)), step, rows, values)
        if ranked:
            assert self.graph is not None
            counts = self.graph.degrees(column, tests)
            if is_on_host(counts):
                return Degrees.of(counts)
            return device_statistics.degrees_of(self.graph.ops, counts)
        there = self._there
        if there is not None:
            return device_statistics.degrees(there, column, tests)
        found = self._of_lists(column, tests)
        if found is not None:
            return found
        in_order, keys = column == 0 and self._sorted, self._keys
        key = keys[column]
        if tests:
            spill = current_watch().account.spill_for(self.rows * key.itemsize)
            (key,) = passing(keys, [column], tests, spill)
        counts = self._counts(key, in_order)
        if counts is not None:
            return Degrees.of(counts)
        step = len(key) // self._wanted
        values = min(self.distinct(frozenset((column,))), len(key))
        some = key[::step] if tests else self._every(step, column)
        return Degrees.of_sample(runs_of(np.sort(some)), step, len(key), values)

    def _of_lists(self, column: int, tests: Tests) -> Degrees | None:
        """The same from adjacency lists, if they exist, or are built for random walks anyway."""
        if len(self._types) != 2 or (not tests and "lists" not in self._kept):
            return None
        if is_spilled(self._keys[0]) or any(t[1] == "!=" for t in tests):
            return None
        if column == 1 and (self._graph is None or not self._graph.known_symmetric):
            return None
        lists = self.lists(column, tests)
        return None if lists is None else Degrees.of(lists.ends - lists.starts)

    def _counts(self, key: Array, in_order: bool) -> Array | None:
        """How often each value occurs; None if there are too many values to count them."""
        if len(key) == 0:
            return key
        if in_order:
            return runs_of(key)
        if not self._sampled:
            low, high = int(key.min()), int(key.max())
            if high - low <= DENSE * len(key):
                return counts_between(key, low, high)
            if high - low <= WIDE * len(key) and not is_spilled(key):
                return runs_of(np.sort(key))
        return runs_of(np.sort(key)) if len(key) <= SHORT else None

    # --------------------------------------------------------------------------------- ranges

    def within(
        self, column: int, bounds: Sequence[Bound], ranked: bool = False
    ) -> tuple[float, float]:
        """The share of a column's values, or ranks, and of the rows, that satisfy comparisons with
        constants. Not for symbols, which have no order."""
        kind: TypeName = "int" if ranked else self._types[column]
        keys = [(op, key_of(value, kind)) for op, value in bounds]
        high = min((key - (op == "<") for op, key in keys if "<" in op), default=None)
        low = max((key + (op == ">") for op, key in keys if "<" not in op), default=None)
        if ranked:
            return self._ranks_within(low or 0, high)
        return self.quantiles(column).within(low, high)

    def _ranks_within(self, low: int, high: int | None) -> tuple[float, float]:
        """The share of the ranks, and of the rows of ranks, from `low` to `high`."""
        upto: Array = self._once(
            "rows of ranks", lambda: brought(self.graph.degrees(0, ())).cumsum()
        )
        last = len(upto) - 1 if high is None else min(high, len(upto) - 1)
        if low > last:
            return 0.5 / max(1, len(upto)), 0.5 / max(1, self.rows)  # never estimate zero
        rows = upto[last] - (upto[low - 1] if low else 0)
        return (last + 1 - low) / len(upto), max(0.5, float(rows)) / max(1, upto[-1])

    def quantiles(self, column: int) -> Quantiles:
        return self._once((column, "quantiles"), lambda: self._quantiles(column))

    def _quantiles(self, column: int) -> Quantiles:
        remote = self._remote
        if remote is not None:
            survey = remote.survey
            keys = np.sort(survey.sample[column])
            # The survey has the least and the greatest key.
            ends = [e for e in survey.spans[column] if not len(keys) or e not in keys[[0, -1]]]
            keys = np.sort(np.append(keys, ends).astype(np.int64)) if ends else keys
            return Quantiles(keys, self.rows, survey.distinct[column], True)
        values = int(self.degrees(column).powers[0])
        there = self._there
        if there is not None:
            some = device_statistics.sample(there, column, quantiles.SAMPLE)
            return Quantiles(np.sort(some), there.count, values)
        in_order = column == 0 and self._sorted
        return Quantiles.of(self._keys[column], values, in_order)

    # ------------------------------------------------------------------------------ properties

    def ascends(self, left: int, right: int) -> bool:
        """Whether one column is less than another in every row. False for symbols, which have no
        order."""
        found = self._rises.get((left, right))
        if found is None:
            alike = self._types[left] == self._types[right] != "symbol"
            found = alike and self.rows > 0 and self._less(left, right)
            self._rises[left, right] = found
        return found

    def _less(self, left: int, right: int) -> bool:
        there = self._there
        if there is not None:
            return device_statistics.ascends(there, left, right)
        if self._remote is not None:
            return (left, right) in self._remote.survey.rises
        keys = self._keys
        a, b = keys[left], keys[right]
        # usually a few rows decide
        return bool((a[:1000] < b[:1000]).all()) and bool((a < b).all())

    @property
    def rises(self) -> frozenset[tuple[int, int]]:
        """Pairs of columns, the first of which is less than the second in every row."""
        return self._once("rises", self._all_rises)

    def _all_rises(self) -> frozenset[tuple[int, int]]:
        pairs: Iterable[tuple[int, int]] = permutations(range(len(self._types)), 2)
        if self.rows and self._here and len(self._types) > 2:
            # One row excludes half of the pairs, a few rows nearly all.
            first = np.array([[int(key) for key in keys[:FIRST]] for keys in self._keys])
            pairs = filter(lambda p: bool((first[p[0]] < first[p[1]]).all()), pairs)
        return frozenset(p for p in pairs if self.ascends(*p))

    @property
    def balanced(self) -> bool:
        """Whether a binary relation seems to have (y, x) for every (x, y).

        A guess, good enough to expect that one trie serves both orders.
        """
        graph = self.graph
        return graph is not None and self.rows > 0 and graph.mirrored

    # --------------------------------------------------------------------------------- indexes

    def sorting(self, column: int, tests: Tests = (), ranked: bool = False) -> int:
        """How many rows must be sorted for an index that begins with a column.

        0 if there is such an index, or the rows are in that order. An index of a symmetric relation
        serves both columns.
        """
        if ranked or self.balanced:
            if column == 1:
                tests = tuple((left, _TURNED.get(op, op), right) for left, op, right in tests)
            column = 0
        if column == 0 and self._sorted and not ranked:
            return 0
        for order, tested, _, by_rank in (*self._tries, *self._store.tries_there):
            if order[:1] == (column,) and tested == tests and by_rank == ranked:
                return 0
        return self.rows

    def lists(self, column: int, tests: Tests = (), ranked: bool = False) -> AdjacencyLists | None:
        """The values of the other column for each value of one of two columns, if that needs no
        sort.

        Comparisons of the columns cut the lists, except `!=`, which excludes too little to matter.
        """
        if len(self._types) != 2 or self._remote is not None:
            return None
        if ranked:
            if column == 1:
                tests = tuple((left, _TURNED.get(op, op), right) for left, op, right in tests)
            found = self._lists_of(((0, 1), tests, False, True))
            return found or self._cut(self.graph.rank_lists, 0, tests)
        tests = tuple(test for test in tests if test[1] != "!=")
        return self._cut(self._whole_lists(column), column, tests)

    def _cut(
        self, whole: AdjacencyLists | None, column: int, tests: Tests
    ) -> AdjacencyLists | None:
        """Lists of a column's values that comparisons cut."""
        if whole is None or not tests:
            return whole
        if len(tests) > 1 or tests[0][1] in ("=", "!="):
            return None
        left, op, _ = tests[0]
        parents = self._keys[0] if whole is self._kept.get("lists") else None
        return whole.cut(op if left == column else _TURNED[op], parents)

    def _whole_lists(self, column: int) -> AdjacencyLists | None:
        turned = column == 1 and self._there is not None and self.balanced
        order = (0, 1) if turned else (column, 1 - column)
        found = self._lists_of((order, (), False, False))
        if found is not None:
            return found
        if not self._here or not self._sorted or (column == 1 and not self.balanced):
            return None  # random walks need lists on the host
        return self._once("lists", lambda: AdjacencyLists.of(*self._keys))

    def _lists_of(self, name: TrieName) -> AdjacencyLists | None:
        """The lists of a trie, if it has been built; cached."""
        found: AdjacencyLists | None = self._kept.get(name)
        trie = self._tries.get(name)
        if found is None and trie is None:
            trie = self._store.tries_there.get(name)
            if trie is None or len(trie.levels[1]) > WALKED:
                return None
        if found is None and trie is not None:
            first, second = trie.levels
            ends, values = brought(second.offsets), brought(second.values)
            found = AdjacencyLists(brought(first.values), ends[:-1], ends[1:], values)
            self._kept[name] = found
        return found

    def set(self) -> Array | None:
        """The values of a relation of one column, if they are sorted."""
        one = len(self._types) == 1 and self._sorted and self._here
        return self._keys[0] if one else None
