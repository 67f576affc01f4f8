"""A binary relation over one type as a graph, with its vertices ranked by degree.

A pattern that occurs once in each order of its vertices need only be searched in one order. The
order by degree is the best: each vertex then has few neighbours of higher rank, whatever its
degree. So ranks stand for vertices, and tries are built of ranks.

Degrees are compared by their powers of two: vertices of similar degree stay in the order of their
keys, because neighbours often have close keys, and data that is close in memory is read faster.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TypeVar

import numpy as np

from gdatalog.cancellation import current_watch
from gdatalog.storage.degrees import AdjacencyLists
from gdatalog.storage.on_device import brought
from gdatalog.storage.row_store import RowStore
from gdatalog.storage.row_tests import COMPARE
from gdatalog.storage.rows import DENSE, Columns, sorted_set
from gdatalog.storage.sorting import sort_rows
from gdatalog.storage.spill import Spill, gathered
from gdatalog.storage.table import Array
from gdatalog.storage.threads import ahead, cores, sort_values
from gdatalog.storage.trie import RowTest, Tests

Made = TypeVar("Made")

STRETCH = 1 << 20  # edges in one batch
PIECE = 64  # bytes of memory for an edge of a batch
TURNED = 32  # bytes of memory to reverse and sort an edge


class Ranking:
    """The vertices of a graph, ordered by the powers of two of their degrees, then by keys."""

    def __init__(self, left: Array, right: Array) -> None:
        """`left` and `right`: the edges, each once, in either direction.

        `degrees`: of each rank; `loops`: the ranks with a loop; `pairs_by_key`: the number of pairs
        of edges with the same left end.
        """
        low, high = _range(left, right)
        size = high - low + 1
        self._least = low
        self._vertices: Array | None = None
        if size > DENSE * max(1, len(left)):
            self._vertices = sorted_set(np.concatenate([left, right]))
            size = len(self._vertices)
        up, down = np.zeros((2, size), dtype=np.int64)
        looped = [np.empty(0, dtype=np.int64)]

        def counted(some: Array, others: Array) -> tuple[Array, Array, Array]:
            first, second = self._places(some), self._places(others)
            counts = (np.bincount(places, minlength=size) for places in (first, second))
            return (*counts, first[first == second])

        for firsts, seconds, same in _of_pieces(counted, left, right, size):
            up += firsts
            down += seconds
            looped.append(same)
        loops = np.concatenate(looped)
        up[loops] -= 1  # a loop counts as one neighbour
        self.pairs_by_key = _pairs(up)
        up += down
        self._order(up, np.promote_types(left.dtype, right.dtype))
        self.loops = self._ranks[loops]

    @staticmethod
    def of_degrees(vertices: Array, degrees: Array) -> Ranking:
        """Ranks vertices, which ascend, by their numbers of neighbours."""
        ranking = Ranking.__new__(Ranking)
        ranking._least, ranking._vertices = 0, vertices
        ranking.loops, ranking.pairs_by_key = np.empty(0, dtype=np.int32), 0.0
        ranking._order(degrees, vertices.dtype)
        return ranking

    def _order(self, degrees: Array, dtype: np.dtype[np.generic]) -> None:
        """Assigns ranks by the degree of each place."""
        size = len(degrees)
        present = np.flatnonzero(degrees)
        bits = size.bit_length()
        powers = np.frexp(degrees[present].astype(np.float64))[1].astype(np.int64)
        ordered = powers << bits | present
        ordered = sort_values(ordered)
        places = ordered & ((1 << bits) - 1)
        self._ranks = np.empty(size, dtype=np.int32)
        self._ranks[places] = np.arange(len(places), dtype=np.int32)
        keys = places + self._least if self._vertices is None else self._vertices[places]
        self.labels: Array = keys.astype(dtype)
        self.degrees: Array = _narrow(degrees[places])

    def _places(self, keys: Array) -> Array:
        if self._vertices is not None:
            return np.searchsorted(self._vertices, keys)
        return keys.astype(np.int64) - self._least

    def ranks(self, keys: Array) -> Array:
        """The ranks of vertices."""
        return self._ranks[self._places(keys)]

    @property
    def nbytes(self) -> int:
        own = 0 if self._vertices is None else self._vertices.nbytes
        return self.labels.nbytes + self._ranks.nbytes + self.degrees.nbytes + own


class RankedEdges:
    """The edges between ranks, on any device."""

    def __init__(self) -> None:
        self._paths: dict[object, float] = {}
        self.rank_lists: AdjacencyLists | None = None

    @contextmanager
    def rank_walks(self) -> Iterator[None]:
        """Builds `rank_lists`, the neighbours of each rank on the host, for random walks within
        this context; does nothing if there is no memory for them."""
        account, needed = current_watch().account, TURNED * int(self.degrees(0, ()).sum())
        if self.rank_lists is not None or needed > account.spare():
            yield
            return
        with account.taking("lists of ranks", needed):
            self.rank_lists = AdjacencyLists.of(*map(brought, self.ranked(())))
            try:
                yield
            finally:
                self.rank_lists = None

    def list_length(self, column: int, tests: Tests, bounds: tuple[tuple[str, int], ...]) -> float:
        """The expected length of a list at a rank that was reached by an edge, within bounds."""
        key = column, tests, bounds
        if key not in self._paths:
            lengths = brought(self.degrees(column, tests)).astype(np.float64)
            for op, bound in bounds:
                lengths = np.where(COMPARE[op](np.arange(len(lengths)), bound), lengths, 0.0)
            self._paths[key] = float((lengths**2).sum() / max(1.0, lengths.sum()))
        return self._paths[key]

    @property
    def degree_steps(self) -> dict[int, int]:
        """For each power of two: the first rank with at least such a degree."""
        powers = np.frexp(brought(self.degrees(0, ())).astype(np.float64))[1]
        steps = np.flatnonzero(powers[1:] > powers[:-1]) + 1
        return {1 << int(powers[step] - 1): int(step) for step in steps}

    def degrees(self, column: int, tests: Tests, /) -> Array:
        """How many rows of `ranked` have each rank in a column."""
        raise NotImplementedError

    def ranked(self, tests: Sequence[RowTest], /) -> Columns:
        """Both directions of every edge as ranks, sorted; only rows that pass comparisons of the
        two."""
        raise NotImplementedError

    def paths(self, ways: tuple[tuple[int, Tests], ...]) -> float:
        """How many combinations of rows of `ranked` have one rank in common. `ways`: the column
        with that rank, and the tests, for each row of a combination."""
        found = self._paths.get(ways)
        if found is None:
            product: Array = np.ones(1)
            for at, (way, many) in enumerate(Counter(ways).items()):
                degrees = 1.0 * self.degrees(*way)
                for turn in range(many):  # a GPU would compile a power
                    product = product * degrees if at or turn else degrees
            found = self._paths[ways] = float(product.sum())
        return found


class EdgeStatistics(RankedEdges):
    """Properties of a relation's rows as edges, each computed on first use."""

    def __init__(self, store: RowStore) -> None:
        """`store` has the relation's rows, which are sorted on first use."""
        super().__init__()
        self._store = store
        self._in_files: Columns | None = None  # each edge once
        self._ranking: Ranking | None = None
        self._mirrored: bool | None = None
        self._symmetric: bool | None = None
        self._loops: bool | None = None
        self._skew: float | None = None
        self._neighbours: Array | None = None  # see `_higher`

    @property
    def left(self) -> Array:
        return self._store.sorted()[0]

    @property
    def right(self) -> Array:
        return self._store.sorted()[1]

    @property
    def mirrored(self) -> bool:
        """Whether each column may have the values of the other, as in a symmetric relation. Tested
        without a sort."""
        if self._mirrored is None:
            self._mirrored = self._store.mirrored()
        return self._mirrored

    @property
    def symmetric(self) -> bool:
        """Whether every edge (x, y) has its reverse (y, x)."""
        if self._symmetric is None:
            self._symmetric = self.mirrored and self._turned()
        return self._symmetric

    @property
    def known_symmetric(self) -> bool:
        """Whether the relation is known to be symmetric; computes nothing."""
        return self._symmetric is True

    def _turned(self) -> bool:
        """Whether the edges from higher to lower keys, reversed, are those from lower to higher
        keys."""
        spill = current_watch().account.spill_for(TURNED * len(self.left))
        up, down = self._where(operator.lt, spill), self._where(operator.gt, spill)
        if len(up[0]) != len(down[0]):
            return False
        turned = sort_rows(down[::-1])
        return all(
            bool((mine == its).all())
            for one, other in zip(up, turned, strict=True)
            for mine, its in _stretches(one, other)
        )

    def _where(self, holds: Callable[[Array, Array], Array], spill: Spill | None) -> Columns:
        """The edges between whose ends a comparison holds."""

        def kept(a: Array, b: Array) -> Columns:
            marks = holds(a, b)
            return a[marks], b[marks]

        left, right = self.left, self.right
        return gathered(_of_pieces(kept, left, right), (left.dtype, right.dtype), spill)

    @property
    def loops(self) -> bool:
        """Whether a vertex has an edge to itself."""
        if self._loops is None:
            left, right = self._store.as_they_are()
            self._loops = bool((left == right).any())
        return self._loops

    @property
    def skew(self) -> float:
        """The pairs of higher neighbours in the order of keys, relative to the order of degrees.

        About how many times longer a search for cliques takes in the order of keys.
        """
        if self._skew is None:
            edges = self._edges()
            ranking, by_degree = self.ranking(edges), _pairs(self._higher(edges))
            self._skew = ranking.pairs_by_key / by_degree if by_degree else 1.0
        return self._skew

    def _higher(self, edges: Columns | None = None) -> Array:
        """How many neighbours of higher rank each rank has."""
        if self._neighbours is None:
            ranking = self.ranking(edges)
            count = len(ranking.labels)
            found = np.zeros(count, dtype=np.int64)

            def lower(a: Array, b: Array) -> Array:
                return np.bincount(np.minimum(a, b), minlength=count)

            for some in self._of_ranked(lower, edges):
                found += some
            found[ranking.loops] -= 1
            self._neighbours = _narrow(found)
        return self._neighbours

    def ranking(self, edges: Columns | None = None) -> Ranking:
        """`edges`: what `_edges` returns, if it is at hand."""
        if self._ranking is None:
            self._ranking = Ranking(*(edges or self._edges()))
        return self._ranking

    def _edges(self) -> Columns:
        """Each edge once, from the lower to the higher key, in whichever direction it is stored."""
        left, right = self.left, self.right
        if self._in_files is not None:
            return self._in_files
        spill = current_watch().account.spill_for(2 * (left.nbytes + right.nbytes))
        if self.symmetric:
            found = self._where(operator.le, spill)
        else:
            ends = _of_pieces(_upwards, left, right)
            found = gathered(ends, [np.promote_types(left.dtype, right.dtype)] * 2, spill)
            if not any(
                all(bool(less(a, b).all()) for a, b in _stretches(left, right))
                for less in (operator.lt, operator.gt)
            ):  # an edge may have its reverse
                found = sort_rows(found)
        if spill is not None:
            self._in_files = found
        return found

    def _of_ranked(
        self, work: Callable[[Array, Array], Made], edges: Columns | None = None
    ) -> Iterable[Made]:
        """Calls `work` with the ranks of the edges' lower and higher keys, in batches."""
        ranking = self.ranking(edges)
        left, right = edges or self._edges()

        def ranked(low: Array, high: Array) -> Made:
            return work(ranking.ranks(low), ranking.ranks(high))

        return _of_pieces(ranked, left, right, len(ranking.labels))

    def degrees(self, column: int, tests: Sequence[RowTest]) -> Array:
        """How many rows of `ranked` have each rank in a column."""
        ranking, higher = self.ranking(), self._higher()
        found = np.zeros(len(higher), dtype=np.int64)
        if passes(-1 if column == 0 else 1, tests):
            found += higher
        if passes(1 if column == 0 else -1, tests):
            found += ranking.degrees
            found -= higher
            found[ranking.loops] -= 1
        if passes(0, tests):
            found[ranking.loops] += 1
        return found

    def ranked(self, tests: Sequence[RowTest]) -> Columns:
        """Both directions of every edge as ranks, sorted; only rows that pass comparisons of the
        two."""
        spill = current_watch().account.spill_for(TURNED * len(self.left))
        pieces = self._of_ranked(lambda a, b: list(_both_ways(a, b, tests)))
        return sort_rows(gathered(chain.from_iterable(pieces), (np.int32, np.int32), spill))

    @property
    def nbytes(self) -> int:
        ranking = 0 if self._ranking is None else self._ranking.nbytes
        higher = 0 if self._neighbours is None else self._neighbours.nbytes
        return ranking + higher


