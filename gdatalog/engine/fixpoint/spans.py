"""What is known before a fixpoint of the values in its rows: ranges, spaces, groups, and initial
rows.

Values come from the initial rows, from columns of recursive atoms, and from the lists that bind a
head's variables (`widen_by_rules`). The range of computed values is unknown.

- A partitioned fixpoint groups its initial rows by the partition column.
- The space of a recursive relation is predicted from the rules that derive it. Rows outside the
  space widen it.
- Groups of best values have codes, which are computed from their columns' keys.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gdatalog.cpu_ops.expressions import Scope, evaluate, no_column
from gdatalog.engine.derived import Rows
from gdatalog.plan import join_plan as p
from gdatalog.records import dataclass, replace
from gdatalog.storage.key_space import KeySpace, RelationColumn, span_of, union, widen
from gdatalog.storage.on_device import brought
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import INT32_MAX, INT32_MIN, Columns, Span
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie

if TYPE_CHECKING:
    from gdatalog.printer.lattice import BestRelation, Follow
    from gdatalog.printer.worklist import Recursive


Known = dict[RelationColumn, Span | None]  # None: no values
# What a rule derives for a relation's columns: expressions over the bindings of a join.
Head = tuple[str, Mapping[int, p.Expr], p.JoinPlan]
DataSpan = Callable[[p.TrieRef, int], Span | None]  # of a level of a finished relation's index
Spans = dict[str, dict[int, Span | None]]  # by relation and column; None: unknown
ANY = (-(1 << 63), (1 << 63) - 1)  # of values of which nothing is known


def widen_by_rules(
    known: Known,
    heads: Iterable[Head],
    data: DataSpan,
    scope: Scope,
    unknown: Callable[[], Span | None],
) -> None:
    """Widens the ranges of columns by the values that rules derive, until no range changes.
    `unknown`: the range of a value that cannot be predicted."""

    def derived(expr: p.Expr, join: p.JoinPlan) -> Span | None:
        if isinstance(expr, p.Constant | p.Parameter):
            keys, _ = evaluate(expr, no_column, 1, scope)
            return int(keys[0]), int(keys[0])
        found: list[Span | None] = []
        if isinstance(expr, p.Slot) and join.given is not None:
            columns = [
                (join.given.relation, at) for at, s in enumerate(join.given.slots) if s == expr
            ]
            found = [known[column] for column in columns if column in known]
        if isinstance(expr, p.Slot) and not found:
            found = [data(*place) for place in _places(expr.name, join)]
        if None in found:
            return None
        spans = [span for span in found if span is not None and span != ANY]
        if not spans:
            return unknown()
        low, high = max(low for low, _ in spans), min(high for _, high in spans)
        return (low, high) if low <= high else None

    flows = [
        ((name, at), partial(derived, expr, join))
        for name, columns, join in heads
        for at, expr in columns.items()
    ]
    widen(known, flows)


def _places(variable: str, join: p.JoinPlan) -> Iterator[tuple[p.TrieRef, int]]:
    """The index levels that hold a variable's values."""
    for step in join.steps:
        if isinstance(step, p.Join | p.Assign | p.Generate) and step.variable == variable:
            for part in step.participants:
                if not join.tries[part.trie].ranked:
                    yield join.tries[part.trie], part.depth


def span_of_column(relation: Relation, at: int) -> Span | None:
    return relation.spans[at] if relation.spans else None


def spans_of(
    rules: Sequence[Recursive],
    held: Mapping[str, Sequence[RowsByColumn]],
    arities: Mapping[str, int],
    columns: Mapping[str, int],
    tries: Mapping[p.TrieRef, Trie],
    scope: Scope,
) -> Spans:
    """The ranges of the relations' columns, which `columns` partition, for these initial rows."""
    groups = [group for own in held.values() for group in own if len(group.values)]
    everywhere = union(*((int(g.values[0]), int(g.values[-1])) for g in groups))
    known: Known = {
        (name, column): everywhere
        if column == columns[name]
        else union(*(group.span(column) for group in held[name]))
        for name, arity in arities.items()
        for column in range(arity)
    }
    heads = [(rule.head, dict(enumerate(rule.join.outputs)), rule.join) for rule in rules]
    widen_by_rules(
        known, heads, lambda ref, depth: tries[ref].levels[depth].span, scope, lambda: ANY
    )
    spans: Spans = {name: {} for name in arities}
    for (name, column), span in known.items():
        # A column without a range never gets a value.
        spans[name][column] = None if span == ANY else span or (0, 0)
    return spans


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


