"""The items of a normalised body; a conjunction is a list of items.

Arguments of atoms are slots, constants or parameters. Every expression is in an equation or a test.
A computation that can fail is an equation of its own, which defines a fresh variable. Aggregates
become branches, with a place in the order and a cost. Other modules import this one as `n`, for the
normal form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from math import inf

from gdatalog.errors import NOWHERE, Span
from gdatalog.plan import join_plan as p
from gdatalog.plan.labels import format_expr, given_label
from gdatalog.records import dataclass, field
from gdatalog.values import is_list, shown_name

Term = p.Slot | p.Constant | p.Parameter


@dataclass(frozen=True, slots=True)
class AtomItem:
    """An atom. `ranked`: it reads ranks by degree in place of values, with both directions of a
    symmetric relation. `once`: rows that are equal in the columns that the body uses count once.
    `counted`: it reads a table of counts by pairs, whose rows have weights; reads of one
    pair have different numbers. `edge`: the variables, if these are two, in two columns."""

    relation: str
    args: tuple[Term, ...]
    version: p.Version = "full"
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    ranked: bool = False
    once: bool = False
    counted: int = 0
    variables: frozenset[str] = field(init=False, compare=False, repr=False)
    edge: tuple[str, str] | None = field(init=False, compare=False, repr=False)

    def __init__(
        self,
        relation: str,
        args: tuple[Term, ...],
        version: p.Version = "full",
        span: Span = NOWHERE,
        ranked: bool = False,
        once: bool = False,
        counted: int = 0,
    ) -> None:
        names = []
        for arg in args:
            if isinstance(arg, p.Slot):
                names.append(arg.name)
        put = object.__setattr__
        put(self, "relation", relation)
        put(self, "args", args)
        put(self, "version", version)
        put(self, "span", span)
        put(self, "ranked", ranked)
        put(self, "once", once)
        put(self, "counted", counted)
        put(self, "variables", frozenset(names))
        two = len(args) == 2 and len(self.variables) == 2
        put(self, "edge", (names[0], names[1]) if two else None)

    def __hash__(self) -> int:  # a set of names keeps its hash
        return hash((self.relation, self.version, self.variables))


@dataclass(frozen=True, slots=True)
class Equation:
    """`left = right`: a test, or a binding of a variable of either side."""

    left: p.Expr
    right: p.Expr
    may_fail: bool = False
    variables: frozenset[str] = field(init=False, compare=False, repr=False)

    def __init__(self, left: p.Expr, right: p.Expr, may_fail: bool = False) -> None:
        put = object.__setattr__
        put(self, "left", left)
        put(self, "right", right)
        put(self, "may_fail", may_fail)
        put(self, "variables", p.slots(left) | p.slots(right))

    def ways(self) -> list[tuple[p.Slot, p.Expr]]:
        """The variables that this equation can bind, each with its value."""
        found = [*_solve(self.left, self.right), *_solve(self.right, self.left)]
        if not found:
            return found
        # The variable must not occur in its own value.
        often = Counter([*_occurring(self.left), *_occurring(self.right)])
        return [(slot, value) for slot, value in found if often[slot.name] == 1]


def _occurring(expr: p.Expr) -> list[str]:
    """The variables of an expression, with repetitions."""
    if isinstance(expr, p.Slot):
        return [expr.name]
    if isinstance(expr, p.Apply):
        return [name for arg in expr.args for name in _occurring(arg)]
    return []


def _solve(side: p.Expr, value: p.Expr) -> list[tuple[p.Slot, p.Expr]]:
    """Inverts `+` and `-` of ints and times until a variable stands alone."""
    if isinstance(side, p.Slot):
        return [(side, value)]
    if not isinstance(side, p.Apply) or not p.SOLVED.issuperset([arg.type for arg in side.args]):
        return []
    match side:
        case p.Apply("-", (a,), kind, span):
            return _solve(a, p.Apply("-", (value,), kind, span))
        case p.Apply("+", (a, b), _, span):
            ways = (
                (a, p.Apply("-", (value, b), a.type, span)),
                (b, p.Apply("-", (value, a), b.type, span)),
            )
        case p.Apply("-", (a, b), _, span):
            ways = (
                (a, p.Apply("+", (value, b), a.type, span)),
                (b, p.Apply("-", (a, value), b.type, span)),
            )
        case _:
            return []
    return [found for part, its in ways for found in _solve(part, its)]


@dataclass(frozen=True, slots=True)
class TestItem:
    test: p.Expr
    variables: frozenset[str] = field(init=False, compare=False, repr=False)

    def __init__(self, test: p.Expr) -> None:
        object.__setattr__(self, "test", test)
        object.__setattr__(self, "variables", p.slots(test))

    def __hash__(self) -> int:  # as above
        return hash(self.variables)


@dataclass(frozen=True, slots=True)
class GenerateItem:
    """`x in {...}` (`values`) or `i = range(...)` (`span`): binds the variable, or tests it."""

    slot: p.Slot
    values: tuple[p.Expr, ...]
    span: tuple[p.Expr, p.Expr, p.Expr] | None  # start, stop, step
    place: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def may_fail(self) -> bool:
        """A step of 0 is an error."""
        return self.span is not None and not isinstance(self.span[2], p.Constant)

    def size(self) -> float:
        """The number of values, if the bounds are constants."""
        if self.span is None:
            return len(self.values)
        bounds = [bound.value for bound in self.span if isinstance(bound, p.Constant)]
        if len(bounds) < 3 or bounds[2] == 0:
            return inf
        start, stop, step = map(int, bounds)
        return len(range(start, stop, step)) if abs(stop - start) < 1 << 62 else inf

    @property
    def sources(self) -> frozenset[str]:
        return variables_of_exprs((*self.values, *(self.span or ())))

    @property
    def variables(self) -> frozenset[str]:
        return self.sources | {self.slot.name}

    def as_test(self) -> p.Expr:
        if self.span is None:
            return either(p.Apply("=", (self.slot, value), "bool") for value in self.values)
        start, stop, step = self.span
        zero = p.Constant(0, "int")
        onwards = [_bool("<=", start, self.slot), _bool("<", self.slot, stop)]
        backwards = [_bool(">=", start, self.slot), _bool(">", self.slot, stop)]
        if not isinstance(step, p.Constant):
            onwards.append(_bool("<", zero, step))
            backwards.append(_bool(">", zero, step))
        known = step.value if isinstance(step, p.Constant) else 0
        inside = either(
            every(way)
            for way, sign in ((onwards, 1), (backwards, -1))
            if not known or int(known) * sign > 0
        )
        if known in (1, -1):
            return inside
        # Congruent modulo the step: remainders have their dividend's sign, so they are equal or
        # differ by a step. (The difference of two ints may overflow.)
        mine = p.Apply("%", (self.slot, step), "int", self.place)
        its = p.Apply("%", (start, step), "int", self.place)
        reached = either(
            [
                _bool("=", mine, its),
                _bool("=", p.Apply("-", (mine, its), "int"), step),
                _bool("=", p.Apply("-", (its, mine), "int"), step),
            ]
        )
        return p.Apply("land", (inside, reached), "bool")


@dataclass(frozen=True, slots=True)
class NotItem:
    """No alternative of the group has a match."""

    alternatives: tuple[Conjunction, ...]
    variables: frozenset[str]  # those from outside


@dataclass(frozen=True, slots=True)
class EitherItem:
    """Under a count: a binding counts once for each match of each alternative. The alternatives
    bind different sets of variables, so that they have no match in common."""

    alternatives: tuple[Conjunction, ...]
    variables: frozenset[str]  # those from outside


@dataclass(frozen=True, slots=True)
class AggregateItem:
    """A variable that takes the value of an aggregate over a group."""

    kind: str
    slot: p.Slot
    targets: tuple[Term, ...]
    alternatives: tuple[Conjunction, ...]
    bindings: tuple[tuple[str, ...], ...]  # the variables that each alternative binds
    reads: frozenset[str]  # variables from outside
    exports: tuple[p.Slot, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def variables(self) -> frozenset[str]:
        return self.reads | {self.slot.name} | {slot.name for slot in self.exports}


@dataclass(frozen=True, slots=True)
class RestoreItem:
    """Variables that take the values of the relation's ranks, in ascending order."""

    relation: str
    ranks: tuple[str, ...]
    values: tuple[p.Slot, ...]

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(self.ranks) | {value.name for value in self.values}


