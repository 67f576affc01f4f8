"""Expands the inline relations of a rule: each atom becomes the body of the relation's rule.

Variables of the inlined rule get fresh names; those of its head become the atom's arguments. Under
an aggregate that counts bindings, an atom is kept if its rule has variables that are not in the
head.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gdatalog.errors import Caution
from gdatalog.parser.syntax import (
    Aggregate,
    And,
    Atom,
    Compare,
    Const,
    Expr,
    Literal,
    Not,
    Or,
    Param,
    Test,
    Var,
)
from gdatalog.planner.check.checked import CheckedRule
from gdatalog.planner.check.names import conjunction, disjunction
from gdatalog.planner.check.walk import (
    N,
    Node,
    children,
    contains_aggregate,
    head_aggregates,
    rebuild,
    variables,
    walk,
)
from gdatalog.planner.check.words import own_name
from gdatalog.records import replace
from gdatalog.values import TypeName

MOST_ALTERNATIVES = 64  # limit for one rule
MOST_PARTS = 300  # limit of syntax nodes for one rule
COUNTING = frozenset({"count", "sum", "mean"})  # aggregates that depend on multiplicity
WITHOUT = "without `inline` there is no warning"


class RuleExpansion:
    """The expansion of one rule.

    `definitions`: the rules of each inline relation. `cautions`: warnings about atoms that are
    kept.
    """

    def __init__(self, rule: CheckedRule, definitions: Mapping[str, Sequence[CheckedRule]]) -> None:
        self.definitions = definitions
        self.cautions: list[Caution] = []
        self.rule = rule
        self.types: dict[str, TypeName] = dict(rule.types)
        self.alternatives = 1
        self.parts = 0  # syntax nodes added
        self.made = 0
        kinds = {part.kind for part in head_aggregates(rule.head)}
        self.counting = not kinds.isdisjoint(COUNTING)
        self.aggregated = not kinds <= {"min", "max"}  # the rule may not have `;`

    def expanded(self) -> CheckedRule:
        assert self.rule.body is not None
        body = self._literal(self.rule.body, positive=True)
        return replace(self.rule, body=body, types=self.types)

    def _literal(self, literal: Literal, positive: bool) -> Literal:
        match literal:
            case And():
                items = [self._literal(item, positive) for item in literal.items]
                return conjunction(items, literal.span)
            case Or():
                items = [self._literal(item, positive) for item in literal.items]
                return disjunction(items, literal.span)
            case Not():
                body = self._literal(literal.body, positive=False)
                return body.body if isinstance(body, Not) else replace(literal, body=body)
            case Atom() if literal.name in self.definitions:
                return self._atom(literal, positive)
            case _:
                self._aggregates(literal)
                return literal

    def _aggregates(self, literal: Literal) -> None:
        if contains_aggregate(literal):
            for part in walk(literal):
                if isinstance(part, Atom) and part.name in self.definitions:
                    self._made_for(part, "an aggregate ranges over its rows")
                    return

    def _atom(self, atom: Atom, positive: bool) -> Literal:
        definitions = self.definitions[atom.name]
        if positive and not self._may_expand(definitions):
            self._made_for(atom, "an aggregate ranges over its rows")
            return atom
        if self.alternatives * len(definitions) > MOST_ALTERNATIVES:
            why = f"this rule would have more than {MOST_ALTERNATIVES} alternatives"
            self._made_for(atom, why)
            return atom
        parts = sum(sum(1 for _ in walk(d.body)) for d in definitions if d.body is not None)
        if self.parts + parts > MOST_PARTS:
            self._made_for(atom, "this rule would be too long")
            return atom
        self.parts += parts
        self.alternatives *= len(definitions)
        found = [self._instance(definition, atom) for definition in definitions]
        return disjunction(found, atom.span) if len(found) > 1 else found[0]

    def _made_for(self, atom: Atom, why: str) -> None:
        message = f"`{atom.name}` is declared inline, and is made for this atom: {why}"
        self.cautions.append(Caution(message, atom.span, WITHOUT, cause="made"))

    def _may_expand(self, definitions: Sequence[CheckedRule]) -> bool:
        """Whether the aggregates of the head stay the same after expansion."""
        if not self.aggregated:
            return True
        if len(definitions) > 1 or _branches(definitions[0].body):
            return False
        return not self.counting or _adds_no_variable(definitions[0])

    def _instance(self, definition: CheckedRule, atom: Atom) -> Literal:
        """The body of one rule in place of an atom."""
        head, body = definition.head, definition.body
        exported = {
            name
            for part in (() if body is None else walk(body))
            if isinstance(part, Aggregate)
            for name in part.exports
        }
        put: dict[str, Expr] = {}
        equal: list[tuple[Expr, Expr]] = []
        for own, given in zip(head.args, atom.args, strict=True):
            simple = isinstance(given, Var | Const | Param)
            if isinstance(own, Var) and own.name not in put and own.name not in exported and simple:
                put[own.name] = given
            elif not isinstance(own, Const) or own != given:
                equal.append((given, own))
        inside = dict.fromkeys(variables(head))
        if body is not None:
            inside |= dict.fromkeys(variables(body))
        for name in inside:
            if name not in put:
                self.made += 1
                new = f"{own_name(name)}~i{self.made}"
                put[name] = Var(new)
                self.types[new] = definition.types[name]
        items = [] if body is None else [_substituted(body, put)]
        for given, own in equal:
            items.append(Compare(given, (("=", _substituted(own, put)),), atom.span))
        return conjunction(items, atom.span) if items else Test(Const("bool", True, atom.span))


def _substituted(node: N, put: Mapping[str, Expr]) -> N:
    if isinstance(node, Var):
        new = put[node.name]
        return replace(new, span=node.span)  # type: ignore[return-value]  # any expression for a variable
    changed = rebuild(node, lambda part: _substituted(part, put))
    if isinstance(changed, Aggregate):
        names = {old: new.name for old, new in put.items() if isinstance(new, Var)}
        return replace(
            changed,
            exports=tuple(names[name] for name in changed.exports),
            locals=tuple(names[name] for name in changed.locals),
        )
    return changed


def _adds_no_variable(definition: CheckedRule) -> bool:
    """Whether all variables are in the head, so that an expanded atom keeps its multiplicity."""
    if not all(isinstance(arg, Var) for arg in definition.head.args) or definition.body is None:
        return False
    heads = variables(definition.head).keys()
    return set(_binding(definition.body)) <= heads


def _branches(body: Literal | None) -> bool:
    """Whether there is a `;` outside negations and aggregates."""
    match body:
        case Or():
            return True
        case And():
            return any(map(_branches, body.items))
        case _:
            return False


def _binding(node: Node) -> Iterator[str]:
    """The variables that a literal can bind, without those local to negations and aggregates."""
    match node:
        case Var(name):
            yield name
        case Not():
            return
        case Aggregate():
            yield from node.exports
        case _:
            for child in children(node):
                yield from _binding(child)
