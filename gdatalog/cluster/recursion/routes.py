"""Routes: where a hash-partitioned fixpoint sends new rows.

An owner keeps the rows of each recursive relation that have certain hashes: its home rows. A rule
joins a new row on an owner that has all matching rows. So new rows are partitioned by the hash of
the join column, and so are the relations that the rule looks up by this column. If a rule looks up
a relation by other columns, each owner gets all rows of that relation.

The relation names in a plan say how rows are distributed: `p@1` are the rows of p partitioned by
column 1, `p@all` all rows on each owner, and `p@home` the home rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gdatalog.cluster.rows.shuffle import ShuffleBlock, columns_of, rows_by_owner
from gdatalog.engine.derived import Rows
from gdatalog.plan.cells import roles
from gdatalog.plan.effects import all_steps
from gdatalog.plan.join_plan import Guard, JoinPlan, RulePlan, TrieRef
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import concatenate
from gdatalog.storage.sorting import sort_rows
from gdatalog.values import TypeName

# Rows by relation or distribution: columns, and the number of rows, which matters without columns.
Parcel = dict[str, Rows]


def rows_by_partition(rows: Rows, home: Sequence[int], owners: int) -> dict[int, Rows]:
    """Rows by owner, by a hash of the `home` columns. Without columns there is one owner."""
    columns, count = rows
    if not count:
        return {}
    if not home or owners == 1:
        return {0: rows}
    parts = rows_by_owner(tuple(columns[at] for at in home), columns, owners)
    return {to: (mine, len(mine[0])) for to, mine in enumerate(parts) if len(mine[0])}


def size_of(parcel: Parcel) -> int:
    return 64 + sum(column.nbytes for columns, _ in parcel.values() for column in columns)


def parcels_of(
    values: Sequence[object], owners: int, name: str, home: Sequence[int]
) -> list[Parcel]:
    """The distinct rows of values on this worker, as parcels for their home owners."""
    rows = sort_rows(concatenate([columns_of(value) for value in values]))
    parts = rows_by_partition((rows, len(rows[0])), home, owners)
    return [{name: parts[owner]} if owner in parts else {} for owner in range(owners)]


def fragment_of(
    pieces: Sequence[ShuffleBlock], name: str, columns: tuple[str, ...], types: tuple[TypeName, ...]
) -> Relation:
    """An owner's part of a relation, from parcels."""
    some = [piece.value[name] for piece in pieces if name in piece.value]
    blocks, count = [rows for rows, _ in some], sum(count for _, count in some)
    return Relation.of_blocks(columns, types, blocks, count, len(blocks) < 2)


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
    """The distributions that a stratum's rules read.

    `plans`: one join each; their relations are names of distributions. `homes`: the columns whose
    hash gives a row's home owner. `places`: the distributions to which home owners send new rows;
    `indexes`: the names of those that rules look up. `fragments`: distributions of relations that
    do not grow. `whole`: tries of such relations that every owner has.
    """

    plans: list[RulePlan] = field(default_factory=list)
    homes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    places: dict[str, Distribution] = field(default_factory=dict)
    indexes: set[str] = field(default_factory=set)
    fragments: dict[str, Distribution] = field(default_factory=dict)
    whole: set[TrieRef] = field(default_factory=set)

    @property
    def aligned(self) -> bool:
        """Whether rules join all new rows on their home owners."""
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
    """The column by which to distribute the new rows that a join reads, and the columns of the
    tries that are distributed with them, by the trie's number."""
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
