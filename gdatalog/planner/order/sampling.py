"""Estimates by sampled walks: a systematic sample of the bindings of each set of variables.

A sample is extended by a variable: from all values that would be tried for its rows a systematic
sample is taken, so that hubs have their weight, and values that all atoms contain are kept. Nothing
is random: the same pattern over the same data gives the same estimates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gdatalog.planner.order import ListSizes
from gdatalog.planner.order.pattern import PatternAtom, QueryPattern, bits
from gdatalog.records import dataclass

TAKEN = 256  # values tried for each sample
Array = Any


class Sample:
    """Some bindings of a set of variables, each standing for `weight` bindings: a number, or an
    array."""

    __slots__ = ("columns", "count", "rows", "weight", "weights")

    def __init__(self, weight: Any, columns: dict[int, Array], count: int) -> None:
        self.weight = weight
        self.columns = columns
        self.count = count
        self.weights: Array = np.full(count, weight, dtype=np.float64)
        self.rows = float(self.weights.sum())


@dataclass(slots=True)
class Lengths:
    """For each row of a sample: the start and length of the shortest list of a variable's
    values."""

    starts: Array
    lengths: Array
    children: Array


class Sampler:
    """Samples of one pattern's sets of variables."""

    def __init__(self, pattern: QueryPattern, values: bool = False) -> None:
        """`values`: walk lists of values where lists of ranks do not exist."""
        self.pattern = pattern
        self.held = 0  # variables of atoms
        self._lists: dict[tuple[int, int], ListSizes] = {}
        self._sets: dict[int, Array] = {}
        self._places: dict[tuple[int, int, int], Array] = {}
        self._samples: dict[int, Sample | None] = {}
        self._lengths: dict[tuple[int, int], Lengths | None] = {}
        self._tried: dict[tuple[int, int], float | None] = {}
        self._holding = [
            [atom for atom in pattern.atoms if atom.mask >> at & 1]
            for at in range(len(pattern.names))
        ]
        self.ranks = {at: cut.ranks for at, cut in pattern.ranges.items() if cut.ranks is not None}
        self.usable = self._prepare(True) or (values and self._prepare(False))

    def _prepare(self, ranked: bool) -> bool:
        """Finds the lists to walk; False if too many do not exist."""
        pattern = self.pattern
        held = 0
        self._lists.clear()
        for atom in pattern.atoms:
            held |= atom.mask
        computed = sum(1 << at for at in {target for target, _ in pattern.equations})
        if pattern.given or (pattern.computed | computed) & held:
            return False
        self.held = held
        for atom in pattern.atoms:
            if atom.fixed or not 1 <= len(atom.columns) <= 2 or not atom.size.rows:
                return False
            lists = {at: atom.lists(at, ranked) for at in atom.columns}
            there = {(id(atom), at): some for at, some in lists.items() if some is not None}
            self._lists.update(there)
            if len(there) == len(lists) or (there and atom.ranked and ranked):
                continue
            if len(atom.columns) == 2 or atom.size.set() is None:
                return False
            self._sets[id(atom)] = atom.size.set()
        return True

    # --------------------------------------------------------------------------------- samples

    def sample(self, bound: int) -> Sample | None:
        """A sample of the bindings of connected variables."""
        bound &= self.held
        if not bound:
            return None
        if bound not in self._samples:
            if bound & (bound - 1) == 0:
                (at,) = bits(bound)
                self._samples[bound] = self._first(at)
            else:
                self._samples[bound] = self._last(bound)
        return self._samples[bound]

    def _first(self, at: int) -> Sample | None:
        """Values of one variable that all its atoms contain."""
        every = [self._values(atom, at) for atom in self._holding[at]]
        known = [values for values in every if values is not None]
        if len(known) < len(every):
            return None
        values = min(known, key=len)
        taken, weight = self._by_degree(at, values)
        column = values[taken]
        keep = self._in_range(at, column)
        for atom in self._holding[at]:
            keep &= self._among(atom, at, column)
        if not keep.any():  # none in the sample
            return Sample(len(values) / max(1, len(column)), {at: column[:0]}, 0)
        return Sample(weight[keep], {at: column[keep]}, int(np.count_nonzero(keep)))

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
        picked = lists[0].picked if lists else {}
        if tuple(its) not in picked:
            picked[tuple(its)] = lists, *_picked(count, lists)  # kept, so that ids stay valid
        _, taken, weight = picked[tuple(its)]
        return taken, weight

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
        sample, lists = self._samples[rest], self._lengths[at, rest]
        assert sample is not None and lists is not None
        weights = sample.weights
        ends: Any = (lists.lengths * weights).cumsum()
        taken, weight = _even(float(ends[-1]) if len(ends) else 0.0, int(lists.lengths.sum()))
        rows: Array = np.searchsorted(ends, taken, side="right")
        within = (taken - ends[rows]) / weights[rows] + lists.lengths[rows]
        places = lists.starts[rows] + np.clip(within.astype(np.int64), 0, lists.lengths[rows] - 1)
        values = lists.children[places]
        keep = self._holds(at, rest, sample, rows, values)
        near = [atom for atom in self._holding[at] if atom.mask & rest]
        alike = {atom.source for atom in near if atom.turned}
        for atom in self._holding[at]:
            # In a symmetric relation a value with a neighbour needs no further check.
            if not atom.mask & rest and atom.source not in alike:
                keep &= self._among(atom, at, values)
        left: Array = np.flatnonzero(keep)
        for atom in near:
            if len(left):
                met = self._met(atom, at, rest, sample, rows[left], values[left])
                left = np.compress(met, left)
        rows, values = rows[left], values[left]
        columns = {other: column[rows] for other, column in sample.columns.items()}
        columns[at] = values
        return Sample(weight, columns, len(values))

    def _met(
        self, atom: PatternAtom, at: int, rest: int, sample: Sample, rows: Array, values: Array
    ) -> Array:
        """Which values an atom contains beside its bound variable, by lists of either column."""
        (parent,) = bits(atom.mask & rest)
        lists = self._lists.get((id(atom), parent))
        if lists is not None:
            return _within(lists, self._placed(lists, parent, rest, sample)[rows], values)
        lists = self._lists[id(atom), at]
        places = np.minimum(np.searchsorted(lists.values, values), len(lists.values) - 1)
        found = _within(lists, places, sample.columns[parent][rows])
        return found & (lists.values[places] == values)

    def _holds(self, at: int, rest: int, sample: Sample, rows: Array, values: Array) -> Array:
        """Which values satisfy the comparisons with ranks, and with bound variables."""
        keep = self._in_range(at, values)
        for (low, high), strict in self.pattern.below.items():
            if at in (low, high) and rest >> (low + high - at) & 1:
                a = values if low == at else sample.columns[low][rows]
                b = values if high == at else sample.columns[high][rows]
                keep &= a < b if strict else a <= b
        for pair in self.pattern.unequal:
            if at in pair:
                (other,) = pair - {at}
                if rest >> other & 1:
                    keep &= values != sample.columns[other][rows]
        return keep

    def _in_range(self, at: int, values: Array) -> Array:
        low, high = self.ranks.get(at, (0, 1 << 62))
        keep: Array = (values >= low) & (values <= high) if at in self.ranks else values == values
        return keep

    # -------------------------------------------------------------------------- one level more

    def tried(self, at: int, path: int) -> float | None:
        """The number of values tried for a variable over all bindings of the path."""
        key = at, path & self.held
        if key not in self._tried:
            lists, sample = self.lengths(*key), self.sample(path)
            found = None
            if lists is not None and sample is not None:
                found = float((lists.lengths * sample.weights).sum())
            self._tried[key] = found
        return self._tried[key]

    def lengths(self, at: int, path: int) -> Lengths | None:
        """The shortest lists, if a bound variable leads to the variable."""
        path &= self.held
        key = at, path
        if key not in self._lengths:
            near = [
                atom
                for atom in self._holding[at]
                if atom.mask & path
                and any((id(atom), one) in self._lists for one in bits(atom.mask & path))
            ]
            sample = self.sample(path) if near else None
            found = self._shortest(near, path, sample) if sample and sample.count else None
            self._lengths[key] = found
        return self._lengths[key]

    def _shortest(self, near: list[PatternAtom], path: int, sample: Sample) -> Lengths:
        best: Lengths | None = None
        # In the order in which the parents were bound, so that ties do not depend on the text or on
        # names.
        bound = list(sample.columns)
        near = sorted(near, key=lambda a: (bound.index(*bits(a.mask & path)), str(a.source)))
        for atom in near:
            (parent,) = bits(atom.mask & path)
            lists = self._lists[id(atom), parent]
            places = self._placed(lists, parent, path, sample)
            starts = lists.starts[places]
            mine = Lengths(starts, lists.ends[places] - starts, lists.children)
            if best is None:
                best = mine
            elif best.children is mine.children:
                shorter = mine.lengths < best.lengths
                best = Lengths(
                    np.where(shorter, mine.starts, best.starts),
                    np.where(shorter, mine.lengths, best.lengths),
                    best.children,
                )
            elif mine.lengths.sum() < best.lengths.sum():
                best = mine
        assert best is not None
        return best

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
        found = mine[places] == values
        lists = self._lists.get((id(atom), at))
        if lists is not None and atom.tests:
            found &= lists.ends[places] > lists.starts[places]
        return found

    def _placed(self, lists: ListSizes, at: int, bound: int, sample: Sample) -> Array:
        """The position of each row's value among the values that have lists."""
        key = id(lists), at, bound
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = np.searchsorted(lists.values, sample.columns[at])
        return found


def _picked(count: int, lists: list[ListSizes]) -> tuple[Array, Array]:
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


def _within(lists: ListSizes, parents: Array, values: Array) -> Array:
    """Which values are in their parents' lists, by a vectorised binary search."""
    low, high = lists.starts[parents], lists.ends[parents]
    last = high - 1
    children = lists.children
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        less = children[np.minimum(middle, last)] < values
        less &= middle < high
        low = np.where(less, middle + 1, low)
        high = np.where(less, high, middle)
    found: Array = (low <= last) & (children[np.minimum(low, last)] == values)
    return found
