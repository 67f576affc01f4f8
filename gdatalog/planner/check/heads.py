"""Aggregated heads: which rules and facts may share a relation whose head aggregates.

With min and max they all do, at the same columns: a rule that has a plain value there counts as
the min (or max) of that value, and is rewritten so. With any other aggregate a relation has one
rule, without `;`, and no facts: the aggregate ranges over the bindings of one body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from gdatalog.errors import Error, Note, StratificationError
from gdatalog.parser.syntax import And, Atom, Expr, HeadAggregate, Literal, Or
from gdatalog.planner.check.catalog import Catalog
from gdatalog.planner.check.checked import CheckedRule
from gdatalog.planner.check.walk import contains_head_aggregate, walk
from gdatalog.planner.check.words import show
from gdatalog.records import replace

COMBINING = ("min", "max")


def check_heads(
    rules: Sequence[CheckedRule],
    facts: Mapping[str, Sequence[Atom]],
    catalog: Catalog,
    errors: list[Error],
) -> tuple[list[CheckedRule], set[str]]:
    """The rules, with the heads of an aggregated relation all alike; the relations with errors."""
    by_head: dict[str, list[CheckedRule]] = {}
    for rule in rules:
        if rule.aggregated:
            by_head.setdefault(rule.head.name, [])
    if not by_head:
        return list(rules), set()
    for rule in rules:
        if rule.head.name in by_head:
            by_head[rule.head.name].append(rule)
    columns: dict[str, dict[int, str]] = {}
    wrong: set[str] = set()
    for name, group in by_head.items():
        others: list[CheckedRule | Atom] = [*group, *facts.get(name, ())[:1]]
        relation = catalog.relations[name]
        # a known relation that was declared may be empty; one that was not came from data
        loaded = relation.has_data and not relation.declared
        before = len(errors)
        single = next((rule for rule in group if _kinds(rule.head) - set(COMBINING)), None)
        if single is not None:
            _check_single(single, others, loaded, errors)
        elif len(others) > 1 or loaded:
            columns[name] = _check_combined(group, errors)
        if len(errors) > before:
            wrong.add(name)
    return [_combined(rule, columns.get(rule.head.name, {})) for rule in rules], wrong


def aggregate_columns(head: Atom) -> dict[int, str]:
    """The columns that are nothing but an aggregate, and which."""
    args: tuple[Expr | HeadAggregate, ...] = head.args
    return {at: arg.kind for at, arg in enumerate(args) if isinstance(arg, HeadAggregate)}


def _kinds(head: Atom) -> set[str]:
    return {part.kind for part in walk(head) if isinstance(part, HeadAggregate)}


def _check_single(
    rule: CheckedRule, others: Sequence[CheckedRule | Atom], loaded: bool, errors: list[Error]
) -> None:
    name = rule.head.name
    kind = sorted(_kinds(rule.head) - set(COMBINING))[0]
    helper = f"{name}_of"
    hint = (
        f"put what is aggregated in a relation of its own, say `{helper}(...)`, by as many rules "
        f"as it takes; then the one rule is `{' '.join(_text(rule.head))} <- {helper}(...).`"
    )
    aggregate = next(
        part for part in walk(rule.head) if isinstance(part, HeadAggregate) and part.kind == kind
    )
    for other in others:
        if other is not rule:
            what = "fact" if isinstance(other, Atom) or other.body is None else "rule"
            errors.append(
                StratificationError(
                    f"`{name}` has another {what} beside the one that aggregates by {kind}",
                    other.span,
                    hint=hint,
                    notes=[
                        Note(f"this {kind} ranges over the bindings of its own body", rule.span)
                    ],
                )
            )
            return
    if loaded:
        message = f"`{name}` has data, and a rule that aggregates by {kind}"
        errors.append(StratificationError(message, rule.span, hint=hint))
    branch = None if rule.body is None else _branching(rule.body)
    if branch is not None:
        errors.append(
            StratificationError(
                f"a rule that aggregates by {kind} cannot have `;`",
                branch.span,
                hint=hint,
                notes=[Note(f"the {kind} is here", aggregate.span)],
            )
        )


def _text(head: Atom) -> list[str]:
    return show(head).strip("`").split()


def _branching(literal: Literal) -> Or | None:
    match literal:
        case Or():
            return literal
        case And(items):
            return next((found for item in items if (found := _branching(item))), None)
        case _:
            return None


def _check_combined(group: Sequence[CheckedRule], errors: list[Error]) -> dict[int, str]:
    """The columns of a relation that several rules or facts take the min or max of."""
    first = next(rule for rule in group if rule.aggregated)
    columns = aggregate_columns(first.head)
    for rule in group:
        for arg in rule.head.args:
            if not isinstance(arg, HeadAggregate) and contains_head_aggregate(arg):
                errors.append(
                    StratificationError(
                        f"{show(arg)} computes with an aggregate, and `{first.head.name}` "
                        "has other rules or facts that it should combine with",
                        arg.span,
                        hint="take the bare aggregate here, and compute with it in another rule",
                    )
                )
                return {}
        mine = aggregate_columns(rule.head)
        if rule.aggregated and mine != columns:
            errors.append(
                StratificationError(
                    f"the rules of `{first.head.name}` aggregate differently: "
                    f"{_say(mine)} here, but {_say(columns)} there",
                    rule.head.span,
                    hint="every rule of a relation takes the same min or max of the same column",
                    notes=[Note(f"{_say(columns)} here", first.head.span)],
                )
            )
            return {}
    return columns


def _say(columns: Mapping[int, str]) -> str:
    return " and ".join(f"the {kind} of column {at + 1}" for at, kind in columns.items())


def _combined(rule: CheckedRule, columns: Mapping[int, str]) -> CheckedRule:
    if not columns or rule.aggregated or rule.body is None:
        return rule
    args = list(rule.head.args)
    for at, kind in columns.items():
        args[at] = cast(Expr, HeadAggregate(kind, (args[at],), args[at].span))
    return replace(rule, head=replace(rule.head, args=tuple(args)))
