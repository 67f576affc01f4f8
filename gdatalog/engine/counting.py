"""Counting a fixpoint's rows without storing them, where nobody asks for more.

The closure of a road network has more rows than memory has room for, and yet how many they are
is soon known: a fixpoint that splits gives the numbers of its worklists' rows. Which rules may do
with these is said in `planner/counting.py`; here it is found out what an evaluation asks of a
stratum, and the strata that read it are evaluated with rules that read the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

from gdatalog.engine.derived import Seeds, relation_of
from gdatalog.engine.encoding import encode
from gdatalog.engine.prepared import Plans
from gdatalog.engine.surroundings import Surroundings
from gdatalog.errors import EvaluationError
from gdatalog.planner.checked import CheckedRule, Schema, Stratum
from gdatalog.planner.counting import asks_for_counts, counted_rule, counts_of
from gdatalog.planner.splitting import Split
from gdatalog.records import dataclass, replace
from gdatalog.storage.relation import Relation

if TYPE_CHECKING:
    from gdatalog.engine.splits import Splits


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
    seeds: Seeds,
    around: Surroundings,
    readers: Collection[Stratum],
    before: Mapping[str, Relation] | None,
) -> Counted | None:
    """The numbers of a stratum's rows, or what they were `before`; None if it does not split so
    that they would do."""
    encoded = encode(stratum, seeds, around)
    if encoded is None:
        return _count(stratum, seeds, around, readers, before)
    try:
        found = _count(encoded.stratum, encoded.seeds, encoded.around, readers, before)
    except EvaluationError:  # its message would show codes
        return _count(stratum, seeds, around, readers, before)
    if found is None or before is not None:
        return found
    return replace(found, relations=encoded.decoded(found.relations))


def _count(
    stratum: Stratum,
    seeds: Seeds,
    around: Surroundings,
    readers: Collection[Stratum],
    before: Mapping[str, Relation] | None,
) -> Counted | None:
    from gdatalog.engine.linear import Fixpoint, linearised
    from gdatalog.engine.splits import Splits

    fixpoint = linearised(Fixpoint(stratum, seeds, around))
    splits = Splits(fixpoint.stratum, fixpoint.seeds, fixpoint.around)
    found = None if splits.split is None else _counted(splits, splits.split, readers, before)
    if found is None or before is not None:
        around.ledger.forget(splits.record)
    return found


def _counted(
    splits: Splits,
    split: Split,
    readers: Collection[Stratum],
    before: Mapping[str, Relation] | None,
) -> Counted | None:
    from gdatalog.engine.fixpoint import by_rounds, tried

    around, columns = splits.around, split.columns
    changed: dict[tuple[str, ...], Stratum] = {}
    for reader in readers:
        rules = [_rewritten(rule, columns, around.plans) for rule in reader.rules]
        if None in rules:
            return None
        told = tuple(rule for rule in rules if rule is not None)
        changed[reader.relations] = replace(reader, rules=told)
    schemas = {name: counts_of(around.schemas[name], columns[name]) for name in columns}
    by_name = {schema.name: schema for schema in schemas.values()}
    if before is not None:
        return Counted(before, by_name, changed, False)
    cluster = around.cluster
    seconds = inf if cluster is None else cluster.patience(splits)
    found = by_rounds(splits) if seconds else None
    if found is not None:
        return Counted(found, {}, {}, True)
    counts = None
    if cluster is not None:
        counts = tried(splits, seconds, splits.counts) or cluster.counts(splits)
        if counts is None and not seconds:
            return None  # its rows are made on workers, and counted then
    counts = counts or splits.counts()
    if counts is None:
        return None
    relations = {
        schemas[name].name: relation_of(
            schemas[name].columns, schemas[name].types, [(rows, len(rows[0]))], splits.ops
        )
        for name, rows in counts.items()
    }
    return Counted(relations, by_name, changed, False)


def _rewritten(rule: CheckedRule, columns: Mapping[str, int], plans: Plans) -> CheckedRule | None:
    """The same rule each time, so that its plan is found again."""
    by = tuple(sorted(columns.items()))
    return plans.rewritten(("counted", by), [rule], lambda: counted_rule(rule, columns))
