"""Chooses the shares of a join: those whose blocks fit a worker, that move the fewest bytes and
keep all workers busy.

More classes make smaller blocks, which fit and can be spread; but then more blocks need each
bucket. The search adds classes to one domain after the other, as long as that helps.

`Assigner` assigns blocks to workers in batches, first those for which the fewest bytes must move.
Batches shrink towards the end, so that all workers end at about the same time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import combinations
from typing import NamedTuple

import numpy as np

from gdatalog.cluster.joins.shares import Block, Shares
from gdatalog.plan.cells import Cell
from gdatalog.plan.placement import Spread
from gdatalog.records import dataclass
from gdatalog.storage.table import Array

PART = 3  # a batch is at most a worker's share of the remaining work, divided by this


class Batch(NamedTuple):
    """Blocks, the buckets that they need together, the bytes that must move for them, and their
    cost. `cells`: what is run of them; `refined`: these are smaller than blocks."""

    blocks: tuple[Block, ...]
    buckets: Sequence[int]
    coming: int
    cost: float
    cells: Sequence[Cell] = ()
    refined: bool = False


class Assigner:
    """Deals the blocks of shares to workers, each once."""

    def __init__(self, shares: Shares, memory: int, workers: int) -> None:
        """`memory`: bytes of buckets that a worker can hold; at least those of any block."""
        self.shares = shares
        self.memory = memory
        self.workers = workers
        needs = shares.needs(shares.blocks)
        self._numbers = np.flatnonzero(needs.any(axis=0))  # buckets that some block needs
        self._sizes = shares.sizes[self._numbers].astype(np.float64)
        self._wires = shares.wires[self._numbers]
        self._needs = np.asfortranarray(needs[:, self._numbers])
        every = np.arange(len(self._numbers))
        self._whole = self._bytes(every, self._sizes), self._bytes(every, self._wires)
        self._costs = np.array([shares.cost(block) for block in shares.blocks])
        self._left = np.ones(len(needs), dtype=np.bool_)
        self._held: dict[Hashable, Array] = {}

    def _bytes(self, buckets: Array, sizes: Array) -> Array:
        """The bytes of these buckets that each block needs."""
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
        # By block: the bytes of its buckets that the batch lacks, and of those that must move.
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
            self._numbers[has].tolist(),
            int(coming_now),
            cost,
        )

    def _keep(self, has: Array, held: Array) -> Array:
        """What a worker holds after a batch: the batch's buckets, and those others, as far as they
        fit, that most of the remaining blocks need."""
        uses = self._needs[self._left].sum(axis=0)
        kept = has.copy()
        room = self.memory - float(self._sizes @ has)
        others = np.flatnonzero(held & ~has & (uses > 0))
        for at in others[np.argsort(-uses[others], kind="stable")]:
            if self._sizes[at] <= room:
                kept[at] = True
                room -= self._sizes[at]
        return kept


CLASSES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64, 96, 128)
BUCKETS = 1 << 12  # allowed for each allowed block
PATIENCE = 2  # steps without a gain until the search stops
# How many blocks the search examines once some shares fit: one for EACH bytes, within bounds. And
# how many blocks shares may have: one for LARGE bytes, within bounds.
EACH, FEWEST, ENOUGH = 1 << 12, 300, 6_000
LARGE, MOST_BLOCKS = 1 << 26, 20_000


@dataclass(frozen=True)
class ShareChoice:
    """Shares, and the expected batches of each thread if all are equally fast.

    `threads`: of each worker. `memory`: bytes of buckets that a batch may have.
    """

    shares: Shares
    memory: int
    batches: Sequence[Sequence[Batch]]
    threads: int = 1

    @property
    def workers(self) -> int:
        return len(self.batches) // self.threads

    @property
    def moved(self) -> int:
        """The bytes expected to move between workers; a worker already has its part of what it
        needs."""
        coming = sum(batch.coming for given in self.batches for batch in given)
        return coming * (self.workers - 1) // self.workers

    @property
    def uneven(self) -> float:
        """The work of the busiest thread, relative to the mean."""
        work = [sum(batch.cost for batch in given) for given in self.batches]
        return max(work) * len(work) / sum(work) if any(work) else 1.0

    @property
    def weight(self) -> float:
        """The cost of a choice: the time to read all rows and the moved ones, until the last thread
        ends."""
        return (self.moved + self.shares.total) * self.uneven


def expected(shares: Shares, memory: int, workers: int, threads: int = 1) -> ShareChoice:
    """The expected assignment of shares, if all threads are equally fast."""
    assigner = Assigner(shares, memory, workers * threads)
    batches: list[list[Batch]] = [[] for _ in range(workers * threads)]
    busy = [(0.0, thread) for thread in range(len(batches))]
    while True:
        work, thread = heappop(busy)
        batch = assigner.next_batch(thread // threads)
        if batch is None:
            return ShareChoice(shares, memory, batches, threads)
        batches[thread].append(batch)
        heappush(busy, (work + batch.cost, thread))


def choose(census: Shares, memory: int, workers: int, threads: int = 1) -> ShareChoice:
    """The best shares. `memory`: bytes of buckets that a thread can hold at once; more if even the
    smallest possible blocks need more: those are divided when they run."""
    while (best := weighed(census, memory, workers, threads)) is None:
        memory *= 2
    return best


def weighed(census: Shares, memory: int, workers: int, threads: int = 1) -> ShareChoice | None:
    """The best shares whose blocks fit; None if there are none."""
    search = _Search(census, memory, workers, threads)
    for names in _restricted(census.layout.variables):
        search.climb(census.restricted(names))
        if search.budget <= 0:
            break
    return search.best


def _restricted(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Sets of variables to restrict, largest first."""
    yield names
    for size in range(len(names) - 1, 0, -1):
        yield from combinations(names, size)