Item = (
    AtomItem
    | Equation
    | TestItem
    | GenerateItem
    | NotItem
    | EitherItem
    | AggregateItem
    | RestoreItem
)
Conjunction = tuple[Item, ...]


def variables_of(items: Iterable[Item]) -> frozenset[str]:
    return frozenset().union(*[item.variables for item in items])


def places_of(name: str, items: Iterable[Item]) -> list[tuple[AtomItem, int]]:
    """The atoms with a variable, and its columns there."""
    found = []
    for item in items:
        if isinstance(item, AtomItem) and name in item.variables:
            for at, arg in enumerate(item.args):
                if isinstance(arg, p.Slot) and arg.name == name:
                    found.append((item, at))
    return found


def tests_null(test: p.Apply) -> bool:
    """Whether a comparison is one with null."""
    right = test.args[1]
    return isinstance(right, p.Constant) and right.value is None


def variables_of_exprs(exprs: Iterable[p.Expr]) -> frozenset[str]:
    names: set[str] = set()
    for expr in exprs:
        if isinstance(expr, p.Slot):
            names.add(expr.name)
        elif isinstance(expr, p.Apply):
            names |= p.slots(expr)
    return frozenset(names)


def item_may_fail(item: Item) -> bool:
    """Whether computing this item, or anything inside it, can fail."""
    match item:
        case Equation() | GenerateItem():
            return item.may_fail
        case NotItem() | EitherItem() | AggregateItem():
            sums = isinstance(item, AggregateItem) and item.kind in ("sum", "mean")
            return sums or fails_inside(item)
        case _:
            return False


