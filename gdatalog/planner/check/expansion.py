"""The expansion of one rule: inlined relations are replaced by their rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gdatalog.errors import Caution
from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check import walk as w
from gdatalog.planner.check.wording import own_name
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

    def __init__(
        self,
        rule: CheckedRule,
        definitions: Mapping[str, Sequence[CheckedRule]],
        cautions: list[Caution],
    ) -> None:
        self.definitions = definitions
        self.cautions = cautions
        self.types: dict[str, TypeName] = dict(rule.types)
        self.alternatives = 1
        self.parts = 0  # syntax nodes added
        self.made = 0
        kinds = {part.kind for part in w.all_of(s.HeadAggregate, rule.head)}
        self.counting = not kinds.isdisjoint(COUNTING)
        self.aggregated = not kinds <= {"min", "max"}  # the rule may not have `;`

    def literal(self, literal: s.Literal, positive: bool) -> s.Literal:
        match literal:
            case s.And():
                items = [self.literal(item, positive) for item in literal.items]
                return w.conjunction(items, literal.span)
            case s.Or():
                items = [self.literal(item, positive) for item in literal.items]
                return w.disjunction(items, literal.span)
            case s.Not():
                body = self.literal(literal.body, positive=False)
                return body.body if isinstance(body, s.Not) else replace(literal, body=body)
            case s.Atom() if literal.name in self.definitions:
                return self._atom(literal, positive)
            case _:
                self._aggregates(literal)
                return literal

    def _aggregates(self, literal: s.Literal) -> None:
        for atom in w.all_of(s.Atom, literal) if w.all_of(s.Aggregate, literal) else ():
            if atom.name in self.definitions:
                self._made_for(atom, "an aggregate ranges over its rows")
                return

    def _atom(self, atom: s.Atom, positive: bool) -> s.Literal:
        definitions = self.definitions[atom.name]
        if positive and not self._may_expand(definitions):
            self._made_for(atom, "an aggregate ranges over its rows")
            return atom
        if self.alternatives * len(definitions) > MOST_ALTERNATIVES:
            why = f"this rule would have more than {MOST_ALTERNATIVES} alternatives"
            self._made_for(atom, why)
            return atom
        parts = self.parts + sum([len(w.walk(each.body)) for each in definitions])
        if parts > MOST_PARTS:
            self._made_for(atom, "this rule would be too long")
            return atom
        self.parts = parts
        self.alternatives *= len(definitions)
        found = [self._instance(definition, atom) for definition in definitions]
        return w.disjunction(found, atom.span) if len(found) > 1 else found[0]

    def _made_for(self, atom: s.Atom, why: str) -> None:
        message = f"`{atom.name}` is declared inline, but is computed for this atom: {why}"
        self.cautions.append(Caution(message, atom.span, WITHOUT, cause="made"))

    def _may_expand(self, definitions: Sequence[CheckedRule]) -> bool:
        """Whether the aggregates of the head stay the same after expansion."""
        if not self.aggregated:
            return True
        if len(definitions) > 1 or _branches(definitions[0].body):
            return False
        return not self.counting or _adds_no_variable(definitions[0])

    def _instance(self, definition: CheckedRule, atom: s.Atom) -> s.Literal:
        """The body of one rule in place of an atom."""
        head, body = definition.head, definition.body
        exported = {
            name for part in w.walk(body) if isinstance(part, s.Aggregate) for name in part.exports
        }
        put: dict[str, s.Expr] = {}
        equal: list[tuple[s.Expr, s.Expr]] = []
        for own, given in zip(head.args, atom.args, strict=True):
            simple = isinstance(given, s.Var | s.Const | s.Param)
            if (
                isinstance(own, s.Var)
                and own.name not in put
                and own.name not in exported
                and simple
            ):
                put[own.name] = given
            elif not isinstance(own, s.Const) or own != given:
                equal.append((given, own))
        for name in dict.fromkeys((*w.variables(head), *w.variables(body))):
            if name not in put:
                self.made += 1
                new = f"{own_name(name)}~i{self.made}"
                put[name] = s.Var(new)
                self.types[new] = definition.types[name]
        items = [] if body is None else [_substituted(body, put)]
        for given, own in equal:
            items.append(s.Compare(given, (("=", _substituted(own, put)),), atom.span))
        return (
            w.conjunction(items, atom.span) if items else s.Test(s.Const("bool", True, atom.span))
        )


def _substituted(node: w.N, put: Mapping[str, s.Expr]) -> w.N:
    if isinstance(node, s.Var):
        new = put[node.name]
        return replace(new, span=node.span)  # type: ignore[return-value]  # any expression for a variable
    changed = w.rebuild(node, lambda part: _substituted(part, put))
    if isinstance(changed, s.Aggregate):
        names = {old: new.name for old, new in put.items() if isinstance(new, s.Var)}
        return replace(
            changed,
            exports=tuple([names[name] for name in changed.exports]),
            locals=tuple([names[name] for name in changed.locals]),
        )
    return changed


def _adds_no_variable(definition: CheckedRule) -> bool:
    """Whether all variables are in the head, so that an expanded atom keeps its multiplicity."""
    head, body = definition.head, definition.body
    if not all(isinstance(arg, s.Var) for arg in head.args) or body is None:
        return False
    return w.variables(head).keys() >= set(_binding(body))


def _branches(body: s.Literal | None) -> bool:
    """Whether there is a `;` outside negations and aggregates."""
    match body:
        case s.Or():
            return True
        case s.And():
            return any(map(_branches, body.items))
        case _:
            return False


def _binding(node: w.Node) -> Iterator[str]:
    """The variables that a literal can bind, without those local to negations and aggregates."""
    for part in w.walk(node, s.Not, s.Aggregate):
        if isinstance(part, s.Var):
            yield part.name
        elif isinstance(part, s.Aggregate):
            yield from part.exports
