"""Leaves: what a printed function does with a complete row."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan.nodes import Expr, Gather, Slot, Step
from gdatalog.printer.accumulate import Accumulators
from gdatalog.printer.nest import Leaf, NestPrinter
from gdatalog.printer.scope import KnownPositions


class WitnessLeaf(Leaf):
    """Sets a flag and ends the branch at the first match."""

    counts = True

    def __init__(self, flag: str) -> None:
        self.flag = flag

    def emit(self, nest: NestPrinter, known: KnownPositions) -> None:
        nest.text.line(f"{self.flag} = True")
        nest.text.line("break")

    def count(
        self, nest: NestPrinter, known: KnownPositions, amount: str, share: bool = False
    ) -> None:
        with nest.text.block(f"if {nest.whole(amount, share)} > 0"):
            self.emit(nest, known)


class BranchCount(Leaf):
    """Counts the matches of a branch."""

    counts = True

    def __init__(self, name: str) -> None:
        self.name = name

    def emit(self, nest: NestPrinter, known: KnownPositions) -> None:
        self.count(nest, known, "1")

    def count(
        self, nest: NestPrinter, known: KnownPositions, amount: str, share: bool = False
    ) -> None:
        text, weight = nest.text, nest.weight(known)
        amount = nest.whole(amount, share)
        if nest.modular:
            text.line(f"{self.name} = {nest.sum(self.name, nest.product(weight, amount))}")
            return
        if weight == "1":
            text.line(f"{self.name} += {amount}")
            return
        with text.block(f"if float({weight}) * float({amount}) + float({self.name}) > 4e18"):
            text.line("return 4")
        text.line(f"{self.name} += {weight} * {amount}")


class Gathered(Leaf):
    """Accumulates the aggregates of a branch in local variables."""

    def __init__(self, accumulators: Accumulators) -> None:
        self.accumulators = accumulators
        self.counts = accumulators.only_count

    def emit(self, nest: NestPrinter, known: KnownPositions) -> None:
        self.accumulators.add(known)

    def count(
        self, nest: NestPrinter, known: KnownPositions, amount: str, share: bool = False
    ) -> None:
        self.accumulators.add(known, amount, share)


def print_row(nest: NestPrinter, columns: Sequence[tuple[str, str]]) -> None:
    """Writes one row into the block; a full block ends the function."""
    text = nest.text
    if nest.tile:
        for at, (_, dtype) in enumerate(columns):
            nest.arguments.output(f"out{at}", dtype)
        text.line(f"emit({', '.join(source for source, _ in columns)})")
        return
    with text.block("if n == room"):
        text.line("return 1")
    for at, (source, dtype) in enumerate(columns):
        out = nest.arguments.output(f"out{at}", dtype)
        text.line(f"{out}[n] = {source}")
    text.line("n += 1")


class RowLeaf(Leaf):
    """Rows of expressions; `weighted`: with the row's number of bindings as last column."""

    by_lanes = True

    def __init__(self, outputs: Sequence[Expr], weighted: bool) -> None:
        self.outputs = outputs
        self.weighted = weighted

    def marks_tasks(self) -> bool:
        return True

    def emit(self, nest: NestPrinter, known: KnownPositions) -> None:
        columns = [(nest.key(output, known), self._width(nest, output)) for output in self.outputs]
        if self.weighted:
            columns.append((nest.weight(known), "int64"))
        print_row(nest, columns)
        if nest.tile:
            return  # `emit` checks the limit
        with nest.text.block("if n >= wanted"):
            nest.commit()
            nest.text.line("state[4] = n")
            nest.text.line("return 5")

    @staticmethod
    def _width(nest: NestPrinter, output: Expr) -> str:
        return nest.widths.get(output.name, "int64") if isinstance(output, Slot) else "int64"


class GroupLeaf(Leaf):
    """Aggregates whose keys are bound in outer loops: one partial row for each binding of the keys.

    Without keys, one row for each run of the function.
    """

    by_lanes = True

    def __init__(self, keys: Sequence[Slot], specs: Sequence[Gather]) -> None:
        self.keys = keys
        self.specs = specs
        self.accumulators: Accumulators | None = None

    def begins(
        self, nest: NestPrinter, steps: Sequence[Step], at: int, known: KnownPositions
    ) -> bool:
        if self.accumulators is not None or any(key.name not in known.names for key in self.keys):
            return False
        text = nest.text
        self.accumulators = mine = Accumulators(nest, self.specs, nest.together(known))
        self.counts = mine.only_count
        mine.start()
        with text.block(f"for {text.name('once')} in range(1)"):
            nest.run(steps, at, known.inner(), self)
        mine.combine()
        with text.block(f"if {mine.count} > 0"):
            names = [key.name for key in self.keys]
            keys = [(known.names[name], nest.widths.get(name, "int64")) for name in names]
            parts = [part for number in range(len(self.specs)) for part in mine.parts(number)]
            print_row(nest, [*keys, *parts])
        return True

    def marks_tasks(self) -> bool:
        return self.accumulators is None  # inside a group, its partial result would be lost

    def emit(self, nest: NestPrinter, known: KnownPositions) -> None:
        assert self.accumulators is not None
        self.accumulators.add(known)

    def count(
        self, nest: NestPrinter, known: KnownPositions, amount: str, share: bool = False
    ) -> None:
        assert self.accumulators is not None
        self.accumulators.add(known, amount, share)
