"""Which relations can have rows, as far as the rules' positive atoms tell.

`path(x, z) <- path(x, y), E(y, z).` alone cannot: each of its rows needs another one first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check.walk import all_of, contains_head_aggregate


def with_rows(rules: Sequence[CheckedRule], sources: Iterable[str]) -> set[str]:
    """The relations that can have rows. `sources`: those with rows that no rule derives."""
    found = set(sources)
    left = [rule for rule in rules if rule.head.name not in found]
    while True:
        holding = {rule.head.name for rule in left if _can_hold(rule, found)}
        if not holding:
            return found
        found |= holding
        left = [rule for rule in left if rule.head.name not in found]


def _can_hold(rule: CheckedRule, found: set[str]) -> bool:
    if rule.body is None or _can_be_true(rule.body, found):
        return True
    # counts and sums without a group have a row even over nothing
    args = rule.head.args
    aggregates = all_of(s.HeadAggregate, rule.head)
    return (
        bool(args)
        and all(map(contains_head_aggregate, args))
        and all(each.kind in ("count", "count_distinct", "sum") for each in aggregates)
    )


def _can_be_true(literal: s.Literal, found: set[str]) -> bool:
    match literal:
        case s.Atom(name):
            return name in found
        case s.And(items):
            return all(_can_be_true(item, found) for item in items)
        case s.Or(items):
            return any(_can_be_true(item, found) for item in items)
    return True
