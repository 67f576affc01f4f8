"""Rows that have not been there before, of a space whose rows are numbered.

What has been there is in `marks`, a bit for the place of each row that there could be, or in
`slots`, a hash set of places; all threads share it. Who sets the bit, or takes the slot, gives the
row; whoever comes later gives none. So the rows that come out of a round are what is new, in no
order, none twice.

`space` tells for each column the least value and how many there may be, and behind these by how
much the hash set's products are shifted. A row outside of it ends the function with a status of
its own, and is left in `state`. Whatever ends the function, the rows given so far are the block's:
room is asked for before a row is marked, and the unit that is done again finds them marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gdatalog.plan.nodes import Expr
from gdatalog.printer.expressions import Unprintable
from gdatalog.printer.leaves import Rows
from gdatalog.printer.scope import Known

if TYPE_CHECKING:
    from gdatalog.printer.nest import Nest

OUTSIDE = 6  # what a function returns
TRIED, MET = 7, 8  # where in `state` is how many rows came, and the row that lies outside


class Fresh(Rows):
    """Rows of expressions that come for the first time; `hashed`: by a hash set, not by marks."""

    def __init__(self, outputs: Sequence[Expr], hashed: bool = False) -> None:
        super().__init__(outputs, False)
        self.hashed = hashed

    def start(self, nest: Nest) -> None:
        if nest.tile and self.hashed:
            raise Unprintable("hash sets of rows are not printed for tiles")
        space = nest.arguments.given("space", "int64")
        for at in range(len(self.outputs)):
            nest.text.line(f"least{at}, many{at} = {space}[{2 * at}], {space}[{2 * at + 1}]")
        if not nest.tile:
            nest.text.line("tried = 0")
        if self.hashed:
            nest.text.line(f"shift = {space}[{2 * len(self.outputs)}]")

    def finish(self, nest: Nest) -> None:
        if not nest.tile:
            nest.text.line(f"state[{TRIED}] += tried")

    def emit(self, nest: Nest, known: Known) -> None:
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
        with text.block("if n == room"):
            text.line(f"state[{TRIED}] += tried")
            text.line("return 1")
        if self.hashed:
            first = nest.call("add_key", nest.arguments.given("slots", "int64"), "shift", code)
        else:
            first = nest.call("mark_first", nest.arguments.given("marks", "int64"), code)
        with text.block(f"if {first}"):
            for at, (key, output) in enumerate(zip(keys, self.outputs, strict=True)):
                out = nest.arguments.output(f"out{at}", self._width(nest, output))
                text.line(f"{out}[n] = {key}")
            text.line("n += 1")
            text.line("state[4] = n")

    def _give(self, nest: Nest, code: str, keys: Sequence[str]) -> None:
        """By lanes, which look for room when they have met again (kernels/fresh.cuh)."""
        for at, output in enumerate(self.outputs):
            nest.arguments.output(f"out{at}", self._width(nest, output))
        marks = nest.arguments.result("marks", "int64")
        nest.text.line(f"emit_fresh({marks}, {', '.join((code, *keys))})")
