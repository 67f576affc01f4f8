"""Recursive min and max: every use in the cycle must stay true as values improve.

Within the cycle a relation with `min` in its head holds the best value found so far, and that
may get better. So such a value may only go where a better one serves as well: through `+` and
`-`, `min` and `max`, a product with a constant that is not negative, comparisons that better
values keep satisfying, and into an aggregated column that improves with it.

A direction says how an expression moves as those values improve: -1 down, 1 up, 0 not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from gdatalog.errors import Error, Note, StratificationError
from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.planner.check.bindings import neighbours
from gdatalog.planner.check.heads import aggregate_columns
from gdatalog.planner.check.walk import Node, contains_head_aggregate, names_in, variables
from gdatalog.planner.check.wording import as_rule, own_name, show, text_of
from gdatalog.records import dataclass, field

MOST_BRANCHES = 256
TOWARDS = {"min": -1, "max": 1}


@dataclass(frozen=True, slots=True)
class Optimum:
    column: int
    kind: str


class _NotMonotone(Exception):
    """An expression whose direction is unknown, and the reason."""

    def __init__(self, expr: s.Expr, reason: str, test: s.Compare | None = None) -> None:
        super().__init__(reason)
        self.expr = expr
        self.reason = reason
        self.test = test  # the comparison that a better value may fail


def check_lattice(stratum: Stratum, errors: list[Error]) -> None:
    """Checks the rules of a recursive stratum; a stratum without aggregates passes."""
    optima: dict[str, Optimum] = {}
    for rule in stratum.rules:
        if not rule.aggregated:
            continue
        columns = aggregate_columns(rule.head)
        bare = sum([contains_head_aggregate(arg) for arg in rule.head.args]) == len(columns)
        if not bare or len(columns) != 1:
            wrong = "computes with an aggregate" if not bare else "has more than one aggregate"
            message = f"the head of a recursive rule {wrong}: {show(rule.head)}"
            hint = "a min or max in a cycle must be a whole column of its relation; "
            hint += "a rule outside of the cycle can compute with it"
            errors.append(StratificationError(message, rule.head.span, hint=hint))
            return
        [(at, kind)] = columns.items()
        optima[rule.head.name] = Optimum(at, kind)
    if not optima:
        return
    for rule in stratum.rules:
        if rule.body is None:
            continue
        branches = list(islice(branches_of(rule.body), MOST_BRANCHES + 1))
        if len(branches) > MOST_BRANCHES:
            message = f"more than {MOST_BRANCHES} branches of `;` around a recursive min or max"
            errors.append(StratificationError(message, rule.span, hint="write several rules"))
            continue
        for branch in branches:
            checked = _Branch(rule, branch, optima)
            try:
                checked.check()
            except _NotMonotone as refused:
                errors.append(checked.error(refused))
                break


def branches_of(literal: s.Literal) -> Iterator[list[s.Literal]]:
    """The branches of a body's `;`, each as a list of literals."""
    match literal:
        case s.Or(items):
            for item in items:
                yield from branches_of(item)
        case s.And(items):
            yield from _product(items)
        case _:
            yield [literal]


def _product(items: Sequence[s.Literal]) -> Iterator[list[s.Literal]]:
    plain: list[s.Literal] = [item for item in items if not isinstance(item, s.Or)]
    groups = [item for item in items if isinstance(item, s.Or)]
    if not groups:
        yield plain
        return
    for first in branches_of(groups[0]):
        for rest in _product(groups[1:]):
            yield [*plain, *first, *rest]


