"""Builds the syntax tree from the grammar's reductions.

The functions without an underscore are those of the grammar's rules; their argument is the list of
the rule's parts.

A group `(...)` and a run of signs are ambiguous between value and literal. They stay as read
(`Parenthesised`, `Signed`) until the context decides; then `value` and `literal` convert them.
"""

from __future__ import annotations

from typing import Any

from gdatalog.errors import ParseError, Span
from gdatalog.parser import syntax as s
from gdatalog.parser.conversions import (
    Named,
    Parenthesised,
    Signed,
    arguments,
    conditions,
    literal,
    value,
)
from gdatalog.parser.heads import heads
from gdatalog.parser.lists import compared, side_by_side, with_many
from gdatalog.parser.tokens import BINARY, POWER, PREFIX, Token
from gdatalog.records import dataclass, field
from gdatalog.values import INT_MAX, TypeName


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
    return type(operand) is s.Const and operand.type in ("int", "float", "duration")


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


_CONSTANTS: dict[str, TypeName] = {
    "STRING": "symbol", "TIMESTAMP": "timestamp", "DURATION": "duration", "BOOL": "bool",
}  # fmt: skip
Parts = list[Any]  # tokens and nodes, one per symbol of a grammar rule


def constant(parts: Parts) -> s.Const:
    token = parts[0]
    read = token.value
    span = Span(token.source, token.start, token.end)
    kind = _CONSTANTS.get(token.type) or ("int" if type(read) is int else "float")
    return s.Const(kind, read, span)


def null(parts: Parts) -> s.Null:
    return s.Null(None, parts[0].span)


def variable(parts: Parts) -> s.Var:
    token = parts[0]
    return s.Var(token.value, Span(token.source, token.start, token.end))


def wildcard(parts: Parts) -> s.Wildcard:
    return s.Wildcard(parts[0].span)


def param(parts: Parts) -> s.Param:
    return s.Param(parts[0].value, parts[0].span)


def call(parts: Parts) -> s.Expr:
    token = parts[0]
    span = Span(token.source, token.start, parts[-1].end)
    given = parts[2:-1:2]
    args, columns = arguments(conditions(given) if token.value in ("if", "case") else given)
    if token.value == "as" and len(args) == 2:
        kind = _type_name(args[1])
        if kind is not None:
            return s.Cast(args[0], kind, span)
    return s.FunctionCall(token.value, args, span, columns)


def _type_name(read: s.Expr) -> str | None:
    """The type of an `as`: a name has been read as a variable, `decimal(p, s)` as a call."""
    if isinstance(read, s.Var):
        return read.name
    if not isinstance(read, s.FunctionCall) or read.name != "decimal":
        return None
    digits = [str(arg.value) for arg in read.args if isinstance(arg, s.Const)]
    return f"decimal({','.join(digits)})" if len(digits) == len(read.args) else None


def window(parts: Parts) -> s.Window:
    args, columns = arguments(parts[2:-2:2])
    if columns:
        message = "the arguments of a function have no names"
        raise ParseError(message, columns[0].span, hint="give them by their place")
    partition, keys = parts[-2]
    span = Span(parts[0].source, parts[0].start, parts[-1].end)
    return s.Window(parts[0].value, args, tuple(partition), tuple(keys), span)


def over(parts: Parts) -> tuple[list[s.Expr], list[tuple[str, s.Expr]]]:
    parted, keys = (
        [kept for token, kept in parts if (token.type == "PARTITION") == is_partition]
        for is_partition in (True, False)
    )
    return (parted[0] if parted else []), (keys[0] if keys else [])


def partition(parts: Parts) -> tuple[Token, list[s.Expr]]:
    return parts[0], [value(part) for part in parts[2::2]]


def by(parts: Parts) -> tuple[Token, list[tuple[str, s.Expr]]]:
    return parts[0], parts[1::2]


def named(parts: Parts) -> Named:
    return Named(variable(parts), value(parts[2]))


def group(parts: Parts) -> Parenthesised:
    return Parenthesised(parts[1], Span(parts[0].source, parts[0].start, parts[2].end))


def signed(parts: Parts) -> Signed:
    return Signed(tuple(parts[:-1]), parts[-1])


def aggregate(parts: Parts) -> s.Aggregate:
    return _aggregate(parts, parts[-2], parts[:-4])


