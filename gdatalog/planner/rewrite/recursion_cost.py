"""When a recursion is rewritten: the cost of demanded values, and of a rule's joins in all rounds.

Magic sets compare the number of demanded values with that of all values. A constant demands one
value of a column; a variable as many as the atoms that bind it. If that is a large share, or the
relation is cheap, the relation is evaluated in full.

A rule is split where a variable dies (`dead_variables.py`) if many bindings are equal in the live
variables. These estimates are means: rows of an atom for each value of its bound columns. Relations
of the fixpoint do not exist yet; their columns take the values that flow into them from data, and
each value has a fixed number of partners.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import prod

from gdatalog.parser import syntax as s
from gdatalog.planner.check import Checked, CheckedRule, Stratum
from gdatalog.planner.check.bindings import neighbours
from gdatalog.planner.check.walk import all_of, conjuncts, reached
from gdatalog.planner.check.wording import own_name
from gdatalog.planner.order.pattern import bits
from gdatalog.planner.rewrite.adornments import BindingSource, Columns, asked_for, plain
from gdatalog.planner.rewrite.passing import branches, read_by
from gdatalog.planner.statistics import RelationStatistics
from gdatalog.records import dataclass, field
from gdatalog.settings import Thresholds

Seen = Collection[tuple[str, int]]  # columns under estimation, to detect recursion


@dataclass(frozen=True, slots=True)
class World:
    """The database's state: evaluated relations (`there`), derived relations that also have data,
    statistics of existing relations, and relations with a limit on rows."""

    there: Callable[[str], bool]
    has_data: Callable[[str], bool]
    size: Callable[[str], RelationStatistics | None]
    limited: Collection[str] = ()
    worklists: bool = False  # whether fixpoints of one value run as worklists
    thresholds: Thresholds = Thresholds()


@dataclass(frozen=True, slots=True)
class Below:
    """A relation with all relations it depends on: those that exist, as bits; the sum of their
    rows; and whether any is recursive and has to be evaluated."""

    there: int
    rows: int
    recursive: bool


@dataclass(slots=True)
class Worth:
    checked: Checked
    world: World
    rules: dict[str, list[CheckedRule]] = field(default_factory=dict)
    home: dict[str, Stratum] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)  # of strata
    domains: dict[tuple[str, int], float | None] = field(default_factory=dict)
    below: dict[str, Below] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)  # rows of each bit of `there`

    def __post_init__(self) -> None:
        for place, stratum in enumerate(self.checked.strata):
            self.home.update(dict.fromkeys(stratum.relations, stratum))
            self.places.update(dict.fromkeys(stratum.relations, place))
            for rule in stratum.rules:
                self.rules.setdefault(rule.head.name, []).extend(branches(rule))

    def refuses(
        self, name: str, columns: Columns, source: BindingSource, inside: bool
    ) -> str | None:
        """Why a relation is better evaluated in full than for one demand, or None; "" without a
        message for views that are not recursive.

        `inside`: the demand comes from a recursive rule, in each of its rounds.
        """
        self._look_below(name)
        below, thresholds = self.below[name], self.world.thresholds
        if not below.recursive and (inside or below.rows < thresholds.magic_sets_from):
            return ""
        if source.constants is not None or any(_made(literal) for literal in source.body):
            return None
        for column, arg in zip(columns, source.args, strict=True):
            asked = self._values(arg, source.body, ())
            there = self.domain(name, column)
            few = (
                thresholds.magic_sets_values
                if there is None
                else thresholds.magic_sets_share * there
            )
            if asked is not None and asked <= few:
                return None
        shown = [f"`{own_name(arg.name)}`" for arg in source.args if isinstance(arg, s.Var)]
        return f"{' and '.join(shown)} may have most of the values that there are"

    # --------------------------------------------------------------------------- relations

    def _look_below(self, name: str) -> None:
        """Looks at a relation and all relations it depends on, lowest first, each once."""
        rules, known = self.rules, self.below

        def reads(other: str) -> Iterator[str]:
            atoms = all_of(s.Atom, *(rule.body for rule in rules.get(other, ())))
            return (atom.name for atom in atoms if atom.name not in known)

        if name in known:
            return
        new = sorted({name, *reached(name, reads)}, key=lambda other: self.places.get(other, -1))
        for other in new:
            if other not in known:
                self._look_at(other)

    def _look_at(self, name: str) -> None:
        """Looks at a relation and those of its recursion, above relations that are known."""
        stratum = self.home.get(name)
        names = (name,) if stratum is None else stratum.relations
        rules = [rule for own in names for rule in self.rules.get(own, ())]
        read = [self.below[other] for other in read_by(rules) if other in self.below]
        there, rows, recursive = 0, 0, any(below.recursive for below in read)
        for below in sorted(read, key=lambda below: -below.rows):
            rows += (
                sum([self.sizes[at] for at in bits(below.there & ~there)]) if there else below.rows
            )
            there |= below.there
        for own in names:
            size = self.world.size(own)
            if size is not None:
                there |= 1 << len(self.sizes)
                rows += size.rows
                self.sizes.append(size.rows)
            elif stratum is not None:
                recursive |= stratum.recursive
        self.below.update(dict.fromkeys(names, Below(there, rows, recursive)))
        if stratum is not None and not stratum.recursive:
            for column in range(self.checked.schemas[name].arity):
                self.domain(name, column)

    # ------------------------------------------------------------------------------ values

    def domain(self, name: str, column: int, seen: Seen = ()) -> float | None:
        """The greatest number of values of a column; None if unknown."""
        name = plain(name)
        if not seen:
            self._look_below(name)
        size = self.world.size(name)
        if size is not None:
            return float(size.distinct(frozenset((column,))))
        if name not in self.rules or (name, column) in seen:
            return None
        if (name, column) in self.domains:
            return self.domains[name, column]
        seen = {*seen, (name, column)}
        most: float | None = None
        for rule in self.rules[name]:
            arg = rule.head.args[column]
            found = self._values(arg, conjuncts(rule.body), seen)
            if found is not None:
                most = max(most or 0.0, found)
        if not self.home[name].recursive:  # in a recursion, the result depends on `seen`
            self.domains[name, column] = most
        return most

    def _values(self, arg: s.Expr, body: Sequence[s.Literal], seen: Seen) -> float | None:
        """The greatest number of values of an argument under the literals; None if unknown."""
        if not isinstance(arg, s.Var):
            return 1.0 if isinstance(arg, s.Const | s.Param) else None
        known: dict[str, float] = {}
        for _ in range(len(body)):
            before = dict(known)
            for literal in body:
                self._learn(literal, known, seen)
            if known == before:
                break
        return known.get(arg.name)

    def _learn(self, literal: s.Literal, known: dict[str, float], seen: Seen) -> None:
        def limit(name: str, values: float | None) -> None:
            if values is not None:
                known[name] = min(values, known.get(name, values))

        match literal:
            case s.Member(s.Var(name), values):
                limit(name, float(len(values)))
            case s.Compare():
                for left, op, right in neighbours(literal):
                    for side, other in ((left, right), (right, left)):
                        if op == "=" and isinstance(side, s.Var):
                            limit(side.name, known.get(other.name) if isinstance(other, s.Var)
                                  else 1.0)  # fmt: skip
            case s.Or(items):
                branches = [dict(known) for _ in items]
                for item, branch in zip(items, branches, strict=True):
                    for part in conjuncts(item):
                        self._learn(part, branch, seen)
                for name in set.intersection(*(set(branch) for branch in branches)):
                    limit(name, sum([branch[name] for branch in branches]))
            case s.Atom(relation, args):
                size = self.world.size(relation)
                for column, arg in enumerate(args):
                    if not isinstance(arg, s.Var):
                        continue
                    limit(arg.name, self.domain(relation, column, seen))
                    for beside, value in enumerate(args) if size is not None else ():
                        if not isinstance(value, s.Var | s.Const | s.Param):
                            continue
                        ways = 1.0 if not isinstance(value, s.Var) else known.get(value.name)
                        if ways is not None and size is not None:
                            each = size.rows / max(1, size.distinct(frozenset((beside,))))
                            limit(arg.name, ways * each)
            case _:
                pass


def _made(literal: s.Literal) -> bool:
    """Whether a literal reads a relation that is itself restricted by demand."""
    return any(asked_for(atom.name) for atom in all_of(s.Atom, literal))


# --------------------------------------------------------------- joins over all rounds


# Assumed partners of each value of a recursive relation, and values of an unknown column.
PARTNERS, VALUES = 16.0, 10_000.0
# Cost of a derived row (deduplicated and stored), in rows read.
GIVEN = 2.0
# Exponent for duplicates: fewer bindings coincide than could.
MEET = 0.75


@dataclass(frozen=True, slots=True)
class FixpointRelation:
    """A relation of the fixpoint: its assumed rows, and distinct values of its columns."""

    rows: float
    values: tuple[float, ...]

    def distinct(self, columns: Iterable[int]) -> float:
        return min(self.rows, prod(self.values[at] for at in columns))


@dataclass(slots=True)
class Collapse:
    """The estimates for a stratum."""

    sizes: Callable[[str], RelationStatistics]  # statistics of existing relations
    made: dict[str, FixpointRelation] = field(default_factory=dict)

    def recursive(self, rules: Sequence[CheckedRule], arities: Mapping[str, int]) -> None:
        """Assumes sizes of a stratum's relations, by the flow of values through its rules."""
        values = {name: [0.0] * arity for name, arity in arities.items()}
        for _ in range(len(arities) + 2):
            for rule in rules:
                atoms = all_of(s.Atom, rule.body)
                for at, arg in enumerate(rule.head.args if rule.body is not None else ()):
                    found = self._values(arg, atoms, values) if isinstance(arg, s.Var) else 1.0
                    into = values[rule.head.name]
                    into[at] = max(into[at], found)
        for name, columns in values.items():
            known = tuple([most or VALUES for most in columns])
            rows = min(PARTNERS * max(known, default=1.0), prod(known))
            self.made[name] = FixpointRelation(max(1.0, rows), known)

    def _values(
        self, variable: s.Var, atoms: Sequence[s.Atom], made: Mapping[str, Sequence[float]]
    ) -> float:
        """The number of values of a variable: by data, otherwise by relations of the stratum."""
        there, flows = [], [0.0]
        for atom in atoms:
            for at, arg in enumerate(atom.args):
                if arg == variable:
                    if atom.name in made:
                        flows.append(made[atom.name][at])
                    else:
                        there.append(float(self.sizes(atom.name).distinct(frozenset((at,)))))
        return min(there) if there else max(flows)

    # ------------------------------------------------------------------------------- of atoms

    def rows(self, atom: s.Atom) -> float:
        return self.distinct(atom.name, range(len(atom.args)))

    def distinct(self, name: str, columns: Collection[int]) -> float:
        """The number of combinations of values in some columns of a relation."""
        if not columns:
            return 1.0
        made = self.made.get(name)
        if made is not None:
            return max(1.0, made.distinct(columns))
        return max(1.0, float(self.sizes(name).distinct(frozenset(columns))))

    def values(self, name: str, atoms: Iterable[s.Atom]) -> float:
        """The greatest number of values of a variable, by the atoms that contain it."""
        return min(
            self.distinct(atom.name, (at,))
            for atom in atoms
            for at, arg in enumerate(atom.args)
            if isinstance(arg, s.Var) and arg.name == name
        )

    def fan(self, atom: s.Atom, bound: Collection[str], wanted: Collection[str]) -> float:
        """The number of bindings of the wanted variables for each binding of the bound ones."""
        known, kept = [], []
        for at, arg in enumerate(atom.args):
            if not isinstance(arg, s.Var) or arg.name in bound:
                known.append(at)
            elif arg.name in wanted:
                kept.append(at)
        return self.distinct(atom.name, (*known, *kept)) / self.distinct(atom.name, known)

    def passes(self, atom: s.Atom, values: dict[str, float]) -> float:
        """The share of bindings that an atom lets through; updates the number of values left."""
        share = 1.0
        for at, arg in enumerate(atom.args):
            if isinstance(arg, s.Var):
                there = self.distinct(atom.name, (at,))
                share *= min(1.0, there / values.get(arg.name, there))
                values[arg.name] = min(there, values.get(arg.name, there))
        return share

    # ------------------------------------------------------------------------- of conjunctions

    def bindings(
        self, given: s.Atom, atoms: Sequence[s.Atom], wanted: Collection[str]
    ) -> tuple[float, float]:
        """For each given row: the number of bindings, and of intermediate bindings.

        The atom with the least fan-out comes next, as in a plan's order.
        """
        values: dict[str, float] = {}
        self.passes(given, values)
        many, looked_at = 1.0, 0.0
        for atom, fan in self.in_order(atoms, names_of(given), wanted):
            many *= fan * self.passes(atom, values)
            looked_at += many
        return many, looked_at

    def alike(
        self, atoms: Sequence[s.Atom], live: Collection[str], wanted: Collection[str]
    ) -> float:
        """The greatest number of bindings with the same live variables."""
        return prod(max(1.0, fan) for _, fan in self.in_order(atoms, live, wanted))

    def in_order(
        self, atoms: Sequence[s.Atom], bound: Collection[str], wanted: Collection[str]
    ) -> Iterator[tuple[s.Atom, float]]:
        """The atoms, each with its fan-out: the connected one with the least comes next."""
        left, known = list(atoms), set(bound)
        while left:
            found = []
            for atom in [atom for atom in left if names_of(atom) & known] or left:
                rest = (names_of(other) for other in left if other is not atom)
                found.append((self.fan(atom, known, set(wanted).union(*rest)), atom))
            fan, atom = min(found, key=lambda pair: pair[0])
            left.remove(atom)
            known |= names_of(atom)
            yield atom, fan

    def work(
        self, atoms: Sequence[s.Atom], wanted: Collection[str], recursive: Collection[str]
    ) -> float:
        """The cost of a rule over all rounds: each row of a recursive atom is new once."""
        total = 0.0
        for at, atom in enumerate(atoms):
            if atom.name in recursive:
                many, looked_at = self.bindings(atom, [*atoms[:at], *atoms[at + 1 :]], wanted)
                total += self.rows(atom) * (looked_at + GIVEN * many)
        return total

    def made_of(
        self, atoms: Sequence[s.Atom], live: Sequence[str], recursive: Collection[str]
    ) -> FixpointRelation:
        """The size of a part's relation after duplicates in the live variables are removed."""
        first = next(atom for atom in atoms if atom.name in recursive)
        others = [atom for atom in atoms if atom is not first]
        wanted = once(atoms, live) | names_of(first)
        many, _ = self.bindings(first, others, wanted)
        met = self.rows(first) * many / self.alike(atoms, live, wanted) ** MEET
        values = tuple([self.values(name, atoms) for name in live])
        return FixpointRelation(max(1.0, min(met, prod(values))), values)


def names_of(atom: s.Atom) -> frozenset[str]:
    """An atom's variables."""
    return frozenset([arg.name for arg in atom.args if isinstance(arg, s.Var)])


def once(atoms: Sequence[s.Atom], live: Collection[str]) -> frozenset[str]:
    """The variables that join atoms or are live; other variables only need a witness."""
    seen: set[str] = set()
    twice: set[str] = set(live)
    for atom in atoms:
        names = names_of(atom)
        twice |= names & seen
        seen |= names
    return frozenset(twice)
