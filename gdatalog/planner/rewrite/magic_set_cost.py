"""When magic sets pay: the number of demanded values against the number of all values.

A constant demands one value of a column; a variable as many as the atoms that bind it. If that is a
large share, or the relation is cheap, the relation is evaluated in full.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from gdatalog.parser.syntax import Atom, Compare, Const, Expr, Literal, Member, Or, Param, Var
from gdatalog.plan.tuning import Tuning
from gdatalog.planner.check import Checked, CheckedRule, Stratum, own_name
from gdatalog.planner.check.scopes import neighbours
from gdatalog.planner.check.walk import walk
from gdatalog.planner.order import RelationStatistics
from gdatalog.planner.rewrite.adornments import BindingSource, Columns, asked_for, plain
from gdatalog.planner.rewrite.passing import branches, literals
from gdatalog.records import dataclass, field

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
    tuning: Tuning = Tuning()


@dataclass(slots=True)
class Worth:
    checked: Checked
    world: World
    rules: dict[str, list[CheckedRule]] = field(default_factory=dict)
    home: dict[str, Stratum] = field(default_factory=dict)
    domains: dict[tuple[str, int], float | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for stratum in self.checked.strata:
            self.home.update(dict.fromkeys(stratum.relations, stratum))
            for rule in stratum.rules:
                self.rules.setdefault(rule.head.name, []).extend(branches(rule))

    def refuses(
        self, name: str, columns: Columns, source: BindingSource, inside: bool
    ) -> str | None:
        """Why a relation is better evaluated in full than for one demand, or None; "" without a
        message for views that are not recursive.

        `inside`: the demand comes from a recursive rule, in each of its rounds.
        """
        below, tuning = self._below(name), self.world.tuning
        recursive = any(self._recursive(other) for other in below)
        if not recursive and (inside or self._rows(below) < tuning.magic_sets_from):
            return ""
        if source.constants is not None or any(_made(literal) for literal in source.body):
            return None
        for column, arg in zip(columns, source.args, strict=True):
            asked = 1.0 if not isinstance(arg, Var) else self._values(arg.name, source.body, ())
            there = self.domain(name, column)
            few = tuning.magic_sets_values if there is None else tuning.magic_sets_share * there
            if asked is not None and asked <= few:
                return None
        shown = " and ".join(
            f"`{own_name(arg.name)}`" for arg in source.args if isinstance(arg, Var)
        )
        return f"{shown} may have most of the values that there are"

    # --------------------------------------------------------------------------- relations

    def _below(self, name: str) -> set[str]:
        """A relation and all relations it depends on."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            at_hand = waiting.pop()
            if at_hand in found:
                continue
            found.add(at_hand)
            for rule in self.rules.get(at_hand, ()):
                nodes = () if rule.body is None else walk(rule.body)
                waiting += [part.name for part in nodes if isinstance(part, Atom)]
        return found

    def _recursive(self, name: str) -> bool:
        return name in self.home and self.home[name].recursive and self.world.size(name) is None

    def _rows(self, names: set[str]) -> int:
        sizes = [self.world.size(name) for name in names]
        return sum(size.rows for size in sizes if size is not None)

    # ------------------------------------------------------------------------------ values

    def domain(self, name: str, column: int, seen: Seen = ()) -> float | None:
        """The greatest number of values of a column; None if unknown."""
        name = plain(name)
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
            found = self._of(arg, literals(rule.body), seen)
            if found is not None:
                most = max(most or 0.0, found)
        if not self.home[name].recursive:  # in a recursion, the result depends on `seen`
            self.domains[name, column] = most
        return most

    def _of(self, arg: Expr, body: Sequence[Literal], seen: Seen) -> float | None:
        if isinstance(arg, Const | Param):
            return 1.0
        return self._values(arg.name, body, seen) if isinstance(arg, Var) else None

    def _values(self, name: str, body: Sequence[Literal], seen: Seen) -> float | None:
        """The greatest number of values of a variable under the literals; None if unknown."""
        known: dict[str, float] = {}
        for _ in range(len(body)):
            before = dict(known)
            for literal in body:
                self._learn(literal, known, seen)
            if known == before:
                break
        return known.get(name)

    def _learn(self, literal: Literal, known: dict[str, float], seen: Seen) -> None:
        def limit(name: str, values: float | None) -> None:
            if values is not None:
                known[name] = min(values, known.get(name, values))

        match literal:
            case Member(Var(name), values):
                limit(name, float(len(values)))
            case Compare():
                for left, op, right in neighbours(literal):
                    for side, other in ((left, right), (right, left)):
                        if op == "=" and isinstance(side, Var):
                            limit(side.name, known.get(other.name) if isinstance(other, Var)
                                  else 1.0)  # fmt: skip
            case Or(items):
                branches = [dict(known) for _ in items]
                for item, branch in zip(items, branches, strict=True):
                    for part in literals(item):
                        self._learn(part, branch, seen)
                for name in set.intersection(*(set(branch) for branch in branches)):
                    limit(name, sum(branch[name] for branch in branches))
            case Atom(relation, args):
                size = self.world.size(relation)
                for column, arg in enumerate(args):
                    if not isinstance(arg, Var):
                        continue
                    limit(arg.name, self.domain(relation, column, seen))
                    for beside, value in enumerate(args) if size is not None else ():
                        if beside == column or not isinstance(value, Var | Const | Param):
                            continue
                        ways = 1.0 if not isinstance(value, Var) else known.get(value.name)
                        if ways is not None and size is not None:
                            each = size.rows / max(1, size.distinct(frozenset((beside,))))
                            limit(arg.name, ways * each)
            case _:
                pass


def _made(literal: Literal) -> bool:
    """Whether a literal reads a relation that is itself restricted by demand."""
    return any(isinstance(part, Atom) and asked_for(part.name) for part in walk(literal))
