"""Constant folding: expressions of constants are evaluated before rules are planned.

`x < 3600 * 24` becomes a comparison with a constant, whose selectivity the planner can estimate.
Expressions that fail, warn or create a string stay in the rule, which evaluates them when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from gdatalog.cpu_ops.expressions import Scope, evaluate, to_values
from gdatalog.errors import EvaluationError
from gdatalog.parser.syntax import Chain, Const, Expr, FunctionCall, Param
from gdatalog.planner.check import Checked, CheckedRule
from gdatalog.planner.check.walk import LEAVES, rebuild
from gdatalog.planner.normalise import Normaliser
from gdatalog.records import replace
from gdatalog.storage.symbols import SymbolTable
from gdatalog.values import TypeName, Value

_CALLS = (FunctionCall, Chain)


def fold_constants(checked: Checked) -> Checked:
    """Constant expressions are replaced by their values."""
    rules = [rule for stratum in checked.strata for rule in stratum.rules]
    calls = [part for rule in rules for part in rule.parts if isinstance(part, _CALLS)]
    if not any(map(_foldable, calls)):
        return checked
    strata = tuple([replace(s, rules=tuple(map(_rule, s.rules))) for s in checked.strata])
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
    expr = Normaliser({}, {}, {}).expression(call, [])
    if expr.type == "symbol":
        return None
    scope = Scope(SymbolTable())
    try:
        keys, failed = evaluate(expr, {}, 1, scope)
    except EvaluationError:
        return None
    if failed is not None or scope.cautions:
        return None
    value = to_values(keys, expr.type)[0].item()
    if isinstance(value, float) and not isfinite(value):
        return None
    return Const(expr.type, value, call.span)
