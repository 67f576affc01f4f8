"""The state of printing a nest of loops: text, arguments, and what is known at a point of it.

Known are names of values, nodes, lists and weights, ranges of lists, and keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from gdatalog.plan import Expr, JoinPlan, RangeBound, Tally, TrieRef
from gdatalog.plan.effects import all_steps
from gdatalog.plan.nest import Paths, Recoding, TrieNode
from gdatalog.printer import Arguments, LevelArgument, TrieLayout
from gdatalog.printer.expressions import ExpressionPrinter, Unprintable
from gdatalog.records import dataclass, field, replace

FULL, STOPPED, FAILED, OVERFLOW = 1, 2, 3, 4  # statuses of a function; 0: done
MOST = "4e18"  # larger weights and sums are left to the executor with exact arithmetic


class NestState:
    """The state of printing one plan."""

    def __init__(
        self,
        join: JoinPlan,
        tries: Sequence[TrieLayout],
        intersect: str,
        tile: int = 0,
        modular: bool = False,
    ) -> None:
        """`tile`: the number of lanes that walk one subtree together; 0 on a CPU. `modular`: counts
        are taken modulo an argument."""
        # Atoms with the same trie (both orders of a symmetric relation) are treated as one, so that
        # they share nodes and lists.
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
        self.intersect = intersect
        self.tile = tile
        self.imports: set[str] = set()
        # Whether a root's array maps values directly to ranges of children, or to weights.
        self.direct = tile == 0
        self.by_value: set[str] = set()  # names of positions that index weights by value
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
        self.kept: dict[
            int, KeptIntersection
        ] = {}  # cached intersections of levels, by id of the step
        self.prologue: list[str] = []
        self.modular = modular
        if modular:
            self.prologue.append(f"modulus = {self.arguments.given('moduli', 'int64')}[0]")
        self.at_stop = ""  # a line to print before a requested stop

    def call(self, function: str, *args: str) -> str:
        """A call of a helper (codegen/helpers)."""
        self.imports.add(function)
        # CUDA's templates need arguments of one type, and a literal would be an int.
        numbers = (f"np.int64({arg})" if arg.isdecimal() else arg for arg in args)
        return f"{function}({', '.join(numbers)})"

    def level(self, node: TrieNode) -> LevelArgument:
        return LevelArgument(self.number[node.trie], node.depth)

    def hashed(self, node: TrieNode) -> bool:
        """Whether the node is in a hash trie, whose lists are unsorted."""
        return self.tries[node.trie].hashed

    def tallied(self, node: TrieNode) -> bool:
        """Whether the node's trie is a table of counts that these loops fill."""
        return self.tries[node.trie].tallied

    def above_tally(self, node: TrieNode) -> bool:
        """Whether the node is above the keys of a table of counts. The table is filled for the
        values bound there, so that there is nothing to look up."""
        return self.tallied(node) and node.depth < self.depths[node.trie.relation]

    def values(self, node: TrieNode) -> str:
        if self.tallied(node):
            return self.tables[node.trie.relation].values
        return self.arguments.values(self.level(node))

    def range_of(self, node: TrieNode, known: KnownPositions) -> Range:
        """The range of a known node's list in its level."""
        if node not in known.ranges:
            if self.tallied(node):
                known.ranges[node] = ("0", self.tables[node.trie.relation].length)
            elif self.hashed(node):
                spans = self.arguments.of_hash(self.level(node), "spans")
                at, low, high = self.place_of(node, known), self.text.name("l"), self.text.name("h")
                self.text.line(f"{low} = np.int64({self.call('at', spans, f'2 * {at}')})")
                count = self.call("at", spans, f"2 * {at} + 1")
                self.text.line(f"{high} = {low} + np.int64({count})")
                known.ranges[node] = (low, high)
            elif not node.terms:
                known.ranges[node] = ("0", f"len({self.values(node)})")
            else:
                offsets, at = self.arguments.offsets(self.level(node)), known.positions[node]
                low, high = self.text.name("l"), self.text.name("h")
                self.text.line(f"{low} = np.int64({self.call('at', offsets, at)})")
                end = self.call("at", offsets, f"{at} + 1")
                self.text.line(f"{high} = np.int64({end})")
                known.ranges[node] = (low, high)
        return known.ranges[node]

    def place_of(self, node: TrieNode, known: KnownPositions) -> str:
        """The number of a hash trie's node within its level."""
        return known.positions[node] if node.terms else "0"

    def together(self, known: KnownPositions) -> bool:
        """Whether all lanes of a tile are converged here, to intersect and count together."""
        return self.tile > 1 and not known.alone

    @contextmanager
    def one_lane(self, known: KnownPositions) -> Iterator[None]:
        """Prints code that runs once, even if all lanes of a tile are here."""
        with self.text.block("if leads()") if self.together(known) else nullcontext():
            yield

    def recodes(self, known: KnownPositions) -> bool:
        """Whether lists may be recoded here; all lanes together build the rows."""
        wanted = self.intersect in ("auto", "recode") and not self.placed
        if any(trie.hashed for trie in self.tries.values()):
            return False  # their lists are unsorted
        return wanted and (self.together(known) if self.tile else True)

    def recodable(self, group: Recoding) -> bool:
        """Whether scratch has room for the rows of the longest list."""
        level = self.tries[group.within.trie].levels[group.within.depth]
        return level.tile_rows_fit if self.tile else level.rows_fit and level.marks_fit

    def spoil(self, status: int) -> str:
        """The statement that discards all of the function's work.

        Diverged lanes cannot return at once: the tile checks `trouble` later.
        """
        return f"trouble = {status}" if self.tile else f"return {status}"

    @contextmanager
    def unless(self, bad: str, status: int) -> Iterator[None]:
        """Prints a block that runs unless `bad` is true."""
        with self.text.block(f"if {bad}"):
            self.text.line(self.spoil(status))
        if self.tile:
            with self.text.block("else"):
                yield
        else:
            yield

    def may_stop(self, known: KnownPositions) -> None:
        """Prints a check for a requested stop, in loops that contain loops.

        Lanes on their own are soon done, and do not check.
        """
        if self.tile > 1 and known.alone:
            return
        asked = "ended()" if self.tile else self.call("stopped", "control")
        with self.text.block(f"if {asked}"):
            if self.at_stop:
                self.text.line(self.at_stop)
            self.text.line(f"return {STOPPED}")

    def whole(self, amount: str, share: bool) -> str:
        """A count in all lanes; `share`: `amount` is each lane's own share, to be summed."""
        if share:
            self.text.line(f"{amount} = {self.call('sum_of_lanes', amount)}")
        return amount

    def marks_fit(self, node: TrieNode) -> bool:
        """Whether scratch has room for a byte for each value between the least and the greatest."""
        return self.tries[node.trie].levels[node.depth].marks_fit

    def key(self, expr: Expr, known: KnownPositions) -> str:
        """The source of an expression's key; statements that it needs are printed here."""
        out: list[str] = []
        source = self.expressions.key(expr, known.names, out, f"return {FAILED}")
        for line in out:
            self.text.line(line)
        return source

    def test(self, expr: Expr, known: KnownPositions) -> str:
        out: list[str] = []
        source = self.expressions.test(expr, known.names, out)
        for line in out:
            self.text.line(line)
        return source

    def weight(self, known: KnownPositions) -> str:
        """The number of bindings that the current row stands for."""
        if not known.weights:
            return "1"
        product = known.weights[0]
        for factor in known.weights[1:]:
            product = self.product(product, factor)
        known.weights = [product]
        return product

    def product(self, one: str, other: str) -> str:
        """The product of two counts; the function ends if it leaves 62 bits."""
        if "1" in (one, other):
            return other if one == "1" else one
        name = self.text.name("w")
        if self.modular:
            self.text.line(f"{name} = ({one} % modulus) * ({other} % modulus) % modulus")
            return name
        if self.tile:
            self.text.line(f"{name} = 0")
        with self.unless(f"float({one}) * float({other}) > {MOST}", OVERFLOW):
            self.text.line(f"{name} = {one} * {other}")
        return name

    def sum(self, one: str, other: str) -> str:
        """The sum of two counts."""
        return f"({one} + {other}) % modulus" if self.modular else f"{one} + {other}"


