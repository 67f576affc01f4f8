"""Passes: each level of planning is a list of functions, which run in order on one draft.

The lists are what runs, not a description of it. A pass is known by the name of its function and
the first clause of its docstring.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from gdatalog.plan.join_plan import RulePlan
from gdatalog.records import dataclass, field


@dataclass(frozen=True, slots=True)
class PassRecord:
    """What a pass did: the rules that were not there before."""

    name: str
    words: str
    changed: tuple[str, ...]


@dataclass(slots=True)
class PassNotes:
    """The passes that changed something. `before`: the rules before the next pass; None: its rules
    are the first to compare with."""

    before: tuple[str, ...] | None
    records: list[PassRecord]

    def within(self, before: tuple[str, ...] | None) -> PassNotes:
        """Notes of the passes over a part, among the same records."""
        return PassNotes(before, self.records)

    def apart(self, before: tuple[str, ...]) -> PassNotes:
        """Notes of an attempt, which may come to nothing."""
        return PassNotes(before, [])

    def note(self, made_by: Callable[..., Any], lines: Sequence[str]) -> None:
        """Notes the rules after a pass, if it changed them."""
        before = None if self.before is None else frozenset(self.before)
        if before is not None and before != frozenset(lines):
            changed = tuple([line for line in lines if line not in before])
            self.records.append(PassRecord(made_by.__name__, words_of(made_by), changed))
        self.before = tuple(lines)


@dataclass(slots=True, eq=False)
class PassTrace:
    """What passes did to a program, and to each rule until it had a plan."""

    program: PassNotes = field(default_factory=lambda: PassNotes((), []))
    plans: list[tuple[RulePlan, Sequence[PassRecord]]] = field(default_factory=list)

    def of(self, plan: RulePlan) -> Sequence[PassRecord]:
        """The passes that made a plan."""
        return next((records for own, records in self.plans if own is plan), ())


def words_of(made_by: Callable[..., Any]) -> str:
    """The first clause of a pass's docstring."""
    paragraph = " ".join((made_by.__doc__ or "").partition("\n\n")[0].split())
    return re.split(r"[.;](?: |$)", paragraph)[0]
