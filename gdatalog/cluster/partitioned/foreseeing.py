"""What is expected of a rule over relations of which each worker has a part, before any is asked:
by a sample of the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gdatalog.cluster.partitioned.bucket_store import BucketStore
from gdatalog.cluster.partitioned.buckets import mask_of
from gdatalog.cluster.partitioned.cell_tasks import MAKING
from gdatalog.cluster.partitioned.census import Census, count, fine
from gdatalog.cluster.partitioned.choosing import Choice, choose
from gdatalog.plan.nodes import JoinPlan, RulePlan
from gdatalog.plan.placement import Spread
from gdatalog.storage.relation import Relation


def parted(plan: RulePlan, relation_of: Callable[[str], Relation], store: BucketStore) -> Spread:
    """How a rule will be spread, all of its joins together."""
    choices = [_choice(join, relation_of, store) for join in plan.joins]
    return told([choice for choice in choices if choice is not None], len(store.pool.workers))


def told(choices: Sequence[Choice], workers: int) -> Spread:
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
) -> Choice | None:
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
    census = Census(layout, domains, counts, widths)
    memory, slots = store.room()
    workers = len(store.pool.workers)
    return choose(census, memory // MAKING, workers, max(1, slots // workers))
