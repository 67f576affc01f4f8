"""Prints a join plan as one function: a nest of loops over the lists of its tries.

Each step is printed inside the one before. A step whose test fails prints `continue`, so each scope
is a loop, if only of one turn. Work that does not depend on a loop is hoisted out of it: ranges of
lists, intersections, marks. `levels.py` and `recode.py` print the steps that extend rows,
`leaves.py` prints what happens to a complete row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from gdatalog.plan.nodes import (
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
from gdatalog.printer.branches import print_branch
from gdatalog.printer.expressions import Unprintable
from gdatalog.printer.levels import print_generate, print_join, spreads_behind
from gdatalog.printer.nest import Leaf, NestPrinter
from gdatalog.printer.recode import looked_up
from gdatalog.printer.scope import KnownPositions
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
