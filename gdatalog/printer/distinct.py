"""A leaf that emits each new row of a relation once.

The possible rows of the relation are numbered. `marks` has one bit for each possible
row; or `slots` is a hash set of row numbers. All threads share it. The thread that sets the bit, or
takes the slot, emits the row. So a round emits each new row once, in no particular order.

`space` holds the least value and the number of values of each column, then the shift of the hash
set's multiplicative hash. A row outside the space ends the function with a status of its own;
`state` holds that row.

Up to 32 rows wait in a queue while their marks or slots are prefetched, so that many fetches
overlap. The function can end at any row, and the emitted rows remain valid: it checks for room
before it marks a row. The next call starts from the unit of the first queued row; rows that it
meets again are marked.

A GPU's hash set is `known`. Its tiles can also mark rows in the bitmap without emitting them. The
new rows are then read off the bitmap.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan.join_plan import Expr
from gdatalog.printer.leaves import RowLeaf, write_row
from gdatalog.printer.nest import NestPrinter, Point

OUTSIDE = 6  # status: a row outside the space
WAITING = 32  # length of the queue
TRIED, MET = 7, 8  # entries of `state`: rows tried; the row outside


class NewRows(RowLeaf):
    """Emits rows that were not marked before. `hashed`: a hash set replaces the marks. `unwritten`:
    rows are only marked. `parts`: a device's hash set does, and has a number for so many columns
    each."""

    def __init__(
        self,
        outputs: Sequence[Expr],
        hashed: bool = False,
        unwritten: bool = False,
        parts: tuple[int, ...] = (),
    ) -> None:
        super().__init__(outputs, False)
        self.hashed = hashed
        self.unwritten = unwritten
        self.parts = parts

    def start(self, nest: NestPrinter) -> None:
        assert nest.tile or not self.unwritten
        assert not (nest.tile and self.hashed)
        space = nest.arguments.plain("given", "space")
        for at in range(len(self.outputs)):
            nest.text.line(f"least{at}, many{at} = {space}[{2 * at}], {space}[{2 * at + 1}]")
        if not nest.tile:
            nest.text.line("tried = 0")
            nest.at_stop = f"state[{TRIED}] += tried"
        if self.waits(nest):
            nest.text.line("waiting = 0")
        if self.hashed:
            nest.text.line(f"shift = {space}[{2 * len(self.outputs)}]")

    def finish(self, nest: NestPrinter) -> None:
        if not nest.tile:
            self.settle(nest)
            nest.text.line(f"state[{TRIED}] += tried")

    def waits(self, nest: NestPrinter) -> bool:
        """Whether rows are queued while their marks are fetched. Profiles use no queue: a unit that
        runs again would be counted again."""
        return not nest.tile and nest.counting is None

    def settle(self, nest: NestPrinter) -> None:
        """Prints the loop that empties the queue."""
        if not self.waits(nest):
            return
        text = nest.text
        turn = text.name("q")
        with text.block(f"for {turn} in range(waiting)"):
            self._room(nest)
            place = nest.call("at", self._waiting(nest, ""), turn)
            with text.block(f"if {self._first(nest, place)}"):
                keys = [
                    nest.call("at", self._waiting(nest, str(at)), turn)
                    for at in range(len(self.outputs))
                ]
                self._write(nest, keys)
        text.line("waiting = 0")

    @staticmethod
    def _waiting(nest: NestPrinter, column: str) -> str:
        return nest.arguments.scratch(f"queue{column}", "waiting", (), WAITING)

    def _room(self, nest: NestPrinter) -> None:
        with nest.text.block("if n == room"):
            nest.text.line(f"state[{TRIED}] += tried")
            nest.text.line("return 1")

    def _first(self, nest: NestPrinter, place: str) -> str:
        """The source of the test whether a row is new."""
        if self.hashed:
            slots = nest.arguments.plain("given", "slots")
            return nest.call("add_key", slots, "shift", place)
        return nest.call("mark_first", nest.arguments.plain("given", "marks"), place)

    def _write(self, nest: NestPrinter, keys: Sequence[str]) -> None:
        widths = [self._width(nest, output) for output in self.outputs]
        write_row(nest, list(zip(keys, widths, strict=True)))
        nest.text.line("state[4] = n")

    def emit(self, here: Point) -> None:
        nest, text = here.nest, here.text
        if not nest.tile:
            text.line("tried += 1")
        keys = [here.key(output) for output in self.outputs]
        places = []
        for at, key in enumerate(keys):
            place = text.name("c")
            text.line(f"{place} = {key} - least{at}")
            places.append(place)
        outside = " or ".join(
            f"{place} < 0 or {place} >= many{at}" for at, place in enumerate(places)
        )
        if nest.tile:
            codes, begin = list[str](), 0
            for count in self.parts or (len(places),):
                codes.append(number_of(places, range(begin, begin + count)))
                begin += count
            with nest.unless(outside, OUTSIDE):
                self._give(nest, codes, keys)
            return
        code = number_of(places, range(len(places)))
        with text.block(f"if {outside}"):
            for at, key in enumerate(keys):
                text.line(f"state[{MET + at}] = {key}")
            text.line(f"state[{TRIED}] += tried")
            text.line(f"return {OUTSIDE}")
        if not self.waits(nest):
            self._room(nest)
            with text.block(f"if {self._first(nest, code)}"):
                self._write(nest, keys)
            return
        place = text.name("c")
        text.line(f"{place} = {code}")
        array = nest.arguments.plain("given", "slots" if self.hashed else "marks")
        entry = nest.call("slot_of", place, "shift") if self.hashed else f"{place} >> 6"
        text.line(nest.call("prefetch", array, entry))
        text.line(nest.call("put", self._waiting(nest, ""), "waiting", place))
        for at, key in enumerate(keys):
            text.line(nest.call("put", self._waiting(nest, str(at)), "waiting", key))
        text.line("waiting += 1")
        with text.block(f"if waiting == {WAITING}"):
            self.settle(nest)

    def _give(self, nest: NestPrinter, codes: Sequence[str], keys: Sequence[str]) -> None:
        """Emits a row of a lane. The tile's lanes allocate room for their rows together, when they
        converge (kernels/walk.cuh)."""
        marks = nest.arguments.plain("result", "known" if self.parts else "marks")
        if self.unwritten:
            nest.text.line(f"mark({marks}, {codes[0]})")
            return
        for at, output in enumerate(self.outputs):
            nest.arguments.plain("output", f"out{at}", self._width(nest, output))
        nest.text.line(f"emit_fresh({marks}, {', '.join((*codes, *keys))})")


def number_of(places: Sequence[str], columns: range) -> str:
    """The number of a row by its values in some columns."""
    code = places[columns[0]]
    for at in columns[1:]:
        code = f"({code} * many{at} + {places[at]})"
    return code
