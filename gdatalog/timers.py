"""Overhead timers: what a thread spends outside of work on rows.

Nested timers of other kinds are exclusive, so that kinds add up.
"""

from __future__ import annotations

from threading import local
from time import perf_counter
from types import TracebackType
from typing import Literal, get_args

from gdatalog.records import dataclass, fields

Kind = Literal["planning", "compiling", "indexing", "moving", "loading", "writing"]


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of checking and planning, of compiling loops or loading them, of building indexes,
    of copying to and from a device, of reading files and of writing them; and how many bytes were
    copied.

    >>> Costs(compiling=1.5, moved=8) - Costs(compiling=0.5, loading=2.0)
    Costs(planning=0.0, compiling=1.0, indexing=0.0, moving=0.0, moved=8, loading=-2.0, writing=0.0)
    """

    planning: float = 0.0
    compiling: float = 0.0
    indexing: float = 0.0
    moving: float = 0.0
    moved: int = 0
    loading: float = 0.0
    writing: float = 0.0

    def __add__(self, other: Costs) -> Costs:
        return Costs(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Costs)))

    def __sub__(self, other: Costs) -> Costs:
        return Costs(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(Costs)))


class _Account(local):
    """The timers of a thread."""

    def __init__(self) -> None:
        self.seconds: dict[Kind, float] = dict.fromkeys(get_args(Kind), 0.0)
        self.moved = 0
        self.total = 0.0  # seconds of all kinds


_account = _Account()


def time_spent() -> Costs:
    """The costs of this thread so far."""
    return Costs(**_account.seconds, moved=_account.moved)


def take_over(costs: Costs) -> None:
    """Adds the costs of another thread that this one has waited for."""
    for kind in _account.seconds:
        seconds = getattr(costs, kind)
        _account.seconds[kind] += seconds
        _account.total += seconds
    _account.moved += costs.moved


class spending:
    """Within this context, this thread's time counts as this kind; `moved`: bytes copied meanwhile.

    >>> before = time_spent()
    >>> with spending("moving", 100):
    ...     pass
    >>> (time_spent() - before).moved
    100
    """

    __slots__ = ("_began", "_kind", "_others")

    def __init__(self, kind: Kind, moved: int = 0) -> None:
        self._kind: Kind = kind
        _account.moved += moved

    def __enter__(self) -> None:
        self._others = _account.total
        self._began = perf_counter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        passed = perf_counter() - self._began
        own = passed - (_account.total - self._others)
        _account.seconds[self._kind] += own
        _account.total += own
