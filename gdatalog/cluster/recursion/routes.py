"""Where the rows of a fixpoint go that several workers, its owners, make together.

Each owner has a part of every recursive relation, by a hash: its home rows. A recursive rule
follows new rows where all that it reads of them is at hand. So the new rows go to where a hash of
one of their columns says, and so do the rows of those relations that are looked up by that column's
value: whatever a row meets lies at the same owner. What is not looked up by it goes to all.

A plan says by names where the rows are to be that it reads: `p@1` are the rows of p by the hash of
column 1, `p@all` all rows, `p@home` those that are at home.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gdatalog.plan.cells import roles
from gdatalog.plan.effects import all_steps
from gdatalog.plan.nodes import Guard, JoinPlan, RulePlan, TrieRef
from gdatalog.records import dataclass, field, replace

By = int | str  # a column, or one of these
HOME, ALL = "home", "all"
UNKNOWN = 1e12  # rows of a relation that grows: to send all of it to all is the last resort


@dataclass(frozen=True, slots=True)
class Distribution:
    """The rows of a relation, by what they are dealt out."""

    relation: str
    by: By

    @property
    def name(self) -> str:
        return f"{self.relation}@{self.by}"


@dataclass(slots=True)
class Routes:
    """`plans`: one join each, which read places; `homes`: the columns whose hash says where a row
    is at home; `places`: where new rows go from there, `indexes` those of which indexes are made;
    `fragments`: places of relations that do not grow; `whole`: their tries that every owner has.
    """

    plans: list[RulePlan] = field(default_factory=list)
    homes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    places: dict[str, Distribution] = field(default_factory=dict)
    indexes: set[str] = field(default_factory=set)
    fragments: dict[str, Distribution] = field(default_factory=dict)
    whole: set[TrieRef] = field(default_factory=set)

    @property
    def aligned(self) -> bool:
        """Whether all new rows are followed where they are at home."""
        return all(self.at_home(place) for place in self.places.values())

    def at_home(self, place: Distribution) -> bool:
        return place.by == HOME or self.homes[place.relation] == (place.by,)


def routes_of(
    plans: Sequence[RulePlan],
    groups: Mapping[str, Sequence[int]],
    length: Callable[[str], int],
    parted: bool,
) -> Routes:
    """`plans` have one join each. `groups`: of each relation that grows the columns by which rows
    may be dealt out. `parted`: whether the others are dealt out, too, of which `length` says how
    long they are."""
    routes = Routes()
    for plan in plans:
        (join,) = plan.joins
        weigh = _Weighing(join, groups, length, parted)
        by, with_it = weigh.best()
        assert join.given is not None
        given = _noted(routes, Distribution(join.given.relation, by))
        refs: list[TrieRef] = []
        for at, ref in enumerate(join.tries):
            if ref.relation in groups:
                place = Distribution(ref.relation, with_it.get(at, ALL))
                refs.append(replace(ref, relation=_noted(routes, place)))
                routes.indexes.add(place.name)
            elif at in with_it:
                place = Distribution(ref.relation, with_it[at])
                routes.fragments[place.name] = place
                refs.append(replace(ref, relation=place.name))
            else:
                routes.whole.add(ref)
                refs.append(ref)
        followed = replace(join, tries=tuple(refs), given=replace(join.given, relation=given))
        routes.plans.append(replace(plan, joins=(followed,)))
    for name, columns in groups.items():
        asked = {place.by for place in routes.places.values() if place.relation == name} - {HOME}
        one = next(iter(asked)) if len(asked) == 1 else None
        routes.homes[name] = (one,) if isinstance(one, int) else tuple(columns)
    return routes


def _noted(routes: Routes, place: Distribution) -> str:
    routes.places[place.name] = place
    return place.name


@dataclass(frozen=True, slots=True)
class _Weighing:
    """By which column of the new rows a join is best dealt out."""

    join: JoinPlan
    groups: Mapping[str, Sequence[int]]
    length: Callable[[str], int]
    parted: bool

    def best(self) -> tuple[By, dict[int, int]]:
        """A column, and by which columns the tries are dealt out that go with it, by number."""
        given = self.join.given
        assert given is not None
        found: tuple[By, dict[int, int]] = HOME, {}
        most = 0.0
        for column in self.groups[given.relation]:
            with_it = self._with(given.slots[column].name)
            weight = sum(map(self._weight, with_it))
            if weight > most:
                found, most = (column, with_it), weight
        return found

    def _weight(self, trie: int) -> float:
        name = self.join.tries[trie].relation
        return UNKNOWN if name in self.groups else float(self.length(name))

    def _with(self, variable: str) -> dict[int, int]:
        guarded = {step.trie for step in all_steps(self.join.steps) if isinstance(step, Guard)}
        found: dict[int, int] = {}
        for at, (ref, names) in enumerate(zip(self.join.tries, roles(self.join), strict=True)):
            if variable not in names or ref.ranked or at in guarded:
                continue
            column = ref.columns[names.index(variable)]
            grows = self.groups.get(ref.relation)
            if column in grows if grows is not None else self.parted:
                found[at] = column
        return found
