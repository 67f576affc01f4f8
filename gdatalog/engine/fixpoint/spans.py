"""The values of a fixpoint's rows, as far as they can be known: ranges, spaces, and initial rows.

Values come from the initial rows, from columns of recursive atoms, and from the lists that bind a
head's variables. The range of computed values is unknown. A partitioned fixpoint groups its initial
rows by the partition column.

The space of a recursive relation is predicted from the rules that derive it: a head variable that
occurs in a finished relation takes at most that column's values; one that occurs only in recursive
atoms, the values of their columns. Rows outside the space widen it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gdatalog.cpu_ops.functions import Scope, evaluate
from gdatalog.plan import (
    Assign,
    Constant,
    Expr,
    Generate,
    Join,
    JoinPlan,
    Parameter,
    RulePlan,
    Seek,
    Slot,
    Step,
    TrieRef,
)
from gdatalog.plan.effects import all_steps, merged, participants
from gdatalog.records import dataclass
from gdatalog.storage.keys import Flow, KeySpace, RelationColumn, span_of, union, widen
from gdatalog.storage.on_device import brought
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import INT32_MAX, INT32_MIN, Span
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie

if TYPE_CHECKING:
    from gdatalog.printer.worklist import Recursive


Spans = dict[str, dict[int, Span | None]]  # by relation and column; None: unknown
ANY = (-(1 << 63), (1 << 63) - 1)  # of computed values


def spans_of(
    rules: Sequence[Recursive],
    held: Mapping[str, Sequence[RowsByColumn]],
    arities: Mapping[str, int],
    columns: Mapping[str, int],
    tries: Sequence[Trie],
    scope: Scope,
) -> Spans:
    """The ranges of the relations' columns, which `columns` partition, for these initial rows.
    `tries`: those of all rules, concatenated."""
    values = [
        (int(g.values[0]), int(g.values[-1]))
        for groups in held.values()
        for g in groups
        if len(g.values)
    ]
    everywhere = union(*values)
    known: dict[RelationColumn, Span | None] = {
        (name, column): everywhere
        if column == columns[name]
        else union(*(group.span(column) for group in held[name]))
        for name, arity in arities.items()
        for column in range(arity)
    }
    flows: list[Flow] = []
    _, parts = merged([rule.join for rule in rules])
    for rule, steps in zip(rules, parts, strict=True):
        given = rule.join.given
        assert given is not None
        bound = {slot.name: column for column, slot in enumerate(given.slots)}
        for column, output in enumerate(rule.join.outputs):
            target = rule.head, column
            if column == columns[rule.head]:
                continue
            if isinstance(output, Slot) and output.name in bound:
                flows.append((target, partial(known.get, (given.relation, bound[output.name]))))
            else:
                known[target] = union(known[target], _span_of(output, steps, tries, scope))
    widen(known, flows)
    spans: Spans = {name: {} for name in arities}
    for (name, column), span in known.items():
        # A column without a range never gets a value.
        spans[name][column] = None if span == ANY else span or (0, 0)
    return spans


def _span_of(output: Expr, steps: Sequence[Step], tries: Sequence[Trie], scope: Scope) -> Span:
    """The range of a head's expression."""
    if isinstance(output, Constant | Parameter):
        keys, _ = evaluate(output, _no_column, 1, scope)
        return int(keys[0]), int(keys[0])
    if not isinstance(output, Slot):
        return ANY
    for step in steps:
        if isinstance(step, Join | Assign | Generate) and step.variable == output.name:
            lists = [tries[part.trie].levels[part.depth].span for part in step.participants]
            return min(lists, key=lambda span: span[1] - span[0], default=ANY)
    return ANY


def _no_column(name: str) -> Array:
    raise AssertionError(name)


def narrow(span: Span | None) -> bool:
    return span is not None and span[0] >= INT32_MIN and span[1] <= INT32_MAX


