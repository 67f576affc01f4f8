"""What an execution may use: chunk size, memory, and who looks on and may stop it."""

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
    """`chunk`: how many rows a level may have at once. `watch` is told what is done and how far it
    is; `poll` is its look at whether the query is to stop, or the look of who has less patience.

    `account` knows what is held, and raises if that is more than `memory` and has no place in
    temporary files (`spill`). `count(name, rows)` does
    the same for the rows of `most_rows`.
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
        """An operation looks at so many rows."""
        self.looked += rows + OPERATION
        self.poll()

    @property
    def held(self) -> dict[str, int]:
        """The bytes that are held, by owner."""
        return self.account.held

    @property
    def peak(self) -> int:
        """The most bytes that were held."""
        return self.account.peak

    @property
    def spilled(self) -> int:
        """The bytes that were written to temporary files."""
        return 0 if self.spill is None else self.spill.written - self._written

    def spare(self) -> int:
        """How many bytes may still be held."""
        return self.account.spare()

    def highest(self) -> int:
        """The most bytes that were held since this was called last."""
        return self.account.highest()

    def count(self, name: str, rows: int) -> None:
        """Raises if a relation that has so many distinct rows may not have so many."""
        if self.most_rows is not None and self.most_rows[0] == name and rows > self.most_rows[1]:
            raise too_many_rows(*self.most_rows)

    def charge(self, what: str, count: int) -> None:
        """So many bytes are held under a name now."""
        self.account.charge(what, count)


def too_many_rows(name: str, most: int) -> RowLimitError:
    what = "the answer" if name.startswith("?") else name
    return RowLimitError(
        f"{what} has more rows than max_rows={most:,} allows",
        hint="raise max_rows, or ask for some of the rows: limit=...",
    )
