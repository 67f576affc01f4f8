"""Shares (as in the HyperCube algorithm): a join over relations that no worker holds whole is
divided into cells; shares say which rows each cell needs.

The keys of a domain are divided into classes, consecutive ranges. A block gives each variable of
the layout a class; its cell is the bindings in these classes. The rows of a source are divided into
buckets by the classes of their columns; a block needs the buckets that may have rows of its
bindings.

Workers count their rows in each combination of many fine classes, and the driver adds up the
counts. It then merges fine classes into the classes of the shares (`share_search.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from math import comb, prod

import numpy as np

from gdatalog.cluster.joins.layout import Dim, Layout, Role
from gdatalog.plan.cells import Cell, KeyRange
from gdatalog.records import cached_property, dataclass, replace
from gdatalog.storage.table import Array

FINE = 128  # fine classes of a domain
MOST_COUNTS = 1 << 20  # counts of a source; with many dims, there are fewer classes


def fine(layout: Layout, samples: Sequence[Sequence[Array]]) -> tuple[Domain, ...]:
    """The fine classes of a layout's domains.

    `samples`: keys of each dim of each source, in proportion to the sources' rows.
    """
    most = max((len(dims) for dims in layout.dims), default=1)
    classes = min(FINE, max(2, int(MOST_COUNTS ** (1 / max(1, most)))))
    keys: list[list[Array]] = [[] for _ in range(layout.domains)]
    for dims, columns in zip(layout.dims, samples, strict=True):
        for dim, column in zip(dims, columns, strict=True):
            keys[dim.domain].append(column)
    return tuple(_domain(np.concatenate(each), classes) if each else Domain() for each in keys)


def _domain(keys: Array, classes: int) -> Domain:
    """Classes with about equally many keys each; a frequent key is a class of its own."""
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
    """The combination of each row's classes as one number, in the order of tuples of classes.
    `keys`: the rows, by column. There is at least one dim."""
    code = np.zeros(len(keys[dims[0].column]), dtype=np.int64)
    for dim in dims:
        code = code * domains[dim.domain].classes + domains[dim.domain].of(keys[dim.column])
    return code


def count(keys: Mapping[int, Array], dims: Sequence[Dim], domains: Sequence[Domain]) -> Array:
    """The number of rows in each combination of classes."""
    shape = tuple(domains[dim.domain].classes for dim in dims)
    if not dims:
        length = len(next(iter(keys.values())))
        return np.asarray(length, dtype=np.int64)
    found = np.bincount(codes(keys, dims, domains), minlength=prod(shape))
    return found.astype(np.int64).reshape(shape)


Block = tuple[int, ...]  # the class of each variable of the layout


@dataclass(frozen=True, slots=True)
class Domain:
    """Classes of keys: the start of each class but the first, ascending. `span`: about the least
    and the greatest key."""

    bounds: tuple[int, ...] = ()
    span: tuple[int, int] = (0, 0)

    @property
    def classes(self) -> int:
        return len(self.bounds) + 1

    def key_range(self, first: int, last: int) -> KeyRange:
        """The keys of a range of classes."""
        low = self.bounds[first - 1] if first else None
        return KeyRange(low, self.bounds[last] if last < len(self.bounds) else None)

    @property
    def widths(self) -> Array:
        """How many bytes distinguish the keys within each class."""
        least, greatest = self.span
        ends = np.array([least, *self.bounds, greatest + 1], dtype=np.float64)
        bits = np.log2(np.maximum(2.0, np.diff(ends)))
        return np.select([bits <= 8, bits <= 16, bits <= 32], [1, 2, 4], 8)

    def of(self, keys: Array) -> Array:
        """The classes of keys."""
        return np.searchsorted(np.asarray(self.bounds, dtype=np.int64), keys, side="right")


@dataclass(frozen=True)
class Shares:
    """The classes of each domain, and the sizes of the buckets.

    `rows`: for each source, the number of rows in each bucket, as an array over the classes of its
    dims (see `count`). `row_bytes`: the bytes of a row of each source.
    """

    layout: Layout
    domains: tuple[Domain, ...]
    rows: tuple[Array, ...]
    row_bytes: tuple[int, ...]

    def weights(self, domain: int) -> Array:
        """The bytes in each class of a domain, added up over columns."""
        found = np.zeros(self.domains[domain].classes)
        for dims, rows, size in zip(self.layout.dims, self.rows, self.row_bytes, strict=True):
            for axis, dim in enumerate(dims):
                if dim.domain == domain:
                    others = tuple(other for other in range(len(dims)) if other != axis)
                    found += rows.sum(axis=others) * size
        return found

    def restricted(self, names: Collection[str]) -> Shares:
        """The same with only these variables restricted."""
        return replace(self, layout=self.layout.restricted(names))

    def coarser(self, starts: Sequence[Sequence[int]]) -> Shares:
        """Shares whose classes are ranges of these. `starts`: for each domain, the number of each
        class's first one here; the first is 0."""
        domains = tuple(
            Domain(tuple(old.bounds[at - 1] for at in first[1:]), old.span)
            for old, first in zip(self.domains, starts, strict=True)
        )
        rows = []
        for dims, counts in zip(self.layout.dims, self.rows, strict=True):
            for axis, dim in enumerate(dims):
                counts = np.add.reduceat(counts, starts[dim.domain], axis=axis)
            rows.append(counts)
        return Shares(self.layout, domains, tuple(rows), self.row_bytes)

    # ------------------------------------------------------------------------------- bindings

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks that can have bindings, ascending."""
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
        """The bindings of some blocks as few cells: blocks are joined if no other block lies
        between."""
        return list(map(self._cell, self._boxes(list(blocks), self.blocks)))

    def _boxes(
        self, blocks: Sequence[Block], near: Sequence[Block]
    ) -> Iterator[tuple[tuple[int, int], ...]]:
        """`near`: the blocks that could lie between them."""
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

    def buckets(self, block: Block) -> list[int]:
        """The numbers of the non-empty buckets that a block needs. Buckets are numbered source by
        source, in the order of tuples of classes."""
        found: list[int] = np.flatnonzero(self.needs([block])[0]).tolist()
        return found

    @cached_property
    def sizes(self) -> Array:
        """The bytes of all buckets, by number."""
        each = zip(self.rows, self.row_bytes, strict=True)
        return np.concatenate([rows.reshape(-1) * size for rows, size in each])

    @cached_property
    def wires(self) -> Array:
        """The bytes that buckets take in transit, by number: keys are sent as offsets within their
        classes."""
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
        """Which buckets each block needs, as a boolean matrix of blocks and buckets."""
        marks = np.zeros((len(blocks), len(self.sizes)), dtype=np.bool_)
        for at, block in enumerate(blocks):
            for number, role in enumerate(self._roles):
                buckets = self._numbers[role.source][self._index(number, block)]
                marks[at, buckets[self._region(number, block) > 0]] = True
        return marks

    @cached_property
    def starts(self) -> list[int]:
        """The number of each source's first bucket, and the end."""
        return [0, *accumulate(rows.size for rows in self.rows)]

    @cached_property
    def _numbers(self) -> list[Array]:
        return [
            np.arange(start, end).reshape(rows.shape)
            for (start, end), rows in zip(pairwise(self.starts), self.rows, strict=True)
        ]

    @cached_property
    def _roles(self) -> tuple[Role, ...]:
        """The distinct roles of the join's tries."""
        return tuple(dict.fromkeys(role for role in self.layout.roles if role is not None))

    @cached_property
    def _asked(self) -> tuple[int, ...]:
        """The roles in which each binding needs a row."""
        return tuple(at for at, role in enumerate(self._roles) if role.sure)

    @cached_property
    def _in_role(self) -> list[Array]:
        """For each role, the rows of its source that can be in it."""
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
        """The numbers of rows that a role has for a block, bucket by bucket."""
        found: Array = self._in_role[role][self._index(role, block)]
        return np.asarray(found)

    @cached_property
    def largest(self) -> int:
        """The most bytes that any block needs."""
        return int((self.needs(self.blocks) @ self.sizes).max()) if self.blocks else 0

    @cached_property
    def total(self) -> int:
        """The bytes of all buckets."""
        return int(self.sizes.sum())

    # ----------------------------------------------------------------------------------- work

    def cost(self, block: Block) -> float:
        """The estimated work of a block: the rows that it reads, plus the most bindings that it can
        have if each variable is in as many roles as the variable that is in the fewest."""
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
        """An upper bound of the entries of `needs` for all blocks."""
        return self.most_blocks * len(self.sizes)

    @property
    def most_blocks(self) -> int:
        """An upper bound of the number of blocks: for ordered variables, only those that obey the
        order."""
        classes = [self.domains[domain].classes for domain in self.layout.domain_of]
        return prod(
            comb(classes[chain[0]] + len(chain) - 1, len(chain)) for chain in self.layout.chains
        )