def stamps_for(spans: Sequence[Span | None], most: int) -> int:
    """The number of possible rows of one value; 0 if more than `most`: too many for stamps."""
    count = 1
    for span in spans:
        if span is None:
            return 0
        count *= span[1] - span[0] + 1
    return count if count <= most or not spans else 0


def limits_of(spans: Mapping[int, Span | None]) -> Array:
    """For each column the least value, and the number of values."""
    found = np.zeros(2 * len(spans), dtype=np.int64)
    for column, span in spans.items():
        if span is not None and span[1] - span[0] < 1 << 62:
            found[2 * column : 2 * column + 2] = span[0], span[1] - span[0] + 1
    return found


# The initial rows of a partitioned fixpoint, grouped by the partition column.


@dataclass(frozen=True, slots=True)
class RowsByColumn:
    """Rows grouped by a column: its distinct `values` in ascending order; the rows of the k-th
    value have the other columns in `columns`, from `starts[k]` to `starts[k + 1]`. `xp`: the array
    module."""

    values: Array
    starts: Array
    columns: Mapping[int, Array]
    xp: Any = np

    def among(self, values: Array) -> Array:
        """The starts of the rows of these values, a superset of its own."""
        if len(values) == len(self.values):
            return self.starts
        xp = self.xp
        counts = xp.zeros(len(values) + 1, dtype=xp.int64)
        counts[xp.searchsorted(values, self.values) + 1] = xp.diff(self.starts)
        found: Array = xp.cumsum(counts)
        return found

    def only(self, values: Array) -> RowsByColumn:
        """The rows whose value is one of these."""
        xp = self.xp
        inside = xp.isin(self.values, values)
        counts = xp.diff(self.starts)
        rows = repeated(inside, counts, xp)
        starts = xp.zeros(int(inside.sum()) + 1, dtype=xp.int64)
        starts[1:] = xp.cumsum(counts[inside])
        columns = {at: column[rows] for at, column in self.columns.items()}
        return RowsByColumn(self.values[inside], starts, columns, xp)

    def between(self, low: int, high: int) -> RowsByColumn:
        """The rows of the host of the values from one on, below another."""
        first, last = bisect_left(self.values, low), bisect_left(self.values, high)
        start, end = self.starts[first], self.starts[last]
        columns = {at: column[start:end] for at, column in self.columns.items()}
        return RowsByColumn(self.values[first:last], self.starts[first : last + 1] - start, columns)

    def on(self, xp: Any) -> RowsByColumn:
        """The same on a device, or on the host."""
        given = brought if xp is np else xp.asarray
        columns = {at: given(column) for at, column in self.columns.items()}
        return RowsByColumn(given(self.values), given(self.starts), columns, xp)

    def __reduce__(self) -> tuple[Any, ...]:
        """Arrays of the host, for a module cannot be sent."""
        here = self.on(np)
        return RowsByColumn, (here.values, here.starts, here.columns)

    def span(self, column: int) -> Span | None:
        return span_of(self.columns[column])


def repeated(values: Array, counts: Array, xp: Any) -> Array:
    """Repeats each value as its count says: CuPy's `repeat` takes no array of counts."""
    if xp is np:
        return np.repeat(values, counts)
    ends = xp.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    found: Array = values[xp.searchsorted(ends, xp.arange(total), side="right")]
    return found


def order_by(split: int, arity: int) -> tuple[int, ...]:
    """The columns, the partition column first."""
    return (split, *(column for column in range(arity) if column != split))


def grouped(trie: Trie, order: Sequence[int]) -> RowsByColumn:
    """The rows of a trie whose levels are the columns in this order."""
    first, *others = trie.levels
    xp = first.xp
    starts = xp.arange(len(first) + 1, dtype=xp.int64)
    columns: dict[int, Array] = {}
    for level, column in zip(others, order[1:], strict=True):
        offsets = level.offsets
        for at, values in columns.items():
            columns[at] = repeated(values, xp.diff(offsets), xp)
        starts = offsets[starts].astype(xp.int64)
        columns[column] = xp.ascontiguousarray(level.values)
    return RowsByColumn(first.values, starts, columns, xp)


