"""Rules that join the same atoms, whatever their variables are called."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.parser import format_node
from gdatalog.parser.syntax import Atom, Literal, Var
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check.walk import conjuncts, rebuild, walk
from gdatalog.records import replace


def shared_join(rule: CheckedRule, other: CheckedRule) -> int:
    """Counts the atoms that two rules join in the same way, if one body is a part of the other;
    otherwise returns 0."""
    if rule.body is None or other.body is None:
        return 0
    few, more = sorted((list(conjuncts(rule.body)), list(conjuncts(other.body))), key=len)
    atoms = sum(isinstance(item, Atom) for item in few)
    return atoms if atoms and _stands_in(few, more) else 0


def _stands_in(part: Sequence[Literal], whole: Sequence[Literal]) -> bool:
    """Whether a conjunction contains another one, up to names of variables."""
    shapes = [_shape(item) for item in whole]
    wanted = [(_shape(item), _names(item)) for item in part]
    offered = [(shape, _names(item)) for shape, item in zip(shapes, whole, strict=True)]
    if not {shape for shape, _ in wanted} <= set(shapes):
        return False

    def search(at: int, taken: frozenset[int], named: dict[str, str]) -> bool:
        if at == len(wanted):
            return True
        shape, names = wanted[at]
        for number, (other, others) in enumerate(offered):
            if number in taken or other != shape:
                continue
            both = dict(named)
            same = all(both.setdefault(a, b) == b for a, b in zip(names, others, strict=True))
            apart = len(set(both.values())) == len(both)
            if same and apart and search(at + 1, taken | {number}, both):
                return True
        return False

    return search(0, frozenset(), {})


def _names(item: Literal) -> list[str]:
    return [node.name for node in walk(item) if isinstance(node, Var)]


def _shape(item: Literal) -> str:
    """A literal with all variables replaced by one."""
    return format_node(_blank(item))


def _blank(node: Literal) -> Literal:
    if isinstance(node, Var):
        return replace(node, name="v")
    return rebuild(node, _blank)
