"""Checked rules as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from gdatalog.parser import format_node
from gdatalog.parser.syntax import Var, Wildcard
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.planner.check.walk import rebuild


def rule_text(rule: CheckedRule) -> str:
    """Formats a checked rule as a user would write it: `_` for `_~1`, if that occurs once."""
    parts = [rule.head] if rule.body is None else [rule.head, rule.body]
    names = Counter(part.name for part in rule.parts if isinstance(part, Var))

    def blank(node: Any) -> Any:
        if isinstance(node, Var):
            return Wildcard() if node.name.startswith("_~") and names[node.name] == 1 else node
        return rebuild(node, blank)

    return " <- ".join([format_node(blank(part)) for part in parts]) + "."


def rule_texts(strata: Iterable[Stratum]) -> tuple[str, ...]:
    """All rules of these strata."""
    return tuple([rule_text(rule) for stratum in strata for rule in stratum.rules])