def aggregate_of_atom(parts: Parts) -> s.Aggregate:
    return _aggregate(parts, parts[-1], parts[:-2])


def _aggregate(parts: Parts, body: Any, before: Parts) -> s.Aggregate:
    token = parts[0]
    span = Span(token.source, token.start, (parts[-1].span if parts[-1] is body else parts[-1]).end)
    targets = tuple([value(part) for part in before[1::2]])
    if token.value == "count" and targets:
        raise ParseError(
            "count takes no expression",
            targets[0].span.to(targets[-1].span),
            hint="`count : { ... }` counts the matches; `count_distinct e : { ... }` counts "
            "the values of e",
        )
    return s.Aggregate(token.value, targets, literal(body), span)


def operation(parts: Parts) -> Any:
    return grouped(parts)


def comparison(parts: Parts) -> s.Compare:
    first = value(parts[0])
    rest = tuple([(parts[at].value, value(parts[at + 1])) for at in range(1, len(parts), 2)])
    return s.Compare(first, rest, parts[0].span.to(parts[-1].span))


def values(parts: Parts) -> s.Values:
    kind, read = parts[0].value
    return s.Values(kind, read, parts[0].span)


def member(parts: Parts) -> s.Member:
    values = side_by_side([value(part) for part in parts[3:-1:2]])
    item = value(parts[0])
    return s.Member(item, values, parts[0].span.to(parts[-1].span))


def member_of_param(parts: Parts) -> s.Member:
    item, token = value(parts[0]), parts[2]
    values = (s.ListParam(token.value, token.span),)
    return s.Member(item, values, parts[0].span.to(token.span))


def comparisons(parts: Parts) -> s.Compare | s.Member:
    token = parts[0]
    name, op, kind, read = token.value
    first = Span(token.source, token.start, token.start + len(name))
    return with_many(s.Var(name, first), op, s.Values(kind, read, token.span))


def negation(parts: Parts) -> s.Not:
    return s.Not(literal(parts[1]), parts[0].span.to(parts[1].span))


def optional(parts: Parts) -> s.Optional:
    return s.Optional(literal(parts[2]), parts[0].span.to(parts[3].span))


def optional_atom(parts: Parts) -> s.Optional:
    return s.Optional(literal(parts[1]), parts[0].span.to(parts[1].span))


def conjunction(parts: Parts) -> Any:
    return _joined(s.And, parts)


def disjunction(parts: Parts) -> Any:
    return _joined(s.Or, parts)


def _joined(kind: type[s.And] | type[s.Or], parts: Parts) -> Any:
    """Joins literals into one literal, flattening nested ones; `parts` include the
    separators."""
    items: list[s.Literal] = []
    for part in parts[::2]:
        item = literal(part)
        items.extend(item.items if type(item) is kind else (item,))
    items = compared(items, either=kind is s.Or)
    if len(items) == 1:
        return items[0]
    return kind(tuple(items), parts[0].span.to(parts[-1].span))


def rule(parts: Parts) -> s.Rule:
    body = literal(parts[2])
    return s.Rule(heads(parts[0], parts[1]), body, parts[0].span.to(parts[2].span))


def query(parts: Parts) -> s.Query:
    ordering = parts[2] if len(parts) > 2 else None
    return s.Query(literal(parts[1]), parts[0].span.to(parts[-1].span), ordering=ordering)


def retract(parts: Parts) -> s.Retract:
    atom = literal(parts[1])
    assert isinstance(atom, s.Atom)
    body = literal(parts[3]) if len(parts) > 2 else None
    return s.Retract(atom, body, parts[0].span.to(parts[-1].span))


def bare_query(parts: Parts) -> s.Query:
    span = parts[0].span.to(parts[1].span)
    return s.Query(literal(parts[0]), span, bare=True, ordering=parts[1])


def ordering(parts: Parts) -> s.Ordering:
    first, last = parts[0], parts[-1]
    keys = first[1] if type(first[0]) is Token and first[0].type == "ORDER" else ()
    given: dict[str, s.Const | s.Param] = {}
    for word, bound in parts[1:] if keys else parts:
        if word.value in given:
            raise ParseError(f"`{word.value}` is given twice", word.span, hint="leave one out")
        given[word.value] = bound
    end = last[1][-1][1] if last is first and keys else last[1]
    return s.Ordering(
        tuple(keys), given.get("limit"), given.get("offset"), first[0].span.to(end.span)
    )


