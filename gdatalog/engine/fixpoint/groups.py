"""Groups of best values as numbers: the possible groups, their codes, and decoding.

The code of a group is computed from its columns' keys. It needs the range of each column: that of
data, of seeds, and of what rules pass on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from gdatalog.engine.derived import Rows
from gdatalog.plan import Constant, Expr, Join, JoinPlan, Slot
from gdatalog.printer.lattice import BestRelation, Follow
from gdatalog.records import dataclass, replace
from gdatalog.storage.keys import Flow, RelationColumn, encode_value, span_of, widen
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns, Span
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array

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


class Spans:
    """The range of keys of each column, of groups and of data."""

    def __init__(
        self,
        kept: Sequence[BestRelation],
        relation: Callable[[str], Relation],
        symbols: SymbolTable,
    ) -> None:
        self.kept = {each.name: each for each in kept}
        self.relation = relation
        self.symbols = symbols
        self.known: dict[RelationColumn, Span | None] = {}  # of groups; None: no groups
        self._data: dict[RelationColumn, Span | None] = {}

    def find(self, rows: Mapping[str, Rows], follows: Sequence[Follow]) -> None:
        """The ranges of groups: of their first rows, and of all rows that rules derive."""
        for each in self.kept.values():
            columns, count = rows[each.name]
            for at in range(each.arity):
                if at != each.optimum:
                    self.known[each.name, at] = span_of(columns[at]) if count else None
        flows: list[Flow] = [
            ((follow.target, at), partial(self._derived, follow.head[at], follow.join))
            for follow in follows
            for at in self.kept[follow.target].columns
        ]
        widen(self.known, flows)

    def _derived(self, expr: Expr, join: JoinPlan) -> Span | None:
        if isinstance(expr, Constant):
            key = encode_value(expr.value, expr.type, self.symbols)
            return key, key
        if isinstance(expr, Slot):
            assert join.given is not None
            for at, slot in enumerate(join.given.slots):
                if slot == expr and (join.given.relation, at) in self.known:
                    return self.known[join.given.relation, at]
            found = [self.data(*column) for column in columns_of(expr.name, join)]
            if found:
                if None in found:
                    return None
                low, high = max(s[0] for s in found if s), min(s[1] for s in found if s)
                return (low, high) if low <= high else None
        raise Uncoded("the groups that a rule derives are not known beforehand")

    def data(self, name: str, at: int) -> Span | None:
        """The range of a column of data."""
        if (name, at) not in self._data:
            self._data[name, at] = span_of(self.relation(name).column(at))
        return self._data[name, at]

    def codes(self, kept: Sequence[BestRelation]) -> GroupCodes:
        places, total = [], 0
        for each in kept:
            places.append(total)
            count, own = 1, []
            for at in reversed(each.columns):
                low, high = self.known[each.name, at] or (0, -1)
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


def columns_of(variable: str, join: JoinPlan) -> list[RelationColumn]:
    """The columns of known relations in which a variable's values stand."""
    return [
        (join.tries[part.trie].relation, join.tries[part.trie].columns[part.depth])
        for step in join.steps
        if isinstance(step, Join) and step.variable == variable
        for part in step.participants
    ]
