"""The sizes of relations that are not evaluated yet, and the work on them, stratum by stratum.

These are means, as in `rounds_cost.py`. A recursion is followed in numbers: its joins give the rows
of a round for those of the round before, which fall at random among the rows that there may be. So
it ends once few new rows come, or most of these are there. How many there may be is not known.
Where about one row begins with each value, as in trees, each value is assumed to have a few
partners; where two do, the geometric mean of a few and all values. Rows like p(x, x) do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import exp, prod

from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.planner.check.walk import alternatives_of
from gdatalog.planner.rewrite.rounds_cost import (
    PARTNERS,
    Collapse,
    FixpointRelation,
    names_of,
    once,
)
from gdatalog.planner.statistics import PASSES, Assumed, RelationStatistics
from gdatalog.records import dataclass, replace

MOST_ROUNDS = 256
MOST_ROWS = 1e12


@dataclass(frozen=True, slots=True)
class Expected:
    """What is expected of a stratum: the rows that it derives, those that its joins look at, and
    the rounds of its recursion, or 1."""

    rows: float
    looked: float
    rounds: float = 1.0


@dataclass(frozen=True, slots=True)
class SizedBody:
    """An alternative of a rule: its plain atoms, and the share of their joins that tests leave."""

    head: s.Atom
    atoms: tuple[s.Atom, ...]
    passes: float


@dataclass(frozen=True, slots=True)
class FollowedJoin:
    """A join for the new rows of a relation: how many rows it gives for each, and looks at."""

    reads: str
    gives: str
    many: float
    looked: float


class ProgramSizes:
    """The sizes of a program's relations; `size` has the statistics of those that exist, and
    `given` counts the rows that a derived relation has as data and facts.

    `most`: an estimate above others multiplies their errors; from then on no relation is expected
    to have more rows.
    """

    def __init__(
        self, size: Callable[[str], RelationStatistics | None], given: Callable[[str], float]
    ) -> None:
        self._size, self._given = size, given
        self.assumed: dict[str, Assumed] = {}
        self.most = MOST_ROWS

    def statistics(self, name: str) -> RelationStatistics:
        found = self.assumed.get(name) or self._size(name)
        return found if found is not None else Assumed(1, 1, 1)

    def add(
        self, stratum: Stratum, bodies: Sequence[SizedBody], arities: Mapping[str, int]
    ) -> Expected:
        """Estimates a stratum above known ones, and remembers the sizes of its relations. `bodies`:
        those of its rules (`bodies_of`)."""
        estimates = Collapse(self.statistics)
        own = stratum.relations if stratum.recursive else ()
        if own:
            estimates.recursive(stratum.rules, arities)
            expected = self._followed(estimates, bodies, arities)
        else:
            expected = self._once(estimates, bodies, arities)
        for name, arity in arities.items():
            made = estimates.made[name]
            each = tuple([max(1, int(min(many, made.rows))) for many in made.values])
            rows = max(1, int(min(made.rows, self.most)))
            self.assumed[name] = Assumed(rows, max(each, default=1), arity, each=each)
        return expected

    def _once(
        self,
        estimates: Collapse,
        bodies: Sequence[SizedBody],
        arities: Mapping[str, int],
    ) -> Expected:
        rows = {name: self._given(name) for name in arities}
        values = {name: [1.0] * arity for name, arity in arities.items()}
        looked = 0.0
        for body in bodies:
            many, work = _join(estimates, body, body.atoms, ())
            looked += work
            columns = _columns(estimates, body, many)
            rows[body.head.name] += min(many, prod(columns), self.most)
            into = values[body.head.name]
            into[:] = map(max, into, columns)
        for name, count in rows.items():
            estimates.made[name] = FixpointRelation(max(1.0, count), tuple(values[name]))
        return Expected(sum(rows.values()), looked)

    def _followed(
        self, estimates: Collapse, bodies: Sequence[SizedBody], arities: Mapping[str, int]
    ) -> Expected:
        """What is expected of a recursion; `estimates` have the values of each column, and a few
        partners for each."""
        made = {name: estimates.made[name] for name in arities}
        came = {name: self._given(name) for name in arities}
        begin = dict(came)
        rows = dict.fromkeys(arities, 0.0)
        looked = rounds = 0.0
        follows: list[FollowedJoin] = []
        for body in bodies:
            joins = [*_follows(estimates, body, arities)]
            follows += joins
            if not joins:
                many, work = _join(estimates, body, body.atoms, ())
                came[body.head.name] += many
                begin[body.head.name] += many * (len({*body.head.args}) == len(body.head.args))
                looked += work
        most = {n: min(self.most, _most(size.values, begin[n])) for n, size in made.items()}
        while rounds < MOST_ROUNDS:
            new = {}
            for name, count in came.items():
                new[name] = (most[name] - rows[name]) * -_falls(-count / most[name])
                rows[name] += new[name]
            if sum(new.values()) < 1.0:
                break
            rounds += 1
            came = dict.fromkeys(arities, 0.0)
            for each in follows:
                came[each.gives] += new[each.reads] * each.many
                looked += new[each.reads] * each.looked
        for name, count in rows.items():
            estimates.made[name] = FixpointRelation(max(1.0, count), made[name].values)
        return Expected(sum(rows.values()), looked, max(1.0, rounds))


def _most(values: Sequence[float], begin: float) -> float:
    """How many rows there may be of columns with so many values, if so many of them `begin`."""
    *_, fewer, more = (1.0, 1.0, *sorted(values))
    share = min(max(begin / more - 1.0, 0.0), 1.0) / 2
    partners: float = PARTNERS ** (1.0 - share) * fewer**share
    return max(1.0, min(prod(values), more * partners))


def _falls(power: float) -> float:
    """exp(power) - 1, of which little is left without rounding if it is small."""
    return power if power > -1e-9 else exp(power) - 1.0


def _follows(estimates: Collapse, body: SizedBody, own: Collection[str]) -> Iterator[FollowedJoin]:
    for at, atom in enumerate(body.atoms):
        if atom.name in own:
            others = [*body.atoms[:at], *body.atoms[at + 1 :]]
            many, work = _join(estimates, body, others, (atom,))
            yield FollowedJoin(atom.name, body.head.name, many, 1.0 + work)


def _join(
    estimates: Collapse, body: SizedBody, atoms: Sequence[s.Atom], given: Sequence[s.Atom]
) -> tuple[float, float]:
    """How many rows a body gives, and how many are looked at; of one `given` row, or in all."""
    wanted = once(body.atoms, names_of(body.head))
    many, looked, values, bound = 1.0, 0.0, dict[str, float](), set[str]()
    for atom in given:
        estimates.passes(atom, values)
        bound |= names_of(atom)
    for atom, fan in estimates.in_order(atoms, bound, wanted):
        many *= fan * estimates.passes(atom, values)
        looked += many
    return many * body.passes, looked


def _columns(estimates: Collapse, body: SizedBody, many: float) -> list[float]:
    """The values of a head's columns, if the body gives so many rows."""
    found = []
    for arg in body.head.args:
        values = 1.0 if isinstance(arg, s.Const | s.Param | s.HeadAggregate) else max(1.0, many)
        if isinstance(arg, s.Var):
            atoms = [atom for atom in body.atoms if arg.name in names_of(atom)]
            values = estimates.values(arg.name, atoms) if atoms else values
        found.append(values)
    return found


