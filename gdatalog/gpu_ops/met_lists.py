"""Finds loops whose turns intersect a list with one of their own, only to add something up for each
common value. The lanes take a turn each and share the values of all their lists, which are looked
up in the one list; this is held in shared memory, and no common values are written.
"""

from __future__ import annotations

import ast

from gdatalog.gpu_ops.cpp_types import assigned_in, names_in
from gdatalog.gpu_ops.heads import looks
from gdatalog.gpu_ops.steady import by_lane, calls_in
from gdatalog.records import dataclass


@dataclass(slots=True)
class MetLists:
    """Rewrites such loops of a function."""

    function: ast.FunctionDef
    found: int = 0

    def rewrite(self) -> None:
        self._block(self.function.body)

    def _block(self, body: list[ast.stmt]) -> None:
        for at, statement in reversed([*enumerate(body)]):
            hold = self._rewritten(statement) if isinstance(statement, ast.For) else None
            if hold is not None:
                body.insert(at, hold)
            elif isinstance(statement, ast.While | ast.If) or (
                isinstance(statement, ast.For) and calls_in(statement.iter) & {"range", "turns"}
            ):
                self._block(statement.body)

    def _rewritten(self, loop: ast.For) -> ast.stmt | None:
        """Rewrites a loop, if it is one; returns the statement that holds the list before it."""
        match loop:
            case ast.For(
                target=ast.Name(id=turn),
                iter=ast.Call(func=ast.Name("range" | "turns"), args=[low, high]) as turns,
                body=[
                    *before,
                    ast.Assign(
                        targets=[ast.Name(id=length)],
                        value=ast.Call(
                            func=ast.Name("intersect"),
                            args=[held, start, end, own, first, last, ast.Name(id=out)],
                        ),
                    ),
                    ast.For(
                        target=ast.Name(id=place),
                        iter=ast.Call(
                            func=ast.Name("range"), args=[ast.Constant(0), ast.Name(id=stop)]
                        ),
                        body=[
                            ast.Assign(targets=[ast.Name(id=value)], value=read),
                            *counts,
                        ],
                    ),
                ],
            ) if stop == length:
                pass
            case _:
                return None
        shared = next((each for each in before if "share_turns(" in ast.unparse(each)), None)
        steps = [each for each in before if each is not shared]
        added = by_lane(counts, {value: False})
        kept = names_in(ast.Tuple([held, start, end]))
        if (
            added is None
            or not all(map(looks, steps))
            or kept & {turn, *assigned_in(loop.body)}
            or ast.unparse(read) != f"np.int64(at({out}, {place}))"
            or (self._reads(length), self._reads(out)) != (1, 2)
        ):
            return None
        flag = f"holds{self.found}"
        self.found += 1
        given = ", ".join(map(ast.unparse, (held, start, end)))
        keys = [own, held, end] if ast.unparse(start) in ("0", "np.int64(0)") else []
        text = f"{value} = np.int64(at({ast.unparse(own)}, {place}))\n"
        text += f"if not has_held({flag}, {given}, {value}):\n    continue\n"
        spread = ast.For(
            ast.Name(place, ast.Store()),
            ast.Call(ast.Name("spread", ast.Load()), [first, last, *keys], []),
            [*ast.parse(text).body, *added],
            [],
        )
        ends = [low, high]
        if shared is not None:
            ends += _unit_of(shared)
        turns.func, turns.args = ast.Name("lanes", ast.Load()), ends
        loop.body = [*steps, ast.fix_missing_locations(ast.copy_location(spread, loop))]
        return ast.parse(f"{flag} = hold_list({given})").body[0]

    def _reads(self, name: str) -> int:
        """How often the function reads a name."""
        nodes = (n for n in ast.walk(self.function) if isinstance(n, ast.Name) and n.id == name)
        return sum(isinstance(node.ctx, ast.Load) for node in nodes)


def _unit_of(shared: ast.stmt) -> list[ast.expr]:
    """The unit of which turns are given to other tiles, and the place of its first turn."""
    match shared:
        case ast.If(body=[ast.Assign(value=ast.BinOp(left=base, right=ast.Call(args=[unit, *_])))]):
            return [unit, base]
    raise AssertionError(ast.unparse(shared))
