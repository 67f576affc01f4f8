"""The most expensive rules of an evaluation: their counters, and a hint for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gdatalog.engine.metrics import Metrics
from gdatalog.plan.nodes import TrieRef
from gdatalog.records import dataclass
from gdatalog.report.folded import COSTLIEST, rule_number
from gdatalog.report.hints import KnownIndexes, hint_of
from gdatalog.report.plan_tree import rule_text
from gdatalog.report.rule_runs import RuleRan, StratumRan
from gdatalog.report.tree import Fact, ReportNode
from gdatalog.report.words import many

FEW = 3  # rules: smaller programs get no list of the most expensive ones


@dataclass(frozen=True, slots=True)
class _Entry:
    """A rule, or a whole stratum whose rules run in the same loops."""

    label: str
    seconds: float
    details: tuple[str, ...]
    facts: tuple[tuple[str, Fact], ...]
    hint: str | None


def costliest(
    strata: Sequence[StratumRan], metrics: Metrics, seconds: float
) -> tuple[ReportNode, ...]:
    """Returns one node with the rules that took most of these seconds."""
    readers: dict[TrieRef, int] = {}
    for stratum in strata:
        for rule in stratum.rules:
            for ref in rule.reads:
                readers[ref] = readers.get(ref, 0) + 1
    made = {name for stratum in strata for name in stratum.metrics.rows}
    known = KnownIndexes({index.ref: index for index in metrics.indexes}, readers, frozenset(made))
    entries = [
        entry
        for number, stratum in enumerate(strata, 1)
        for entry in _entries(number, stratum, known)
    ]
    costly = sorted(entries, key=lambda entry: -entry.seconds)[:COSTLIEST]
    if len(entries) < FEW and not any(entry.hint for entry in costly):
        return ()
    children = tuple(
        ReportNode(
            "costly rule",
            entry.label,
            (*entry.details, *(() if entry.hint is None else (f"hint: {entry.hint}",))),
            seconds=entry.seconds,
            share=entry.seconds / seconds if seconds else None,
            facts=(*entry.facts, ("hint", entry.hint)),
        )
        for entry in costly
    )
    return (ReportNode("costliest", "the costliest rules", children=children),) if children else ()


def _entries(number: int, stratum: StratumRan, known: KnownIndexes) -> Iterator[_Entry]:
    way = stratum.metrics.way
    if way is not None:
        yield _together(number, stratum, known)
        return
    numbered = {rule_number(number, at): rule for at, rule in enumerate(stratum.rules, 1)}
    for called, rule in numbered.items():
        if rule.runs and rule.seconds:
            label = f"rule {called}: {rule_text(rule.rule)}"
            others = {n: other.rule for n, other in numbered.items() if other is not rule}
            hint = hint_of(rule, known, stratum.metrics.rows, others)
            yield _Entry(label, rule.seconds, *_counted(rule), hint)


def _together(number: int, stratum: StratumRan, known: KnownIndexes) -> _Entry:
    """The rules of a fixpoint that one set of loops evaluates."""
    metrics, rules = stratum.metrics, stratum.rules
    seconds = 0.0 if metrics.way is None else metrics.way.seconds
    last = rule_number(number, max(1, len(rules)))
    which = f"rules {rule_number(number, 1)} to {last}" if len(rules) > 1 else f"rule {last}"
    both = RuleRan(
        metrics.stratum.rules[0],
        tuple(plan for rule in rules for plan in rule.plans),
        tuple(run for rule in rules for run in rule.runs),
        (),
    )
    rows = sum(metrics.rows.values())
    return _Entry(
        f"{which}, together: {', '.join(metrics.stratum.relations)}",
        seconds,
        (f"{many(rows, 'row')} came out; {metrics.way}",),
        (("new", rows), ("looked at", both.looked_at or None)),
        hint_of(both, known, metrics.rows, {}),
    )


def _counted(rule: RuleRan) -> tuple[tuple[str, ...], tuple[tuple[str, Fact], ...]]:
    """A rule's counters, as text and as facts for programs."""
    looked, candidates, new, rounds = rule.looked_at, rule.candidates, rule.new, rule.rounds_run
    text = [f"{many(looked, 'value')} tried"] if looked else []
    text.append(f"{many(candidates, 'row')} came out")
    if new is not None:
        text[-1] += f", {new:,} of them new"
    if rounds:
        text.append(f"in {many(rounds, 'round')}")
    facts: Mapping[str, Fact] = {
        "looked at": looked or None,
        "came out": candidates,
        "new": new,
        "rounds": rounds or None,
    }
    return ("; ".join(text),), tuple(facts.items())
