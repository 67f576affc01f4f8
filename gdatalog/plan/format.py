"""Plans as text: a line for each step, indented below each loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gdatalog.plan import join_plan as p
from gdatalog.plan.labels import given_label, orbit_label, step_label, step_remarks
from gdatalog.plan.nest import Paths

Remark = Callable[[p.Step], str]


def format_join(join: p.JoinPlan, remark: Remark = lambda step: "") -> list[str]:
    """One line for each step; `remark` can add an estimate or a measurement to each."""
    lines = []
    if join.given is not None:
        lines.append(given_label(join.given))
    lines += _lines(join.steps, Paths.of(join), len(lines), remark)
    if join.orbit > 1:
        lines.append(orbit_label(join.orbit))
    return lines


def _lines(steps: Sequence[p.Step], paths: Paths, indent: int, remark: Remark) -> Iterator[str]:
    for step in steps:
        pad = "  " * indent
        text = ", ".join((step_label(paths, step), *step_remarks(step)))
        note = remark(step)
        yield pad + text + (f"   -- {note}" if note else "")
        if isinstance(step, (p.Join, p.Generate)):
            indent += 1
        if isinstance(step, p.Branch):
            for number, inner in enumerate(step.alternatives):
                if number or step.terms:
                    yield pad + (f"#{number + 1}" if step.terms else "or")
                yield from _lines(inner, paths, indent + 1, remark)
        if isinstance(step, p.Tally):
            yield from _lines(step.steps, paths, indent + 1, remark)
