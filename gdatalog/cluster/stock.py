"""The rows of relations that lie on workers' shelves, as the user's process knows them: laid there
once, bundled for each join that reads them, and made again where a worker has ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice, pairwise
from math import ceil
from typing import Any
from weakref import WeakKeyDictionary, finalize

import numpy as np

from gdatalog.cluster.bundles import Grid
from gdatalog.cluster.fragments import Bundled, bundle, lay
from gdatalog.cluster.keeping import Keeping
from gdatalog.cluster.layout import Source
from gdatalog.cluster.pool import Call, Placed, Pool
from gdatalog.cluster.ranks import Way
from gdatalog.cluster.shelves import UNLIMITED, Gone, Lot, drop_lots, room_of
from gdatalog.errors import DeviceError
from gdatalog.executors.limits import Limits
from gdatalog.storage.afar import AfarRows
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_store import RowStore
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array

LARGEST = 4 << 20  # bytes of rows that are sent at once
AHEAD = 2  # blocks that are under way to each worker
FEW = 64 << 10  # bytes of rows that lie on one shelf
SAMPLE = 100_000  # rows that tell where classes begin
TRIES = 10  # times that rows which are gone are made again


@dataclass(slots=True)
class Base:
    """Rows that a source is made of, in blocks.

    `blocks`: what a worker is given to have each: columns, which are laid on a shelf first, or
    where they are `afar` what a part has (`parts.py`). `edges`: of a graph that lies afar, how
    each edge is told once, and the ranks of its vertices. `sample`: every `step`-th row of all.
    """

    blocks: Sequence[Any]
    sample: Columns
    step: int
    afar: bool = False
    edges: tuple[Way, Placed] | None = None
    lots: list[Lot | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lots = [None] * len(self.blocks)


@dataclass(slots=True)
class Bundles:
    """The rows of a base, bundled: each of its blocks, or None where that is to be made."""

    base: Base
    grid: Grid
    made: list[Bundled | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.made = [None] * len(self.base.blocks)

    @property
    def blocks(self) -> list[Bundled]:
        return [each for each in self.made if each is not None]

    @property
    def counts(self) -> Array:
        """How many rows each bundle has."""
        counts: Array = np.sum([each.counts for each in self.blocks], axis=0)
        return counts

    @property
    def width(self) -> int:
        """The bytes of a row."""
        return max(each.lot.width for each in self.blocks)


class Stock:
    """What lies on the shelves of a pool's workers."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._bases: WeakKeyDictionary[RowStore, dict[Any, Base]] = WeakKeyDictionary()
        self._idle: list[str] = []  # lots of relations that are no more

    @property
    def workers(self) -> dict[str, int]:
        """How many threads each worker has, by its address."""
        threads: dict[str, int] = self.pool.connection.client.nthreads()
        return threads

    def room(self) -> tuple[int, int]:
        """The memory that a call has on any worker, and how many run at once."""
        info = self.pool.connection.client.scheduler_info(n_workers=-1)["workers"].values()
        room = [room_of(each["memory_limit"] or UNLIMITED) / each["nthreads"] for each in info]
        return int(min(room, default=UNLIMITED)), sum(each["nthreads"] for each in info)

    def base(self, relation: Relation, source: Source) -> Base:
        """The rows that a source has its own of."""
        kept = self._bases.get(relation.store)
        if kept is None:
            kept = self._bases[relation.store] = {}
            finalize(relation.store, _forget, kept, self._idle)
        rows = relation.afar
        afar = rows is not None and rows.away
        key = (source.ranked and (afar or source.tests), afar)
        base = kept.get(key)
        if base is None:
            if rows is not None and rows.away:
                base = self._afar(rows, source)
            else:
                base = _of_blocks(list(_blocks(relation, source, len(self.workers))))
            kept[key] = base
        return base

    def _afar(self, rows: AfarRows, source: Source) -> Base:
        values: list[Any] = [part.value for part in rows.make_distinct()]
        sample = rows.survey.sample
        step = max(1, rows.at_most // max(1, len(sample[0])))
        if not source.ranked:
            return Base(values, sample, step, afar=True)
        keeper = rows.keeper
        assert isinstance(keeper, Keeping)
        values, way = keeper.edges(rows)
        ranking = rows.ranking
        ends = [ranking.ranks(column) for column in sample]
        placed = self.pool.place(ranking, ranking, ranking.nbytes)
        both = (np.concatenate(ends), np.concatenate(ends[::-1]))
        return Base(values, both, step, afar=True, edges=(way, placed))

    def make(
        self, bundles: Sequence[Bundles], told: str, limits: Limits, gone: Iterable[str] = ()
    ) -> int:
        """Bundles what is not yet, or what some workers had who are gone; gives the bytes that
        were moved for it."""
        moved, lost = 0, set(gone)
        for _ in range(TRIES):
            there = self.workers.keys() - lost or self.workers.keys()
            missing: list[tuple[Bundles, int]] = []
            for each in bundles:
                for at, made in enumerate(each.made):
                    if made is None or made.lot.home not in there:
                        each.made[at] = None
                        missing.append((each, at))
            if not missing:
                return moved
            self._lay([(each.base, at) for each, at in missing], sorted(there), told, limits)
            stage = self.pool.stage(told, limits)
            for each, at in missing:
                base, lot = each.base, each.base.lots[at]
                way, ranking = base.edges or (None, None)
                block = base.blocks[at] if lot is None else lot
                home = None if lot is None else lot.home
                stage.add(Call(bundle, (block, each.grid, way, ranking), False, home, (each, at)))
            for call, found in stage:
                moved += found.nbytes
                if isinstance(found.value, Gone):
                    lost |= found.value.homes
                else:
                    each, at = call.tag
                    each.made[at] = found.value
        raise unreachable()

    def _lay(
        self, wanted: Sequence[tuple[Base, int]], homes: Sequence[str], told: str, limits: Limits
    ) -> None:
        """Has blocks on the shelves of workers that are there: a few are under way at a time."""
        asked = {
            (id(base), at): (base, at)
            for base, at in wanted
            if not base.afar and getattr(base.lots[at], "home", None) not in homes
        }
        waiting = deque(asked.values())
        stage = self.pool.stage(told, limits)

        def send(home: str) -> None:
            base, at = waiting.popleft()
            stage.add(Call(lay, (base.blocks[at],), worker=home, tag=(base, at, home)))

        for home in islice(cycle(homes), min(len(waiting), AHEAD * len(homes))):
            send(home)
        for call, lot in stage:
            base, at, home = call.tag
            base.lots[at] = lot
            if waiting:
                send(home)

    def let_go(self, lots: Iterable[Lot]) -> None:
        """Nobody asks for some lots any more; nor for those of relations that are no more."""
        keys = [lot.key for lot in lots] + self._idle
        self._idle.clear()
        if keys:
            self.pool.connection.client.run(drop_lots, keys, on_error="ignore")


def _forget(bases: dict[Any, Base], idle: list[str]) -> None:
    idle += [lot.key for base in bases.values() for lot in base.lots if lot is not None]


def _of_blocks(blocks: Sequence[Columns]) -> Base:
    step = max(1, sum(len(block[0]) for block in blocks) // SAMPLE)
    sample = tuple(
        np.concatenate([column[::step] for column in parts]) for parts in zip(*blocks, strict=True)
    )
    return Base(blocks, sample, step)


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
