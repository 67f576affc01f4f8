"""The rows of relations that lie on workers' shelves, as the user's process knows them: laid there
once, bundled for each join that reads them, and made again where a worker has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from math import ceil
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary, finalize

import numpy as np

from gdatalog.cluster.partitioned.bundles import Grid
from gdatalog.cluster.partitioned.fragments import MAKING, Bundled, Moved, bundle, counted, lay
from gdatalog.cluster.partitioned.layout import Layout, Source
from gdatalog.cluster.partitioned.shelves import UNLIMITED, Gone, Lot, drop_lots, name_of, room_of
from gdatalog.cluster.pool import Call, Placed, Pool
from gdatalog.cluster.pool.calls import resting, woken
from gdatalog.cluster.rows.keeping import Keeping
from gdatalog.cluster.rows.ranks import Way
from gdatalog.errors import DeviceError
from gdatalog.limits import Limits
from gdatalog.plan.nodes import JoinPlan
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import RemoteRows
from gdatalog.storage.row_store import RowStore
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array

LARGEST = 4 << 20  # bytes of rows that are sent at once
GROUP = 64 << 20  # bytes of rows that are bundled together
AHEAD = 2  # blocks that are under way to each worker
FEW = 64 << 10  # bytes of rows that lie on one shelf
MANY = 16  # classes, of which those of two columns are too many bundles
SMALL, MOST_SMALL = 64, 100_000  # rows that every cell has: this part of all, and no more
SAMPLE = 100_000  # rows that tell where classes begin
TRIES = 10  # times that rows which are gone are made again


@dataclass(slots=True)
class Base:
    """Rows that a source is made of, in blocks. `name`: what lots of them are put under.

    `blocks`: what a worker is given to have each: columns, which are laid on a shelf first, or
    where they are `remote` what a part has (`parts.py`). `groups`: which of them lie together, and
    are bundled so. `edges`: of a graph that lies afar, how each edge is told once, and the ranks of
    its vertices. `twice`: a row that counts may be there twice, and those that are the same are in
    one bundle. `sample`: every `step`-th row of all.
    """

    name: str
    blocks: Sequence[Any]
    sample: Columns
    step: int
    groups: Sequence[range] = ()
    remote: bool = False
    edges: tuple[Way, Placed] | None = None
    twice: bool = False
    lots: list[Lot | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lots = [None] * len(self.blocks)
        self.groups = self.groups or [range(at, at + 1) for at in range(len(self.blocks))]

    @property
    def nbytes(self) -> int:
        """About what the rows take."""
        return self.step * sum(column.nbytes for column in self.sample)

    def given(self, group: int) -> list[Any]:
        """What a worker is given to have a group."""
        return [self.blocks[at] if self.remote else self.lots[at] for at in self.groups[group]]

    def resting(self) -> Base:
        """The same without what is kept on workers: only how that is made."""
        return replace(self, blocks=[resting(block) for block in self.blocks])

    def woken(self, name: str) -> Base:
        return replace(self, name=name, blocks=[woken(block) for block in self.blocks])


@dataclass(slots=True)
class Bundles:
    """The rows of a source, bundled: each group of its base, or None where that is to be made.

    `read`: lots of the rows, where those of the base are more work to read.
    """

    base: Base
    grid: Grid
    made: list[Bundled | None] = field(default_factory=list)
    read: list[Lot | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.made = [None] * len(self.base.groups)
        self.read = [None] * len(self.base.groups)

    @property
    def groups(self) -> list[Bundled]:
        return [each for each in self.made if each is not None]


class Stock:
    """What lies on the shelves of a pool's workers, in lots that are known by name."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._bases: WeakKeyDictionary[RowStore, dict[Any, Base]] = WeakKeyDictionary()
        self._names: set[str] = set()  # of lots that lie there, or may yet
        self._idle: list[str] = []  # the same, of relations that are no more
        # Also when nobody closes it: workers may go on for others.
        self.close = finalize(self, _leave, pool, self._names)

    def name(self) -> str:
        """A new name for lots."""
        name = uuid4().hex
        self._names.add(name)
        return name

    @property
    def shelves(self) -> dict[str, str]:
        """The address of each shelf."""
        info = self.pool.info
        return {name_of(each["local_directory"]): address for address, each in info.items()}

    def room(self) -> tuple[int, int]:
        """The memory that a call has on any worker, and how many run at once."""
        info = self.pool.recent_info.values()
        room = [room_of(each["memory_limit"] or UNLIMITED) / each["nthreads"] for each in info]
        return int(min(room, default=UNLIMITED)), sum(each["nthreads"] for each in info) or 1

    def base(self, relation: Relation, source: Source) -> Base:
        """The rows that a source has its own of."""
        kept = self._bases.get(relation.store)
        if kept is None:
            kept = self._bases[relation.store] = {}
            finalize(relation.store, _forget, kept, self._idle)
        rows = relation.remote
        remote = rows is not None and rows.unfetched
        counts, whole = remote and source.weighted, len(source.columns) == len(relation.types)
        key = (source.ranked and (remote or source.tests), remote, counts, counts and whole)
        base = kept.get(key)
        if base is None:
            if rows is not None and rows.unfetched:
                base = self._afar(rows, source, whole)
            else:
                base = self._here(list(_blocks(relation, source, len(self.pool.workers))))
            kept[key] = base
        return base

    def _here(self, blocks: Sequence[Columns]) -> Base:
        count = sum(len(block[0]) for block in blocks)
        step = max(1, count // SAMPLE)
        parts = zip(*blocks, strict=True)
        sample = tuple(np.concatenate([column[::step] for column in part]) for part in parts)
        room, workers = self.room()
        each = min(GROUP, room // 4)  # bytes of a group, of which there are some for each worker
        size = sum(column.nbytes for block in blocks for column in block)
        groups = min(len(blocks), max(workers, ceil(size / max(1, each))))
        ends = np.linspace(0, len(blocks), groups + 1).astype(int).tolist()
        groups_of = [range(low, high) for low, high in pairwise(ends)]
        return Base(self.name(), blocks, sample, step, groups_of)

    def laid_out(
        self, join: JoinPlan, relation_of: Callable[[str], Relation], foreseen: bool = False
    ) -> tuple[Layout, list[Base], list[list[Array]]]:
        """What of a join can be cut, the rows of each source, and some keys of each of its dims, as
        many in proportion of all. Of small sources every cell has all rows. `foreseen`: nothing is
        to be run yet, so that workers need not compare rows."""

        def bases_of(layout: Layout) -> list[Base]:
            found = []
            for source in layout.sources:
                relation = relation_of(source.relation)
                if foreseen and not relation.counted:
                    source = source._replace(weighted=False)
                found.append(self.base(relation, source))
            return found

        layout = Layout.of(join)
        bases = bases_of(layout)
        size = sum(base.nbytes for base in bases)
        if size * MAKING > MANY * self.room()[0]:
            layout = Layout.of(join, apart=True)
            bases = bases_of(layout)
        rows = [len(base.sample[0]) * base.step for base in bases]
        small = min(sum(rows) // SMALL, MOST_SMALL)
        layout = layout.whole([at for at, count in enumerate(rows) if count <= small])
        step = max((base.step for base in bases), default=1)
        samples = [
            [base.sample[dim.column][:: max(1, step // base.step)] for dim in dims]
            for base, dims in zip(bases, layout.dims, strict=True)
        ]
        return layout, bases, samples

    def _afar(self, rows: RemoteRows, source: Source, whole: bool) -> Base:
        # Where rows do not count, tries find out which are the same. Whole rows that are the same
        # lie in the same classes, so that they meet in cells.
        twice = source.weighted and whole and not source.ranked and rows.known < KnownRows.DISTINCT
        parts = rows.make_distinct() if source.weighted and not twice else rows.parts
        values: list[Any] = [part.value for part in parts]
        sample = rows.survey.sample
        step = max(1, rows.at_most // max(1, len(sample[0])))
        if not source.ranked:
            return Base(self.name(), values, sample, step, remote=True, twice=twice)
        keeper = rows.keeper
        assert isinstance(keeper, Keeping)
        values, way = keeper.edges(rows)
        ranking = rows.ranking
        ends = [ranking.ranks(column) for column in sample]
        placed = self.pool.place(id(ranking), ranking, ranking.nbytes)
        both = (np.concatenate(ends), np.concatenate(ends[::-1]))
        return Base(self.name(), values, both, step, remote=True, edges=(way, placed))

    def count(
        self, name: str, bundles: Sequence[Bundles], told: str, limits: Limits
    ) -> tuple[list[Array], list[int], int]:
        """Of each source how many rows lie in each combination of its grid's classes, and the
        bytes of a row; and the bytes that were moved. `name`: of lots."""
        counts: list[list[Array | None]] = [[None] * len(each.made) for each in bundles]
        widths = [0] * len(bundles)

        def found(number: int, at: int, value: Any) -> None:
            counts[number][at], bundles[number].read[at] = value[:2]
            widths[number] = max(widths[number], value[2])

        def missing(shelves: Collection[str]) -> list[tuple[int, int]]:
            return [
                (number, at)
                for number, known in enumerate(counts)
                for at, each in enumerate(known)
                if each is None
            ]

        moved = self._each(counted, name, bundles, missing, found, told, limits, ())
        summed = [np.sum([part for part in known if part is not None], axis=0) for known in counts]
        return summed, widths, moved

    def make(
        self,
        name: str,
        bundles: Sequence[Bundles],
        told: str,
        limits: Limits,
        gone: Collection[str] = (),
    ) -> int:
        """Bundles what is not yet, or what lay on shelves that are gone, in lots of a name; gives
        the bytes that were moved for it."""

        def found(number: int, at: int, value: Any) -> None:
            bundles[number].made[at] = value

        def missing(shelves: Collection[str]) -> list[tuple[int, int]]:
            return [
                (number, at)
                for number, each in enumerate(bundles)
                for at, made in enumerate(each.made)
                if made is None or made.lot.shelf not in shelves
            ]

        return self._each(bundle, name, bundles, missing, found, told, limits, gone)

    def _each(
        self,
        function: Callable[..., Moved],
        name: str,
        bundles: Sequence[Bundles],
        missing: Callable[[Collection[str]], list[tuple[int, int]]],
        found: Callable[[int, int, Any], None],
        told: str,
        limits: Limits,
        gone: Collection[str],
    ) -> int:
        """Has workers do something with groups of rows until none is missing."""
        moved, lost = 0, set(gone)
        for _ in range(TRIES):
            shelves = self.shelves
            there = {shelf: home for shelf, home in shelves.items() if shelf not in lost} or shelves
            wanted = missing(there)
            if not wanted:
                return moved
            bases = {(id(bundles[n].base), at): (bundles[n].base, at) for n, at in wanted}
            self._lay(list(bases.values()), there, told, limits)
            stage = self.pool.stage(told, limits)
            for number, at in wanted:
                each = bundles[number]
                blocks, edges = each.base.given(at), each.base.edges
                read = each.read[at]
                if read is not None and read.shelf in there:
                    blocks, edges = [read], None
                home = blocks[0].home if isinstance(blocks[0], Lot) else None
                args = (name, blocks, each.grid, edges)
                stage.add(Call(function, args, worker=home, tag=(number, at)))
            for call, (value, size) in stage:
                moved += size
                if isinstance(value, Gone):
                    lost |= value.shelves
                else:
                    found(call.tag[0], call.tag[1], value)
        raise unreachable()

    def _lay(
        self,
        wanted: Sequence[tuple[Base, int]],
        shelves: Mapping[str, str],
        told: str,
        limits: Limits,
    ) -> None:
        """Has groups of blocks on shelves that are there, a few blocks at a time."""
        homes = sorted(shelves.values())
        missing = [
            (place, base, block, homes[at % len(homes)])
            for base, at in wanted
            for place, block in enumerate(base.groups[at])
            if not base.remote and getattr(base.lots[block], "shelf", None) not in shelves
        ]
        waiting = deque(sorted(missing, key=lambda each: each[0]))
        stage = self.pool.stage(told, limits)

        def send() -> None:
            _, base, block, home = waiting.popleft()
            stage.add(Call(lay, (base.name, base.blocks[block]), worker=home, tag=(base, block)))
            stage.start()  # each alone: Dask warns of much that is sent at once

        try:
            for _ in range(min(len(waiting), AHEAD * len(homes))):
                send()
            for call, lot in stage:
                base, block = call.tag
                base.lots[block] = lot
                if waiting:
                    send()
        except BaseException:  # lots of calls that nobody waits for are known to nobody
            for base in {id(base): base for base, _ in wanted}.values():
                self.let_go([base.name])
                base.name, base.lots = self.name(), [None] * len(base.blocks)
            raise

    def let_go(self, names: Iterable[str]) -> None:
        """Nobody asks any more for lots of some names; nor for those of relations that are no
        more. What is under way lays none of them from now on."""
        gone = [*names, *self._idle]
        self._idle.clear()
        if gone:
            self._names.difference_update(gone)
            self.pool.tell(drop_lots, gone)


def _forget(bases: dict[Any, Base], idle: list[str]) -> None:
    idle += [base.name for base in bases.values()]


def _leave(pool: Pool, names: set[str]) -> None:
    if names:
        with suppress(Exception):  # Python ends, perhaps
            pool.tell(drop_lots, sorted(names))


def _blocks(relation: Relation, source: Source, workers: int) -> Iterator[Columns]:
    """The distinct rows of a relation, or of a graph both ways of each edge in ranks, in blocks
    that are sent at once; at least one."""
    if source.ranked:
        graph = relation.statistics.graph_here
        assert graph is not None
        tests = [(test.left, test.op, test.right) for test in source.tests]
        whole = [graph.ranked(tests)]
    else:
        whole = relation.blocks() or [tuple(np.empty(0, dtype=np.int32) for _ in relation.types)]
    for rows in whole:
        count, size = len(rows[0]), sum(column.nbytes for column in rows)
        parts = max(1, min(workers, size // FEW), ceil(size / LARGEST))
        ends = np.linspace(0, count, parts + 1).astype(int).tolist()
        for start, stop in pairwise(ends):
            yield tuple(column[start:stop] for column in rows)


def unreachable() -> DeviceError:
    return DeviceError(
        "the workers of the cluster do not reach each other: rows that one has cannot be had by "
        "others",
        hint="a firewall between them may be why; workers listen on ports of their own choice, "
        "or on those of `--worker-port`",
    )
