"""An attempt to rewrite a program by magic sets: what is demanded of relations, and what it made.

Each rule that is added passes demand on to the atoms of its body (`passing.py`), which is noted
here, and so is each relation that turns out to be needed in full.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from gdatalog.cancellation import current_watch
from gdatalog.errors import Error
from gdatalog.parser import syntax as s
from gdatalog.planner.check import Checked, CheckedRule, Schema, Stratum
from gdatalog.planner.check import walk as w
from gdatalog.planner.check.heads import aggregate_columns
from gdatalog.planner.check.lattice import check_lattice
from gdatalog.planner.check.strata import stratify
from gdatalog.planner.rewrite.adornments import (
    BindingSource,
    Columns,
    KnownBindings,
    adorned,
    is_plain,
    plain,
    relevant,
)
from gdatalog.planner.rewrite.passing import recursive_atoms
from gdatalog.planner.rewrite.recursion_cost import World, Worth
from gdatalog.records import dataclass, field, replace

NONE: Columns = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """A magic set that can be evaluated beforehand, and an estimate of its size."""

    magic: str
    relation: str
    values: float


@dataclass(slots=True)
class Attempt:
    """One pass over the strata, with some relations known to be evaluated in full."""

    checked: Checked
    wanted: str
    world: World
    worth: Worth
    forced: bool
    through: bool  # whether negations and aggregates pass demand on
    full: dict[str, str]  # relations evaluated in full, and why
    asks: dict[str, dict[Columns, list[BindingSource]]] = field(default_factory=dict)
    # the same for those that the stratum at hand turned out to need
    in_full: dict[str, str] = field(default_factory=dict)
    rules: list[CheckedRule] = field(default_factory=list)
    facts: dict[str, tuple[s.Atom, ...]] = field(default_factory=dict)
    schemas: dict[str, Schema] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)
    # magic sets of recursions: relation and column
    magic_sets: dict[str, tuple[str, int]] = field(default_factory=dict)
    # the relation that replaces an adorned one, which may be replaced in turn, and the columns that
    # it lacks
    final: dict[str, tuple[str, Columns]] = field(default_factory=dict)
    at_hand: Stratum | None = None

    @property
    def asked(self) -> bool:
        return any(columns for asked in self.asks.values() for columns in asked)

    def demands(self, names: Collection[str]) -> int:
        """In how many ways some relations are demanded."""
        return sum([len(self.asks.get(name, ())) for name in names])

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
        others = tuple([each for each in self.checked.strata if self.wanted not in each.relations])
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
        here = name in self.full or name in self.world.there
        return name in self.worth.home and not here

    def arity(self, name: str) -> int:
        return self.checked.schemas[name].arity

    def groups(self, name: str) -> set[int]:
        """The columns that can be bound: those that no aggregate computes."""
        columns = set(range(self.arity(name)))
        for rule in self._rules(name):
            given_out = exported(rule)
            for at, arg in enumerate(rule.head.args):
                if w.contains_head_aggregate(arg) or given_out & w.variables(arg).keys():
                    columns.discard(at)
        return columns

    def optima(self, name: str) -> dict[int, str]:
        """The columns of lattice aggregates, and their kinds."""
        found: dict[int, str] = {}
        for rule in self._rules(name):
            found |= aggregate_columns(rule.head)
        return {at: kind for at, kind in found.items() if kind in ("min", "max")}

    def needs(self, name: str, why: str = "") -> None:
        self.in_full.setdefault(name, why)

    def schema(self, name: str, columns: Collection[int], of: str, twice: bool = False) -> None:
        """Adds the schema of a relation with some columns of another; `twice`: for pairs of
        values."""
        old = self.checked.schemas[of]
        names = [old.columns[at] for at in columns]
        kinds = tuple([old.types[at] for at in columns])
        if twice:
            names, kinds = [*(f"for_{name}" for name in names), *names], kinds * 2
        self.schemas[name] = Schema(name, tuple(names), kinds, old.span)

    def add(self, rule: CheckedRule, head: str, known: KnownBindings) -> None:
        """Adds a rule for the relation `head`, whose body passes demand on."""
        current_watch().poll()
        body = rule.body and SidewaysPassing(self, rule).literal(rule.body, known)
        self.rules.append(replace(rule, head=replace(rule.head, name=head), body=body))

    def tells(self, name: str) -> bool:
        """Whether a relation's rows can be used for demand; not while lattice aggregates improve
        them."""
        stratum = self.at_hand
        if stratum is None or not stratum.recursive or plain(name) not in stratum.relations:
            return True
        return not any(rule.aggregated for rule in stratum.rules)

    def rows(self, name: str) -> int:
        size = self.world.size(name)
        return 1 << 60 if size is None else size.rows

    def ask(self, atom: s.Atom, known: KnownBindings, rule: CheckedRule) -> s.Atom:
        """Records the demand of an atom of a derived relation, and returns the atom that replaces
        it."""
        name = atom.name
        bound = {at: known.value(arg) for at, arg in enumerate(atom.args)}
        groups = self.groups(name)
        columns = tuple([at for at, arg in bound.items() if arg is not None and at in groups])
        assert self.at_hand is not None
        inside = name in self.at_hand.relations
        if any(each.ordered for each in self._rules(name)):
            self.needs(name, "its rows are put in order")
        elif name in self.world.limited:
            self.needs(name, "of its rows only so many are made")
        elif not self.through and (known.tested or any(r.aggregated for r in self._rules(name))):
            self.needs(name, "asking for what is negated or aggregated would close a cycle")
        elif () in self.asks.get(name, {}):
            columns = ()  # another atom needs the whole relation
        elif not columns:
            if inside or self.worth.home[name].recursive:
                alone = len(w.conjuncts(rule.body)) == 1
                why = "none of its columns is known where " + (
                    "its own rules read it" if inside else "it is read"
                )
                self.needs(name, "" if alone else why)
            self.asks.setdefault(name, {}).setdefault((), [])
        else:
            if inside:
                columns = self.single(name, columns)
            values = [bound[at] for at in columns]
            args = tuple([value for value in values if value is not None])
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

    def _rules(self, name: str) -> Sequence[CheckedRule]:
        return self.worth.rules.get(name, ())

    def _named(self, rule: CheckedRule) -> CheckedRule:
        """The rule with the final names of relations."""

        def change(node: Any) -> Any:
            if isinstance(node, s.Atom):
                node = w.rebuild(node, change)
                name, dropped = node.name, NONE
                while self.final.get(name, (name,))[0] != name:
                    name, dropped = self.final[name]
                args = tuple([arg for at, arg in enumerate(node.args) if at not in dropped])
                return replace(node, name=name, args=args)
            return node if isinstance(node, s.Var) else w.rebuild(node, change)

        return replace(rule, body=None if rule.body is None else change(rule.body))


@dataclass(frozen=True, slots=True)
class SidewaysPassing:
    """A walk through the body of a rule, whose derived atoms demand rows."""

    attempt: Attempt
    rule: CheckedRule

    def literal(self, literal: s.Literal, known: KnownBindings) -> s.Literal:
        """The literal with its derived atoms replaced; adds to `known`."""
        match literal:
            case s.And():
                return replace(literal, items=self._conjunction(literal.items, known))
            case s.Atom():
                tells = self.attempt.tells(literal.name) and is_plain(literal)
                new = literal
                if self.attempt.derived(literal.name):
                    new = self.attempt.ask(literal, known, self.rule)
                if tells:
                    known.learn(new)
                return new
            case s.Or():
                items = tuple([self.literal(item, known.copy()) for item in literal.items])
                either = replace(literal, items=items)
                relations = (atom.name for atom in w.all_of(s.Atom, literal))
                if known.ready(either) and all(map(self.attempt.tells, relations)):
                    known.learn(either)
                return either
            case s.Not():
                return replace(literal, body=self.literal(literal.body, known.copy(tested=True)))
            case _:
                changed = w.rebuild(literal, lambda part: self._expression(part, known))
                if known.ready(changed):
                    known.learn(changed)
                return changed

    def _expression(self, expr: Any, known: KnownBindings) -> Any:
        match expr:
            case s.Aggregate():
                inside = known.copy(tested=True, without=expr.locals)
                return replace(expr, body=self.literal(expr.body, inside))
            case s.FunctionCall() | s.Chain():
                return w.rebuild(expr, lambda part: self._expression(part, known))
            case _:
                return expr

    def _conjunction(
        self, items: Sequence[s.Literal], known: KnownBindings
    ) -> tuple[s.Literal, ...]:
        new: dict[int, s.Literal] = {}
        while len(new) < len(items):
            waiting = [at for at in range(len(items)) if at not in new]
            at = min(waiting, key=lambda at: (self._rank(items[at], known), at))
            new[at] = self.literal(items[at], known)
        return tuple([new[at] for at in range(len(items))])

    def _rank(self, literal: s.Literal, known: KnownBindings) -> tuple[int, int]:
        """The order in which literals are taken."""
        match literal:
            case s.Atom(name, args):
                bound = [at for at, arg in enumerate(args) if known.value(arg) is not None]
                if self.attempt.derived(name):
                    some = not self.attempt.groups(name).isdisjoint(bound)
                    return (2 if some else 6), 0
                return (1, 0) if bound or not args else (4, self.attempt.rows(name))
            case s.Or() if known.ready(literal):
                return (3 if any(n in known.bound for n in w.variables(literal)) else 5), 0
            case _ if known.ready(literal):
                return 0, 0
            case _:
                return 7, 0


def exported(rule: CheckedRule) -> set[str]:
    """The variables that aggregates bind."""
    return {name for part in w.all_of(s.Aggregate, rule.body) for name in part.exports}
