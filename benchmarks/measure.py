"""Timing two ways of doing the same, one after the other in turns, so that noise hits both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter
from typing import Any

Work = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison. `ratio` says how many times our seconds the peer needs."""

    group: str
    what: str
    seconds: float  # ours, warm: the median
    peer: str
    peer_seconds: float | None
    cold: float | None = None  # ours, the first time, with all that it has to make
    peer_cold: float | None = None
    wanted: str = ""  # what is asked for, in words; empty: for information
    met: bool | None = None
    trap: str = ""  # what the figure does not say

    @property
    def ratio(self) -> float | None:
        return None if self.peer_seconds is None else self.peer_seconds / self.seconds

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio}


def once(work: Work) -> tuple[float, Any]:
    """The seconds that it took, and what it gave."""
    started = perf_counter()
    result = work()
    return perf_counter() - started, result


def interleaved(works: Sequence[Work], rounds: int) -> list[float]:
    """The median seconds of each; each round runs all of them, in turning order."""
    seconds: list[list[float]] = [[] for _ in works]
    for turn in range(rounds):
        for step in range(len(works)):
            at = (turn + step) % len(works)
            seconds[at].append(once(works[at])[0])
    return [median(times) for times in seconds]
