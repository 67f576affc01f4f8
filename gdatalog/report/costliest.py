"""The most expensive rules of an evaluation: their counters, and a hint for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from gdatalog.engine.metrics import Metrics, Way
from gdatalog.planner.check.checked import rule_text
from gdatalog.records import replace
from gdatalog.report.folded import COSTLIEST, rule_number
from gdatalog.report.hints import KnownIndexes, hint_of, reads
from gdatalog.report.numbers import many
from gdatalog.report.rules import RuleRan, StratumRan
from gdatalog.report.tree import Fact, ReportNode

LISTED_FROM = 3  # rules: smaller programs get no list of the most expensive ones


def costliest(
    strata: Sequence[StratumRan], metrics: Metrics, seconds: float
) -> tuple[ReportNode, ...]:
    """Returns one node with the rules that took most of these seconds."""
    readers = Counter(ref for stratum in strata for rule in stratum.rules for ref in reads(rule))
    made = {name for stratum in strata for name in stratum.metrics.rows}
    known = KnownIndexes({index.ref: index for index in metrics.indexes}, readers, frozenset(made))
    every = [node for at, stratum in enumerate(strata, 1) for node in _entries(at, stratum, known)]
    costly = sorted(every, key=lambda node: -(node.seconds or 0.0))[:COSTLIEST]
    if not costly or (
        len(every) < LISTED_FROM and not any(dict(node.facts)["hint"] for node in costly)
    ):
        return ()
    children = tuple(
        replace(node, share=node.seconds / seconds if node.seconds and seconds else None)
        for node in costly
    )
    return (ReportNode("costliest", "the costliest rules", children=children),)


def _entries(number: int, stratum: StratumRan, known: KnownIndexes) -> Iterator[ReportNode]:
    """A node for each rule, or for the whole stratum if one set of loops evaluates its rules."""
    if stratum.metrics.way is not None:
        yield _together(number, stratum, stratum.metrics.way, known)
        return
    numbered = {rule_number(number, at): rule for at, rule in enumerate(stratum.rules, 1)}
    for called, rule in numbered.items():
        if rule.runs and rule.seconds:
            others = {n: other.rule for n, other in numbered.items() if other is not rule}
            hint = hint_of(rule, known, stratum.metrics.rows, others)
            label = f"rule {called}: {rule_text(rule.rule)}"
            yield _entry(label, rule.seconds, *_counted(rule), hint)


def _entry(
    label: str, seconds: float, text: str, facts: Mapping[str, Fact], hint: str | None
) -> ReportNode:
    details = (text,) if hint is None else (text, f"hint: {hint}")
    every = (*facts.items(), ("hint", hint))
    return ReportNode("costly rule", label, details, seconds=seconds, facts=every)


def _together(number: int, stratum: StratumRan, way: Way, known: KnownIndexes) -> ReportNode:
    metrics, rules = stratum.metrics, stratum.rules
    last = rule_number(number, max(1, len(rules)))
    which = f"rules {rule_number(number, 1)} to {last}" if len(rules) > 1 else f"rule {last}"
    both = RuleRan(
        metrics.stratum.rules[0],
        tuple(plan for rule in rules for plan in rule.plans),
        tuple(run for rule in rules for run in rule.runs),
        (),
    )
    rows = sum(metrics.rows.values())
    return _entry(
        f"{which}, together: {', '.join(metrics.stratum.relations)}",
        way.seconds,
        f"{many(rows, 'row')} came out; {way}",
        {"new": rows, "looked at": both.looked_at or None},
        hint_of(both, known, metrics.rows, {}),
    )


def _counted(rule: RuleRan) -> tuple[str, Mapping[str, Fact]]:
    """A rule's counters, as text and as facts for programs."""
    looked, candidates, new, rounds = rule.looked_at, rule.candidates, rule.new, rule.rounds_run
    text = [f"{many(looked, 'value')} tried"] if looked else []
    unfinished = any(run.unfinished for run in rule.runs)
    if candidates or not unfinished:
        text.append(f"{many(candidates, 'row')} came out")
    if unfinished:
        text.append("not finished")
    if new is not None and not unfinished:
        text[-1] += f", {new:,} of them new"
    if rounds:
        text.append(f"in {many(rounds, 'round')}")
    return "; ".join(text), {
        "looked at": looked or None,
        "came out": candidates,
        "new": new,
        "rounds": rounds or None,
    }
