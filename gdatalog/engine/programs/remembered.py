"""The cache of evaluated strata.

A cached stratum stores only the versions of the relations that it read, so it keeps no other rows
alive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from gdatalog.engine.programs.fact_list import FactList, Piece
from gdatalog.plan.tuning import Tuning
from gdatalog.planner.check import CheckedRule, Schema
from gdatalog.records import dataclass
from gdatalog.storage.parts import Version
from gdatalog.storage.relation import Relation

# A relation that a stratum reads: a lower one (False), or the data of one of its own (True).
Read = tuple[str, bool]

Item = TypeVar("Item")

# Rows up to which recomputed relations are compared with old ones.
COMPARED = 1 << 21
SAMPLE = 64


@dataclass(frozen=True, slots=True)
class MadeOf:
    """The inputs of a stratum, except for the relations that it reads."""

    schemas: tuple[Schema, ...]
    rules: tuple[CheckedRule, ...]
    facts: tuple[FactList, ...]  # of each relation
    params: tuple[object, ...]  # name, type and value of those that are used
    limits: tuple[int | None, ...] = ()  # .limitsize


@dataclass(slots=True)
class Remembered:
    """A stratum's relations and their inputs."""

    made_of: MadeOf
    below: Mapping[Read, Version]
    relations: Mapping[str, Relation]

    def fresh(self, made_of: MadeOf, below: Mapping[Read, Relation]) -> bool:
        """Whether the inputs are unchanged."""
        return (
            self.below.keys() == below.keys()
            and all(below[read].version is version for read, version in self.below.items())
            and self.made_of == made_of
        )


Memory = dict[tuple[str, ...], Remembered]


@dataclass(slots=True)
class News:
    """The rows and rules that were added, if nothing else has changed."""

    rules: tuple[CheckedRule, ...]
    facts: tuple[Sequence[Piece], ...]  # of each relation
    rows: Mapping[Read, Sequence[Relation]]

    def __bool__(self) -> bool:
        """Whether anything was added."""
        return bool(self.rules or any(self.facts) or self.rows)


def news_since(
    before: Remembered, made_of: MadeOf, below: Mapping[Read, Relation], tuning: Tuning
) -> News | None:
    """What was added since a stratum was evaluated; None if anything else has changed, or too much
    was added."""
    old = before.made_of
    if old.schemas != made_of.schemas or any(limit is not None for limit in made_of.limits):
        return None
    if any(param not in made_of.params for param in old.params):
        return None
    rules = _added(old.rules, made_of.rules)
    facts: list[Sequence[Piece] | None] = []
    for known, now in zip(old.facts, made_of.facts, strict=True):
        added = now.since(known)
        facts.append(_added(tuple(known), tuple(now)) if added is None else added)
    if rules is None or None in facts:
        return None
    rows: dict[Read, Sequence[Relation]] = {}
    for read, version in before.below.items():
        relation = below.get(read)
        since = None if relation is None else relation.since(version)
        if relation is None or since is None:
            return None
        count = sum(part.at_most for part in since)
        if count > max(tuning.news_most, tuning.news_share * relation.at_most):
            return None
        if count:
            rows[read] = since
    # The first data of an own relation is new. Relations that only new rules read have no new rows.
    rows.update({read: (below[read],) for read in below.keys() - before.below.keys() if read[1]})
    return News(rules, tuple(added or () for added in facts), rows)


def _added(before: tuple[Item, ...], now: tuple[Item, ...]) -> tuple[Item, ...] | None:
    """What was added; None if anything was removed."""
    if now[: len(before)] == before:
        return now[len(before) :]
    left = list(now)
    for part in before:
        if part not in left:
            return None
        left.remove(part)
    return tuple(left)


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
