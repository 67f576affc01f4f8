"""What the steps of a printed nest of loops and its leaves need of each other.

A printer of a nest prints steps, one inside the other; a leaf prints what happens to a complete
row, and may take over from steps. `module.py` prints the steps, `leaves.py` has the leaves.

**Profile counters** count how many values each step binds. They are local variables. At units,
where the work can resume, they are added to the worker's array `bindings`. If the function ends
early, work after the last unit runs again and must not count twice. If several tasks share the
children of a value, only the first task counts the value. Each call of the function repeats the
steps before the work is split into tasks; for those the maximum counts, not the sum.

On a tile each lane has its own counters, and the first lane counts what all lanes do together. Each
counter has a copy from the last unit, to which it is reset when work is undone. At the end the
lanes' counters are summed (kernels/tile.cuh).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from gdatalog.plan import Compact, Expr, Participant, Step
from gdatalog.plan.nest import TrieNode
from gdatalog.printer.lists import LevelLists
from gdatalog.printer.nest_state import KnownPositions, NestState
from gdatalog.records import dataclass


class Leaf(ABC):
    """`counts`: whether `count` accepts a number of rows in place of the rows.

    `share`: the number is each lane's own. `by_lanes`: whether each lane of a tile may emit rows of
    its own.
    """

    counts = False
    by_lanes = False

    def start(self, nest: NestPrinter) -> None:
        """Prints code before all loops."""
        return

    def finish(self, nest: NestPrinter) -> None:
        """Prints code after all loops."""
        return

    @abstractmethod
    def emit(self, nest: NestPrinter, known: KnownPositions) -> None:
        """Prints the code for the current row."""

    def count(
        self, nest: NestPrinter, known: KnownPositions, amount: str, share: bool = False
    ) -> None:
        raise AssertionError(f"{type(self).__name__} does not count")

    def takes_common(
        self,
        nest: NestPrinter,
        steps: Sequence[Step],
        at: int,
        met: LevelLists,
        known: KnownPositions,
    ) -> bool:
        """Whether the leaf has printed the last level, the intersection of `met`, itself."""
        return False

    @contextmanager
    def around(
        self, nest: NestPrinter, steps: Sequence[Step], at: int, known: KnownPositions
    ) -> Iterator[None]:
        """Prints code before and after the loop of a level."""
        yield

    def marks_tasks(self) -> bool:
        """Whether the work can resume from the current row after a full block."""
        return False

    def begins(
        self, nest: NestPrinter, steps: Sequence[Step], at: int, known: KnownPositions
    ) -> bool:
        """Whether the leaf takes over before the step at `at`; it then prints the remaining steps
        itself."""
        return False

    def passes(self, nest: NestPrinter, step: Step, known: KnownPositions) -> None:
        """Prints a test of the leaf for rows that reach a step."""
        return

    def waits(self, nest: NestPrinter) -> bool:
        """Whether the leaf queues rows. They are lost when the function ends, which resumes from
        the unit of the first queued row."""
        return False

    def settle(self, nest: NestPrinter) -> None:
        """Prints code that empties the queue before another task is taken."""
        return

    def whole_turns(self, steps: Sequence[Step], at: int) -> bool:
        """Whether one worker must do the whole of each turn of the first level."""
        return False


class NestPrinter(NestState, ABC):
    """Prints a nest of loops: counts for profiles, looks keys up, and prints steps."""

    counting: Counting | None = None  # for profiles

    @abstractmethod
    def run(self, steps: Sequence[Step], at: int, known: KnownPositions, leaf: Leaf) -> None:
        """Prints the steps from `at` on, then the leaf."""

    def bound(
        self, step: Step, known: KnownPositions, amount: str = "1", share: bool = False
    ) -> None:
        """Counts `amount` values bound at a step, or rows that passed it; `share`: each lane its
        own amount. A Compact has no effect here, and is not counted."""
        if self.counting is not None and not isinstance(step, Compact):
            self.counting.add(self, step, known, amount, False, share)

    def tried(self, step: Step, known: KnownPositions) -> None:
        """Counts a value that is tried."""
        if self.counting is not None:
            self.counting.add(self, step, known, "1", True)

    def commit(self, unless: str | None = None) -> None:
        """Commits the profile counters."""
        if self.counting is not None:
            self.counting.commit(self, unless)

    def bind(self, variable: str, source: str, known: KnownPositions) -> str:
        name = self.text.name("x")
        self.text.line(f"{name} = np.int64({source})  # {plain(variable)}")
        known.names[variable] = name
        return name

    # ------------------------------------------------------------------------------- seeks

    def seek(
        self,
        term: Expr,
        key: str,
        participants: Sequence[Participant],
        known: KnownPositions,
        among: Mapping[TrieNode, str] | None = None,
    ) -> None:
        """Looks a key up in participants' lists; the row ends if a list lacks it.

        `among`: nodes in which the key's position is known.
        """
        text = self.text
        for part in participants:
            node = self.paths.node(part)
            if self.above_tally(node):
                continue
            child = node.child(term)
            if child not in known.positions:
                if among and node in among:
                    known.positions[child] = among[node]
                elif self.direct and self.leads_on(node):
                    self.lead_on(node, child, key, known)
                else:
                    at = text.name("p")
                    text.line(f"{at} = {self.find(node, key, known)}")
                    with text.block(f"if {at} < 0"):
                        text.line("continue")
                    known.positions[child] = at
                    if self.direct and self.weighs(node):
                        self.by_value.add(at)
            if self.paths.tries[part.trie].weighted and node.last:
                if self.tallied(node):
                    weights = self.tables[node.trie.relation].counts
                elif known.positions[child] in self.by_value:
                    weights = self.arguments.weighed(self.level(node))
                else:
                    weights = self.arguments.of_trie(self.number[node.trie], "weights")
                weight = text.name("w")
                text.line(f"{weight} = np.int64({weights}[{known.positions[child]}])")
                known.weights.append(weight)

    def leads_on(self, node: TrieNode) -> bool:
        """Whether a root's values map directly to the ranges of their children."""
        if node.terms or node.last or self.hashed(node):
            return False
        first, second, *_ = self.tries[node.trie].levels
        return first.dense and second.size <= 1 << 30

    def weighs(self, node: TrieNode) -> bool:
        """Whether a root's values are looked up only for their weights."""
        known = node.terms or self.tallied(node) or self.hashed(node)
        return (
            not known and node.last and node.trie.weighted and self.tries[node.trie].levels[0].dense
        )

    def lead_on(self, node: TrieNode, child: TrieNode, key: str, known: KnownPositions) -> None:
        """Looks up the range of the children of a root's value."""
        level, text = self.level(node), self.text
        low, high = text.name("l"), text.name("h")
        at = self.arguments.scalar("low", level), self.arguments.starts(level)
        text.line(f"{low}, {high} = {self.call('children', *at, key)}")
        with text.block(f"if {low} == {high}"):
            text.line("continue")
        known.ranges[child] = low, high
        known.positions[child] = ""  # only its range is ever read

    def find(self, node: TrieNode, key: str, known: KnownPositions) -> str:
        if self.tallied(node):
            table = self.tables[node.trie.relation]
            return self.call("find_tally", table.counts, table.low, key)
        if self.hashed(node):
            return self.find_hashed(node, key, known)
        if node.terms:
            return self.call("find", self.values(node), *self.range_of(node, known), key)
        level = self.level(node)
        low = self.arguments.scalar("low", level)
        if self.direct and self.weighs(node):
            return self.call("find_tally", self.arguments.weighed(level), low, key)
        index = self.arguments.index(level)
        if self.tries[node.trie].levels[0].dense:
            return self.call("find_indexed", low, index, key)
        return self.call("find_root", self.values(node), low, index, key)

    def find_hashed(self, node: TrieNode, key: str, known: KnownPositions) -> str:
        level = self.level(node)
        if self.tries[node.trie].levels[node.depth].dense:
            index = self.arguments.index(level)
            return self.call("find_indexed", self.arguments.scalar("low", level), index, key)
        keys = self.arguments.of_hash(level, "keys")
        if node.last:
            return self.call("has_child", keys, self.place_of(node, known), key)
        ids = self.arguments.of_hash(level, "ids")
        return self.call("find_child", keys, ids, self.place_of(node, known), key)


