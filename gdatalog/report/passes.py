"""The passes of the planner in an explanation: each with the rules that it changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gdatalog.engine.evaluator.evaluator import Evaluator
from gdatalog.engine.stratum_plan import StratumPlan
from gdatalog.planner.check import Stratum
from gdatalog.planner.check.checked import rule_text, rule_texts
from gdatalog.planner.passes import PassNotes, PassRecord, PassTrace
from gdatalog.planner.placement import place_strata
from gdatalog.planner.rewrite.magic_sets import magic_program
from gdatalog.report.tree import ReportNode


def program_passes(
    trace: PassTrace, parts: Iterable[Evaluator], plans: Iterable[StratumPlan]
) -> Sequence[PassRecord]:
    """The passes over a program. `parts`: the rewritten programs of relations of which only a part
    is needed. `plans`: those of its strata."""
    notes = PassNotes(trace.program.before, [*trace.program.records])
    for part in parts:
        notes.within(notes.before).note(magic_program, rule_texts(part.checked.strata))
    placed = [(plan, plan.placed) for plan in plans if plan.placed is not None]
    lines = [f"{', '.join(plan.relations)}: {on.lines()[0]}" for plan, on in placed]
    notes.within(()).note(place_strata, lines)
    return notes.records


def stratum_passes(stratum: Stratum, plan: StratumPlan) -> Sequence[PassRecord]:
    """The passes over a stratum."""
    notes = PassNotes(rule_texts([stratum]), [])
    for rewriting in plan.rewritings:
        notes.note(rewriting, list(dict.fromkeys(rule_text(rule) for rule, _ in plan.rules)))
    return notes.records


def pass_nodes(records: Iterable[PassRecord]) -> tuple[ReportNode, ...]:
    return tuple(
        ReportNode(
            "pass",
            f"{record.name}: {record.words[:1].lower()}{record.words[1:]}",
            record.changed,
            facts=(("pass", record.name),),
        )
        for record in records
    )
