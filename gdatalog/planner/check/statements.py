"""What statements define or read: their relations, the shapes of facts; statements without some."""

from __future__ import annotations

import typing
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from gdatalog.parser import syntax as s
from gdatalog.parser.fact_statements import rest_of
from gdatalog.planner.check.walk import all_of
from gdatalog.records import replace
from gdatalog.values import TypeName, meant_as

# The parts of a relation that can be dropped: its rules, its data, or all.
Part = typing.Literal["all", "rules", "data"]


def names_of(statement: s.Statement) -> tuple[str, ...]:
    """The relations that a statement defines, declares or directs."""
    if isinstance(statement, s.Rule):
        return tuple([head.name for head in statement.heads])
    if isinstance(statement, s.Facts):
        return tuple([columns.name for columns in statement.relations])
    return statement.names if isinstance(statement, (s.Decl, s.Directive)) else ()


def reads_of(statement: s.Statement) -> set[str]:
    """The relations that a rule reads (functions that stand as literals are among them)."""
    if not isinstance(statement, s.Rule) or statement.body is None:
        return set()
    heads = (arg for head in statement.heads for arg in head.args)
    return {atom.name for atom in all_of(s.Atom, statement.body, *heads)}


def is_fact(statement: s.Statement) -> bool:
    return isinstance(statement, s.Facts) or (
        isinstance(statement, s.Rule) and statement.body is None
    )


def ruled(statements: Iterable[s.Statement]) -> set[str]:
    """The relations that have rules."""
    return {
        name
        for statement in statements
        if isinstance(statement, s.Rule) and statement.body is not None
        for name in names_of(statement)
    }


def without(
    statements: Iterable[s.Statement], gone: Collection[str], part: Part = "all"
) -> list[s.Statement]:
    """The statements without a part of some relations.

    A statement about several relations keeps the others. The "data" of a relation are its facts and
    `.input`s. Its declaration is removed only with "all" of it.
    """
    left: list[s.Statement] = []
    for statement in statements:
        if any(name in gone for name in names_of(statement)):
            left += _less(statement, gone, part)
        else:
            left.append(statement)
    return left


def _less(statement: s.Statement, gone: Collection[str], part: Part) -> Sequence[s.Statement]:
    match statement:
        case s.Rule():
            if part not in ("all", "data" if statement.body is None else "rules"):
                return [statement]
            heads = tuple([head for head in statement.heads if head.name not in gone])
            return [replace(statement, heads=heads)] if heads else []
        case s.Facts(relations):
            if part == "rules":
                return [statement]
            left = tuple([columns for columns in relations if columns.name not in gone])
            return [replace(statement, relations=left)] if left else []
        case s.Directive(kind):
            if part == "rules" or (part == "data" and kind != "input"):
                return [statement]
            return _renamed(statement, gone)
        case s.Decl():
            if part == "rules" or (part == "data" and "input" not in statement.qualifiers):
                return [statement]
            rest = _renamed(statement, gone)
            if part == "all":
                return rest
            own = tuple([name for name in statement.names if name in gone])
            others = tuple([word for word in statement.qualifiers if word != "input"])
            return [*rest, replace(statement, names=own, qualifiers=others)]
        case _:
            return [statement]


def _renamed(statement: s.Decl | s.Directive, gone: Collection[str]) -> list[s.Statement]:
    names = tuple([name for name in statement.names if name not in gone])
    return [replace(statement, names=names)] if names else []


def without_inputs(statements: Iterable[s.Statement], name: str) -> list[s.Statement]:
    """The statements without the `.input`s of a relation."""
    left: list[s.Statement] = []
    for statement in statements:
        left += [statement] if is_fact(statement) else without([statement], {name}, "data")
    return left


def without_facts(
    statements: Iterable[s.Statement],
    name: str,
    gone: Iterator[bool],
    computed: Collection[s.Atom] = (),
) -> list[s.Statement]:
    """The statements without some facts of a relation; `gone` says of each fact of constants
    whether it goes, and `computed` has those of expressions."""
    left: list[s.Statement] = []
    for statement in statements:
        if name not in names_of(statement) or not is_fact(statement):
            left.append(statement)
        elif isinstance(statement, s.Facts):
            number = sum(len(each) for each in statement.relations if each.name == name)
            marks = list(islice(gone, number))
            left += rest_of(statement, name, iter(marks)) if any(marks) else [statement]
        elif isinstance(statement, s.Rule):
            plain = shapes_of(statement) is not None
            heads = [
                head
                for head in statement.heads
                if head.name != name or not (next(gone) if plain else head in computed)
            ]
            same = len(heads) == len(statement.heads)
            if heads:
                left.append(statement if same else replace(statement, heads=tuple(heads)))
    return left


Shape = tuple[str, ...]


def shapes_of(statement: s.Statement) -> list[tuple[str, Shape]] | None:
    """The relations and shapes of such a fact's heads, or of such facts; None for any other
    statement."""
    if type(statement) is s.Facts:
        return [(each.name, kinds) for each in statement.relations for kinds in each.kinds]
    if type(statement) is not s.Rule or statement.body is not None:
        return None
    shapes = []
    for head in statement.heads:
        kinds: list[str] = []
        for arg in head.args:
            if type(arg) is s.Const:
                kinds.append(arg.type)
            elif type(arg) is s.Param:
                kinds.append("$" + arg.name)
            elif type(arg) is s.Null:
                kinds.append("null")
            else:
                return None
        shapes.append((head.name, tuple(kinds)))
    return shapes


def with_types(atom: s.Atom, types: Mapping[int, TypeName]) -> s.Atom:
    """The fact with its literals as what they mean in columns of these `types`."""
    args = list(atom.args)
    for at, kind in types.items():
        arg = args[at]
        if isinstance(arg, s.Const) and meant_as(kind, arg.value) is not None:
            args[at] = with_type(arg, kind)
    return replace(atom, args=tuple(args))


def with_type(literal: s.Const | s.Values, kind: TypeName) -> s.Const | s.Values:
    """Literals of numbers as floats or decimals, or of days as dates."""
    if kind == literal.type:
        return literal
    made = partial(meant_as, kind)
    if isinstance(literal, s.Const):
        return replace(literal, type=kind, value=made(literal.value))
    return replace(literal, type=kind, values=tuple(map(made, literal.values)))
