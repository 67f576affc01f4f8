"""The shape of a fact whose arguments are constants or parameters: the types of the constants, and
the names of the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.parser import syntax as s
from gdatalog.records import replace

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
            else:
                return None
        shapes.append((head.name, tuple(kinds)))
    return shapes


def with_floats(atom: s.Atom, floats: Sequence[int]) -> s.Atom:
    """The fact with floats for int literals in the columns `floats`."""
    args = list(atom.args)
    for at in floats:
        arg = args[at]
        if isinstance(arg, s.Const) and arg.type == "int":
            args[at] = replace(arg, type="float", value=float(arg.value))
    return replace(atom, args=tuple(args))
