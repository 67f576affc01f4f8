"""Relations that cannot be evaluated, because a kept statement of theirs is invalid."""

from __future__ import annotations

from collections.abc import Mapping

from gdatalog.errors import Caution, Error, Note, Span
from gdatalog.planner.check.wording import either
from gdatalog.records import dataclass
from gdatalog.terminal_text import visible


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a relation cannot be evaluated: a statement of `relation` is invalid, with this error.

    `relation` is the relation itself, or one that it depends on.
    """

    relation: str
    error: Error

    def why(self, name: str) -> str:
        """The reason, short enough for a line of a list."""
        if name != self.relation:
            return f"it depends on `{self.relation}`, which is invalid"
        return visible(self.error.message)

    def error_for(self, name: str, span: Span | None = None) -> Error:
        """The error for a use of a relation: at `span`, or at the invalid statement."""
        lead = f"`{name}` is invalid"
        if name != self.relation:
            lead = f"`{name}` depends on `{self.relation}`, which is invalid"
        drop = drop_hint(self.relation)
        notes = list(self.error.notes)
        if span is not None:
            notes.insert(0, Note(f"`{self.relation}` is invalid here", self.error.span))
        return type(self.error)(
            f"{lead}: {self.error.message}",
            span or self.error.span,
            hint=f"{self.error.hint}; or {drop}" if self.error.hint else drop,
            notes=notes,
        )


def drop_hint(name: str) -> str:
    return f'drop `{name}`: `db.drop("{name}")` in Python, `.drop {name}` at the prompt'


def caution_of(error: Error, broken: Mapping[str, Cause]) -> Caution:
    """The caution for a kept statement that has become invalid, with what depends on it."""
    own = [
        name for name, cause in broken.items() if cause.error is error and cause.relation == name
    ]
    others = sorted(
        name for name, cause in broken.items() if cause.relation in own and name not in own
    )
    lead = either([f"`{name}`" for name in own], "and") if own else "this"
    lead += f" {'are' if len(own) > 1 else 'is'} invalid from now on"
    if others:
        depend = "depends" if len(others) == 1 else "depend"
        lead += f", and {either([f'`{name}`' for name in others], 'and')} {depend} on it"
    hints = [error.hint or "", drop_hint(own[0]) if own else ""]
    return Caution(f"{lead}: {error.message}", error.span, "; or ".join(filter(None, hints)))


NOTHING_BROKEN: Mapping[str, Cause] = {}
