"""What a statement says of which relations, and what is left of it without some of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from gdatalog.parser.syntax import Atom, Decl, Directive, Rule, Statement
from gdatalog.planner.check.walk import walk
from gdatalog.records import replace

# What may be dropped of a relation: its rules, what was stated as data, or all of it.
Part = Literal["all", "rules", "data"]


def names_of(statement: Statement) -> tuple[str, ...]:
    """The relations that a statement defines, declares or directs."""
    if isinstance(statement, Rule):
        return tuple(head.name for head in statement.heads)
    return statement.names if isinstance(statement, (Decl, Directive)) else ()


def reads_of(statement: Statement) -> set[str]:
    """The relations that a rule reads (functions that stand as literals are among them)."""
    if not isinstance(statement, Rule) or statement.body is None:
        return set()
    parts = [statement.body, *(arg for head in statement.heads for arg in head.args)]
    return {part.name for node in parts for part in walk(node) if isinstance(part, Atom)}


def is_fact(statement: Statement) -> bool:
    return isinstance(statement, Rule) and statement.body is None


def ruled(statements: Iterable[Statement]) -> set[str]:
    """The relations that have rules."""
    return {
        name
        for statement in statements
        if isinstance(statement, Rule) and statement.body is not None
        for name in names_of(statement)
    }


def without(
    statements: Iterable[Statement], gone: Collection[str], part: Part = "all"
) -> list[Statement]:
    """The statements without what they say of some relations.

    Rules, facts and directives of several relations keep the others. What is stated as data are
    facts and `.input`s; a declaration stays unless all of its relation goes.
    """
    left: list[Statement] = []
    for statement in statements:
        if any(name in gone for name in names_of(statement)):
            left += _less(statement, gone, part)
        else:
            left.append(statement)
    return left


def _less(statement: Statement, gone: Collection[str], part: Part) -> Sequence[Statement]:
    match statement:
        case Rule():
            if part not in ("all", "data" if statement.body is None else "rules"):
                return [statement]
            heads = tuple(head for head in statement.heads if head.name not in gone)
            return [replace(statement, heads=heads)] if heads else []
        case Directive(kind):
            if part == "rules" or (part == "data" and kind != "input"):
                return [statement]
            return _renamed(statement, gone)
        case Decl():
            if part == "rules" or (part == "data" and "input" not in statement.qualifiers):
                return [statement]
            rest = _renamed(statement, gone)
            if part == "all":
                return rest
            own = tuple(name for name in statement.names if name in gone)
            others = tuple(word for word in statement.qualifiers if word != "input")
            return [*rest, replace(statement, names=own, qualifiers=others)]
        case _:
            return [statement]


def _renamed(statement: Decl | Directive, gone: Collection[str]) -> list[Statement]:
    names = tuple(name for name in statement.names if name not in gone)
    return [replace(statement, names=names)] if names else []
