"""Optional bodies become alternatives: their matches, or nulls where they have none.

    p(x, y, k) <- A(x), optional { B(x, y), optional C(y, k) }.

is

    p(x, y, k) <- A(x), (B(x, y), (C(y, k) ; !C(y, k~2), k := null) ; !B(x, y~1), y, k := null).

where `:=` binds (`x in {null}` in the tree, which no program can write). The negation has a mark,
by which errors and `explain` tell it from one of the program.

An aggregate of a head ranges over all alternatives. Without a group it becomes one of the body.
With one, counts, sums and optima are those of each alternative, put together; for other aggregates
the bindings become a relation of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from gdatalog.errors import Error, SafetyError
from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check.bindings import Names, bound_by
from gdatalog.planner.check.scopes import VALUE, local_name, rename, valued
from gdatalog.planner.check.walk import (
    N,
    all_of,
    alternatives_of,
    branching,
    conjunction,
    conjuncts,
    contains_head_aggregate,
    count_variables,
    disjunction,
    names_in,
    no_match_of,
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
    """The alternatives of a rule's optional bodies, by `of`. `numbers`: of its local names. `uses`:
    how often each variable occurs in the rule; one that occurs in an optional body only is not
    bound where that has no match."""

    numbers: Iterator[int]
    errors: list[Error]
    uses: Counter[str]

    def of(self, node: Any, bound: Names = frozenset()) -> Any:
        """A literal or an expression without optional bodies. `bound`: the variables that the
        literals before it bind."""
        if isinstance(node, s.Optional):
            return self._optional(node, bound)
        if not isinstance(node, s.And):
            return rebuild(node, lambda part: self.of(part, bound))
        parts: list[Any] = []
        before: list[s.Literal] = []
        owners: dict[str, s.Optional] = {}  # by the variables that only they bind
        for item in node.items:
            self._check(item, owners)
            known = bound
            if all_of(s.Optional, item):
                binding = valued(conjunction(before, node.span), None)
                known = bound_by(binding, bound | {VALUE.name}, aggregates=False) - owners.keys()
                self._check_alike(item, before, known)
            parts.append(self.of(item, known))
            if not isinstance(item, s.Optional):
                before.append(item)
                known = bound_by(valued(item, None), known, aggregates=False)
            for part in _outside(s.Optional, item):
                owners |= dict.fromkeys(_names(part) - known, part)
        return conjunction(parts, node.span)

    def _check(self, item: s.Literal, owners: dict[str, s.Optional]) -> None:
        """An error for what binds variables and reads one that an optional body may leave null."""
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

    def _check_alike(self, item: s.Literal, before: list[s.Literal], bound: Names) -> None:
        """An error for a variable that only some alternatives before an optional body bind."""
        some = names_in([atom for each in before for atom in _outside(s.Atom, each)]) - bound
        for part in _outside(s.Optional, item):
            for name, var in variables(part, s.Not, s.Aggregate).items():
                if name in some:
                    message = f"only some alternatives before {show(part)} bind `{name}`"
                    hint = "write a rule for each combination of the alternatives"
                    self.errors.append(SafetyError(message, var.span, hint=hint))
                    return

    def _optional(self, node: s.Optional, bound: Names) -> s.Literal:
        matches: s.Literal = self.of(node.body, bound)
        inside = count_variables([node])
        own = [n for n in sorted(_names(node) - bound) if self.uses[n] > inside[n]]
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
            s.Member(s.Var(name, node.span), (s.Null(None, node.span),), node.span) for name in own
        ]
        none = s.Not(rename(exists, local), node.span, optional=True)
        return disjunction([matches, conjunction([none, *nulls], node.span)], node.span)


def _names(node: s.Optional) -> Names:
    return frozenset(variables(node, s.Not, s.Aggregate))


def _outside(kind: type[Any], node: s.Literal) -> list[Any]:
    """The nodes of a kind outside of negations and aggregates."""
    return [part for part in walk(node, s.Not, s.Aggregate) if type(part) is kind]


Rules = list[tuple[s.Atom, s.Literal]]


def rules_of(head: s.Atom, body: s.Literal, numbers: Iterator[int], errors: list[Error]) -> Rules:
    """The rules that a rule with optional bodies becomes."""
    uses = count_variables([head, body])
    aggregates: list[Any] = list(dict.fromkeys(all_of(s.HeadAggregate, head)))
    kinds = {each.kind for each in aggregates}
    branches = bool(_outside(s.Optional, body)) and branching(body) is None
    if kinds <= {"min", "max"} or not branches:
        return [(head, Alternatives(numbers, errors, uses).of(body))]
    terms = list(dict.fromkeys(_terms(head)))
    if terms and not kinds <= _TOGETHER.keys():
        every = variables(body, s.Not, s.Aggregate)
        rows = s.Atom(f"{head.name}~rows", tuple(every.values()), head.span)
        uses += Counter([*every])
        return [(rows, Alternatives(numbers, errors, uses).of(body)), (head, rows)]
    body = Alternatives(numbers, errors, uses).of(body)
    values = [s.Var(f"{each.kind}~{at}", each.span) for at, each in enumerate(aggregates)]
    if terms:
        return _of_parts(head, body, terms, dict(zip(aggregates, values, strict=True)))
    equations = [
        s.Compare(value, (("=", s.Aggregate(each.kind, each.targets, body, each.span)),), each.span)
        for each, value in zip(aggregates, values, strict=True)
    ]
    whole = replaced(head, dict(zip(aggregates, values, strict=True)))
    return [(whole, conjunction(equations, body.span))]


def _terms(head: s.Atom) -> Iterator[Any]:
    """What the group of a head is made of."""
    for arg in head.args:
        if contains_head_aggregate(arg):
            yield from variables(arg, s.HeadAggregate).values()
        elif variables(arg):
            yield arg


def _of_parts(
    head: s.Atom, body: s.Literal, terms: list[Any], aggregates: dict[Any, s.Var]
) -> Rules:
    """A rule for each alternative, and those that put their rows together. `aggregates`: with a
    variable for each."""
    group = [
        term if isinstance(term, s.Var) else s.Var(f"term~{at}", term.span)
        for at, term in enumerate(terms)
    ]
    columns = (*group, *aggregates.values())
    parts = s.Atom(f"{head.name}~parts", (s.Var("part~"), *columns), head.span)
    found: Rules = []
    for number, items in enumerate(alternatives_of(body)):
        part = s.Atom(f"{head.name}~part{number}", (*terms, *aggregates), head.span)
        found.append((part, conjunction(items, body.span)))
        tagged = replace(parts, args=(s.Const("int", number), *columns))
        found.append((tagged, replace(part, args=columns)))
    whole: dict[Any, Any] = dict(zip(terms, group, strict=True))
    for each, value in aggregates.items():
        whole[each] = s.HeadAggregate(_TOGETHER[each.kind], (value,), each.span)
    return [*found, (replaced(head, whole), parts)]


def replaced(node: N, whole: Mapping[Any, Any]) -> N:
    """The node with other parts in the places of some."""

    def change(part: Any) -> Any:
        return whole[part] if part in whole else rebuild(part, change)

    return rebuild(node, change)


def are_apart(rule: CheckedRule) -> bool:
    """Whether no two alternatives of a rule give the same row: it has them for optional bodies
    only, and rows tell which of these have a match."""
    groups: list[s.Or] = [] if rule.body is None else _outside(s.Or, rule.body)
    told = {arg.name for arg in rule.head.args if isinstance(arg, s.Var)}
    for group in groups:
        none = no_match_of(group)
        if none is None or len(group.items) > 2:
            return False
        inside = count_variables([none])
        if any(name not in told for name in inside if inside[name] < rule.uses[name]):
            return False
    return True
