"""Running printed functions: arguments, statuses and limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from gdatalog.account import Account
from gdatalog.cancellation import Watch, current_watch
from gdatalog.errors import MemoryLimitError, RowLimitError
from gdatalog.plan.effects import all_steps
from gdatalog.plan.join_plan import Branch, Generate, Join, RulePlan
from gdatalog.plan.placement import Shared
from gdatalog.records import dataclass, field
from gdatalog.settings import Settings
from gdatalog.storage.loop_tables import HashTrie
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie

if TYPE_CHECKING:
    from gdatalog.printer.arguments import Argument
    from gdatalog.printer.module import PrintedPlan
    from gdatalog.storage.spill import Spill


Block = tuple[Array, ...]

DONE, FULL, STOPPED, FAILED, OVERFLOW, ENOUGH, OUTSIDE = range(7)  # statuses
LACKS_SLOTS = 10
LOCAL = "local"  # the argument in which workers count matches by vertex or by edge
COUNTS = "bindings"  # the argument in which workers count bindings, for a profile
COUNTER, STOP_FLAG, UNITS = 0, 1, 2  # the entries of `control`

CLEARED = (
    "marks",
    "places",
    "bitmap",
    "filled",
    "tally",
    "kept",
    LOCAL,
)  # scratch arrays that must be zero at first, or between tasks
KEPT, MOST_KEPT = 16, 1 << 24  # size of the cache of lists: values per entry, and in all
FIRST_SLOTS = 1 << 12  # initial size of a group's hash set


class GiveUp(Exception):
    """Raised when a computation fails, or a number exceeds 62 bits: the other executor then runs
    the join, and reports the error."""


class Outside(Exception):
    """Raised when a row lies outside the bitmap's range: the loops have not output the rows that
    they marked since the last call."""


class NoRoomForLists(Exception):
    """Raised when the cache of intersections does not fit: the loops then run without it."""


@dataclass(slots=True)
class Budget:
    """How many rows may be looked at: `end`, as `Limits.looked` counts them."""

    end: int


class OverBudget(Exception):
    """Raised when more rows were looked at than a budget allows."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(f"more than {budget.end:,} rows")
        self.budget = budget


class NotOnDevice(Exception):
    """Raised with the reason why a rule runs on the CPU, for users."""


@dataclass(frozen=True, slots=True)
class LoopRun:
    """One run of printed loops over tries.

    `label` names the loops in messages. `beside`: device arrays that belong neither to tries nor to
    the plan, by argument name. `rows`: the expected work in rows. `shared`: how several devices
    share the run; without it the first one runs it. `kept`: what the executor keeps for other runs
    of the same loops.
    """

    printed: PrintedPlan
    tries: Sequence[Trie]
    scope: Any
    limits: Limits
    label: str
    settings: Settings
    beside: Mapping[str, Array]
    rows: float
    shared: Shared | None = None
    kept: list[Any] | None = None


def _dense(trie: Trie) -> tuple[int, Array]:
    found = trie.levels[0].dense_index()
    return found if found is not None else (0, np.empty(0, dtype=np.int32))


SHARED: dict[str, Any] = {
    "values": lambda trie, depth: trie.levels[depth].values,
    "offsets": lambda trie, depth: trie.levels[depth].offsets,
    "starts": lambda trie, depth: trie.levels[1].starts(trie.levels[0]),
    "weighed": lambda trie, depth: trie.weighed,
    "index": lambda trie, depth: _dense(trie)[1],
    "weights": lambda trie, depth: trie.weights.astype(np.int64, copy=False),
    "sums": lambda trie, depth: trie.weight_sums.astype(np.int64, copy=False),
    "labels": lambda trie, depth: trie.labels,
    "spans": lambda trie, depth: trie.levels[depth].spans,
    "below": lambda trie, depth: trie.levels[depth].below,
    "keys": lambda trie, depth: trie.table(depth),
    "ids": lambda trie, depth: trie.levels[depth].ids,
}


def scalar_of(kind: str, trie: Trie | HashTrie, depth: int) -> int:
    if kind == "total":
        return int(trie.total)
    levels: Any = trie.levels
    if kind == "low":
        return int(levels[0].low)
    low, high = levels[depth].span
    return int(high - low).bit_length() if kind == "bits" else int(low)


DTYPES = {
    "i32[]": np.int32,
    "i64[]": np.int64,
    "u8[]": np.uint8,
    "u32[]": np.uint32,
    "u64[]": np.uint64,
    "f64[]": np.float64,
}


def scratch_of(argument: Argument, tries: Sequence[Trie]) -> Array:
    make = np.zeros if argument.kind in CLEARED else np.empty
    return make(scratch_length(argument, tries), dtype=DTYPES[argument.type])


