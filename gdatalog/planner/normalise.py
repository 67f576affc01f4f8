"""Normalises a checked body into alternatives, each a conjunction of items.

`;` is distributed over `,`. Chains of comparisons are split; negated tests become tests; aggregates
and computations that can fail define variables of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from gdatalog.errors import Span
from gdatalog.parser import syntax as s
from gdatalog.plan.functions import UNLESS_NULL, signature_of, signatures
from gdatalog.plan.join_plan import Apply, Constant, Expr, Gather, Parameter, Slot
from gdatalog.planner.check import walk as w
from gdatalog.planner.check.bindings import neighbours
from gdatalog.planner.check.walk import alternatives_of
from gdatalog.planner.decimals import are_exact, compared, exact, mean_of
from gdatalog.planner.items import (
    AggregateItem,
    AtomItem,
    Conjunction,
    EitherItem,
    Equation,
    GenerateItem,
    Item,
    NotItem,
    Term,
    TestItem,
    either,
    item_may_fail,
    variables_of,
)
from gdatalog.records import dataclass, field, replace
from gdatalog.values import INT_MIN, TypeName

_NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(slots=True)
class Normaliser:
    """The normalisation of one rule: the types of its variables, and fresh variables."""

    types: dict[str, TypeName]  # of the rule's variables, and of fresh ones
    param_types: Mapping[str, TypeName]
    occurrences: Mapping[str, int]  # how often each variable occurs in the rule
    fresh: int = 0
    gathers: list[Gather] = field(default_factory=list)  # aggregates of the head
    negative: bool = False  # below an odd number of negations

    # ------------------------------------------------------------------------ alternatives

    def body(self, literal: s.Literal | None) -> list[Conjunction]:
        """The alternatives of a body."""
        if literal is None:
            return [()]
        return [
            tuple([item for part in parts for item in self._literal(part)])
            for parts in alternatives_of(literal)
        ]

    def _shared(self, node: s.Literal | s.Expr) -> frozenset[str]:
        """The variables that also occur outside the node; names are unique in a rule."""
        inside = w.count_variables([node])
        return frozenset([name for name, count in inside.items() if count < self.occurrences[name]])

    def _literal(self, literal: s.Literal) -> list[Item]:
        found: list[Item] = []
        match literal:
            case s.Atom():
                args = tuple([self.head(arg, found) for arg in literal.args])
                found.insert(0, AtomItem(literal.name, args, span=literal.span))
            case s.Compare():
                for before, op, after in neighbours(literal):
                    self._compare(op, before, after, literal, found)
            case s.Member():
                item = self._side(literal.item, found)
                values = tuple([self._side(value, found) for value in literal.values])
                if type(literal.values[0]) is s.Null:  # of an optional body: binds
                    found.append(Equation(item, values[0]))
                elif isinstance(item, Slot):
                    found.append(GenerateItem(item, values, None, literal.span))
                else:
                    test = either(Apply("=", (item, v), "bool", literal.span) for v in values)
                    found.append(TestItem(test))
            case s.Range():
                item = self._side(literal.item, found)
                if not isinstance(item, Slot):
                    slot = self._new("int")
                    found.append(Equation(slot, item))
                    item = slot
                start = self._side(literal.start, found)
                stop = self._side(literal.stop, found)
                span = start, stop, self._side(literal.step, found)
                found.append(GenerateItem(item, (), span, literal.span))
            case s.Distinct():
                sides = [self._side(arg, found) for arg in literal.args]
                for at, right in enumerate(sides):
                    tests = (
                        Apply("!=", (left, right), "bool", literal.span) for left in sides[:at]
                    )
                    found += map(TestItem, tests)
            case s.Test():
                if literal.expr != s.Const("bool", True):
                    found.append(self._test(literal.expr, "match", found))
            case s.Not():
                self._negation(literal, found)
            case _:
                raise AssertionError(literal)
        return found

    def _compare(
        self, op: str, left: s.Expr, right: s.Expr, literal: s.Compare, found: list[Item]
    ) -> None:
        a, b = self._side(left, found), self._side(right, found)
        if _is_ord(a) and _is_ord(b):
            # Ranks change when new symbols are added, so compare the texts themselves.
            assert isinstance(a, Apply) and isinstance(b, Apply)
            if a.args[0].type == b.args[0].type:
                a, b = a.args[0], b.args[0]
        if a.type != b.type:  # decimals, or a decimal and an int
            found.append(self._holding(compared(op, a, b, literal.span)))
        elif op == "=":
            found.append(Equation(a, b))
        else:
            found.append(self._holding(Apply(op, (a, b), "bool", literal.span)))

    def _negation(self, literal: s.Not, found: list[Item]) -> None:
        body = literal.body
        shared = self._shared(body)
        match body:
            case s.Not():
                found.extend(self._literal(body.body))
                return
            case s.Test():
                if isinstance(body.expr, s.Const):
                    found.append(TestItem(Constant(not body.expr.value, "bool")))
                    return
                found.append(self._test(body.expr, "!match", found))
                return
            case s.Compare(rest=((op, right),)) if shared.issuperset(
                w.variables(body)
            ) and not _may_be_empty(body):
                self._compare(_NEGATED[op], body.first, right, body, found)
                return
        self.negative = not self.negative
        found.append(NotItem(tuple(self.body(body)), shared))
        self.negative = not self.negative

    # With an invalid pattern neither `match` nor its negation holds, and as a value it has none. So
    # tests of it are false. Below a negation they count as true, so that no row passes.

    def _test(self, expr: s.Expr, name: Literal["match", "!match"], found: list[Item]) -> TestItem:
        """A test that is an expression, or with "!match" its negation."""
        if isinstance(expr, s.FunctionCall) and expr.name == "match":
            args = tuple([self._side(arg, found) for arg in expr.args])
            return TestItem(Apply(name + "?" * self.negative, args, "bool", expr.span))
        test = self._side(expr, found)
        return self._holding(Apply("lnot", (test,), "bool", expr.span) if name[0] == "!" else test)

    def _holding(self, test: Expr) -> TestItem:
        if self.negative:
            for part in _matches_in(test):
                invalid = Apply("lnot", (_is_pattern(part),), "bool", part.span)
                test = Apply("lor", (test, invalid), "bool", part.span)
        return TestItem(test)

    # ------------------------------------------------------------------------- expressions

    def head(self, arg: s.Expr, found: list[Item]) -> Term:
        """An argument of a head or an atom: an expression becomes a variable of the body."""
        if type(arg) is s.Var:
            return Slot(arg.name, self.types[arg.name])
        side = self._side(arg, found)
        if isinstance(side, Apply):
            slot = self._new(side.type)
            found.append(Equation(slot, side))
            return slot
        return side

    def _side(self, expr: s.Expr, found: list[Item]) -> Expr:
        """An expression that cannot fail: one that can is replaced by a fresh variable."""
        if type(expr) is s.Var:
            return Slot(expr.name, self.types[expr.name])
        return self._safe(self.expression(expr, found), found)

    def _safe(self, converted: Expr, found: list[Item]) -> Expr:
        if may_fail(converted):
            slot = self._new(converted.type)
            found.append(Equation(slot, converted, may_fail=True))
            return slot
        return converted

    def expression(self, expr: s.Expr | s.HeadAggregate, found: list[Item]) -> Expr:
        """An expression with types; aggregates become variables."""
        match expr:
            case s.Var():
                return Slot(expr.name, self.types[expr.name])
            case s.Const():
                return Constant(expr.value, expr.type)
            case s.Null():
                assert expr.type is not None, "type inference gives nulls their types"
                return Constant(None, expr.type)
            case s.Param():
                return Parameter(expr.name, self.param_types[expr.name])
            case s.FunctionCall():
                args = tuple([self.expression(arg, found) for arg in expr.args])
                if expr.name == UNLESS_NULL:
                    return Apply(expr.name, args, args[0].type, expr.span)
                if are_exact(expr.name, args):
                    made = exact(expr.name, args, expr.span)
                    if made is not None:
                        return made
                call = applied(expr.name, args, expr.span)
                if expr.name == "match":
                    call = replace(call, args=(self._safe(args[0], found), args[1]))
                    if not self.negative:
                        found.append(TestItem(_is_pattern(call)))
                return call
            case s.Chain():
                return self._chain(expr, found)
            case s.Aggregate():
                return self._aggregate(expr, found)
            case s.HeadAggregate():
                targets = tuple([self.head(target, found) for target in expr.targets])
                slot = self._new(aggregate_type(expr.kind, targets))
                self.gathers.append(Gather(expr.kind, targets, slot.name, slot.type, expr.span))
                return mean_of(slot, targets, expr.span) if expr.kind == "mean" else slot
            case _:
                raise AssertionError(expr)

    def _chain(self, chain: s.Chain, found: list[Item]) -> Expr:
        """A chain as nested calls, from left to right, with a variable after every few operators,
        so that no expression is deep. (Not over aggregates of the head, which come after all
        items.)"""
        left = self.expression(chain.first, found)
        cut = not w.contains_head_aggregate(chain)
        for at, (op, operand) in enumerate(chain.rest, 1):
            args, span = (left, self.expression(operand, found)), chain.first.span.to(operand.span)
            made = exact(op, args, span) if are_exact(op, args) else None
            left = made or applied(op, args, span)
            if cut and at % s.LONG == 0 and at < len(chain.rest):
                slot = self._new(left.type)
                found.append(Equation(slot, left, may_fail=may_fail(left)))
                left = slot
        return left

    def _aggregate(self, expr: s.Aggregate, found: list[Item]) -> Expr:
        alternatives = []
        bindings = []
        targets: tuple[Term, ...] = ()
        outside, self.negative = self.negative, False
        body, apart = self._set_apart(expr)
        for parts in alternatives_of(body):
            items = [*(item for part in parts for item in self._literal(part)), *apart]
            if not targets:
                targets = tuple([self.head(target, items) for target in expr.targets])
            else:
                for target, slot in zip(expr.targets, targets, strict=True):
                    again = self.expression(target, items)
                    if again != slot:
                        items.append(Equation(slot, again, may_fail=may_fail(again)))
            alternatives.append(tuple(items))
            made = {target.name for target in targets if isinstance(target, Slot)}
            names = (
                name for name in variables_of(items) if not name.startswith("~") or name in made
            )
            bindings.append(tuple(sorted(names)))
        self.negative = outside
        slot = self._new(aggregate_type(expr.kind, targets))
        exports = tuple([Slot(name, self.types[name]) for name in expr.exports])
        reads = self._shared(expr) - frozenset(expr.exports)
        inside = tuple(alternatives), tuple(bindings)
        found.append(AggregateItem(expr.kind, slot, targets, *inside, reads, exports, expr.span))
        return mean_of(slot, targets, expr.span) if expr.kind == "mean" else slot

    def _set_apart(self, expr: s.Aggregate) -> tuple[s.Literal, list[Item]]:
        """Splits an aggregate's body into a conjunction, and groups with `;` that are counted
        separately for each binding of the conjunction."""
        body = expr.body
        if expr.kind not in ("count", "sum", "mean") or not isinstance(body, s.And):
            return body, []
        groups = [item for item in body.items if isinstance(item, s.Or)]
        rest = tuple([item for item in body.items if not isinstance(item, s.Or)])
        if not groups or not rest or any(len(alternatives_of(item)) > 1 for item in rest):
            return body, []
        bound = self._shared(expr) - frozenset(expr.exports)
        atoms = (item for item in rest if isinstance(item, s.Atom))
        bound |= {arg.name for atom in atoms for arg in atom.args if isinstance(arg, s.Var)}
        found: list[Item] = []
        for group in groups:
            shared, alternatives = self._shared(group), tuple(self.body(group))
            own = {
                frozenset([name for name in variables_of(items) - shared if name[0] != "~"])
                for items in alternatives
            }
            either = EitherItem(alternatives, shared)
            if len(own) < len(alternatives) or not shared <= bound or item_may_fail(either):
                return body, []
            found.append(either)
        return w.conjunction(rest, body.span), found

    def _new(self, kind: TypeName) -> Slot:
        self.fresh += 1
        name = f"~{self.fresh}"
        self.types[name] = kind
        return Slot(name, kind)


def _may_be_empty(compare: s.Compare) -> bool:
    """Whether a comparison has no value, because an aggregate has nothing to range over."""
    kinds = {each.kind for each in w.all_of(s.Aggregate, compare)}
    return not kinds <= {"count", "count_distinct", "sum"}


def _is_pattern(match: Apply) -> Apply:
    """Whether a match's pattern is valid."""
    return Apply("is_pattern", (match.args[0],) * 2, "bool", match.span)