# The text of a function: indented lines, and unique names.


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
        """A unique local name. Names that are not made here have a `_` before their number."""
        assert not stem.endswith("_"), stem
        number = self._taken.get(stem, 0)
        number += f"{stem}{number}" in TYPES
        self._taken[stem] = number + 1
        return f"{stem}{number}"


# What is known at a point of a printed function: names of values, nodes, lists and weights.


Range = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Buffer:
    """An intersection that has been computed: its array and range, and the cuts applied."""

    array: str
    end: str
    cuts: tuple[RangeBound, ...]
    variable: str  # the variable whose level computed it
    marks: tuple[str, str] | None = None  # its marks, and the value that they start from
    low: str = "0"


@dataclass(frozen=True, slots=True)
class LoopPosition:
    """The current position of a variable's loop, in the list of a node or in a buffer."""

    array: str
    node: TrieNode | None
    at: str


@dataclass(frozen=True, slots=True)
class Clip:
    """The part of a list that belongs to the current task; units are counted from `base`."""

    node: TrieNode
    low: str
    high: str
    base: str


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint on the bits of a recoded level: a `row` of a trie, or a cut (its operator)."""

    kind: str
    trie: int
    variable: str


@dataclass(frozen=True, slots=True)
class BitsetWords:
    """A set of positions: an array, and where its words start.

    `others`: sets to intersect with it, where a lane has no room for the intersection. `after`: a
    position that precedes the whole set, if one is known.
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
    """A recoded list in scope: its range, the number of words of a row, and rows by trie."""

    recoding: Recoding
    values: str
    low: str
    high: str
    words: str
    rows: dict[int, str]
    rowed: frozenset[TrieNode]  # nodes that rows replace
    positions: dict[str, str] = field(default_factory=dict)  # positions of variables
    sets: dict[frozenset[Constraint], BitsetWords] = field(default_factory=dict)

    def inner(self) -> RecodedList:
        return replace(self, positions=dict(self.positions), sets=dict(self.sets))


