"""Long lists of values become relations.

`x in {1, 2, ...}` becomes an atom, and `x != 1, x != 2, ...` a negated atom; of `x < 1, x < 2, ...`
only the tightest comparison is kept. A list is then joined like any relation. Its name is a hash of
its content, so that all texts with the same list share the relation and the plans over it. A list
parameter is such a relation whatever its length.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule, ValueList
from gdatalog.planner.check.walk import LEAVES, conjunction, disjunction, rebuild
from gdatalog.records import dataclass, field, replace
from gdatalog.values import TypeName, list_name


def with_lists(
    rule: CheckedRule, param_types: Mapping[str, TypeName], found: dict[str, ValueList]
) -> CheckedRule:
    """The rule with atoms in place of its long lists, which are added to `found`.

    `param_types`: types of parameters; for a list, the type of its values.
    """
    if not any(map(_is_long, [p for p in rule.parts if isinstance(p, s.Compare | s.Member)])):
        return rule
    lists = _ListRelations(param_types, found)
    body = lists.node(rule.body)
    return replace(rule, body=body, types={**rule.types, **lists.types})


@dataclass(slots=True)
class _ListRelations:
    """The lists of a rule that become relations."""

    param_types: Mapping[str, TypeName]
    found: dict[str, ValueList]
    types: dict[str, TypeName] = field(default_factory=dict)  # types of the rule's new variables

    def node(self, node: Any) -> Any:
        match node:
            case s.Member() if _is_long(node):
                return self._member(replace(node, item=self.node(node.item)))
            case s.Compare(first, ((op, s.Values() as many),)):
                item = self.node(first)
                if op == "!=":
                    return s.Not(self._member(s.Member(item, (many,), node.span)), node.span)
                return s.Compare(item, ((op, _narrowest(op, many)),), node.span)
            case s.And(items):
                return conjunction(map(self.node, items), node.span)
            case s.Or(items):
                return disjunction(map(self.node, items), node.span)
            case s.Aggregate():
                before = set(self.types)
                changed = rebuild(node, self.node)
                new = self.types.keys() - before
                return replace(changed, locals=(*changed.locals, *sorted(new)))
            case _:
                return node if type(node) in LEAVES else rebuild(node, self.node)

    def _member(self, member: s.Member) -> s.Literal:
        """An atom; if the list also has computed values, `;` a list of these."""
        parts = tuple([v for v in member.values if isinstance(v, _KNOWN)])
        rest = tuple([v for v in member.values if not isinstance(v, _KNOWN)])
        (first, *_) = parts
        kind = first.type if isinstance(first, s.Const | s.Values) else self.param_types[first.name]
        name = self._name(ValueList(kind, parts))
        item = member.item
        if not rest:
            return s.Atom(name, (item,), member.span)
        before: list[s.Literal] = []
        if not isinstance(item, s.Var):  # compute the item once
            new = f"in~{len(self.types) + 1}"
            self.types[new] = kind
            before.append(s.Compare(s.Var(new, item.span), (("=", item),), member.span))
            item = s.Var(new, item.span)
        either = s.Or(
            (s.Atom(name, (item,), member.span), s.Member(item, rest, member.span)), member.span
        )
        return conjunction((*before, either), member.span)

    def _name(self, values: ValueList) -> str:
        """The relation's name: a short form for users, and a hash of the content."""
        content = repr((values.type, values.parts)).encode("utf-8", "surrogatepass")
        (first, *_) = values.parts
        shown = f"{{{_count(values.parts):,} values}}"
        if isinstance(first, s.ListParam):
            shown = f"${first.name}"
        from hashlib import blake2b

        digest = blake2b(content, digest_size=8).hexdigest()
        name = list_name(shown, digest)
        while self.found.setdefault(name, values) != values:
            digest += "'"
            name = list_name(shown, digest)
        return name


_KNOWN = (s.Const, s.Values, s.Param, s.ListParam)  # values known before evaluation


def _narrowest(op: str, many: s.Values) -> s.Const:
    """The constant whose comparison implies those with all the others."""
    least = op in ("<", "<=")
    value = min(many.values) if least else max(many.values)
    return s.Const(many.type, value, many.span)


def _is_long(member: object) -> bool:
    if isinstance(member, s.Compare):
        return isinstance(member.rest[0][1], s.Values)
    if not isinstance(member, s.Member):
        return False
    if isinstance(member.values[0], s.ListParam):
        return True
    return _count(member.values) >= s.MANY


def _count(values: tuple[s.Expr, ...]) -> int:
    return sum(
        len(value.values) if isinstance(value, s.Values) else isinstance(value, _KNOWN)
        for value in values
    )
