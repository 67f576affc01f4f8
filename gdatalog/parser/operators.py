"""Groups operands and operators by precedence."""

from __future__ import annotations

from typing import Any

from gdatalog.errors import ParseError, Span
from gdatalog.parser import syntax as s
from gdatalog.parser.conversions import Signed, value
from gdatalog.parser.precedence import BINARY, POWER, PREFIX
from gdatalog.parser.tokens import Token
from gdatalog.records import dataclass, field
from gdatalog.values import INT_MAX


def grouped(parts: list[Any]) -> s.Expr:
    """The value of alternating operands and operators."""
    done: list[_OperatorRun] = []
    waiting: list[tuple[int, Token, bool]] = []  # operators: precedence, token, whether prefix
    for at in range(0, len(parts), 2):
        operand = parts[at]
        following = parts[at + 1] if at + 1 < len(parts) else None
        power = following is not None and following.value == "^"
        if type(operand) is Signed:
            signs, operand = operand.signs, operand.operand
            last = signs[-1]
            if not power and last.value == "-" and _is_number(operand):
                signs = signs[:-1]
                place = Span(last.source, last.start, operand.span.end)
                operand = s.Const(operand.type, -operand.value, place)
            waiting.extend((PREFIX, sign, True) for sign in signs)
        done.append(_OperatorRun(_in_range(operand), operand.span))
        if following is not None:
            tight = BINARY[following.value]
            while waiting and (
                waiting[-1][0] > tight or (waiting[-1][0] == tight and tight != POWER)
            ):
                _apply(done, waiting.pop())
            waiting.append((tight, following, False))
    while waiting:
        _apply(done, waiting.pop())
    return done[0].value()


def _is_number(operand: object) -> bool:
    return type(operand) is s.Const and operand.type in ("int", "float")


def _in_range(operand: Any) -> s.Expr:
    """The value of an operand. 2^63 is only valid after a minus sign, which is part of the constant
    then."""
    read = value(operand)
    if type(read) is s.Const and read.type == "int" and read.value > INT_MAX:  # type: ignore[operator]  # an int's value is an int
        hint = "ints go from -9223372036854775808 to 9223372036854775807"
        raise ParseError("this int is beyond 64 bits", read.span, hint=hint)
    return read


@dataclass(slots=True, eq=False)
class _OperatorRun:
    """A value and a run of operators of equal precedence applied to it, left to right.

    `span` includes parentheses; `rest` holds each operand with its own span.
    """

    first: s.Expr
    span: Span
    tight: int = 0
    rest: list[tuple[str, s.Expr, Span]] = field(default_factory=list)

    def value(self) -> s.Expr:
        if not self.rest:
            return self.first
        start, before = _in_a_row(self.first, self.tight)
        if len(before) + len(self.rest) < s.LONG:
            found = self.first
            for op, operand, span in self.rest:
                found = s.FunctionCall(op, (found, operand), self.span.to(span))
            return found
        rest = (*before, *((op, operand) for op, operand, _ in self.rest))
        return s.Chain(start, rest, self.whole)

    @property
    def whole(self) -> Span:
        return self.span.to(self.rest[-1][2]) if self.rest else self.span

    def apply(self, op: str, tight: int, right: _OperatorRun) -> None:
        if self.tight != tight:
            self.first, self.span = self.value(), self.whole
            self.tight, self.rest = tight, []
        self.rest.append((op, right.value(), right.whole))


def _in_a_row(node: s.Expr, tight: int) -> tuple[s.Expr, list[tuple[str, s.Expr]]]:
    """Splits a value into the first operand and the operators of a run of one precedence;
    parentheses around the first operand are dropped."""
    found: list[tuple[str, s.Expr]] = []
    while (
        tight != POWER
        and isinstance(node, s.FunctionCall)
        and len(node.args) == 2
        and BINARY.get(node.name) == tight
    ):
        found.append((node.name, node.args[1]))
        node = node.args[0]
    found.reverse()
    if isinstance(node, s.Chain) and BINARY[node.rest[0][0]] == tight:
        return node.first, [*node.rest, *found]
    return node, found


def _apply(done: list[_OperatorRun], operator: tuple[int, Token, bool]) -> None:
    tight, token, prefix = operator
    right = done.pop()
    if prefix:
        span = Span(token.source, token.start, right.whole.end)
        done.append(_OperatorRun(s.FunctionCall(token.value, (right.value(),), span), span))
        return
    done[-1].apply(token.value, tight, right)
