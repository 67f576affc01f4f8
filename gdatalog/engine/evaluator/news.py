"""What was added to the inputs of a stratum since it was evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from gdatalog.engine.catalog.fact_list import Piece
from gdatalog.engine.evaluator.results import MadeOf, Read, StratumResult
from gdatalog.planner.check import CheckedRule
from gdatalog.records import dataclass
from gdatalog.settings import Thresholds
from gdatalog.storage.relation import Relation

Item = TypeVar("Item")


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
    before: StratumResult, made_of: MadeOf, below: Mapping[Read, Relation], thresholds: Thresholds
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
        if count > max(thresholds.news_most, thresholds.news_share * relation.at_most):
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
