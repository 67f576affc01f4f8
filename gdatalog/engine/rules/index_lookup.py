"""`IndexLookup`: the rows of one index below known values: constants, parameters, and the columns
of a given row; or groups and their counts, where these are the entries of an index.

The look-up of a relation in parts reads each part: the large ones by their indexes, the few rows of
another by comparing all of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import TypeGuard

import numpy as np

from gdatalog.cpu_ops.expressions import Scope
from gdatalog.engine.context import RuleInputs
from gdatalog.engine.derived import Derived, DistinctBlocks
from gdatalog.engine.rules.rows import RuleRows
from gdatalog.limits import Limits
from gdatalog.plan.join_plan import (
    Comparison,
    Constant,
    Expr,
    Join,
    Parameter,
    Participant,
    RulePlan,
    Seek,
    Slot,
    TrieRef,
)
from gdatalog.records import dataclass
from gdatalog.storage.keys import encode_value, narrow
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_tests import COMPARE, mask
from gdatalog.storage.rows import INT32_MAX, INT32_MIN
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie, TrieName

Known = Constant | Parameter | Slot  # a slot is a column of the given row
MOST_FOUND = 1 << 16  # rows: more go through a set, which spills to files
COMPARED = 1 << 12  # rows of a later part up to which all are compared, if it has no index

Found = tuple[tuple[Array, ...], int]  # rows, and their number
Row = Mapping[str, int]  # the keys of a given row, by column
NO_ROW: Row = {}


@dataclass(frozen=True, slots=True)
class IndexLookup:
    """Follows `keys` down an index, one for each of its first levels, and gives the values of the
    levels below, the first of them within `cuts`. `outputs`: for each column of the answer the
    number of its level below the keys, or a value that is known; counts come after the levels."""

    plan: RulePlan
    keys: tuple[Known, ...]
    cuts: tuple[Comparison, ...]
    outputs: tuple[int | Known, ...]

    def run(self, inputs: RuleInputs) -> Derived:
        (ref,) = self.plan.joins[0].tries
        trie = inputs.sources.trie_of(ref)
        found = self.rows(trie, inputs.scope, inputs.limits, inputs.limit)
        if found is None:
            return RuleRows(self.plan).run(inputs)
        inputs.tried(found[1])
        return found if self.in_order else DistinctBlocks([found[0]], found[1])

    @property
    def in_order(self) -> bool:
        """Whether the rows are sorted."""
        levels = [at for at in self.outputs if isinstance(at, int)]
        return levels == sorted(levels)

    def of_parts(
        self, relation: Relation, scope: Scope, limits: Limits, limit: int | None, row: Row = NO_ROW
    ) -> list[Found] | None:
        """The distinct rows of each part of a relation. None: there are too many, or a large part
        has no index yet. Changes nothing, so any thread may call it."""
        (ref,) = self.plan.joins[0].tries
        if ref.weighted and len(relation.parts) > 1:
            return None  # rows of a group may be in several parts
        found = []
        for number, part in enumerate(relation.parts):
            trie = part.asked(asked_as(ref))
            if trie is not None:
                rows = self.rows(trie, scope, limits, limit, row)
            elif number and part.at_most <= COMPARED:
                limits.looked += part.at_most
                rows = self._among(part, ref, scope, row)
            else:
                return None
            if rows is None:
                return None
            if rows[1]:
                found.append(rows)
        return found

    def _among(self, part: Relation, ref: TrieRef, scope: Scope, row: Row) -> Found | None:
        """The rows of a small part, found without an index; None if they may have duplicates."""
        if len(ref.columns) < len(part.types):
            return None
        columns = part.rows
        levels = [columns[at] for at in ref.columns]
        keep: Array = levels[0] == _value(self.keys[0], scope, row)
        for level, key in zip(levels[1:], self.keys[1:], strict=False):
            keep &= level == _value(key, scope, row)
        if ref.tests:
            keep &= mask(columns, ref.tests)
        below = levels[len(self.keys) :]
        for op, bound in self.cuts:
            keep &= COMPARE[op](below[0], _value(bound, scope, row))
        (kept,) = keep.nonzero()
        if not len(kept):
            return (), 0
        return self._columns([level[kept] for level in below], len(kept), scope, row), len(kept)

    def rows(
        self,
        trie: Trie,
        scope: Scope,
        limits: Limits,
        limit: int | None = None,
        row: Row = NO_ROW,
    ) -> Found | None:
        """The distinct rows that a trie has; at least `limit` of them, if there are so many. None:
        they are too many to hold without looking at the memory limit."""
        low, high = self._list(trie, scope, row)
        deeper = trie.levels[len(self.keys) + 1 :]
        if len(self.keys) == len(trie.levels):  # a proposition, or only known values
            limits.look(1)
            return self._columns([], high - low, scope, row), high - low
        values = trie.levels[len(self.keys)].values
        for op, bound in self.cuts:
            low, high = _cut(values, low, high, op, _value(bound, scope, row))
        if limit is not None and not deeper:
            high = min(high, low + limit)
        ranges = [(low, high)]
        for level in deeper:
            if low < high:
                low, high = int(level.offsets[low]), int(level.offsets[high])
            ranges.append((low, high))
        if high - low > MOST_FOUND:
            return None
        limits.look(high - low)
        columns = [values[slice(*ranges[0])]]
        for level, above, here in zip(deeper, ranges, ranges[1:], strict=False):
            lengths = np.diff(level.offsets[above[0] : above[1] + 1])
            columns = [np.repeat(column, lengths) for column in columns]
            columns.append(level.values[slice(*here)])
        if trie.weights is not None:
            columns.append(narrow(trie.weights[low:high]))
        count = max(0, high - low)
        return self._columns(columns, count, scope, row), count

    def _list(self, trie: Trie, scope: Scope, row: Row) -> tuple[int, int]:
        """Where the list below the keys begins and ends; of no length if there is none. If the keys
        are all levels, its length says whether they are there."""
        low, high = 0, 1 if self.keys else len(trie.levels[0])
        for depth, key in enumerate(self.keys):
            at = _find(trie, depth, _value(key, scope, row), low, high)
            if at < 0:
                return 0, 0
            low, high = at, at + 1
            if depth + 1 < len(trie.levels):
                offsets = trie.levels[depth + 1].offsets
                low, high = int(offsets[at]), int(offsets[at + 1])
        return low, high

    def _columns(
        self, columns: Sequence[Array], count: int, scope: Scope, row: Row
    ) -> tuple[Array, ...]:
        """The answer's columns: copies, so that an answer does not keep the index."""
        found = []
        for place in self.outputs:
            if isinstance(place, int):
                found.append(columns[place].copy())
            else:
                value = _value(place, scope, row)
                kind = np.int32 if INT32_MIN <= value <= INT32_MAX else np.int64
                found.append(np.full(count, value, dtype=kind))
        return tuple(found)