def plain(variable: str) -> str:
    """A variable's name, for a comment."""
    return variable.replace("~", "'").replace("\n", " ")


# Profile counters.

ARRAY = "bindings"
_COMMIT = "commit_counts()"  # placeholder line: add the counters to the array


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter of one step.

    `step`: the step's number among all steps of the join, branches included. `tried`: it counts
    values that were tried; else values that were bound, or rows that passed. `again`: each call of
    the function repeats these counts.
    """

    step: int
    tried: bool
    again: bool

    @property
    def name(self) -> str:
        """Names that `Text.name` does not make have a `_` before their number."""
        return f"{'tried' if self.tried else 'bound'}_{self.step}"

    @property
    def kept(self) -> str:
        """On a tile: the copy of the counter at the last unit."""
        return f"kept_{self.name}"


class Counting:
    """The counters of one function."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._places = {id(step): at for at, step in enumerate(steps)}
        self._found: dict[tuple[int, bool], Counter] = {}

    @property
    def counters(self) -> tuple[Counter, ...]:
        return tuple(self._found.values())

    def add(
        self,
        nest: NestState,
        step: Step,
        known: KnownPositions,
        amount: str,
        tried: bool,
        share: bool = False,
    ) -> None:
        """Prints that a step bound, or tried, `amount` values; `share`: each lane has its own."""
        key = self._places[id(step)], tried
        self._found.setdefault(key, Counter(*key, not nest.tasks))
        if known.first_task is not None:
            amount = known.first_task if amount == "1" else f"({amount}) * {known.first_task}"
        line = f"{self._found[key].name} += {amount}"
        if nest.together(known) and not share:
            with nest.text.block("if leads()"):
                nest.text.line(line)
        else:
            nest.text.line(line)

    def commit(self, nest: NestState, unless: str | None = None) -> None:
        """Prints a commit of the counters; `unless`: a condition under which to skip it."""
        if unless is None:
            nest.text.line(_COMMIT)
            return
        with nest.text.block(f"if not {unless}"):
            nest.text.line(_COMMIT)

    def finish(self, nest: NestState, rows: bool = True) -> list[str]:
        """Replaces the placeholders, now that all counters are known, and returns the lines that
        initialise the counters. `rows`: the tile writes rows to a block, which may be full."""
        if self.counters:
            nest.arguments.counts(ARRAY)
        kept = rows and nest.tile > 0
        if kept or not nest.tile:
            nest.text.lines = list(self._written(nest.text.lines, kept))
        else:  # without rows, work is never undone
            nest.text.lines = [line for line in nest.text.lines if line.lstrip() != _COMMIT]
        names = [counter.name for counter in self.counters]
        names += [counter.kept for counter in self.counters if kept]
        return [f"{name} = np.int64(0)" for name in names]

    def _written(self, lines: Sequence[str], kept: bool) -> Iterator[str]:
        for line in lines:
            bare = line.lstrip()
            if bare != _COMMIT:
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
