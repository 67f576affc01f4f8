"""The root of a plan that follows given rows: each of them is a unit of the work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gdatalog.plan.nodes import GivenRows
from gdatalog.printer.levels import last_loop, spreads
from gdatalog.printer.scope import KnownPositions
from gdatalog.printer.turns import begin_unit

if TYPE_CHECKING:
    from gdatalog.printer.leaves import Leaf
    from gdatalog.printer.nest import NestPrinter


def print_given(
    nest: NestPrinter, given: GivenRows, dtypes: Sequence[Any], known: KnownPositions, leaf: Leaf
) -> None:
    """Tasks of rows are taken until none is left; the steps are printed for each row.

    `dtypes` are those of the rows' columns, which are the arguments `new0`, `new1`, ...
    """
    text = nest.text
    if not given.slots:  # a proposition that has become true: that is one row
        nest.run(nest.join.steps, 0, known, leaf)
        return
    columns = [
        nest.arguments.given(f"new{at}", np.dtype(dtype).name) for at, dtype in enumerate(dtypes)
    ]
    nest.split = nest.tasks = True
    text.line("base = np.int64(0)")
    text.line(f"total = np.int64(len({columns[0]}))")
    with text.block("while next_task(total)" if nest.tile else "while True"):
        if nest.tile:
            nest.commit()
        if not nest.tile:
            with text.block("if start >= stop"):
                take = nest.call("take", "control", "threads", "total", "grain")
                text.line(f"start, stop = {take}")
                with text.block("if start >= stop"):
                    text.line("break")
        spread = spreads(nest, nest.join.steps, leaf)
        lanes = spread or (nest.together(known) and last_loop(nest, nest.join.steps, -1, leaf))
        text.line("s, e = base + start, base + stop")
        turn = text.name("i")
        turns = "units(start, stop)" if lanes else "range(s, e)"
        with text.block(f"for {turn} in {turns}"):
            inner = known.inner()
            inner.alone, inner.spread = known.alone or lanes, spread
            if not lanes:
                begin_unit(nest, turn, None, leaf, inner)
            if nest.tile < 2:
                nest.may_stop(inner)
            for slot, column, dtype in zip(given.slots, columns, dtypes, strict=True):
                nest.bind(slot.name, nest.call("at", column, turn), inner)
                nest.widths[slot.name] = np.dtype(dtype).name
            nest.run(nest.join.steps, 0, inner, leaf)
        if not nest.tile:
            leaf.settle(nest)
            text.line("start = stop")
