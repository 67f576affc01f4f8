"""Cautions for programs of Soufflé's: where an answer differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdatalog.errors import Caution
from gdatalog.parser import syntax as s
from gdatalog.planner.check.walk import walk
from gdatalog.planner.check.wording import show


def is_souffle(program: s.Program) -> bool:
    """Whether a program declares columns with types of Soufflé's."""
    return bool(_type_spans(program, ("number", "unsigned")))


def _type_spans(program: s.Program, names: Sequence[str]) -> list[s.Column | s.TypeDecl]:
    found: list[s.Column | s.TypeDecl] = []
    for statement in program.statements:
        if isinstance(statement, s.Decl):
            found += [column for column in statement.columns if column.type_name in names]
        elif isinstance(statement, s.TypeDecl) and any(t in names for t in statement.targets):
            found.append(statement)
    return found


def unsigned(program: s.Program) -> Iterator[Caution]:
    for place in _type_spans(program, ("unsigned",))[:1]:
        message = "`unsigned` is a 64-bit int here: it goes below 0, and does not wrap around "
        yield Caution(message + "where Soufflé's does", place.span)


def wildcards_counted(body: s.Literal, heads: Sequence[s.Atom] = ()) -> Iterator[Caution]:
    """Atoms with `_` beside others in a `count`: Soufflé only asks whether they have a match."""
    for node in (*heads, body):
        for part in walk(node):
            if isinstance(part, s.Aggregate) and part.kind in ("count", "sum", "mean"):
                inside = walk(part.body, s.Not, s.Aggregate)
                atoms = [each for each in inside if isinstance(each, s.Atom)]
                some = next((atom for atom in atoms if s.Wildcard in map(type, atom.args)), None)
                if some is not None and len(atoms) > 1:
                    message = f"this {part.kind} is over every match of {show(some)}: Soufflé, "
                    message += "which asks only whether there is one, can have another answer"
                    hint = "a name in the place of the `_`, such as `_y`, counts every match there "
                    hint += "too; to count one, let a rule drop the column first"
                    yield Caution(message, part.span, hint, cause="wildcard")
