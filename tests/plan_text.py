"""Whole plans of rules as text, for snapshots and comparisons."""

from __future__ import annotations

from gdatalog.plan.join_plan import RulePlan
from gdatalog.plan.labels import (
    Remark,
    alternative_label,
    ending_labels,
    format_join,
    table_label,
    term_label,
)


def format_rule(rule: RulePlan, remark: Remark = lambda step: "") -> str:
    """The whole rule: each join, then aggregates and the head."""
    lines = []
    for inner in rule.within:
        lines += [table_label(inner), *("  " + line for line in format_rule(inner).split("\n"))]
    for number, join in enumerate(rule.joins):
        if rule.terms:
            lines.append(term_label(rule.terms[number]))
        elif len(rule.joins) > 1:
            lines.append(alternative_label(number, len(rule.joins)))
        lines += format_join(join, remark)
    return "\n".join([*lines, *ending_labels(rule)])
