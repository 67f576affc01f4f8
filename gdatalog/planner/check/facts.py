"""Facts: ground atoms, a hundred thousand of them at once.

A fact whose arguments are all constants or parameters goes the short way: only the first of
each shape (relation and types of its arguments) is looked at closely, by every later pass.
"""

from __future__ import annotations

from collections.abc import Iterator

from gdatalog.parser.syntax import Atom, Const, Param, Rule
from gdatalog.records import dataclass, field, replace
from gdatalog.values import TypeName

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
