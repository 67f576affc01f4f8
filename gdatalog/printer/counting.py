"""A counted form of the loops, for a profile: how many values were bound at each step.

Counters are local variables. Where the work can go on from, at units, what they have come to is
added to the worker's array `bindings`: what is done behind that is done again if the function ends
early, and must not count twice. Of a value whose children are shared out to several tasks only the
first of these counts. What comes before the work is cut into tasks is done by each call of the
function: of that the most counts, not the sum.

On a tile each lane has counters of its own; what all lanes do together the first of them counts.
Beside each counter is what it had come to at the last such place: there it is set back to where
work is undone. What the lanes have in the end is added up (kernels/counting.cuh).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gdatalog.plan.nodes import Step
from gdatalog.printer.scope import KnownPositions
from gdatalog.records import dataclass

if TYPE_CHECKING:
    from gdatalog.printer.nest import NestPrinter

ARRAY = "bindings"
_COMMIT = "commit_counts()"  # stands where counters are added to the array


@dataclass(frozen=True, slots=True)
class Counter:
    """`step`: which of all steps of the join, those in branches too. `tried`: it counts values that
    were looked at, else those that were bound, or rows that went on. `again`: each call of the
    function counts all of them."""

    step: int
    tried: bool
    again: bool

    @property
    def name(self) -> str:
        """Names that are not made by `Text.name` have a `_` before their number."""
        return f"{'tried' if self.tried else 'bound'}_{self.step}"

    @property
    def kept(self) -> str:
        """On a tile: what holds of it."""
        return f"kept_{self.name}"


class Counting:
    """The counters of one function."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._places = {id(step): at for at, step in enumerate(steps)}
        self._found: dict[tuple[int, bool], Counter] = {}

    @property
    def counters(self) -> tuple[Counter, ...]:
        return tuple(self._found.values())

    def add(
        self,
        nest: NestPrinter,
        step: Step,
        known: KnownPositions,
        amount: str,
        tried: bool,
        share: bool = False,
    ) -> None:
        """Prints that so many more were bound, or tried, at a step; `share`: by each lane."""
        key = self._places[id(step)], tried
        self._found.setdefault(key, Counter(*key, not nest.tasks))
        if known.first_task is not None:
            amount = known.first_task if amount == "1" else f"({amount}) * {known.first_task}"
        line = f"{self._found[key].name} += {amount}"
        if nest.together(known) and not share:
            with nest.text.block("if leads()"):
                nest.text.line(line)
        else:
            nest.text.line(line)

    def commit(self, nest: NestPrinter, unless: str | None = None) -> None:
        """Prints that what has been counted holds; `unless`: where it does not yet."""
        if unless is None:
            nest.text.line(_COMMIT)
            return
        with nest.text.block(f"if not {unless}"):
            nest.text.line(_COMMIT)

    def finish(self, nest: NestPrinter, rows: bool = True) -> list[str]:
        """Writes out what was printed, now that all counters are known; gives the lines that come
        before all others. `rows`: a tile gives rows on its way, for which there may be no room."""
        if self.counters:
            nest.arguments.counts(ARRAY)
        kept = rows and nest.tile > 0
        if kept or not nest.tile:
            nest.text.lines = list(self._written(nest.text.lines, kept))
        else:  # nothing is undone
            nest.text.lines = [line for line in nest.text.lines if line.lstrip() != _COMMIT]
        names = [counter.name for counter in self.counters]
        names += [counter.kept for counter in self.counters if kept]
        return [f"{name} = np.int64(0)" for name in names]

    def _written(self, lines: Sequence[str], kept: bool) -> Iterator[str]:
        for line in lines:
            bare = line.lstrip()
            if bare != _COMMIT:
                yield line
                continue
            indent = line[: len(line) - len(bare)]
            for at, counter in enumerate(self.counters):
                name, place = counter.name, f"{ARRAY}[{at}]"
                if kept:
                    yield f"{indent}{counter.kept} = {name}"
                elif counter.again:
                    yield f"{indent}{place} = max({place}, {name})"
                else:
                    yield f"{indent}{place} += {name}"
                    yield f"{indent}{name} = np.int64(0)"
            if not self.counters:
                yield f"{indent}pass"
