"""Routes: where new rows of a hash-partitioned fixpoint are sent.

Each owner has the rows of every recursive relation with certain hashes: its home rows. A recursive
rule follows a new row on an owner that has all rows that the rule joins with it. So new rows are
sent by a hash of one of their columns, and the relations that are looked up by that column are
distributed by it as well: rows that join are on the same owner. Relations that are looked up
otherwise are sent to all owners.

A plan's relation names say how rows are distributed: `p@1` are the rows of p by the hash of column
1, `p@all` all rows, `p@home` the home rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gdatalog.plan import Guard, JoinPlan, RulePlan, TrieRef
from gdatalog.plan.cells import roles
from gdatalog.plan.effects import all_steps
from gdatalog.records import dataclass, field, replace

By = int | str  # a column, or one of these
HOME, ALL = "home", "all"
UNKNOWN = 1e12  # rows of a growing relation: sending all of it to all owners is the last resort


@dataclass(frozen=True, slots=True)
class Distribution:
    """The rows of a relation, and how they are distributed."""

    relation: str
    by: By

    @property
    def name(self) -> str:
        return f"{self.relation}@{self.by}"


@dataclass(slots=True)
class Routes:
    """`plans`: one join each, which read distributions; `homes`: the columns whose hash gives a
    row's home owner; `places`: where new rows are sent from there, `indexes` those that are
    indexed; `fragments`: distributions of relations that do not grow; `whole`: tries of such
    relations that every owner has."""

    plans: list[RulePlan] = field(default_factory=list)
    homes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    places: dict[str, Distribution] = field(default_factory=dict)
    indexes: set[str] = field(default_factory=set)
    fragments: dict[str, Distribution] = field(default_factory=dict)
    whole: set[TrieRef] = field(default_factory=set)

    @property
    def aligned(self) -> bool:
        """Whether all new rows are followed by their home owner."""
        return all(self.at_home(place) for place in self.places.values())

    def at_home(self, place: Distribution) -> bool:
        return place.by == HOME or self.homes[place.relation] == (place.by,)


def routes_of(
    plans: Sequence[RulePlan],
    groups: Mapping[str, Sequence[int]],
    length: Callable[[str], int],
    parted: bool,
) -> Routes:
    """`plans` have one join each. `groups`: for each growing relation, the columns by which it may
    be distributed. `parted`: whether other relations are distributed, too; `length` gives their
    lengths."""
    routes = Routes()
    for plan in plans:
        (join,) = plan.joins
        by, with_it = _best(join, groups, length, parted)
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


def _best(
    join: JoinPlan,
    groups: Mapping[str, Sequence[int]],
    length: Callable[[str], int],
    parted: bool,
) -> tuple[By, dict[int, int]]:
    """By which column the new rows of a join should be distributed, and for each trie that it also
    distributes, by number, that trie's column."""
    assert join.given is not None
    guarded = {step.trie for step in all_steps(join.steps) if isinstance(step, Guard)}
    found: tuple[By, dict[int, int]] = HOME, {}
    most = 0.0
    for column in groups[join.given.relation]:
        variable, weight = join.given.slots[column].name, 0.0
        with_it: dict[int, int] = {}
        for at, (ref, names) in enumerate(zip(join.tries, roles(join), strict=True)):
            if variable not in names or ref.ranked or at in guarded:
                continue
            own, grows = ref.columns[names.index(variable)], groups.get(ref.relation)
            if own in grows if grows is not None else parted:
                with_it[at] = own
                weight += UNKNOWN if grows is not None else length(ref.relation)
        if weight > most:
            found, most = (column, with_it), weight
    return found
