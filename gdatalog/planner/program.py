"""Rewrites a checked program, before anything is known of its data."""

from __future__ import annotations

from gdatalog.planner.check import Checked
from gdatalog.planner.check.checked import rule_texts
from gdatalog.planner.passes import PassNotes
from gdatalog.planner.rewrite.folding import fold_constants

PASSES = (fold_constants,)


def rewritten(checked: Checked, notes: PassNotes | None = None) -> Checked:
    """The program after all passes."""
    for each in PASSES:
        checked = each(checked)
        if notes is not None:
            notes.note(each, rule_texts(checked.strata))
    return checked