def order(parts: Parts) -> tuple[Token, list[tuple[str, s.Expr]]]:
    return parts[0], parts[2::2]


def key(parts: Parts) -> tuple[str, s.Expr]:
    return parts[1].value if len(parts) > 1 else "asc", value(parts[0])


def bound(parts: Parts) -> tuple[Token, s.Const | s.Param]:
    word, token = parts
    if token.type == "PARAM":
        return word, param([token])
    if type(token.value) is not int:
        message = f"`{word.value}` takes a whole number"
        raise ParseError(message, token.span, hint=f"as in {word.value} 10")
    return word, constant([token])


def names(parts: Parts) -> list[Token]:
    return parts[::2]


def column(parts: Parts) -> s.Column:
    name, span = parts[2].value, parts[0].span.to(parts[2].span)
    return s.Column(parts[0].value, name.removesuffix("?"), span, name.endswith("?"))


def type_with_digits(parts: Parts) -> Token:
    """`decimal(12, 2)`, `decimal(12, 2)?`: one token, whatever its spaces."""
    first, last = parts[0], parts[-1]
    if last.type == "NAME" and last.value != "?":
        raise ParseError("a comma is missing before this", last.span)
    digits = [str(token.value) for token in parts if token.type == "NUMBER"]
    name = f"{first.value}({','.join(digits)}){'?' * (last.type == 'NAME')}"
    return Token("NAME", name, first.source, first.start, last.end)


def qualifiers(parts: Parts) -> list[Token]:
    return parts


def decl(parts: Parts) -> s.Decl:
    qualifiers: list[Token] = parts[-1]
    for token in qualifiers:
        if token.value == "eqrel":
            raise ParseError(
                "eqrel relations are not in the language",
                token.span,
                hint="write the rules: R(x, x) <- R(x, _). R(y, x) <- R(x, y). "
                "R(x, z) <- R(x, y), R(y, z).",
            )
    last = qualifiers[-1] if qualifiers else parts[-2]
    names, words = (tuple([token.value for token in each]) for each in (parts[1], qualifiers))
    return s.Decl(names, tuple(parts[3:-2:2]), words, parts[0].span.to(last.span))


def type_decl(parts: Parts) -> s.TypeDecl:
    span = parts[0].span.to(parts[-1].span)
    if len(parts) == 2:
        return s.TypeDecl(parts[1].value, "<:", ("symbol",), span)
    targets = tuple([token.value for token in parts[3::2]])
    return s.TypeDecl(parts[1].value, parts[2].value, targets, span)


def old_type(parts: Parts) -> s.TypeDecl:
    base = parts[0].value.removesuffix("_type")
    return s.TypeDecl(parts[1].value, "<:", (base,), parts[0].span.to(parts[1].span))


def setting(parts: Parts) -> tuple[Token, str]:
    token = parts[2]
    text = token.value if token.type in ("STRING", "NAME") else token.text.replace("_", "")
    return parts[0], text


def io(parts: Parts) -> s.Directive:
    path: str | None = None
    options: list[tuple[str, str]] = []
    for part in parts[3:-1:2]:
        if isinstance(part, tuple):
            options.append((part[0].text, part[1]))
        elif path is None and not options:
            path = part.value
        else:
            message = "there is at most one path, and it comes first"
            raise ParseError(message, part.span, hint='as in .input E("edges.csv")')
    last = parts[-1] if isinstance(parts[-1], Token) else parts[1][-1]
    names, span = tuple([token.value for token in parts[1]]), parts[0].span.to(last.span)
    return s.Directive(parts[0].value, names, path, tuple(options), span)


def include(parts: Parts) -> s.Include:
    return s.Include(parts[1].value, parts[0].span.to(parts[1].span))


def pragma(parts: Parts) -> s.Pragma:
    args = tuple([token.value for token in parts[1:]])
    return s.Pragma(args, parts[0].span.to(parts[-1].span))


def plan(parts: Parts) -> s.PlanHint:
    span = parts[0].span.to(parts[-1].span)
    text = span.source.text[parts[0].end : span.end].strip()
    return s.PlanHint(" ".join(text.split()), span)
