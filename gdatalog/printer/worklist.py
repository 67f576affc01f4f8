"""Prints a partitioned fixpoint: a local worklist for each value of the split column.

A worker takes one value after the other. It pushes and stamps the value's seeds, the rows of the
rules without recursion. Then it pops one row after the other and runs each rule on the row: nested
loops whose leaf pushes a derived row unless that is stamped. The worklist is the output block, so
that no row is copied: popped rows stay in place, and at the end the worker fills in the split
column. Stamps are an array over all possible rows if these are few; otherwise a hash table maps a
row to its place in the worklist.

A full block ends the function. The next call, with another block, starts the current value again.
If only counts are needed, the worklist is emptied for each value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from gdatalog.plan.effects import Steps, all_steps, merged
from gdatalog.plan.join_plan import Expr, JoinPlan
from gdatalog.printer.layouts import TrieLayout
from gdatalog.printer.module import PrintedPlan, StepPrinter, finished
from gdatalog.printer.nest import Leaf, Point
from gdatalog.printer.nest_state import FULL, Counting
from gdatalog.printer.turns import tasks
from gdatalog.records import dataclass

WIDER = 7  # status: a hash table is full
# The entries of a worker's state: the current interval (0, 1), the number of workers (3), the least
# task (5), the stamp (6), the relation whose block or table is full (7); from HEAD on, for each
# relation, the number of rows to keep, the size of its block, and the epoch of its hash table.
STAMP, WHICH, HEAD, EACH = 6, 7, 8, 3
MOST_STAMPS = {"uint8": 255, "int32": (1 << 31) - 1}
_SPREAD = (
    "np.int64(-7046029254386353131)"  # 2^64 divided by the golden ratio, for a multiplicative hash
)


@dataclass(frozen=True, slots=True)
class Listed:
    """A relation of the fixpoint; `split` is the column that it is partitioned by.

    `rows`: the dtypes of its columns. `seeds`: those of the columns of seeds, without the split
    column. `stamps`: the dtype of stamps; None: a hash table replaces them.
    """

    relation: str
    split: int
    rows: tuple[str, ...]
    seeds: tuple[str, ...]
    stamps: str | None

    @property
    def others(self) -> list[int]:
        return [column for column in range(len(self.rows)) if column != self.split]


@dataclass(frozen=True, slots=True)
class Recursive:
    """A rule's plan for new rows of a relation, and the relation of its head."""

    join: JoinPlan
    head: str


def print_partitioned(
    rules: Sequence[Recursive],
    tries: Sequence[TrieLayout],
    lists: Sequence[Listed],
    splits: str,
    counts: bool,
    intersect: str,
    counted: bool = False,
) -> PrintedPlan:
    """Prints the function of a partitioned stratum. `tries`: those of all plans, concatenated.
    `splits`: the dtype of the split values. `counts`: the function only counts the rows of each
    value. `counted`: it counts bindings for a profile."""
    printer = _WorklistPrinter(rules, tries, lists, counts, intersect, counted=counted)
    printer.run(splits)
    return printer.finished(printer.prologue())


class Into(Leaf):
    """Adds rows to a worklist: the keys of their columns, without the split column."""

    def __init__(self, outputs: Sequence[Expr], add: Callable[[Sequence[str]], None]) -> None:
        """`outputs`: those columns; `add` prints the code for a row's keys."""
        self.outputs = outputs
        self.add = add

    def emit(self, here: Point) -> None:
        self.add(list(map(here.key, self.outputs)))


class RulesPrinter:
    """The base of the printers of worklists."""

    def __init__(
        self,
        rules: Sequence[Recursive],
        tries: Sequence[TrieLayout],
        lists: Sequence[Listed],
        counts: bool,
        intersect: str,
        tile: int = 0,
        counted: bool = False,
    ) -> None:
        plan, parts = merged([rule.join for rule in rules])
        self.nest = StepPrinter(plan, tries, intersect, tile)
        self.nest.split = self.nest.tasks = True  # tasks are intervals of values
        if counted:  # the steps of all rules are numbered consecutively
            self.nest.counting = Counting([step for part in parts for step in all_steps(part)])
        self.rules = list(zip(rules, parts, strict=True))
        self.lists = lists
        self.counts = counts
        self.number = {listed.relation: at for at, listed in enumerate(lists)}

    def finished(self, prologue: Sequence[str]) -> PrintedPlan:
        plans = [rule.join for rule, _ in self.rules]
        shape = f"{'counts' if self.counts else 'rows'} of a fixpoint of {len(plans)} rules"
        return finished(self.nest, shape, plans, prologue, written=not self.counts)

    def given(self, name: str, dtype: str, kind: str = "given") -> str:
        """An argument; all workers share one of the kind `given`."""
        return self.nest.arguments.plain(kind, name, dtype)

    def at(self, array: str, place: str) -> str:
        return f"np.int64({self.nest.call('at', array, place)})"

    def point(
        self,
        rule: Recursive,
        steps: Steps,
        names: Mapping[int, str],
        add: Callable[[int, Sequence[str]], None],
    ) -> Point:
        """The start of a rule's steps for a row whose columns have these names. `add` prints the
        code that adds keys to a list."""
        assert rule.join.given is not None
        self.nest.widths.clear()
        head = self.number[rule.head]
        outputs = [rule.join.outputs[column] for column in self.lists[head].others]
        bound = {slot.name: names[column] for column, slot in enumerate(rule.join.given.slots)}
        return Point(self.nest, steps, Into(outputs, partial(add, head)), bound)


