"""Conditions on which a plan switches to another operator or place: counts, never times."""

from __future__ import annotations

from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class TooManyRows:
    """The strategy has read more than `most` rows."""

    most: int

    def __str__(self) -> str:
        return f"after {self.most:,} rows"


@dataclass(frozen=True, slots=True)
class Bytes:
    """More than `most` bytes would be allocated: the memory limit."""

    most: int

    def __str__(self) -> str:
        return "at the memory limit"


@dataclass(frozen=True, slots=True)
class SmallRounds:
    """After `count` rounds, or that times a power of two, the average round has fewer than `rows`
    rows. Rounds of earlier runs of a kept plan count."""

    count: int
    rows: int

    def met(self, rounds: int, rows: int) -> bool:
        """Whether so many rounds with so many rows meet it."""
        return rounds >= self.count and rows < rounds * self.rows

    def __str__(self) -> str:
        return f"after {self.count:,} small rounds"


@dataclass(frozen=True, slots=True)
class LargeTurns:
    """Rules have read `least` rows, and `each` rows on average for each run; and the allocated
    memory fits the `most` bytes of the device that takes over."""

    least: int
    each: int
    most: int

    def __str__(self) -> str:
        turns = f" a rule looks at {self.each:,} at a time and" if self.each else ""
        return f"after {self.least:,} rows, if{turns} the device has room"


@dataclass(frozen=True, slots=True)
class Grown:
    """A relation has derived more than `least` rows, and more than it had before."""

    least: int

    def __str__(self) -> str:
        return f"if a relation gets more than {self.least:,} rows, and more than it had"


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The device has no room. `given`: what this depends on, beside the relations that are read."""

    given: tuple[object, ...] = ()

    def __str__(self) -> str:
        return "where the device has no room"


@dataclass(frozen=True, slots=True)
class Unsuited:
    """Compiled loops cannot compute some expression, or have no room for their state."""

    def __str__(self) -> str:
        return "where compiled loops do not suit"


@dataclass(frozen=True, slots=True)
class Uncompiled:
    """Kernels or loops are not compiled yet; they are compiled meanwhile."""

    def __str__(self) -> str:
        return "until that is compiled"


When = TooManyRows | Bytes | SmallRounds | LargeTurns | Grown | NoRoom | Unsuited | Uncompiled
CONDITIONS = (TooManyRows, Bytes, SmallRounds, LargeTurns, Grown, NoRoom, Unsuited, Uncompiled)
