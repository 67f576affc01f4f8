"""Walks over syntax trees: variables, literals, alternatives, substitution.

Some modules import this one as `w`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from functools import cache
from typing import Any, TypeVar

from gdatalog.errors import Error, Span
from gdatalog.parser import syntax as s
from gdatalog.records import fields, replace

Node = s.Expr | s.HeadAggregate | s.Literal
N = TypeVar("N", bound=Node)
K = TypeVar("K", bound=Node)
LEAVES = frozenset({s.Var, s.Const, s.Null, s.Param, s.Wildcard, s.Values, s.ListParam})
# The fields that hold the nodes directly below, in the order of the text. `rest` has pairs of an
# operator and a node.
_BELOW: dict[type, tuple[str, ...]] = {
    **dict.fromkeys((s.FunctionCall, s.Atom, s.Distinct), ("args",)),
    **dict.fromkeys((s.Compare, s.Chain), ("first", "rest")),
    **dict.fromkeys((s.And, s.Or), ("items",)),
    s.HeadAggregate: ("targets",),
    s.Window: ("args", "partition", "rest"),
    s.Cast: ("operand",),
    s.Aggregate: ("targets", "body"),
    s.Member: ("item", "values"),
    s.Test: ("expr",),
    **dict.fromkeys((s.Not, s.Optional), ("body",)),
    s.Range: ("item", "start", "stop", "step"),
}


def children(node: Node) -> list[Node]:
    """The nodes directly below, in the order of the text."""
    found: list[Node] = []
    for name in _BELOW.get(type(node), ()):
        part = getattr(node, name)
        if name == "rest":
            found += [side for _, side in part]
        elif isinstance(part, tuple):
            found += part
        else:
            found.append(part)
    return found


def walk(node: Node | None, *closed: type[Node]) -> list[Node]:
    """The node and all below it, in the order of the text, but nothing below `closed` nodes."""
    found: list[Node] = []
    waiting = [] if node is None else [node]
    while waiting:
        part = waiting.pop()
        found.append(part)
        kind = type(part)
        if kind in LEAVES or kind in closed:
            continue
        for name in _BELOW.get(kind, ())[::-1]:
            below = getattr(part, name)
            if name == "rest":
                for _, side in below[::-1]:
                    waiting.append(side)
            elif isinstance(below, tuple):
                waiting += below[::-1]
            else:
                waiting.append(below)
    return found


def without_places(parts: Iterable[Node]) -> str:
    """What tells trees apart, but for the places in the text, in which `parts` are all nodes."""
    found: list[object] = []
    for part in parts:
        kind: Any = type(part)
        found.append(kind.__name__)
        for name in _plain_fields(kind):
            found.append(getattr(part, name))
        for name in _BELOW.get(kind, ()):
            below = getattr(part, name)
            if name == "rest":
                found.append([op for op, _ in below])
            elif isinstance(below, tuple):
                found.append(len(below))
    return repr(found)


@cache
def _plain_fields(kind: type[Any]) -> tuple[str, ...]:
    """The fields that hold neither nodes below nor places."""
    below = _BELOW.get(kind, ())
    return tuple([field.name for field in fields(kind) if field.repr and field.name not in below])


def all_of(kind: type[K], *nodes: Node | None) -> list[K]:
    """The nodes of a kind that these are or have below them, in the order of the text."""
    found: list[K] = []
    for node in nodes:
        if type(node) not in LEAVES or kind in LEAVES:
            for part in walk(node):
                if type(part) is kind:
                    found.append(part)
    return found


def conjuncts(literal: s.Literal | None) -> tuple[s.Literal, ...]:
    """The literals of a conjunction; a `;` and a negation are one literal."""
    if literal is None:
        return ()
    return literal.items if isinstance(literal, s.And) else (literal,)


def conjunction(items: Iterable[s.Literal], span: Span) -> s.Literal:
    """One literal that holds if all of these hold; an And is never nested in another."""
    flat: list[s.Literal] = []
    for item in items:
        flat.extend(item.items if isinstance(item, s.And) else (item,))
    return flat[0] if len(flat) == 1 else s.And(tuple(flat), span)


def disjunction(items: Iterable[s.Literal], span: Span) -> s.Literal:
    flat: list[s.Literal] = []
    for item in items:
        flat.extend(item.items if isinstance(item, s.Or) else (item,))
    return s.Or(tuple(flat), span)


def variables(node: Node | None, *closed: type[Node]) -> dict[str, s.Var]:
    """Every variable that occurs, with its first occurrence, in the order of the text; none below
    `closed` nodes."""
    found: dict[str, s.Var] = {}
    for part in walk(node, *closed):
        if type(part) is s.Var:
            found.setdefault(part.name, part)
    return found


def names_in(nodes: Iterable[Node | None]) -> frozenset[str]:
    """The names of all variables that occur."""
    return frozenset([name for node in nodes for name in variables(node)])


def count_variables(nodes: Iterable[Node | None]) -> Counter[str]:
    """The number of occurrences of each variable."""
    found: Counter[str] = Counter()
    for var in all_of(s.Var, *nodes):
        found[var.name] += 1
    return found


def branching(literal: s.Literal | None) -> s.Or | None:
    """The first `;` outside negations and aggregates."""
    match literal:
        case s.Or():
            return literal
        case s.And(items):
            return next((found for item in items if (found := branching(item))), None)
        case _:
            return None


def no_match_of(group: s.Or) -> s.Not | None:
    """What says that an optional body has no match, if the alternatives are of one."""
    for item in conjuncts(group.items[-1]):
        if isinstance(item, s.Not) and item.optional:
            return item
    return None


def contains_head_aggregate(node: Node) -> bool:
    return type(node) not in LEAVES and bool(all_of(s.HeadAggregate, node))


def rebuild(node: N, change: Callable[[Any], Any]) -> N:
    """The same node with `change` applied to each node directly below it, in the order of the
    text."""
    return with_children(node, list(map(change, children(node))))


def with_children(node: N, below: Sequence[Any]) -> N:
    """The same node with other nodes directly below it, in the order of the text."""
    new: dict[str, Any] = {}
    coming = iter(below)
    for name in _BELOW.get(type(node), ()):
        part = getattr(node, name)
        if name == "rest":
            new[name] = tuple([(op, next(coming)) for op, _ in part])
        elif isinstance(part, tuple):
            new[name] = tuple([next(coming) for _ in part])
        else:
            new[name] = next(coming)
    return replace(node, **new) if new else node


def reached(start: str, reads: Callable[[str], Iterable[str]]) -> set[str]:
    """The names that a name reads, directly or through others, including itself in a cycle."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = set(reads(waiting.pop())) - found
        found |= new
        waiting += new
    return found


