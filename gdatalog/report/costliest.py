"""The rules of an evaluation that took most: what was counted of them, and what would help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gdatalog.engine.metrics import Metrics
from gdatalog.plan.nodes import TrieRef
from gdatalog.records import dataclass
from gdatalog.report.folded import DEAREST, rule_number
from gdatalog.report.hints import KnownIndexes, hint_of
from gdatalog.report.plan_tree import rule_text
from gdatalog.report.rule_runs import RuleRan, StratumRan
from gdatalog.report.tree import Fact, ReportNode
from gdatalog.report.words import many

FEW = 3  # rules: of fewer nobody asks which are the dearest


@dataclass(frozen=True, slots=True)
class _Entry:
    """A rule, or all of a stratum whose rules are run by the same loops."""

    label: str
    seconds: float
    details: tuple[str, ...]
    facts: tuple[tuple[str, Fact], ...]
    hint: str | None


def dearest(
    strata: Sequence[StratumRan], metrics: Metrics, seconds: float
) -> tuple[ReportNode, ...]:
    """The rules that took most of these seconds, as one node."""
    readers: dict[TrieRef, int] = {}
    for stratum in strata:
        for rule in stratum.rules:
            for ref in rule.reads:
                readers[ref] = readers.get(ref, 0) + 1
    made = {name for stratum in strata for name in stratum.told.rows}
    known = KnownIndexes({index.ref: index for index in metrics.indexes}, readers, frozenset(made))
    entries = [
        entry
        for number, stratum in enumerate(strata, 1)
        for entry in _entries(number, stratum, known)
    ]
    dear = sorted(entries, key=lambda entry: -entry.seconds)[:DEAREST]
    if len(entries) < FEW and not any(entry.hint for entry in dear):
        return ()
    children = tuple(
        ReportNode(
            "dear rule",
            entry.label,
            (*entry.details, *(() if entry.hint is None else (f"hint: {entry.hint}",))),
            seconds=entry.seconds,
            share=entry.seconds / seconds if seconds else None,
            facts=(*entry.facts, ("hint", entry.hint)),
        )
        for entry in dear
    )
    return (ReportNode("dearest", "the dearest rules", children=children),) if children else ()


def _entries(number: int, stratum: StratumRan, known: KnownIndexes) -> Iterator[_Entry]:
    way = stratum.told.way
    if way is not None:
        yield _together(number, stratum, known)
        return
    numbered = {rule_number(number, at): rule for at, rule in enumerate(stratum.rules, 1)}
    for called, rule in numbered.items():
        if rule.runs and rule.seconds:
            label = f"rule {called}: {rule_text(rule.rule)}"
            others = {n: other.rule for n, other in numbered.items() if other is not rule}
            hint = hint_of(rule, known, stratum.told.rows, others)
            yield _Entry(label, rule.seconds, *_counted(rule), hint)


def _together(number: int, stratum: StratumRan, known: KnownIndexes) -> _Entry:
    """The rules of a fixpoint whose loops walk all of them at once."""
    told, rules = stratum.told, stratum.rules
    seconds = 0.0 if told.way is None else told.way.seconds
    last = rule_number(number, max(1, len(rules)))
    which = f"rules {rule_number(number, 1)} to {last}" if len(rules) > 1 else f"rule {last}"
    both = RuleRan(
        told.stratum.rules[0],
        tuple(plan for rule in rules for plan in rule.plans),
        tuple(run for rule in rules for run in rule.runs),
        (),
    )
    rows = sum(told.rows.values())
    return _Entry(
        f"{which}, together: {', '.join(told.stratum.relations)}",
        seconds,
        (f"{many(rows, 'row')} came out; {told.way}",),
        (("new", rows), ("looked at", both.looked_at or None)),
        hint_of(both, known, told.rows, {}),
    )


def _counted(rule: RuleRan) -> tuple[tuple[str, ...], tuple[tuple[str, Fact], ...]]:
    """What was counted of a rule: in words, and for programs."""
    looked, candidates, new, rounds = rule.looked_at, rule.candidates, rule.new, rule.rounds_run
    told = [f"{many(looked, 'value')} tried"] if looked else []
    told.append(f"{many(candidates, 'row')} came out")
    if new is not None:
        told[-1] += f", {new:,} of them new"
    if rounds:
        told.append(f"in {many(rounds, 'round')}")
    facts: Mapping[str, Fact] = {
        "looked at": looked or None,
        "came out": candidates,
        "new": new,
        "rounds": rounds or None,
    }
    return ("; ".join(told),), tuple(facts.items())
