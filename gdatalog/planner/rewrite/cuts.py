"""The ways to split a rule: some atoms first, after which a variable is dead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, combinations

from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check import walk as w
from gdatalog.records import dataclass, field
from gdatalog.values import TypeName

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
        self.names = {id(each): names_in([each]) for each in literals}
        self.head = names_in(rule.head.args)
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


def names_in(nodes: Iterable[w.Node]) -> frozenset[str]:
    return frozenset([name for node in nodes for name in w.variables(node)])


def _in_order(rule: CheckedRule) -> list[str]:
    """A rule's variables in order of appearance, the head's first."""
    nodes = [*rule.head.args, *w.conjuncts(rule.body)]
    return list(dict.fromkeys(name for node in nodes for name in w.variables(node)))
