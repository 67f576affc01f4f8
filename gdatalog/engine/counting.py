"""Counting a fixpoint's rows without storing them, where nobody asks for more.

The closure of a road network has more rows than memory has room for, and yet how many they are
is soon known: a fixpoint that splits gives the numbers of its worklists' rows. Which rules may do
with these is said in `planner/counting.py`; here it is found out what an evaluation asks of a
stratum, and the strata that read it are evaluated with rules that read the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace

from gdatalog.engine.derived import Rows, relation_of
from gdatalog.engine.fixpoint import by_rounds
from gdatalog.engine.splits import Splits
from gdatalog.engine.surroundings import Surroundings
from gdatalog.planner.checked import CheckedRule, Schema, Stratum
from gdatalog.planner.counting import asks_for_counts, counted_rule, counts_of
from gdatalog.storage.relation import Relation

# Rules that read numbers of rows, by the rule that they stand for, and the columns.
Rewritten = MutableMapping[tuple[int, tuple[tuple[str, int], ...]], CheckedRule | None]


@dataclass(frozen=True, slots=True)
class Counted:
    """`relations`: the numbers of rows, or the stratum's own where these were as quickly made.

    `readers`: the strata that read it, as they are to be evaluated.
    """

    relations: Mapping[str, Relation]
    schemas: Mapping[str, Schema]
    readers: Mapping[tuple[str, ...], Stratum]  # by their relations
    whole: bool


def readers_of(
    stratum: Stratum, needed: Sequence[Stratum], reads: Callable[[Stratum], Sequence[str]]
) -> list[Stratum]:
    """The strata that read a recursive one, if all of them may do with numbers of its rows."""
    if not stratum.recursive:
        return []
    names = set(stratum.relations)
    readers = [other for other in needed if other is not stratum and names & set(reads(other))]
    for reader in readers:
        if reader.recursive or not all(asks_for_counts(rule, names) for rule in reader.rules):
            return []
    return readers


def count_stratum(
    stratum: Stratum,
    seeds: Mapping[str, Sequence[Rows]],
    around: Surroundings,
    readers: Collection[Stratum],
    rewritten: Rewritten,
    before: Mapping[str, Relation] | None,
) -> Counted | None:
    """The numbers of a stratum's rows, or what they were `before`; None if it does not split so
    that they would do."""
    splits = Splits(stratum, seeds, around)
    if splits.split is None:
        return None
    columns = splits.split.columns
    changed: dict[tuple[str, ...], Stratum] = {}
    for reader in readers:
        rules = [_rewritten(rule, columns, rewritten) for rule in reader.rules]
        if None in rules:
            return None
        told = tuple(rule for rule in rules if rule is not None)
        changed[reader.relations] = replace(reader, rules=told)
    schemas = {name: counts_of(around.schemas[name], columns[name]) for name in columns}
    by_name = {schema.name: schema for schema in schemas.values()}
    if before is not None:
        return Counted(before, by_name, changed, False)
    found = by_rounds(splits, counts=True)
    if found is not None:
        return Counted(found, {}, {}, True)
    counts = splits.counts()
    if counts is None:
        return None
    relations = {
        schemas[name].name: relation_of(
            schemas[name].columns, schemas[name].types, [(rows, len(rows[0]))], splits.ops
        )
        for name, rows in counts.items()
    }
    return Counted(relations, by_name, changed, False)


def _rewritten(
    rule: CheckedRule, columns: Mapping[str, int], rewritten: Rewritten
) -> CheckedRule | None:
    """The same rule each time, so that its plan is found again."""
    key = (id(rule), tuple(sorted(columns.items())))
    if key not in rewritten:
        rewritten[key] = counted_rule(rule, columns)
    return rewritten[key]
