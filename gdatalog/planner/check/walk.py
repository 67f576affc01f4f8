"""Walking over syntax: the parts of an expression or literal, its variables, substitution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from gdatalog.parser.syntax import (
    Aggregate,
    And,
    Atom,
    Cast,
    Chain,
    Compare,
    Const,
    Distinct,
    Expr,
    FunctionCall,
    HeadAggregate,
    ListParam,
    Literal,
    Member,
    Not,
    Or,
    Param,
    Range,
    Test,
    Values,
    Var,
    Wildcard,
)
from gdatalog.records import replace

Node = Expr | HeadAggregate | Literal
N = TypeVar("N", bound=Node)

LEAVES = (Var, Const, Param, Wildcard, Values, ListParam)


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below, in the order of the text."""
    match node:
        case FunctionCall() | HeadAggregate() | Atom() | Distinct():
            return node.targets if isinstance(node, HeadAggregate) else node.args
        case Cast():
            return (node.operand,)
        case Aggregate():
            return (*node.targets, node.body)
        case Compare() | Chain():
            return (node.first, *(side for _, side in node.rest))
        case Member():
            return (node.item, *node.values)
        case Test():
            return (node.expr,)
        case Not():
            return (node.body,)
        case And() | Or():
            return node.items
        case Range():
            return (node.item, node.start, node.stop, node.step)
        case _:
            return ()


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, in the order of the text."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        if type(part) not in LEAVES:
            waiting += children(part)[::-1]


def variables(node: Node) -> dict[str, Var]:
    """Every variable that occurs, with its first occurrence, in the order of the text."""
    found: dict[str, Var] = {}
    for part in walk(node):
        if isinstance(part, Var):
            found.setdefault(part.name, part)
    return found


def head_aggregates(node: Node) -> list[HeadAggregate]:
    return [part for part in walk(node) if isinstance(part, HeadAggregate)]


def contains_head_aggregate(node: Node) -> bool:
    return type(node) not in LEAVES and any(isinstance(part, HeadAggregate) for part in walk(node))


def variables_beside(node: Node) -> set[str]:
    """The variables of a head's term that stand outside of its aggregates."""
    if isinstance(node, Var):
        return {node.name}
    if isinstance(node, HeadAggregate):
        return set()
    return {name for child in children(node) for name in variables_beside(child)}


def contains_aggregate(node: Node) -> bool:
    return any(isinstance(part, Aggregate) for part in walk(node))


def rebuild(node: N, change: Callable[[Any], Any]) -> N:
    """The same node with `change` applied to each node directly below it."""
    match node:
        case FunctionCall() | Atom() | Distinct():
            return replace(node, args=tuple(map(change, node.args)))
        case HeadAggregate():
            return replace(node, targets=tuple(map(change, node.targets)))
        case Cast():
            return replace(node, operand=change(node.operand))
        case Aggregate():
            return replace(node, targets=tuple(map(change, node.targets)), body=change(node.body))
        case Compare() | Chain():
            first = change(node.first)  # before the others: some changes go by the order
            return replace(node, first=first, rest=tuple((op, change(s)) for op, s in node.rest))
        case Member():
            return replace(node, item=change(node.item), values=tuple(map(change, node.values)))
        case Test():
            return replace(node, expr=change(node.expr))
        case Not():
            return replace(node, body=change(node.body))
        case And() | Or():
            return replace(node, items=tuple(map(change, node.items)))
        case Range():
            return replace(
                node,
                item=change(node.item),
                start=change(node.start),
                stop=change(node.stop),
                step=change(node.step),
            )
        case _:
            return node
