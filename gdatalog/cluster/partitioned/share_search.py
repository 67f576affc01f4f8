"""Which shares a join gets: of those whose blocks fit a worker, the ones that move the fewest
bytes and keep all workers at work.

More classes make smaller blocks, which fit and can be spread; but each bucket is then needed by
more of them. So classes are added, domain by domain, as long as that is for the better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np

from gdatalog.cluster.partitioned.assignment import Batch, assigned
from gdatalog.cluster.partitioned.bucket_store import BucketStore
from gdatalog.cluster.partitioned.buckets import mask_of
from gdatalog.cluster.partitioned.cell_tasks import MAKING
from gdatalog.cluster.partitioned.histogram import Histogram, count, fine
from gdatalog.cluster.partitioned.shares import Shares
from gdatalog.plan.nodes import JoinPlan, RulePlan
from gdatalog.plan.placement import Spread
from gdatalog.records import dataclass
from gdatalog.storage.relation import Relation
from gdatalog.storage.table import Array

CLASSES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64, 96, 128)
BUCKETS = 1 << 12  # that shares may have, for each block that they may have
PATIENCE = 2  # steps without a gain, after which no more classes are tried
# Blocks that are looked at once some fit: one for so many bytes, within bounds; and blocks that
# shares may have where none with fewer fit: one for so many bytes, within bounds.
EACH, FEWEST, ENOUGH = 1 << 12, 300, 6_000
LARGE, MOST = 1 << 26, 20_000


@dataclass(frozen=True)
class ShareChoice:
    """Shares, and what is expected of them: the batches of each thread if all are equally fast.

    `threads`: of each worker. `memory`: bytes of buckets that a batch can have.
    """

    shares: Shares
    memory: int
    batches: tuple[tuple[Batch, ...], ...]
    threads: int = 1

    @property
    def workers(self) -> int:
        return len(self.batches) // self.threads

    @property
    def moved(self) -> int:
        """The bytes that are expected to go from worker to worker: of what a worker needs, as
        much as it has of all is there."""
        coming = sum(batch.coming for given in self.batches for batch in given)
        return coming * (self.workers - 1) // self.workers

    @property
    def uneven(self) -> float:
        """The work of the thread that has the most, by the mean of all."""
        work = [sum(batch.cost for batch in given) for given in self.batches]
        return max(work) * len(work) / sum(work) if any(work) else 1.0

    @property
    def weight(self) -> float:
        """The less the better: time to read what is there and what comes, till the last ends."""
        return (self.moved + self.shares.total) * self.uneven


def expected(shares: Shares, memory: int, workers: int, threads: int = 1) -> ShareChoice:
    """What is to be expected of shares."""
    batches = assigned(shares, memory, workers, threads)
    return ShareChoice(shares, memory, tuple(map(tuple, batches)), threads)


def choose(census: Histogram, memory: int, workers: int, threads: int = 1) -> ShareChoice:
    """`memory`: bytes of buckets that a thread of a worker can hold at once; more, if even the
    smallest blocks that the census knows of need that: those are cut again as they run."""
    while (best := weighed(census, memory, workers, threads)) is None:
        memory *= 2
    return best


def weighed(census: Histogram, memory: int, workers: int, threads: int = 1) -> ShareChoice | None:
    """The best shares whose blocks fit; None if there are none."""
    search = _Search(census, memory, workers, threads)
    for names in _restricted(census.layout.variables):
        search.climb(census.restricted(names))
        if search.budget <= 0:
            break
    return search.best


def _restricted(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Choices of variables to restrict, the most first."""
    yield names
    for size in range(len(names) - 1, 0, -1):
        yield from combinations(names, size)


class _Search:
    def __init__(self, census: Histogram, memory: int, workers: int, threads: int) -> None:
        self.memory, self.workers, self.threads = memory, workers, threads
        self.weights = [census.weights(domain) for domain in range(len(census.domains))]
        self.best: ShareChoice | None = None
        self.enough = max(FEWEST, min(ENOUGH, census.total // EACH))
        self.most = max(ENOUGH, min(MOST, census.total // LARGE))
        self.looked = 0

    @property
    def budget(self) -> int:
        """How many blocks may still be looked at: more of them as long as none fit."""
        return (4 * self.most if self.best is None else self.enough) - self.looked

    def climb(self, census: Histogram) -> None:
        """Adds classes to the domain for which that helps most, one step after the other."""
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

    def _weighed(self, census: Histogram, steps: Sequence[int]) -> tuple[int, float] | None:
        """How good shares are, the less the better; None if they have too many blocks."""
        if self.budget <= 0:
            return None
        starts = [
            _starts(weights, CLASSES[at]) for weights, at in zip(self.weights, steps, strict=True)
        ]
        shares = census.shares(starts)
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
    """The fine classes with which classes of about equal weight begin; one that is as heavy as
    a class should be has its own."""
    part = max(1.0, float(weights.sum()) / classes)
    sums = np.cumsum(weights) - weights
    heavy = np.flatnonzero(weights >= part) if classes > 1 else np.empty(0, dtype=np.int64)
    places = np.searchsorted(sums, part * np.arange(1, classes))
    starts = np.concatenate([[0], places, heavy, heavy + 1])
    return [int(at) for at in np.unique(starts) if at < len(weights)]


# ------------------------------------------------------------------------------ by a sample


def partitioned_spread(
    plan: RulePlan, relation_of: Callable[[str], Relation], store: BucketStore
) -> Spread:
    """How a rule will be spread, all of its joins together."""
    choices = [_choice(join, relation_of, store) for join in plan.joins]
    return spread_of([choice for choice in choices if choice is not None], len(store.pool.workers))


def spread_of(choices: Sequence[ShareChoice], workers: int) -> Spread:
    """What is planned of some joins."""
    return Spread(
        "partitioned",
        workers,
        sum(len(choice.shares.blocks) for choice in choices),
        tuple(domain.classes for choice in choices for domain in choice.shares.domains),
        sum(choice.moved for choice in choices),
    )


def _choice(
    join: JoinPlan, relation_of: Callable[[str], Relation], store: BucketStore
) -> ShareChoice | None:
    """The shares that a join will have, about; None if it only counts rows."""
    layout, bases, samples = store.laid_out(join, relation_of, planned=True)
    if not bases:
        return None
    domains = fine(layout, samples)
    rows = []
    for base, source in zip(bases, layout.sources, strict=True):
        keys = dict(enumerate(base.sample))
        mask = mask_of(keys, source.tests)
        rows.append({column: keys[column][mask] for column in source.columns})
    counts = tuple(
        count(keys, dims, domains) * base.step
        for keys, base, dims in zip(rows, bases, layout.dims, strict=True)
    )
    widths = tuple(sum(column.itemsize for column in keys.values()) for keys in rows)
    census = Histogram(layout, domains, counts, widths)
    memory, slots = store.room()
    workers = len(store.pool.workers)
    return choose(census, memory // MAKING, workers, max(1, slots // workers))
