"""An attempt to rewrite a program by magic sets: what is demanded of relations, and what it made.

Each rule that is added passes demand on to the atoms of its body (`sideways.py`), which is noted
here, and so is each relation that turns out to be needed in full.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from gdatalog.errors import Error
from gdatalog.parser.syntax import Aggregate, Atom, Var
from gdatalog.planner.check.checked import Checked, CheckedRule, Schema, Stratum
from gdatalog.planner.check.heads import aggregate_columns
from gdatalog.planner.check.lattice import check_lattice
from gdatalog.planner.check.strata import stratify
from gdatalog.planner.check.walk import contains_head_aggregate, rebuild, variables, walk
from gdatalog.planner.rewrite.adornments import BindingSource, Columns, adorned, plain, relevant
from gdatalog.planner.rewrite.magic_set_cost import World, Worth
from gdatalog.planner.rewrite.passing import literals
from gdatalog.planner.rewrite.sideways import KnownBindings, SidewaysPassing
from gdatalog.records import dataclass, replace


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
        self.facts: dict[str, tuple[Atom, ...]] = {}
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
        others = tuple(s for s in self.checked.strata if self.wanted not in s.relations)
        return replace(
            self.checked,
            schemas={**self.checked.schemas, **self.schemas},
            strata=(*others, *strata),
            facts={**self.checked.facts, **self.facts},
        )

    def measured(self, program: Checked) -> Iterator[Measured]:
        for magic, (name, column) in self.magic_sets.items():
            values = self.worth.domain(name, column)
            home = next((s for s in program.strata if magic in s.relations), None)
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

    def _ask(self, atom: Atom, known: KnownBindings, rule: CheckedRule) -> Atom:
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
                alone = len(literals(rule.body)) == 1
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
            in_rounds = not atoms_read(rule).isdisjoint(self.at_hand.relations)
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
            if isinstance(node, Atom):
                node = rebuild(node, change)
                name, dropped = self.final.get(node.name, (node.name, ()))
                args = tuple(arg for at, arg in enumerate(node.args) if at not in dropped)
                return replace(node, name=name, args=args)
            return node if isinstance(node, Var) else rebuild(node, change)

        return replace(rule, body=None if rule.body is None else change(rule.body))


def atoms_read(rule: CheckedRule) -> set[str]:
    """The relations that a rule reads."""
    nodes = () if rule.body is None else walk(rule.body)
    return {part.name for part in nodes if isinstance(part, Atom)}


def exported(rule: CheckedRule) -> set[str]:
    """The variables that aggregates bind."""
    nodes = () if rule.body is None else walk(rule.body)
    return {name for part in nodes if isinstance(part, Aggregate) for name in part.exports}
