"""Estimates by sampled walks: a systematic sample of the bindings of each set of variables.

A sample is extended by a variable: from all values that would be tried for its rows a systematic
sample is taken, so that hubs have their weight, and values that all atoms contain are kept. Nothing
is random: the same pattern over the same data gives the same estimates. So samples are cached with
the lists that they begin with, and searches over the same relations share them. The cache keeps no
relation alive: samples have arrays of their own, and weak references to the lists they came from.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from operator import ge, gt, le, lt, ne
from typing import Any, NamedTuple, TypeVar
from weakref import ref

import numpy as np

from gdatalog.planner.order.pattern import PatternAtom, QueryPattern, bits
from gdatalog.records import dataclass
from gdatalog.storage.degrees import AdjacencyLists
from gdatalog.storage.table import Array

TAKEN = 256  # values tried for each sample
MOST_KEPT = 512  # samples and lengths kept with lists
Value = TypeVar("Value")


class Cache:
    """A cache of samples and lengths. `size`: the entries of all caches that share first lists."""

    __slots__ = ("found", "size")

    def __init__(self, size: list[int] | None = None) -> None:
        self.found: dict[Hashable, tuple[Any, list[Any]]] = {}
        self.size = [0] if size is None else size

    def kept(self, key: Hashable, used: Sequence[Any], make: Callable[[], Value]) -> Value:
        """The value of a key; calls `make` if there is none. `used`: the lists and arrays whose
        identities are part of the key."""
        found = self.found.get(key)
        if found is None or any(each() is None for each in found[1]):
            found = make(), [ref(each) for each in used]
            if key in self.found or self.size[0] < MOST_KEPT:
                self.size[0] += key not in self.found
                self.found[key] = found
        value: Value = found[0]
        return value


def cache_of(lists: AdjacencyLists | None) -> Cache:
    """The cache of samples that begin with some lists; a new one once it is full."""
    if lists is None:
        return Cache()
    cache: Cache | None = lists.picked.get("samples")
    if cache is None or cache.size[0] >= MOST_KEPT:
        cache = lists.picked["samples"] = Cache()
    return cache


class Sample:
    """Some bindings of variables, a column for each in the order in which they were bound; each
    stands for `weight` bindings: a number, or an array. `cache`: values computed from it."""

    __slots__ = ("cache", "columns", "count", "rows", "weight", "weights")

    def __init__(self, weight: Any, columns: Sequence[Array], beside: Cache) -> None:
        self.weight = weight
        self.columns = columns
        self.cache = Cache(beside.size)
        self.count = len(columns[0])
        self.weights: Array = np.full(self.count, weight, dtype=np.float64)
        self.rows = float(self.weights.sum())


@dataclass(slots=True)
class Lengths:
    """For each row of a sample: the start and length of the shortest list of a variable's values,
    in the children of the lists at a position of several; and how many values all bindings have."""

    starts: Array
    lengths: Array
    at: int
    tried: float = 0.0


# An atom with a bound variable and one more: the position of the bound one in the sample, and lists
# by either; `reaches`: by the bound one.
class Edge(NamedTuple):
    place: int
    lists: AdjacencyLists
    reaches: bool


class Sampler:
    """Samples of one pattern's sets of variables."""

    def __init__(self, pattern: QueryPattern, values: bool = False, mixed: bool = False) -> None:
        """`values`: walk lists of values where lists of ranks do not exist. `mixed`: also relations
        with lists of one column only; and as if tables whose rows are assumed had all rows."""
        self.pattern = pattern
        self.mixed = mixed
        self._atoms = [atom for atom in pattern.atoms if not (mixed and atom.size.assumed)]
        self.held = 0  # variables of atoms
        self._lists: dict[tuple[int, int], AdjacencyLists] = {}
        self._sets: dict[int, Array] = {}
        self._samples: dict[int, Sample | None] = {}
        self._order: dict[int, tuple[int, ...]] = {}  # by set: its variables as a sample binds them
        self._edges: dict[tuple[int, int], list[Edge]] = {}
        self._lengths: dict[tuple[int, int], Lengths | None] = {}
        self._holding = [
            [atom for atom in self._atoms if atom.mask >> at & 1]
            for at in range(len(pattern.names))
        ]
        self.ranks = {at: cut.ranks for at, cut in pattern.ranges.items() if cut.ranks is not None}
        self.usable = self._prepare(True) or (values and self._prepare(False))

    def _prepare(self, ranked: bool) -> bool:
        """Finds the lists to walk; False if too many do not exist."""
        pattern = self.pattern
        held = 0
        self._lists.clear()
        for atom in self._atoms:
            held |= atom.mask
        computed = sum([1 << at for at in {target for target, _ in pattern.equations}])
        if pattern.given or (pattern.computed | computed) & held:
            return False
        self.held = held
        for atom in self._atoms:
            if atom.fixed or not 1 <= len(atom.columns) <= 2 or not atom.size.rows:
                return False
            lists = {at: atom.lists(at, ranked) for at in atom.columns}
            there = {(id(atom), at): some for at, some in lists.items() if some is not None}
            self._lists.update(there)
            one_way = self.mixed or (atom.ranked and ranked)
            if len(there) == len(lists) or (there and one_way):
                continue
            rows = None if len(atom.columns) == 2 else atom.size.set()
            if rows is None:
                return False
            self._sets[id(atom)] = rows
        return True

    # --------------------------------------------------------------------------------- samples

    def sample(self, bound: int) -> Sample | None:
        """A sample of the bindings of connected variables."""
        bound &= self.held
        if not bound:
            return None
        if bound not in self._samples:
            if bound & (bound - 1) == 0:
                (at,) = self._order[bound] = bits(bound)
                self._samples[bound] = self._first(at)
            else:
                self._samples[bound] = self._last(bound)
        return self._samples[bound]

    def _first(self, at: int) -> Sample | None:
        """Values of one variable that all its atoms contain."""
        every = [self._values(atom, at) for atom in self._holding[at]]
        values = [each for each in every if each is not None]
        if not values:
            return None
        atoms = self._holding[at]
        lists = (self._lists.get((id(atom), at)) for atom in atoms)
        cache = cache_of(next(filter(None, lists), None))
        key, used = (self.ranks.get(at), self._contains(atoms, at)), self._used(atoms, at)
        smallest = min(values, key=len)
        return cache.kept(key, used, lambda: self._of_values(at, smallest, cache))

    def _of_values(self, at: int, values: Array, cache: Cache) -> Sample:
        taken, weight = self._by_degree(at, values)
        column = values[taken]
        keep = self._in_range(at, column)
        for atom in self._holding[at]:
            keep &= self._among(atom, at, column)
        if not keep.any():  # none in the sample
            return Sample(len(values) / max(1, len(column)), (column[:0],), cache)
        return Sample(weight[keep], (column[keep],), cache)

    def _by_degree(self, at: int, values: Array) -> tuple[Array, Array]:
        """Positions in `values`, and the weight of each: half of the sample is uniform, half is by
        list length, so that no hub is missed."""
        count = len(values)
        if at in self.ranks:
            low, high = self.ranks[at]
            first, end = np.searchsorted(values, low), np.searchsorted(values, high, "right")
            end = max(first, end)  # bounds may contradict each other
            if end - first <= TAKEN:
                return np.arange(first, end), np.ones(end - first)
        if count <= TAKEN:
            return np.arange(count), np.ones(count)
        own = [self._lists.get((id(atom), at)) for atom in self._holding[at]]
        its = {id(each): each for each in own if each is not None and each.values is values}
        lists = [*its.values()]
        cache = cache_of(lists[0] if lists else None)
        return cache.kept(tuple(its), lists, lambda: _picked(count, lists))

    def _last(self, bound: int) -> Sample | None:
        """A sample, extended by the cheapest last variable."""
        best: tuple[float, int] | None = None
        for at in bits(bound):
            if self.pattern.behind[at] & bound:
                continue
            tried = self.tried(at, bound & ~(1 << at))
            if tried is not None and (best is None or tried < best[0] * (1 - 1e-9)):
                best = tried, at
        return None if best is None else self._wider(best[1], bound & ~(1 << best[1]))

    def _wider(self, at: int, rest: int) -> Sample:
        """A sample extended by a variable."""
        sample, lists = self._samples[rest], self._lengths[at, rest]
        assert sample is not None and lists is not None
        edges, order = self._near(at, rest), self._order[rest]
        self._order[rest | 1 << at] = *order, at
        # In a symmetric relation a value with a neighbour needs no further check.
        alike = {atom.source for atom in self._holding[at] if atom.mask & rest and atom.turned}
        others = [a for a in self._holding[at] if not a.mask & rest and a.source not in alike]
        tests = self._tests(at, order)
        key = tuple([(each.place, id(each.lists), each.reaches) for each in edges])
        used = [edge.lists for edge in edges] + self._used(others, at)
        children = [edge for edge in edges if edge.reaches][lists.at].lists.children

        def extended() -> Sample:
            weights = sample.weights
            ends: Any = (lists.lengths * weights).cumsum()
            taken, weight = _even(float(ends[-1]) if len(ends) else 0.0, int(lists.lengths.sum()))
            rows: Array = ends.searchsorted(taken, side="right")
            within = (taken - ends[rows]) / weights[rows] + lists.lengths[rows]
            last = lists.lengths[rows] - 1
            places = lists.starts[rows] + np.minimum(within.astype(np.int64), last).clip(0)
            values = children[places]
            keep = self._in_range(at, values)
            for place, holds in tests:
                keep &= holds(values, sample.columns[place][rows])
            for atom in others:
                keep &= self._among(atom, at, values)
            left: Array = keep.nonzero()[0]
            for edge in edges:
                if len(left):
                    left = left[_met(edge, sample, rows[left], values[left])]
            rows, values = rows[left], values[left]
            columns = [column[rows] for column in sample.columns]
            return Sample(weight, (*columns, values), sample.cache)

        what = key, self._contains(others, at), self.ranks.get(at), (*tests,)
        return sample.cache.kept(what, used, extended)

    def _near(self, at: int, rest: int) -> list[Edge]:
        """The atoms of a variable that have a bound variable, in the order in which these were
        bound, so that ties do not depend on the text or on names."""
        key = at, rest
        if key not in self._edges:
            order = self._order[rest]
            found = []
            for atom in self._holding[at]:
                if atom.mask & rest:
                    (parent,) = bits(atom.mask & rest)
                    lists = self._lists.get((id(atom), parent))
                    edge = Edge(
                        order.index(parent),
                        self._lists[id(atom), at] if lists is None else lists,
                        lists is not None,
                    )
                    found.append((edge.place, str(atom.source), edge))
            self._edges[key] = [edge for *_, edge in sorted(found, key=lambda each: each[:2])]
        return self._edges[key]

    def _tests(self, at: int, order: Sequence[int]) -> list[tuple[int, Any]]:
        """The comparisons of a variable's values with bound columns."""
        found: list[tuple[int, Any]] = []
        for (low, high), strict in self.pattern.below.items():
            if at in (low, high) and low + high - at in order:
                less, more = (lt, gt) if strict else (le, ge)
                found.append((order.index(low + high - at), less if low == at else more))
        for pair in self.pattern.unequal:
            found += [(order.index(other), ne) for other in pair if at in pair and other in order]
        return sorted(found, key=lambda test: (test[0], test[1].__name__))

    def _in_range(self, at: int, values: Array) -> Array:
        low, high = self.ranks.get(at, (0, 1 << 62))
        keep: Array = (values >= low) & (values <= high) if at in self.ranks else values == values
        return keep

    # -------------------------------------------------------------------------- one level more

    def tried(self, at: int, path: int) -> float | None:
        """The number of values tried for a variable over all bindings of the path."""
        lists = self.lengths(at, path)
        return None if lists is None else lists.tried

    def lengths(self, at: int, path: int) -> Lengths | None:
        """The shortest lists, if a bound variable leads to the variable."""
        path &= self.held
        key = at, path
        if key not in self._lengths:
            found = None
            near = any(atom.mask & path for atom in self._holding[at])
            sample = self.sample(path) if near else None
            if sample is not None and sample.count:
                edges = [edge for edge in self._near(at, path) if edge.reaches]
                what = tuple([(edge.place, id(edge.lists)) for edge in edges])
                if edges:
                    used = [edge.lists for edge in edges]
                    found = sample.cache.kept(what, used, lambda: _shortest(edges, sample))
            self._lengths[key] = found
        return self._lengths[key]

    # ------------------------------------------------------------------------------ look-ups

    def _values(self, atom: PatternAtom, at: int) -> Array | None:
        found = self._lists.get((id(atom), at))
        return self._sets.get(id(atom)) if found is None else found.values

    def _among(self, atom: PatternAtom, at: int, values: Array) -> Array:
        """Which values an atom contains."""
        mine = self._values(atom, at)
        if mine is None:
            return np.ones(len(values), dtype=np.bool_)
        places = np.minimum(np.searchsorted(mine, values), len(mine) - 1)
        found: Array = mine[places] == values
        lists = self._lists.get((id(atom), at))
        if lists is not None and atom.tests:
            found &= lists.ends[places] > lists.starts[places]
        return found

    def _used(self, atoms: Sequence[PatternAtom], at: int) -> list[Any]:
        """The lists and arrays that `_contains` names."""
        both = ((self._values(atom, at), self._lists.get((id(atom), at))) for atom in atoms)
        return [each for pair in both for each in pair if each is not None]

    def _contains(self, atoms: Sequence[PatternAtom], at: int) -> tuple[object, ...]:
        """A key for the values that atoms contain."""
        found = (
            (id(self._values(atom, at)), bool(atom.tests), id(self._lists.get((id(atom), at))))
            for atom in atoms
        )
        return tuple(dict.fromkeys(found))


