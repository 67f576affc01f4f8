"""Work that is saved before rules are planned: constants are computed, copies not evaluated.

`x < 3600 * 24` becomes a comparison with a constant, whose selectivity the planner can estimate.
Expressions that fail, warn or create a string stay and are computed where the rule runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

from gdatalog.cpu_ops.functions import Scope, evaluate, to_values
from gdatalog.errors import EvaluationError
from gdatalog.parser.syntax import Atom, Chain, Const, Expr, FunctionCall, Param, Var
from gdatalog.plan.stratum import Copy, Fallback, Once
from gdatalog.plan.tuning import Unsuited
from gdatalog.planner.check import Checked, CheckedRule, Schema, Stratum
from gdatalog.planner.check.walk import LEAVES, rebuild, walk
from gdatalog.planner.normalise import Normaliser
from gdatalog.planner.rewrite import asked_for
from gdatalog.records import replace
from gdatalog.storage.keys import encode_value
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.relation import Relation
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.values import TypeName, Value


def folded(checked: Checked) -> Checked:
    """Returns the program with constant expressions replaced by their values."""
    strata = tuple(replace(s, rules=tuple(map(_rule, s.rules))) for s in checked.strata)
    return replace(checked, strata=strata)


def value_of(
    expr: Expr, params: Mapping[str, Value], types: Mapping[str, TypeName]
) -> Const | None:
    """The value of an expression of constants and parameters; None if it is not folded."""

    def given(node: Any) -> Any:
        if isinstance(node, Param):
            return Const(types[node.name], params[node.name], node.span)
        return rebuild(node, given)

    found = _fold(given(expr))
    return found if isinstance(found, Const) else None


def _rule(rule: CheckedRule) -> CheckedRule:
    nodes = [*rule.head.args, *([] if rule.body is None else [rule.body])]
    if not any(_foldable(part) for node in nodes for part in walk(node)):
        return rule
    head = replace(rule.head, args=tuple(map(_fold, rule.head.args)))
    return replace(rule, head=head, body=None if rule.body is None else _fold(rule.body))


def _foldable(node: Any) -> bool:
    """Whether a call has only constant arguments, or a chain begins with two constants."""
    match node:
        case FunctionCall(_, args):
            return all(isinstance(arg, Const) for arg in args)
        case Chain(first, ((_, second), *_)):
            return isinstance(first, Const) and isinstance(second, Const)
    return False


def _fold(node: Any) -> Any:
    if type(node) in LEAVES:
        return node
    node = rebuild(node, _fold)
    if isinstance(node, FunctionCall) and all(isinstance(arg, Const) for arg in node.args):
        return _computed(node) or node
    if isinstance(node, Chain):
        left, rest = node.first, node.rest
        while rest and isinstance(left, Const) and isinstance(rest[0][1], Const):
            op, right = rest[0]
            found = _computed(FunctionCall(op, (left, right), left.span.to(right.span)))
            if found is None:
                break
            left, rest = found, rest[1:]
        return Chain(left, rest, node.span) if rest else left
    return node


def _computed(call: FunctionCall) -> Const | None:
    """Evaluates a call of constants."""
    if any(isinstance(arg, Const) and arg.type == "symbol" for arg in call.args):
        return None
    expr = Normaliser({}, {}, {}, {}).expression(call, [])
    if expr.type == "symbol":
        return None
    scope = Scope(SymbolTable())
    try:
        keys, failed = evaluate(expr, _no_column, 1, scope)
    except EvaluationError:
        return None
    if failed is not None or scope.cautions:
        return None
    value = to_values(keys, expr.type)[0].item()
    if isinstance(value, float) and not isfinite(value):
        return None
    return Const(expr.type, value, call.span)


def _no_column(name: str) -> Array:
    raise AssertionError(name)


# Relations that are copies of others: `?1(x, y) <- path(x, y).` is not evaluated.


def copy_of(stratum: Stratum) -> Copy | None:
    """Detects that a stratum's only relation is a copy of another one: without data of its own, in
    the same order, and without columns except those that hold a requested constant."""
    if stratum.recursive or len(stratum.rules) != 1:
        return None
    (rule,) = stratum.rules
    args, body = rule.head.args, rule.body
    if not isinstance(body, Atom) or not args:
        return None
    left = [(at, arg) for at, arg in enumerate(body.args) if not isinstance(arg, Const | Param)]
    if tuple(arg for _, arg in left) != args:
        return None
    if len({arg.name for arg in args if isinstance(arg, Var)}) < len(args):
        return None
    if len(left) == len(body.args):
        return Copy(body.name)
    # Other constants may have been requested too.
    return Copy(body.name, Fallback((Unsuited(),), Once())) if asked_for(body.name) else None


def copied(
    copy: Copy, rule: CheckedRule, schema: Schema, relation: Relation, scope: Scope
) -> Relation | None:
    """Returns the copy; None if the relation has rows with other constants."""
    if copy.fallback is None:
        same = relation.columns == schema.columns
        return relation if same else relation.renamed(schema.columns)
    assert isinstance(rule.body, Atom)
    return _without_constants(relation, rule.body.args, schema, scope)


def _without_constants(
    whole: Relation, args: tuple[Expr, ...], schema: Schema, scope: Scope
) -> Relation | None:
    if not whole.store.on_host:
        return None
    columns = whole.store.as_they_are()
    kept = []
    for arg, column, kind in zip(args, columns, whole.types, strict=True):
        if isinstance(arg, Const | Param):
            value = arg.value if isinstance(arg, Const) else scope.params[arg.name]
            if not np.all(column == encode_value(value, kind, scope.symbols)):
                return None
        else:
            kept.append(column)
    distinct = whole.store.known >= KnownRows.DISTINCT
    return Relation.of_blocks(schema.columns, schema.types, [tuple(kept)], whole.at_most, distinct)
