"""Profile counters: how many values each step binds.

Counters are local variables. At units, where the work can resume, they are added to the worker's
array `bindings`. If the function ends early, work after the last unit runs again and must not count
twice. If several tasks share the children of a value, only the first task counts the value. Each
call of the function repeats the steps before the work is split into tasks; for those the maximum
counts, not the sum.

On a tile each lane has its own counters, and the first lane counts what all lanes do together. Each
counter has a copy from the last unit, to which it is reset when work is undone. At the end the
lanes' counters are summed (kernels/tile.cuh).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdatalog.plan import Step
from gdatalog.printer.nest_state import KnownPositions, NestState
from gdatalog.records import dataclass

ARRAY = "bindings"
_COMMIT = "commit_counts()"  # placeholder line: add the counters to the array


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter of one step.

    `step`: the step's number among all steps of the join, branches included. `tried`: it counts
    values that were tried; else values that were bound, or rows that passed. `again`: each call of
    the function repeats these counts.
    """

    step: int
    tried: bool
    again: bool

    @property
    def name(self) -> str:
        """Names that `Text.name` does not make have a `_` before their number."""
        return f"{'tried' if self.tried else 'bound'}_{self.step}"

    @property
    def kept(self) -> str:
        """On a tile: the copy of the counter at the last unit."""
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
        nest: NestState,
        step: Step,
        known: KnownPositions,
        amount: str,
        tried: bool,
        share: bool = False,
    ) -> None:
        """Prints that a step bound, or tried, `amount` values; `share`: each lane has its own."""
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

    def commit(self, nest: NestState, unless: str | None = None) -> None:
        """Prints a commit of the counters; `unless`: a condition under which to skip it."""
        if unless is None:
            nest.text.line(_COMMIT)
            return
        with nest.text.block(f"if not {unless}"):
            nest.text.line(_COMMIT)

    def finish(self, nest: NestState, rows: bool = True) -> list[str]:
        """Replaces the placeholders, now that all counters are known, and returns the lines that
        initialise the counters. `rows`: the tile writes rows to a block, which may be full."""
        if self.counters:
            nest.arguments.counts(ARRAY)
        kept = rows and nest.tile > 0
        if kept or not nest.tile:
            nest.text.lines = list(self._written(nest.text.lines, kept))
        else:  # without rows, work is never undone
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
