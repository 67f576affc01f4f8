"""Leaves: what a printed function does with a complete row.

Local variables accumulate aggregates while the loops run. They become the partial columns that
`executors.gather` merges: a count; a best key; high half, low half and count for a sum of ints;
total and count for a sum of floats. A sum that may exceed 62 bits ends the function, and the
executor with exact arithmetic starts over.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan.join_plan import Expr, Gather, Reduction, Slot
from gdatalog.printer.nest import Leaf, NestPrinter, Point
from gdatalog.values import NULL


class WitnessLeaf(Leaf):
    """Sets a flag and ends the branch at the first match."""

    counts = True

    def __init__(self, flag: str) -> None:
        self.flag = flag

    def emit(self, here: Point) -> None:
        here.text.line(f"{self.flag} = True")
        here.text.line("break")

    def count(self, here: Point, amount: str, share: bool = False) -> None:
        with here.text.block(f"if {here.nest.whole(amount, share)} > 0"):
            self.emit(here)


class BranchCount(Leaf):
    """Counts the matches of a branch."""

    counts = True

    def __init__(self, name: str) -> None:
        self.name = name

    def emit(self, here: Point) -> None:
        self.count(here, "1")

    def count(self, here: Point, amount: str, share: bool = False) -> None:
        nest, text, weight = here.nest, here.text, here.weight()
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

    accumulators: Accumulators | None = None

    def gather(self, accumulators: Accumulators) -> None:
        self.accumulators = accumulators
        self.counts = accumulators.only_count
        accumulators.start()

    def emit(self, here: Point) -> None:
        assert self.accumulators is not None
        self.accumulators.add(here)

    def count(self, here: Point, amount: str, share: bool = False) -> None:
        assert self.accumulators is not None
        self.accumulators.add(here, amount, share)


def print_row(nest: NestPrinter, columns: Sequence[tuple[str, str]]) -> None:
    """Writes one row into the block; a full block ends the function."""
    text = nest.text
    if nest.tile:
        for at, (_, dtype) in enumerate(columns):
            nest.arguments.plain("output", f"out{at}", dtype)
        text.line(f"emit({', '.join(source for source, _ in columns)})")
        return
    with text.block("if n == room"):
        text.line("return 1")
    write_row(nest, columns)


def write_row(nest: NestPrinter, columns: Sequence[tuple[str, str]]) -> None:
    """Writes one row, sources and dtypes, into a block with room for it."""
    for at, (source, dtype) in enumerate(columns):
        out = nest.arguments.plain("output", f"out{at}", dtype)
        nest.text.line(f"{out}[n] = {source}")
    nest.text.line("n += 1")


class RowLeaf(Leaf):
    """Emits a row of expressions; `weighted`: its last column is the row's number of bindings."""

    by_lanes = True

    def __init__(self, outputs: Sequence[Expr], weighted: bool) -> None:
        self.outputs = outputs
        self.weighted = weighted

    def marks_tasks(self) -> bool:
        return True

    def emit(self, here: Point) -> None:
        nest = here.nest
        columns = [(here.key(output), self._width(nest, output)) for output in self.outputs]
        if self.weighted:
            columns.append((here.weight(), "int64"))
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


class GroupLeaf(Gathered):
    """Emits aggregates whose keys are bound in outer loops: one partial row for each binding of the
    keys, or one row for each call of the function if there are no keys."""

    by_lanes = True

    def __init__(self, keys: Sequence[Slot], specs: Sequence[Gather]) -> None:
        self.keys = keys
        self.specs = specs

    def begins(self, here: Point) -> bool:
        nest = here.nest
        if self.accumulators is not None or any(key.name not in here.names for key in self.keys):
            return False
        mine = Accumulators(nest, self.specs, here.together())
        self.gather(mine)
        here.inner().run_once()
        mine.combine()
        with here.text.block(f"if {mine.count} > 0"):
            names = [key.name for key in self.keys]
            keys = [(here.names[name], nest.widths.get(name, "int64")) for name in names]
            parts = [part for number in range(len(self.specs)) for part in mine.parts(number)]
            print_row(nest, [*keys, *parts])
        return True

    def marks_tasks(self) -> bool:
        return self.accumulators is None  # inside a group, its partial result would be lost


