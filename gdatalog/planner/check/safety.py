"""Safety: every variable that a head, comparison, function or negation needs is bound.

The error is at the first place that needs the variable. Its hint names the literal that comes
closest to binding it, and shows the rule as it would be safe, if possible. Each variable of a rule
has at most one error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from gdatalog.errors import Error, SafetyError
from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check.bindings import bound_by, neighbours, ready, shared_by, solvable
from gdatalog.planner.check.walk import (
    Node,
    children,
    conjuncts,
    count_variables,
    no_match_of,
    variables,
)
from gdatalog.planner.check.wording import as_rule, nearest, own_name, show, text_of
from gdatalog.records import dataclass, field

Names = frozenset[str]

LONGEST = 100  # characters of a rule in a hint


def check_safety(rule: CheckedRule, errors: list[Error]) -> None:
    if rule.body is None:
        _ground(rule.head, errors)
        return
    bound = bound_by(rule.body, frozenset(), rule.types)
    if rule.types.keys() <= bound and s.Aggregate not in map(type, rule.parts):
        return  # all variables are bound
    check = _Check(rule, errors, scopes=[rule.body])
    check.literal(rule.body, bound)
    for name, var in variables(rule.head).items():
        if name not in bound:
            check.unbound(var, "in the head", bound)


def _ground(fact: s.Atom, errors: list[Error]) -> None:
    for name, var in variables(fact).items():
        hint = "a fact has no body that could bind it"
        if var in fact.args:
            meant = (
                f'"{arg.name}"' if isinstance(arg, s.Var) else text_of(arg) for arg in fact.args
            )
            hint = f"{hint}: did you mean `{fact.name}({', '.join(meant)}).`?"
        errors.append(SafetyError(f"the fact has a variable, `{name}`", var.span, hint=hint))


@dataclass(slots=True)
class _Check:
    rule: CheckedRule
    errors: list[Error]
    reported: set[str] = field(default_factory=set)
    scopes: list[s.Literal] = field(default_factory=list)  # the body and the enclosing scopes

    def literal(self, literal: s.Literal, bound: Names) -> None:
        """`bound` is what holds once the literal and those beside it do."""
        match literal:
            case s.And(items):
                for item in items:
                    self.literal(item, bound)
            case s.Or(items):
                for item in items:
                    self.literal(item, bound_by(item, bound, self.rule.types))
            case s.Not(body):
                self._negation(literal, bound)
                self._inside(body, bound_by(body, bound, self.rule.types))
            case _:
                for expr in children(literal):
                    self._expr(expr, f"in {show(literal)}", bound)

    def _inside(self, body: s.Literal, bound: Names) -> None:
        self.scopes.append(body)
        self.literal(body, bound)
        self.scopes.pop()

    def _expr(self, expr: Node, where: str, bound: Names) -> None:
        match expr:
            case s.Var(name):
                if name not in bound:
                    self.unbound(expr, where, bound)
            case s.Aggregate():
                self._aggregate(expr, bound)
            case _:
                for part in children(expr):
                    self._expr(part, where, bound)

    def _negation(self, negation: s.Not, bound: Names) -> None:
        """Variables that occur outside too must be bound outside."""
        inside = count_variables([negation])
        if all(name in bound for name in inside):
            return
        everywhere = self.rule.uses
        for name, var in variables(negation).items():
            if name not in bound and everywhere[name] > inside[name]:
                self.unbound(var, f"in {show(negation)}", bound)

    def _aggregate(self, aggregate: s.Aggregate, bound: Names) -> None:
        for name in shared_by(aggregate):
            if name not in bound:
                self.unbound(variables(aggregate)[name], f"in {show(aggregate)}", bound)
        held = bound & set(shared_by(aggregate))
        inner = bound_by(aggregate.body, held, self.rule.types)
        self._inside(aggregate.body, inner)
        self.scopes.append(aggregate.body)
        for target in aggregate.targets:
            self._expr(target, f"in {show(aggregate)}", inner)
        for name, var in variables(aggregate).items():
            if name in aggregate.exports and name not in inner:
                self.unbound(var, f"in {show(aggregate)}", inner)
        self.scopes.pop()

    # ----------------------------------------------------------------------------- errors

    def unbound(self, var: s.Var, where: str, bound: Names) -> None:
        name = own_name(var.name)
        if name in self.reported:
            return
        self.reported.add(name)
        message = f"`{name}` is not bound {where}"
        self.errors.append(SafetyError(message, var.span, hint=self._hint(var, bound)))

    def _hint(self, var: s.Var, bound: Names) -> str:
        name = own_name(var.name)
        for literal in chain.from_iterable(map(conjuncts, reversed(self.scopes))):
            if var.name in variables(literal):
                hint = self._hint_of(literal, var.name, name, bound)
                if hint is not None:
                    return hint
        others = [own_name(other) for other in sorted(bound)]
        meant = nearest(name, others)
        if meant is not None:
            return f"did you mean `{meant}`?"
        return (
            self._for_wildcard(name) or f"add an atom with `{name}` to the body, or `{name} = ...`"
        )

    def _for_wildcard(self, shown: str) -> str | None:
        """An atom of the body with the variable for its `_`."""
        for literal in conjuncts(self.scopes[-1]):
            if isinstance(literal, s.Atom):
                free = [
                    isinstance(arg, s.Var) and arg.name.startswith("_~") for arg in literal.args
                ]
                if any(free):
                    texts = [text_of(arg) for arg in literal.args]
                    texts[free.index(True)] = shown
                    atom = f"{literal.name}({', '.join(texts)})"
                    which = "the" if sum(free) == 1 else "a"
                    hint = f"put `{shown}` for {which} `_` of {show(literal)}"
                    return hint + self._corrected({literal: (atom,)})
        return None

    def _corrected(self, changed: Mapping[s.Literal, Sequence[str]]) -> str:
        """The rule with other texts for some literals of its body."""
        assert self.rule.body is not None
        items: list[str] = []
        found = False
        for literal in conjuncts(self.rule.body):
            found = found or literal in changed
            items += changed.get(literal, (text_of(literal),))
        text = as_rule(text_of(self.rule.head), items)
        if self.rule.head.name.startswith("?"):
            text = f"?- {', '.join(items)}."
        return f": `{text}`" if found and len(text) <= LONGEST else ""

    def _bound_before(self, literal: s.Literal, atom: str) -> str:
        return self._corrected({literal: (atom, text_of(literal))})

    def _hint_of(self, literal: s.Literal, name: str, shown: str, bound: Names) -> str | None:
        """How this literal, which contains the variable, comes close to binding it."""
        match literal:
            case s.Or() if no_match_of(literal) is not None:
                return f"bind it by an atom within the braces of {show(literal)}, or before it"
            case s.Or(items):
                for item in items:
                    if name not in bound_by(item, bound, self.rule.types):
                        return f"{show(item)} does not bind it: every branch of `;` has to"
                return None
            case s.Test(s.Var()):
                return f"a relation without columns is written `{shown}()`"
            case s.Not(body):
                hint = f"{show(literal)} only tests: bind `{shown}` by an atom that is not negated"
                if isinstance(body, s.Atom) and any(_is(arg, name) for arg in body.args):
                    hint += self._bound_before(literal, _only(body, name, shown))
                if self._only_negated(name):
                    hint += f"; or give each `!` a variable of its own in place of `{shown}`"
                return hint
            case s.Compare():
                return self._compare_hint(literal, name, shown, bound)
            case s.Range(item, start, stop, step):
                if isinstance(item, s.Var) and item.name == name:
                    return _would_bind(literal, shown, (start, stop, step), bound)
                return f"a `range` needs its ends: bind `{shown}` by an atom"
            case s.Member(s.Var(item), values) if item == name:
                return _would_bind(literal, shown, values, bound)
            case s.Member():
                return f"`in` needs its values: bind `{shown}` by an atom"
            case s.Atom():
                for arg in literal.args:
                    if not isinstance(arg, s.Var) and name in variables(arg):
                        return (
                            f"{show(arg)} in {show(literal)} is not solved for `{shown}`: only `+` "
                            f"and `-` with one unbound int are; bind `{shown}` by another atom"
                        )
                return None
            case _:
                return f"{show(literal)} only tests: bind `{shown}` by an atom"

    def _only_negated(self, name: str) -> bool:
        assert self.rule.body is not None
        having = [each for each in conjuncts(self.rule.body) if name in variables(each)]
        return name not in variables(self.rule.head) and all(
            isinstance(each, s.Not) for each in having
        )

    def _compare_hint(self, compare: s.Compare, name: str, shown: str, bound: Names) -> str | None:
        for left, op, right in neighbours(compare):
            for side, other in ((left, right), (right, left)):
                if name not in variables(side):
                    continue
                if op != "=":
                    hint = f"{show(compare)} only tests: bind `{shown}` by an atom, or by `=`"
                    atom = self._like(other, shown) if _is(side, name) else None
                    return hint if atom is None else hint + self._bound_before(compare, atom)
                if isinstance(side, s.Var):
                    return _would_bind(compare, shown, (other,), bound)
                if ready(other, bound) and solvable(side, bound, self.rule.types) is None:
                    hint = (
                        f"{show(side)} is not solved for `{shown}`: only `+` and `-` with one "
                        f"unbound int are; write it as `{shown} = ...`"
                    )
                    factor = _factor(side, name)
                    if factor is None or len(compare.rest) > 1:
                        return hint
                    solved = f"{shown} = {text_of(other)} / {factor}"
                    return hint + self._bound_before(compare, solved)
        return None

    def _like(self, other: s.Expr, shown: str) -> str | None:
        """An atom whose column holds the values that `other` is compared with, with the variable in
        it."""
        for literal in conjuncts(self.scopes[-1]):
            if isinstance(other, s.Var) and isinstance(literal, s.Atom) and other in literal.args:
                return _only(literal, other.name, shown)
        return None


def _would_bind(
    literal: s.Literal, shown: str, values: tuple[s.Expr, ...], bound: Names
) -> str | None:
    waiting = [
        f"`{own_name(name)}`"
        for value in values
        for name in variables(value)
        if name not in bound and own_name(name) != shown
    ]
    if not waiting:
        return None
    return f"{show(literal)} would bind `{shown}` if {' and '.join(waiting)} were bound"


def _is(expr: s.Expr, name: str) -> bool:
    return isinstance(expr, s.Var) and expr.name == name


def _only(atom: s.Atom, name: str, shown: str) -> str:
    """The atom with `shown` where `name` stands first, and `_` elsewhere."""
    at = next(i for i, arg in enumerate(atom.args) if _is(arg, name))
    return f"{atom.name}({', '.join([shown if i == at else '_' for i in range(len(atom.args))])})"


def _factor(side: s.Expr, name: str) -> str | None:
    """The constant of `y * 2`."""
    match side:
        case s.FunctionCall("*", (s.Var(own), s.Const() as factor)) if own == name:
            return text_of(factor)
        case s.FunctionCall("*", (s.Const() as factor, s.Var(own))) if own == name:
            return text_of(factor)
        case _:
            return None
