"""Relations with more rows: unions, and relations that extend others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdatalog.engine.row_codes import grown
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_store import SORTED_BELOW

# Rows up to which recomputed relations are compared with old ones.
COMPARED = 1 << 21
SAMPLE = 64


def union(relations: Sequence[Relation]) -> Relation:
    """The rows of relations of one schema."""
    first = relations[0]
    far = [r.remote for r in relations if r.remote is not None and r.remote.unfetched]
    if far:  # the other rows move to the workers
        near = [r for r in relations if r.remote is None or not r.remote.unfetched]
        blocks = [block for r in near if r.at_most for block in r.blocks(distinct=False)]
        parts = [part for each in far for part in each.parts]
        keeper = far[0].keeper
        return Relation.of_parts(first.columns, first.types, [*parts, *keeper.put(blocks)], keeper)
    lying = next((r.store.on_device for r in relations if not r.store.on_host), None)
    if lying is not None:  # the other rows move to the device
        there = [relation.store.lay(lying.ops) for relation in relations]
        rows = [part.as_they_are() for part in there if part.count]
        count = sum(part.count for part in there)
        return Relation.of_blocks(first.columns, first.types, rows, count, ops=lying.ops)
    blocks = [block for relation in relations for block in relation.blocks(distinct=False)]
    count = sum(relation.at_most for relation in relations)
    return Relation.of_blocks(first.columns, first.types, blocks, count)


def extended(before: Relation, more: Relation) -> Relation:
    """Adds rows to a relation. If they are few, it keeps the old rows in place and records the new
    ones."""
    many = 2 * more.at_most > before.at_most and before.at_most > SORTED_BELOW
    if many or not (before.store.on_host and more.store.on_host):
        return union([before, more])
    if not before.types:
        return grown(before, more) if before.length < more.length else before.unchanged()
    rows = more.keys
    known = before.holds(rows)
    return grown(before, more.part(np.flatnonzero(~known)) if known.any() else more)


def settled(before: Relation, now: Relation) -> Relation:
    """Makes a recomputed relation an extension of the old one if rows were only added, or none, so
    that its readers see only these."""
    alike = (before.columns, before.types) == (now.columns, now.types) and now is not before
    if not (alike and before.store.on_host and now.store.on_host):
        return now
    if not now.types:
        return before.unchanged() if now.length == before.length else now
    count = before.length
    if not count <= now.length <= COMPARED:
        return now
    if count == now.length:
        some = slice(None, None, max(1, count // SAMPLE))
        if not before.holds(tuple(column[some] for column in now.store.as_they_are())).all():
            return now
    known = before.holds(now.keys)
    if np.count_nonzero(known) < count:
        return now
    if count == now.length:
        return before.unchanged()
    return now.coming_from(before, [now.part(np.flatnonzero(~known))])
