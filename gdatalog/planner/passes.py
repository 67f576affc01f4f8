"""Passes: each level of planning is a list of functions, which run in order on one draft.

The lists are what runs, not a description of it. A pass is known by the name of its function and
the first line of its docstring.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from gdatalog.records import dataclass


class Draft(Protocol):
    """What the passes of one level work on."""

    @property
    def done(self) -> bool:
        """Whether the passes that are left have nothing to do."""

    def lines(self) -> tuple[str, ...]:
        """Its rules as text."""


D = TypeVar("D", bound=Draft)


@dataclass(frozen=True, slots=True)
class PassRecord:
    """What a pass has made of the rules: `changed` are those that were not there before."""

    name: str
    words: str
    lines: tuple[str, ...]
    changed: tuple[str, ...]


@dataclass(slots=True)
class PassNotes:
    """The passes that changed something. `before`: the rules before the next pass."""

    before: tuple[str, ...]
    records: list[PassRecord]

    def within(self, before: tuple[str, ...]) -> PassNotes:
        """Notes of the passes over a part, among the same records."""
        return PassNotes(before, self.records)

    def apart(self, before: tuple[str, ...]) -> PassNotes:
        """Notes of an attempt, which may come to nothing."""
        return PassNotes(before, [])

    def note(self, made_by: Callable[..., Any], lines: Sequence[str]) -> None:
        """Notes the rules after a pass, if it changed them."""
        now = tuple(lines)
        if now != self.before:
            changed = tuple(line for line in now if line not in self.before)
            self.records.append(PassRecord(made_by.__name__, words_of(made_by), now, changed))
            self.before = now


def words_of(made_by: Callable[..., Any]) -> str:
    """The first line of a pass's docstring, without the full stop."""
    return (made_by.__doc__ or "").partition("\n")[0].rstrip(".")


def run_passes(
    passes: Sequence[Callable[[D], None]], draft: D, notes: PassNotes | None = None
) -> None:
    """Runs passes in order, until the draft is done."""
    for each in passes:
        each(draft)
        if notes is not None:
            notes.note(each, draft.lines())
        if draft.done:
            return