def copied(plan: RulePlan, split: int) -> TrieRef | None:
    """The trie that holds exactly a rule's output, by the partition column; None if the rule does
    more than copying rows."""
    if len(plan.joins) != 1 or plan.gathers:
        return None
    (join,) = plan.joins
    if len(join.tries) != 1 or len(join.steps) != len(join.outputs) or join.bag:
        return None
    (ref,) = join.tries
    columns: dict[str, int] = {}
    for step in join.steps:
        if not isinstance(step, Join) or len(step.participants) != 1:
            return None
        if len({cut for _, cut in step.implied}) != len(step.cuts):
            return None
        columns[step.variable] = ref.columns[step.participants[0].depth]
    asked = [output.name for output in join.outputs if isinstance(output, Slot)]
    if sorted(asked) != sorted(columns) or ref.tests or ref.ranked or ref.weighted:
        return None
    ordered = [columns[asked[at]] for at in order_by(split, len(asked))]
    return TrieRef(ref.relation, "full", tuple(ordered))


# Predicts the space of rows of recursive relations from the rules that derive them.


def expected_spaces(
    plans: Iterable[RulePlan],
    known: Mapping[str, KeySpace | None],
    finished: Mapping[str, Relation],
) -> dict[str, KeySpace]:
    """A space for each relation whose columns can all be predicted.

    `known`: growing relations, with the space of their current rows.
    """
    bounds: dict[RelationColumn, Span | None] = {}
    for name, space in known.items():
        for at, (low, span) in enumerate(space.box if space else ()):
            bounds[name, at] = low, low + span - 1
    memory: dict[RelationColumn, Span | None] = {}
    flows: list[Flow] = [
        (column, partial(_narrowest, sources, bounds, finished, memory))
        for plan in plans
        for join in plan.joins
        for column, sources in _flows(plan, join)
    ]
    widen(bounds, flows)
    arities: dict[str, int] = {}
    for (name, _), _ in flows:
        arities[name] = 1 + max(at for (other, at), _ in flows if other == name)
    spaces = {}
    for name, arity in arities.items():
        found_all = [bounds.get((name, at)) for at in range(arity)]
        if None not in found_all:
            space = KeySpace.within([each for each in found_all if each is not None])
            if space is not None:
                spaces[name] = space
    return spaces


def _flows(plan: RulePlan, join: JoinPlan) -> Iterator[tuple[RelationColumn, list[RelationColumn]]]:
    """For each column of a head, the columns that its values come from."""
    stands: dict[str, list[RelationColumn]] = {}
    if join.given is not None:
        for at, slot in enumerate(join.given.slots):
            stands.setdefault(slot.name, []).append((join.given.relation, at))
    for step in all_steps(join.steps):
        name = ""
        if isinstance(step, (Join, Assign, Generate)):
            name = step.variable
        elif isinstance(step, Seek) and isinstance(step.value, Slot):
            name = step.value.name
        for part in participants(step) if name else ():
            ref = join.tries[part.trie]
            if not ref.ranked:
                stands.setdefault(name, []).append((ref.relation, ref.columns[part.depth]))
    for at, output in enumerate(join.outputs):
        sources = stands.get(output.name, []) if isinstance(output, Slot) else []
        yield (plan.relation, at), sources


def _narrowest(
    sources: list[RelationColumn],
    bounds: Mapping[RelationColumn, Span | None],
    finished: Mapping[str, Relation],
    memory: dict[RelationColumn, Span | None],
) -> Span | None:
    """The bounds of values that occur in all of these columns."""
    found: Span | None = None
    for column in sources:
        name, at = column
        relation = finished.get(name)
        if relation is None:
            more = bounds.get(column)
        else:
            if column not in memory:
                memory[column] = span_of(relation.column(at))
            more = memory[column]
        if more is not None and (found is None or more[1] - more[0] < found[1] - found[0]):
            found = more
    return found