def connected(sets: Iterable[Set[str]]) -> list[list[int]]:
    """The positions of the sets, grouped: sets that share names, directly or through others."""
    parts: list[tuple[set[str], list[int]]] = []
    for at, names in enumerate(sets):
        own, numbers, apart = set(names), [at], []
        for part in parts:
            if part[0].isdisjoint(own):
                apart.append(part)
            else:
                own |= part[0]
                numbers += part[1]
        parts = [*apart, (own, numbers)]
    return sorted([sorted(numbers) for _, numbers in parts])


MOST_ALTERNATIVES = 4096  # alternatives of one body


def alternatives_of(literal: s.Literal) -> list[list[s.Literal]]:
    """The literal in disjunctive normal form; negations are kept as they are."""
    match literal:
        case s.Or():
            return [parts for item in literal.items for parts in alternatives_of(item)]
        case s.And():
            product: list[list[s.Literal]] = [[]]
            for item in literal.items:
                choices = alternatives_of(item)
                if len(product) * len(choices) > MOST_ALTERNATIVES:
                    raise Error(
                        f"this body has more than {MOST_ALTERNATIVES} alternatives",
                        literal.span,
                        hint="give a group with `;` a name: a relation of its own",
                    )
                if len(choices) == 1:  # a body may have very many literals
                    for left in product:
                        left += choices[0]
                    continue
                product = [[*left, *right] for left in product for right in choices]
            return product
        case s.Not(body=s.Not() as inner):
            return alternatives_of(inner.body)
        case _:
            return [[literal]]
