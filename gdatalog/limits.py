"""The limits of a query: rows, memory, cancellation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from gdatalog.account import Account
from gdatalog.cancellation import Watch, current_watch
from gdatalog.errors import MemoryLimitError, RowLimitError

if TYPE_CHECKING:
    from gdatalog.storage.spill import Spill


class Budget:
    """Within this context, polling raises `OverBudget` once more rows have been looked at than
    `end`, as `Limits.looked` counts them."""

    __slots__ = ("_budgets", "end")

    def __init__(self, end: int, budgets: list[Budget]) -> None:
        self.end, self._budgets = end, budgets

    def __enter__(self) -> Budget:
        self._budgets.append(self)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._budgets.remove(self)


class OverBudget(Exception):
    """Raised when more rows were looked at than a budget allows."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(f"more than {budget.end:,} rows")
        self.budget = budget


OPERATION = 1000  # fixed cost of an array operation, in rows


class Limits:
    """The limits of a query. `chunk`: maximum number of rows per level. `watch` receives progress;
    `poll` raises when the query is cancelled, past its deadline, or one of the `checks` fails.

    `account` tracks memory, and raises above `memory` if rows cannot go to temporary files
    (`spill`). `count(name, rows)` raises if the relation of `most_rows` has more rows.
    """

    def __init__(
        self,
        chunk: int = 1 << 19,
        memory: int | None = None,
        spill: Spill | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.chunk, self.memory, self.spill = chunk, memory, spill
        self.watch = current_watch() if watch is None else watch
        self.most_rows: tuple[str, int] | None = None  # a relation, its maximum number of rows
        self.to_host = False  # whether rows that do not fit a device go to the host
        # Work in rows: rows that breadth-first executors read, and that compiled fixpoints derived.
        self.looked = 0
        self.checks: list[Callable[[], None]] = []
        self._budgets: list[Budget] = []
        self.account = Account(memory, spill)
        self._written = 0 if spill is None else spill.written  # bytes in temporary files at first

    def poll(self) -> None:
        self.watch.poll()
        for budget in reversed(self._budgets):
            if self.looked > budget.end:
                raise OverBudget(budget)
        for check in self.checks:
            check()

    @contextmanager
    def checking(self, check: Callable[[], None]) -> Iterator[None]:
        """Within this context, polling calls this function, before those of outer contexts."""
        self.checks.insert(0, check)
        try:
            yield
        finally:
            self.checks.remove(check)

    def within(self, rows: int | None) -> AbstractContextManager[Budget | None]:
        """Within this context, polling raises `OverBudget` once more rows have been looked at."""
        return nullcontext() if rows is None else Budget(self.looked + rows, self._budgets)

    def look(self, rows: int) -> None:
        """Counts the rows that an operation reads."""
        self.looked += rows + OPERATION
        self.poll()

    @property
    def spilled(self) -> int:
        """The bytes written to temporary files."""
        return 0 if self.spill is None else self.spill.written - self._written

    def spare(self) -> int:
        """How many more bytes may be used."""
        return self.account.spare()

    def count(self, name: str, rows: int) -> None:
        """Raises an error if a relation has more distinct rows than allowed."""
        if self.most_rows is not None and self.most_rows[0] == name and rows > self.most_rows[1]:
            what = "the answer" if name.startswith("?") else name
            hint = "raise max_rows, or ask for some of the rows: limit=..."
            message = f"{what} has more rows than max_rows={self.most_rows[1]:,} allows"
            raise RowLimitError(message, hint=hint)

    def charge(self, what: str, count: int) -> None:
        """Sets the bytes in use by an owner."""
        self.account.charge(what, count)


class accounted:
    """Within this context, the thread charges the memory that it holds to these limits.

    If a relation does not fit, its charges are undone, because the next one may be small.
    """

    __slots__ = ("_account", "_before", "_begun", "_device", "_held", "_watch")

    def __init__(self, limits: Limits, device: str) -> None:
        self._watch, self._account, self._device = limits.watch, limits.account, device
        self._before = self._watch.account

    def __enter__(self) -> None:
        account = self._account
        self._watch.account, self._held = account, account.held.copy()
        self._begun = account.beside is not None and account.beside.begin(account)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._watch.account, account = self._before, self._account
        if self._begun and account.beside is not None:
            account.beside.end(account)
        if isinstance(error, MemoryLimitError):
            account.restore(self._held)
        elif isinstance(error, MemoryError) and self._device != "cpu":
            hint = 'another process may hold some; or run on the CPU, device="cpu"'
            message = f"{self._device} has not enough memory for this: {error}"
            raise MemoryLimitError(message, hint=hint) from error
