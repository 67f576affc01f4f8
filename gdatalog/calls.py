"""Running printed functions: arguments, statuses and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gdatalog.limits import Limits
from gdatalog.plan.placement import Shared
from gdatalog.records import dataclass
from gdatalog.settings import Settings
from gdatalog.storage.loop_tables import HashTrie
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie

if TYPE_CHECKING:
    from gdatalog.printer.arguments import Argument
    from gdatalog.printer.module import PrintedPlan


Block = tuple[Array, ...]

DONE, FULL, STOPPED, FAILED, OVERFLOW, ENOUGH, OUTSIDE = range(7)  # statuses
LACKS_SLOTS = 10
LOCAL = "local"  # the argument in which workers count matches by vertex or by edge
COUNTS = "bindings"  # the argument in which workers count bindings, for a profile
COUNTER, STOP_FLAG, UNITS = 0, 1, 2  # the entries of `control`

# Scratch arrays that must be zero at first, or between tasks.
CLEARED = ("marks", "places", "bitmap", "filled", "tally", "kept", LOCAL)
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


class NotOnDevice(Exception):
    """Raised with the reason why a rule runs on the CPU, for users."""


@dataclass(frozen=True, slots=True)
class LoopRun:
    """One run of printed loops over tries.

    `label` names the loops in messages. `beside`: device arrays that belong neither to tries nor to
    the plan, by argument name. `rows`: the expected work in rows. `shared`: how several devices
    share the run; without it the first one runs it. `kept`: what the executor keeps for other runs
    of the same loops. `little`: it cannot take long, so that one thread runs it, the caller's at
    first.
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
    little: bool = False


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
    "u16[]": np.uint16,
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
