"""Finds the *head* of a loop: look-ups at the start of each turn, which the lanes of a tile do for
several turns at once.

A turn reads its value, the value's place in an index, and the bounds of its list: a chain of loads,
each of which waits for the one before. The chain depends on the turn only. So each lane of a tile
can follow the chain of a turn of its own.

With counters, for profiles, a turn that ends within its head counts something before it ends. So
the tile repeats these turns, too, and ends each where its head has ended.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from gdatalog.gpu_ops.cpp_types import assigned_in
from gdatalog.records import dataclass

# Functions without side effects; subscripts have none, too.
PURE = frozenset({
    "at", "find", "find_indexed", "find_root", "has", "len", "lower", "max", "min", "np.int64",
    "upper",
})  # fmt: skip
# Variables that change while a task is walked.
STATE = frozenset({"start", "stop", "trouble"})


@dataclass(frozen=True, slots=True)
class Head:
    """`statements` run ahead, `rest` in each turn. `statements` assign `variables`; `rest` reads
    those that are `wanted`. `ends`, with counters: the name of the variable that holds the number
    of the statement of the head at which the turn ends, from 1 on; 0 if it goes on."""

    statements: tuple[ast.stmt, ...]
    rest: tuple[ast.stmt, ...]
    variables: tuple[str, ...]
    wanted: tuple[str, ...]
    ends: str | None = None


def head_of(loop: ast.For, counters: Collection[str] = ()) -> Head | None:
    """The head of a loop, if one of its loads waits for another; else it is not worth while.

    `counters`: the names of counters.
    """
    assert isinstance(loop.target, ast.Name) and isinstance(loop.iter, ast.Call)
    if len(loop.iter.args) < 2:
        return None  # a single turn
    changed = set(assigned_in(loop.body))
    ends, counts = f"{loop.target.id}_ends", False
    head: list[ast.stmt] = []
    rest: list[ast.stmt] = []
    replayed: list[ast.stmt] = []  # the rest, with the ends of turns that are in the head
    found: dict[str, int] = {}  # variables, and how many loads each waits for
    for at, statement in enumerate(loop.body):
        read = reads(statement) - found.keys() - {loop.target.id}
        ahead = looks(statement) and not read & (changed | STATE)
        ahead = ahead and bool(_loads(statement) or reads(statement) & found.keys())
        if ahead and isinstance(statement, ast.Assign):
            (target,) = statement.targets
            assert isinstance(target, ast.Name)
            waits = max((found.get(name, 0) for name in reads(statement)), default=0)
            found[target.id] = waits + _loads(statement)
        if ahead:
            head.append(statement)
            if isinstance(statement, ast.If):
                replayed += ast.parse(f"if {ends} == {len(head)}: continue").body
        elif _aside(statement, counters) and not found.keys() & assigned_in([statement]):
            rest.append(statement)  # stays in the turn
            replayed.append(statement)
            counts = counts or bool(set(counters) & set(assigned_in([statement])))
        else:
            rest += loop.body[at:]
            replayed += loop.body[at:]
            break
    again = set(assigned_in(rest))
    if max(found.values(), default=0) < 2 or again & found.keys():
        return None
    wanted = tuple(name for name in found if any(name in reads(node) for node in rest))
    if counts:
        return Head(tuple(head), tuple(replayed), tuple(found), wanted, ends)
    return Head(tuple(head), tuple(rest), tuple(found), wanted)


def looks(statement: ast.stmt) -> bool:
    """Whether a statement only looks something up, or ends the turn by a test of such values."""
    if isinstance(statement, ast.If):
        ends = len(statement.body) == 1 and isinstance(statement.body[0], ast.Continue)
        return ends and not statement.orelse and _calls(statement.test) <= PURE
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return False
    if isinstance(statement.value, ast.Tuple):
        return False
    return _calls(statement.value) <= PURE


def _aside(statement: ast.stmt, counters: Collection[str]) -> bool:
    """Whether a statement may run after the head: it counts, or sets the state of the turn or the
    task."""
    states = {"begin_unit", "ended", "mark_task", "late", "share_turns"}
    kinds: tuple[type[ast.stmt], ...] = (ast.Assign, ast.Expr, ast.If)
    if counters:
        states |= {"first_turn", "leads"}
        kinds = (*kinds, ast.AugAssign)
    return isinstance(statement, kinds) and _calls(statement) <= states | PURE


def _calls(node: ast.AST) -> set[str]:
    return {ast.unparse(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}


def _loads(node: ast.AST) -> int:
    """The number of loads that an expression adds to a chain: 0 or 1."""
    calls = _calls(node) & (PURE - {"len", "max", "min", "np.int64"})
    return 1 if calls or any(isinstance(n, ast.Subscript) for n in ast.walk(node)) else 0


def reads(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
