"""Tables of counts that loops keep: filled for each row that comes to them, then read as tries.

A table is an array of counts, one for each value that its key may have, and a list of the values
whose count is not 0. It is a worker's own. Filling it anew clears what was counted before.

Local counts are such an array that the whole function fills: an entry for each rank of a vertex, or
for each edge by its position in a trie. Each match counts at several entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gdatalog.plan.nest import TrieNode, entries
from gdatalog.plan.nodes import Join, Step, Tally
from gdatalog.printer.arguments import LevelArgument
from gdatalog.printer.expressions import Unprintable
from gdatalog.printer.leaves import Leaf
from gdatalog.printer.scope import KnownPositions
from gdatalog.records import dataclass

if TYPE_CHECKING:
    from gdatalog.printer.nest import NestPrinter


@dataclass(frozen=True, slots=True)
class CountTable:
    """Its names in a text: counts, values, how many values, and the least key there may be."""

    counts: str
    values: str
    length: str
    low: str


def table_of(nest: NestPrinter, name: str) -> CountTable:
    return nest.tables[name]


def print_tally(nest: NestPrinter, step: Tally, known: KnownPositions) -> None:
    """Fills a table; a row for which it stays empty goes no further."""
    if nest.tile:
        raise Unprintable("tables of counts are kept by the CPU's threads")
    text = nest.text
    level = _level(nest, step)
    number = len(nest.tables)
    table = CountTable(
        nest.arguments.scratch(f"tally{number}", "tally", (level,)),
        nest.arguments.scratch(f"tallied{number}", "tallied", (level,)),
        f"tallies{number}",
        nest.arguments.scalar("base", level),
    )
    nest.tables[step.table] = table
    nest.prologue.append(f"{table.length} = np.int64(0)")
    clear = nest.call("clear_tally", table.counts, table.values, table.length, table.low)
    text.line(f"{table.length} = {clear}")
    inner = known.inner()
    inner.weights = []
    inner.clip = inner.unit = inner.found = None
    inner.spread = False
    split, nest.split = nest.split, True
    with text.block(f"for {text.name('once')} in range(1)"):
        nest.run(step.steps, 0, inner, Counts(step.key, table))
    nest.split = split
    with text.block(f"if {table.length} == 0"):
        text.line("continue")


def _level(nest: NestPrinter, step: Tally) -> LevelArgument:
    """A level of a trie that holds all values of the key."""
    for inner in step.steps:
        if isinstance(inner, Join) and inner.variable == step.key:
            nodes = [nest.paths.node(part) for part in inner.participants]
            lists = [node for node in nodes if not nest.tallied(node)]
            if lists:
                return nest.level(lists[0])
    raise Unprintable("no list holds all keys of a table of counts")


def find_tallied(nest: NestPrinter, node: TrieNode, key: str) -> str:
    """Where a key's count is, or -1."""
    table = nest.tables[node.trie.relation]
    return nest.call("find_tally", table.counts, table.low, key)


class Counts(Leaf):
    """Adds the rows of a tally to its table."""

    def __init__(self, key: str, table: CountTable) -> None:
        self.key = key
        self.table = table

    def begins(
        self, nest: NestPrinter, steps: Sequence[Step], at: int, known: KnownPositions
    ) -> bool:
        self.counts = self.key in known.names  # what comes behind the key need not be walked
        return False

    def emit(self, nest: NestPrinter, known: KnownPositions) -> None:
        self.count(nest, known, "1")

    def count(
        self, nest: NestPrinter, known: KnownPositions, amount: str, share: bool = False
    ) -> None:
        text, table = nest.text, self.table
        added = nest.product(nest.weight(known), amount)
        if added != "1":
            with text.block(f"if {added} == 0"):
                text.line("continue")
        place = text.name("p")
        text.line(f"{place} = {known.names[self.key]} - {table.low}")
        before = _add(nest, table.counts, place, added)
        # Without a branch: whether a key is new is hard to foresee.
        text.line(nest.call("put", table.values, table.length, known.names[self.key]))
        text.line(f"{table.length} += np.int64({before} == 0)")


class LocalCountLeaf(Leaf):
    """Adds each row to the counts of all images of a key: variables, or pairs of variables that an
    entry of one trie stands for."""

    def __init__(self, images: Sequence[tuple[str, ...]]) -> None:
        self.images = images
        self.places: list[TrieNode] = []
        self.array = ""

    def start(self, nest: NestPrinter) -> None:
        if nest.tile:
            raise Unprintable("local counts are kept by the CPU's threads")
        there = entries(nest.join)
        pairs = len(self.images[0]) == 2
        if pairs:
            self.places = [there[image] for image in self.images]
            nest.placed = {place.above for place in self.places}
        trie = self.places[0].trie if pairs else nest.join.tries[0]
        level = LevelArgument(nest.number[trie], 1 if pairs else 0)
        self.array = nest.arguments.scratch("local", "local", (level,))

    def begins(
        self, nest: NestPrinter, steps: Sequence[Step], at: int, known: KnownPositions
    ) -> bool:
        names = all(name in known.names for image in self.images for name in image)
        self.counts = names and all(place in known.positions for place in self.places)
        return False

    def emit(self, nest: NestPrinter, known: KnownPositions) -> None:
        self.count(nest, known, "1")

    def count(
        self, nest: NestPrinter, known: KnownPositions, amount: str, share: bool = False
    ) -> None:
        added = nest.product(nest.weight(known), amount)
        for number, image in enumerate(self.images):
            name = known.positions[self.places[number]] if self.places else known.names[image[0]]
            _add(nest, self.array, name, added)


def _add(nest: NestPrinter, counts: str, place: str, added: str) -> str:
    """Adds to an entry of an array; gives what was there before."""
    before = nest.text.name("c")
    nest.text.line(f"{before} = {nest.call('at', counts, place)}")
    if added != "1" and not nest.modular:
        with nest.text.block(f"if {before} > 4000000000000000000"):
            nest.text.line("return 4")
    nest.text.line(nest.call("put", counts, place, nest.sum(before, added)))
    return before
