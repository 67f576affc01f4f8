"""When magic sets rewrite a recursion: the cost of demanded values.

Magic sets compare the number of demanded values with that of all values. A constant demands one
value of a column; a variable as many as the atoms that bind it. If that is a large share, or the
relation is cheap, the relation is evaluated in full.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

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

    there: Collection[str]
    has_data: Collection[str]
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
