"""Ways to split a recursive rule in two: some atoms first, after which a variable is dead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations

from gdatalog.parser.syntax import (
    Aggregate,
    And,
    Atom,
    Cast,
    Chain,
    Compare,
    Distinct,
    FunctionCall,
    Literal,
    Member,
    Not,
    Or,
    Test,
)
from gdatalog.planner.check.checked import CheckedRule
from gdatalog.planner.check.walk import Node, variables, walk
from gdatalog.planner.rewrite.collapse import names_of
from gdatalog.records import dataclass, field
from gdatalog.values import TypeName

MOST_ATOMS = 7  # larger bodies are not split
TESTS = (Compare, Member, Distinct, Not, Test)


@dataclass(frozen=True, slots=True)
class Cut:
    """A rule split in two: `part` derives the live variables, and `rest` joins them."""

    part: tuple[Literal, ...]
    live: tuple[str, ...]
    dead: tuple[str, ...]
    rest: tuple[Literal, ...]
    types: Mapping[str, TypeName] = field(
        default_factory=dict
    )  # of variables that occur only in witnesses


def cuts_of(rule: CheckedRule, recursive: Callable[[str], bool]) -> list[Cut]:
    """The ways to split a rule in two; `recursive`: whether a relation has a delta."""
    if rule.body is None:
        return []
    literals = literals_of(rule.body)
    atoms = atoms_of(literals)
    if not 2 <= len(atoms) <= MOST_ATOMS or not any(recursive(a.name) for a in atoms):
        return []
    if any(isinstance(part, (Aggregate, Or)) for part in walk(rule.body)):
        return []
    head = names_in(rule.head.args)
    found = []
    for count in range(1, len(atoms)):
        for chosen in combinations([a for a in atoms if plain(a)], count):
            if any(recursive(atom.name) for atom in chosen) and _connected(chosen):
                cut = _cut(rule, literals, chosen, head, recursive)
                if cut is not None:
                    found.append(cut)
    return found


def _cut(
    rule: CheckedRule,
    literals: Sequence[Literal],
    chosen: Sequence[Atom],
    head: frozenset[str],
    recursive: Callable[[str], bool],
) -> Cut | None:
    bound = names_in(chosen)
    inside = [
        literal
        for literal in literals
        if any(literal is atom for atom in chosen) or _tests(rule, literal, bound)
    ]
    rest = [literal for literal in literals if not any(literal is part for part in inside)]
    needed = head | names_in(rest)
    live = tuple(name for name in _in_order(rule) if name in bound & needed)
    once = {
        name
        for atom in chosen
        if not recursive(atom.name)
        for name in names_in([atom])
        if sum(name in names_in([part]) for part in inside) == 1
    }
    dead = tuple(
        name
        for name in _in_order(rule)
        if name in bound and name not in needed and name not in once
    )
    # If the rest binds no variable of the head, it only filters rows.
    if not live or not dead or head <= bound:
        return None
    return Cut(tuple(inside), live, dead, tuple(rest))


def _tests(rule: CheckedRule, literal: Literal, bound: frozenset[str]) -> bool:
    """Whether a literal only tests variables that atoms bind; its other variables are local."""
    if not isinstance(literal, TESTS) or not plain(literal):
        return False
    outside = [*rule.head.args, *(p for p in literals_of(rule.body) if p is not literal)]
    return names_in([literal]) & (names_in(outside) | bound) <= bound


def plain(literal: Literal) -> bool:
    """Whether a literal computes nothing, so that it can be evaluated earlier."""
    return not any(
        isinstance(part, (FunctionCall, Chain, Cast, Aggregate)) for part in walk(literal)
    )


def literals_of(body: Literal | None) -> tuple[Literal, ...]:
    if body is None:
        return ()
    return body.items if isinstance(body, And) else (body,)


def all_of(literals: Sequence[Literal]) -> Literal:
    return literals[0] if len(literals) == 1 else And(tuple(literals))


def atoms_of(literals: Sequence[Literal]) -> list[Atom]:
    return [literal for literal in literals if isinstance(literal, Atom)]


def names_in(nodes: Iterable[Node]) -> frozenset[str]:
    return frozenset(name for node in nodes for name in variables(node))


def _in_order(rule: CheckedRule) -> list[str]:
    """A rule's variables in order of appearance, the head's first."""
    nodes = [*rule.head.args, *literals_of(rule.body)]
    return list(dict.fromkeys(name for node in nodes for name in variables(node)))


def _connected(atoms: Sequence[Atom]) -> bool:
    """Whether atoms are connected by their variables."""
    reached, left = names_of(atoms[0]), list(atoms[1:])
    while near := [atom for atom in left if names_of(atom) & reached]:
        reached = reached.union(*map(names_of, near))
        left = [atom for atom in left if atom not in near]
    return not left
