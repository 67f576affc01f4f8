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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from gdatalog.cpu_ops.expressions import Scope, evaluate, no_column
from gdatalog.engine.fixpoint.start_groups import RowsByColumn
from gdatalog.plan import join_plan as p
from gdatalog.storage.key_space import RelationColumn, union, widen
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import INT32_MAX, INT32_MIN, Span
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie

if TYPE_CHECKING:
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
