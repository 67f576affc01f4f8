"""Finds loops whose turns look two lists up, count their common values, and add that up. Each lane
can do this for a turn of its own, while the lanes share the values of all these lists.
"""

from __future__ import annotations

import ast

from gdatalog.codegen.function_trees import called
from gdatalog.gpu_ops.heads import PURE, Head, reads
from gdatalog.gpu_ops.steady import by_lane, calls_in
from gdatalog.records import dataclass

COUNTS = ("count_common", "add_common")


@dataclass(frozen=True, slots=True)
class HeadCount:
    """`statements` are run by each lane for a turn of its own, and assign `variables`; `call`
    counts, `count` is the variable for it; `tail` is run by each lane for its own count.

    `unit`: the unit of the task that a turn is, if it is one. `shares`: the statement that gives
    later turns to other tiles, if there is one.
    """

    statements: tuple[ast.stmt, ...]
    variables: tuple[str, ...]
    call: ast.Call
    count: str
    tail: tuple[ast.stmt, ...]
    unit: ast.expr | None
    shares: ast.stmt | None


def count_of(head: Head) -> HeadCount | None:
    """The count that follows a head; None if something else follows."""
    place = next((at for at, each in enumerate(head.rest) if _counts(each)), None)
    if place is None:
        return None
    before, count, after = head.rest[:place], head.rest[place], head.rest[place + 1 :]
    assert isinstance(count, ast.Assign) and isinstance(count.targets[0], ast.Name)
    call, name = count.value, count.targets[0].id
    assert isinstance(call, ast.Call)
    tail = by_lane(after, {name: True})
    if tail is None:
        return None
    unit: ast.expr | None = None
    shares: ast.stmt | None = None
    statements, variables = list(head.statements), list(head.variables)
    read = set().union(*map(reads, head.rest))
    for statement in before:
        match statement:
            case ast.If(test=ast.UnaryOp(operand=ast.Call(func=ast.Name("begin_unit"), args=args))):
                if unit is not None or ast.unparse(args[0]) != ast.unparse(args[1]):
                    return None
                unit = args[0]
            case ast.If(test=test) if "late" in calls_in(test):
                shares = statement
            case ast.Assign(targets=[ast.Name(id=own)]) if calls_in(statement) <= PURE:
                if own in read:
                    statements.append(statement)
                    variables.append(own)
            case _:
                return None
    if unit is not None and reads(unit) & {*variables}:
        return None
    return HeadCount(tuple(statements), tuple(variables), call, name, tuple(tail), unit, shares)


def _counts(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name()], value=ast.Call() as call):
            return called(call) in COUNTS
    return False