def _shortest(edges: Sequence[Edge], sample: Sample) -> Lengths:
    best: Lengths | None = None
    for at, edge in enumerate(edges):
        lists, places = edge.lists, _placed(edge, sample)
        starts = lists.starts[places]
        mine = Lengths(starts, lists.ends[places] - starts, at)
        if best is None:
            best = mine
        elif edges[best.at].lists.children is lists.children:
            shorter = mine.lengths < best.lengths
            best = Lengths(
                np.where(shorter, mine.starts, best.starts),
                np.where(shorter, mine.lengths, best.lengths),
                best.at,
            )
        elif mine.lengths.sum() < best.lengths.sum():
            best = mine
    assert best is not None
    best.tried = float((best.lengths * sample.weights).sum())
    return best


def _placed(edge: Edge, sample: Sample) -> Array:
    """The position of each row's value among the values that have lists."""
    column, lists = sample.columns[edge.place], edge.lists
    key = edge.place, id(lists), "placed"
    return sample.cache.kept(key, [lists], lambda: lists.values.searchsorted(column))


def _met(edge: Edge, sample: Sample, rows: Array, values: Array) -> Array:
    """Which values an atom contains beside its bound variable, by lists of either column."""
    lists = edge.lists
    if edge.reaches:
        return _within(lists, _placed(edge, sample)[rows], values)
    places = np.minimum(lists.values.searchsorted(values), len(lists.values) - 1)
    found = _within(lists, places, sample.columns[edge.place][rows])
    found &= lists.values[places] == values
    return found


