"""Makes a drawn program that fails a test smaller, as long as it fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from gdatalog.parser.syntax import (
    Aggregate,
    And,
    Atom,
    Compare,
    FunctionCall,
    Not,
    Or,
    Program,
    Rule,
)
from tests.draw import Drawn


def reduced(drawn: Drawn, fails: Callable[[Drawn], str | None], tries: int = 2000) -> Drawn:
    """The smallest program found for which `fails` still says why."""
    while True:
        for candidate in _smaller(drawn):
            tries -= 1
            if tries < 0:
                return drawn
            if fails(candidate):
                drawn = candidate
                break
        else:
            return drawn


def _smaller(drawn: Drawn) -> Iterator[Drawn]:
    statements = drawn.program.statements
    for at, statement in enumerate(statements):
        yield replace(drawn, program=Program(statements[:at] + statements[at + 1 :]))
        if isinstance(statement, Rule):
            for simpler in _simpler_rule(statement):
                changed = (*statements[:at], simpler, *statements[at + 1 :])
                yield replace(drawn, program=Program(changed))
    for name, (types, rows) in drawn.data.items():
        for size in (len(rows), len(rows) // 2, 1):
            for at in range(0, len(rows), size) if size else ():
                fewer = rows[:at] + rows[at + size :]
                yield replace(drawn, data={**drawn.data, name: (types, fewer)})


def _simpler_rule(rule: Rule) -> Iterator[Rule]:
    if len(rule.heads) > 1:
        for head in rule.heads:
            yield replace(rule, heads=(head,))
    if rule.body is not None:
        for body in _simpler(rule.body):
            yield replace(rule, body=body)


def _simpler(node: Any) -> Iterator[Any]:
    """The node with one thing in it left out."""
    if isinstance(node, (And, Or)):
        kind = type(node)
        for at, item in enumerate(node.items):
            rest = node.items[:at] + node.items[at + 1 :]
            yield rest[0] if len(rest) == 1 else kind(rest)
            for simpler in _simpler(item):
                inner = simpler.items if isinstance(simpler, kind) else (simpler,)
                yield kind(node.items[:at] + inner + node.items[at + 1 :])
    elif isinstance(node, Not):
        if isinstance(node.body, Not):
            yield node.body.body
        for body in _simpler(node.body):
            yield replace(node, body=body)
    elif isinstance(node, Aggregate):
        for body in _simpler(node.body):
            yield replace(node, body=body)
    elif isinstance(node, Compare) and len(node.rest) > 1:
        yield replace(node, rest=node.rest[:-1])
        yield Compare(node.rest[0][1], node.rest[1:])
    elif isinstance(node, (FunctionCall, Compare, Atom)) and is_dataclass(node):
        if isinstance(node, FunctionCall):
            yield from node.args
        for part in fields(node):
            yield from _simpler_part(node, part.name)


def _simpler_part(node: Any, name: str) -> Iterator[Any]:
    value = getattr(node, name)
    if name == "first":
        for simpler in _simpler(value):
            yield replace(node, first=simpler)
    elif name in ("args", "rest"):
        for at, part in enumerate(value):
            for simpler in _simpler(part[1] if name == "rest" else part):
                new = (part[0], simpler) if name == "rest" else simpler
                yield replace(node, **{name: (*value[:at], new, *value[at + 1 :])})
