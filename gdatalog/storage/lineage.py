"""What a relation was before, and which rows have come to it since.

Who made something of a relation remembers its `Version`, which costs nothing, and not its rows.
Of a later relation it can then be asked which rows are new. Only versions that somebody
remembers are told apart: the rows that came between others are put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import ref

if TYPE_CHECKING:
    from gdatalog.storage.relation import Relation

# Rows that came one after the other are put together until each lot has this many times as many
# as the next.
STACKED = 2
# Up to so many new rows are known, or as many as half of all: of more it is better to start again.
LITTLE = 1000


class Version:
    """Which rows a relation has, as long as somebody remembers it."""

    __slots__ = ("__weakref__",)


class VersionHistory:
    """The versions that a relation comes from, oldest first, each with the rows that came then."""

    __slots__ = ("_steps",)

    def __init__(self, steps: Sequence[tuple[ref[Version], tuple[Relation, ...]]] = ()) -> None:
        self._steps = tuple(steps)

    def __len__(self) -> int:
        return len(self._steps)

    def grown(self, before: Version, new: Sequence[Relation]) -> VersionHistory:
        """That of a relation which has `new` rows more than the version `before`, whose this is."""
        steps: list[tuple[ref[Version], tuple[Relation, ...]]] = []
        for version, rows in (*self._steps, (ref(before), tuple(new))):
            if version() is not None:
                steps.append((version, rows))
            elif steps:
                steps[-1] = (steps[-1][0], stacked((*steps[-1][1], *rows)))
        return VersionHistory(steps)

    def since(self, version: Version) -> tuple[Relation, ...] | None:
        """The rows that have come since a version, in sets that share none; None if not known."""
        for at, (held, _) in enumerate(self._steps):
            if held() is version:
                return tuple(part for _, rows in self._steps[at:] for part in rows)
        return None

    def within(self, count: int) -> VersionHistory:
        """That of `count` rows, without the versions since which too many of them have come."""
        most = max(LITTLE, count // 2)
        count, kept = 0, len(self._steps)
        for at in range(len(self._steps) - 1, -1, -1):
            count += sum(part.at_most for part in self._steps[at][1])
            if count > most:
                break
            kept = at
        return VersionHistory(self._steps[kept:])


def stacked(
    parts: Sequence[Relation], ratio: int = STACKED, most: int | None = None
) -> tuple[Relation, ...]:
    """Sets of rows that share none, the last ones put together: each has at least `ratio` times
    as many as the next, and there are at most `most`."""
    found = list(parts)
    while len(found) > 1 and (
        ratio * found[-1].at_most > found[-2].at_most or (most is not None and len(found) > most)
    ):
        small, large = found.pop(), found.pop()
        found.append(large.joined(small))
    return tuple(found)
