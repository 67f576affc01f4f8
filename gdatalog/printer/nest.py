"""The state of a nest of loops that is being printed, and of each point in it; and the interface of
leaves.

The steps of a plan are printed one inside the other. A leaf prints what happens to a complete row,
and may print some steps itself. `module.py` prints the steps; `leaves.py` has the leaves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from gdatalog.plan.effects import all_steps
from gdatalog.plan.join_plan import Compact, Expr, Generate, Join, JoinPlan, Step, Tally, TrieRef
from gdatalog.plan.nest import Paths, Recoding, TrieNode
from gdatalog.printer.arguments import Arguments, LevelArgument
from gdatalog.printer.expressions import ExpressionPrinter
from gdatalog.printer.layouts import TrieLayout
from gdatalog.printer.nest_state import (
    COMMIT,
    FAILED,
    OVERFLOW,
    STOPPED,
    Counting,
    CountTable,
    KeptIntersection,
    LoopText,
    Range,
    RecodedList,
    Walk,
)
from gdatalog.records import dataclass, field, replace

MOST_WEIGHT = "4e18"  # larger weights and sums are left to the executor with exact arithmetic


class Leaf(ABC):
    """Prints what happens to a complete row.

    `counts`: whether the leaf can take a number of rows, by `count`, in place of the rows; with
    `share`, each lane passes its own number. `by_lanes`: whether each lane of a tile may emit rows
    of its own. `adds`: whether rows only add to counts of all workers.
    """

    counts = False
    by_lanes = False
    adds = False

    def start(self, nest: NestPrinter) -> None:
        """Prints code before all loops."""
        return

    def finish(self, nest: NestPrinter) -> None:
        """Prints code after all loops."""
        return

    @abstractmethod
    def emit(self, here: Point) -> None:
        """Prints the code for the current row."""

    def count(self, here: Point, amount: str, share: bool = False) -> None:
        raise AssertionError(f"{type(self).__name__} does not count")

    def takes_common(self, here: Point) -> bool:
        """Whether the leaf has printed the last level, an intersection, itself."""
        return False

    @contextmanager
    def around(self, here: Point) -> Iterator[None]:
        """Prints code before and after the loop of a level."""
        yield

    def marks_tasks(self) -> bool:
        """Whether the work can resume from the current row after a full block."""
        return False

    def begins(self, here: Point) -> bool:
        """Whether the leaf has printed the remaining steps itself."""
        return False

    def passes(self, here: Point) -> None:
        """Prints a test of the leaf for rows that reach the next step."""
        return

    def waits(self, nest: NestPrinter) -> bool:
        """Whether the leaf queues rows. The queue is lost when the function ends: the next call
        starts from the unit of the first queued row."""
        return False

    def settle(self, nest: NestPrinter) -> None:
        """Prints code that empties the queue before another task is taken."""
        return

    def whole_turns(self, here: Point) -> bool:
        """Whether one worker must do the whole of each turn of the first level."""
        return False


class NestPrinter(ABC):
    """Prints the nest of one plan."""

    def __init__(
        self,
        join: JoinPlan,
        tries: Sequence[TrieLayout],
        intersect: str,
        tile: int = 0,
        modular: bool = False,
    ) -> None:
        """`tile`: the number of lanes that walk one subtree together; 0 on a CPU. `modular`: the
        function counts modulo an argument."""
        # Atoms with the same trie, such as both orders of a symmetric relation, share its nodes and
        # lists.
        first: dict[int, TrieRef] = {}
        refs = tuple(
            first.setdefault(trie.number, ref) for ref, trie in zip(join.tries, tries, strict=True)
        )
        self.join = replace(join, tries=refs)
        self.paths = Paths.of(self.join)
        self.number = {ref: at for at, ref in enumerate(dict.fromkeys(refs))}
        self.which = [refs.index(ref) for ref in self.number]  # positions among the plan's tries
        distinct = [tries[at] for at in self.which]
        self.tries = {ref: distinct[at] for ref, at in self.number.items()}
        self.arguments = Arguments(distinct)
        self.expressions = ExpressionPrinter()
        self.text = LoopText()
        self.counting: Counting | None = None  # for profiles
        self.intersect = intersect
        self.tile = tile
        self.imports: set[str] = set()
        # Whether a root's array maps values directly to ranges of children, or to weights.
        self.direct = tile == 0
        self.by_value: set[str] = set()  # names of positions in `weighed` arrays
        self.split = False  # whether the work has been split into tasks
        self.tasks = False  # whether several workers can share the work
        self.grain = 1  # least number of bindings of a task
        self.marked: dict[tuple[TrieNode, str], int] = {}  # lists with marks of their own
        self.widths: dict[str, str] = {}  # the dtype of a variable's keys, where known
        self.tables: dict[str, CountTable] = {}  # tables of counts by name
        self.depths = {
            step.table: len(step.reads) for step in all_steps(join.steps) if isinstance(step, Tally)
        }
        self.placed: set[TrieNode] = set()  # entries whose positions are needed
        # Cached intersections of levels, by id of the step.
        self.kept: dict[int, KeptIntersection] = {}
        self.keeps_rows = False  # whether rows of bits may be cached
        self.prologue: list[str] = []
        self.modular = modular
        if modular:
            self.prologue.append(f"modulus = {self.arguments.plain('given', 'moduli')}[0]")
        self.at_stop = ""  # a line to print before a requested stop

    @abstractmethod
    def run(self, here: Point) -> None:
        """Prints the steps from a point on, then the leaf."""

    def call(self, function: str, *args: str) -> str:
        """A call of a helper (codegen/helpers)."""
        self.imports.add(function)
        # CUDA's templates need arguments of one type, and a literal would be an int.
        numbers = (f"np.int64({arg})" if arg.isdecimal() else arg for arg in args)
        return f"{function}({', '.join(numbers)})"

    def commit(self, unless: str | None = None) -> None:
        """Commits the profile counters, unless a condition is true."""
        if self.counting is not None:
            with self.text.block(f"if not {unless}") if unless else nullcontext():
                self.text.line(COMMIT)

    def spoil(self, status: int) -> str:
        """The statement that ends the function and discards its work.

        Diverged lanes cannot return; they set `trouble`, which the tile checks later.
        """
        return f"trouble = {status}" if self.tile else f"return {status}"

    @contextmanager
    def unless(self, bad: str, status: int) -> Iterator[None]:
        """Prints a block that runs unless `bad` is true; then the function ends with `status`."""
        with self.text.block(f"if {bad}"):
            self.text.line(self.spoil(status))
        with self.text.block("else") if self.tile else nullcontext():
            yield

    def may_stop(self) -> None:
        """Prints a check for a requested stop."""
        asked = "ended()" if self.tile else self.call("stopped", "control")
        with self.text.block(f"if {asked}"):
            if self.at_stop:
                self.text.line(self.at_stop)
            self.text.line(f"return {STOPPED}")

    def whole(self, amount: str, share: bool) -> str:
        """A count of all lanes together; `share`: `amount` is each lane's own share."""
        if share:
            self.text.line(f"{amount} = {self.call('sum_of_lanes', amount)}")
        return amount

    def product(self, one: str, other: str) -> str:
        """The product of two counts; the function ends if the product exceeds `MOST_WEIGHT`."""
        if "1" in (one, other):
            return other if one == "1" else one
        name = self.text.name("w")
        if self.modular:
            self.text.line(f"{name} = ({one} % modulus) * ({other} % modulus) % modulus")
            return name
        if self.tile:
            self.text.line(f"{name} = 0")
        with self.unless(f"float({one}) * float({other}) > {MOST_WEIGHT}", OVERFLOW):
            self.text.line(f"{name} = {one} * {other}")
        return name

    def sum(self, one: str, other: str) -> str:
        """The sum of two counts."""
        return f"({one} + {other}) % modulus" if self.modular else f"{one} + {other}"

    # -------------------------------------------------------------------------- nodes of tries

    def level(self, node: TrieNode) -> LevelArgument:
        return LevelArgument(self.number[node.trie], node.depth)

    def hashed(self, node: TrieNode) -> bool:
        """Whether the node is in a hash trie, whose lists are unsorted."""
        return self.tries[node.trie].hashed

    def tallied(self, node: TrieNode) -> bool:
        """Whether the node's trie is a table of counts that these loops fill."""
        return self.tries[node.trie].tallied

    def above_tally(self, node: TrieNode) -> bool:
        """Whether the node is above the keys of a table of counts. Loops fill the table for the
        values that are bound there, so that there is nothing to look up."""
        return self.tallied(node) and node.depth < self.depths[node.trie.relation]

    def table(self, node: TrieNode) -> CountTable:
        return self.tables[node.trie.relation]

    def values(self, node: TrieNode) -> str:
        if self.tallied(node):
            return self.table(node).values
        return self.arguments.values(self.level(node))

    def recodable(self, group: Recoding) -> bool:
        """Whether scratch has room for the rows of the longest list."""
        level = self.tries[group.within.trie].levels[group.within.depth]
        return level.tile_rows_fit if self.tile else level.rows_fit and level.marks_fit

    def marks_fit(self, node: TrieNode) -> bool:
        """Whether scratch has room for a byte for each value between the least and the greatest."""
        return self.tries[node.trie].levels[node.depth].marks_fit

    def leads_on(self, node: TrieNode) -> bool:
        """Whether a root's values map directly to the ranges of their children."""
        if node.terms or node.last or self.hashed(node):
            return False
        first, second, *_ = self.tries[node.trie].levels
        return first.dense and second.size <= 1 << 30

    def weighs(self, node: TrieNode) -> bool:
        """Whether a root's values are looked up only for their weights."""
        if node.terms or self.tallied(node) or self.hashed(node) or not node.last:
            return False
        return node.trie.weighted and self.tries[node.trie].levels[0].dense


