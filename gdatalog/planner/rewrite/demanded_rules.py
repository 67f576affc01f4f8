"""Rewrites the rules of one stratum for the demand on its relations.

- **One constant**, for a relation that is not recursive or whose rules all keep the column: the
  constant replaces the variable, and the column is dropped. (Not if the fixpoint of one value is a
  worklist, which is partitioned by the column.)
- **Kept** columns, several values: the values are a relation (`path[bf]?`), which the rules without
  recursion read. Recursive rules have the values from their recursive atom.
- **Handed on** columns, the others kept: the values that are reached are a relation. The rows of
  each belong to the demanded value, which they carry along if there are several.
- Otherwise textbook **magic sets**: each rule reads the demanded values, and recursive atoms demand
  more.

If a constant replaced the last group variable of a count, an empty group would get a row of 0: such
rules read a magic set even for one constant.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.planner.check import walk as w
from gdatalog.planner.check.walk import conjunction, conjuncts, rebuild
from gdatalog.planner.rewrite.adornments import (
    BindingSource,
    Columns,
    Constants,
    KnownBindings,
    adorned,
    is_plain,
    one_constant,
)
from gdatalog.planner.rewrite.passing import (
    branches,
    closures,
    handed_on,
    kept,
    linear,
    narrower,
    read_by,
    recursive_atoms,
)
from gdatalog.planner.rewrite.rewriting import Attempt, SidewaysPassing, exported
from gdatalog.records import replace


class Specialised:
    """The relations of one stratum, rewritten for all demand on them."""

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
        if not facts and name not in attempt.world.has_data:
            return []
        schema = attempt.checked.schemas[name]
        given = f"{name}[given]"
        attempt.given[given] = name
        attempt.schema(given, range(schema.arity), name)
        span = self.stratum.rules[0].span
        args: list[Any] = [s.Var(f"{column}~{at}") for at, column in enumerate(schema.columns)]
        head = list(args)
        for at, kind in attempt.optima(name).items():
            head[at] = s.HeadAggregate(kind, (args[at],), span)
        types = {arg.name: kind for arg, kind in zip(args, schema.types, strict=True)}
        body = s.Atom(given, tuple(args), span)
        return [CheckedRule(s.Atom(name, tuple(head), span), body, types, span)]

    def _within(self, rule: CheckedRule, places: Mapping[str, Columns]) -> CheckedRule:
        """The rule with recursive atoms renamed to their adorned relations."""

        def change(node: Any) -> Any:
            if isinstance(node, s.Atom) and node.name in places:
                name = self.adorned(node.name, places[node.name])
                return replace(node, name=name)
            return rebuild(node, change)

        return replace(rule, body=None if rule.body is None else change(rule.body))

    def _magic(self, name: str, columns: Columns, sources: Sequence[BindingSource]) -> str:
        """The magic set, with a rule for each source: path[bf]?(x) <- small(x)."""
        attempt = self.attempt
        magic = f"{self.adorned(name, columns)}?"
        attempt.schema(magic, columns, name)
        facts: dict[Constants, s.Atom] = {}
        for source in sources:
            head = s.Atom(magic, source.args, source.span)
            constants = source.constants
            if constants is not None:
                facts.setdefault(constants, head)
            elif head not in source.body:
                body = conjunction(source.body, source.span) if source.body else None
                attempt.rules.append(CheckedRule(head, body, source.types, source.span))
        if facts:
            attempt.facts[magic] = tuple(facts.values())
        return magic

    def adorned(self, name: str, columns: Collection[int], bound: str = "b") -> str:
        return adorned(name, self.attempt.arity(name), columns, bound)

    def _with_schema(self, name: str, columns: Columns) -> str:
        """The adorned relation, which has all columns."""
        found = self.adorned(name, columns)
        self.attempt.schema(found, range(self.attempt.arity(name)), name)
        return found

    def _others(self, name: str, columns: Columns) -> Columns:
        return tuple([at for at in range(self.attempt.arity(name)) if at not in columns])

    def _left_out(self, name: str, columns: Columns) -> str:
        """The relation without columns of one constant: atoms that demand it read this one."""
        cut = self.adorned(name, columns, "c")
        self.attempt.final[self.adorned(name, columns)] = cut, columns
        self.attempt.schema(cut, self._others(name, columns), name)
        return cut

    def _guarded(
        self, rule: CheckedRule, columns: Columns, magic: str, constants: Constants | None = None
    ) -> None:
        """A rule restricted to demanded values: it reads the magic set first, whose values may be
        known constants."""
        args = tuple([rule.head.args[at] for at in columns])
        items = [s.Atom(magic, args, rule.head.span), *conjuncts(rule.body)]
        pairs = zip(args, constants or (), strict=False)
        values = {arg.name: value for arg, value in pairs if isinstance(arg, s.Var)}
        name = self._with_schema(rule.head.name, columns)
        self._emit(rule, name, rule.head.args, items, values)

    def _fixed(self, places: Mapping[str, Columns], constants: Constants) -> None:
        """path[cf](z) <- E(1, z): constants in place of variables."""
        for name, columns in places.items():
            cut = self._left_out(name, columns)
            for rule in self.of(name):
                inner = self._within(rule, places) if self.stratum.recursive else rule
                fixed = with_constants(inner, columns, constants)
                if fixed is not None:
                    args = tuple([fixed.head.args[at] for at in self._others(name, columns)])
                    fixed = replace(fixed, head=replace(fixed.head, args=args))
                    self.attempt.add(fixed, cut, KnownBindings())

    def run(self) -> None:
        attempt = self.attempt
        if self.stratum.recursive:
            self._recursive()
            return
        (name,) = self.stratum.relations
        asked = attempt.asks[name]
        if () in asked:
            self._whole(name)
            return
        for columns, sources in asked.items():
            constants = one_constant(sources)
            if constants is not None and self.fixable:
                self._fixed({name: columns}, constants)
            else:
                magic = self._magic(name, columns, sources)
                for rule in self.of(name):
                    self._guarded(rule, columns, magic, constants)

    def _whole(self, name: str) -> None:
        """A view that is needed in full; its own rules may still restrict what they read."""
        attempt = self.attempt
        whole = self._with_schema(name, ())
        read = read_by(self.of(name))
        before = attempt.demands(read)
        for rule in self.of(name):
            attempt.add(rule, whole, KnownBindings())
        if attempt.demands(read) == before:
            attempt.needs(name)
        for columns in attempt.asks[name]:
            attempt.final[self.adorned(name, columns)] = whole, ()

    # ------------------------------------------------------------------------------ recursion

    def _recursive(self) -> None:
        attempt = self.attempt
        chosen: dict[tuple[str, Columns], list[BindingSource]] = {}
        rules: dict[tuple[str, Columns], list[CheckedRule]] = {}
        for name in self.stratum.relations:
            for columns, sources in attempt.asks.get(name, {}).items():
                own, rules_of_own = self._choice(name, columns)
                indexes = [columns.index(at) for at in own]
                target = self.adorned(name, own)
                attempt.final[self.adorned(name, columns)] = target, ()
                rules[name, own] = rules_of_own
                found = chosen.setdefault((name, own), [])
                found += [source.at(indexes) for source in sources]
        if not all(rules.values()):
            self._textbook(chosen)
            return
        for (name, columns), sources in chosen.items():
            self.rules = rules[name, columns]
            places = self._kept(name, columns)
            constants = one_constant(sources)
            if places is None:
                self._handing(name, columns, sources)
            elif constants is not None and self.fixable and not self._is_walked():
                self._fixed(places, constants)
            else:
                fixed = constants is not None and self.fixable
                magic = "" if fixed else self._magic(name, columns, sources)
                for other, own in places.items():
                    for rule in self.of(other):
                        self._keeping(rule, places, own, magic, constants)

    def _is_walked(self) -> bool:
        """Whether the fixpoint for one value of a column runs as a worklist, which needs the column
        it is partitioned by."""
        return self.attempt.world.worklists and all(
            len(recursive_atoms(rule, self.stratum.relations)) < 2 and not rule.aggregated
            for rule in self.rules
        )

    def _choice(self, name: str, columns: Columns) -> tuple[Columns, list[CheckedRule]]:
        """The best bound columns to demand by, and the rules to use; no rules: use magic sets."""
        for fits in (self._kept, self._handed_on):
            for rules in self.choices:
                self.rules = rules
                for choice in narrower(columns):
                    if fits(name, choice):
                        return choice, rules
        self.rules = self.choices[0]
        return self.attempt.single(name, columns), []

    def _kept(self, name: str, columns: Columns) -> Mapping[str, Columns] | None:
        places = kept(self.stratum, self.rules, name, columns)
        if places is None:
            return None
        fit = all(self.attempt.groups(other).issuperset(own) for other, own in places.items())
        return places if fit else None

    def _handed_on(self, name: str, columns: Columns) -> bool:
        if len(self.stratum.relations) > 1 or any(map(exported, self.rules)):
            return False
        return handed_on(self.of(name), name, columns)

    def _keeping(
        self,
        rule: CheckedRule,
        places: Mapping[str, Columns],
        columns: Columns,
        magic: str,
        constants: Constants | None,
    ) -> None:
        """path[bf](x, z) <- path[bf]?(x), E(x, z).  path[bf](x, z) <- path[bf](x, y), E(y, z).

        Without `magic`: path[bf](1, z) <- E(1, z).
        """
        changed: CheckedRule | None = self._within(rule, places)
        assert changed is not None
        if not recursive_atoms(rule, self.stratum.relations):
            if magic:
                self._guarded(changed, columns, magic, constants)
                return
            assert constants is not None
            changed = with_constants(changed, columns, constants)
        head = self._with_schema(rule.head.name, columns)
        if changed is not None:
            self.attempt.add(changed, head, KnownBindings())

    def _handing(self, name: str, columns: Columns, sources: Sequence[BindingSource]) -> None:
        """One value: m(1).  m(y) <- m(x), E(x, y).  path[cf](z) <- m(x), E(x, z).
        Several: m(s, s) <- asked(s).  m(s, y) <- m(s, x), E(x, y). ...  Rows carry s along."""
        attempt = self.attempt
        others = self._others(name, columns)
        constants = one_constant(sources)
        carried: tuple[s.Expr, ...] = ()
        if constants is not None:
            head = self._left_out(name, columns)
            on_the_way = f"{head}?"
            attempt.schema(on_the_way, columns, name)
            attempt.facts[on_the_way] = (s.Atom(on_the_way, constants, sources[0].span),)
        else:
            head = self._with_schema(name, columns)
            asked = self._magic(name, columns, sources)
            on_the_way = f"{head}+"
            attempt.schema(on_the_way, columns, name, twice=True)
            kinds = [attempt.checked.schemas[name].types[at] for at in columns]
            names = [f"{attempt.checked.schemas[name].columns[at]}~0" for at in columns]
            carried = tuple(map(s.Var, names))
            own = dict(zip(names, kinds, strict=True))
            span = sources[0].span
            start = s.Atom(on_the_way, (*carried, *carried), span)
            attempt.rules.append(CheckedRule(start, s.Atom(asked, carried, span), own, span))
        for rule in self.of(name):
            if carried:
                rule = replace(rule, types={**rule.types, **own})
            one = linear(rule)
            found = tuple([rule.head.args[at] for at in others])
            at_head = tuple([rule.head.args[at] for at in columns])
            if one is not None and one.keeps(columns):
                # path(s, z) <- path(s, y), E(y, z)
                inner = tuple([one.atom.args[at] for at in others])
                first = s.Atom(head, self._laid(columns, carried, inner), one.atom.span)
                self._emit(rule, head, self._laid(columns, carried, found), [first, *one.rest])
                continue
            way = s.Atom(on_the_way, (*carried, *at_head), rule.head.span)
            if one is not None:  # m(s, y) <- m(s, x), E(x, y)
                inner = tuple([one.atom.args[at] for at in columns])
                self._emit(rule, on_the_way, (*carried, *inner), [way, *one.rest])
            else:  # path(s, z) <- m(s, x), E(x, z)
                items = [way, *conjuncts(rule.body)]
                self._emit(rule, head, self._laid(columns, carried, found), items)

    def _laid(
        self, columns: Columns, carried: tuple[s.Expr, ...], others: Sequence[s.Expr]
    ) -> tuple[s.Expr, ...]:
        """The columns of a row, with carried values in the demanded columns."""
        if not carried:
            return tuple(others)
        rest = iter(others)
        by_column = dict(zip(columns, carried, strict=True))
        arity = len(columns) + len(others)
        return tuple([by_column[at] if at in by_column else next(rest) for at in range(arity)])

    def _emit(
        self,
        rule: CheckedRule,
        name: str,
        args: Sequence[s.Expr],
        items: Sequence[s.Literal],
        constants: Mapping[str, s.Const | s.Param] | None = None,
    ) -> None:
        """Adds a rule, in which the first item passes its values on to the others."""
        first, *rest = items
        known = KnownBindings()
        if is_plain(first):
            known.learn(first)
            known.constants.update(constants or {})
        body = first
        if rest:
            passed = SidewaysPassing(self.attempt, rule).literal(
                conjunction(rest, rule.span), known
            )
            body = conjunction([first, passed], rule.span)
        head = s.Atom(name, tuple(args), rule.head.span)
        self.attempt.rules.append(replace(rule, head=head, body=body))

    def _textbook(self, chosen: dict[tuple[str, Columns], list[BindingSource]]) -> None:
        """Magic sets: sg[bf](x, y) <- sg[bf]?(x), up(x, a), sg[bf](a, b), down(b, y), and
        sg[bf]?(a) <- sg[bf]?(x), up(x, a)."""
        attempt = self.attempt
        asked: dict[str, dict[Columns, list[BindingSource]]] = {}
        for (name, columns), sources in chosen.items():
            target = columns
            if len(columns) > 1:
                own = asked.get(name, {})
                target = next((c for c in own if set(c) <= set(columns)), columns[:1])
                attempt.final[self.adorned(name, columns)] = self.adorned(name, target), ()
            places = [columns.index(at) for at in target]
            own = asked.setdefault(name, {})
            own.setdefault(target, []).extend(source.at(places) for source in sources)
        for name in self.stratum.relations:
            attempt.asks[name] = asked.get(name, {})
        done: set[tuple[str, Columns]] = set()
        while True:
            waiting = [
                (name, columns)
                for name in self.stratum.relations
                for columns in attempt.asks[name]
                if (name, columns) not in done
            ]
            if not waiting or attempt.in_full:
                break
            done.update(waiting)
            for name, columns in waiting:
                if len(attempt.asks[name]) > 1 and not attempt.forced:
                    why = "its recursive rules would ask for it by different columns"
                    attempt.needs(name, why)
                magic = f"{self.adorned(name, columns)}?"
                for rule in self.of(name):
                    self._guarded(rule, columns, magic)
        for name, columns in done:
            magic = self._magic(name, columns, attempt.asks[name][columns])
            attempt.magic_sets[magic] = name, columns[0]


def loses_groups(rule: CheckedRule) -> bool:
    """Whether a constant for a column could leave a head with counts and no group."""
    kinds = {part.kind for part in w.all_of(s.HeadAggregate, rule.head)}
    return bool(kinds) and kinds <= {"count", "count_distinct", "sum"}


def with_constants(rule: CheckedRule, columns: Columns, constants: Constants) -> CheckedRule | None:
    """The rule with constants in these columns of its head; None if they contradict it."""
    values: dict[str, s.Const | s.Param] = {}
    tests: list[s.Literal] = []

    def put(node: Any) -> Any:
        if isinstance(node, s.Var):
            return values.get(node.name, node)
        return w.rebuild(node, put)

    for at, constant in zip(columns, constants, strict=True):
        arg = rule.head.args[at]
        if isinstance(arg, s.Var) and arg.name not in values:
            values[arg.name] = constant
    for at, constant in zip(columns, constants, strict=True):
        arg = put(rule.head.args[at])
        if isinstance(arg, s.Const) and isinstance(constant, s.Const):
            if arg.value != constant.value:
                return None
        elif arg != constant:
            tests.append(s.Compare(arg, (("=", constant),), rule.head.span))
    head = replace(rule.head, args=tuple(map(put, rule.head.args)))
    items = [*map(put, w.conjuncts(rule.body)), *tests]
    body = w.conjunction(items, rule.span) if items else None
    return replace(rule, head=head, body=body)
