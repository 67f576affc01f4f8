"""Aggregates kept in local variables while a loop runs.

What comes out are the partial columns that `executors.gather` merges: a count; a best key; high
half, low half and count for a sum of ints; total and count for a sum of floats. A sum that may
leave 62 bits ends the function: the executor that counts exactly does it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gdatalog.plan.nodes import Gather, Reduction
from gdatalog.printer.scope import Known

if TYPE_CHECKING:
    from gdatalog.printer.nest import Nest

Spec = Gather | Reduction
KINDS = frozenset({"count", "sum", "mean", "min", "max", "any_value"})


def accumulable(kind: str) -> bool:
    return kind in KINDS


class Accumulators:
    def __init__(self, nest: Nest, specs: Sequence[Spec]) -> None:
        self.nest = nest
        self.specs = specs
        self.count = nest.text.name("n_")
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

    def add(self, known: Known, amount: str | None = None) -> None:
        """The row at hand; or, if all is counted, so many rows at once."""
        nest, text = self.nest, self.nest.text
        weight = nest.weight(known)
        for name, spec in zip(self.names, self.specs, strict=True):
            if spec.kind == "count":
                continue
            key = nest.key(spec.targets[0], known)
            if spec.kind in ("sum", "mean"):
                self._sum(name, spec, key, weight)
            else:
                self._best(name, spec, key)
        if amount is None:
            text.line(f"{self.count} += {weight}")
        elif weight == "1":
            text.line(f"{self.count} += {amount}")
        else:
            with text.block(f"if float({weight}) * float({amount}) > 4e18"):
                text.line("return 4")
            text.line(f"{self.count} += {weight} * {amount}")
        if weight != "1":
            with text.block(f"if {self.count} > 4000000000000000000"):
                text.line("return 4")

    def _sum(self, name: str, spec: Spec, key: str, weight: str) -> None:
        nest, text = self.nest, self.nest.text
        if _floats(spec):
            value = nest.expressions.decoded(key)
            text.line(f"{name} += {value}" + ("" if weight == "1" else f" * {weight}"))
            return
        value = text.name("s")
        text.line(f"{value} = {key}")
        text.line(f"{name}f += abs(float({value}))" + ("" if weight == "1" else f" * {weight}"))
        with text.block(f"if {name}f > 4e18"):
            text.line("return 4")
        text.line(f"{name} += {value}" + ("" if weight == "1" else f" * {weight}"))

    def _best(self, name: str, spec: Spec, key: str) -> None:
        nest, text = self.nest, self.nest.text
        op = ">" if spec.kind == "max" else "<"
        value = text.name("s")
        text.line(f"{value} = {key}")
        if spec.targets[0].type == "symbol":
            rank = text.name("s")
            text.line(f"{rank} = {nest.expressions.rank(value)}")
            with text.block(f"if {self.count} == 0 or {rank} {op} {name}r"):
                text.line(f"{name}, {name}r = {value}, {rank}")
        else:
            with text.block(f"if {self.count} == 0 or {value} {op} {name}"):
                text.line(f"{name} = {value}")

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
            if not _floats(spec):  # beyond this, a quotient of floats is not the exact one
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
        """inf and -inf summed are no number: an error that the other executor tells."""
        with self.nest.text.block(f"if {name} != {name}"):
            self.nest.text.line("return 4")


def _floats(spec: Spec) -> bool:
    return spec.targets[0].type == "float"
