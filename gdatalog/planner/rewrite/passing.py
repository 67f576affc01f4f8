"""How recursive rules pass bound columns on.

In `path(x, z) <- path(x, y), E(y, z)` the first column is **kept**: demand for the paths from 1
leads to demand for the same paths. In `path(x, z) <- E(x, y), path(y, z)` it is **handed on**:
demand for the paths from 1 leads to demand for the paths from its neighbours, and so on. Because
the second column is kept, every end reached on the way is an end of a path from 1, so that the
paths of different vertices need not be told apart. A closure, `path(x, z) <- path(x, y), path(y,
z)` or a rule whose step is the same as the relation's base rules, can have either: it is extended
at the other end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.planner.check import walk as w
from gdatalog.planner.check.scopes import rename
from gdatalog.planner.check.walk import alternatives_of
from gdatalog.planner.rewrite.adornments import Columns, is_plain
from gdatalog.planner.rewrite.linear_closures import composition
from gdatalog.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class RecursiveRule:
    """A rule with one recursive atom, and the rest of its body."""

    rule: CheckedRule
    atom: s.Atom
    rest: tuple[s.Literal, ...]

    def keeps(self, columns: Columns) -> bool:
        """Whether the atom has the head's variables in these columns, and the rest does not read
        them."""
        head = [self.rule.head.args[at] for at in columns]
        names = [arg.name for arg in head if isinstance(arg, s.Var)]
        seen = w.count_variables((*self.rule.head.args, *self.atom.args, *self.rest))
        return (
            head == [self.atom.args[at] for at in columns]
            and len(names) == len(head)
            and all(seen[name] == 2 for name in names)
        )

    def hands_on(self, columns: Columns) -> bool:
        """Whether plain atoms bind the atom's values in these columns from the head's."""
        head = [self.rule.head.args[at] for at in columns]
        args = [self.atom.args[at] for at in columns]
        known = w.names_in((*head, *(item for item in self.rest if isinstance(item, s.Atom))))
        simple = all(is_plain(_inside(literal)) for literal in self.rest)
        return simple and is_plain(s.Atom("", (*head, *args))) and known >= w.names_in(args)


def _inside(literal: s.Literal) -> s.Literal:
    return literal.body if isinstance(literal, s.Not) else literal


def branches(rule: CheckedRule) -> Iterator[CheckedRule]:
    """A rule for each alternative of its body."""
    if rule.body is None:
        yield rule
        return
    for parts in alternatives_of(rule.body):
        yield replace(rule, body=w.conjunction(parts, rule.body.span))


def recursive_atoms(rule: CheckedRule, names: Sequence[str]) -> list[s.Atom]:
    return [atom for atom in rule.atoms if atom.name in names]


def read_by(rules: Sequence[CheckedRule]) -> list[str]:
    """The relations that rules read."""
    return list({atom.name: None for rule in rules for atom in rule.atoms})


def linear(rule: CheckedRule) -> RecursiveRule | None:
    """The rule as a RecursiveRule, if it reads its own relation once, in a conjunction."""
    if len(recursive_atoms(rule, [rule.head.name])) != 1:
        return None
    items = w.conjuncts(rule.body)
    atom = next((i for i in items if isinstance(i, s.Atom) and i.name == rule.head.name), None)
    if atom is None:
        return None
    return RecursiveRule(rule, atom, tuple([item for item in items if item is not atom]))


def kept(
    stratum: Stratum, rules: Sequence[CheckedRule], name: str, columns: Columns
) -> dict[str, Columns] | None:
    """The bound columns of each relation of the recursion, if every recursive rule keeps them."""
    places = {name: columns}
    waiting = [name]
    while waiting:
        at_hand = waiting.pop()
        for rule in rules:
            if rule.head.name != at_hand:
                continue
            wanted = [rule.head.args[at] for at in places[at_hand]]
            for atom in recursive_atoms(rule, stratum.relations):
                if not all(isinstance(arg, s.Var) and arg in atom.args for arg in wanted):
                    return None
                if not any(atom is item for item in w.conjuncts(rule.body)):
                    return None  # inside a negation or an aggregate
                known = places.get(atom.name)
                if known is None:
                    known = tuple([atom.args.index(arg) for arg in wanted])
                    if len(set(known)) < len(known):
                        return None
                    places[atom.name] = known
                    waiting.append(atom.name)
                if [atom.args[at] for at in known] != wanted:
                    return None
    return places


def handed_on(rules: Sequence[CheckedRule], name: str, columns: Columns) -> bool:
    """Whether each rule of a relation either keeps these columns, or hands them on and keeps the
    others: then the rows of a value that is reached belong to the value that was demanded."""
    arity = len(rules[0].head.args)
    others = tuple([at for at in range(arity) if at not in columns])
    for rule in rules:
        if rule.aggregated:
            return False
        if not recursive_atoms(rule, [name]):
            continue
        one = linear(rule)
        if one is None:
            return False
        if not one.keeps(columns) and not (one.keeps(others) and one.hands_on(columns)):
            return False
    return True


def narrower(columns: Columns) -> Iterator[Columns]:
    """All subsets of the columns, the larger first."""
    for size in range(len(columns), 0, -1):
        yield from combinations(columns, size)


def closures(stratum: Stratum, rules: Sequence[CheckedRule]) -> Iterator[list[CheckedRule]]:
    """Equivalent rules: as they are, and for a closure extended at its end, or at its start."""
    yield list(rules)
    if len(stratum.relations) > 1:
        return
    (name,) = stratum.relations
    exits = [rule for rule in rules if not recursive_atoms(rule, [name])]
    others = [rule for rule in rules if recursive_atoms(rule, [name])]
    if len(others[0].head.args) != 2 or any(rule.aggregated for rule in rules):
        return
    if not all(_distinct(rule.head) and _renamable(rule.body) for rule in exits):
        return
    steps = [step for rule in others for step in _steps(rule)]
    ends = {_canonical(rule.head.args, w.conjuncts(rule.body)) for rule in exits}
    if None in steps or {step for step in steps if step != DOUBLES} - ends:
        return
    if DOUBLES not in steps and set(steps) != ends:
        return
    yield [*exits, *(_grown(others[0], rule, at_end=True) for rule in exits)]
    yield [*exits, *(_grown(others[0], rule, at_end=False) for rule in exits)]


DOUBLES: tuple[s.Literal, ...] = ()


def _steps(rule: CheckedRule) -> Iterator[tuple[s.Literal, ...] | None]:
    """The step that a recursive rule adds to a path, in the form of `_canonical`; DOUBLES if it
    composes two paths."""
    if composition(rule) is not None:
        yield DOUBLES
        return
    one = linear(rule)
    if one is None or not _distinct(rule.head) or not _distinct(one.atom):
        yield None
        return
    x, z = rule.head.args
    first, second = one.atom.args
    if first == x and second != z:
        yield _canonical((second, z), one.rest)
    elif second == z and first != x:
        yield _canonical((x, first), one.rest)
    else:
        yield None


def _canonical(ends: Sequence[s.Expr], body: Sequence[s.Literal]) -> tuple[s.Literal, ...] | None:
    """A body that leads from one variable to another, with canonical names."""
    names: dict[str, str] = {}
    for node in (*ends, *body):
        for name in w.variables(node):
            names.setdefault(name, f"{len(names)}")
    if not all(_renamable(literal) for literal in body):
        return None
    return tuple([rename(literal, names) for literal in body])


def _grown(rule: CheckedRule, step: CheckedRule, at_end: bool) -> CheckedRule:
    """path(x, z) <- path(x, y), step(y, z); or path(x, z) <- step(x, y), path(y, z)."""
    x, z = rule.head.args
    (y, *_) = (arg for arg in recursive_atoms(rule, [rule.head.name])[0].args if arg not in (x, z))
    ends = (y, z) if at_end else (x, y)
    taken = {arg.name for arg in (x, y, z) if isinstance(arg, s.Var)}
    new = {name: f"{name}~0" if name in taken else name for name in step.types}
    for arg, end in zip(step.head.args, ends, strict=True):
        assert isinstance(arg, s.Var) and isinstance(end, s.Var)
        new[arg.name] = end.name
    inner = s.Atom(rule.head.name, (x, y) if at_end else (y, z), rule.head.span)
    assert step.body is not None
    items = [inner, *w.conjuncts(rename(step.body, new))]
    types = {**rule.types, **{new[name]: kind for name, kind in step.types.items()}}
    return CheckedRule(rule.head, w.conjunction(items, rule.span), types, rule.span)


def _renamable(body: s.Literal | None) -> bool:
    """Bodies with aggregates cannot be renamed, because aggregates refer to variables by name."""
    return body is not None and not w.all_of(s.Aggregate, body)


def _distinct(head: s.Atom) -> bool:
    names = {arg.name for arg in head.args if isinstance(arg, s.Var)}
    return len(names) == len(head.args)