def fails_inside(item: NotItem | EitherItem | AggregateItem) -> bool:
    """Whether a computation inside can fail, apart from an overflow of an aggregate's own sum."""
    return any(item_may_fail(part) for inner in item.alternatives for part in inner)


def _bool(op: str, left: p.Expr, right: p.Expr) -> p.Expr:
    return p.Apply(op, (left, right), "bool")


def either(tests: Iterable[p.Expr]) -> p.Expr:
    return reduce(lambda one, other: p.Apply("lor", (one, other), "bool"), tests)


def every(tests: Iterable[p.Expr]) -> p.Expr:
    return reduce(lambda one, other: p.Apply("land", (one, other), "bool"), tests)


def body_text(items: Sequence[Item], given: p.GivenRows | None = None) -> str:
    """A conjunction; `given`: the rows that it runs for.

    >>> x, y = p.Slot("x", "int"), p.Slot("y", "int")
    >>> test = TestItem(p.Apply("<", (x, y), "bool"))
    >>> body_text([AtomItem("E", (x, y)), test, NotItem(((AtomItem("F", (y,)),),), {"y"})])
    'E(x, y), x < y, !(F(y))'
    """
    texts = [item_text(item) for item in items]
    if given is not None:
        texts.insert(0, given_label(given))
    return ", ".join(texts) or "true"


def item_text(item: Item) -> str:
    """One item, as it would be written in a rule."""
    match item:
        case AtomItem():
            args = ", ".join(map(format_expr, item.args))
            if is_list(item.relation):
                return f"{args} in {shown_name(item.relation)}"
            version = "" if item.version == "full" else f"{item.version} "
            return f"{version}{'ranked ' if item.ranked else ''}{shown_name(item.relation)}({args})"
        case Equation():
            return f"{format_expr(item.left)} = {format_expr(item.right)}"
        case TestItem():
            return format_expr(item.test)
        case GenerateItem():
            if item.span is not None:
                start, stop, step = map(format_expr, item.span)
                return f"{item.slot.name} = range({start}, {stop}, {step})"
            return f"{item.slot.name} in {{{', '.join(map(format_expr, item.values))}}}"
        case NotItem():
            return f"!({_either(item.alternatives)})"
        case EitherItem():
            return f"({_either(item.alternatives)})"
        case AggregateItem():
            of = ", ".join(map(format_expr, item.targets))
            asked = f"{item.kind} {of}".rstrip()
            return f"{item.slot.name} = {asked} : {{{_either(item.alternatives)}}}"
        case RestoreItem():
            names = ", ".join([value.name for value in item.values])
            return f"{names} = the vertices of {', '.join(item.ranks)}"


def _either(alternatives: Iterable[Sequence[Item]]) -> str:
    return " ; ".join(map(body_text, alternatives))
