"""Time limits of work that another process may do instead: its answer does not depend on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from gdatalog.limits import Limits


class TooSlow(Exception):
    """Raised when the time limit is reached."""


@contextmanager
def time_limit(limits: Limits, seconds: float | None) -> Iterator[None]:
    """Within this context, polling raises `TooSlow` once the time is over."""
    if seconds is None:
        yield
        return
    end = perf_counter() + seconds

    def check() -> None:
        if perf_counter() > end:
            raise TooSlow

    with limits.checking(check):
        yield