def _matches_in(expr: Expr) -> Iterator[Apply]:
    """All calls of `match` in an expression."""
    if isinstance(expr, Apply):
        if expr.function == "match":
            yield expr
        for arg in expr.args:
            yield from _matches_in(arg)


def _is_ord(expr: Expr) -> bool:
    return isinstance(expr, Apply) and expr.function == "ord"


def applied(name: str, args: tuple[Expr, ...], span: Span) -> Apply:
    """A call with the type of its result; of times, in terms of fewer functions."""
    kinds = tuple([arg.type for arg in args])
    match name, kinds:
        case "+", ("duration", "date"):
            args = args[::-1]
        case "-", ("date", "duration"):
            name, args = "+", (args[0], _negative(args[1], span))
        case "/", ("duration", "duration"):
            ints = [Apply("to_int", (arg,), "int", span) for arg in args]
            args = tuple([Apply("to_float", (arg,), "float", span) for arg in ints])
    kinds = tuple([arg.type for arg in args])
    return Apply(name, args, signature_of(name, kinds).result_of(kinds), span)


def _negative(duration: Expr, span: Span) -> Expr:
    if isinstance(duration, Constant) and duration.value not in (None, INT_MIN):
        return Constant(-int(duration.value), "duration")
    return Apply("-", (duration,), "duration", span)


