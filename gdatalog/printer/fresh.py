"""Rows that have not been there before, of a space of few enough possible rows.

A row's place in the space is the place of its bit in `marks`, which all threads share. Who sets
the bit gives the row; whoever comes later gives none. So the rows that come out of a round are
what is new, in no order, none twice.

`space` tells for each column the least value and how many there may be. A row outside of it ends
the function with a status of its own. The marks hold for rows that a block has room for: it is
asked for before the mark is set, and a block that is full keeps all rows, for the unit that is
done again finds them marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gdatalog.plan.nodes import Expr
from gdatalog.printer.leaves import Rows
from gdatalog.printer.scope import Known

if TYPE_CHECKING:
    from gdatalog.printer.nest import Nest

OUTSIDE = 6  # what a function returns


class Fresh(Rows):
    """Rows of expressions that are marked for the first time."""

    def __init__(self, outputs: Sequence[Expr]) -> None:
        super().__init__(outputs, False)

    def start(self, nest: Nest) -> None:
        space = nest.arguments.given("space", "int64")
        for at in range(len(self.outputs)):
            nest.text.line(f"least{at}, many{at} = {space}[{2 * at}], {space}[{2 * at + 1}]")

    def emit(self, nest: Nest, known: Known) -> None:
        text = nest.text
        keys = [nest.key(output, known) for output in self.outputs]
        places = []
        for at, key in enumerate(keys):
            place = text.name("c")
            text.line(f"{place} = {key} - least{at}")
            places.append(place)
        bad = " or ".join(f"{c} < 0 or {c} >= many{at}" for at, c in enumerate(places))
        code = places[0]
        for at, place in enumerate(places[1:], 1):
            code = f"({code} * many{at} + {place})"
        with nest.unless(bad, OUTSIDE):
            if nest.tile:
                self._give(nest, code, keys)
            else:
                self._keep(nest, code, keys)

    def _give(self, nest: Nest, code: str, keys: Sequence[str]) -> None:
        """By lanes, which look for room when they have met again (kernels/fresh.cuh)."""
        for at, output in enumerate(self.outputs):
            nest.arguments.output(f"out{at}", self._width(nest, output))
        marks = nest.arguments.result("marks", "int64")
        nest.text.line(f"emit_fresh({marks}, {', '.join((code, *keys))})")

    def _keep(self, nest: Nest, code: str, keys: Sequence[str]) -> None:
        text = nest.text
        with text.block("if n == room"):
            text.line("state[4] = n")
            text.line("return 1")
        first = nest.call("mark_first", nest.arguments.given("marks", "int64"), code)
        with text.block(f"if {first}"):
            for at, (key, output) in enumerate(zip(keys, self.outputs, strict=True)):
                out = nest.arguments.output(f"out{at}", self._width(nest, output))
                text.line(f"{out}[n] = {key}")
            text.line("n += 1")
