"""A rule with constants in the place of some of its head's values.

Where a count would lose the last variable of its groups to a constant, a row of 0 would be there
for nothing: such heads are left alone.
"""

from __future__ import annotations

from typing import Any

from gdatalog.parser.syntax import Aggregate, Compare, Const, HeadAggregate, Literal, Var
from gdatalog.planner.adornments import Columns, Constants
from gdatalog.planner.checked import CheckedRule
from gdatalog.planner.names import conjunction
from gdatalog.planner.walk import rebuild, walk
from gdatalog.records import replace


def loses_groups(rule: CheckedRule) -> bool:
    """Whether a constant for a column may leave a head with counts and no group."""
    nodes = [part for arg in rule.head.args for part in walk(arg)]
    kinds = {part.kind for part in nodes if isinstance(part, HeadAggregate)}
    return bool(kinds) and kinds <= {"count", "count_distinct", "sum"}


def exported(rule: CheckedRule) -> set[str]:
    """The variables that aggregates give out: they are bound there and nowhere else."""
    nodes = () if rule.body is None else walk(rule.body)
    return {name for part in nodes if isinstance(part, Aggregate) for name in part.exports}


def with_constants(rule: CheckedRule, columns: Columns, constants: Constants) -> CheckedRule | None:
    """The rule for these values of its head's columns; None where it gives no such rows."""
    values: dict[str, Any] = {}
    tests: list[Literal] = []

    def put(node: Any) -> Any:
        if isinstance(node, Var):
            return values.get(node.name, node)
        return rebuild(node, put)

    for at, constant in zip(columns, constants, strict=True):
        arg = rule.head.args[at]
        if isinstance(arg, Var) and arg.name not in values:
            values[arg.name] = constant
    for at, constant in zip(columns, constants, strict=True):
        arg = put(rule.head.args[at])
        if isinstance(arg, Const) and isinstance(constant, Const):
            if arg.value != constant.value:
                return None
        elif arg != constant:
            tests.append(Compare(arg, (("=", constant),), rule.head.span))
    head = replace(rule.head, args=tuple(map(put, rule.head.args)))
    items = [*([] if rule.body is None else [put(rule.body)]), *tests]
    body = conjunction(items, rule.span) if items else None
    return replace(rule, head=head, body=body)
