"""Value ranges of the columns of a fixpoint's relations, as far as they can be known.

Values come from the initial rows, from columns of recursive atoms, and from the lists that bind a
head's variables. The range of computed values is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from gdatalog.cpu_ops.functions import Scope, evaluate
from gdatalog.engine.fixpoint.keyspace import Column, Flow, Span, union, widen
from gdatalog.engine.fixpoint.seeds import RowsByColumn
from gdatalog.plan.effects import merged
from gdatalog.plan.nodes import Assign, Constant, Expr, Generate, Join, Parameter, Slot, Step
from gdatalog.storage.rows import INT32_MAX, INT32_MIN
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
    known: dict[Column, Span | None] = {
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