@dataclass(slots=True)
class Point:
    """A point of the nest: the steps that are still to print, their leaf, and what is known here.

    `positions`: the index of a node's value in its level. `ranges`: where nodes' lists lie.
    `found`: the flag of the branch, if its first match ends it. `given`: the dtypes of the columns
    of given rows, before their loop.
    """

    nest: NestPrinter
    steps: Sequence[Step]
    leaf: Leaf
    names: dict[str, str] = field(default_factory=dict)
    at: int = 0  # the number of the next step
    positions: dict[TrieNode, str] = field(default_factory=dict)
    ranges: dict[TrieNode, Range] = field(default_factory=dict)
    buffers: dict[frozenset[TrieNode], Walk] = field(default_factory=dict)  # intersections
    marks: dict[TrieNode, str] = field(default_factory=dict)  # flag: the list is marked
    # Lists that contain a variable's value.
    members: dict[str, frozenset[TrieNode]] = field(default_factory=dict)
    turns: dict[str, Walk] = field(default_factory=dict)  # loops around this point
    weights: list[str] = field(default_factory=list)
    # The node whose list a task has a part of: from `c0` to `c1`; units are counted from `base`.
    clip: TrieNode | None = None
    entry: bool = False  # the part is one entry, which is a unit that has begun
    group: RecodedList | None = None
    found: str | None = None
    alone: bool = False  # the lanes of a tile have diverged
    unit: str | None = None  # the current unit of work, if the next loop may share its turns
    spread: bool = False  # diverged lanes share the turns of the next loop
    first_task: str | None = None  # 0 in tasks that are not the first of the current value
    given: tuple[str, ...] = ()

    def inner(self) -> Point:
        """A copy for an inner scope."""
        return replace(
            self,
            names=dict(self.names),
            positions=dict(self.positions),
            ranges=dict(self.ranges),
            buffers=dict(self.buffers),
            marks=dict(self.marks),
            members=dict(self.members),
            turns=dict(self.turns),
            weights=list(self.weights),
            group=self.group and self.group.inner(),
        )

    def inside(self, steps: Sequence[Step], leaf: Leaf) -> Point:
        """The start of the steps of a branch or a table, whose rows have weights of their own."""
        inner = self.inner()
        inner.steps, inner.at, inner.leaf = steps, 0, leaf
        inner.weights = []
        inner.clip = inner.unit = inner.found = None
        inner.spread = False
        return inner

    def go_on(self) -> None:
        """Prints what comes behind the next step."""
        self.at += 1
        self.nest.run(self)

    def run_once(self, turns: str = "1") -> None:
        """Prints the rest as a loop of one turn, or none, which a failing test leaves."""
        with self.text.block(f"for {self.text.name('once')} in range({turns})"):
            self.nest.run(self)

    def end_if_found(self) -> None:
        """Prints the end of this loop after a match, if the first match ends the branch."""
        if self.found:
            with self.text.block(f"if {self.found}"):
                self.text.line("break")

    @property
    def text(self) -> LoopText:
        return self.nest.text

    @property
    def join(self) -> Join:
        """The next step, a level."""
        step = self.steps[self.at]
        assert isinstance(step, Join)
        return step

    @property
    def later(self) -> tuple[Step, ...]:
        """The steps after the next one."""
        return tuple(self.steps[self.at + 1 :])

    def loops_after(self, at: int) -> list[int]:
        """The numbers of the steps after a step that are loops."""
        steps = self.steps
        return [n for n in range(at + 1, len(steps)) if isinstance(steps[n], (Join, Generate))]

    @property
    def recoded(self) -> RecodedList:
        """The recoded list in scope."""
        assert self.group is not None
        return self.group

    def has(self, node: TrieNode) -> bool:
        """Whether a node's list is known here."""
        return not node.terms or node in self.positions

    def place_of(self, node: TrieNode) -> str:
        """The number of a hash trie's node within its level."""
        return self.positions[node] if node.terms else "0"

    def range_of(self, node: TrieNode) -> Range:
        """The range of a known node's list in its level."""
        if node not in self.ranges:
            self.ranges[node] = self._range_of(node)
        return self.ranges[node]

    def _range_of(self, node: TrieNode) -> Range:
        nest, text = self.nest, self.text
        if nest.tallied(node):
            return "0", nest.table(node).length
        if not node.terms and not nest.hashed(node):
            return "0", f"len({nest.values(node)})"
        level = nest.level(node)
        if nest.hashed(node):
            array, at = nest.arguments.of_hash(level, "spans"), self.place_of(node)
            low, high = text.name("l"), text.name("h")
            text.line(f"{low} = np.int64({nest.call('at', array, f'2 * {at}')})")
            count = nest.call("at", array, f"2 * {at} + 1")
            text.line(f"{high} = {low} + np.int64({count})")
        else:
            array, at = nest.arguments.offsets(level), self.positions[node]
            low, high = text.name("l"), text.name("h")
            text.line(f"{low} = np.int64({nest.call('at', array, at)})")
            text.line(f"{high} = np.int64({nest.call('at', array, f'{at} + 1')})")
        return low, high

    def together(self) -> bool:
        """Whether all lanes of a tile are converged here, to intersect and count together."""
        return self.nest.tile > 1 and not self.alone

    @contextmanager
    def one_lane(self) -> Iterator[None]:
        """Prints code that one lane runs, if all lanes of a tile are here."""
        with self.text.block("if leads()") if self.together() else nullcontext():
            yield

    def recodes(self) -> bool:
        """Whether lists may be recoded here. On a tile, all lanes build the rows of bits together,
        so they must be converged."""
        nest = self.nest
        if any(trie.hashed for trie in nest.tries.values()):
            return False  # their lists are unsorted
        wanted = nest.intersect in ("auto", "recode") and not nest.placed
        return wanted and (self.together() if nest.tile else True)

    def may_stop(self) -> None:
        """Prints a check for a requested stop, in loops that contain loops.

        Diverged lanes finish soon, and do not check.
        """
        if self.nest.tile < 2 or not self.alone:
            self.nest.may_stop()

    def key(self, expr: Expr) -> str:
        """The source of an expression's key; statements that it needs are printed here."""
        out: list[str] = []
        source = self.nest.expressions.key(expr, self.names, out, f"return {FAILED}")
        for line in out:
            self.text.line(line)
        return source

    def weight(self) -> str:
        """The number of bindings that the current row stands for."""
        if not self.weights:
            return "1"
        product = self.weights[0]
        for factor in self.weights[1:]:
            product = self.nest.product(product, factor)
        self.weights = [product]
        return product

    def bound(
        self, step: Step, amount: str = "1", share: bool = False, tried: bool = False
    ) -> None:
        """Counts, for a profile, `amount` values that a step binds or tries, or rows that pass it;
        `share`: each lane counts its own amount. A Compact has no effect here, and is not
        counted."""
        if self.nest.counting is None or isinstance(step, Compact):
            return
        name = self.nest.counting.name_of(step, tried, not self.nest.tasks)
        if self.first_task is not None:
            amount = self.first_task if amount == "1" else f"({amount}) * {self.first_task}"
        with nullcontext() if share else self.one_lane():
            self.text.line(f"{name} += {amount}")

    def bind(self, variable: str, source: str) -> str:
        name = self.text.name("x")
        plain = variable.replace("~", "'").replace("\n", " ")
        self.text.line(f"{name} = np.int64({source})  # {plain}")
        self.names[variable] = name
        return name
