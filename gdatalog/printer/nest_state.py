"""The text of a printed function, records of what is known at a point of it, and profile counters.

**Profile counters** count how many values each step binds. They are local variables. At the start
of each unit, where the work can resume, they are added to the worker's array `bindings`: if the
function ends early, the current unit runs again, and must not count twice. If several tasks share
the children of a value, only the first task counts the value. Each call of the function repeats the
steps before the work is split into tasks; the maximum of their counts is taken, not the sum.

On a tile, each lane has its own counters; the first lane counts what all lanes do together. A copy
of each counter keeps its number at the last unit, and replaces it when work is undone. At the end
the lanes' counters are summed (kernels/tile.cuh).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gdatalog.plan.join_plan import Comparison, Step
from gdatalog.plan.nest import Recoding, TrieNode
from gdatalog.printer.expressions import Unprintable
from gdatalog.records import dataclass, field, replace

FULL, STOPPED, FAILED, OVERFLOW = 1, 2, 3, 4  # statuses of a function; 0: done
MOST_LOOPS = 20  # Python's limit on nested blocks
TYPES = frozenset({"i32", "i64"})  # names of types in kernels


class LoopText:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.loops = 0
        self._taken: dict[str, int] = {}

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        loop = head.startswith(("for ", "while "))
        self.loops += loop
        if self.loops > MOST_LOOPS:
            raise Unprintable(f"more than {MOST_LOOPS} loops inside each other")
        self.line(head + ":")
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1
        self.loops -= loop

    def name(self, stem: str) -> str:
        """A unique local name, without `_` before its number. Fixed names have one."""
        assert not stem.endswith("_"), stem
        number = self._taken.get(stem, 0)
        number += f"{stem}{number}" in TYPES
        self._taken[stem] = number + 1
        return f"{stem}{number}"


Range = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Walk:
    """A range of an array that a loop can run over: in the list of `node`, or an intersection in a
    buffer. `at`: the position of the loop, inside it.

    `others`: ranges that must contain the value too, if there is no buffer of the intersection: the
    loop leapfrogs. `within`: the same if each lane looks its values up there. `tests`: cuts to test
    for each value of an unsorted list. Of a buffer: the `cuts` that it satisfies, and the
    `variable` whose level computed it.
    """

    array: str
    low: str
    high: str
    node: TrieNode | None = None
    others: Sequence[Walk] = ()
    within: Walk | None = None
    tests: tuple[Comparison, ...] = ()
    cuts: tuple[Comparison, ...] = ()
    variable: str = ""
    marks: tuple[str, str] | None = None  # of a buffer, and the value that they start from
    at: str = ""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint on the bits of a recoded level. `kind` is `row`, for the row of a trie, or the
    operator of a cut. `variable`: whose row, or the bound of the cut."""

    kind: str
    trie: int
    variable: str


@dataclass(frozen=True, slots=True)
class BitsetWords:
    """A set of positions: an array, and where its words start.

    `others`: sets that a lane without room for the intersection intersects while it reads them.
    `after`: a position that precedes the whole set, if one is known.
    """

    array: str
    start: str
    others: tuple[BitsetWords, ...] = ()
    after: str | None = None

    @property
    def first_word(self) -> str:
        """The first word that may contain a position."""
        return "0" if self.after is None else f"({self.after} >> 6)"

    @property
    def all(self) -> tuple[BitsetWords, ...]:
        return (self, *self.others)


@dataclass(slots=True)
class RecodedList:
    """A list whose levels are recoded: its range, the number of words of a row, the array of rows
    of each trie and what leads to the first one there, and the sets built so far."""

    recoding: Recoding
    values: str
    low: str
    high: str
    words: str
    rows: dict[int, tuple[str, str]]
    rowed: frozenset[TrieNode]  # nodes whose lists are read as rows only
    positions: dict[str, str] = field(default_factory=dict)  # of variables, in the list
    sets: dict[frozenset[Constraint], BitsetWords] = field(default_factory=dict)

    def inner(self) -> RecodedList:
        return replace(self, positions=dict(self.positions), sets=dict(self.sets))


@dataclass(frozen=True, slots=True)
class KeptIntersection:
    """Two lists whose intersection is cached, and the edge whose ends have these lists."""

    nodes: frozenset[TrieNode]
    edge: TrieNode
    number: int


@dataclass(frozen=True, slots=True)
class CountTable:
    """The local names of a table: counts, values, number of values, and the least possible key."""

    counts: str
    values: str
    length: str
    low: str


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter of one step.

    `step`: the step's number among all steps of the join, branches included. `tried`: whether it
    counts values that were tried, not values that were bound or rows that passed. `again`: whether
    each call of the function repeats these counts.
    """

    step: int
    tried: bool
    again: bool

    @property
    def name(self) -> str:
        """A fixed name: see `LoopText.name`."""
        return f"{'tried' if self.tried else 'bound'}_{self.step}"

    @property
    def kept(self) -> str:
        """On a tile, the copy of the counter at the last unit."""
        return f"kept_{self.name}"


ARRAY = "bindings"
COMMIT = "commit_counts()"  # placeholder line: add the counters to the array


class Counting:
    """The profile counters of one function."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._places = {id(step): at for at, step in enumerate(steps)}
        self._found: dict[tuple[int, bool], Counter] = {}

    @property
    def counters(self) -> tuple[Counter, ...]:
        return tuple(self._found.values())

    def name_of(self, step: Step, tried: bool, again: bool) -> str:
        """The name of a step's counter."""
        key = self._places[id(step)], tried
        return self._found.setdefault(key, Counter(*key, again)).name

    def finish(self, text: LoopText, tile: int, rows: bool) -> list[str]:
        """Replaces the placeholders, now that all counters are known, and returns the lines that
        initialise the counters. `rows`: the tile writes rows to a block, which may become full."""
        kept = rows and tile > 0
        if kept or not tile:
            text.lines = list(self._written(text.lines, kept))
        else:  # without rows, work is never undone
            text.lines = [line for line in text.lines if line.lstrip() != COMMIT]
        names = [counter.name for counter in self.counters]
        names += [counter.kept for counter in self.counters if kept]
        return [f"{name} = np.int64(0)" for name in names]

    def _written(self, lines: Sequence[str], kept: bool) -> Iterator[str]:
        for line in lines:
            bare = line.lstrip()
            if bare != COMMIT:
                yield line
                continue
            indent = line[: len(line) - len(bare)]
            for at, counter in enumerate(self.counters):
                name, place = counter.name, f"{ARRAY}[{at}]"
                if kept:
                    yield f"{indent}{counter.kept} = {name}"
                elif counter.again:
                    yield f"{indent}{place} = max({place}, {name})"
                else:
                    yield f"{indent}{place} += {name}"
                    yield f"{indent}{name} = np.int64(0)"
            if not self.counters:
                yield f"{indent}pass"
