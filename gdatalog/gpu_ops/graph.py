"""A binary relation on a device as a graph: symmetry, loops, skew and ranks of vertices.

The device version of `storage/graph.py`. As there, vertices are ranked by the powers of two of
their degrees, then by their keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import ref

import numpy as np

from gdatalog.records import cached_property
from gdatalog.storage.graph import RankedEdges, passes
from gdatalog.storage.row_ops import DeviceOps, DeviceRows
from gdatalog.storage.rows import DENSE, Columns
from gdatalog.storage.table import Array
from gdatalog.storage.trie import RowTest


class DeviceRanking:
    """The vertices of a graph, ordered by the powers of two of their degrees, then by keys."""

    __slots__ = ("_least", "_ranks", "_vertices", "labels", "ops")

    def __init__(self, ops: DeviceOps, left: Array, right: Array) -> None:
        """`left` and `right`: the edges, each once, in either direction."""
        xp = ops.xp
        self.ops = ops
        low, high = _range(ops, left, right)
        size = high - low + 1
        self._least = low
        self._vertices: Array | None = None
        if size > DENSE * max(1, len(left)):
            self._vertices = xp.unique(xp.concatenate([left, right]))
            size = len(self._vertices)
        ends = self._places(left), self._places(right)
        degrees = xp.bincount(ends[0], minlength=size) + xp.bincount(ends[1], minlength=size)
        degrees[ends[0][ops.survivors(ends[0] == ends[1])]] -= 1  # a loop counts as one neighbour
        present = ops.survivors(degrees)
        bits = size.bit_length()
        twos = xp.left_shift(1, xp.arange(63))
        powers = xp.searchsorted(twos, degrees[present].astype(xp.int64), side="right")
        ordered = xp.sort(powers << bits | present)
        places = ordered & ((1 << bits) - 1)
        self._ranks = xp.empty(size, dtype=xp.int32)
        self._ranks[places] = xp.arange(len(places), dtype=xp.int32)
        keys = places + low if self._vertices is None else self._vertices[places]
        self.labels: Array = keys.astype(np.promote_types(left.dtype, right.dtype))

    def _places(self, keys: Array) -> Array:
        if self._vertices is not None:
            found: Array = self.ops.xp.searchsorted(self._vertices, keys)
            return found
        return keys.astype(self.ops.xp.int64) - self._least

    def ranks(self, keys: Array) -> Array:
        """The ranks of vertices."""
        found: Array = self._ranks[self._places(keys)]
        return found

    @property
    def nbytes(self) -> int:
        own = 0 if self._vertices is None else int(self._vertices.nbytes)
        return int(self.labels.nbytes) + int(self._ranks.nbytes) + own


class DeviceGraph(RankedEdges):
    """Properties of rows as edges, each computed on first use."""

    def __init__(self, rows: DeviceRows) -> None:
        super().__init__()
        self.ops = rows.ops
        self._held = ref(rows)  # the rows hold this graph

    @property
    def _rows(self) -> DeviceRows:
        rows = self._held()
        assert rows is not None
        return rows

    @property
    def mirrored(self) -> bool:
        """The same as `symmetric`, which is as cheap on a device."""
        return self.symmetric

    @cached_property
    def symmetric(self) -> bool:
        """Whether every edge (x, y) has its reverse (y, x). Compares the edges from higher to lower
        keys, reversed, with those from lower to higher keys."""
        ops = self.ops
        left, right = self._rows.as_they_are()
        if len(left) == 0:
            return True
        spans = ops.spans((left, right))
        if spans[0] != spans[1]:
            return False
        left, right = self._rows.distinct()
        up, down = ops.survivors(left < right), ops.survivors(left > right)
        if len(up) != len(down):
            return False
        there = ops.sort_rows((left[up], right[up]))
        back = ops.sort_rows((right[down], left[down]))
        return all(bool((a == b).all()) for a, b in zip(there, back, strict=True))

    @cached_property
    def loops(self) -> bool:
        """Whether a vertex has an edge to itself."""
        left, right = self._rows.as_they_are()
        return bool((left == right).any())

    @cached_property
    def skew(self) -> float:
        """About how many times longer a search for cliques takes in the order of keys than in the
        order of degrees: the ratio of the numbers of pairs of higher neighbours."""
        xp = self.ops.xp
        low, high = self.edges()
        a, b = self.ranking().ranks(low), self.ranking().ranks(high)
        apart = self.ops.survivors(a != b)
        pairs = []
        for sources in (a[apart], xp.minimum(a, b)[apart]):
            pairs.append(float((xp.bincount(sources).astype(xp.float64) ** 2).sum()))
        return pairs[0] / pairs[1] if pairs[1] else 1.0

    @cached_property
    def _ranking(self) -> DeviceRanking:
        return DeviceRanking(self.ops, *self.edges())

    def ranking(self) -> DeviceRanking:
        return self._ranking

    def edges(self) -> Columns:
        """Each edge once, from the lower to the higher key, in whichever direction it is stored."""
        ops, xp = self.ops, self.ops.xp
        left, right = self._rows.distinct()
        if self.symmetric:
            rows = ops.survivors(left <= right)
            return left[rows], right[rows]
        rows_once: Columns = ops.sort_rows((xp.minimum(left, right), xp.maximum(left, right)))
        return rows_once

    def _ranked_ends(self) -> Columns:
        """The lower and the higher rank of each edge."""
        xp = self.ops.xp
        a, b = (self.ranking().ranks(keys) for keys in self.edges())
        return xp.minimum(a, b), xp.maximum(a, b)

    def degrees(self, column: int, tests: Sequence[RowTest]) -> Array:
        """How many rows of `ranked` have each rank in a column."""
        xp = self.ops.xp
        count = len(self.ranking().labels)
        found: Array = xp.zeros(count, dtype=xp.int64)
        for ends in self._kept(tests):
            found += xp.bincount(ends[column], minlength=count)
        return found

    def _kept(self, tests: Sequence[RowTest]) -> list[Columns]:
        """The rows of `ranked`, unsorted: from lower to higher ranks, the reverse, and loops."""
        low, high = self._ranked_ends()
        apart, same = (self.ops.survivors(m) for m in (low != high, low == high))
        return [
            (sources[rows], targets[rows])
            for sources, targets, rows, sign in (
                (low, high, apart, -1),
                (high, low, apart, 1),
                (low, low, same, 0),
            )
            if passes(sign, tests)
        ]

    def ranked(self, tests: Sequence[RowTest]) -> Columns:
        """Both directions of every edge as ranks, sorted; only rows that pass comparisons of the
        two."""
        xp = self.ops.xp
        parts = self._kept(tests)
        if not parts:
            return xp.empty(0, dtype=xp.int32), xp.empty(0, dtype=xp.int32)
        bits = len(self.ranking().labels).bit_length()
        packed = xp.sort(xp.concatenate([a.astype(xp.int64) << bits | b for a, b in parts]))
        return (packed >> bits).astype(xp.int32), (packed & ((1 << bits) - 1)).astype(xp.int32)

    @property
    def nbytes(self) -> int:
        return self._ranking.nbytes if "_ranking" in vars(self) else 0


def _range(ops: DeviceOps, left: Array, right: Array) -> tuple[int, int]:
    spans = ops.spans((left, right))
    return min(low for low, _ in spans), max(high for _, high in spans)
