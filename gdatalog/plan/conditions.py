"""Conditions on which a plan goes over to another strategy or place: counts, never seconds."""

from __future__ import annotations

from typing import TypeVar

from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class TooManyRows:
    """The strategy has looked at more rows than `most`."""

    most: int

    def __str__(self) -> str:
        return f"after {self.most:,} rows"


@dataclass(frozen=True, slots=True)
class Bytes:
    """More than `most` bytes would be held: the memory limit."""

    most: int

    def __str__(self) -> str:
        return "at the memory limit"


@dataclass(frozen=True, slots=True)
class SmallRounds:
    """After `count` rounds, or a later power of two of them, there are fewer than `rows` rows for
    each round."""

    count: int
    rows: int

    def __str__(self) -> str:
        return f"after {self.count:,} rounds of fewer than {self.rows:,} rows"


@dataclass(frozen=True, slots=True)
class LargeTurns:
    """Rules have looked at `least` rows, and at `each` rows on average each time that one ran; and
    what is held by then is no more than the `most` bytes of the device that takes over."""

    least: int
    each: int
    most: int

    def __str__(self) -> str:
        rows = f"after {self.least:,} rows, if a rule looks at {self.each:,} at a time"
        return f"{rows} and the device has room"


@dataclass(frozen=True, slots=True)
class Grown:
    """A relation has got more than `least` rows, and more than it had."""

    least: int

    def __str__(self) -> str:
        return f"if a relation gets more than {self.least:,} rows, and more than it had"


@dataclass(frozen=True, slots=True)
class Unsuited:
    """Compiled loops cannot compute some expression, or what they keep has no room."""

    def __str__(self) -> str:
        return "where compiled loops do not suit"


When = TooManyRows | Bytes | SmallRounds | LargeTurns | Grown | Unsuited
CONDITIONS = (TooManyRows, Bytes, SmallRounds, LargeTurns, Grown, Unsuited)
Condition = TypeVar("Condition", TooManyRows, Bytes, SmallRounds, LargeTurns, Grown, Unsuited)