def scratch_length(argument: Argument, tries: Sequence[Any]) -> int:
    if argument.kind in ("slots", "waiting"):
        return FIRST_SLOTS if argument.kind == "slots" else int(argument.length)
    if argument.kind in ("bitmap", "filled"):
        bits = sum(scalar_of("bits", tries[at.trie], at.depth) for at in argument.levels)
        return 1 << max(0, bits - (6 if argument.kind == "bitmap" else 12))
    if argument.kind in ("kept", "lists"):
        *ends, of = argument.levels
        entries = len(tries[of.trie].levels[of.depth])
        longest = max((tries[at.trie].levels[at.depth].longest for at in ends), default=0)
        return max(longest + 2, min(KEPT * entries, MOST_KEPT)) if ends else entries
    if argument.kind == LOCAL:
        trie, depth = tries[argument.levels[0].trie], argument.levels[0].depth
        vertices = 0 if trie.labels is None else len(trie.labels)  # by rank
        return len(trie.levels[depth]) if depth else vertices
    if argument.kind not in ("marks", "places", "tally", "tallied"):
        return room_of(argument, tries)
    at = argument.levels[0]
    low, high = tries[at.trie].levels[at.depth].span
    return int(high - low + 1) + int(argument.kind == "tallied")  # written to beforehand


def room_of(argument: Argument, tries: Sequence[Trie]) -> int:
    """The number of elements of a buffer, of bitmap rows or of a bitmap's words, from the longest
    list."""
    longest = min(int(tries[at.trie].levels[at.depth].longest) for at in argument.levels)
    if argument.kind == "buffer":
        return longest + 1
    words: int = (longest + 63) >> 6
    return longest * words if argument.kind == "rows" else words


# Limits: chunk size, memory, cancellation.


OPERATION = 1000  # fixed cost of an array operation, in rows


@dataclass(slots=True)
class Limits:
    """The limits of a query. `chunk`: maximum number of rows per level. `watch` receives progress;
    `poll` raises when the query is cancelled, past its deadline, or one of the `checks` fails.

    `account` tracks memory, and raises above `memory` if rows cannot go to temporary files
    (`spill`). `count(name, rows)` raises if the relation of `most_rows` has more rows.
    """

    chunk: int = 1 << 19
    memory: int | None = None
    spill: Spill | None = None
    watch: Watch = field(default_factory=current_watch)
    most_rows: tuple[str, int] | None = None  # a relation, and its maximum number of rows
    to_host: bool = False  # whether rows that do not fit a device go to the host
    # Work in rows: rows that breadth-first executors read, and that compiled fixpoints derived.
    looked: int = 0
    checks: list[Callable[[], None]] = field(default_factory=list)
    account: Account = field(init=False)
    _written: int = field(init=False)  # bytes in temporary files at the start

    def __post_init__(self) -> None:
        self.account = Account(self.memory, self.spill)
        self._written = 0 if self.spill is None else self.spill.written

    def poll(self) -> None:
        self.watch.poll()
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

    @contextmanager
    def within(self, rows: int | None) -> Iterator[Budget | None]:
        """Within this context, polling raises `OverBudget` once more rows have been looked at."""
        if rows is None:
            yield None
            return
        budget = Budget(self.looked + rows)

        def check() -> None:
            if self.looked > budget.end:
                raise OverBudget(budget)

        with self.checking(check):
            yield budget

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


# -------------------------------------------------------------------------------- the memory budget


# What a level holds for each row of a chunk: positions, values, parents, packed pairs and masks
# while it is searched, and the gathered columns afterwards.
BYTES_PER_ROW = 160
LARGEST_CHUNK = 1 << 17  # larger chunks are no faster: they exceed the caches
SMALLEST_CHUNK = 256
SHARE = 8  # chunks take at most this part of the free memory


def chunk_rows(plan: RulePlan, spare: int, largest: int = LARGEST_CHUNK) -> int:
    """How many rows each level of this plan may have at once, if every level is full.

    `spare`: free bytes; chunks of more than `largest` rows are no faster.
    """
    return max(SMALLEST_CHUNK, min(largest, spare // SHARE // (levels_of(plan) * BYTES_PER_ROW)))


def levels_of(plan: RulePlan) -> int:
    """How many levels hold a chunk of rows at the same time, at most."""
    wide = (Join, Generate, Branch)
    steps = (all_steps(join.steps) for join in plan.joins)
    return 1 + max((sum(isinstance(s, wide) for s in each) for each in steps), default=0)


@contextmanager
def accounted(limits: Limits, device: str) -> Iterator[None]:
    """Within this context, the thread charges the memory that it holds to these limits.

    If a relation does not fit, its charges are undone, because the next one may be small.
    """
    watch, before, account = limits.watch, limits.watch.account, limits.account
    watch.account = account
    running = nullcontext() if account.beside is None else account.beside.with_one(account)
    try:
        with running, account.restoring(MemoryLimitError):
            yield
    except MemoryLimitError:
        raise
    except MemoryError as error:
        if device == "cpu":
            raise
        hint = 'another process may hold some; or run on the CPU, device="cpu"'
        message = f"{device} has not enough memory for this: {error}"
        raise MemoryLimitError(message, hint=hint) from error
    finally:
        watch.account = before
