"""The history of a relation: its earlier versions, and the rows that were added since.

A view keeps the `Version` of a relation that it read, not its rows, and can later ask which rows
are new. The rows that were added between two versions are merged if nothing keeps the version
between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol, Self, TypeVar
from weakref import ref

from gdatalog.storage.row_store import RowStore
from gdatalog.storage.statistics import Statistics

# Sets of added rows are merged until each has at least this many times the rows of the next.
STACKED = 2
MERGED_BELOW = 1 << 8  # rows of a part that are merged with any that come
LOOSE = 4  # sets of added rows that are merged at once
# New rows are known up to this number, or up to half of all: with more, recomputing is cheaper.
LITTLE = 1000


class RowPart(Protocol):
    """Some of the rows: a relation."""

    @property
    def store(self) -> RowStore: ...
    @property
    def statistics(self) -> Statistics: ...
    def joined(self, *others: Self) -> Self: ...


Part = TypeVar("Part", bound=RowPart)


class Version:
    """Identifies the rows of a relation, as long as it is referenced."""


# The versions that a relation descends from, oldest first, each with the rows that were added next.
History = tuple[tuple[ref[Version], tuple[Part, ...]], ...]


def extended(
    history: History[Part], before: Version, new: Sequence[Part], count: int
) -> History[Part]:
    """The history of a relation of `count` rows, which adds `new` rows to the version `before` with
    this history; without versions since which too many rows were added."""
    steps: list[tuple[ref[Version], tuple[Part, ...]]] = []
    for version, rows in (*history, (ref(before), tuple(new))):
        if version() is not None:
            steps.append((version, rows))
        elif steps:
            steps[-1] = (steps[-1][0], _merged((*steps[-1][1], *rows)))
    added = accumulate([sum([part.store.at_most for part in rows]) for _, rows in reversed(steps)])
    kept = sum([rows <= max(LITTLE, count // 2) for rows in added])
    return tuple(steps[len(steps) - kept :])


def _merged(rows: tuple[Part, ...]) -> tuple[Part, ...]:
    """Merges added rows, unless they are few sets."""
    if len(rows) <= LOOSE:
        return rows
    return stacked((*rows[:-LOOSE], rows[-LOOSE].joined(*rows[1 - LOOSE :])))


def rows_since(history: History[Part], version: Version) -> tuple[Part, ...] | None:
    """The rows added since a version, in disjoint sets; None if unknown."""
    for at, (held, _) in enumerate(history):
        if held() is version:
            return tuple(part for _, rows in history[at:] for part in rows)
    return None


def stacked(
    parts: Sequence[Part], ratio: int = STACKED, most: int | None = None
) -> tuple[Part, ...]:
    """Merges the last of some disjoint sets of rows until each is at least `ratio` times as large
    as the next, none but the last has few rows, and there are at most `most`."""
    merged = list(parts)
    while len(merged) > 1 and (
        ratio * merged[-1].store.at_most > merged[-2].store.at_most
        or merged[-2].store.at_most < MERGED_BELOW
        or (most is not None and len(merged) > most)
    ):
        small, large = merged.pop(), merged.pop()
        merged.append(large.joined(small))
    return tuple(merged)
