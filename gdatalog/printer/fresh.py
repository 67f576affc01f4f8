"""Leaves that emit only new rows, for relations whose possible rows are numbered.

`marks` has one bit for each possible row; `slots` is a hash set of row numbers. All threads share
them. The thread that sets the bit, or takes the slot, emits the row, so that a round emits each new
row once, in no order.

`space` has the least value and the number of values of each column; then the shift of the hash
set's multiplicative hash. A row outside the space ends the function with a status of its own, and
is stored in `state`.

Up to 32 rows wait in a queue while their marks or slots are prefetched, so that many fetches
overlap. However the function ends, rows emitted so far belong to the block: it checks for room
before it marks a row, resumes from the unit of the first queued row, and finds repeated rows
marked.

A GPU's tiles can also mark rows without emitting them; then the new rows are read off the bitmap.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan.nodes import Expr
from gdatalog.printer.expressions import Unprintable
from gdatalog.printer.leaves import RowLeaf
from gdatalog.printer.nest import NestPrinter
from gdatalog.printer.scope import KnownPositions

OUTSIDE = 6  # status: a row outside the space
WAITING = 32  # length of the queue
TRIED, MET = 7, 8  # entries of `state`: rows tried; the row outside


class NewRows(RowLeaf):
    """Emits rows that were not marked before. `hashed`: by a hash set, not by marks; `unwritten`:
    rows are only marked."""

    def __init__(
        self, outputs: Sequence[Expr], hashed: bool = False, unwritten: bool = False
    ) -> None:
        super().__init__(outputs, False)
        self.hashed = hashed
        self.unwritten = unwritten

    def start(self, nest: NestPrinter) -> None:
        if nest.tile and self.hashed:
            raise Unprintable("hash sets of rows are not printed for tiles")
        assert nest.tile or not self.unwritten
        space = nest.arguments.given("space", "int64")
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
            slots = nest.arguments.given("slots", "int64")
            return nest.call("add_key", slots, "shift", place)
        return nest.call("mark_first", nest.arguments.given("marks", "int64"), place)

    def _write(self, nest: NestPrinter, keys: Sequence[str]) -> None:
        for at, (key, output) in enumerate(zip(keys, self.outputs, strict=True)):
            out = nest.arguments.output(f"out{at}", self._width(nest, output))
            nest.text.line(f"{out}[n] = {key}")
        nest.text.line("n += 1")
        nest.text.line("state[4] = n")

    def emit(self, nest: NestPrinter, known: KnownPositions) -> None:
        text = nest.text
        if not nest.tile:
            text.line("tried += 1")
        keys = [nest.key(output, known) for output in self.outputs]
        places = []
        for at, key in enumerate(keys):
            place = text.name("c")
            text.line(f"{place} = {key} - least{at}")
            places.append(place)
        outside = " or ".join(
            f"{place} < 0 or {place} >= many{at}" for at, place in enumerate(places)
        )
        code = places[0]
        for at, place in enumerate(places[1:], 1):
            code = f"({code} * many{at} + {place})"
        if nest.tile:
            with nest.unless(outside, OUTSIDE):
                self._give(nest, code, keys)
            return
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
        if self.hashed:
            slots, at_ = (
                nest.arguments.given("slots", "int64"),
                nest.call("slot_of", place, "shift"),
            )
            text.line(nest.call("prefetch", slots, at_))
        else:
            text.line(
                nest.call("prefetch", nest.arguments.given("marks", "int64"), f"{place} >> 6")
            )
        text.line(nest.call("put", self._waiting(nest, ""), "waiting", place))
        for at, key in enumerate(keys):
            text.line(nest.call("put", self._waiting(nest, str(at)), "waiting", key))
        text.line("waiting += 1")
        with text.block(f"if waiting == {WAITING}"):
            self.settle(nest)

    def _give(self, nest: NestPrinter, code: str, keys: Sequence[str]) -> None:
        """Rows of a tile's lanes, which allocate room together once they converge
        (kernels/fresh.cuh)."""
        marks = nest.arguments.result("marks", "int64")
        if self.unwritten:
            nest.text.line(f"mark({marks}, {code})")
            return
        for at, output in enumerate(self.outputs):
            nest.arguments.output(f"out{at}", self._width(nest, output))
        nest.text.line(f"emit_fresh({marks}, {', '.join((code, *keys))})")
