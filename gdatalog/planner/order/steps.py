"""A bound on what planning may try: it counts steps, not seconds, so that the same program gets the
same plan each time."""

from __future__ import annotations

from math import inf

from gdatalog.records import dataclass


class OutOfSteps(Exception):
    """The steps are used up: what was found so far has to do."""


@dataclass(slots=True)
class Steps:
    """The steps that are left; one is about a literal that is looked at, 1 or 2 microseconds."""

    left: float = inf

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise OutOfSteps
