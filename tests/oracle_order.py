"""What a conjunction binds, and in which order the oracle evaluates it.

Atoms come first: a variable that an atom binds is never computed. Then generators and equations
as their variables allow, tests as soon as they can be made, and aggregates when all else that
can be bound is: they share with the branch what it binds without them, but for the variables of
what they aggregate that their own body binds. Optional bodies come last, and then what reads a
variable that only they bind: not one that is bound by what stands before them.
"""

from __future__ import annotations

from typing import Any

from gdatalog.parser.syntax import Atom, Compare, Expr, FunctionCall, Member, Null, Var
from tests.oracle_normal import Gen, Neg, Opt, RangeOf, names


def find_order(branch: list[Any], bound: set[str], wanted: set[str]) -> list[tuple[Any, Any]]:
    others = [item for item in branch if not isinstance(item, Gen)]
    without = _binds(others, bound)
    gens: dict[int, tuple[set[str], set[str]]] = {}
    final = set(without)
    # A variable that some aggregate's value binds outside is another than the one inside.
    valued = _binds(others, without | {item.name for item in branch if isinstance(item, Gen)})
    for item in branch:
        if isinstance(item, Gen):
            exports = (_exportable(item) - valued) & (names(others) | wanted)
            gens[id(item)] = (without & names(item.body)) - _own(item, without), exports
            final |= exports | {item.name}
    final = _binds(others, final)

    theirs: set[str] = set()
    for at, item in enumerate(branch):
        if isinstance(item, Opt):
            before = [part for part in branch[:at] if not isinstance(part, Opt)]
            known = bound | {part.name for part in before if isinstance(part, Gen)}
            theirs |= bound_within(item) - _binds(before, known)

    left: list[Any] = list(branch)
    order: list[tuple[Any, Any]] = []

    def take(item: Any, extra: Any, binds: set[str]) -> None:
        left.remove(item)
        order.append((item, extra))
        bound.update(binds)
        take_tests()

    def take_tests() -> None:
        for test in [item for item in left if _is_test(item, bound, final)]:
            left.remove(test)
            order.append((test, None))

    take_tests()
    while atoms := [item for item in left if isinstance(item, Atom)]:
        atom = max(atoms, key=lambda a: len(names(a) & bound))
        take(atom, None, names(atom))
    while left:
        optional = [item for item in left if isinstance(item, Opt)]
        now = [item for item in left if not optional or theirs.isdisjoint(_needs(item, gens))]
        ready = [(i, extra) for i in now if (extra := _assigns(i, bound)) is not None]
        waiting = [item for item in now if isinstance(item, Gen)]
        if ready:
            # A generator before an equation: a variable that is generated is not computed.
            item, extra = min(ready, key=lambda found: isinstance(found[0], Compare))
            take(item, extra, {extra if isinstance(extra, str) else extra[0]})
        elif waiting:
            shared, exports = gens[id(waiting[0])]
            take(waiting[0], (shared, exports), {waiting[0].name} | exports)
        elif optional:  # all, before what reads one of them
            left = [item for item in left if item not in optional]
            order += [(item, bound_within(item)) for item in optional]
            bound |= theirs
            take_tests()
        else:
            raise ValueError(f"unsafe: {left}")
    return order


def _needs(item: Any, gens: dict[int, tuple[set[str], set[str]]]) -> set[str]:
    return gens[id(item)][0] if isinstance(item, Gen) else names(item)


def bound_within(item: Opt) -> set[str]:
    """What the branches of an optional body bind, or read."""
    found: set[str] = set()
    for branch in item.body:
        for part in branch:
            if isinstance(part, Opt):
                found |= bound_within(part)
            elif isinstance(part, Gen):
                found |= _exportable(part)
            elif not isinstance(part, Neg):
                found |= names(part)
    return {name for name in found if "%" not in name}


def _own(gen: Gen, without: set[str]) -> set[str]:
    """The variables of the aggregated expressions that the aggregate's own body binds."""
    found = set(gen.aggregated)
    for branch in gen.body:
        items = [item for item in branch if not isinstance(item, Gen)]
        found &= _binds(items, without - gen.aggregated)
    return found


def _exportable(gen: Gen) -> set[str]:
    """The variables that a min or max binds in its body."""
    if gen.kind not in ("min", "max"):
        return set()
    found: set[str] = set()
    for branch in gen.body:
        for item in branch:
            if isinstance(item, Gen):
                found |= _exportable(item)
            elif not isinstance(item, Neg):
                found |= names(item)
    return found


def _binds(items: list[Any], bound: set[str]) -> set[str]:
    """The names that are bound when every item has bound what it can."""
    bound = set(bound)
    for item in items:
        if isinstance(item, Atom):
            bound |= names(item)
        elif isinstance(item, Opt):
            bound |= bound_within(item)
    while True:
        found = {extra for i in items if (extra := _assigned(i, bound)) is not None}
        if not found:
            return bound
        bound |= found


def _assigned(item: Any, bound: set[str]) -> str | None:
    extra = _assigns(item, bound)
    return extra if extra is None or isinstance(extra, str) else extra[0]


def _assigns(item: Any, bound: set[str]) -> Any:
    """What the item binds now: a name, or for an equation (name, path to it, other side)."""
    match item:
        case Compare(left, (("=", right),)):
            for path, value in ((left, right), (right, left)):
                name = None if isinstance(value, Null) else _solvable(path, bound)
                if name is not None and names(value) <= bound:
                    return name, path, value
        case Member(Var() as path, values) if names(values) <= bound:
            return _solvable(path, bound)
        case RangeOf(Var() as path, args) if names(args) <= bound:
            return _solvable(path, bound)
    return None


def _solvable(path: Expr, bound: set[str]) -> str | None:
    """The unbound variable of an expression that `+` and `-` lead to, and that occurs once."""
    if isinstance(path, Var):
        known = path.name in bound or path.name.startswith("%agg")
        return None if known else path.name
    if isinstance(path, FunctionCall) and path.name in ("+", "-"):
        open_sides = [arg for arg in path.args if not names(arg) <= bound]
        if len(open_sides) == 1:
            return _solvable(open_sides[0], bound)
    return None


def _is_test(item: Any, bound: set[str], final: set[str]) -> bool:
    if isinstance(item, (Atom, Gen, Opt)):
        return False
    if isinstance(item, Neg):
        return names(item) & final <= bound
    return names(item) <= bound
