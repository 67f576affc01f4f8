"""The progress of a call: its current work, the finished share, and the expected end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from gdatalog.records import dataclass
from gdatalog.terminal_text import visible

Stage = Literal["loading", "sorting", "planning", "compiling", "joining", "round", "writing"]


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a long call; `on_progress=` receives such values.

    `what` is the object of the work: a relation, with its file. `done` of `total` are counted in
    `unit` ("rows", "bytes", "values", "parts"); `total` is None if the end is unknown. `round` is
    the round of a recursion, and `new_rows` the number of rows that were new in it. While data is
    loaded (counted in bytes) or sorted, `new_rows` is the total number of rows, once known.
    `seconds` is the time since this work began.

    >>> from gdatalog import Progress
    >>> half = Progress("loading", "E from e.csv", 43_000_000, 100_000_000, "bytes", seconds=4.3)
    >>> half.share, round(half.left, 1), str(half)
    (0.43, 5.7, 'loading E from e.csv: 43 %, 41.0 MiB of 95.4 MiB, 5.7 s left')
    >>> third = Progress("round", "path", 25_000, unit="rows", round=3, new_rows=1_000, seconds=5)
    >>> third.share, third.rate, str(third)
    (None, 5000.0, 'path: round 3, 1,000 new of 25,000 rows, 5,000 rows/s')
    """

    stage: Stage
    what: str
    done: int = 0
    total: int | None = None
    unit: str = ""
    round: int | None = None
    new_rows: int | None = None
    seconds: float = 0.0

    @property
    def share(self) -> float | None:
        """The finished share of the work, from 0 to 1; None if the end is unknown."""
        if self.total is None:
            return None
        return min(1.0, self.done / self.total) if self.total else 1.0

    @property
    def rate(self) -> float | None:
        """Units per second; None before any are done."""
        return self.done / self.seconds if self.done and self.seconds > 0 else None

    @property
    def left(self) -> float | None:
        """The estimated seconds left; None if unknown, as during the first twentieth."""
        share = self.share
        if share is None or share < 0.05 or self.seconds <= 0:
            return None
        return self.seconds * (1 - share) / share

    @property
    def title(self) -> str:
        """The work without its progress: "sorting E (40,000 rows)", "path"."""
        what = visible(self.what)
        if self.stage in ("joining", "round"):
            return what
        # The total of rows goes into the title: beside the share it would read as rows done.
        if self.stage in ("loading", "sorting") and self.new_rows and self.unit != "rows":
            rows = amount(self.new_rows, "rows")
            what = rows if what == "rows" else f"{what} ({rows})"
        return f"{self.stage} {what}"

    def __str__(self) -> str:
        return f"{self.title}: {', '.join(parts)}" if (parts := self.figures()) else self.title

    def figures(self) -> list[str]:
        """The known figures, formatted."""
        parts = [] if self.round is None else [f"round {self.round}"]
        share, left, rate = self.share, self.left, self.rate
        if share is None:
            new = "" if self.stage != "round" else f"{self.new_rows or 0:,} new of "
            if self.done or new:
                parts.append(f"{new}{amount(self.done, self.unit)}")
            if rate is not None:
                parts.append(f"{amount(round(rate), self.unit)}/s")
            return parts
        parts.append(f"{int(100 * share)} %")
        if self.unit != "parts":
            done = amount(self.done, self.unit if self.unit == "bytes" else "")
            parts.append(f"{done} of {amount(self.total or 0, self.unit)}")
        if left is not None:
            parts.append(f"{duration(left)} left")
        return parts


OnProgress = Callable[[Progress], None]


def amount(count: int, unit: str = "") -> str:
    """
    >>> amount(25000, "rows"), amount(43_000_000, "bytes"), amount(7)
    ('25,000 rows', '41.0 MiB', '7')
    """
    if unit == "bytes":
        return format_bytes(count)
    if count == 1 and unit.endswith("s"):
        unit = unit[:-1]
    return f"{count:,} {unit}".rstrip()


def duration(seconds: float) -> str:
    """
    >>> duration(3.24), duration(42.6), duration(125), duration(7300)
    ('3.2 s', '43 s', '2 min 5 s', '2 h 1 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if minutes else f"{rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def format_bytes(count: float) -> str:
    """
    >>> format_bytes(1536), format_bytes(8 << 30)
    ('1.5 KiB', '8.0 GiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            break
        count /= 1024
    return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
