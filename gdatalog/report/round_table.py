"""The rounds of a fixpoint: metrics by rule and round, as a data frame and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gdatalog.engine.metrics import RuleRound, StratumMetrics
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check.checked import rule_text
from gdatalog.progress import format_bytes
from gdatalog.report.tree import Cell, ReportNode, TextTable

COLUMNS = (
    "stratum", "relation", "rule", "round", "tried", "new", "duplicates", "seconds", "bytes",
    "executor",
)  # fmt: skip
ENDS = 3  # rounds shown from the start and end of a long fixpoint; and its largest ones


def round_lines(metrics: StratumMetrics) -> Iterator[tuple[Cell, ...]]:
    """A line of `Profile.rounds` for each rule and round, or for a fixpoint without rounds."""
    names = ", ".join(metrics.stratum.relations)
    for stats in metrics.rules:
        yield (
            names, stats.relation, rule_text(stats.rule), stats.round, stats.tried, stats.new,
            stats.duplicates, stats.seconds, stats.bytes, stats.executor,
        )  # fmt: skip
    if metrics.way is not None:
        before = sum(stats.new or 0 for stats in metrics.rules)
        new = sum(metrics.rows.values()) - before
        tried = metrics.way.tried
        again = None if tried is None else max(0, tried - new)
        yield (
            names, names, str(metrics.way), None, tried, new, again,
            metrics.way.seconds, metrics.peak, metrics.way.name,
        )  # fmt: skip


# Two rules may have the same text, and the parts of a split rule have the same place.
RuleKey = tuple[int, str]


def rule_key(rule: CheckedRule) -> RuleKey:
    return id(rule.span), rule_text(rule)


def rounds_node(metrics: StratumMetrics, numbers: Mapping[RuleKey, int]) -> ReportNode | None:
    """A table of the rounds that matter; `numbers` are the rules' numbers."""
    if not metrics.rounds or not metrics.rules:
        return None
    by_round: dict[int, list[RuleRound]] = {}
    for stats in metrics.rules:
        by_round.setdefault(stats.round, []).append(stats)
    news = [
        sum(stats.new or 0 for stats in by_round.get(at, ())) for at in range(metrics.rounds + 1)
    ]
    rows: list[tuple[Cell, ...]] = []
    shown = _shown(by_round)
    for before, at in zip([-1, *shown], shown, strict=False):
        skipped = [stats for n in range(before + 1, at) for stats in by_round.get(n, ())]
        if skipped:
            rows.append(_row("...", None, skipped))
        rows += [_row(at, numbers.get(rule_key(stats.rule)), [stats]) for stats in by_round[at]]
    return ReportNode(
        "rounds",
        f"new rows, round 0 to {metrics.rounds}",
        series=tuple(news),
        table=TextTable(
            ("round", "rule", "tried", "new", "known", "ms", "held", "by"), tuple(rows)
        ),
        facts=(("rounds", metrics.rounds),),
    )


def _row(at: Cell, rule: int | None, done: Sequence[RuleRound]) -> tuple[Cell, ...]:
    new, known = _sum([stats.new for stats in done]), _sum([stats.duplicates for stats in done])
    by = ", ".join(dict.fromkeys(stats.executor for stats in done if stats.executor))
    return (
        at,
        rule,
        sum(stats.tried for stats in done),
        new,
        known,
        round(sum(stats.seconds for stats in done) * 1000, 1),
        format_bytes(max((stats.bytes for stats in done), default=0)),
        by,
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    """The sum; None if any value is unknown."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _shown(by_round: dict[int, list[RuleRound]]) -> list[int]:
    """All rounds of a short fixpoint; the first, largest and last rounds of a long one."""
    rounds = sorted(by_round)
    if len(rounds) <= 3 * ENDS + 1:
        return rounds
    largest = sorted(rounds, key=lambda at: -sum(stats.tried for stats in by_round[at]))
    return sorted({*rounds[:ENDS], *largest[:ENDS], *rounds[-ENDS:]})
