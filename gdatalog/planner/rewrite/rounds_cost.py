"""The cost of a rule's joins in all rounds of a recursion.

A rule is split where a variable dies (`dead_variables.py`) if many bindings are equal in the live
variables. These estimates are means: rows of an atom for each value of its bound columns. Relations
of the fixpoint do not exist yet; their columns take the values that flow into them from data, and
each value has a fixed number of partners.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import prod

from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.statistics import RelationStatistics
from gdatalog.records import dataclass, field

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
                atoms = rule.atoms
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
