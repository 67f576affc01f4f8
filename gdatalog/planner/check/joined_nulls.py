"""Which columns a program joins, for a note about nulls in one that was loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule


def joined_columns(rules: Iterable[CheckedRule], name: str) -> set[int]:
    """The columns of a relation whose values a rule looks for in another atom, or in another column
    of the same."""
    found: set[int] = set()
    for rule in rules:
        atoms = rule.atoms if any(atom.name == name for atom in rule.atoms) else ()
        uses = Counter(arg.name for atom in atoms for arg in atom.args if isinstance(arg, s.Var))
        for atom in atoms:
            if atom.name == name:
                args = enumerate(atom.args)
                found |= {at for at, arg in args if isinstance(arg, s.Var) and uses[arg.name] > 1}
    return found
