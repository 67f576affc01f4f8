"""Groups with their best values, and a queue of the groups to follow next.

A group is a number. Its value is a `cost`; less is better. The arrays of groups are `best` (costs),
`where` (where each group waits; ABSENT: it has no value yet; IDLE: its value has been followed),
and `origin` (the group that its value was derived from). `touched` lists the groups that have a
value.

There are two kinds of queue. A ring, first in first out, works for any rules. An order by cost is
for rules that never derive a better cost than the one that they start from: then each group is
followed once. It is a radix heap: bucket b has the costs whose highest bit that differs from the
last cost followed is bit b - 1; bucket 0 has the costs equal to it. When bucket 0 is empty, the
first bucket that is not is spread over those before it. A bucket is a list of entries (`link`,
`item`). An entry is stale if its group is no longer in that bucket.

`queue` has the state of all this. Seeds (`seeds`, `costs`, ascending if costs are ordered) are
groups with the costs that they have without recursive rules.
"""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.helpers import at, put
from gdatalog.codegen.helpers.bits import bit_length
from gdatalog.codegen.loop_language import Array, Scalar, inlined, part

ABSENT, IDLE = -2, -1
WORST = 0x7FFF_FFFF_FFFF_FFFF
BUCKETS = 65
# The entries of `queue`.
LAST, FREE, USED, ORDERED, RING, WAITING, TOUCHED, WATCHED = range(8)
NEWS, CHECK, SEED, SEEDS, FOUND, KNOWN, REHASH, BEGUN, DONE, UNIT = range(8, 18)
NONE, UNNUMBERED = -1, -1
OFTEN = 1024  # least improvements between two searches for a cycle


@inlined
def improves(best: Array, where: Array, group: Scalar, cost: Scalar) -> Scalar:
    """Whether a cost is better than a group's cost."""
    had = at(best, group)
    return cost < had or (cost == WORST and had == WORST and at(where, group) == ABSENT)


@inlined
def improve(
    best: Array, where: Array, touched: Array, origin: Array, heads: Array, link: Array,
    item: Array, queue: Array, group: Scalar, cost: Scalar, source: Scalar,
) -> None:  # fmt: skip
    """Gives a group a better cost, and queues it."""
    if at(where, group) == ABSENT:
        put(touched, at(queue, TOUCHED), group)
        put(queue, TOUCHED, at(queue, TOUCHED) + 1)
        put(where, group, IDLE)
    put(best, group, cost)
    if at(queue, WATCHED) != 0:
        put(origin, group, source)
        put(queue, NEWS, at(queue, NEWS) + 1)
    if at(queue, ORDERED) == 0:
        if at(where, group) == IDLE:
            put(where, group, 0)
            waiting = at(queue, WAITING)
            place = at(queue, RING) + waiting
            if place >= len(item):
                place -= len(item)
            put(item, place, group)
            put(queue, WAITING, waiting + 1)
        return
    last = at(queue, LAST)
    bucket = 0
    if cost > last:
        bucket = bit_length(cost ^ last)
    if at(where, group) == bucket:
        return  # its entry is in this bucket already
    if at(queue, FREE) == NONE and at(queue, USED) == len(item):
        _compact(where, touched, heads, link, item, queue)
    put(where, group, bucket)
    _enter(heads, link, item, queue, group, bucket)


@inlined
def _enter(
    heads: Array, link: Array, item: Array, queue: Array, group: Scalar, bucket: Scalar
) -> None:
    """Adds an entry to a bucket."""
    entry = at(queue, FREE)
    if entry != NONE:
        put(queue, FREE, at(link, entry))
    else:
        entry = at(queue, USED)
        put(queue, USED, entry + 1)
    put(item, entry, group)
    put(link, entry, at(heads, bucket))
    put(heads, bucket, entry)


@part
def _compact(
    where: Array, touched: Array, heads: Array, link: Array, item: Array, queue: Array
) -> None:
    """Drops stale entries: there were more entries than groups."""
    for bucket in range(BUCKETS):
        put(heads, bucket, NONE)
    put(queue, FREE, NONE)
    put(queue, USED, 0)
    for i in range(at(queue, TOUCHED)):
        group = at(touched, i)
        bucket = at(where, group)
        if bucket >= 0:
            _enter(heads, link, item, queue, group, bucket)


@part
def begin(
    best: Array, where: Array, touched: Array, origin: Array, heads: Array, link: Array,
    item: Array, queue: Array, seeds: Array, costs: Array,
) -> None:  # fmt: skip
    """Queues the seeds; if costs are ordered, `next_group` takes each seed in its turn."""
    for bucket in range(BUCKETS):
        put(heads, bucket, NONE)
    put(queue, FREE, NONE)
    put(queue, USED, 0)
    if at(queue, ORDERED) != 0:
        if at(queue, SEED) < at(queue, SEEDS):
            put(queue, LAST, at(costs, at(queue, SEED)))
        return
    for i in range(at(queue, SEED), at(queue, SEEDS)):
        group, cost = np.int64(at(seeds, i)), np.int64(at(costs, i))
        if improves(best, where, group, cost):
            improve(best, where, touched, origin, heads, link, item, queue, group, cost, NONE)
    put(queue, SEED, at(queue, SEEDS))


