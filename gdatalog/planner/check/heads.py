"""Heads: the names of their columns, and which rules and facts may share a head that aggregates.

A min or max is taken over all rules and facts of a relation, at the same columns: a rule with a
plain value there is rewritten to the min (or max) of that value. With any other aggregate, a
relation has one rule, without `;`, and no facts: the aggregate ranges over the bindings of one
body. A rule that is given again is the same rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from gdatalog.errors import Error, Note, Span, StratificationError
from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check.catalog import Declarations
from gdatalog.planner.check.walk import all_of, branching, contains_head_aggregate
from gdatalog.planner.check.wording import show
from gdatalog.records import replace

COMBINING = ("min", "max")


def check_heads(
    rules: Sequence[CheckedRule],
    facts: Mapping[str, Sequence[s.Atom]],
    catalog: Declarations,
    errors: list[Error],
) -> tuple[list[CheckedRule], set[str]]:
    """The rules, where all heads of a relation aggregate alike; and the relations with errors."""
    names = dict.fromkeys(rule.head.name for rule in rules if rule.aggregated)
    by_head: dict[str, list[CheckedRule]] = {name: [] for name in names}
    for rule in rules if names else ():
        if rule.head.name in names:
            by_head[rule.head.name].append(rule)
    columns: dict[str, dict[int, str]] = {}
    wrong: set[str] = set()
    repeated: set[int] = set()
    for name, group in by_head.items():
        others: list[CheckedRule | s.Atom] = [*group, *facts.get(name, ())[:1]]
        relation = catalog.relations[name]
        # a known relation that was declared may be empty; one that was not came from data
        loaded = relation.has_data and not relation.declared
        before = len(errors)
        single = next((rule for rule in group if _kinds(rule.head) - set(COMBINING)), None)
        if single is not None:
            same = {id(rule) for rule in group if rule is not single and rule == single}
            repeated |= same
            others = [other for other in others if id(other) not in same]
            _check_single(single, others, loaded, errors)
        elif len(others) > 1 or loaded:
            columns[name] = _check_combined(group, errors)
        if len(errors) > before:
            wrong.add(name)
    once = [rule for rule in rules if id(rule) not in repeated] if repeated else rules
    return [_combined(rule, columns.get(rule.head.name, {})) for rule in once], wrong


def aggregate_columns(head: s.Atom) -> dict[int, str]:
    """The columns that are an aggregate as a whole, and its kind."""
    args: tuple[s.Expr | s.HeadAggregate, ...] = head.args
    return {at: arg.kind for at, arg in enumerate(args) if isinstance(arg, s.HeadAggregate)}


def _kinds(head: s.Atom) -> set[str]:
    return {part.kind for part in all_of(s.HeadAggregate, head)}


def _check_single(
    rule: CheckedRule, others: Sequence[CheckedRule | s.Atom], loaded: bool, errors: list[Error]
) -> None:
    kind = sorted(_kinds(rule.head) - set(COMBINING))[0]
    aggregate = next(part for part in all_of(s.HeadAggregate, rule.head) if part.kind == kind)
    spans = [
        (other.span, isinstance(other, s.Atom) or other.body is None)
        for other in others
        if other is not rule
    ]
    check_single(rule.head, rule.body, rule.span, (kind, aggregate.span), spans, loaded, errors)


def check_single(
    head: s.Atom,
    body: s.Literal | None,
    span: Span,
    aggregate: tuple[str, Span],
    others: Sequence[tuple[Span, bool]],
    loaded: bool,
    errors: list[Error],
) -> None:
    """Errors for a rule that has to be its relation's only one, because of this kind of aggregate.
    `others`: where the relation's other rules and facts are, and whether these are facts."""
    name, (kind, place) = head.name, aggregate
    helper, text = f"{name}_of", " ".join(show(head).strip("`").split())
    hint = (
        f"define what is aggregated as a relation of its own, say `{helper}(...)`, with as many "
        f"rules as you need; then write one rule: `{text} <- {helper}(...).`"
    )
    for other, is_fact in others:
        what = "fact" if is_fact else "rule"
        message = f"`{name}` has another {what} beside the one that aggregates by {kind}"
        notes = [Note(f"this {kind} ranges over the bindings of its own body", span)]
        errors.append(StratificationError(message, other, hint=hint, notes=notes))
        return
    if loaded:
        message = f"`{name}` has data, and a rule that aggregates by {kind}"
        errors.append(StratificationError(message, span, hint=hint))
    branch = branching(body)
    if branch is not None:
        message = f"a rule that aggregates by {kind} cannot have `;`"
        notes = [Note(f"the {kind} is here", place)]
        errors.append(StratificationError(message, branch.span, hint=hint, notes=notes))


def _check_combined(group: Sequence[CheckedRule], errors: list[Error]) -> dict[int, str]:
    """The columns of a relation that several rules or facts take the min or max of."""
    first = next(rule for rule in group if rule.aggregated)
    columns = aggregate_columns(first.head)
    for rule in group:
        for arg in rule.head.args:
            if not isinstance(arg, s.HeadAggregate) and contains_head_aggregate(arg):
                message = f"{show(arg)} computes with an aggregate, and `{first.head.name}` "
                message += "has other rules or facts that it should combine with"
                hint = "take the bare aggregate here, and compute with it in another rule"
                errors.append(StratificationError(message, arg.span, hint=hint))
                return {}
        mine = aggregate_columns(rule.head)
        if rule.aggregated and mine != columns:
            differ = f"{_say(mine)} here, but {_say(columns)} there"
            message = f"the rules of `{first.head.name}` aggregate differently: {differ}"
            hint = "every rule of a relation takes the same min or max of the same column"
            notes = [Note(f"{_say(columns)} here", first.head.span)]
            errors.append(StratificationError(message, rule.head.span, hint=hint, notes=notes))
            return {}
    return columns


def _say(columns: Mapping[int, str]) -> str:
    return " and ".join([f"the {kind} of column {at + 1}" for at, kind in columns.items()])


def _combined(rule: CheckedRule, columns: Mapping[int, str]) -> CheckedRule:
    if not columns or rule.aggregated or rule.body is None:
        return rule
    args = list(rule.head.args)
    for at, kind in columns.items():
        args[at] = cast(s.Expr, s.HeadAggregate(kind, (args[at],), args[at].span))
    return replace(rule, head=replace(rule.head, args=tuple(args)))
