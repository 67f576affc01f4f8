"""Groups of best values as numbers: the possible groups, their codes, and decoding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gdatalog.cpu_ops.expressions import Scope
from gdatalog.engine.derived import Rows
from gdatalog.engine.fixpoint.spans import ANY, Head, Known, spans_read, widen_by_rules
from gdatalog.records import dataclass, replace
from gdatalog.storage.key_space import span_of
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array

if TYPE_CHECKING:
    from gdatalog.printer.lattice import BestRelation, Follow

MOST_CODES = 1 << 62


class Uncoded(Exception):
    """Why groups have no codes, for a user."""


@dataclass(frozen=True, slots=True)
class GroupCodes:
    """For each relation its first code, and the least key and stride of each column."""

    kept: Sequence[BestRelation]
    places: Array
    total: int

    def of(self, number: int) -> tuple[int, int, Array]:
        """A relation's codes as a range; its columns' strides."""
        at = sum(1 + 2 * len(each.columns) for each in self.kept[:number])
        width = 2 * len(self.kept[number].columns)
        pairs = self.places[at + 1 : at + 1 + width].reshape(-1, 2)
        return int(self.places[at]), int(self.places[at + 1 + width]), pairs

    def seeds(self, rows: Mapping[str, Rows]) -> tuple[Array, Array, Array]:
        """The codes, costs and partition values (0 if none) of all relations' rows."""
        parts = []
        for number, each in enumerate(self.kept):
            columns, count = rows[each.name]
            if not count:
                continue
            base, _, pairs = self.of(number)
            code = np.full(count, base, dtype=np.int64)
            for at, (least, stride) in zip(each.columns, pairs, strict=True):
                code += (columns[at].astype(np.int64) - least) * stride
            value = columns[each.optimum].astype(np.int64)
            split = np.zeros(count, dtype=np.int64)
            if each.split is not None:
                split = columns[each.split].astype(np.int64)
            parts.append((code, value if each.kind == "min" else ~value, split))
        if not parts:
            none = np.empty(0, dtype=np.int64)
            return none, none, none
        codes, costs, splits = (np.concatenate(column) for column in zip(*parts, strict=True))
        return codes, costs, splits

    def rows(self, number: int, codes: Array, costs: Array, splits: Array | None) -> Columns:
        """Decodes the groups of a relation."""
        each = self.kept[number]
        base, _, pairs = self.of(number)
        rest = codes.astype(np.int64) - base
        keys: dict[int, Array] = {each.optimum: costs if each.kind == "min" else ~costs}
        if each.split is not None and splits is not None:
            keys[each.split] = splits
        for at, (least, stride) in zip(each.columns, pairs, strict=True):
            part = rest // stride if stride != 1 else rest
            if stride != 1:
                rest = rest - part * stride
            keys[at] = part + least
        return tuple(keys[at] for at in range(each.arity))


def group_spans(
    kept: Sequence[BestRelation],
    rows: Mapping[str, Rows],
    follows: Sequence[Follow],
    relation: Callable[[str], Relation],
    scope: Scope,
) -> Known:
    """The ranges of the columns of groups: of their first rows, and of all rows that rules
    derive."""
    known: Known = {}
    for each in kept:
        columns, count = rows[each.name]
        for at in each.columns:
            known[each.name, at] = span_of(columns[at]) if count else None
    groups = {each.name: each.columns for each in kept}
    heads: list[Head] = []
    for follow in follows:
        columns_of = {at: follow.head[at] for at in groups[follow.target]}
        spans = spans_read(columns_of.values(), follow.join, relation)
        heads.append((follow.target, columns_of, follow.join, spans))
    widen_by_rules(known, heads, scope)
    if ANY in known.values():
        raise Uncoded("the groups that a rule derives are not known beforehand")
    return known


def group_codes(kept: Sequence[BestRelation], known: Known) -> GroupCodes:
    """The codes of groups whose columns have these ranges."""
    places, total = [], 0
    for each in kept:
        places.append(total)
        count, own = 1, []
        for at in reversed(each.columns):
            low, high = known[each.name, at] or (0, -1)
            own.append((low, count))
            count *= max(0, high - low + 1)
        for low, stride in reversed(own):
            places += [low, stride]
        total += count
        if total >= MOST_CODES:
            raise Uncoded("groups have too many possible values")
    return GroupCodes(kept, np.array([*places, total], dtype=np.int64), total)


def passed_on(
    kept: Sequence[BestRelation], follows: Sequence[Follow]
) -> Sequence[BestRelation] | None:
    """The relations, partitioned by a column that all rules pass on; None if there is none."""
    optima = {each.name: each.optimum for each in kept}
    for column in range(min(each.arity for each in kept)):
        if all(
            column not in (optima[follow.target], optima[follow.join.given.relation])
            and follow.head[column] == follow.join.given.slots[column]
            for follow in follows
            if follow.join.given is not None
        ):
            return [replace(each, split=column) for each in kept]
    return None
