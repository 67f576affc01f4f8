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

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gdatalog.cancellation import current_watch
from gdatalog.cpu_ops.expressions import Scope, constant
from gdatalog.engine.fixpoint.start_groups import RowsByColumn
from gdatalog.plan import join_plan as p
from gdatalog.storage.key_space import RelationColumn, union
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import INT32_MAX, INT32_MIN, Span
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie

if TYPE_CHECKING:
    from gdatalog.printer.worklist import Recursive


Known = dict[RelationColumn, Span | None]  # None: no values
LevelSpans = Mapping[tuple[int, int], Span | None]  # by the number of an index, and the level in it
# What a rule derives for a relation's columns: expressions over the bindings of a join, and what is
# known of the indexes of finished relations.
Head = tuple[str, Mapping[int, p.Expr], p.JoinPlan, LevelSpans]
Spans = dict[str, dict[int, Span | None]]  # by relation and column; None: unknown
ANY = (-(1 << 63), (1 << 63) - 1)  # of values of which nothing is known


def widen_by_rules(
    known: Known, heads: Iterable[Head], scope: Scope, unknown: Span | None = ANY
) -> None:
    """Widens the ranges of columns by the values that rules derive, until no range changes.
    `unknown`: the range of a value that cannot be predicted."""
    flows = [
        ((name, at), _sources(expr, join, spans, scope))
        for name, columns, join, spans in heads
        for at, expr in columns.items()
    ]
    changed = True
    while changed:
        current_watch().poll()
        changed = False
        for column, sources in flows:
            before, more = known.get(column), _derived(known, sources, unknown)
            if more is None or (before and before[0] <= more[0] and more[1] <= before[1]):
                continue
            joined = union(before, more)
            if joined != before:
                known[column], changed = joined, True


# Where the values of an expression come from: columns of the rows that a join starts from, or else
# columns of other growing relations and known ranges.
ValueSources = tuple[list[RelationColumn], list[RelationColumn], list[Span | None]]


def _sources(expr: p.Expr, join: p.JoinPlan, spans: LevelSpans, scope: Scope) -> ValueSources:
    given: list[RelationColumn] = []
    read: list[RelationColumn] = []
    stated: list[Span | None] = []
    if isinstance(expr, p.Constant | p.Parameter):
        key, _ = constant(expr, scope)
        stated.append((key, key))
    elif isinstance(expr, p.Slot):
        if join.given is not None:
            slots = enumerate(join.given.slots)
            given += [(join.given.relation, at) for at, slot in slots if slot == expr]
        for at, depth in _places(expr.name, join):
            if (at, depth) in spans:
                stated.append(spans[at, depth])
            else:
                read.append((join.tries[at].relation, join.tries[at].columns[depth]))
    return given, read, stated


def _derived(known: Known, sources: ValueSources, unknown: Span | None) -> Span | None:
    """The range of an expression's values; None if it has none yet."""
    given, read, stated = sources
    found = [known[column] for column in given if column in known]
    if not found:
        found = [*stated, *[known.get(column, ANY) for column in read]]
    if None in found:
        return None
    spans = [span for span in found if span is not None and span != ANY]
    if not spans:
        return unknown
    low, high = max(low for low, _ in spans), min(high for _, high in spans)
    return (low, high) if low <= high else None


def _places(variable: str, join: p.JoinPlan) -> Iterator[tuple[int, int]]:
    """The index levels that hold a variable's values."""
    for step in join.steps:
        if isinstance(step, p.Join | p.Assign | p.Generate) and step.variable == variable:
            for part in step.participants:
                if not join.tries[part.trie].ranked:
                    yield part.trie, part.depth


def spans_read(
    exprs: Iterable[p.Expr],
    join: p.JoinPlan,
    relation: Callable[[str], Relation],
    growing: Container[str] = (),
) -> LevelSpans:
    """The ranges of the indexes that hold the values of expressions, without those of `growing`
    relations."""
    found: dict[tuple[int, int], Span | None] = {}
    for expr in exprs:
        for at, depth in _places(expr.name, join) if isinstance(expr, p.Slot) else ():
            ref = join.tries[at]
            if ref.relation not in growing:
                found[at, depth] = span_of_column(relation(ref.relation), ref.columns[depth])
    return found


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
    heads: list[Head] = []
    for rule in rules:
        join, outputs = rule.join, dict(enumerate(rule.join.outputs))
        names = (expr.name for expr in join.outputs if isinstance(expr, p.Slot))
        places = {place for name in names for place in _places(name, join)}
        levels = {(at, depth): tries[join.tries[at]].levels[depth].span for at, depth in places}
        heads.append((rule.head, outputs, join, levels))
    widen_by_rules(known, heads, scope)
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
