"""Heads: the names of their columns, and which rules and facts may share a head that aggregates.

A min or max is taken over all rules and facts of a relation, at the same columns: a rule with a
plain value there is rewritten to the min (or max) of that value. With any other aggregate, a
relation has one rule, without `;`, and no facts: the aggregate ranges over the bindings of one
body. A rule that is given again is the same rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from gdatalog.errors import Error, NameResolutionError, Note, StratificationError
from gdatalog.parser import syntax as s
from gdatalog.parser.format import format_node
from gdatalog.plan.functions import AGGREGATES
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check.catalog import Declarations
from gdatalog.planner.check.walk import all_of, contains_head_aggregate
from gdatalog.planner.check.wording import did_you_mean, either, own_name, show
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
    name = rule.head.name
    kind = sorted(_kinds(rule.head) - set(COMBINING))[0]
    helper, text = f"{name}_of", " ".join(show(rule.head).strip("`").split())
    hint = (
        f"define what is aggregated as a relation of its own, say `{helper}(...)`, with as many "
        f"rules as you need; then write one rule: `{text} <- {helper}(...).`"
    )
    aggregate = next(part for part in all_of(s.HeadAggregate, rule.head) if part.kind == kind)
    for other in others:
        if other is not rule:
            what = "fact" if isinstance(other, s.Atom) or other.body is None else "rule"
            message = f"`{name}` has another {what} beside the one that aggregates by {kind}"
            notes = [Note(f"this {kind} ranges over the bindings of its own body", rule.span)]
            errors.append(StratificationError(message, other.span, hint=hint, notes=notes))
            return
    if loaded:
        message = f"`{name}` has data, and a rule that aggregates by {kind}"
        errors.append(StratificationError(message, rule.span, hint=hint))
    branch = None if rule.body is None else _branching(rule.body)
    if branch is not None:
        message = f"a rule that aggregates by {kind} cannot have `;`"
        notes = [Note(f"the {kind} is here", aggregate.span)]
        errors.append(StratificationError(message, branch.span, hint=hint, notes=notes))


def _branching(literal: s.Literal) -> s.Or | None:
    match literal:
        case s.Or():
            return literal
        case s.And(items):
            return next((found for item in items if (found := _branching(item))), None)
        case _:
            return None


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


# Names of columns in heads.
#
# A relation without a `.decl` takes the names of its columns from a head: a variable's name,
# `sum_x` for `sum(x)`, `c0`, `c1` by its place for a constant, and the text of other expressions.
#
# A head may name its columns: `p(x, total = sum(y)) <- ...`. Heads of one relation match by name:
# their arguments are put in the relation's order.


def names_of_columns(heads: Iterable[s.Atom]) -> dict[str, tuple[str, ...]]:
    """The column names of each relation: from its first head that has only different variables and
    aggregates, otherwise from its first head."""
    found: dict[str, tuple[str, ...]] = {}
    plain: set[str] = set()
    for head in heads:
        best = head.name not in plain and _is_plain(head)
        if best or head.name not in found:
            found[head.name] = names_of_head(head)
        if best:
            plain.add(head.name)
    return found


def names_of_head(head: s.Atom) -> tuple[str, ...]:
    names: list[str] = []
    for at, arg in enumerate(head.args):
        if isinstance(arg, s.Var):
            names.append(own_name(arg.name))
        elif (aggregate := _aggregate(arg)) is not None:
            kind, targets = aggregate
            target = targets[0] if len(targets) == 1 else None
            names.append(f"{kind}_{target.name}" if isinstance(target, s.Var) else kind)
        elif isinstance(arg, s.Const | s.Param):
            names.append(f"c{at}")
        else:
            names.append(format_node(arg))
    return _unique(names)


def _aggregate(arg: s.Expr | s.HeadAggregate) -> tuple[str, tuple[s.Expr, ...]] | None:
    """The kind and targets of an argument that aggregates, before and after name resolution."""
    if isinstance(arg, s.HeadAggregate):
        return arg.kind, arg.targets
    if isinstance(arg, s.FunctionCall) and arg.name in AGGREGATES:
        return arg.name, arg.args
    return None


def _is_plain(head: s.Atom) -> bool:
    names = [arg.name for arg in head.args if isinstance(arg, s.Var)]
    others = [arg for arg in head.args if not isinstance(arg, s.Var) and _aggregate(arg) is None]
    return not others and len(set(names)) == len(names)


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    taken: set[str] = set(names)
    found: list[str] = []
    for name in names:
        new, number = name, 2
        while new in found or (new != name and new in taken):
            new, number = f"{name}_{number}", number + 1
        found.append(new)
    return tuple(found)


def place_named(
    program: s.Program, catalog: Declarations, errors: list[Error]
) -> tuple[s.Program, dict[str, tuple[str, ...]]]:
    """The program with all arguments of heads by their place; the columns of relations whose
    heads name some: the declared ones, or those of the first head."""
    rules = [statement for statement in program.statements if isinstance(statement, s.Rule)]
    named = {head.name for rule in rules for head in rule.heads if head.columns}
    if not named:
        return program, {}
    columns: dict[str, tuple[str, ...]] = {}
    for rule in rules:
        for head in rule.heads:
            if head.name in named and head.name not in columns:
                relation = catalog.relations[head.name]
                schema = relation.schema
                columns[head.name] = _first_columns(head) if schema is None else schema.columns
    statements = []
    for statement in program.statements:
        if isinstance(statement, s.Rule) and any(head.columns for head in statement.heads):
            before = len(errors)
            heads = tuple([_placed(head, columns[head.name], errors) for head in statement.heads])
            if len(errors) > before:
                continue
            statement = replace(statement, heads=heads)
        statements.append(statement)
    return s.Program(tuple(statements)), columns


def _first_columns(head: s.Atom) -> tuple[str, ...]:
    """Those of a head that decides what its relation's columns are."""
    places = len(head.args) - len(head.columns)
    by_place = names_of_head(replace(head, args=head.args[:places], columns=()))
    return (*by_place, *(column.name for column in head.columns))


def _placed(head: s.Atom, columns: tuple[str, ...], errors: list[Error]) -> s.Atom:
    places = len(head.args) - len(head.columns)
    given: dict[str, s.Expr] = {}
    before = len(errors)

    def wrong(message: str, column: s.Var | s.Atom, hint: str | None) -> None:
        errors.append(NameResolutionError(message, column.span, hint=hint))

    for column, arg in zip(head.columns, head.args[places:], strict=True):
        name = column.name
        if name in given or name in columns[:places]:
            wrong(f"the column `{name}` of `{head.name}` is given twice", column, None)
        elif name not in columns:
            has = f"its columns are {either([f'`{c}`' for c in columns], 'and')}"
            hint = did_you_mean(name, columns) or has
            wrong(f"`{head.name}` has no column `{name}`", column, hint)
        given[name] = arg
    missing = [name for name in columns[places:] if name not in given]
    if missing and len(errors) == before:
        which = either([f"`{name}`" for name in missing], "and")
        hint = "each head of a relation gives all of its columns"
        wrong(f"this head leaves out {which} of `{head.name}`", head, hint)
    if len(errors) > before:
        return head
    args = (*head.args[:places], *(given[name] for name in columns[places:]))
    return replace(head, args=args, columns=())
