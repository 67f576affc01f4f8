"""Type inference for programs with decimals: operators and comparisons of decimals with different
digits after the point.

The type of `x * y` depends on the types of both, so an operator waits until these are known. An
equation of decimals with different digits compares both and binds no variable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gdatalog.decimals import DIGITS, decimal_type, result_scale, scale_of
from gdatalog.errors import Error, TypeMismatchError
from gdatalog.parser import syntax as s
from gdatalog.planner.check.bindings import neighbours
from gdatalog.planner.check.catalog import Declarations
from gdatalog.planner.check.signatures import BIT, DECIMAL, INT
from gdatalog.planner.check.types import TypeInference, Why
from gdatalog.planner.check.walk import conjunction
from gdatalog.planner.check.wording import show
from gdatalog.records import dataclass
from gdatalog.values import ParamType, TypeName


@dataclass(slots=True)
class Mixed:
    """An operator, or a comparison, whose operands may be decimals with different digits."""

    op: str
    args: tuple[s.Expr, ...]
    nodes: list[int]
    result: int = -1
    call: s.FunctionCall | None = None  # None: a comparison
    where: tuple[int, int, int] = (0, 0, 0)  # the rule, the literal and the place in its chain


class DecimalInference(TypeInference):
    """The pass over a program in which values may be decimals."""

    decimals = True

    def __init__(
        self, catalog: Declarations, params: Mapping[str, ParamType], errors: list[Error]
    ) -> None:
        super().__init__(catalog, params, errors)
        self.mixed: list[Mixed] = []  # operators whose operands have no type yet
        self.tested: set[tuple[int, int, int]] = set()  # equations of decimals with other digits

    def _called(self, call: s.FunctionCall, nodes: list[int]) -> int:
        if len(nodes) == 2 and call.name in ("+", "-", "*", "/", "%"):
            return self._later(Mixed(call.name, call.args, nodes, self.unifier.node(), call))
        return super()._called(call, nodes)

    def _compared(
        self, compare: s.Compare, at: int, left: s.Expr, one: int, right: s.Expr, other: int
    ) -> None:
        where = len(self.seen), id(compare), at
        self._later(Mixed(compare.rest[at][0], (left, right), [one, other], where=where))

    def _later(self, mixed: Mixed) -> int:
        """Types an operator whose operands may have different digits, as soon as it can be."""
        if not self._resolved(mixed):
            self.mixed.append(mixed)
        return mixed.result

    def settle_operators(self) -> None:
        """Types what has waited: an operand that nothing settles has the type of the other."""
        while self.mixed:
            left = [each for each in self.mixed if not self._resolved(each)]
            if len(left) == len(self.mixed):
                known = (at for at, each in enumerate(left) if not self._all_open(each))
                self._unified(left.pop(next(known, 0)))
            self.mixed = left

    def _all_open(self, mixed: Mixed) -> bool:
        return all(self.unifier.settled(node) is None for node in mixed.nodes)

    def _resolved(self, mixed: Mixed) -> bool:
        """Types an operator if its operands have types; whether they have."""
        own = [self.unifier.masks[self.unifier.find(node)] for node in mixed.nodes]
        fixed = [mask & (mask - 1) == 0 for mask in own]
        flexible = [self.unifier.literal[self.unifier.find(node)] for node in mixed.nodes]
        if any(one and not mask & (INT | DECIMAL) for one, mask in zip(fixed, own, strict=True)):
            self._unified(mixed)
            return True
        if not all(one or other for one, other in zip(fixed, flexible, strict=True)):
            return False
        if not any(one and mask & DECIMAL for one, mask in zip(fixed, own, strict=True)):
            self._unified(mixed)
            return True
        for at in (0, 1):
            if not fixed[at] and not self._takes_digits(mixed, at, own[1 - at]):
                self._unified(mixed)
                return True
        self._typed_result(mixed)
        return True

    def _takes_digits(self, mixed: Mixed, at: int, other: int) -> bool:
        """Settles a literal beside a decimal: as many digits, if that is exact, or its own."""
        node = mixed.nodes[at]
        mask = self.unifier.masks[self.unifier.find(node)] & (INT | DECIMAL)
        if mixed.op in ("*", "/"):
            mask &= -mask
        else:
            mask = mask & other or mask & DECIMAL or mask
            mask &= -mask
        return self.unifier.narrow(node, mask, Why(mixed.args[at].span, "as a literal"))

    def _typed_result(self, mixed: Mixed) -> None:
        one, other = (self.unifier.settled(node) or "int" for node in mixed.nodes)
        if mixed.call is None:
            if one != other and mixed.op == "=":
                self.tested.add(mixed.where)
            return
        scale = result_scale(mixed.op, scale_of(one), scale_of(other))
        text = f"`{mixed.op}` of {one} and {other} gives"
        if scale > DIGITS and mixed.op != "/":
            message = f"{text} {scale} digits after the point, and there are at most {DIGITS}"
            hint = "round before: `to_decimal(x, 2)` has two digits after the point"
            self.errors.append(TypeMismatchError(message, mixed.call.span, hint=hint))
            return
        kind = "float" if mixed.op == "/" else decimal_type(scale)
        why = f"as the result of `{mixed.op}`"
        self._narrow(mixed.result, BIT[kind], mixed.call, f"{text} {kind}", why)

    def _unified(self, mixed: Mixed) -> None:
        """One type for both operands."""
        if mixed.call is None:
            (one, other), (mine, its) = mixed.args, mixed.nodes
            self._same(one, mine, other, its, f"`{mixed.op}` compares")
            return
        result = super()._called(mixed.call, mixed.nodes)
        kind = self.unifier.settled(mixed.nodes[0])
        if scale_of(kind):
            self._typed_result(mixed)
        elif not self.unifier.unify(mixed.result, result, *[Why(mixed.call.span, mixed.call)] * 2):
            self._clash(mixed.call.span, show(mixed.call), result, "its place", mixed.result)

    def _rewrite(self, node: Any, turned: Iterator[TypeName | None], rule: int) -> Any:
        made = super()._rewrite(node, turned, rule)
        if isinstance(node, s.Compare) and self.tested:
            places = range(len(node.rest))
            return _with_tests(made, [(rule, id(node), at) in self.tested for at in places])
        return made


def _with_tests(compare: s.Compare, tested: Sequence[bool]) -> s.Literal:
    """A comparison in which some `=` bind no variable: they compare decimals with other digits."""
    items: list[s.Literal] = []
    for (left, op, right), test in zip(neighbours(compare), tested, strict=True):
        for each in ("<=", ">=") if test else (op,):
            items.append(s.Compare(left, ((each, right),), compare.span))
    return conjunction(items, compare.span) if any(tested) else compare
