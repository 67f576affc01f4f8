"""What a conjunction is, whatever its variables are called: two that are alike have one name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import permutations

from gdatalog.parser import format_node
from gdatalog.parser.syntax import Literal, Var
from gdatalog.planner.walk import N, rebuild, variables
from gdatalog.records import replace

ORDERS = 5  # literals, all of whose orders are tried; more are put in one order by their texts

# Texts of literals with numbers for variables, and the numbers of those that are asked for.
Signature = tuple[tuple[str, ...], tuple[int, ...]]


def signature_of(
    part: Sequence[Literal], live: Collection[str]
) -> tuple[Signature, dict[str, int]]:
    """What a part is whatever its variables are called, and the number of each."""
    blank = sorted(part, key=lambda literal: format_node(_renamed(literal, {})))
    orders = permutations(blank) if len(blank) <= ORDERS else [blank]
    return min((_numbered(order, live) for order in orders), key=lambda found: found[0])


def _numbered(order: Sequence[Literal], live: Collection[str]) -> tuple[Signature, dict[str, int]]:
    numbers: dict[str, int] = {}
    for literal in order:
        for name in variables(literal):
            numbers.setdefault(name, len(numbers))
    names = {name: f"v{number}" for name, number in numbers.items()}
    texts = tuple(format_node(_renamed(literal, names)) for literal in order)
    return (texts, tuple(sorted(numbers[name] for name in live))), numbers


def _renamed(node: N, names: Mapping[str, str]) -> N:
    """The node under other names of variables; "v" for those that have none."""
    if isinstance(node, Var):
        return replace(node, name=names.get(node.name, "v"))
    return rebuild(node, lambda part: _renamed(part, names))
