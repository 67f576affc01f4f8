"""Shares: a join over relations that no worker holds whole, cut into cells, and the rows that each
of them needs.

The keys of a domain fall into classes: stretches, one after the other. A block gives each variable
of the layout a class; its cell is the bindings that lie there. The rows of a source fall into
bundles by the classes of their columns; a block needs the bundles in which the rows of its bindings
can be, whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from gdatalog.cluster.layout import Layout, Role
from gdatalog.plan.cells import Cell, Stretch
from gdatalog.storage.table import Array

Block = tuple[int, ...]  # the class of each of the layout's variables


class Bundle(NamedTuple):
    """Rows of a source (by its number) whose columns lie in given classes, one for each dim."""

    source: int
    classes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """Classes of keys: where each begins but the first, ascending."""

    bounds: tuple[int, ...] = ()

    @property
    def classes(self) -> int:
        return len(self.bounds) + 1

    def stretch(self, number: int) -> Stretch:
        """The keys of a class."""
        low = self.bounds[number - 1] if number else None
        return Stretch(low, self.bounds[number] if number < len(self.bounds) else None)

    def of(self, keys: Array) -> Array:
        """The classes of keys."""
        return np.searchsorted(np.asarray(self.bounds, dtype=np.int64), keys, side="right")


@dataclass(frozen=True)
class Shares:
    """`rows`: how many rows each bundle has, by source: an array over the classes of its dims, as
    `census.count` makes it. `row_bytes`: of a row of each source."""

    layout: Layout
    domains: tuple[Domain, ...]
    rows: tuple[Array, ...]
    row_bytes: tuple[int, ...]

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Those that can have bindings."""
        return tuple(block for block in self._ordered() if self._possible(block))

    def _ordered(self) -> Iterator[Block]:
        spans = [range(self.domains[domain].classes) for domain in self.layout.domain_of]
        for block in product(*spans):
            if all(block[a] <= block[b] for a, b in self.layout.below):
                yield block

    def _possible(self, block: Block) -> bool:
        return all(
            any(self.rows_of(bundle) for bundle in self._of_role(role, block))
            for role in self.layout.roles
            if role is not None and role.sure
        )

    def cell(self, block: Block) -> Cell:
        """The bindings of a block."""
        told = zip(self.layout.variables, self.layout.domain_of, block, strict=True)
        stretches = {name: self.domains[domain].stretch(at) for name, domain, at in told}
        return Cell({name: each for name, each in stretches.items() if each != Stretch()})

    def bundles(self, block: Block) -> frozenset[Bundle]:
        """The bundles that a block needs: those of them that have rows."""
        return frozenset(
            bundle
            for role in self.layout.roles
            if role is not None
            for bundle in self._of_role(role, block)
            if self.rows_of(bundle)
        )

    def _of_role(self, role: Role, block: Block) -> Iterator[Bundle]:
        spans: list[Sequence[int]] = []
        for dim, variable in zip(self.layout.dims[role.source], role.variables, strict=True):
            whole = range(self.domains[dim.domain].classes)
            spans.append(whole if variable is None else (block[variable],))
        for classes in product(*spans):
            if all(classes[a] <= classes[b] for a, b in role.below):
                yield Bundle(role.source, classes)

    def rows_of(self, bundle: Bundle) -> int:
        return int(self.rows[bundle.source][bundle.classes])

    def bytes_of(self, bundle: Bundle) -> int:
        return self.rows_of(bundle) * self.row_bytes[bundle.source]

    def needed(self, block: Block) -> int:
        """The bytes of a block's bundles."""
        return sum(map(self.bytes_of, self.bundles(block)))

    @cached_property
    def largest(self) -> int:
        """The bytes that the block of the most bytes needs."""
        return max(map(self.needed, self.blocks), default=0)

    @cached_property
    def total(self) -> int:
        """The bytes of all bundles."""
        sizes = zip(self.rows, self.row_bytes, strict=True)
        return sum(int(rows.sum()) * each for rows, each in sizes)
