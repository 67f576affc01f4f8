"""Dead-variable projection in recursive rules: splits a rule where a variable dies.

    sg(x, y) <- E(a, x), sg(a, b), E(b, y).

For a row (a, b), a is dead once x is bound, and many (a, x, b) share (x, b). So the rule becomes
two, with a relation that only the fixpoint sees:

    sg~1(x, b) <- E(a, x), sg(a, b), E(b, _).
    sg(x, y)   <- sg~1(x, b), E(b, y).

Rows of `sg~1` are derived many times, but each is followed once in all rounds. The relation belongs
to the stratum like any other. The answers stay the same: unfolding the first rule in the second
gives the original (`E(b, _)` repeats, so that no row is kept that leads nowhere).

Literals that can fail, compute or generate stay in the second rule, where they see the same
bindings as before. Rules with aggregates, and strata with lattice aggregates, are not split.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations

from gdatalog.parser import format_node
from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule, Schema, Stratum
from gdatalog.planner.check import walk as w
from gdatalog.planner.rewrite.passing import branches
from gdatalog.planner.rewrite.rounds_cost import PARTNERS, Collapse, FixpointRelation, names_of
from gdatalog.planner.statistics import RelationStatistics
from gdatalog.records import dataclass, field, replace
from gdatalog.settings import Applied, Thresholds
from gdatalog.values import TypeName

ORDERS = 5  # most literals whose orders are compared; more are sorted by their texts
# Texts of literals with numbered variables, and the numbers of the live ones.
Signature = tuple[tuple[str, ...], tuple[int, ...]]


def signature_of(
    part: Sequence[s.Literal], live: Collection[str]
) -> tuple[Signature, Mapping[str, int]]:
    """The signature of a part, independent of names, and the number of each variable."""
    blank = sorted(map(LiteralText.of, part), key=lambda literal: literal.format({}))
    orders = _least_texts(blank, {}) if len(blank) <= ORDERS else [_in_turn(blank)]
    signatures = (
        ((texts, tuple(sorted([numbers[name] for name in live]))), numbers)
        for texts, numbers in orders
    )
    return min(signatures, key=lambda found: found[0])


@dataclass(frozen=True, slots=True)
class LiteralText:
    """The text of a literal, cut at its variables. `order`: each of these once."""

    pieces: tuple[str, ...]  # in turns with the variables
    names: tuple[str, ...]
    order: tuple[str, ...]

    @staticmethod
    def of(literal: s.Literal) -> LiteralText:
        order = tuple(w.variables(literal))
        marks = {name: f"\0{number}\0" for number, name in enumerate(order)}
        pieces = format_node(_renamed(literal, marks)).split("\0")
        names = tuple([order[int(number)] for number in pieces[1::2]])
        return LiteralText(tuple(pieces[::2]), names, order)

    def numbered(self, numbers: Mapping[str, int]) -> dict[str, int]:
        """The numbers of variables, with those of this literal."""
        more = dict(numbers)
        for name in self.order:
            more.setdefault(name, len(more))
        return more

    def format(self, numbers: Mapping[str, int]) -> str:
        """The text with numbers for names; "v" for a variable without one."""
        first, *others = self.pieces
        texts = [first]
        for name, piece in zip(self.names, others, strict=True):
            texts += (f"v{numbers[name]}" if name in numbers else "v", piece)
        return "".join(texts)


def _in_turn(literals: Sequence[LiteralText]) -> tuple[tuple[str, ...], dict[str, int]]:
    """The texts of literals in this order, and the number of each variable."""
    numbers: dict[str, int] = {}
    for literal in literals:
        numbers = literal.numbered(numbers)
    return tuple([literal.format(numbers) for literal in literals]), numbers


def _least_texts(
    left: Sequence[LiteralText], numbers: Mapping[str, int], before: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Mapping[str, int]]]:
    """The same for the orders of literals whose texts come first, beginning with `before`."""
    if not left:
        yield before, numbers
        return
    numbered = [literal.numbered(numbers) for literal in left]
    texts = [literal.format(more) for literal, more in zip(left, numbered, strict=True)]
    least = min(texts)
    for at, text in enumerate(texts):
        if text == least:
            yield from _least_texts((*left[:at], *left[at + 1 :]), numbered[at], (*before, text))


def _renamed(node: w.N, names: Mapping[str, str]) -> w.N:
    """The node with renamed variables."""
    if isinstance(node, s.Var):
        return replace(node, name=names[node.name])
    return w.rebuild(node, lambda part: _renamed(part, names))


MOST_ATOMS = 7  # larger bodies are not split
TESTS = (s.Compare, s.Member, s.Distinct, s.Not, s.Test)


@dataclass(frozen=True, slots=True)
class Cut:
    """A rule split in two: `part` derives the live variables, and `rest` joins them."""

    part: tuple[s.Literal, ...]
    live: tuple[str, ...]
    dead: tuple[str, ...]
    rest: tuple[s.Literal, ...]
    # of variables that occur only in witnesses
    types: Mapping[str, TypeName] = field(default_factory=dict)


def cuts_of(rule: CheckedRule, recursive: Callable[[str], bool]) -> list[Cut]:
    """The ways to split a rule in two; `recursive`: whether a relation has a delta."""
    if rule.body is None:
        return []
    literals = w.conjuncts(rule.body)
    atoms = atoms_of(literals)
    if not 2 <= len(atoms) <= MOST_ATOMS or not any(recursive(a.name) for a in atoms):
        return []
    if any(isinstance(part, (s.Aggregate, s.Or)) for part in w.walk(rule.body)):
        return []
    cutting = Cutting(rule, literals, recursive)
    sizes = range(1, len(atoms))
    plain_ones = [atom for atom in atoms if plain(atom)]
    cuts = (
        cutting.cut(chosen)
        for chosen in chain.from_iterable(combinations(plain_ones, size) for size in sizes)
        if any(recursive(atom.name) for atom in chosen)
        and len(w.connected([cutting.names[id(atom)] for atom in chosen])) == 1
    )
    return [cut for cut in cuts if cut is not None]


class Cutting:
    """Cuts one rule in several ways: the names in its head and literals are looked up once."""

    def __init__(
        self, rule: CheckedRule, literals: Sequence[s.Literal], recursive: Callable[[str], bool]
    ) -> None:
        self.literals = literals
        self.recursive = recursive
        self.names = {id(each): w.names_in([each]) for each in literals}
        self.head = w.names_in(rule.head.args)
        self.order = _in_order(rule)
        # The tests that may be evaluated early, with the variables that they share with others.
        self.tests: dict[int, frozenset[str]] = {}
        for each in literals:
            if isinstance(each, TESTS) and plain(each):
                others = (self.names[id(part)] for part in literals if part is not each)
                self.tests[id(each)] = self.names[id(each)] & self.head.union(*others)

    def cut(self, chosen: Sequence[s.Atom]) -> Cut | None:
        names, literals = self.names, self.literals
        bound = frozenset[str]().union(*(names[id(atom)] for atom in chosen))
        own = set(map(id, chosen))
        inside = [each for each in literals if id(each) in own or self._tests(each, bound)]
        own.update(map(id, inside))
        rest = [each for each in literals if id(each) not in own]
        needed = self.head.union(*(names[id(each)] for each in rest))
        live = tuple([name for name in self.order if name in bound & needed])
        uses = Counter(name for part in inside for name in names[id(part)])
        others = (names[id(atom)] for atom in chosen if not self.recursive(atom.name))
        once = {name for name in frozenset[str]().union(*others) if uses[name] == 1}
        dead = tuple([name for name in self.order if name in bound - needed - once])
        # If the rest binds no variable of the head, it only filters rows.
        if not live or not dead or self.head <= bound:
            return None
        return Cut(tuple(inside), live, dead, tuple(rest))

    def _tests(self, literal: s.Literal, bound: frozenset[str]) -> bool:
        """Whether a literal only tests variables that atoms bind; its other variables are local."""
        shared = self.tests.get(id(literal))
        return shared is not None and shared <= bound


def plain(literal: s.Literal) -> bool:
    """Whether a literal computes nothing, so that it can be evaluated earlier."""
    computes = (s.FunctionCall, s.Chain, s.Cast, s.Aggregate)
    return not any(isinstance(part, computes) for part in w.walk(literal))


def atoms_of(literals: Sequence[s.Literal]) -> list[s.Atom]:
    return [literal for literal in literals if isinstance(literal, s.Atom)]


def _in_order(rule: CheckedRule) -> list[str]:
    """A rule's variables in order of appearance, the head's first."""
    nodes = [*rule.head.args, *w.conjuncts(rule.body)]
    return list(dict.fromkeys(name for node in nodes for name in w.variables(node)))


PART = "~"  # stands for the relation of a part that is thought of


@dataclass(frozen=True, slots=True)
class SplitStratum:
    """A stratum whose rules are split, to evaluate in place of the original."""

    stratum: Stratum
    schemas: Mapping[str, Schema]  # of its new relations
    notes: tuple[str, ...]  # for an explanation


def split_at_dead_variables(
    stratum: Stratum,
    schemas: Mapping[str, Schema],
    sizes: Callable[[str], RelationStatistics],
    way: Applied,
    thresholds: Thresholds,
) -> SplitStratum | None:
    """The stratum with rules split where that is expected to pay; None if no rule is.

    `sizes`: statistics of the relations of earlier strata. `way`: "always" splits wherever
    possible, "never" nowhere.
    """
    if way == "never" or not stratum.recursive or any(rule.aggregated for rule in stratum.rules):
        return None
    return RuleSplitting(stratum, schemas, Collapse(sizes), way == "always", thresholds).result()


@dataclass(slots=True)
class RuleSplitting:
    """The splitting of one stratum."""

    stratum: Stratum
    schemas: Mapping[str, Schema]
    estimates: Collapse
    always: bool
    thresholds: Thresholds
    made: dict[str, Schema] = field(default_factory=dict)
    rules: list[CheckedRule] = field(default_factory=list)  # rules of the new relations
    notes: list[str] = field(default_factory=list)
    # New relations by the signature of their part, and the numbers of their columns' variables.
    known: dict[Signature, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    # By the ids of rules, which are held.
    cuts: dict[int, tuple[CheckedRule, list[Cut]]] = field(default_factory=dict)

    def result(self) -> SplitStratum | None:
        rules = [part for rule in self.stratum.rules for part in self._alternatives(rule)]
        if not any(map(self._cuts, rules)):
            return None
        arities = {name: self.schemas[name].arity for name in self.stratum.relations}
        self.estimates.recursive(rules, arities)
        # Twice: an earlier rule may use a part made for a later one.
        for _ in range(2):
            rules = [self._split(rule) for rule in rules]
        if not self.made:
            return None
        stratum = Stratum((*self.stratum.relations, *self.made), (*self.rules, *rules), True)
        return SplitStratum(stratum, self.made, tuple(self.notes))

    def _alternatives(self, rule: CheckedRule) -> list[CheckedRule]:
        """A rule for each alternative, if one of them can be split."""
        kinds = set(map(type, w.walk(rule.body)))
        if rule.body is None or s.Or not in kinds or s.Aggregate in kinds:
            return [rule]
        rules = list(branches(rule))
        return rules if any(map(self._cuts, rules)) else [rule]

    def _cuts(self, rule: CheckedRule) -> list[Cut]:
        """The ways to split a rule, which stay the same."""
        found = self.cuts.get(id(rule))
        if found is None:
            found = self.cuts[id(rule)] = rule, cuts_of(rule, self._recursive)
        return found[1]

    def _recursive(self, name: str) -> bool:
        return name in self.stratum.relations or name in self.made or name == PART

    # -------------------------------------------------------------------------------- choosing

    def _split(self, rule: CheckedRule) -> CheckedRule:
        """The rest of a rule after its parts became rules."""
        cut = self._best(rule)
        if cut is None:
            return rule
        at = len(self.notes)
        atom = self._part(rule, cut)
        dead = ", ".join(["_" if "~" in name else name for name in cut.dead])
        dies = "dies" if len(cut.dead) == 1 else "die"
        head, part = format_node(rule.head), format_node(atom)
        self.notes.insert(at, f"{head} is split where {dead} {dies}: each {part} goes on once")
        return self._split(replace(rule, body=w.conjunction((atom, *cut.rest), rule.span)))

    def _part(self, rule: CheckedRule, cut: Cut) -> s.Atom:
        """The atom that replaces a part; derives a new relation unless a rule already has the same
        part."""
        signature, numbers = signature_of(cut.part, cut.live)
        found = self.known.get(signature)
        if found is not None:
            name, order = found
            variable = {number: name for name, number in numbers.items()}
            return _atom(name, [variable[number] for number in order], rule)
        name = f"{rule.head.name.partition('~')[0]}~{len(self.made) + 1}"
        self.known[signature] = name, tuple([numbers[variable] for variable in cut.live])
        self.made[name] = Schema(name, cut.live, tuple([rule.types[v] for v in cut.live]))
        self.estimates.made[name] = self._estimate(cut)
        head = _atom(name, cut.live, rule)
        own = CheckedRule(
            head, w.conjunction(cut.part, rule.span), {**rule.types, **cut.types}, rule.span
        )
        self.rules.append(self._split(own))
        return head

    def _best(self, rule: CheckedRule) -> Cut | None:
        """The cheapest cut, if it is cheap enough."""
        cuts = list(map(self._with_witnesses, self._cuts(rule)))
        if not cuts or rule.body is None:
            return None
        work = [self._work(rule, cut) for cut in cuts]
        whole = self._cost(w.conjuncts(rule.body), w.names_in(rule.head.args))
        if not self.always and min(work) > self.thresholds.dead_variables_share * whole:
            return None
        return cuts[work.index(min(work))]

    def _work(self, rule: CheckedRule, cut: Cut) -> float:
        """The cost of the two rules of a cut; a part that exists already is free."""
        there = bool(self.known) and signature_of(cut.part, cut.live)[0] in self.known
        first = 0.0 if there else self._cost(cut.part, frozenset(cut.live))
        self.estimates.made[PART] = self._estimate(cut)
        rest = (_atom(PART, cut.live, rule), *cut.rest)
        # A part wider than the head can have more rows than the rule derives, and its estimate
        # ignores correlation: so it is penalised.
        wider = max(0, len(cut.live) - len(rule.head.args))
        return PARTNERS**wider * (first + self._cost(rest, w.names_in(rule.head.args)))

    def _estimate(self, cut: Cut) -> FixpointRelation:
        atoms = atoms_of(cut.part)
        recursive = [atom.name for atom in atoms if self._recursive(atom.name)]
        return self.estimates.made_of(atoms, cut.live, recursive)

    def _cost(self, literals: Sequence[s.Literal], wanted: frozenset[str]) -> float:
        atoms = atoms_of(literals)
        others = [literal for literal in literals if not isinstance(literal, s.Atom)]
        recursive = {atom.name for atom in atoms if self._recursive(atom.name)}
        return self.estimates.work(atoms, wanted | w.names_in(others), recursive)

    def _with_witnesses(self, cut: Cut) -> Cut:
        """Adds semi-joins with atoms of the rest to the part, if they seem to filter rows."""
        found: list[s.Atom] = []
        types: dict[str, TypeName] = {}
        for atom in atoms_of(cut.rest):
            shared = names_of(atom) & set(cut.live)
            if self._recursive(atom.name) or not shared or not plain(atom):
                continue
            if not self.always and not self._refuses(atom, shared, atoms_of(cut.part)):
                continue
            args = list(atom.args)
            for at, arg in enumerate(args):
                if isinstance(arg, s.Var) and arg.name not in shared:
                    name = f"_~w{len(types)}"
                    types[name] = self.schemas[atom.name].types[at]
                    args[at] = s.Var(name, arg.span)
            found.append(replace(atom, args=tuple(args)))
        return replace(cut, part=(*cut.part, *found), types=types)

    def _refuses(self, atom: s.Atom, shared: Collection[str], chosen: Sequence[s.Atom]) -> bool:
        return any(
            self.estimates.distinct(atom.name, (at,))
            < self.thresholds.dead_variables_left * self.estimates.values(arg.name, chosen)
            for at, arg in enumerate(atom.args)
            if isinstance(arg, s.Var) and arg.name in shared
        )


def _atom(name: str, args: Iterable[str], rule: CheckedRule) -> s.Atom:
    return s.Atom(name, tuple([s.Var(arg, rule.span) for arg in args]), rule.span)
