"""A cycle of relations that cannot be evaluated, as steps, and drawn as text:

the cycle: ┌─> win reads !lose(x) at game.dl:2:17 │ ↓ └── lose reads !win(x) at game.dl:3:18
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check.wording import text_of
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """`head` reads `body` by an atom of a rule; `through`: a negation or an aggregate around it."""

    head: str
    body: str
    atom: s.Atom
    rule: CheckedRule
    through: str = ""  # "", "negation", or "the aggregate count"
    negated: bool = False  # the atom stands directly behind a `!`


def drawn(cycle: Sequence[Step]) -> list[str]:
    """The cycle as lines of text, one for each step, with arrows."""
    reads = [_reads(step) for step in cycle]
    wide = max([len(step.head) for step in cycle])
    deep = max(map(len, reads))
    lines: list[str] = []
    for at, step in enumerate(cycle):
        last = at == len(cycle) - 1
        lead = "┌─> " if at == 0 else "└── " if last else "│   "
        line = f"{lead}{step.head:{wide}}  reads  {reads[at]:{deep}}  at {step.atom.span.where()}"
        lines.append(line)
        if not last:
            lines.append("│   ↓")
    if len(cycle) == 1:
        lines.append("└───┘")
    return lines


def _reads(step: Step) -> str:
    text = text_of(step.atom)
    if step.negated:
        return f"!{text}"
    return f"{text} under {step.through}" if step.through else text
