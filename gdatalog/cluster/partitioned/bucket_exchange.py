"""Which buckets of a join each worker has, and how the others come to it.

A worker receives the buckets that its cells need once, for these cells and later ones: a task cuts
them out where they lie (`sliced`), another puts together what came (`received`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from gdatalog.cluster.partitioned.bucket_store import SourceBuckets
from gdatalog.cluster.partitioned.buckets import received, sliced
from gdatalog.cluster.partitioned.cell_tasks import BucketSlice, Fragment
from gdatalog.cluster.partitioned.layout import Layout
from gdatalog.cluster.partitioned.shares import Block, Bucket
from gdatalog.cluster.pool import Call, RemoteValue, TaskStage
from gdatalog.plan.cells import Cell, KeyRange, cuttable, roles
from gdatalog.plan.nodes import JoinPlan
from gdatalog.records import dataclass
from gdatalog.storage.table import Array


@dataclass(slots=True, eq=False)
class CellBatch:
    """Cells that are to be run, the buckets that they need, and how much work they are. `blocks`:
    those that they are made of, or none if the cells are smaller."""

    cells: Sequence[Cell]
    buckets: Sequence[Bucket]
    cost: float
    blocks: Sequence[Block] = ()
    refined: bool = False


class BucketExchange:
    """The buckets of a join, `widths`: the bytes of a row of each source."""

    def __init__(
        self,
        join: JoinPlan,
        layout: Layout,
        buckets: Sequence[SourceBuckets],
        widths: Sequence[int],
    ) -> None:
        self.layout = layout
        self.buckets = buckets
        self.widths = widths
        self.bound = _bound(join, layout)
        self._ends = [
            [np.append(0, np.cumsum(told.counts)).tolist() for _, told in each.summaries()]
            for each in buckets
        ]
        # By worker, bucket, and group of its source.
        self._there: dict[str, dict[tuple[Bucket, int], BucketSlice]] = {}

    def forget(self, workers: Collection[str]) -> None:
        """Only these workers are there."""
        self._there = {at: some for at, some in self._there.items() if at in workers}

    def fragments(
        self, part: CellBatch, worker: str, workers: Collection[str], stage: TaskStage
    ) -> tuple[list[Fragment], list[RemoteValue]]:
        """The rows that a part's cells need, on a worker; and what it receives for that."""
        found: list[Fragment] = []
        coming: list[RemoteValue] = []
        for number, source in enumerate(self.layout.sources):
            mine = [bucket for bucket in part.buckets if bucket.source == number]
            slices, kept = self._slices(number, mine, worker, workers, stage)
            if kept is not None:
                coming.append(kept)
            boxes = _boxes(part.cells, self.bound[number]) if part.refined else None
            twice = self.buckets[number].base.twice
            found.append(Fragment(source, tuple(slices), self.bound[number], boxes, twice))
        return found, coming

    def _slices(
        self,
        source: int,
        buckets: Sequence[Bucket],
        worker: str,
        workers: Collection[str],
        stage: TaskStage,
    ) -> tuple[list[BucketSlice], RemoteValue | None]:
        """Some buckets of a source on a worker, and what it receives for that."""
        there = self._there.setdefault(worker, {})
        slices: list[BucketSlice] = []
        calls: list[RemoteValue] = []
        wanted: list[tuple[Bucket, int, int]] = []
        width = self.widths[source]
        for group, (kept, told) in enumerate(self.buckets[source].summaries()):
            ends = self._ends[source][group]
            ranges = []
            for bucket in buckets:
                at = _place(bucket, told.counts)
                if ends[at] == ends[at + 1]:
                    continue
                if told.home == worker:
                    slices.append(BucketSlice(kept, ends[at], ends[at + 1], width))
                elif (bucket, group) in there:
                    slices.append(there[bucket, group])
                else:
                    ranges.append((ends[at], ends[at + 1]))
                    wanted.append((bucket, group, ends[at + 1] - ends[at]))
            if ranges:
                home = told.home if told.home in workers else None
                calls.append(stage.defer(Call(sliced, (kept, ranges), True, home)))
        if not calls:
            return slices, None
        coming = stage.defer(Call(received, (calls,), True, worker))
        start = 0
        for bucket, group, rows in wanted:
            there[bucket, group] = BucketSlice(coming, start, start + rows, width)
            slices.append(there[bucket, group])
            start += rows
        return slices, coming


def _place(bucket: Bucket, counts: Array) -> int:
    """The number of a bucket among those of a group."""
    return int(np.ravel_multi_index(bucket.classes, counts.shape)) if counts.shape else 0


def _boxes(
    cells: Sequence[Cell], bound: Sequence[Mapping[int, str]]
) -> tuple[Mapping[int, KeyRange], ...]:
    """Where rows must lie that cells need, by the columns of a source."""
    return tuple(
        {column: cell.stretches[name] for column, name in role.items() if name in cell.stretches}
        for cell in cells
        for role in bound
    )


def _bound(join: JoinPlan, layout: Layout) -> list[tuple[Mapping[int, str], ...]]:
    """For each source what its tries have in their columns, of the variables that can be cut."""
    names = {slot.name for slot in cuttable(join)}
    found: list[list[Mapping[int, str]]] = [[] for _ in layout.sources]
    for ref, role, told in zip(join.tries, layout.roles, roles(join), strict=True):
        if role is not None:
            known = zip(ref.columns, told, strict=True)
            found[role.source].append({at: name for at, name in known if name in names})
    return list(map(tuple, found))
