"""What a user may force on the executors, and what they are told otherwise."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

Strategy = Literal["auto", "lftj", "levelwise"]
STRATEGIES = ("auto", "lftj", "levelwise")


def cores() -> int:
    """How many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Knobs:
    """`strategy`: which executor; `threads`: how many the depth-first one uses.

    `intersect` forces one way to intersect lists, for tests: "auto", "leapfrog", "merge", "mark",
    "recode", or "plain" for none of the last two.
    """

    strategy: Strategy = "auto"
    threads: int = 0  # 0: one for each core
    intersect: str = "auto"

    @property
    def workers(self) -> int:
        return self.threads or cores()