class _WorklistPrinter(RulesPrinter):
    def put(self, array: str, place: str, value: str) -> None:
        self.nest.text.line(self.nest.call("put", array, place, value))

    def full(self, into: int, status: int) -> None:
        self.nest.text.line(f"state[{WHICH}] = {into}")
        self.nest.text.line(f"return {status}")

    def prologue(self) -> list[str]:
        """Reads the function's state."""
        lines = [f"gen = state[{STAMP}]"]
        for at, listed in enumerate(self.lists):
            entry = HEAD + EACH * at
            lines.append(f"n_{at}, room_{at} = state[{entry}], state[{entry + 1}]")
            if listed.stamps is None:
                lines.append(f"epoch_{at} = state[{entry + 2}]")
            else:
                for column in listed.others:
                    place = 2 * column
                    lines.append(
                        f"low_{at}_{column}, size_{at}_{column} = "
                        f"spans_{at}[{place}], spans_{at}[{place + 1}]"
                    )
        return lines

    # ------------------------------------------------------------------------- the function

    def run(self, splits: str) -> None:
        text = self.nest.text
        self._declare()
        values = self.given("splits", splits)
        text.line(f"total = len({values})")
        with tasks(self.nest), text.block("for turn in range(start, stop)"):
            self.nest.may_stop()
            text.line(f"own = {self.at(values, 'turn')}")
            self._begin()
            for at in range(len(self.lists)):
                self._seeds(at)
            self._follow()
            for at in range(len(self.lists)):
                self._end(at)
            self.nest.commit()
        text.line("state[0], state[1] = 0, 0")
        for at in range(len(self.lists)):
            text.line(f"state[{HEAD + EACH * at}] = n_{at}")

    def _declare(self) -> None:
        """Declares arguments whose first use comes after lines that need them."""
        for at, listed in enumerate(self.lists):
            if listed.stamps is not None:
                self.given(f"spans_{at}", "int64")
                self.given(f"stamps_{at}", listed.stamps, "own")
            else:
                self.given(f"table_{at}", "int64", "own")
            for column, dtype in enumerate(listed.rows):
                if column != listed.split or not self.counts:
                    self.given(f"rows_{at}_{column}", dtype, "own")

    def _begin(self) -> None:
        """Saves a state from which the function can start this value again."""
        text = self.nest.text
        text.line("state[0], state[1] = turn, stop")
        stamped = [at for at, listed in enumerate(self.lists) if listed.stamps is not None]
        if stamped:
            most = min(MOST_STAMPS[self.lists[at].stamps or ""] for at in stamped)
            text.line("gen += 1")
            with text.block(f"if gen > {most}"):
                text.line("gen = 1")
                for at in stamped:
                    with text.block(f"for i in range(len(stamps_{at}))"):
                        self.put(f"stamps_{at}", "i", "0")
            text.line(f"state[{STAMP}] = gen")
        for at, listed in enumerate(self.lists):
            if self.counts:
                text.line(f"n_{at} = 0")
            else:
                text.line(f"state[{HEAD + EACH * at}] = n_{at}")
            if listed.stamps is None:
                # An epoch above all entries written before the function is called again
                text.line(f"state[{HEAD + EACH * at + 2}] = epoch_{at} + len(table_{at})")
            text.line(f"began_{at} = n_{at}")

    def _seeds(self, at: int) -> None:
        listed, text = self.lists[at], self.nest.text
        text.line(f"read_{at} = n_{at}")
        with self._rows_of(f"seeds_{at}", listed.seeds, listed) as keys:
            self.push(at, keys)

    @contextmanager
    def _rows_of(self, name: str, dtypes: Sequence[str], listed: Listed) -> Iterator[list[str]]:
        """A loop over given rows of the current value; yields their columns but the split one."""
        text, starts = self.nest.text, self.given(f"{name}_starts", "int64")
        row = text.name("i")
        ends = f"{self.at(starts, 'turn')}, {self.at(starts, 'turn + 1')}"
        with text.block(f"for {row} in range({ends})"):
            keys = []
            for column, dtype in zip(listed.others, dtypes, strict=True):
                keys.append(text.name("y"))
                text.line(f"{keys[-1]} = {self.at(self.given(f'{name}_{column}', dtype), row)}")
            yield keys

    def _follow(self) -> None:
        """Pops rows until none is left."""
        text = self.nest.text
        with text.block("while True"):
            self.nest.may_stop()
            word = "if"
            for at, listed in enumerate(self.lists):
                with text.block(f"{word} read_{at} < n_{at}"):
                    names = {listed.split: "own"}
                    for column in listed.others:
                        names[column] = text.name("y")
                        element = self.at(f"rows_{at}_{column}", f"read_{at}")
                        text.line(f"{names[column]} = {element}")
                    text.line(f"read_{at} += 1")
                    for rule, steps in self.rules:
                        if rule.join.given and rule.join.given.relation == listed.relation:
                            self.point(rule, steps, names, self.push).run_once()
                word = "elif"
            with text.block("else"):
                text.line("break")

    def _end(self, at: int) -> None:
        listed, text = self.lists[at], self.nest.text
        if listed.stamps is None:
            text.line(f"epoch_{at} += n_{at} - began_{at}")
        if self.counts:
            self.put(self.given(f"counts_{at}", "int64"), "turn", f"n_{at}")
            return
        with text.block(f"for i in range(began_{at}, n_{at})"):
            self.put(f"rows_{at}_{listed.split}", "i", "own")

    # ------------------------------------------------------------------------------- a row

    def _place(self, at: int, keys: Sequence[str]) -> str:
        """The position of a row's stamp."""
        listed = self.lists[at]
        place = "0"
        for column, key in zip(listed.others, keys, strict=True):
            mine = f"{key} - low_{at}_{column}"
            place = mine if place == "0" else f"({place}) * size_{at}_{column} + {mine}"
        return place

    def push(self, at: int, keys: Sequence[str]) -> None:
        """Pushes a row unless it is there already."""
        text = self.nest.text
        if self.lists[at].stamps is None:
            self._push_hashed(at, keys)
            return
        place, stamps = text.name("k"), f"stamps_{at}"
        text.line(f"{place} = {self._place(at, keys)}")
        with text.block(f"if {self.nest.call('at', stamps, place)} != gen"):
            self._append(at, keys, lambda: self.put(stamps, place, "gen"))

    def _append(self, at: int, keys: Sequence[str], note: Callable[[], None]) -> None:
        """Appends a row to the worklist, and prints `note`, which records it."""
        text = self.nest.text
        with text.block(f"if n_{at} == room_{at}"):
            self.full(at, FULL)
        note()
        for column, key in zip(self.lists[at].others, keys, strict=True):
            self.put(f"rows_{at}_{column}", f"n_{at}", key)
        text.line(f"n_{at} += 1")

    def _push_hashed(self, at: int, keys: Sequence[str]) -> None:
        nest, text = self.nest, self.nest.text
        table, slot, entry, mixed = f"table_{at}", text.name("s"), text.name("e"), text.name("m")
        held = [text.name("v") for _ in keys]
        for name, key in zip(held, keys, strict=True):
            text.line(f"{name} = np.int64({key})")
        text.line(f"{mixed} = np.int64(0)")
        for name in held:
            spread = nest.call("times", f"({mixed} ^ ({mixed} >> 29)) ^ {name}", _SPREAD)
            text.line(f"{mixed} = {spread}")
        text.line(f"{slot} = ({mixed} >> 32) & (len({table}) - 1)")
        with text.block("while True"):
            text.line(f"{entry} = {nest.call('at', table, slot)}")
            # Entries of values before this one count as empty.
            with text.block(f"if {entry} <= epoch_{at}"):
                with text.block(f"if 2 * (n_{at} - began_{at}) >= len({table})"):
                    self.full(at, WIDER)
                number = f"epoch_{at} + n_{at} - began_{at} + 1"
                self._append(at, held, lambda: self.put(table, slot, number))
                text.line("break")
            text.line(f"{entry} += began_{at} - epoch_{at} - 1")
            same = [
                f"{nest.call('at', f'rows_{at}_{column}', entry)} == {name}"
                for column, name in zip(self.lists[at].others, held, strict=True)
            ]
            with text.block(f"if {' and '.join(same)}"):
                text.line("break")
            text.line(f"{slot} = ({slot} + 1) & (len({table}) - 1)")
