"""The limits of an execution: chunk size, memory, cancellation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gdatalog.account import Account
from gdatalog.cancellation import Watch, current_watch
from gdatalog.errors import RowLimitError
from gdatalog.records import dataclass, field

if TYPE_CHECKING:
    from gdatalog.storage.spill import Spill

OPERATION = 1000  # rows: what an operation on arrays costs besides


@dataclass(slots=True)
class Limits:
    """`chunk`: how many rows a level may have at once. `watch` gets progress; `poll` raises when
    the query is cancelled or past its deadline.

    `account` tracks memory, and raises an error above `memory` if there is no room in temporary
    files (`spill`). `count(name, rows)` does the same for the rows of `most_rows`.
    """

    chunk: int = 1 << 19
    memory: int | None = None
    spill: Spill | None = None
    watch: Watch = field(default_factory=current_watch)
    most_rows: tuple[str, int] | None = None  # a relation, and how many rows it may have
    to_host: bool = False  # whether rows that a device has no room for go to the host
    # Rows that breadth-first executors have looked at, and what costs as much; those that compiled
    # fixpoints have found.
    looked: int = 0
    account: Account = field(init=False)
    _written: int = field(init=False)  # to temporary files, by what came before
    poll: Callable[[], None] = field(init=False)

    def __post_init__(self) -> None:
        self.account = Account(self.memory, self.spill)
        self._written = 0 if self.spill is None else self.spill.written
        self.poll = self.watch.poll

    def look(self, rows: int) -> None:
        """Counts rows that an operation looks at."""
        self.looked += rows + OPERATION
        self.poll()

    @property
    def held(self) -> dict[str, int]:
        """The bytes in use, by owner."""
        return self.account.held

    @property
    def peak(self) -> int:
        """The peak of bytes in use."""
        return self.account.peak

    @property
    def spilled(self) -> int:
        """The bytes written to temporary files."""
        return 0 if self.spill is None else self.spill.written - self._written

    def spare(self) -> int:
        """How many more bytes may be used."""
        return self.account.spare()

    def highest(self) -> int:
        """The peak of bytes in use since the last call."""
        return self.account.highest()

    def count(self, name: str, rows: int) -> None:
        """Raises an error if a relation has more distinct rows than allowed."""
        if self.most_rows is not None and self.most_rows[0] == name and rows > self.most_rows[1]:
            raise too_many_rows(*self.most_rows)

    def charge(self, what: str, count: int) -> None:
        """Sets the bytes in use under a name."""
        self.account.charge(what, count)


def too_many_rows(name: str, most: int) -> RowLimitError:
    what = "the answer" if name.startswith("?") else name
    return RowLimitError(
        f"{what} has more rows than max_rows={most:,} allows",
        hint="raise max_rows, or ask for some of the rows: limit=...",
    )
