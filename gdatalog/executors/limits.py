"""What an execution may use: chunk size, memory, and who looks on and may stop it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gdatalog.errors import MemoryLimitError, RowLimitError
from gdatalog.progress import format_bytes
from gdatalog.values import shown_name
from gdatalog.watching import Watch, watching


@dataclass(slots=True)
class Limits:
    """`chunk`: how many rows a level may have at once. `watch` is told what is done and how far it
    is; `poll` is its look at whether the query is to stop, or the look of who has less patience.

    `charge(what, bytes)` says how much is held now under a name, and raises if all together
    is more than `memory`. `count(name, rows)` does the same for the rows of `most_rows`.
    """

    chunk: int = 1 << 19
    memory: int | None = None
    watch: Watch = field(default_factory=watching)
    held: dict[str, int] = field(default_factory=dict)
    peak: int = 0
    most_rows: tuple[str, int] | None = None  # a relation, and how many rows it may have
    high: int = 0  # the most that was held since `highest` was called
    poll: Callable[[], None] = field(init=False)

    def __post_init__(self) -> None:
        self.poll = self.watch.poll

    def spare(self) -> int:
        """How many bytes may still be held."""
        if self.memory is None:
            return 1 << 40
        return max(0, self.memory - sum(self.held.values()))

    def highest(self) -> int:
        """The most bytes that were held since this was called last."""
        now = sum(self.held.values())
        most, self.high = max(self.high, now), now
        return most

    def count(self, name: str, rows: int) -> None:
        """Raises if a relation that has so many distinct rows may not have so many."""
        if self.most_rows is not None and self.most_rows[0] == name and rows > self.most_rows[1]:
            raise too_many_rows(*self.most_rows)

    def charge(self, what: str, count: int) -> None:
        self.held[what] = count
        total = sum(self.held.values())
        self.peak = max(self.peak, total)
        self.high = max(self.high, total)
        if self.memory is not None and total > self.memory:
            parts = sorted(self.held.items(), key=lambda item: -item[1])
            told = ", ".join(
                f"{shown_name(name)} {format_bytes(size)}" for name, size in parts[:4] if size
            )
            raise MemoryLimitError(
                f"this needs more than the memory limit of {format_bytes(self.memory)} ({told})",
                hint=_instead(parts[0][0])
                + "raise it: gdatalog.connect(memory_limit=...) or --memory-limit",
            )


def too_many_rows(name: str, most: int) -> RowLimitError:
    what = "the answer" if name.startswith("?") else name
    return RowLimitError(
        f"{what} has more rows than max_rows={most:,} allows",
        hint="raise max_rows, or ask for some of the rows: limit=...",
    )


def _instead(most: str) -> str:
    """What may need less, by what holds the most."""
    if most in ("rows followed", "best values") or most.startswith("texts of "):
        return ""
    if most.startswith("index of "):
        name = most.removeprefix("index of ")
        return f"a rule that keeps the columns of {name} that are needed makes a smaller one; or "
    return (
        "where the rows are only counted or summed up, let the rule do it: "
        "`count()`, `sum(x)`, `min(x)` keep no rows; or "
    )
