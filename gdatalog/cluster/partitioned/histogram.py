"""A census: how many rows lie where, by classes of keys so fine that any that are chosen later are
made of them.

Workers count the rows that they have; the counts add up. That, and some keys of each column, is
all that choosing shares needs to know of the rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

import numpy as np

from gdatalog.cluster.partitioned.layout import Dim, Layout
from gdatalog.cluster.partitioned.shares import Domain, Shares
from gdatalog.records import dataclass, replace
from gdatalog.storage.table import Array

FINE = 128  # classes of a domain in a census
MOST = 1 << 20  # numbers in the count of a source: with many dims, classes are fewer


@dataclass(frozen=True, slots=True)
class Histogram:
    """`rows`: of each source how many rows are in each combination of its dims' fine classes."""

    layout: Layout
    domains: tuple[Domain, ...]
    rows: tuple[Array, ...]
    row_bytes: tuple[int, ...]

    @property
    def total(self) -> int:
        """The bytes of all rows."""
        sizes = zip(self.rows, self.row_bytes, strict=True)
        return sum(int(rows.sum()) * each for rows, each in sizes)

    def weights(self, domain: int) -> Array:
        """How many bytes lie in each fine class of a domain, column by column added up."""
        found = np.zeros(self.domains[domain].classes)
        for dims, rows, size in zip(self.layout.dims, self.rows, self.row_bytes, strict=True):
            for axis, dim in enumerate(dims):
                if dim.domain == domain:
                    others = tuple(other for other in range(len(dims)) if other != axis)
                    found += rows.sum(axis=others) * size
        return found

    def restricted(self, names: Collection[str]) -> Histogram:
        """The same where no other variables are to be told apart than these."""
        return replace(self, layout=self.layout.restricted(names))

    def shares(self, starts: Sequence[Sequence[int]]) -> Shares:
        """The shares whose classes are runs of fine ones: of each domain the numbers of those
        that begin one, 0 being the first."""
        domains = tuple(
            Domain(tuple(fine.bounds[at - 1] for at in first[1:]), fine.span)
            for fine, first in zip(self.domains, starts, strict=True)
        )
        rows = []
        for dims, counts in zip(self.layout.dims, self.rows, strict=True):
            for axis, dim in enumerate(dims):
                counts = np.add.reduceat(counts, starts[dim.domain], axis=axis)
            rows.append(counts)
        return Shares(self.layout, domains, tuple(rows), self.row_bytes)


def fine(layout: Layout, samples: Sequence[Sequence[Array]]) -> tuple[Domain, ...]:
    """The fine classes of a layout's domains.

    `samples`: some keys of each dim of each source, as many in proportion of each column.
    """
    most = max((len(dims) for dims in layout.dims), default=1)
    classes = min(FINE, max(2, int(MOST ** (1 / max(1, most)))))
    keys: list[list[Array]] = [[] for _ in range(layout.domains)]
    for dims, columns in zip(layout.dims, samples, strict=True):
        for dim, column in zip(dims, columns, strict=True):
            keys[dim.domain].append(column)
    return tuple(_domain(np.concatenate(each), classes) if each else Domain() for each in keys)


def _domain(keys: Array, classes: int) -> Domain:
    """Classes of about as many of the keys each; a key that alone is as many has its own."""
    if len(keys) == 0:
        return Domain()
    keys = np.sort(keys)
    places = np.linspace(0, len(keys), classes, endpoint=False).astype(np.int64)
    firsts, often = np.unique(keys[places], return_counts=True)
    heavy = firsts[often > 1].astype(np.int64)
    bounds = np.unique(np.concatenate([firsts.astype(np.int64), heavy + 1]))
    bounds = bounds[(bounds > int(keys[0])) & (bounds <= int(keys[-1]))]
    return Domain(tuple(bounds.tolist()), (int(keys[0]), int(keys[-1])))


def codes(keys: Mapping[int, Array], dims: Sequence[Dim], domains: Sequence[Domain]) -> Array:
    """The combination of classes in which each row lies, as one number: ascending as tuples of
    classes do. `keys`: the rows, by column. There is at least one dim."""
    code = np.zeros(len(keys[dims[0].column]), dtype=np.int64)
    for dim in dims:
        code = code * domains[dim.domain].classes + domains[dim.domain].of(keys[dim.column])
    return code


def count(keys: Mapping[int, Array], dims: Sequence[Dim], domains: Sequence[Domain]) -> Array:
    """How many rows lie in each combination of classes."""
    shape = tuple(domains[dim.domain].classes for dim in dims)
    if not dims:
        length = len(next(iter(keys.values())))
        return np.asarray(length, dtype=np.int64)
    found = np.bincount(codes(keys, dims, domains), minlength=prod(shape))
    return found.astype(np.int64).reshape(shape)