@dataclass(slots=True)
class _Branch:
    rule: CheckedRule
    literals: list[s.Literal]
    optima: dict[str, Optimum]
    moves: dict[str, int] = field(default_factory=dict)  # of variables that hold an optimum
    origins: dict[str, Note] = field(default_factory=dict)
    definitions: set[tuple[int, int]] = field(default_factory=set)

    def check(self) -> None:
        self._atoms()
        self._define()
        for at, literal in enumerate(self.literals):
            self._literal(at, literal)
        self._head()

    def _atoms(self) -> None:
        for literal in self.literals:
            if not isinstance(literal, s.Atom) or literal.name not in self.optima:
                continue
            optimum = self.optima[literal.name]
            arg = literal.args[optimum.column]
            if not isinstance(arg, s.Var):
                reason = f"{show(literal)} may hold for a value and not for a better one"
                raise _NotMonotone(arg, reason)
            if arg.name in self.moves:
                raise _NotMonotone(arg, "two values that improve must be equal")
            self.moves[arg.name] = TOWARDS[optimum.kind]
            what = f"`{own_name(arg.name)}` is the {optimum.kind} of `{literal.name}` so far"
            self.origins[arg.name] = Note(what, arg.span)

    def _define(self) -> None:
        """Follow `d2 = d + w`: d2 moves as d does."""
        held = names_in([each for each in self.literals if isinstance(each, s.Atom)])
        changed = True
        while changed:
            changed = False
            for at, literal in enumerate(self.literals):
                if not isinstance(literal, s.Compare):
                    continue
                for pair, (left, op, right) in enumerate(neighbours(literal)):
                    for side, other in ((left, right), (right, left)):
                        if op != "=" or not isinstance(side, s.Var) or side.name in self.moves:
                            continue
                        if side.name in held or not self._holds_optimum(other):
                            continue
                        self.moves[side.name] = self._direction(other)
                        origin = next(n for n in variables(other) if n in self.origins)
                        self.origins[side.name] = self.origins[origin]
                        self.definitions.add((at, pair))
                        changed = True

    def _literal(self, at: int, literal: s.Literal) -> None:
        reason = f"{show(literal)} may hold for it and not for a better one"
        match literal:
            case s.Atom(name, args):
                skip = self.optima[name].column if name in self.optima else -1
                for arg in (*args[:skip], *args[skip + 1 :]) if skip >= 0 else args:
                    self._free(arg, reason)
            case s.Compare():
                for pair, (left, op, right) in enumerate(neighbours(literal)):
                    if (at, pair) not in self.definitions:
                        self._compare(literal, left, op, right)
            case _:
                self._free(literal, reason)

    def _compare(self, whole: s.Compare, left: s.Expr, op: str, right: s.Expr) -> None:
        low, high = self._direction(left), self._direction(right)
        if op in (">", ">="):
            low, high = high, low
        keeps = low <= 0 <= high if op not in ("=", "!=") else low == high == 0
        if not keeps:
            worse = left if self._direction(left) else right
            reason = f"{show(whole)} may hold for it and not for a better one"
            raise _NotMonotone(worse, reason, whole)

    def _head(self) -> None:
        optimum = self.optima.get(self.rule.head.name)
        for column, arg in enumerate(self.rule.head.args):
            if isinstance(arg, s.HeadAggregate) and optimum is not None:
                target = arg.targets[0]
                moves = self._direction(target)
                if moves not in (0, TOWARDS[optimum.kind]):
                    raise _NotMonotone(target, f"as it improves, {show(arg)} gets worse")
            else:
                self._free(arg, f"it goes to column {column + 1} of `{self.rule.head.name}`")

    def _direction(self, expr: s.Expr) -> int:
        match expr:
            case s.Var(name):
                return self.moves.get(name, 0)
            case s.FunctionCall("-", (operand,)):
                return -self._direction(operand)
            case s.FunctionCall("-", (left, right)):
                return self._joint(expr, [self._direction(left), -self._direction(right)])
            case s.FunctionCall("+" | "min" | "max", args):
                return self._joint(expr, [self._direction(arg) for arg in args])
            case s.Chain(first, rest) if rest[0][0] in ("+", "-"):
                signs = [1, *(1 if op == "+" else -1 for op, _ in rest)]
                parts = [first, *(operand for _, operand in rest)]
                moves = [
                    sign * self._direction(part) for sign, part in zip(signs, parts, strict=True)
                ]
                return self._joint(expr, moves)
            case s.FunctionCall("*", (left, right)) if self._holds_optimum(expr):
                factor, other = (left, right) if isinstance(left, s.Const) else (right, left)
                if not isinstance(factor, s.Const) or float(factor.value) < 0:
                    raise _NotMonotone(expr, "only a constant that is not negative may multiply it")
                return self._direction(other)
            case _:
                self._free(expr, f"it goes through {show(expr)}")
                return 0

    def _joint(self, expr: s.Expr, directions: Sequence[int]) -> int:
        moving = {direction for direction in directions if direction}
        if len(moving) > 1:
            raise _NotMonotone(expr, f"{show(expr)} moves both ways as values improve")
        return moving.pop() if moving else 0

    def _holds_optimum(self, node: Node) -> bool:
        return any(name in self.moves for name in variables(node))

    def _free(self, node: Node, reason: str) -> None:
        for name, var in variables(node).items():
            if name in self.moves:
                raise _NotMonotone(var, reason)

    def _outside(self, test: s.Compare) -> str | None:
        """The hint for a comparison: a rule that tests the result, if one atom has all compared
        values."""
        needed = variables(test).keys()
        for literal in self.literals:
            if isinstance(literal, s.Atom) and literal.name in self.optima:
                args = [arg.name for arg in literal.args if isinstance(arg, s.Var)]
                if needed <= set(args) and len(args) == len(literal.args):
                    columns = ", ".join(map(own_name, args))
                    head = f"{literal.name}_where({columns})"
                    return as_rule(head, (f"{literal.name}({columns})", text_of(test)))
        return None

    def error(self, refused: _NotMonotone) -> Error:
        expr = refused.expr
        name = next((n for n in variables(expr) if n in self.origins), None)
        notes = [self.origins[name]] if name is not None else []
        hint = "in the cycle it may go through `+` and `-`, `min` and `max`, into the same "
        hint += "aggregate, and through comparisons that better values keep satisfying; "
        rule = None if refused.test is None else self._outside(refused.test)
        hint += "do the rest in a rule outside of the cycle"
        hint += f": `{rule}`" if rule is not None else ""
        what = show(expr) if self._holds_optimum(expr) else "what is compared with " + show(expr)
        while_computed = f"while `{self.rule.head.name}` is computed, and {refused.reason}"
        message = f"{what} may still improve {while_computed}"
        notes = [note for note in notes if note.span is not expr.span]
        return StratificationError(message, expr.span, hint=hint, notes=notes)