def _picked(count: int, lists: list[AdjacencyLists]) -> tuple[Array, Array]:
    """Positions of values with these lists, and the weight of each."""
    shares = np.full(count, 1.0 / count)
    for each in lists:
        lengths = each.ends - each.starts
        shares += lengths / max(1, int(lengths.sum())) / len(lists)
    ends = shares.cumsum()
    found = np.searchsorted(ends, (np.arange(TAKEN) + 0.5) * (ends[-1] / TAKEN))
    taken, times = np.unique(found, return_counts=True)
    weight = times / shares[taken]
    return taken, weight * (count / weight.sum())


def _even(whole: float, places: int) -> tuple[Array, float]:
    """Evenly spaced points, at most as many as there are places, and the weight of each."""
    taken = min(TAKEN, places)
    share = whole / max(1, taken)
    return (np.arange(taken) + 0.5) * share, share


def _within(lists: AdjacencyLists, parents: Array, values: Array) -> Array:
    """Which values are in their parents' lists, by a vectorised binary search."""
    first, last = lists.starts[parents], lists.ends[parents] - 1
    children = lists.children
    at = first - 1  # the last entry that is known to be at most the value
    step = 1 << int((last - first + 1).max(initial=0)).bit_length() >> 1
    while step:
        further = np.minimum(at + step, last)
        at = np.where(children[further] <= values, further, at)
        step >>= 1
    found: Array = (at >= first) & (children[at] == values)
    return found
