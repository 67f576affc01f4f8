"""Finds two loops, over the values of a root and over the lists below them, that lanes can run as
one: each lane takes an entry of the lists, and looks up the value above it.

Lists are often far shorter than a tile is wide. If each value's list were one loop, most lanes
would have nothing to do in it.
"""

from __future__ import annotations

import ast

from gdatalog.codegen.function_trees import called
from gdatalog.gpu_ops.cpp_types import assigned_in
from gdatalog.gpu_ops.head_counts import HeadCount, count_of
from gdatalog.gpu_ops.heads import head_of, looks, reads
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class Flat:
    """`outer` and `inner`: the positions of the value and of its entry. `offsets`: the array that
    says where lists begin; units are entries from `base` on. `statements` are run for each entry,
    between the bounds `clip`; they compute `bounds`, the ends of the inner loop. Then a turn is
    `body`, or only `counted`."""

    outer: str
    inner: str
    offsets: str
    base: ast.expr
    clip: tuple[str, str]
    statements: tuple[ast.stmt, ...]
    bounds: tuple[ast.expr, ast.expr]
    body: tuple[ast.stmt, ...]
    counted: HeadCount | None

    @property
    def holds(self) -> bool:
        """Whether counts are only added up, and their second list is found by the entry's value."""
        counted = self.counted
        if counted is None or called(counted.call) != "count_common":
            return False
        own = set(assigned_in(counted.statements))
        (_, _, first, _, _, second), tail = counted.call.args, counted.tail
        sums = len(tail) == 1 and isinstance(tail[0], ast.AugAssign)
        return sums and not reads(first) & own and bool(reads(second) & own)


def flat_of(loop: ast.For) -> Flat | None:
    """The two loops, if all that is between them are look-ups, and tests of these."""
    match loop.body:
        case [
            ast.Assign(targets=[ast.Name(id="e")]),
            ast.Assign(
                targets=[ast.Tuple(elts=[ast.Name(id=low), ast.Name(id=high)])],
                value=ast.Tuple(
                    elts=[
                        ast.Call(
                            args=[ast.Call(args=[ast.Subscript(value=ast.Name(id=offsets))]), _]
                        ),
                        _,
                    ]
                ),
            ),
            ast.If(body=[ast.Break()]),
            ast.If(
                test=ast.UnaryOp(
                    operand=ast.Call(
                        func=ast.Name(id="begin_unit"), args=[ast.BinOp(right=base), _]
                    )
                )
            ),
            *rest,
        ]:
            pass
        case _:
            return None
    assert isinstance(loop.target, ast.Name)
    statements: list[ast.stmt] = []
    while rest:
        *before, last = rest
        if not all(map(looks, before)):
            return None
        statements += before
        match last:
            case ast.If(test=test, body=rest, orelse=[]):
                fails = ast.UnaryOp(ast.Not(), test)
                statements.append(ast.If(fails, [ast.Continue()], []))
            case ast.For(target=ast.Name(id=inner), iter=ast.Call(args=[first, end]) as turns):
                head = head_of(last) if called(turns) == "range" else None
                counted = None if head is None else count_of(head)
                if counted is None and called(turns) != "lanes":
                    return None
                return Flat(
                    loop.target.id, inner, offsets, base, (low, high), tuple(statements),
                    (first, end), tuple(last.body), counted,
                )  # fmt: skip
            case _:
                return None
    return None
