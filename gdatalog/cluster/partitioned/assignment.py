"""Who gets which blocks: workers are dealt blocks that need the buckets they have.

Each time a worker asks it gets a batch: blocks whose buckets fit its memory together, those first
for which the fewest bytes have to come. Batches get smaller towards the end, so that all workers
end at about the same time.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from gdatalog.cluster.partitioned.shares import Block, Bucket, Shares
from gdatalog.storage.table import Array

PART = 3  # a batch is at most this part of a worker's share of the work that is left


class Batch(NamedTuple):
    """Blocks, the buckets that they need together, the bytes in which those of them come that are
    not held, and how much work they are."""

    blocks: tuple[Block, ...]
    buckets: tuple[Bucket, ...]
    coming: int
    cost: float


class Assigner:
    """Deals the blocks of shares, each once."""

    def __init__(self, shares: Shares, memory: int, workers: int) -> None:
        """`memory`: bytes of buckets that a worker can hold, at least those of each block."""
        self.shares = shares
        self.memory = memory
        self.workers = workers
        needs = shares.needs(shares.blocks)
        self._numbers = np.flatnonzero(needs.any(axis=0))  # of the buckets that anyone needs
        self._sizes = shares.sizes[self._numbers].astype(np.float64)
        self._wires = shares.wires[self._numbers]
        self._needs = np.asfortranarray(needs[:, self._numbers])
        every = np.arange(len(self._numbers))
        self._whole = self._bytes(every, self._sizes), self._bytes(every, self._wires)
        self._costs = np.array([shares.cost(block) for block in shares.blocks])
        self._left = np.ones(len(needs), dtype=np.bool_)
        self._held: dict[Hashable, Array] = {}

    def _bytes(self, buckets: Array, sizes: Array) -> Array:
        """How much of each block's needs some buckets are."""
        found = np.zeros(len(self._needs))
        for at in buckets.tolist():
            found += np.where(self._needs[:, at], sizes[at], 0.0)
        return found

    def next_batch(self, worker: Hashable) -> Batch | None:
        """The next batch for a worker; None if all blocks have been dealt."""
        if not self._left.any():
            return None
        held = self._held.get(worker, np.zeros(len(self._sizes), dtype=np.bool_))
        costs = self._costs
        cap = float(costs[self._left].sum()) / (PART * self.workers)
        wires = np.where(held, 0.0, self._wires)
        has: Array = np.zeros(len(self._sizes), dtype=np.bool_)
        taken: Array = np.zeros(len(costs), dtype=np.bool_)
        # By block the bytes of its buckets that the batch has not, and those that have to come.
        growth = self._whole[0].copy()
        coming = self._whole[1] - self._bytes(np.flatnonzero(held), self._wires)
        cost = used = 0.0
        while cost < cap:
            fitting = np.flatnonzero(self._left & ~taken & (growth + used <= self.memory))
            if len(fitting) == 0:
                break
            order = np.lexsort((-costs[fitting], growth[fitting], coming[fitting]))
            best = fitting[order[0]]
            new = np.flatnonzero(self._needs[best] & ~has)
            has[new] = True
            used += float(self._sizes[new].sum())
            growth -= self._bytes(new, self._sizes)
            coming -= self._bytes(new, wires)
            covered = self._left & ~taken & (growth == 0)
            if cost > 0 and cost + float(costs[covered].sum()) > 2 * cap:
                covered[:] = False
                covered[best] = True
            taken = np.logical_or(taken, covered)
            cost += float(costs[covered].sum())
        blocks = np.flatnonzero(taken)
        has = np.logical_or.reduce(self._needs[blocks])
        coming_now = float(self._wires @ (has & ~held))
        self._left[blocks] = False
        self._held[worker] = self._keep(has, held)
        return Batch(
            tuple(self.shares.blocks[at] for at in blocks),
            tuple(map(self.shares.bucket, self._numbers[has].tolist())),
            int(coming_now),
            cost,
        )

    def _keep(self, has: Array, held: Array) -> Array:
        """What a worker has after a batch: its buckets, and as many of the others as fit that
        most of the blocks left need."""
        uses = self._needs[self._left].sum(axis=0)
        kept = has.copy()
        room = self.memory - float(self._sizes @ has)
        others = np.flatnonzero(held & ~has & (uses > 0))
        for at in others[np.argsort(-uses[others], kind="stable")]:
            if self._sizes[at] <= room:
                kept[at] = True
                room -= self._sizes[at]
        return kept


def assigned(shares: Shares, memory: int, workers: int, threads: int = 1) -> list[list[Batch]]:
    """The batches of each thread of each worker, where all are equally fast."""
    assigner = Assigner(shares, memory, workers * threads)
    batches: list[list[Batch]] = [[] for _ in range(workers * threads)]
    busy = [(0.0, thread) for thread in range(len(batches))]
    while True:
        work, thread = heappop(busy)
        batch = assigner.next_batch(thread // threads)
        if batch is None:
            return batches
        batches[thread].append(batch)
        heappush(busy, (work + batch.cost, thread))
