"""Summaries of columns: their nulls, and their distinct, least and greatest values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdatalog.storage.keys import decode_blocks
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns, sorted_set
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array, Table
from gdatalog.values import NULL


def summary_of(
    relation: Relation, blocks: Sequence[Columns], symbols: SymbolTable
) -> tuple[list[int], list[int], Table]:
    """The numbers of nulls and of distinct values of each column of a relation's rows; and a table
    of two rows, the least and the greatest values, or of none."""
    nulls: list[int] = []
    counts: list[int] = []
    ends: list[Array] = []
    rows = 2 * any(map(len, (block[0] for block in blocks if block)))
    for at, kind in enumerate(relation.types):
        keys = [np.asarray(block[at]) for block in blocks]
        column = np.concatenate(keys) if keys else np.empty(0, np.int32)
        null = bool(relation.nullable) and relation.nullable[at]
        nulls.append(int(np.count_nonzero(column == NULL)) if null else 0)
        distinct = sorted_set(column)
        distinct = distinct[: len(distinct) - (nulls[-1] > 0)]  # a null's key is the greatest
        counts.append(len(distinct))
        if kind == "symbol":  # the order of codes has no meaning
            ranks = symbols.ranks()[distinct]
            distinct = distinct[[ranks.argmin(), ranks.argmax()]] if len(ranks) else distinct
        elif len(distinct):
            distinct = distinct[[0, -1]]
        ends.append(distinct if len(distinct) else np.full(rows, NULL))
    own = relation.kinds, relation.nullable
    columns = decode_blocks([tuple(ends)], relation.types, symbols, nullable=relation.nullable)
    return nulls, counts, Table(relation.columns, relation.types, columns, rows, *own)
