"""Shares: a join over relations that no worker holds whole, cut into cells, and the rows that each
of them needs.

The keys of a domain fall into classes: ranges, one after the other. A block gives each variable
of the layout a class; its cell is the bindings that lie there. The rows of a source fall into
buckets by the classes of their columns; a block needs the buckets in which the rows of its bindings
can be, whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from math import comb, prod
from typing import NamedTuple

import numpy as np

from gdatalog.cluster.partitioned.layout import Layout, Role
from gdatalog.plan.cells import Cell, KeyRange
from gdatalog.records import dataclass
from gdatalog.storage.table import Array

Block = tuple[int, ...]  # the class of each of the layout's variables


class Bucket(NamedTuple):
    """Rows of a source (by its number) whose columns lie in given classes, one for each dim."""

    source: int
    classes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """Classes of keys: where each begins but the first, ascending. `span`: about the least and the
    greatest key that there is."""

    bounds: tuple[int, ...] = ()
    span: tuple[int, int] = (0, 0)

    @property
    def classes(self) -> int:
        return len(self.bounds) + 1

    def key_range(self, first: int, last: int | None = None) -> KeyRange:
        """The keys of a class, or of all from one to another."""
        last = first if last is None else last
        low = self.bounds[first - 1] if first else None
        return KeyRange(low, self.bounds[last] if last < len(self.bounds) else None)

    @property
    def widths(self) -> Array:
        """How many bytes tell a key apart from the others of its class."""
        least, greatest = self.span
        ends = np.array([least, *self.bounds, greatest + 1], dtype=np.float64)
        bits = np.log2(np.maximum(2.0, np.diff(ends)))
        return np.select([bits <= 8, bits <= 16, bits <= 32], [1, 2, 4], 8)

    def of(self, keys: Array) -> Array:
        """The classes of keys."""
        return np.searchsorted(np.asarray(self.bounds, dtype=np.int64), keys, side="right")


@dataclass(frozen=True)
class Shares:
    """`rows`: how many rows each bucket has, by source: an array over the classes of its dims, as
    `census.count` makes it. `row_bytes`: of a row of each source."""

    layout: Layout
    domains: tuple[Domain, ...]
    rows: tuple[Array, ...]
    row_bytes: tuple[int, ...]

    # ------------------------------------------------------------------------------- bindings

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Those that can have bindings, ascending."""
        return tuple(filter(self._possible, self._ordered(())))

    def _ordered(self, begun: Block) -> Iterator[Block]:
        """The blocks with given first classes that obey the order of the variables."""
        at = len(begun)
        if at == len(self.layout.variables):
            yield begun
            return
        low, high = 0, self.domains[self.layout.domain_of[at]].classes - 1
        for below, above in self.layout.below:
            if above == at and below < at:
                low = max(low, begun[below])
            if below == at and above < at:
                high = min(high, begun[above])
        for number in range(low, high + 1):
            yield from self._ordered((*begun, number))

    def _possible(self, block: Block) -> bool:
        return all(self._region(at, block).any() for at in self._asked)

    def cell(self, block: Block) -> Cell:
        """The bindings of a block."""
        return self._cell(tuple((number, number) for number in block))

    def _cell(self, box: Sequence[tuple[int, int]]) -> Cell:
        told = zip(self.layout.variables, self.layout.domain_of, box, strict=True)
        stretches = {name: self.domains[domain].key_range(*ends) for name, domain, ends in told}
        return Cell({name: each for name, each in stretches.items() if each != KeyRange()})

    def cells(self, blocks: Collection[Block]) -> list[Cell]:
        """The bindings of some blocks as few cells: one where no other block lies between."""
        return list(map(self._cell, self._boxes(list(blocks), self.blocks)))

    def _boxes(
        self, blocks: Sequence[Block], near: Sequence[Block]
    ) -> Iterator[tuple[tuple[int, int], ...]]:
        """`near`: blocks of which those are all that could lie between."""
        if not blocks:
            return
        box = tuple((min(told), max(told)) for told in zip(*blocks, strict=True))
        near = [
            block
            for block in near
            if all(low <= at <= high for at, (low, high) in zip(block, box, strict=True))
        ]
        if len(near) == len(blocks):
            yield box
            return
        axis = max(range(len(box)), key=lambda each: box[each][1] - box[each][0])
        middle = sum(box[axis]) // 2
        yield from self._boxes([block for block in blocks if block[axis] <= middle], near)
        yield from self._boxes([block for block in blocks if block[axis] > middle], near)

    # ----------------------------------------------------------------------------------- rows

    def buckets(self, block: Block) -> frozenset[Bucket]:
        """The buckets that a block needs: those of them that have rows."""
        return frozenset(
            self.bucket(number) for number in np.flatnonzero(self.needs([block])[0]).tolist()
        )

    def bucket(self, number: int) -> Bucket:
        """A bucket by its number."""
        source = int(np.searchsorted(self._starts, number, side="right")) - 1
        at = np.unravel_index(number - int(self._starts[source]), self.rows[source].shape)
        return Bucket(source, tuple(map(int, at)))

    @cached_property
    def sizes(self) -> Array:
        """The bytes of all buckets, by their numbers."""
        each = zip(self.rows, self.row_bytes, strict=True)
        return np.concatenate([rows.reshape(-1) * size for rows, size in each])

    @cached_property
    def wires(self) -> Array:
        """The bytes in which all buckets are moved, by their numbers: a key is told by where in
        its class it stands."""
        found = []
        for at, (source, rows) in enumerate(zip(self.layout.sources, self.rows, strict=True)):
            dims, each = self.layout.dims[at], self.row_bytes[at] // len(source.columns)
            width = np.full(rows.shape, float(self.row_bytes[at] - each * len(dims)))
            for axis, dim in enumerate(dims):
                told = np.minimum(self.domains[dim.domain].widths, each)
                shape = [-1 if other == axis else 1 for other in range(len(dims))]
                width = width + told.reshape(shape)
            found.append((rows * width).reshape(-1))
        return np.concatenate(found)

    def needs(self, blocks: Sequence[Block]) -> Array:
        """Which buckets blocks need: a row of marks for each block, a column for each bucket."""
        marks = np.zeros((len(blocks), len(self.sizes)), dtype=np.bool_)
        for at, block in enumerate(blocks):
            for number, role in enumerate(self._roles):
                buckets = self._numbers[role.source][self._index(number, block)]
                marks[at, buckets[self._region(number, block) > 0]] = True
        return marks

    @cached_property
    def _starts(self) -> Array:
        """The number of each source's first bucket."""
        return np.cumsum([0, *(rows.size for rows in self.rows)])[:-1]

    @cached_property
    def _numbers(self) -> list[Array]:
        return [
            np.arange(start, start + rows.size).reshape(rows.shape)
            for start, rows in zip(self._starts.tolist(), self.rows, strict=True)
        ]

    @cached_property
    def _roles(self) -> tuple[Role, ...]:
        """The roles that rows can have, each once."""
        return tuple(dict.fromkeys(role for role in self.layout.roles if role is not None))

    @cached_property
    def _asked(self) -> tuple[int, ...]:
        """Those of them in which each binding needs rows."""
        return tuple(at for at, role in enumerate(self._roles) if role.sure)

    @cached_property
    def _in_role(self) -> list[Array]:
        """The rows of each role's source that can be in it."""
        found = []
        for role in self._roles:
            rows = self.rows[role.source]
            axes = np.indices(rows.shape, sparse=True)
            for low, high in role.below:
                rows = np.where(axes[low] <= axes[high], rows, 0)
            found.append(rows)
        return found

    def _index(self, role: int, block: Block) -> tuple[int | slice, ...]:
        variables = self._roles[role].variables
        return tuple(slice(None) if each is None else block[each] for each in variables)

    def _region(self, role: int, block: Block) -> Array:
        """How many rows a role has for a block, bucket by bucket."""
        found: Array = self._in_role[role][self._index(role, block)]
        return np.asarray(found)

    def rows_of(self, bucket: Bucket) -> int:
        return int(self.rows[bucket.source][bucket.classes])

    def bytes_of(self, bucket: Bucket) -> int:
        return self.rows_of(bucket) * self.row_bytes[bucket.source]

    @cached_property
    def largest(self) -> int:
        """The bytes that the block of the most bytes needs."""
        return int((self.needs(self.blocks) @ self.sizes).max()) if self.blocks else 0

    @cached_property
    def total(self) -> int:
        """The bytes of all buckets."""
        return int(self.sizes.sum())

    # ----------------------------------------------------------------------------------- work

    def cost(self, block: Block) -> float:
        """About how much work a block is: the rows that it reads, and the most bindings that it
        can have if each variable is in as many roles as the one that is in the fewest."""
        held = [0] * len(block)
        rows, bindings = 0, 1.0
        for at in self._asked:
            found = int(self._region(at, block).sum())
            rows += found
            bindings *= max(1, found)
            for variable in self._roles[at].variables:
                if variable is not None:
                    held[variable] += 1
        return float(rows + bindings ** (1 / max(1, min(held, default=1))))

    @property
    def marks(self) -> int:
        """How many entries `needs` of all blocks has at most."""
        return self.most_blocks * len(self.sizes)

    @property
    def most_blocks(self) -> int:
        """How many blocks there are at most: of variables in order, those that obey it."""
        classes = [self.domains[domain].classes for domain in self.layout.domain_of]
        return prod(
            comb(classes[chain[0]] + len(chain) - 1, len(chain)) for chain in self.layout.chains
        )