def bodies_of(stratum: Stratum) -> Sequence[SizedBody]:
    """The alternatives of a stratum's rules."""
    return tuple([body for rule in stratum.rules for body in _bodies(rule)])


def _bodies(rule: CheckedRule) -> Iterator[SizedBody]:
    for parts in [[]] if rule.body is None else alternatives_of(rule.body):
        tests = [part for part in parts if isinstance(part, s.Compare)]
        fixed = dict([found for test in tests if (found := _fixed(test)) is not None])
        atoms = tuple([_with(part, fixed) for part in parts if isinstance(part, s.Atom)])
        ops = [op for test in tests for op, _ in test.rest]
        passes = prod(PASSES[op] for op in ops if op != "=")
        yield SizedBody(_with(rule.head, fixed), atoms, passes)


def _fixed(test: s.Compare) -> tuple[str, s.Expr] | None:
    """A variable that equals a constant or another variable, and that."""
    ((op, other), *more) = test.rest
    if op == "=" and not more:
        for left, right in ((test.first, other), (other, test.first)):
            if isinstance(left, s.Var) and isinstance(right, s.Const | s.Param | s.Var):
                return left.name, right
    return None


def _with(atom: s.Atom, fixed: Mapping[str, s.Expr]) -> s.Atom:
    """An atom with what its variables equal."""
    if not fixed:
        return atom
    args = [fixed.get(arg.name, arg) if isinstance(arg, s.Var) else arg for arg in atom.args]
    return replace(atom, args=tuple(args))