def asked_as(ref: TrieRef) -> TrieName:
    """The key of a trie in `Relation.asked`."""
    return ref.columns, ref.tests, ref.weighted, ref.ranked


def applies(plan: RulePlan, given: bool = False) -> IndexLookup | None:
    """The lookup that a rule's plan is, if it is one; `given`: for each row of those that it
    starts from."""
    if len(plan.joins) != 1 or plan.terms or plan.within or plan.left:
        return None
    (join,) = plan.joins
    if join.scan is not None or (join.given is not None) != given:
        return None
    if join.orbit != 1 or len(join.tries) != 1:
        return None
    (ref,), counts = join.tries, [gather.variable for gather in plan.gathers]
    if ref.version != "full" or ref.ranked or ref.sliced:
        return None
    if plan.gathers:
        if not ref.weighted or any(gather.kind != "count" for gather in plan.gathers):
            return None
    elif join.bag or ref.weighted:
        return None
    own = () if join.given is None else join.given.slots

    def known(expr: Expr) -> TypeGuard[Known]:
        return isinstance(expr, Constant | Parameter) or expr in own

    keys: list[Known] = []
    names: list[str] = []
    cuts: tuple[Comparison, ...] = ()
    for depth, step in enumerate(join.steps):
        here = (Participant(0, depth),)
        if isinstance(step, Seek) and step.participants == here and not names:
            if not known(step.value):
                return None
            keys.append(step.value)
        elif isinstance(step, Join) and step.participants == here and step.reuse is None:
            if step.cuts and names:
                return None
            if not all(known(bound) for _, bound in step.cuts) or step.implied:
                return None
            cuts = cuts if names else step.cuts
            names.append(step.variable)
        else:
            return None
    if len(keys) + len(names) != len(ref.columns) or not (keys or counts):
        return None
    if counts and (not names or {key.name for key in plan.keys} != {*names}):
        return None
    outputs: list[int | Known] = []
    for expr in plan.head:
        if isinstance(expr, Slot) and expr.name in names:
            outputs.append(names.index(expr.name))
        elif isinstance(expr, Slot) and expr.name in counts:
            outputs.append(len(names))
        elif known(expr):
            outputs.append(expr)
        else:
            return None
    if not {*range(len(names))} <= {at for at in outputs if isinstance(at, int)}:
        return None  # rows may have duplicates
    return IndexLookup(plan, tuple(keys), cuts, tuple(outputs))


def _value(known: Expr, scope: Scope, row: Row) -> int:
    if isinstance(known, Slot):
        return row[known.name]
    assert isinstance(known, Constant | Parameter)
    value = known.value if isinstance(known, Constant) else scope.params[known.name]
    return encode_value(value, known.type, scope.symbols)


def _find(trie: Trie, depth: int, key: int, low: int, high: int) -> int:
    """The position of a key in a list of a level, from `low` to `high`; the root's list is searched
    by its index if it is dense. -1: it is not there."""
    level = trie.levels[depth]
    if depth == 0:
        dense = level.dense_index()
        if dense is not None:
            least, index = dense
            return int(index[key - least]) if 0 <= key - least < len(index) else -1
        high = len(level)
    at = bisect_left(level.values.data, key, low, high)  # faster than NumPy for one key
    return at if at < high and level.values[at] == key else -1


def _cut(values: Array, low: int, high: int, op: str, bound: int) -> tuple[int, int]:
    """The part of a list whose values compare so with a bound."""
    find = bisect_left if op in ("<", ">=") else bisect_right
    at = find(values.data, bound, low, high)
    return (low, at) if op in ("<", "<=") else (at, high)
