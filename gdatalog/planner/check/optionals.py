"""Optional bodies become alternatives: their matches, or nulls where they have none.

    p(x, y, k) <- A(x), optional { B(x, y), optional C(y, k) }.

is

    p(x, y, k) <- A(x), (B(x, y), (C(y, k) ; !C(y, k~2), k := null) ; !B(x, y~1), y, k := null).

where `:=` binds (`x in {null}` in the tree, which no program can write). The negation has a mark,
by which errors and `explain` tell it from one of the program.

An aggregate of a head ranges over all alternatives. Counts, sums and optima are those of each
alternative, put together; for other aggregates the bindings become a relation of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gdatalog.errors import Error, SafetyError
from gdatalog.parser import syntax as s
from gdatalog.planner.check.bindings import Names, bound_by
from gdatalog.planner.check.scopes import VALUE, local_name, rename, valued
from gdatalog.planner.check.walk import (
    all_of,
    alternatives_of,
    conjunction,
    conjuncts,
    contains_head_aggregate,
    disjunction,
    rebuild,
    variables,
    walk,
)
from gdatalog.planner.check.wording import show, text_of
from gdatalog.records import dataclass, replace

# How the aggregates of alternatives become that of all.
_TOGETHER = {"count": "sum", **{kind: kind for kind in ("sum", "min", "max", "any_value")}}


@dataclass(slots=True)
class Alternatives:
    """The alternatives of a rule's optional bodies, by `of`. `numbers`: of its local names."""

    numbers: Iterator[int]
    errors: list[Error]

    def of(self, node: Any, bound: Names = frozenset()) -> Any:
        """A literal or an expression without optional bodies. `bound`: the variables that the
        literals before it bind."""
        if isinstance(node, s.Optional):
            return self._optional(node, bound)
        if not isinstance(node, s.And):
            return rebuild(node, lambda part: self.of(part, bound))
        parts: list[Any] = []
        owners: dict[str, s.Optional] = {}  # by the variables that only they bind
        for item in node.items:
            self._check(item, owners)
            parts.append(self.of(item, bound))
            known = bound
            if not isinstance(item, s.Optional):
                known = bound_by(valued(item, None), bound | {VALUE.name}, aggregates=False)
            for part in _outside(s.Optional, item):
                owners |= dict.fromkeys(_names(part) - known, part)
            bound = known - owners.keys()
        return conjunction(parts, node.span)

    def _check(self, item: s.Literal, owners: dict[str, s.Optional]) -> None:
        """An error for an atom or an optional body that reads what an earlier one may leave null."""
        found = [item] if isinstance(item, s.Optional) else _outside(s.Atom, item)
        for part in found if owners else ():
            for name, var in variables(part, s.Not, s.Aggregate).items():
                if name in owners:
                    inner = text_of(owners[name].body)
                    what = text_of(part) if isinstance(part, s.Optional) else show(part).strip("`")
                    message = f"`{name}` may be null: only {show(owners[name])} binds it"
                    hint = f"nest what reads it: `optional {{ {inner}, {what} }}`; "
                    hint += f"or let an atom before bind `{name}`"
                    self.errors.append(SafetyError(message, var.span, hint=hint))
                    return

    def _optional(self, node: s.Optional, bound: Names) -> s.Literal:
        matches: s.Literal = self.of(node.body, bound)
        own = _names(node) - bound
        # there is a match or not, whatever optional bodies within it have
        rest = [item for item in conjuncts(node.body) if not isinstance(item, s.Optional)]
        if not rest:
            return matches
        exists = self.of(conjunction(rest, node.span), bound)
        if isinstance(exists, s.Not):
            exists = conjunction([s.Test(s.Const("bool", True)), exists], node.span)
        local = {name: local_name(name, self.numbers) for name in variables(exists)
                 if name not in bound}  # fmt: skip
        nulls = [
            s.Member(s.Var(name, node.span), (s.Null(None, node.span),), node.span)
            for name in sorted(own)
        ]
        none = s.Not(rename(exists, local), node.span, optional=True)
        return disjunction([matches, conjunction([none, *nulls], node.span)], node.span)


def _names(node: s.Optional) -> Names:
    return frozenset(variables(node, s.Not, s.Aggregate))


def _outside(kind: type[Any], node: s.Literal) -> list[Any]:
    """The nodes of a kind outside of negations and aggregates."""
    return [part for part in walk(node, s.Not, s.Aggregate) if type(part) is kind]


def divided(head: s.Atom, body: s.Literal) -> list[tuple[s.Atom, s.Literal]]:
    """The rules of a head that aggregates over alternatives."""
    aggregates = list(dict.fromkeys(all_of(s.HeadAggregate, head)))
    if not _TOGETHER.keys() >= {each.kind for each in aggregates}:
        every = tuple(variables(body, s.Not, s.Aggregate).values())
        rows = s.Atom(f"{head.name}~rows", every, head.span)
        return [(rows, body), (head, rows)]
    terms: list[Any] = []
    for arg in head.args:
        alone = [] if not variables(arg) else [arg]
        beside = variables(arg, s.HeadAggregate).values()
        terms += beside if contains_head_aggregate(arg) else alone
    terms = list(dict.fromkeys(terms))
    group = [
        term if isinstance(term, s.Var) else s.Var(f"term~{at}", term.span)
        for at, term in enumerate(terms)
    ]
    values = [s.Var(f"{each.kind}~{at}", each.span) for at, each in enumerate(aggregates)]
    whole = dict(zip(terms, group, strict=True))
    for each, value in zip(aggregates, values, strict=True):
        total: Any = s.HeadAggregate(_TOGETHER[each.kind], (value,), each.span)
        whole[each] = total

    def together(node: Any) -> Any:
        return whole[node] if node in whole else rebuild(node, together)

    found: list[tuple[s.Atom, s.Literal]] = []
    columns = (*group, *values)
    parts = s.Atom(f"{head.name}~parts", (s.Var("part~"), *columns), head.span)
    for number, items in enumerate(alternatives_of(body)):
        part: Any = s.Atom(f"{head.name}~part{number}", (*terms, *aggregates), head.span)
        tagged = replace(parts, args=(s.Const("int", number), *columns))
        found += [(part, conjunction(items, body.span)), (tagged, replace(part, args=columns))]
    return [*found, (replace(head, args=tuple(map(together, head.args))), parts)]