@inlined
def next_group(
    best: Array, where: Array, touched: Array, origin: Array, heads: Array, link: Array,
    item: Array, queue: Array, seeds: Array, costs: Array,
) -> Scalar:  # fmt: skip
    """A group whose value has improved since it was followed last; -1 if there is none."""
    if at(queue, ORDERED) == 0:
        waiting, place = at(queue, WAITING), at(queue, RING)
        if waiting == 0:
            return -1
        group = np.int64(at(item, place))
        put(where, group, IDLE)
        put(queue, WAITING, waiting - 1)
        place += 1
        if place == len(item):
            place = 0
        put(queue, RING, place)
        return group
    while True:
        entry = at(heads, 0)
        while entry != NONE:
            group, after = np.int64(at(item, entry)), at(link, entry)
            put(link, entry, at(queue, FREE))
            put(queue, FREE, entry)
            if at(where, group) == 0:
                put(where, group, IDLE)
                put(heads, 0, after)
                return group
            entry = after
        put(heads, 0, NONE)
        bucket = 1
        while bucket < BUCKETS and at(heads, bucket) == NONE:
            bucket += 1
        seed, last = at(queue, SEED), at(queue, LAST)
        if seed < at(queue, SEEDS):
            group, cost = np.int64(at(seeds, seed)), np.int64(at(costs, seed))
            floor = 0  # the least cost that can be in the bucket
            if bucket < BUCKETS - 1:
                floor = ((last >> (bucket - 1)) | 1) << (bucket - 1)
            if bucket == BUCKETS or cost < floor:
                put(queue, SEED, seed + 1)
                if cost > last:
                    put(queue, LAST, cost)
                if improves(best, where, group, cost):
                    improve(
                        best, where, touched, origin, heads, link, item, queue, group, cost, NONE
                    )
                continue
        if bucket == BUCKETS:
            return -1
        _spread(best, where, heads, link, item, queue, costs, bucket)


@inlined
def _spread(
    best: Array, where: Array, heads: Array, link: Array, item: Array, queue: Array,
    costs: Array, bucket: Scalar,
) -> None:  # fmt: skip
    """Spreads a bucket over those before it; its least cost is followed next."""
    least, live = np.int64(WORST), False
    entry = at(heads, bucket)
    while entry != NONE:
        group = at(item, entry)
        if at(where, group) == bucket:
            live = True
            if at(best, group) < least:
                least = at(best, group)
        entry = at(link, entry)
    if live:
        if at(queue, SEED) < at(queue, SEEDS) and at(costs, at(queue, SEED)) < least:
            least = np.int64(at(costs, at(queue, SEED)))
        put(queue, LAST, least)
    entry = at(heads, bucket)
    put(heads, bucket, NONE)
    while entry != NONE:
        group, after = at(item, entry), at(link, entry)
        if at(where, group) == bucket:
            cost, lower = at(best, group), 0
            if cost > least:
                lower = bit_length(cost ^ least)
            put(where, group, lower)
            put(link, entry, at(heads, lower))
            put(heads, lower, entry)
        else:
            put(link, entry, at(queue, FREE))
            put(queue, FREE, entry)
        entry = after


@part
def follow_again(
    best: Array, where: Array, touched: Array, origin: Array, heads: Array, link: Array,
    item: Array, queue: Array, group: Scalar,
) -> None:  # fmt: skip
    """Queues a group again that was not followed to the end."""
    source = np.int64(NONE)
    if at(queue, WATCHED) != 0:
        source = np.int64(at(origin, group))
    cost = at(best, group)
    improve(best, where, touched, origin, heads, link, item, queue, group, cost, source)


@part
def clear(best: Array, where: Array, touched: Array, origin: Array, queue: Array) -> None:
    """Removes the values of all groups."""
    for i in range(at(queue, TOUCHED)):
        group = at(touched, i)
        put(best, group, WORST)
        put(where, group, ABSENT)
        if at(queue, WATCHED) != 0:
            put(origin, group, NONE)
    put(queue, TOUCHED, 0)
    put(queue, WAITING, 0)
    put(queue, RING, 0)
    put(queue, NEWS, 0)
    put(queue, CHECK, 0)


@part
def goes_round(touched: Array, origin: Array, stamps: Array, queue: Array) -> bool:
    """Whether a group's value is derived from a worse value of its own; searched now and then.

    Without such a cycle, groups and their origins are a forest. `queue[FOUND]` is such a group.
    """
    if at(queue, NEWS) < at(queue, CHECK):
        return False
    count = at(queue, TOUCHED)
    put(queue, CHECK, at(queue, NEWS) + count + OFTEN)
    for i in range(count):
        put(stamps, at(touched, i), 0)
    for i in range(count):
        group = np.int64(at(touched, i))
        while group != NONE and at(stamps, group) == 0:
            put(stamps, group, i + 1)
            group = np.int64(at(origin, group))
        if group != NONE and at(stamps, group) == i + 1:
            put(queue, FOUND, group)
            return True
    return False