@dataclass(slots=True)
class KnownPositions:
    """What is known at a point of the function.

    `positions`: a node's index in the level above its children. `ranges`: ranges of nodes' lists.
    `found`: the flag of the branch that a match ends.
    """

    names: dict[str, str] = field(default_factory=dict)
    positions: dict[TrieNode, str] = field(default_factory=dict)
    ranges: dict[TrieNode, Range] = field(default_factory=dict)
    buffers: dict[frozenset[TrieNode], Buffer] = field(default_factory=dict)
    marks: dict[TrieNode, str] = field(default_factory=dict)  # flag: the list is marked
    members: dict[str, frozenset[TrieNode]] = field(
        default_factory=dict
    )  # lists that contain a variable's value
    turns: dict[str, LoopPosition] = field(default_factory=dict)
    weights: list[str] = field(default_factory=list)
    clip: Clip | None = None
    group: RecodedList | None = None
    found: str | None = None
    alone: bool = False  # the lanes of a tile have diverged
    unit: str | None = None  # the current unit of work, if the next loop may share its turns
    spread: bool = False  # diverged lanes share the turns of the next loop
    first_task: str | None = None  # 0 in tasks that are not the first of the current value

    def inner(self) -> KnownPositions:
        """A copy for an inner scope."""
        return KnownPositions(
            dict(self.names),
            dict(self.positions),
            dict(self.ranges),
            dict(self.buffers),
            dict(self.marks),
            dict(self.members),
            dict(self.turns),
            list(self.weights),
            self.clip,
            self.group.inner() if self.group else None,
            self.found,
            self.alone,
            self.unit,
            self.spread,
            self.first_task,
        )

    def has(self, node: TrieNode) -> bool:
        """Whether a node's list is known here."""
        return not node.terms or node in self.positions


@dataclass(frozen=True, slots=True)
class KeptIntersection:
    """The lists of a level whose intersection is cached, and the edge between their ends."""

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
