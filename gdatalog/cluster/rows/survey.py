"""A survey of a relation's parts: a sketch of each part, merged in the driver."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np

from gdatalog.records import dataclass, replace
from gdatalog.storage.degrees import Degrees
from gdatalog.storage.remote import Survey
from gdatalog.storage.rows import (
    Columns,
    concatenate,
    firsts,
    sorted_set,
)
from gdatalog.storage.table import Array
from gdatalog.storage.value_counts import runs_of

SAMPLE = 100_000  # sampled rows of all parts together
VALUES = 2048  # hashes of each column in a sketch: estimates distinct values within 3 %
STRETCH = 1 << 16  # rows hashed at a time: they fit into a cache
ALL = float(1 << 64)

_SEEDS = (0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F)


@dataclass(frozen=True, slots=True, eq=False)
class DistinctSketch:
    """The hashes below `limit` of a column's values, ascending."""

    hashes: Array
    limit: float

    @property
    def count(self) -> int:
        """The estimated number of distinct values."""
        return round(len(self.hashes) / (self.limit / ALL))

    @staticmethod
    def of(column: Array) -> DistinctSketch:
        # A sample of hashes, twice as many as a sketch keeps if all values are distinct.
        share = 2 * VALUES / max(1, len(column))
        hashes = mixed(column, _SEEDS[0]) if share < 1 else column
        while share < 1:
            some = sorted_values(hashes[hashes < np.uint64(share * ALL)])
            if len(some) >= VALUES:
                return DistinctSketch(some, float(np.uint64(share * ALL)))
            share *= 8
        hashes = np.sort(mixed(sorted_set(column), _SEEDS[0]))
        if len(hashes) <= VALUES:
            return DistinctSketch(hashes, ALL)
        return DistinctSketch(hashes[:VALUES], float(hashes[VALUES]))

    @staticmethod
    def together(parts: Sequence[DistinctSketch]) -> DistinctSketch:
        limit = min(part.limit for part in parts)
        hashes = sorted_values(np.concatenate([part.hashes for part in parts]))
        return DistinctSketch(hashes if limit == ALL else hashes[hashes < np.uint64(limit)], limit)


@dataclass(frozen=True, slots=True, eq=False)
class PartSketch:
    """The sketch of one part. `turned`: two sums of row hashes, minus the sums for the rows with
    swapped columns. If every edge occurs in both directions, all parts together have sums of 0."""

    rows: int
    nbytes: int
    sample: Columns
    values: tuple[DistinctSketch, ...]
    spans: tuple[tuple[int, int], ...]
    rises: frozenset[tuple[int, int]]
    loops: bool
    turned: tuple[int, ...]

    def with_keys(self, at: int, keys: Array) -> PartSketch:
        """The sketch after a column's codes, which were places in `keys`, became keys."""
        sample, values, spans = list(self.sample), list(self.values), list(self.spans)
        sample[at], values[at] = keys[sample[at]], DistinctSketch.of(keys)
        spans[at] = int(keys.min()), int(keys.max())
        return replace(self, sample=tuple(sample), values=tuple(values), spans=tuple(spans))


def sketch_of(rows: Columns, start: int, step: int) -> PartSketch:
    """Sketches rows. `start`, `step`: the first row of the sample, and the distance to the next."""
    pairs = permutations(range(len(rows)), 2)
    edges = len(rows) == 2
    return PartSketch(
        len(rows[0]),
        sum(column.nbytes for column in rows),
        tuple(column[start::step].copy() for column in rows),
        tuple(map(DistinctSketch.of, rows)),
        tuple((int(column.min()), int(column.max())) for column in rows),
        frozenset((a, b) for a, b in pairs if bool((rows[a] < rows[b]).all())),
        edges and bool((rows[0] == rows[1]).any()),
        tuple(_turned(rows, seed) for seed in _SEEDS) if edges else (),
    )


def survey_of(looks: Sequence[PartSketch], step: int) -> Survey:
    """Merges the sketches of all non-empty parts."""
    rows = sum(look.rows for look in looks)
    sample = concatenate([look.sample for look in looks])
    values = [
        DistinctSketch.together(parts)
        for parts in zip(*(look.values for look in looks), strict=True)
    ]
    distinct = tuple(min(few.count, rows) for few in values)
    spans = tuple(
        (min(low for low, _ in each), max(high for _, high in each))
        for each in zip(*(look.spans for look in looks), strict=True)
    )
    return Survey(
        sample,
        distinct,
        tuple(_degrees(*each, rows, step) for each in zip(sample, distinct, strict=True)),
        spans,
        frozenset.intersection(*(look.rises for look in looks)),
        any(look.loops for look in looks),
        len(spans) == 2 and _symmetric(looks, values, spans),
    )


def _degrees(sample: Array, distinct: int, rows: int, step: int) -> Degrees:
    counts = runs_of(np.sort(sample))
    return Degrees.of(counts) if step == 1 else Degrees.of_sample(counts, step, rows, distinct)


def _symmetric(
    looks: Sequence[PartSketch], values: Sequence[DistinctSketch], spans: Sequence[tuple[int, int]]
) -> bool:
    left, right = values
    alike = spans[0] == spans[1] and left.limit == right.limit
    return (
        alike
        and bool(np.array_equal(left.hashes, right.hashes))
        and not any(sum(each) % (1 << 64) for each in zip(*(k.turned for k in looks), strict=True))
    )


def _turned(rows: Columns, seed: int) -> int:
    found = 0
    for start in range(0, len(rows[0]), STRETCH):
        left, right = (column[start : start + STRETCH] for column in rows)
        found += int(_together(left, right, seed).sum()) - int(_together(right, left, seed).sum())
    return found % (1 << 64)


def _together(left: Array, right: Array, seed: int) -> Array:
    """A hash of each row that depends on the order of its columns."""
    return mixed(mixed(left, seed) + right.astype(np.int64).view(np.uint64), seed)


def mixed(keys: Array, seed: int) -> Array:
    """A 64-bit hash of each key, the same for all integer widths."""
    hashes: Array = keys.astype(np.int64).view(np.uint64) + np.uint64(seed)
    hashes ^= hashes >> np.uint64(30)
    hashes *= np.uint64(0xBF58_476D_1CE4_E5B9)
    hashes ^= hashes >> np.uint64(27)
    hashes *= np.uint64(0x94D0_49BB_1331_11EB)
    hashes ^= hashes >> np.uint64(31)
    return hashes


def sorted_values(hashes: Array) -> Array:
    """The distinct hashes, ascending."""
    ordered = np.sort(hashes)
    return ordered[firsts(ordered)]
