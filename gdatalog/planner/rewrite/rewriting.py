"""Steps that all kinds of demand rewriting share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gdatalog.parser.syntax import Atom, Compare, Const, HeadAggregate, Literal, Var
from gdatalog.planner.check.checked import CheckedRule, Stratum
from gdatalog.planner.check.names import conjunction
from gdatalog.planner.check.walk import rebuild, walk
from gdatalog.planner.rewrite.adornments import BindingSource, Columns, Constants, adorned
from gdatalog.planner.rewrite.attempt import Attempt
from gdatalog.planner.rewrite.passing import branches, closures
from gdatalog.planner.rewrite.sideways import KnownBindings, is_plain
from gdatalog.records import replace


class Rewriting:
    """The rules of one stratum, rewritten for an attempt."""

    def __init__(self, attempt: Attempt, stratum: Stratum) -> None:
        self.attempt = attempt
        self.stratum = stratum
        rules = list(stratum.rules)
        if stratum.recursive:
            rules = [branch for rule in rules for branch in branches(rule)]
        rules += [rule for name in stratum.relations for rule in self._data(name)]
        # a closure has a choice of rules, for either bound end
        self.choices = list(closures(stratum, rules)) if stratum.recursive else [rules]
        self.rules = rules
        self.fixable = not any(map(loses_groups, rules))

    def of(self, name: str) -> list[CheckedRule]:
        return [rule for rule in self.rules if rule.head.name == name]

    def _data(self, name: str) -> list[CheckedRule]:
        """A rule for the rows that a relation has without rules."""
        attempt = self.attempt
        facts = attempt.checked.facts.get(name, ())
        if not facts and not attempt.world.has_data(name):
            return []
        schema = attempt.checked.schemas[name]
        given = f"{name}[given]"
        attempt.given[given] = name
        attempt.schema(given, range(schema.arity), name)
        span = self.stratum.rules[0].span
        args: list[Any] = [Var(f"{column}~{at}") for at, column in enumerate(schema.columns)]
        head = list(args)
        for at, kind in attempt.optima(name).items():
            head[at] = HeadAggregate(kind, (args[at],), span)
        types = {arg.name: kind for arg, kind in zip(args, schema.types, strict=True)}
        body = Atom(given, tuple(args), span)
        return [CheckedRule(Atom(name, tuple(head), span), body, types, span)]

    def _within(self, rule: CheckedRule, places: Mapping[str, Columns]) -> CheckedRule:
        """The rule with recursive atoms renamed to their adorned relations."""

        def change(node: Any) -> Any:
            if isinstance(node, Atom) and node.name in places:
                name = adorned(node.name, self.attempt.arity(node.name), places[node.name])
                return replace(node, name=name)
            return rebuild(node, change)

        return replace(rule, body=None if rule.body is None else change(rule.body))

    def _magic(self, name: str, columns: Columns, sources: Sequence[BindingSource]) -> str:
        """The magic set, with a rule for each source: path[bf]?(x) <- small(x)."""
        attempt = self.attempt
        magic = f"{adorned(name, attempt.arity(name), columns)}?"
        attempt.schema(magic, columns, name)
        facts: dict[Constants, Atom] = {}
        for source in sources:
            head = Atom(magic, source.args, source.span)
            constants = source.constants
            if constants is not None:
                facts.setdefault(constants, head)
            elif head not in source.body:
                body = conjunction(list(source.body), source.span) if source.body else None
                attempt.rules.append(CheckedRule(head, body, source.types, source.span))
        if facts:
            attempt.facts[magic] = tuple(facts.values())
        return magic

    def _schema_of(self, name: str, columns: Columns) -> None:
        attempt = self.attempt
        arity = attempt.arity(name)
        attempt.schema(adorned(name, arity, columns), range(arity), name)

    def _cut(self, name: str, columns: Columns) -> str:
        return adorned(name, self.attempt.arity(name), columns, "c")

    def _left_out(self, name: str, columns: Columns) -> None:
        """Makes atoms that demand one constant read the relation without that column."""
        attempt = self.attempt
        arity = attempt.arity(name)
        target = adorned(name, arity, columns)
        attempt.final.setdefault(target, (target, ()))
        for placeholder, (final, _) in list(attempt.final.items()):
            if final == target:
                attempt.final[placeholder] = self._cut(name, columns), columns

    def _guarded(
        self,
        rule: CheckedRule,
        columns: Columns,
        magic: str,
        constants: Constants | None = None,
    ) -> None:
        """A rule restricted to demanded values: it reads the magic set first, whose values may be
        known constants."""
        attempt = self.attempt
        name = rule.head.name
        args = tuple(rule.head.args[at] for at in columns)
        guard = Atom(magic, args, rule.head.span)
        known = KnownBindings()
        if is_plain(guard):
            known.learn(guard)
            for arg, constant in zip(args, constants or (), strict=False):
                if isinstance(arg, Var):
                    known.constants[arg.name] = constant
        self._schema_of(name, columns)
        items: list[Literal] = [guard]
        if rule.body is not None:
            items.append(attempt.sideways(rule).literal(rule.body, known))
        head = replace(rule.head, name=adorned(name, attempt.arity(name), columns))
        body = conjunction(items, rule.span)
        attempt.rules.append(replace(rule, head=head, body=body))

    def _fixed(self, places: Mapping[str, Columns], constants: Constants) -> None:
        """path[cf](z) <- E(1, z): constants in place of variables."""
        attempt = self.attempt
        for name, columns in places.items():
            arity = attempt.arity(name)
            self._left_out(name, columns)
            others = [at for at in range(arity) if at not in columns]
            attempt.schema(self._cut(name, columns), others, name)
            for rule in self.of(name):
                inner = self._within(rule, places) if self.stratum.recursive else rule
                fixed = with_constants(inner, columns, constants)
                if fixed is not None:
                    head = replace(fixed.head, args=tuple(fixed.head.args[at] for at in others))
                    attempt.add(
                        replace(fixed, head=head), self._cut(name, columns), KnownBindings()
                    )


# Rules with constants in place of columns of the head.


def loses_groups(rule: CheckedRule) -> bool:
    """Whether a constant for a column could leave a head with counts and no group."""
    nodes = [part for arg in rule.head.args for part in walk(arg)]
    kinds = {part.kind for part in nodes if isinstance(part, HeadAggregate)}
    return bool(kinds) and kinds <= {"count", "count_distinct", "sum"}


def with_constants(rule: CheckedRule, columns: Columns, constants: Constants) -> CheckedRule | None:
    """The rule with constants in these columns of its head; None if they contradict it."""
    values: dict[str, Any] = {}
    tests: list[Literal] = []

    def put(node: Any) -> Any:
        if isinstance(node, Var):
            return values.get(node.name, node)
        return rebuild(node, put)

    for at, constant in zip(columns, constants, strict=True):
        arg = rule.head.args[at]
        if isinstance(arg, Var) and arg.name not in values:
            values[arg.name] = constant
    for at, constant in zip(columns, constants, strict=True):
        arg = put(rule.head.args[at])
        if isinstance(arg, Const) and isinstance(constant, Const):
            if arg.value != constant.value:
                return None
        elif arg != constant:
            tests.append(Compare(arg, (("=", constant),), rule.head.span))
    head = replace(rule.head, args=tuple(map(put, rule.head.args)))
    items = [*([] if rule.body is None else [put(rule.body)]), *tests]
    body = conjunction(items, rule.span) if items else None
    return replace(rule, head=head, body=body)