def _stretches(left: Array, right: Array, least: int = 0) -> list[Columns]:
    """Parts of two columns, each of at least `least` rows, except the last one."""
    step = max(STRETCH, least)
    found: list[Columns] = []
    for start in range(0, len(left), step):
        found.append((left[start : start + step], right[start : start + step]))
    return found


def _of_pieces(
    work: Callable[[Array, Array], Made], left: Array, right: Array, least: int = 0
) -> Iterable[Made]:
    """Calls `work` with the parts of two columns, in their order; several at once if there is
    memory."""
    pieces = _stretches(left, right, least)
    if len(pieces) < 2:
        return [work(*rows) for rows in pieces]
    length = max(STRETCH, least)
    most = current_watch().account.spare() // (PIECE * length)
    several = most > 1 and len(left) > length
    return ahead(lambda rows: work(*rows), pieces, several, min(most, cores()))


def _upwards(a: Array, b: Array) -> Columns:
    """Edges from their lower to their higher ends."""
    return np.minimum(a, b), np.maximum(a, b)


def _pairs(counts: Array) -> float:
    """The sum of squares."""
    return float((counts.astype(np.float64) ** 2).sum())


def _narrow(counts: Array) -> Array:
    return counts.astype(np.int32) if int(counts.max(initial=0)) >> 31 == 0 else counts


def _both_ways(low: Array, high: Array, tests: Sequence[RowTest]) -> Iterator[Columns]:
    """Both directions of edges with these ends, unsorted; only rows that pass the tests."""
    low, high = np.minimum(low, high), np.maximum(low, high)
    loops = low == high
    for sources, targets, same, sign in (
        (low, high, False, -1),
        (high, low, False, 1),
        (low, low, True, 0),
    ):
        if passes(sign, tests):
            rows = np.flatnonzero(loops == same)
            yield sources[rows], targets[rows]


def passes(sign: int, tests: Sequence[RowTest]) -> bool:
    """Whether tests between two columns hold if their difference has this sign."""
    return all(_holds(sign if left < right else -sign, op) for left, op, right in tests)


def _holds(sign: int, op: str) -> bool:
    """Whether `a op b` holds if a - b has this sign."""
    if op == "!=":
        return sign != 0
    if sign == 0:
        return "=" in op
    return ("<" in op) if sign < 0 else (">" in op)


def _range(left: Array, right: Array) -> tuple[int, int]:
    if len(left) == 0:
        return 0, 0
    return int(min(left.min(), right.min())), int(max(left.max(), right.max()))
