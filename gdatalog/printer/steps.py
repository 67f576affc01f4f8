"""Prints a join plan as one function: a nest of loops over the lists of its tries.

Each step is printed inside the one before. A step whose test fails prints `continue`, so each scope
is a loop, if only of one turn. Work that does not depend on a loop is hoisted out of it: ranges of
lists, intersections, marks. `levels.py` and `recode.py` print the steps that extend rows,
`leaves.py` prints what happens to a complete row. A
branch is nested loops that compute an existence test, a count or an aggregate for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from gdatalog.plan import (
    Assign,
    Branch,
    Compact,
    Filter,
    Generate,
    Guard,
    Join,
    Restore,
    Seek,
    Slot,
    Step,
    Tally,
)
from gdatalog.printer.arguments import LevelArgument
from gdatalog.printer.expressions import Unprintable
from gdatalog.printer.leaves import Accumulators, BranchCount, Gathered, WitnessLeaf, accumulable
from gdatalog.printer.levels import print_generate, print_join, spreads_behind
from gdatalog.printer.nest import Leaf, NestPrinter
from gdatalog.printer.nest_state import KnownPositions
from gdatalog.printer.recode import count_bits, looked_up
from gdatalog.printer.tallies import print_tally


class StepPrinter(NestPrinter):
    """Prints the steps of a plan, and a leaf behind them."""

    def run(self, steps: Sequence[Step], at: int, known: KnownPositions, leaf: Leaf) -> None:
        """Prints the steps from `at` on, then the leaf."""
        while at < len(steps):
            if leaf.begins(self, steps, at, known):
                return
            step = steps[at]
            if isinstance(step, Join):
                print_join(self, steps, at, known, leaf)
                return
            if isinstance(step, Generate):
                print_generate(self, step, steps, at, known, leaf)
                return
            leaf.passes(self, step, known)
            self.narrow(step, known)
            if isinstance(step, Tally):
                known.spread = spreads_behind(self, steps[at + 1 :], known, leaf)
            if known.group is not None and at == known.group.recoding.levels[-1]:
                known.group = None
            self.bound(step, known)
            at += 1
        if not leaf.begins(self, steps, at, known):
            leaf.emit(self, known)

    def narrow(self, step: Step, known: KnownPositions) -> None:
        """Prints a step that keeps the current row or continues with the next."""
        text = self.text
        match step:
            case Guard():
                ref = self.join.tries[step.trie]
                total = self.arguments.scalar("total", LevelArgument(self.number[ref], 0))
                with text.block(f"if {total} == 0"):
                    text.line("continue")
                if step.weighted:
                    known.weights.append(total)
            case Seek():
                parts = step.participants
                if known.group is not None:
                    parts = tuple(part for part in parts if looked_up(self, known.group, part))
                if parts:
                    self.seek(step.value, self.key(step.value, known), parts, known)
            case Assign():
                name = self.bind(step.variable, self.key(step.expr, known), known)
                self.seek(Slot(step.variable, step.type), name, step.participants, known)
            case Filter():
                with text.block(f"if not ({self.test(step.test, known)})"):
                    text.line("continue")
            case Compact():
                pass  # duplicates are dropped where rows are gathered
            case Restore():
                self.restore(step, known)
            case Branch():
                print_branch(self, step, known)
            case Tally():
                print_tally(self, step, known)
            case _:
                raise Unprintable(f"{type(step).__name__.lower()} is not printed")

    def restore(self, step: Restore, known: KnownPositions) -> None:
        """Maps ranks back to values, sorted by a sorting network."""
        labels = self.arguments.of_trie(self.number[self.join.tries[step.trie]], "labels")
        names = []
        for rank, variable in zip(step.ranks, step.variables, strict=True):
            names.append(self.bind(variable, f"{labels}[{known.names[rank]}]", known))
        for end in range(len(names) - 1, 0, -1):
            for a, b in pairwise(names[: end + 1]):
                self.text.line(f"{a}, {b} = min({a}, {b}), max({a}, {b})")


# Branches: nested loops that compute an existence test, a count or an aggregate for each row.


def print_branch(nest: NestPrinter, step: Branch, known: KnownPositions) -> None:
    split, nest.split = nest.split, True  # loops in a branch are not split into tasks
    if step.mode == "aggregate":
        _aggregate(nest, step, known)
    elif step.mode == "count":
        _count(nest, step, known)
    else:
        _exists(nest, step, known)
    nest.split = split


def _inside(known: KnownPositions) -> KnownPositions:
    """The state at the start of a branch: weights of outer rows do not apply to its rows."""
    inner = known.inner()
    inner.weights = []
    inner.clip = inner.unit = None
    inner.spread = False
    return inner


def _exists(nest: NestPrinter, step: Branch, known: KnownPositions) -> None:
    text = nest.text
    found = text.name("found")
    text.line(f"{found} = False")
    for number, inside in enumerate(step.alternatives):
        inner = _inside(known)
        inner.found = found
        once = text.name("once")
        # later alternatives run only if no earlier one has a match
        turns = "1" if number == 0 else f"0 if {found} else 1"
        with text.block(f"for {once} in range({turns})"):
            nest.run(inside, 0, inner, WitnessLeaf(found))
    with text.block(f"if {'not ' if step.mode == 'exists' else ''}{found}"):
        text.line("continue")


def _count(nest: NestPrinter, step: Branch, known: KnownPositions) -> None:
    text = nest.text
    counts: list[str] = []
    for inside in step.alternatives:
        if step.terms or not counts:
            counts.append(text.name("count"))
            text.line(f"{counts[-1]} = np.int64(0)")
        inner = _inside(known)
        inner.found = None
        leaf = BranchCount(counts[-1])
        if inner.group is not None and count_bits(nest, inside, leaf, inner):
            continue
        inner.group = None
        with text.block(f"for {text.name('once')} in range(1)"):
            nest.run(inside, 0, inner, leaf)
    count = _signed_sum(nest, step, counts) if step.terms else counts[0]
    with text.block(f"if {count} == 0"):
        text.line("continue")
    known.weights.append(count)


def _signed_sum(nest: NestPrinter, step: Branch, counts: Sequence[str]) -> str:
    """The signed sum of the terms. Only the first term, the largest, may leave 64 bits."""
    text, total = nest.text, nest.text.name("count")
    for number, (coefficient, (first, *others)) in enumerate(step.terms):
        product = counts[first]
        for other in others:
            if number == 0 or nest.modular:
                product = nest.product(product, counts[other])
            else:
                product = f"{product} * {counts[other]}"
        if abs(coefficient) != 1:
            product = f"{abs(coefficient)} * ({product})"
        if number == 0:
            assert coefficient > 0
            text.line(f"{total} = np.int64({product})")
        elif nest.modular:
            signed = product if coefficient > 0 else f"(modulus - {product} % modulus)"
            text.line(f"{total} = {nest.sum(total, signed)}")
        else:
            text.line(f"{total} {'+' if coefficient > 0 else '-'}= {product}")
    return total


def _aggregate(nest: NestPrinter, step: Branch, known: KnownPositions) -> None:
    reduction, text = step.reduction, nest.text
    assert reduction is not None
    if len(step.alternatives) > 1 or reduction.exports or not accumulable(reduction.kind):
        raise Unprintable(f"{reduction.kind} over alternatives or with its witnesses")
    inner = _inside(known)
    inner.found = None
    accumulators = Accumulators(nest, [reduction])
    accumulators.start()
    with text.block(f"for {text.name('once')} in range(1)"):
        nest.run(step.alternatives[0], 0, inner, Gathered(accumulators))
    value = accumulators.value(0)
    if reduction.kind not in ("count", "sum"):
        with text.block(f"if {accumulators.count} == 0"):
            text.line("continue")
    nest.bind(reduction.variable, value, known)