# Predicts the space of rows of recursive relations from the rules that derive them.


def expected_spaces(
    plans: Iterable[p.RulePlan],
    before: Mapping[str, KeySpace | None],
    relation: Callable[[str], Relation],
    scope: Scope,
) -> dict[str, KeySpace]:
    """A space for each relation whose columns can all be predicted. `before`: growing relations,
    with the space of their current rows; `relation` returns the others."""
    known: Known = {}
    for name, space in before.items():
        for at, (low, count) in enumerate(space.box if space else ()):
            known[name, at] = low, low + count - 1
    joins = [(plan.relation, join) for plan in plans for join in plan.joins]
    heads = [(name, dict(enumerate(join.outputs)), join) for name, join in joins]

    def data(ref: p.TrieRef, depth: int) -> Span | None:
        at = ref.columns[depth]
        if ref.relation in before:
            return known.get((ref.relation, at), ANY)
        return span_of_column(relation(ref.relation), at)

    widen_by_rules(known, heads, data, scope, lambda: None)
    spaces = {}
    for name, arity in {name: len(join.outputs) for name, join in joins}.items():
        spans = [span for at in range(arity) if (span := known.get((name, at))) is not None]
        space = KeySpace.within(spans) if len(spans) == arity else None
        if space is not None:
            spaces[name] = space
    return spaces


# Groups of best values as numbers: the possible groups, their codes, and decoding.


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
    data: DataSpan,
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
    heads = [(f.target, {at: f.head[at] for at in groups[f.target]}, f.join) for f in follows]

    def unknown() -> None:
        raise Uncoded("the groups that a rule derives are not known beforehand")

    widen_by_rules(known, heads, data, scope, unknown)
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
        """Where the rows of each of these values start; they include all of `self.values`."""
        if len(values) == len(self.values):
            return self.starts
        xp = self.xp
        counts = xp.zeros(len(values) + 1, dtype=xp.int64)
        counts[xp.searchsorted(values, self.values) + 1] = xp.diff(self.starts)
        found: Array = xp.cumsum(counts)
        return found

    def between(self, low: int, high: int) -> RowsByColumn:
        """The rows of the host of the values from one on, below another."""
        first, last = bisect_left(self.values, low), bisect_left(self.values, high)
        start, end = self.starts[first], self.starts[last]
        columns = {at: column[start:end] for at, column in self.columns.items()}
        return RowsByColumn(self.values[first:last], self.starts[first : last + 1] - start, columns)

    def on(self, xp: Any) -> RowsByColumn:
        """The same rows with arrays of a device, or of the host."""
        given = brought if xp is np else xp.asarray
        columns = {at: given(column) for at, column in self.columns.items()}
        return RowsByColumn(given(self.values), given(self.starts), columns, xp)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the arrays of the host, because a module cannot be pickled."""
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


def copied(plan: p.RulePlan, split: int) -> p.TrieRef | None:
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
        if not isinstance(step, p.Join) or len(step.participants) != 1:
            return None
        if len({cut for _, cut in step.implied}) != len(step.cuts):
            return None
        columns[step.variable] = ref.columns[step.participants[0].depth]
    asked = [output.name for output in join.outputs if isinstance(output, p.Slot)]
    if sorted(asked) != sorted(columns) or ref.tests or ref.ranked or ref.weighted:
        return None
    ordered = [columns[asked[at]] for at in order_by(split, len(asked))]
    return p.TrieRef(ref.relation, "full", tuple(ordered))
