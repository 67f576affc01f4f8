"""Finds loops whose units all tiles of a block can take together, as a team.

Such a unit fills a table of counts, and then reads it. A table of each tile is far from its
multiprocessor, in global memory; one of a team fits into the shared memory of a block, if keys are
few. The threads divide the turns of the loop that fills it, and of the loop that reads it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from gdatalog.codegen.function_trees import called
from gdatalog.gpu_ops.heads import PURE
from gdatalog.gpu_ops.steady import calls_in
from gdatalog.records import dataclass

_OUTSIDE = PURE | {"clear_tally", "few_keys", "first_turn", "last_turn", "parent_of"}
ONE_TURN = {"range(1)", "range(c0, c1)"}


@dataclass(frozen=True, slots=True)
class Team:
    """`table` and `values`: the arrays of counts and of keys, `length`: the number of keys.
    `listed`: whether the keys are read.
    `fills` and `reads`: the loops whose turns are divided. `filling`: the values that the first one
    goes through."""

    table: str
    values: str
    length: str
    listed: bool
    fills: ast.For
    reads: ast.For
    filling: str

    def divides(self, loop: ast.For) -> bool:
        """Whether the threads of a team take a loop's turns."""
        return loop is self.fills or loop is self.reads


def team_of(function: ast.FunctionDef) -> Team | None:
    """The only table, and its loops; None if something else stands beside them."""
    nodes = list(ast.walk(function))
    clears = [n for n in nodes if isinstance(n, ast.Call) and called(n) == "clear_tally"]
    tasks = [node for node in nodes if isinstance(node, ast.While)]
    if len(clears) != 1 or len(tasks) != 1:
        return None
    *before, units = tasks[0].body
    if not isinstance(units, ast.For) or called_by(units) != "range":
        return None
    if not all(isinstance(each, ast.Assign) for each in before):
        return None
    match units.body:
        case [ast.If(test=ast.UnaryOp(operand=ast.Call(func=ast.Name("begin_unit"), args=args))),
              *rest] if ast.unparse(args[0]) == ast.unparse(args[1]):  # fmt: skip
            steps = list(_steps(rest))
        case _:
            return None
    match [step for step in steps if not isinstance(step, ast.Assign)]:
        case [ast.For() as fills, ast.Expr(), ast.For() as reads]:
            table, values, length, _ = map(ast.unparse, clears[0].args)
            own = [n for n in nodes if isinstance(n, ast.Call) and called(n) == "add_tally"]
            known = {id(n) for call in (*clears, *own) for n in ast.walk(call)}
            read = (n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in known)
            others = [n for n in read if n in (values, length)]
            # The length is also set at first, by the two calls, and compared with 0.
            listed = values in others or len(others) > 3
            return Team(table, values, length, listed, fills, reads, _values_of(fills))
    return None


def _values_of(loop: ast.For) -> str:
    """The array of a loop's own values."""
    turn = ast.unparse(loop.target)
    reads = (n for n in ast.walk(loop) if isinstance(n, ast.Call) and called(n) == "at")
    return next((ast.unparse(n.args[0]) for n in reads if ast.unparse(n.args[1]) == turn), "")


def _steps(body: Sequence[ast.stmt]) -> Iterator[ast.stmt | None]:
    """The statements that all tiles repeat, loops of lanes, and where tiles meet; None for what
    they could not repeat."""
    for statement in body:
        match statement:
            case ast.Assign() if calls_in(statement) <= _OUTSIDE:
                yield statement
            case ast.If(body=[*skips, ast.Continue()], orelse=[]) if (
                calls_in(statement.test) <= _OUTSIDE
                and all(isinstance(skip, ast.Expr) for skip in skips)
                and all(calls_in(skip) == {"skip_units"} for skip in skips)
            ):
                pass
            case ast.For() if ast.unparse(statement.iter) in ONE_TURN:
                yield from _steps(statement.body)
            case ast.For() if called_by(statement) == "lanes":
                yield statement
            case ast.Expr(value=ast.Call(func=ast.Name("meet"))):
                yield statement
            case _:
                yield None


def called_by(loop: ast.For) -> str:
    """The name of the function that a loop iterates over."""
    assert isinstance(loop.iter, ast.Call)
    return called(loop.iter)
