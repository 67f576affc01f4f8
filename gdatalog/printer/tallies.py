"""Prints tables of counts, which inner loops fill for each row, and outer loops read as tries; and
local counts.

A table is an array of counts, one for each possible value of its key, and a list of the values
whose count is not 0. Each worker, a thread or a tile, has its own table, and clears it before it
fills it again. If there are no lists to intersect, each lane of a tile starts a row, and all lanes
share the lists that these rows lead to; the lanes add by atomic operations.

Local counts are an array for the whole function, with one entry for each vertex, by rank, or for
each edge, by its position in a trie. Each match adds to several entries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from math import inf, prod

from gdatalog.plan.effects import participants
from gdatalog.plan.join_plan import Filter, Join, Seek, Slot, Tally
from gdatalog.plan.nest import TrieNode, entries
from gdatalog.printer.arguments import LevelArgument
from gdatalog.printer.expressions import Unprintable
from gdatalog.printer.levels import spreads
from gdatalog.printer.lists import LevelLists, in_order, start_of, trimmed
from gdatalog.printer.nest import Leaf, NestPrinter, Point
from gdatalog.printer.nest_state import OVERFLOW, CountTable

SHORTEST, SHORT = 1 << 16, 1 << 31  # limits of counts in 16 and 32 bits


def print_tally(here: Point, step: Tally) -> None:
    """Fills a table; a row whose table stays empty ends here."""
    nest, text = here.nest, here.text
    level, leaf = _level(nest, step), Counts(step.key)
    number = len(nest.tables)
    counts, values = None, None
    if nest.tile:  # narrow types take less memory traffic
        most = inf if nest.modular else _most_matches(nest, step)
        counts = "uint16" if most < SHORTEST else "int32" if most < SHORT else None
        values = nest.arguments.width((level,))
    table = leaf.table = CountTable(
        nest.arguments.scratch(f"tally{number}", "tally", (level,), dtype=counts),
        nest.arguments.scratch(f"tallied{number}", "tallied", (level,), dtype=values),
        f"tallies{number}",
        nest.arguments.scalar("base", level),
    )
    nest.tables[step.table] = table
    nest.prologue.append(f"{table.length} = np.int64(0)")
    clear = nest.call("clear_tally", table.counts, table.values, table.length, table.low)
    text.line(f"{table.length} = {clear}")
    inner = here.inside(step.steps, leaf)
    inner.spread = here.together() and spreads(inner, looked_up=True)
    split, nest.split = nest.split, True
    inner.run_once()
    nest.split = split
    if nest.tile:
        text.line("meet()")
    with text.block(f"if {table.length} == 0"):
        text.line("continue")


def _level(nest: NestPrinter, step: Tally) -> LevelArgument:
    """A level of a trie that contains all values of the key."""
    for inner in step.steps:
        if isinstance(inner, Join) and inner.variable == step.key:
            nodes = [nest.paths.node(part) for part in inner.participants]
            lists = [node for node in nodes if not nest.tallied(node)]
            if lists:
                return nest.level(lists[0])
    raise Unprintable("no list holds all keys of a table of counts")


def _most_matches(nest: NestPrinter, step: Tally) -> float:
    """A bound of the count that a key can have for one row."""
    most = 1.0
    # Variables that are less than the key, which may be the last rank, and so they are not.
    less = {
        cut.name
        for inner in step.steps
        if isinstance(inner, Join) and inner.variable == step.key
        for op, cut in inner.cuts
        if op == ">" and isinstance(cut, Slot)
    }
    for inner in step.steps:
        if not isinstance(inner, Join | Seek | Filter):
            return inf
        nodes = [nest.paths.node(part) for part in participants(inner)]
        weights = [nest.tries[n.trie].weight for n in nodes if n.trie.weighted and n.last]
        if weights:  # bounds for one value, and for the sum over all values
            most *= prod(weights)
        elif isinstance(inner, Join) and inner.variable != step.key:
            lists = [node for node in nodes if not nest.hashed(node)]
            most *= min((_longest(nest, node, less) for node in lists), default=inf)
    return most


def _longest(nest: NestPrinter, node: TrieNode, less: Collection[str]) -> int:
    level = nest.tries[node.trie].levels[node.depth]
    above = node.terms[0] if node.depth == 1 else None
    return level.earlier if isinstance(above, Slot) and above.name in less else level.longest


class Counts(Leaf):
    """Adds the rows of a tally to its table."""

    by_lanes = True

    def __init__(self, key: str) -> None:
        self.key = key
        self.table = CountTable("", "", "", "")

    def begins(self, here: Point) -> bool:
        self.counts = self.key in here.names  # deeper levels are counted, not walked
        return False

    def emit(self, here: Point) -> None:
        self.count(here, "1")

    def count(self, here: Point, amount: str, share: bool = False) -> None:
        nest, text, table = here.nest, here.text, self.table
        added = nest.product(here.weight(), nest.whole(amount, share))
        if added != "1":
            with text.block(f"if {added} == 0"):
                text.line("continue")
        if nest.tile:
            given = table.counts, table.values, table.length, here.names[self.key], table.low
            text.line(f"{table.length} = add_tally({', '.join(given)}, {added})")
            return
        place = text.name("p")
        text.line(f"{place} = {here.names[self.key]} - {table.low}")
        before = _add(nest, table.counts, place, added)
        # Without a branch, which would be hard to predict.
        text.line(nest.call("put", table.values, table.length, here.names[self.key]))
        text.line(f"{table.length} += np.int64({before} == 0)")


class LocalCountLeaf(Leaf):
    """Adds each row to the counts of all images of a key. An image is a variable, or a pair of
    variables that is an entry of a trie."""

    by_lanes = adds = True

    def __init__(self, images: Sequence[tuple[str, ...]]) -> None:
        self.images = images
        self.places: list[TrieNode] = []
        self.array = ""
        self.sums: dict[int, str] = {}  # of images that the innermost loop does not bind

    def start(self, nest: NestPrinter) -> None:
        there = entries(nest.join)
        pairs = len(self.images[0]) == 2
        if pairs:
            self.places = [there[image] for image in self.images]
            nest.placed = set(self.places)
        trie = self.places[0].trie if pairs else nest.join.tries[0]
        level = LevelArgument(nest.number[trie], 1 if pairs else 0)
        self.array = nest.arguments.scratch("local", "local", (level,))

    def begins(self, here: Point) -> bool:
        names = all(name in here.names for image in self.images for name in image)
        self.counts = names and all(place in here.positions for place in self.places)
        return False

    @contextmanager
    def around(self, here: Point) -> Iterator[None]:
        """Adds up, in local variables, the innermost loop's counts for images bound outside it."""
        inner = all(isinstance(step, Seek | Filter) for step in here.later)
        where = self._where(here) if inner and not here.spread else []
        sums = {number: here.text.name("m") for number, place in enumerate(where) if place}
        for name in sums.values():
            here.text.line(f"{name} = np.int64(0)")
        self.sums = sums
        yield
        self.sums = {}
        for number, name in sums.items():
            if here.nest.tile:
                here.text.line(f"{name} = {here.nest.call('sum_of_lanes', name)}")
            with here.text.block(f"if {name} > 0"):
                self._add(here, where[number], name)

    def _where(self, here: Point) -> list[str]:
        """The entry of each image; empty for an image that is not bound yet."""
        if self.places:
            return [here.positions.get(place, "") for place in self.places]
        return [here.names.get(image[0], "") for image in self.images]

    def emit(self, here: Point) -> None:
        self.count(here, "1")

    def takes_common(self, here: Point) -> bool:
        """Adds the common values of two lists, on a tile, while the lanes search for them."""
        nest, step = here.nest, here.join
        met = LevelLists.of(nest, step)
        plain = here.at + 1 == len(here.steps) and len(met.lists) == len(step.participants) == 2
        plain = plain and all(node.last and not node.trie.weighted for node in met.lists)
        if not plain or not here.together() or nest.counting is not None or here.weights:
            return False
        if here.clip is not None or start_of(here, met) is not None:
            return False
        nodes = in_order(here, met.nodes)
        term = Slot(step.variable, step.type)
        found: list[object] = [node.child(term) for node in nodes] if self.places else []
        found = found or [None, None, (step.variable,)]
        bits, outside = 0, list[str]()
        for image in self.places or self.images:
            if image in found:
                bits |= 1 << found.index(image)
            elif isinstance(image, TrieNode) and here.positions.get(image):
                outside.append(here.positions[image])
            elif not isinstance(image, TrieNode) and image[0] in here.names:
                outside.append(here.names[image[0]])
            else:
                return False
        text, amount = here.text, here.text.name("m")
        lists = [part for node in nodes for part in (nest.values(node), *trimmed(here, met, node))]
        text.line(f"{amount} = add_common({', '.join([*lists, self.array])}, {bits})")
        if outside:
            text.line(f"{amount} = {nest.call('sum_of_lanes', amount)}")
            with text.block(f"if leads() and {amount} > 0"):
                for place in outside:
                    text.line(f"add_local({self.array}, {place}, {amount})")
        return True

    def count(self, here: Point, amount: str, share: bool = False) -> None:
        nest = here.nest
        added = nest.product(here.weight(), nest.whole(amount, share))
        for number, place in enumerate(self._where(here)):
            if number not in self.sums:
                self._add(here, place, added)
                continue
            name = self.sums[number]
            if nest.tile:
                with here.one_lane():
                    nest.text.line(f"{name} = add_checked({name}, {added})")
            else:
                nest.text.line(f"{name} = {nest.sum(name, added)}")
                if added != "1" and not nest.modular:
                    with nest.text.block(f"if {name} > 4000000000000000000"):
                        nest.text.line(f"return {OVERFLOW}")

    def _add(self, here: Point, place: str, added: str) -> None:
        if not here.nest.tile:
            _add(here.nest, self.array, place, added)
            return
        with here.one_lane():
            here.text.line(f"add_local({self.array}, {place}, {added})")


def _add(nest: NestPrinter, counts: str, place: str, added: str) -> str:
    """Adds to an entry of an array; returns the name of the entry's value before."""
    before = nest.text.name("c")
    nest.text.line(f"{before} = {nest.call('at', counts, place)}")
    if added != "1" and not nest.modular:
        with nest.text.block(f"if {before} > 4000000000000000000"):
            nest.text.line("return 4")
    nest.text.line(nest.call("put", counts, place, nest.sum(before, added)))
    return before
