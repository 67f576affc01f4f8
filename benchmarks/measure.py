"""Timing what runs in this process, or starts others."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")


def once(work: Callable[[], T]) -> tuple[float, T]:
    """The seconds that it took, and what it gave."""
    started = perf_counter()
    result = work()
    return perf_counter() - started, result
