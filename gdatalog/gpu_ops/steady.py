"""Moves what is the same in all turns of a loop in front of it: counts of common values, and
look-ups in conditions.

Such a count reads two whole lists. Its turns depend on other variables than these lists, and would
repeat it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence

from gdatalog.codegen.function_trees import called
from gdatalog.gpu_ops.cpp_types import assigned_in, names_in
from gdatalog.gpu_ops.heads import PURE, STATE
from gdatalog.records import dataclass

COUNTS = frozenset({"count_common"})
_LOOPS = frozenset({"range", "turns"})


@dataclass(slots=True)
class Steady:
    """Moves the steady parts of a function's loops. `spreads`: of loops that then only add up, the
    lanes divide the turns."""

    spreads: bool
    found: int = 0

    def move(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements, with the steady parts of each loop in front of it."""
        moved: list[ast.stmt] = []
        for statement in body:
            if isinstance(statement, ast.For | ast.While | ast.If):
                statement.body = self.move(statement.body)
            if isinstance(statement, ast.If):
                statement.orelse = self.move(statement.orelse)
            if isinstance(statement, ast.For):
                moved += self._in_front(statement)
            moved.append(statement)
        return moved

    def _in_front(self, loop: ast.For) -> list[ast.stmt]:
        """What of a loop is computed once before it, unless it has no turn."""
        assert isinstance(loop.target, ast.Name) and isinstance(loop.iter, ast.Call)
        if called(loop.iter) not in _LOOPS or len(loop.iter.args) != 2:
            return []
        changed = {loop.target.id, *assigned_in(loop.body), *_may_write(loop.body), *STATE}
        once: list[ast.Assign] = []
        for statement in loop.body:
            match statement:
                case ast.Assign(value=ast.Call() as value) if called(value) in COUNTS:
                    if not names_in(value) & changed:
                        statement.value = self._once(value, once)
                case ast.If(test=ast.BoolOp(op=ast.And(), values=tests) as test):
                    same = [each for each in tests if _looks_up(each, changed)]
                    if any("has" in calls_in(each) for each in same):
                        both = ast.BoolOp(ast.And(), same) if len(same) > 1 else same[0]
                        flag = ast.Call(ast.parse("np.int64", mode="eval").body, [both], [])
                        known = ast.Compare(
                            self._once(flag, once), [ast.NotEq()], [ast.Constant(0)]
                        )
                        test.values = [known, *(each for each in tests if each not in same)]
        low, high = loop.iter.args
        if self.spreads:
            _spread(loop, once)
        return [ast.If(ast.Compare(low, [ast.Lt()], [high]), [*once], [])] if once else []

    def _once(self, value: ast.expr, once: list[ast.Assign]) -> ast.Name:
        name = f"steady{self.found}"
        self.found += 1
        once.append(ast.Assign([ast.Name(name, ast.Store())], value, lineno=0))
        return ast.Name(name, ast.Load())


def _spread(loop: ast.For, once: Sequence[ast.Assign]) -> None:
    """Divides a loop's turns among the lanes, if each turn only adds a number to a total; such
    turns are too short to be shared with other tiles. `once`: what is computed before; of counts,
    each lane has a share."""
    counts = [each for each in once if calls_in(each.value) & COUNTS]
    led = {name for each in once if "leads" in calls_in(each.value) for name in assigned_in([each])}
    turns = [each for each in loop.body if "share_turns" not in calls_in(each)]
    body = by_lane(turns, dict.fromkeys(assigned_in(counts), True), led)
    if body is None or not any(isinstance(each, ast.AugAssign | ast.If) for each in body):
        return
    assert isinstance(loop.iter, ast.Call)
    loop.iter.func = ast.Name("lanes", ast.Load())
    loop.body = body
    for each in once:
        if each in counts:
            each.value = ast.Call(ast.Name("sum_of_lanes", ast.Load()), [each.value], [])
        else:
            each.value = _led(each.value)


def by_lane(
    body: Sequence[ast.stmt], shares: Mapping[str, bool], led: Collection[str] = ()
) -> list[ast.stmt] | None:
    """Statements of a tile that compute a number and add it to a total, as those of a single lane;
    None if they do something else.

    `shares`: numbers, and whether each lane has a share of them; the lane then has the whole.
    `led`: flags that only one lane of the tile has.
    """
    parts, found = dict(shares), list[ast.stmt]()
    for statement in body:
        test, inner = None, statement
        if isinstance(statement, ast.If) and len(statement.body) == 1 and not statement.orelse:
            test, inner = statement.test, statement.body[0]
            if calls_in(test) - PURE - {"leads"}:
                return None
        leads = test is not None and bool("leads" in calls_in(test) or names_in(test) & {*led})
        match inner:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Name(id="sum_of_lanes"), args=[ast.Name(id=same)]),
            ) if test is None and name == same and parts.get(name):
                parts[name] = False
                continue
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if test is None:
                shared = isinstance(value, ast.Name) and parts.get(value.id, False)
                mixed = not shared and any(parts.get(each) for each in names_in(value))
                if calls_in(value) - PURE or mixed:
                    return None
                parts[name] = shared
            case ast.AugAssign(target=ast.Name(id=name), value=ast.Constant()) if name in parts:
                if leads != parts[name]:
                    return None
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=ast.Name(id=part)):
                if part not in parts or name in parts or leads == parts[part]:
                    return None
            case ast.Expr(value=ast.Call(func=ast.Name(id="add_local"))) if leads:
                if any(parts.get(name) for name in names_in(statement)):
                    return None
            case _:
                return None
        if test is not None and (test := _led(test)) is not None:
            found.append(inner if _is_true(test) else ast.If(test, [inner], []))
        else:
            found.append(statement)
    return found


def _led(node: ast.expr) -> ast.expr:
    """A condition, of a lane that leads."""
    match node:
        case ast.Call(func=ast.Name(id="leads")):
            return ast.Constant(True)
        case ast.Call(args=args):
            return ast.Call(node.func, [_led(arg) for arg in args], [])
        case ast.BoolOp(op=ast.And(), values=values):
            left = [led for value in values if not _is_true(led := _led(value))]
            return left[0] if len(left) == 1 else ast.BoolOp(ast.And(), left)
    return node


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _looks_up(test: ast.expr, changed: Collection[str]) -> bool:
    """Whether a test only looks up what does not change."""
    return calls_in(test) <= PURE | {"leads"} and not names_in(test) & set(changed)


def _may_write(body: Sequence[ast.stmt]) -> Iterator[str]:
    """The arguments of calls that are not known to write nothing."""
    for node in (node for statement in body for node in ast.walk(statement)):
        if isinstance(node, ast.Call) and called(node) not in PURE | COUNTS | {"leads"}:
            for argument in node.args:
                yield from names_in(argument)


def calls_in(node: ast.AST) -> set[str]:
    return {called(each) for each in ast.walk(node) if isinstance(each, ast.Call)}
