"""Expressions over what may be null, and aggregates that skip nulls, as `nulls.py` writes them.

An expression becomes one that is valid where some others, its conditions, are not null; elsewhere
it is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from math import inf
from typing import Any

from gdatalog.decimals import DECIMALS, LIMIT
from gdatalog.parser import syntax as s
from gdatalog.plan.functions import UNLESS_NULL, type_of_result
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check import walk as w
from gdatalog.records import replace
from gdatalog.values import FIRST_DAY, INT_MIN, TypeName, Value

Known = dict[str, bool]  # the variables that are bound, and whether each may be null
Exprs = tuple[s.Expr, ...]
Lifted = tuple[Any, Exprs]  # an expression, and its conditions

_LEAST: dict[TypeName, Value] = {
    "int": INT_MIN, "float": -inf, "bool": False, "symbol": "", "timestamp": INT_MIN,
    "date": FIRST_DAY, "duration": INT_MIN, **dict.fromkeys(DECIMALS, 1 - LIMIT),
}  # fmt: skip


class NullExpressions:
    """The expressions of a rule."""

    def __init__(self, rule: CheckedRule, params: Mapping[str, TypeName]) -> None:
        self.own, self.params = rule, params
        self.types = dict(rule.types)
        self._numbers = count(1)
        # Of the conjunction at hand: its aggregates that skip nulls, which become equations.
        self.beside: list[s.Literal] = []
        self._skipped: dict[s.Aggregate, Lifted] = {}

    def within(self, body: s.Literal, outer: Known) -> tuple[s.Literal, Known]:
        """A body with its tests, and what is known behind it; `outer`: what is known before."""
        around = self.beside, self._skipped
        self.beside, self._skipped = [], {}
        try:
            return self.conjunction(w.conjuncts(body), outer, body)
        finally:
            self.beside, self._skipped = around

    def conjunction(
        self, given: Sequence[s.Literal], outer: Known, body: s.Literal
    ) -> tuple[s.Literal, Known]:
        raise NotImplementedError

    def lift(self, expr: Any, known: Known) -> Lifted:
        """An expression, and what must not be null for it to be valid: else it is null."""
        match expr:
            case s.Var(name):
                return expr, (expr,) if known.get(name) else ()
            case s.Null():
                return expr, (expr,)
            case s.FunctionCall("coalesce", args):
                return self._first([self.lift(arg, known) for arg in args], expr)
            case s.FunctionCall("if", (test, *values)):
                return self._choice(self.lift(test, known), values, known, expr)
            case s.FunctionCall("=" | "!=", (s.Null() as null, side) | (side, s.Null() as null)):
                return replace(expr, args=(self.whole(self.lift(side, known)), null)), ()
            case s.FunctionCall("=" | "!=" | "<" | "<=" | ">" | ">="):  # a condition of `if`
                return self._holds(self._strict(expr, known)), ()
            case s.FunctionCall() | s.Chain():
                return self._strict(expr, known)
            case s.HeadAggregate():
                return self._aggregated(expr, [self.lift(each, known) for each in expr.targets])
            case s.Aggregate():
                return self._aggregate(expr, known)
        return expr, ()

    def _strict(self, expr: s.FunctionCall | s.Chain, known: Known) -> Lifted:
        """A function of a null is null."""
        parts = [self.lift(part, known) for part in w.children(expr)]
        conds = dict.fromkeys(cond for _, own in parts for cond in own)
        return w.with_children(expr, [part for part, _ in parts]), tuple(conds)

    def _choice(
        self, test: Lifted, values: Sequence[s.Expr], known: Known, call: s.FunctionCall
    ) -> Lifted:
        """`if`: a test that is null does not hold."""
        condition = self._holds(test)
        lifted = [self.lift(value, known) for value in values]
        parts = [self.whole(each) for each in lifted]
        if not any(conds for _, conds in lifted):
            return replace(call, args=(condition, *parts)), ()
        found = replace(call, args=(condition, *parts))
        return found, (found,)

    def _holds(self, test: Lifted) -> Any:
        """A condition that does not hold where it is null."""
        if not test[1]:
            return test[0]
        no, span = s.Const("bool", False), test[0].span
        return s.FunctionCall("coalesce", (self.whole(test), no), span)

    def _first(self, args: Sequence[Lifted], call: s.FunctionCall) -> Lifted:
        """`coalesce` of these."""
        left = []
        for arg in args:
            left.append(self.whole(arg))
            if not arg[1]:
                break
        found = replace(call, args=tuple(left)) if len(left) > 1 else left[0]
        return found, () if not args[len(left) - 1][1] else (found,)

    def whole(self, lifted: Lifted) -> Any:
        """The expression as a value, null where something that it needs is."""
        expr, conds = lifted
        if not conds or (expr,) == conds:
            return expr
        return s.FunctionCall(UNLESS_NULL, (expr, *conds), expr.span)

    def type_of(self, expr: Any) -> TypeName:
        match expr:
            case s.Var(name):
                return self.types[name]
            case s.Param(name):
                return self.params[name]
            case s.Chain(first, rest):
                kind = self.type_of(first)
                for op, operand in rest:
                    kinds = [kind, self.type_of(operand)]
                    kind = type_of_result(op, kinds)
                return kind
            case s.FunctionCall(name, args):
                kinds = list(map(self.type_of, args))
                if name == UNLESS_NULL:
                    return kinds[0]
                return type_of_result(name, kinds, getattr(args[-1], "value", None))
            case s.Aggregate(kind, targets) | s.HeadAggregate(kind, targets):
                fixed: dict[str, TypeName] = {
                    "count": "int", "count_distinct": "int", "mean": "float",
                }  # fmt: skip
                return fixed.get(kind) or self.type_of(targets[0])
        found: TypeName = expr.type
        return found

    def fresh(self, kind: TypeName, at: Any, name: str = "v") -> s.Var:
        var = s.Var(f"{name}~n{next(self._numbers)}", at.span)
        self.types[var.name] = kind
        return var

    # --------------------------------------------------------------------------- aggregates

    def _aggregated(self, given: s.HeadAggregate, targets: Sequence[Lifted]) -> Lifted:
        """An aggregate of a head that skips nulls."""

        def of(kind: str, *exprs: Any) -> s.HeadAggregate:
            return s.HeadAggregate(kind, exprs, given.span)

        return self._skipping(given.kind, given, targets, of)

    def _skipping(self, kind: str, given: Any, targets: Sequence[Lifted], of: Any) -> Lifted:
        """An aggregate that skips nulls; `of` makes one over the same bindings."""
        conds = tuple(dict.fromkeys(cond for _, own in targets for cond in own))
        if not conds:
            return replace(given, targets=tuple([expr for expr, _ in targets])), ()
        span = given.span
        one, zero = s.Const("int", 1, span), s.Const("int", 0, span)

        def call(name: str, *args: Any) -> s.FunctionCall:
            return s.FunctionCall(name, args, span)

        if kind == "count_distinct":
            # Targets of which one is null are all alike, and not counted.
            alike = [call(UNLESS_NULL, expr, *conds) for expr, _ in targets]
            null = call("coalesce", call(UNLESS_NULL, zero, *conds), one)
            return call("-", of(kind, *alike), call("min", one, of("sum", null))), ()
        value = self.whole(targets[0])
        of_type = self.type_of(targets[0][0])
        if kind == "sum":
            none = s.Const(of_type, 0.0 if of_type == "float" else 0, span)
            return of(kind, call("coalesce", value, none)), ()
        if kind == "max":
            lowest = s.Const(of_type, _LEAST[of_type], span)
            return of(kind, call("coalesce", value, lowest)), (of("min", value),)
        if kind == "mean":
            real = targets[0][0] if of_type == "float" else call("to_float", targets[0][0])
            none = s.Const("float", 0.0, span)
            total = of("sum", call("coalesce", call(UNLESS_NULL, real, *conds), none))
            there = call("coalesce", call(UNLESS_NULL, one, *conds), zero)
            return call("/", total, call("to_float", of("sum", there))), (of("min", value),)
        found = of(kind, value)
        return found, (found,)

    def _aggregate(self, given: s.Aggregate, known: Known) -> Lifted:
        """An aggregate of a body that skips nulls; it becomes an equation beside."""
        if given not in self._skipped:
            self._skipped[given] = self._without_nulls(given, known)
        return self._skipped[given]

    def _without_nulls(self, given: s.Aggregate, known: Known) -> Lifted:
        body, inner = self.within(given.body, known)
        beside, self.beside = self.beside, []
        targets = [self.lift(target, inner) for target in given.targets]
        if self.beside:  # aggregates in what is aggregated
            body = w.conjunction([*self.beside, body], body.span)
        self.beside = beside
        own = replace(given, body=body)
        if not any(conds for _, conds in targets):
            return replace(own, targets=tuple([expr for expr, _ in targets])), ()
        made: list[s.Var] = []

        def of(kind: str, *exprs: Any) -> s.Var:
            aggregate = replace(own, kind=kind, targets=exprs)
            if made:  # a variable of an aggregate belongs to no other
                aggregate = self._copy(aggregate, given)
            var = self.fresh(self.type_of(aggregate), given)
            made.append(var)
            self.beside.append(s.Compare(var, (("=", aggregate),), given.span))
            return var

        return self._skipping(given.kind, own, targets, of)

    def _copy(self, aggregate: s.Aggregate, given: s.Aggregate) -> s.Aggregate:
        """The aggregate, made of a given one, with other names for the variables that occur only in
        it."""
        inside, uses = w.count_variables([given]), self.own.uses
        names: dict[str, s.Var] = {}
        for name in w.variables(aggregate):
            if inside[name] == uses[name]:  # variables of this pass are in neither
                names[name] = self.fresh(self.types[name], aggregate, name)

        def renamed(node: Any) -> Any:
            if isinstance(node, s.Var):
                return replace(names[node.name], span=node.span) if node.name in names else node
            made = w.rebuild(node, renamed)
            if isinstance(made, s.Aggregate):
                local = tuple([names[each].name if each in names else each for each in made.locals])
                made = replace(made, locals=local)
            return made

        made: s.Aggregate = renamed(aggregate)
        return replace(made, exports=())
