"""The rows of relations that lie on workers' shelves, as the user's process knows them: laid there
once, bundled for each join that reads them, and made again where a worker has ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from math import ceil
from typing import Any
from weakref import WeakKeyDictionary, finalize

import numpy as np

from gdatalog.cluster.bundles import Grid
from gdatalog.cluster.fragments import Bundled, bundle, lay
from gdatalog.cluster.layout import Source
from gdatalog.cluster.pool import Call, Pool
from gdatalog.cluster.shelves import Gone, Lot, drop_lots
from gdatalog.errors import DeviceError
from gdatalog.executors.limits import Limits
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_store import RowStore
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array

LARGEST = 8 << 20  # bytes of rows that are sent at once
FEW = 64 << 10  # bytes of rows that lie on one shelf
TRIES = 10  # times that rows which are gone are made again


@dataclass(slots=True)
class Base:
    """Rows of a relation in blocks, and on which shelf each lies, if on any."""

    blocks: Sequence[Columns]
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
        return np.sum([each.counts for each in self.blocks], axis=0)

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

    def base(self, relation: Relation, source: Source) -> Base:
        """The rows that a source has its own of."""
        kept = self._bases.get(relation.store)
        if kept is None:
            kept = self._bases[relation.store] = {}
            finalize(relation.store, _forget, kept, self._idle)
        key = source.ranked and source.tests
        base = kept.get(key)
        if base is None:
            base = kept[key] = Base(list(_blocks(relation, source, len(self.workers))))
        return base

    def make(
        self, bundles: Bundles, told: str, limits: Limits, gone: Iterable[str] = ()
    ) -> int:
        """Bundles what is not yet, or what some workers had who are gone; gives the bytes that
        were moved for it."""
        base, moved, lost = bundles.base, 0, set(gone)
        for _ in range(TRIES):
            workers = self.workers
            there = workers.keys() - lost or workers.keys()
            for at, each in enumerate(bundles.made):
                if each is not None and each.lot.home not in there:
                    bundles.made[at] = None
            missing = [at for at, each in enumerate(bundles.made) if each is None]
            if not missing:
                return moved
            self._lay(base, missing, there, told, limits)
            stage = self.pool.stage(told, limits)
            for at in missing:
                lot = base.lots[at]
                assert lot is not None
                stage.add(Call(bundle, (lot, bundles.grid), worker=lot.home, tag=at))
            for call, found in stage:
                moved += found.moved
                if isinstance(found.value, Gone):
                    lost |= found.value.homes
                else:
                    bundles.made[call.tag] = found.value
        raise unreachable()

    def _lay(
        self, base: Base, wanted: Sequence[int], there: Iterable[str], told: str, limits: Limits
    ) -> None:
        """Has blocks on the shelves of workers that are there."""
        threads = self.workers
        homes = sorted(there, key=lambda home: -threads.get(home, 0))
        missing = []
        for at in wanted:
            lot = base.lots[at]
            if lot is None or lot.home not in homes:
                missing.append(at)
        stage = self.pool.stage(told, limits)
        homes_of = islice(cycle(homes), base_start(base), None)
        for at, home in zip(missing, homes_of, strict=False):
            stage.add(Call(lay, (base.blocks[at],), worker=home, tag=at))
        for call, lot in stage:
            base.lots[call.tag] = lot

    def let_go(self, lots: Iterable[Lot]) -> None:
        """Nobody asks for some lots any more; nor for those of relations that are no more."""
        keys = [lot.key for lot in lots] + self._idle
        self._idle.clear()
        if keys:
            self.pool.connection.client.run(drop_lots, keys, wait=False, on_error="ignore")


def base_start(base: Base) -> int:
    return sum(lot is not None for lot in base.lots)


def _forget(bases: dict[Any, Base], idle: list[str]) -> None:
    idle += [lot.key for base in bases.values() for lot in base.lots if lot is not None]


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
        for start, stop in zip(ends, ends[1:], strict=False):
            yield tuple(column[start:stop] for column in rows)


def unreachable() -> DeviceError:
    return DeviceError(
        "the workers of the cluster do not reach each other: rows that one has cannot be had by "
        "others",
        hint="a firewall between them may be why; workers listen on ports of their own choice, "
        "or on those of `--worker-port`",
    )
