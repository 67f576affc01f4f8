"""What a statement says of which relations, and the facts among statements."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal

from gdatalog.parser.syntax import Atom, Const, Decl, Directive, Param, Rule, Statement
from gdatalog.planner.check.walk import walk
from gdatalog.records import dataclass, field, replace
from gdatalog.values import TypeName

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


# Facts: ground atoms, a hundred thousand of them at once.
#
# A fact whose arguments are all constants or parameters goes the short way: only the first of each
# shape (relation and types of its arguments) is looked at closely, by every later pass.

Shape = tuple[str, ...]


@dataclass(slots=True)
class Facts:
    atoms: dict[str, list[Atom]] = field(default_factory=dict)
    shapes: dict[str, dict[Shape, Atom]] = field(default_factory=dict)

    def take(self, rule: Rule) -> bool:
        """Whether the rule is a plain fact, which is kept here then."""
        if rule.body is not None:
            return False
        shapes = [shape_of(head) for head in rule.heads]
        if None in shapes:
            return False
        for head, shape in zip(rule.heads, shapes, strict=True):
            assert shape is not None
            atoms = self.atoms.get(head.name)
            if atoms is None:
                self.atoms[head.name] = [head]
                self.shapes[head.name] = {shape: head}
            else:
                atoms.append(head)
                self.shapes[head.name].setdefault(shape, head)
        return True

    def examples(self) -> Iterator[Atom]:
        """One fact of each shape."""
        for shapes in self.shapes.values():
            yield from shapes.values()

    def typed(self, relation: str, types: tuple[TypeName, ...]) -> tuple[Atom, ...]:
        """The facts, with floats for int literals in columns of floats."""
        atoms = self.atoms[relation]
        floats = [at for at, kind in enumerate(types) if kind == "float"]
        if not any(shape[at] == "int" for shape in self.shapes[relation] for at in floats):
            return tuple(atoms)
        return tuple(map(_with_floats, atoms, [floats] * len(atoms)))


def shape_of(head: Atom) -> Shape | None:
    """The types of a fact's arguments, and the names of parameters; None if it has others."""
    shape: list[str] = []
    for arg in head.args:
        if type(arg) is Const:
            shape.append(arg.type)
        elif type(arg) is Param:
            shape.append("$" + arg.name)
        else:
            return None
    return tuple(shape)


def _with_floats(atom: Atom, floats: list[int]) -> Atom:
    args = list(atom.args)
    for at in floats:
        arg = args[at]
        if isinstance(arg, Const) and arg.type == "int":
            args[at] = replace(arg, type="float", value=float(arg.value))
    return replace(atom, args=tuple(args))