def aggregate_type(kind: str, targets: tuple[Term, ...]) -> TypeName:
    if kind in ("count", "count_distinct"):
        return "int"
    return "float" if kind == "mean" else targets[0].type


_ON_FLOATS_SAFE = frozenset({"abs", "min", "max", "floor", "ceil", "ord", "to_string", "exp"})


def may_fail(expr: Expr) -> bool:
    if not isinstance(expr, Apply):
        return False
    if any(map(may_fail, expr.args)):
        return True
    if not signatures(expr.function):
        return False
    signature = signature_of(expr.function, [arg.type for arg in expr.args])
    if expr.args[0].type == "float":
        return signature.may_fail_float and expr.function not in _ON_FLOATS_SAFE
    return signature.may_fail and _fails_on(expr)


def _fails_on(expr: Apply) -> bool:
    """Whether a function that can fail may fail on these arguments."""
    kind = expr.args[0].type
    if expr.function in ("to_int", "to_number", "to_float"):
        return kind == "symbol"
    known = expr.args[-1].value if isinstance(expr.args[-1], Constant) else None
    if expr.function == "%":
        return known in (None, 0)
    if expr.function == "/":
        return known in (None, 0, -1)  # the least int divided by -1 is outside 64 bits
    if expr.function == "^":
        return known not in (0, 1)
    return True