class _Search:
    def __init__(self, census: Shares, memory: int, workers: int, threads: int) -> None:
        self.memory, self.workers, self.threads = memory, workers, threads
        self.weights = [census.weights(domain) for domain in range(len(census.domains))]
        self.best: ShareChoice | None = None
        self.enough = max(FEWEST, min(ENOUGH, census.total // EACH))
        self.most = max(ENOUGH, min(MOST_BLOCKS, census.total // LARGE))
        self.looked = 0

    @property
    def budget(self) -> int:
        """How many more blocks may be examined; more as long as none fit."""
        return (4 * self.most if self.best is None else self.enough) - self.looked

    def climb(self, census: Shares) -> None:
        """Adds classes to the domain where that helps most, step by step."""
        steps = [0] * len(self.weights)
        self._weighed(census, steps)
        vain = 0
        while vain < PATIENCE or self.best is None:
            known = self.best
            tried = []
            for domain in sorted(set(census.layout.domain_of)):
                more = [at + (number == domain) for number, at in enumerate(steps)]
                if CLASSES[steps[domain]] < len(self.weights[domain]):
                    weight = self._weighed(census, more)
                    if weight is not None:
                        tried.append((weight, more))
            if not tried:
                return
            _, steps = min(tried)
            vain = 0 if self.best is not known else vain + 1

    def _weighed(self, census: Shares, steps: Sequence[int]) -> tuple[int, float] | None:
        """The cost of shares, lower is better; None if they have too many blocks."""
        if self.budget <= 0:
            return None
        starts = [
            _starts(weights, CLASSES[at]) for weights, at in zip(self.weights, steps, strict=True)
        ]
        shares = census.coarser(starts)
        if (
            shares.most_blocks > max(FEWEST, min(self.most, self.budget))
            or shares.marks > BUCKETS * self.most
        ):
            return None
        self.looked += len(shares.blocks)
        if shares.largest > self.memory:
            return 1, float(shares.largest)
        choice = expected(shares, self.memory, self.workers, self.threads)
        if self.best is None or choice.weight < self.best.weight:
            self.best = choice
        return 0, choice.weight


def _starts(weights: Array, classes: int) -> list[int]:
    """The first fine class of each of some classes of about equal weight; heavy fine classes are
    classes of their own."""
    part = max(1.0, float(weights.sum()) / classes)
    sums = np.cumsum(weights) - weights
    heavy = np.flatnonzero(weights >= part) if classes > 1 else np.empty(0, dtype=np.int64)
    places = np.searchsorted(sums, part * np.arange(1, classes))
    starts = np.concatenate([[0], places, heavy, heavy + 1])
    return [int(at) for at in np.unique(starts) if at < len(weights)]


def spread_of(choices: Sequence[ShareChoice], workers: int) -> Spread:
    """The spread of some joins."""
    return Spread(
        "partitioned",
        workers,
        sum(len(choice.shares.blocks) for choice in choices),
        tuple(domain.classes for choice in choices for domain in choice.shares.domains),
        sum(choice.moved for choice in choices),
    )