Spec = Gather | Reduction
GREATEST, LEAST = (1 << 63) - 1, -(1 << 63)


class Accumulators:
    """Local variables that accumulate aggregates. `shared`: each lane of a tile accumulates its own
    part, and `combine` merges the parts."""

    def __init__(self, nest: NestPrinter, specs: Sequence[Spec], shared: bool = False) -> None:
        self.nest = nest
        self.specs = specs
        self.shared = shared
        self.weighted = False  # whether rows with a weight were added
        self.count = nest.text.name("came")
        self.names = [nest.text.name("acc") for _ in specs]

    @property
    def only_count(self) -> bool:
        return all(spec.kind == "count" for spec in self.specs)

    def start(self) -> None:
        line = self.nest.text.line
        line(f"{self.count} = np.int64(0)")
        for name, spec in zip(self.names, self.specs, strict=True):
            if spec.kind in ("sum", "mean"):
                line(f"{name} = {'0.0' if _floats(spec) else 'np.int64(0)'}")
                if not _floats(spec):
                    line(f"{name}f = 0.0")
            elif spec.kind != "count":
                line(f"{name} = np.int64(0)")
                if spec.targets[0].type == "symbol":
                    line(f"{name}r = np.int64(0)")

    def add(self, here: Point, amount: str | None = None, share: bool = False) -> None:
        """Adds the current row or, if all aggregates are counts, `amount` rows at once.

        `share`: `amount` is each lane's own count.
        """
        nest = self.nest
        weight = here.weight()
        if amount is not None and share and not self.shared:
            amount, share = nest.whole(amount, True), False
        keys = ["" if s.kind == "count" else here.key(s.targets[0]) for s in self.specs]
        if self.shared and here.together() and not share:
            with nest.text.block("if leads()"):  # all lanes have this row: only one adds it
                self._add(keys, weight, amount)
        else:
            self._add(keys, weight, amount)

    def _add(self, keys: Sequence[str], weight: str, amount: str | None) -> None:
        nest, text = self.nest, self.nest.text
        self.weighted = self.weighted or weight != "1"
        for name, key, spec in zip(self.names, keys, self.specs, strict=True):
            if spec.kind == "count":
                continue
            if spec.kind in ("sum", "mean"):
                self._sum(name, spec, key, weight)
            else:
                self._best(name, spec, key)
        if nest.modular:
            text.line(f"{self.count} = {nest.sum(self.count, nest.product(weight, amount or '1'))}")
            return
        if amount is None:
            text.line(f"{self.count} += {weight}")
        elif weight == "1":
            text.line(f"{self.count} += {amount}")
        else:
            with nest.unless(f"float({weight}) * float({amount}) > 4e18", 4):
                text.line(f"{self.count} += {weight} * {amount}")
        if weight != "1":
            with text.block(f"if {self.count} > 4000000000000000000"):
                text.line(nest.spoil(4))

    def _sum(self, name: str, spec: Spec, key: str, weight: str) -> None:
        nest, text = self.nest, self.nest.text
        if _floats(spec):
            value = nest.expressions.decoded(key)
            text.line(f"{name} += {value}" + ("" if weight == "1" else f" * {weight}"))
            return
        value = text.name("s")
        text.line(f"{value} = {key}")
        text.line(f"{name}f += abs(float({value}))" + ("" if weight == "1" else f" * {weight}"))
        with nest.unless(f"{name}f > 4e18", 4):
            text.line(f"{name} += {value}" + ("" if weight == "1" else f" * {weight}"))

    def _best(self, name: str, spec: Spec, key: str) -> None:
        nest, text = self.nest, self.nest.text
        op = ">" if spec.kind == "max" else "<"
        value = text.name("s")
        text.line(f"{value} = {key}")
        if spec.targets[0].type == "symbol":
            rank = text.name("s")
            ranked = nest.expressions.rank(value)
            if spec.kind != "max":  # a null is greater than all texts
                ranked = f"{ranked} if {value} != {NULL} else {NULL}"
            text.line(f"{rank} = {ranked}")
            with text.block(f"if {self.count} == 0 or {rank} {op} {name}r"):
                text.line(f"{name}, {name}r = {value}, {rank}")
        else:
            with text.block(f"if {self.count} == 0 or {value} {op} {name}"):
                text.line(f"{name} = {value}")

    def combine(self) -> None:
        """Merges the parts of all lanes."""
        if not self.shared:
            return
        nest, line = self.nest, self.nest.text.line
        for name, spec in zip(self.names, self.specs, strict=True):
            if spec.kind in ("sum", "mean"):
                if not _floats(spec):
                    line(f"{name}f = {nest.call('sum_of_lanes', f'{name}f')}")
                    with nest.text.block(f"if {name}f > 4e18"):
                        line("return 4")
                line(f"{name} = {nest.call('sum_of_lanes', name)}")
            elif spec.kind != "count":
                self._combine_best(name, spec)
        if self.weighted:
            with nest.text.block(f"if {nest.call('sum_of_lanes', f'float({self.count})')} > 4e18"):
                line("return 4")
        line(f"{self.count} = {nest.call('sum_of_lanes', self.count)}")

    def _combine_best(self, name: str, spec: Spec) -> None:
        nest, line = self.nest, self.nest.text.line
        best, none = ("greatest", LEAST) if spec.kind == "max" else ("least", GREATEST)
        if spec.targets[0].type == "symbol":
            rank = nest.text.name("s")
            mine = f"{name}r if {self.count} > 0 else {none}"
            line(f"{rank} = {nest.call(f'{best}_of_lanes', mine)}")
            mine = f"{name} if {self.count} > 0 and {name}r == {rank} else {none}"
        else:
            mine = f"{name} if {self.count} > 0 else {none}"
        line(f"{name} = {nest.call(f'{best}_of_lanes', mine)}")

    def parts(self, at: int) -> list[tuple[str, str]]:
        """The partial columns of an aggregate: source and dtype."""
        spec, name = self.specs[at], self.names[at]
        if spec.kind == "count":
            return [(self.count, "int64")]
        if spec.kind in ("min", "max", "any_value"):
            return [(name, "int64")]
        if _floats(spec):
            return [(name, "float64"), (self.count, "int64")]
        halves = f"{name} >> 32", f"{name} & 0xFFFFFFFF"
        return [(source, "int64") for source in (*halves, self.count)]

    def value(self, at: int) -> str:
        """The key of an aggregate's value, once all rows are in."""
        spec, name = self.specs[at], self.names[at]
        encoded = self.nest.expressions.encoded
        if spec.kind == "count":
            return self.count
        if spec.kind == "mean":
            text = self.nest.text
            if not _floats(spec):  # a larger sum is not exact as a float
                with text.block(f"if {name}f > 9e15"):
                    text.line("return 4")
            result = text.name("s")
            text.line(f"{result} = float({name}) / float({self.count}) if {self.count} else 0.0")
            self._number(result)
            return encoded(result)
        if spec.kind == "sum" and _floats(spec):
            self._number(name)
            return encoded(name)
        return name

    def _number(self, name: str) -> None:
        """Ends the function if a sum is NaN, such as inf - inf. This is an error, which the
        breadth-first executor raises."""
        with self.nest.text.block(f"if {name} != {name}"):
            self.nest.text.line("return 4")


def _floats(spec: Spec) -> bool:
    return spec.targets[0].type == "float"
