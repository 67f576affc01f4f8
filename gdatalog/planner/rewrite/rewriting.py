"""An attempt to rewrite a program by magic sets: what is demanded of relations, what it made, and
the steps that all kinds of demand rewriting share.

Each rule that is added passes demand on to the atoms of its body (`passing.py`), which is noted
here, and so is each relation that turns out to be needed in full.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from gdatalog.errors import Error
from gdatalog.parser import syntax as s
from gdatalog.planner.check import Checked, CheckedRule, Schema, Stratum
from gdatalog.planner.check.heads import aggregate_columns
from gdatalog.planner.check.lattice import check_lattice
from gdatalog.planner.check.strata import stratify
from gdatalog.planner.check.walk import (
    conjunction,
    conjuncts,
    contains_head_aggregate,
    rebuild,
    variables,
    walk,
)
from gdatalog.planner.rewrite import BindingSource, Columns, Constants, adorned, plain, relevant
from gdatalog.planner.rewrite.passing import (
    KnownBindings,
    SidewaysPassing,
    branches,
    closures,
    is_plain,
    recursive_atoms,
)
from gdatalog.planner.rewrite.recursion_cost import World, Worth
from gdatalog.records import dataclass, replace


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
                name = adorned(node.name, self.attempt.arity(node.name), places[node.name])
                return replace(node, name=name)
            return rebuild(node, change)

        return replace(rule, body=None if rule.body is None else change(rule.body))

    def _magic(self, name: str, columns: Columns, sources: Sequence[BindingSource]) -> str:
        """The magic set, with a rule for each source: path[bf]?(x) <- small(x)."""
        attempt = self.attempt
        magic = f"{adorned(name, attempt.arity(name), columns)}?"
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
        guard = s.Atom(magic, args, rule.head.span)
        known = KnownBindings()
        if is_plain(guard):
            known.learn(guard)
            for arg, constant in zip(args, constants or (), strict=False):
                if isinstance(arg, s.Var):
                    known.constants[arg.name] = constant
        self._schema_of(name, columns)
        items: list[s.Literal] = [guard]
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
    kinds = {part.kind for part in nodes if isinstance(part, s.HeadAggregate)}
    return bool(kinds) and kinds <= {"count", "count_distinct", "sum"}


def with_constants(rule: CheckedRule, columns: Columns, constants: Constants) -> CheckedRule | None:
    """The rule with constants in these columns of its head; None if they contradict it."""
    values: dict[str, Any] = {}
    tests: list[s.Literal] = []

    def put(node: Any) -> Any:
        if isinstance(node, s.Var):
            return values.get(node.name, node)
        return rebuild(node, put)

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
    items = [*([] if rule.body is None else [put(rule.body)]), *tests]
    body = conjunction(items, rule.span) if items else None
    return replace(rule, head=head, body=body)


# An attempt to rewrite a program by magic sets: what is demanded of relations, and what it made.


@dataclass(frozen=True, slots=True)
class Measured:
    """A magic set that can be evaluated beforehand, and an estimate of its size."""

    magic: str
    relation: str
    values: float


class Attempt:
    """One pass over the strata, with some relations known to be evaluated in full."""

    def __init__(
        self,
        checked: Checked,
        wanted: str,
        world: World,
        worth: Worth,
        forced: bool,
        through: bool,
        full: Mapping[str, str],
    ) -> None:
        self.checked = checked
        self.wanted = wanted
        self.world = world
        self.worth = worth
        self.forced = forced
        self.through = through  # whether negations and aggregates pass demand on
        self.full = full
        self.home = {name: stratum for stratum in checked.strata for name in stratum.relations}
        self.asks: dict[str, dict[Columns, list[BindingSource]]] = {}
        self.in_full: dict[str, str] = {}  # relations found to be needed in full, and why
        self.rules: list[CheckedRule] = []
        self.facts: dict[str, tuple[s.Atom, ...]] = {}
        self.schemas: dict[str, Schema] = {}
        self.given: dict[str, str] = {}
        self.magic_sets: dict[
            str, tuple[str, int]
        ] = {}  # magic sets of recursions: relation and column
        # the relation that replaces an adorned one, and the columns it lacks
        self.final: dict[str, tuple[str, Columns]] = {}
        self.at_hand: Stratum | None = None

    @property
    def asked(self) -> bool:
        return any(columns for asked in self.asks.values() for columns in asked)

    def program(self) -> Checked | None:
        """The rewritten program, if it is stratified; its strata are checked again."""
        errors: list[Error] = []
        rules = [self._named(rule) for rule in self.rules]
        strata = stratify(rules, errors)
        for stratum in strata:
            if stratum.recursive and not errors:
                check_lattice(stratum, errors)
        if errors:
            return None
        others = tuple(each for each in self.checked.strata if self.wanted not in each.relations)
        return replace(
            self.checked,
            schemas={**self.checked.schemas, **self.schemas},
            strata=(*others, *strata),
            facts={**self.checked.facts, **self.facts},
        )

    def measured(self, program: Checked) -> Iterator[Measured]:
        for magic, (name, column) in self.magic_sets.items():
            values = self.worth.domain(name, column)
            home = next((each for each in program.strata if magic in each.relations), None)
            alone = home is None or all(other.endswith("?") for other in home.relations)
            if alone and values is not None:
                yield Measured(magic, name, values)

    def derived(self, name: str) -> bool:
        return name in self.home and name not in self.full and not self.world.there(name)

    def arity(self, name: str) -> int:
        return self.checked.schemas[name].arity

    def groups(self, name: str) -> set[int]:
        """The columns that can be bound: those that no aggregate computes."""
        columns = set(range(self.arity(name)))
        for rule in self.worth.rules.get(name, ()):
            given_out = exported(rule)
            for at, arg in enumerate(rule.head.args):
                if contains_head_aggregate(arg) or given_out & variables(arg).keys():
                    columns.discard(at)
        return columns

    def optima(self, name: str) -> dict[int, str]:
        """The columns of lattice aggregates, and their kinds."""
        found: dict[int, str] = {}
        for rule in self.worth.rules.get(name, ()):
            found |= aggregate_columns(rule.head)
        return {at: kind for at, kind in found.items() if kind in ("min", "max")}

    def needs(self, name: str, why: str = "") -> None:
        self.in_full.setdefault(name, why)

    def schema(self, name: str, columns: Collection[int], of: str, twice: bool = False) -> None:
        """Adds the schema of a relation with some columns of another; `twice`: for pairs of
        values."""
        old = self.checked.schemas[of]
        names = [old.columns[at] for at in columns]
        kinds = tuple(old.types[at] for at in columns)
        if twice:
            names, kinds = [*(f"for_{name}" for name in names), *names], kinds * 2
        self.schemas[name] = Schema(name, tuple(names), kinds, old.span)

    def add(self, rule: CheckedRule, head: str, known: KnownBindings) -> None:
        """Adds a rule for the relation `head`, whose body passes demand on."""
        body = rule.body and self.sideways(rule).literal(rule.body, known)
        self.rules.append(replace(rule, head=replace(rule.head, name=head), body=body))

    def sideways(self, rule: CheckedRule) -> SidewaysPassing:
        return SidewaysPassing(
            self.derived,
            lambda atom, known: self._ask(atom, known, rule),
            self._tells,
            self._rows,
            self.groups,
        )

    def _tells(self, name: str) -> bool:
        """Whether a relation's rows can be used for demand; not while lattice aggregates improve
        them."""
        stratum = self.at_hand
        if stratum is None or not stratum.recursive or plain(name) not in stratum.relations:
            return True
        return not any(rule.aggregated for rule in stratum.rules)

    def _rows(self, name: str) -> int:
        size = self.world.size(name)
        return 1 << 60 if size is None else size.rows

    def _ask(self, atom: s.Atom, known: KnownBindings, rule: CheckedRule) -> s.Atom:
        """Records the demand of an atom of a derived relation, and returns the atom that replaces
        it."""
        name = atom.name
        bound = {at: known.value(arg) for at, arg in enumerate(atom.args)}
        groups = self.groups(name)
        columns = tuple(at for at, arg in bound.items() if arg is not None and at in groups)
        assert self.at_hand is not None
        inside = name in self.at_hand.relations
        if name in self.world.limited:
            self.needs(name, "of its rows only so many are made")
        elif not self.through and (known.tested or self._gathers(name)):
            self.needs(name, "asking for what is negated or aggregated would close a cycle")
        elif () in self.asks.get(name, {}):
            columns = ()  # another atom needs the whole relation
        elif not columns:
            if inside or self.home[name].recursive:
                alone = len(conjuncts(rule.body)) == 1
                why = "none of its columns is known where " + (
                    "its own rules read it" if inside else "it is read"
                )
                self.needs(name, "" if alone else why)
            self.asks.setdefault(name, {}).setdefault((), [])
        else:
            if inside:
                columns = self.single(name, columns)
            values = [bound[at] for at in columns]
            args = tuple(value for value in values if value is not None)
            source = BindingSource(args, relevant(known.prefix, args), rule.types, atom.span)
            in_rounds = bool(recursive_atoms(rule, self.at_hand.relations))
            refused = None
            if not self.forced and not inside:
                refused = self.worth.refuses(name, columns, source, in_rounds)
            if refused is not None:
                self.needs(name, refused)
            else:
                self.asks.setdefault(name, {}).setdefault(columns, []).append(source)
        return replace(atom, name=adorned(name, self.arity(name), columns))

    def single(self, name: str, columns: Columns) -> Columns:
        """One column for demand within a recursion, because there could be more pairs of values
        than rows; preferably one that is demanded already."""
        known = [own for own in self.asks.get(name, ()) if len(own) == 1 and own[0] in columns]
        return known[0] if known else columns[:1]

    def _gathers(self, name: str) -> bool:
        return any(rule.aggregated for rule in self.worth.rules.get(name, ()))

    def _named(self, rule: CheckedRule) -> CheckedRule:
        """The rule with the final names of relations."""

        def change(node: Any) -> Any:
            if isinstance(node, s.Atom):
                node = rebuild(node, change)
                name, dropped = self.final.get(node.name, (node.name, ()))
                args = tuple(arg for at, arg in enumerate(node.args) if at not in dropped)
                return replace(node, name=name, args=args)
            return node if isinstance(node, s.Var) else rebuild(node, change)

        return replace(rule, body=None if rule.body is None else change(rule.body))


def exported(rule: CheckedRule) -> set[str]:
    """The variables that aggregates bind."""
    parts = walk(rule.body)
    return {name for part in parts if isinstance(part, s.Aggregate) for name in part.exports}
