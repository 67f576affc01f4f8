"""Rewrites a checked program, before anything is known of its data."""

from __future__ import annotations

from gdatalog.planner.check import Checked
from gdatalog.planner.check.checked import rule_texts
from gdatalog.planner.passes import PassNotes
from gdatalog.planner.rewrite import folding
from gdatalog.records import dataclass


@dataclass(slots=True, eq=False)
class CheckedDraft:
    """A checked program that is being rewritten."""

    checked: Checked

    def lines(self) -> tuple[str, ...]:
        return rule_texts(self.checked.strata)


def rewritten(checked: Checked, notes: PassNotes | None = None) -> Checked:
    """The program after all passes."""
    draft = CheckedDraft(checked)
    for each in PASSES:
        each(draft)
        if notes is not None:
            notes.note(each, draft.lines())
    return draft.checked


def fold_constants(draft: CheckedDraft) -> None:
    """Constant expressions are replaced by their values."""
    draft.checked = folding.folded(draft.checked)


PASSES = (fold_constants,)
