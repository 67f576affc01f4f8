"""Recursive rules split where a variable dies.

    sg(x, y) <- E(a, x), sg(a, b), E(b, y).

Given a row (a, b), nobody asks for a any more once x is known, and (x, b) is the same for many
(a, x, b). So the rule becomes two, of a relation that only the fixpoint sees:

    sg~1(x, b) <- E(a, x), sg(a, b), E(b, _).
    sg(x, y)   <- sg~1(x, b), E(b, y).

Its rows are found again and again, but each goes on once in all rounds. It belongs to the
stratum like any other relation; that the answers stay the same needs no proof but that of
unfolding: the first rule put into the second is the rule there was (`E(b, _)` is asked for again,
so that no row is made that leads nowhere).

What may fail, computes or generates stays with the second rule, where it sees the bindings that
it saw before. Rules with aggregates, and strata in which a min or max improves, are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from gdatalog.parser import format_node
from gdatalog.parser.syntax import (
    Aggregate,
    And,
    Atom,
    Call,
    Cast,
    Compare,
    Distinct,
    Literal,
    Member,
    Not,
    Or,
    Test,
    Var,
)
from gdatalog.planner.alternatives import alternatives_of
from gdatalog.planner.checked import CheckedRule, Schema, Stratum
from gdatalog.planner.collapse import Collapse, Made, names_of
from gdatalog.planner.signature import Signature, signature_of
from gdatalog.planner.sizes import Size
from gdatalog.planner.walk import Node, variables, walk
from gdatalog.values import TypeName

# A split must be expected to take at most this share of the work, and a witness to leave at most
# this share of a variable's values.
WORTH, REFUSES = 0.75, 0.9
MOST_ATOMS = 7  # of a body that is looked at

TESTS = (Compare, Member, Distinct, Not, Test)
PART = "~"  # stands for the relation of a part that is thought of

Way = str  # "auto", "always" or "never"


@dataclass(frozen=True, slots=True)
class Parted:
    """A stratum whose rules have been split: the one to evaluate in its place."""

    stratum: Stratum
    schemas: Mapping[str, Schema]  # of the relations made for it
    told: tuple[str, ...]  # for an explanation

    @property
    def made(self) -> frozenset[str]:
        return frozenset(self.schemas)


@dataclass(frozen=True, slots=True)
class Cut:
    """A rule in two parts: `part` gives the live variables, which go on through `rest`."""

    part: tuple[Literal, ...]
    live: tuple[str, ...]
    dead: tuple[str, ...]
    rest: tuple[Literal, ...]
    types: Mapping[str, TypeName]  # of variables that only witnesses have


def parted(
    stratum: Stratum,
    schemas: Mapping[str, Schema],
    sizes: Callable[[str], Size],
    way: Way = "auto",
) -> Parted | None:
    """The stratum with its rules split where that is expected to gain; None if it is nowhere.

    `sizes` tells of the relations below. `way`: "always" splits wherever one can, "never" nowhere.
    """
    if way == "never" or not stratum.recursive or any(rule.aggregated for rule in stratum.rules):
        return None
    return Parting(stratum, schemas, Collapse(sizes), way == "always").result()


@dataclass(slots=True)
class Parting:
    """The work on one stratum."""

    stratum: Stratum
    schemas: Mapping[str, Schema]
    estimates: Collapse
    always: bool
    made: dict[str, Schema] = field(default_factory=dict)
    rules: list[CheckedRule] = field(default_factory=list)  # of the relations made
    told: list[str] = field(default_factory=list)
    # What a part is, its variables numbered: its relation, and which of them are its columns.
    known: dict[Signature, tuple[str, tuple[int, ...]]] = field(default_factory=dict)

    def result(self) -> Parted | None:
        rules = [part for rule in self.stratum.rules for part in self._alternatives(rule)]
        if not any(self._cuts(rule) for rule in rules):
            return None
        arities = {name: self.schemas[name].arity for name in self.stratum.relations}
        self.estimates.recursive(rules, arities)
        # A part that a later rule is split for may serve an earlier one.
        for _ in range(2):
            rules = [self._split(rule) for rule in rules]
        if not self.made:
            return None
        stratum = Stratum((*self.stratum.relations, *self.made), (*self.rules, *rules), True)
        return Parted(stratum, self.made, tuple(self.told))

    def _alternatives(self, rule: CheckedRule) -> list[CheckedRule]:
        """A rule for each alternative, if one of them may be split."""
        if rule.body is None or not any(isinstance(part, Or) for part in walk(rule.body)):
            return [rule]
        if any(isinstance(part, Aggregate) for part in walk(rule.body)):
            return [rule]
        rules = [replace(rule, body=_all_of(parts)) for parts in alternatives_of(rule.body)]
        return rules if any(self._cuts(part) for part in rules) else [rule]

    def _recursive(self, name: str) -> bool:
        return name in self.stratum.relations or name in self.made or name == PART

    # -------------------------------------------------------------------------------- choosing

    def _split(self, rule: CheckedRule) -> CheckedRule:
        """What is left of the rule when its parts have become rules of their own."""
        cut = self._best(rule)
        if cut is None:
            return rule
        at = len(self.told)
        atom = self._part(rule, cut)
        dead = ", ".join("_" if "~" in name else name for name in cut.dead)
        dies = "dies" if len(cut.dead) == 1 else "die"
        head, part = format_node(rule.head), format_node(atom)
        self.told.insert(at, f"{head} is split where {dead} {dies}: each {part} goes on once")
        return self._split(replace(rule, body=_all_of((atom, *cut.rest))))

    def _part(self, rule: CheckedRule, cut: Cut) -> Atom:
        """The atom that stands for a part; its relation is made if no other rule needed it."""
        signature, numbers = signature_of(cut.part, cut.live)
        found = self.known.get(signature)
        if found is not None:
            name, order = found
            variable = {number: name for name, number in numbers.items()}
            return _atom(name, [variable[number] for number in order], rule)
        name = f"{rule.head.name.partition('~')[0]}~{len(self.made) + 1}"
        self.known[signature] = name, tuple(numbers[variable] for variable in cut.live)
        self.made[name] = Schema(name, cut.live, tuple(rule.types[v] for v in cut.live))
        self.estimates.made[name] = self._estimate(cut)
        head = _atom(name, cut.live, rule)
        own = CheckedRule(head, _all_of(cut.part), {**rule.types, **cut.types}, rule.span)
        self.rules.append(self._split(own))
        return head

    def _best(self, rule: CheckedRule) -> Cut | None:
        """The cut that leaves least to do, if that is little enough."""
        cuts = list(map(self._with_witnesses, self._cuts(rule)))
        if not cuts or rule.body is None:
            return None
        work = [self._work(rule, cut) for cut in cuts]
        whole = self._cost(_literals(rule.body), _names(rule.head.args))
        if not self.always and min(work) > WORTH * whole:
            return None
        return cuts[work.index(min(work))]

    def _work(self, rule: CheckedRule, cut: Cut) -> float:
        """What the two parts of a rule cost; one that is made anyway costs nothing."""
        signature, _ = signature_of(cut.part, cut.live)
        first = 0.0 if signature in self.known else self._cost(cut.part, frozenset(cut.live))
        self.estimates.made[PART] = self._estimate(cut)
        rest = (_atom(PART, cut.live, rule), *cut.rest)
        return first + self._cost(rest, _names(rule.head.args))

    def _estimate(self, cut: Cut) -> Made:
        atoms = _atoms(cut.part)
        recursive = [atom.name for atom in atoms if self._recursive(atom.name)]
        return self.estimates.made_of(atoms, cut.live, recursive)

    def _cost(self, literals: Sequence[Literal], wanted: frozenset[str]) -> float:
        atoms = _atoms(literals)
        others = [literal for literal in literals if not isinstance(literal, Atom)]
        recursive = {atom.name for atom in atoms if self._recursive(atom.name)}
        return self.estimates.work(atoms, wanted | _names(others), recursive)

    # ------------------------------------------------------------------------------------ cuts

    def _cuts(self, rule: CheckedRule) -> list[Cut]:
        """The ways to split a rule in two."""
        if rule.body is None:
            return []
        literals = _literals(rule.body)
        atoms = _atoms(literals)
        if not 2 <= len(atoms) <= MOST_ATOMS or not any(self._recursive(a.name) for a in atoms):
            return []
        if any(isinstance(part, (Aggregate, Or)) for part in walk(rule.body)):
            return []
        head = _names(rule.head.args)
        found = []
        for count in range(1, len(atoms)):
            for chosen in combinations([a for a in atoms if _plain(a)], count):
                if any(self._recursive(atom.name) for atom in chosen) and _connected(chosen):
                    cut = self._cut(rule, literals, chosen, head)
                    if cut is not None:
                        found.append(cut)
        return found

    def _cut(
        self,
        rule: CheckedRule,
        literals: Sequence[Literal],
        chosen: Sequence[Atom],
        head: frozenset[str],
    ) -> Cut | None:
        bound = _names(chosen)
        inside = [
            literal
            for literal in literals
            if any(literal is atom for atom in chosen) or self._tests(rule, literal, bound)
        ]
        rest = [literal for literal in literals if not any(literal is part for part in inside)]
        needed = head | _names(rest)
        live = tuple(name for name in _in_order(rule) if name in bound & needed)
        once = {
            name
            for atom in chosen
            if not self._recursive(atom.name)
            for name in _names([atom])
            if sum(name in _names([part]) for part in inside) == 1
        }
        dead = tuple(
            name
            for name in _in_order(rule)
            if name in bound and name not in needed and name not in once
        )
        # Where nothing is bound by what is left, it is but a test of rows that the head has.
        if not live or not dead or head <= bound:
            return None
        return Cut(tuple(inside), live, dead, tuple(rest), {})

    def _tests(self, rule: CheckedRule, literal: Literal, bound: frozenset[str]) -> bool:
        """Whether a literal only tests what atoms have bound; the rest of its names are its own."""
        if not isinstance(literal, TESTS) or not _plain(literal):
            return False
        outside = [*rule.head.args, *(p for p in _literals(rule.body) if p is not literal)]
        return _names([literal]) & (_names(outside) | bound) <= bound

    def _with_witnesses(self, cut: Cut) -> Cut:
        """A part asks for what its rows will meet of the rest, if that seems to refuse some."""
        found: list[Atom] = []
        types: dict[str, TypeName] = {}
        for atom in _atoms(cut.rest):
            shared = names_of(atom) & set(cut.live)
            if self._recursive(atom.name) or not shared or not _plain(atom):
                continue
            if not self.always and not self._refuses(atom, shared, _atoms(cut.part)):
                continue
            args = list(atom.args)
            for at, arg in enumerate(args):
                if isinstance(arg, Var) and arg.name not in shared:
                    name = f"_~w{len(types)}"
                    types[name] = self.schemas[atom.name].types[at]
                    args[at] = Var(name, arg.span)
            found.append(replace(atom, args=tuple(args)))
        return replace(cut, part=(*cut.part, *found), types=types)

    def _refuses(self, atom: Atom, shared: Collection[str], chosen: Sequence[Atom]) -> bool:
        for at, arg in enumerate(atom.args):
            if isinstance(arg, Var) and arg.name in shared:
                there = self.estimates.values(arg.name, chosen)
                if self.estimates.distinct(atom.name, (at,)) < REFUSES * there:
                    return True
        return False


def _plain(literal: Literal) -> bool:
    """Whether a literal computes nothing, so that it may be asked sooner than it was."""
    return not any(isinstance(part, (Call, Cast, Aggregate)) for part in walk(literal))


def _literals(body: Literal | None) -> tuple[Literal, ...]:
    if body is None:
        return ()
    return body.items if isinstance(body, And) else (body,)


def _all_of(literals: Sequence[Literal]) -> Literal:
    return literals[0] if len(literals) == 1 else And(tuple(literals))


def _atoms(literals: Sequence[Literal]) -> list[Atom]:
    return [literal for literal in literals if isinstance(literal, Atom)]


def _names(nodes: Iterable[Node]) -> frozenset[str]:
    return frozenset(name for node in nodes for name in variables(node))


def _atom(name: str, args: Iterable[str], rule: CheckedRule) -> Atom:
    return Atom(name, tuple(Var(arg, rule.span) for arg in args), rule.span)


def _in_order(rule: CheckedRule) -> list[str]:
    """A rule's variables as they come in its text, the head's first."""
    nodes = [*rule.head.args, *_literals(rule.body)]
    return list(dict.fromkeys(name for node in nodes for name in variables(node)))


def _connected(atoms: Sequence[Atom]) -> bool:
    """Whether atoms hang together by their variables."""
    reached, left = names_of(atoms[0]), list(atoms[1:])
    while near := [atom for atom in left if names_of(atom) & reached]:
        reached = reached.union(*map(names_of, near))
        left = [atom for atom in left if atom not in near]
    return not left
