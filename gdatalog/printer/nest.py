"""Prints a join plan as one function: a nest of loops over the lists of its tries.

Each step is printed inside the one before. A step whose test fails prints `continue`, so each scope
is a loop, if only of one turn. Work that does not depend on a loop is hoisted out of it: ranges of
lists, intersections, marks. `levels.py` and `recode.py` print the steps that extend rows,
`leaves.py` prints what happens to a complete row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from typing import TYPE_CHECKING

from gdatalog.plan.effects import all_steps
from gdatalog.plan.nest import Paths, Recoding, TrieNode
from gdatalog.plan.nodes import (
    Assign,
    Branch,
    Compact,
    Expr,
    Filter,
    Generate,
    Guard,
    Join,
    JoinPlan,
    Participant,
    Restore,
    Seek,
    Slot,
    Step,
    Tally,
    TrieRef,
)
from gdatalog.printer.arguments import Arguments, LevelArgument
from gdatalog.printer.counting import Counting
from gdatalog.printer.expressions import ExpressionPrinter, Unprintable
from gdatalog.printer.layouts import TrieLayout
from gdatalog.printer.scope import KnownPositions, Range
from gdatalog.printer.text import LoopText
from gdatalog.records import replace

if TYPE_CHECKING:
    from gdatalog.printer.leaves import Leaf
    from gdatalog.printer.remember import KeptIntersection
    from gdatalog.printer.tallies import CountTable

FULL, STOPPED, FAILED, OVERFLOW = 1, 2, 3, 4  # statuses of a function; 0: done
MOST = "4e18"  # larger weights and sums are left to the executor with exact arithmetic


class NestPrinter:
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
        self.counting: Counting | None = None  # for profiles
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

    # ------------------------------------------------------------------------------- words

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

    # ------------------------------------------------------------------------------- steps

    def run(self, steps: Sequence[Step], at: int, known: KnownPositions, leaf: Leaf) -> None:
        """Prints the steps from `at` on, then the leaf."""
        from gdatalog.printer.levels import print_generate, print_join, spreads_behind

        while at < len(steps):
            if leaf.begins(self, steps, at, known):
                return
            step = steps[at]
            if isinstance(step, Join):
                print_join(self, steps, at, known, leaf)
                return
            if isinstance(step, Generate):
                print_generate(self, step, steps, at, known, leaf)
                return
            leaf.passes(self, step, known)
            self.narrow(step, known)
            if isinstance(step, Tally):
                known.spread = spreads_behind(self, steps[at + 1 :], known, leaf)
            if known.group is not None and at == known.group.recoding.levels[-1]:
                known.group = None
            self.bound(step, known)
            at += 1
        if not leaf.begins(self, steps, at, known):
            leaf.emit(self, known)

    def narrow(self, step: Step, known: KnownPositions) -> None:
        """Prints a step that keeps the current row or continues with the next."""
        from gdatalog.printer.branches import print_branch
        from gdatalog.printer.recode import looked_up

        text = self.text
        match step:
            case Guard():
                ref = self.join.tries[step.trie]
                total = self.arguments.scalar("total", LevelArgument(self.number[ref], 0))
                with text.block(f"if {total} == 0"):
                    text.line("continue")
                if step.weighted:
                    known.weights.append(total)
            case Seek():
                parts = step.participants
                if known.group is not None:
                    parts = tuple(part for part in parts if looked_up(self, known.group, part))
                if parts:
                    self.seek(step.value, self.key(step.value, known), parts, known)
            case Assign():
                name = self.bind(step.variable, self.key(step.expr, known), known)
                self.seek(Slot(step.variable, step.type), name, step.participants, known)
            case Filter():
                with text.block(f"if not ({self.test(step.test, known)})"):
                    text.line("continue")
            case Compact():
                pass  # duplicates are dropped where rows are gathered
            case Restore():
                self.restore(step, known)
            case Branch():
                print_branch(self, step, known)
            case Tally():
                from gdatalog.printer.tallies import print_tally

                print_tally(self, step, known)
            case _:
                raise Unprintable(f"{type(step).__name__.lower()} is not printed")

    def bind(self, variable: str, source: str, known: KnownPositions) -> str:
        name = self.text.name("x")
        self.text.line(f"{name} = np.int64({source})  # {plain(variable)}")
        known.names[variable] = name
        return name

    def restore(self, step: Restore, known: KnownPositions) -> None:
        """Maps ranks back to values, sorted by a sorting network."""
        labels = self.arguments.of_trie(self.number[self.join.tries[step.trie]], "labels")
        names = []
        for rank, variable in zip(step.ranks, step.variables, strict=True):
            names.append(self.bind(variable, f"{labels}[{known.names[rank]}]", known))
        for end in range(len(names) - 1, 0, -1):
            for a, b in pairwise(names[: end + 1]):
                self.text.line(f"{a}, {b} = min({a}, {b}), max({a}, {b})")

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
            from gdatalog.printer.tallies import find_tallied

            return find_tallied(self, node, key)
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
