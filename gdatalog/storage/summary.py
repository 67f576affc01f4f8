"""Summaries of columns: their distinct, least and greatest values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdatalog.storage.keys import decode_blocks
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array, Table


def summary_of(
    relation: Relation, blocks: Sequence[Columns], symbols: SymbolTable
) -> tuple[list[int], Table]:
    """The number of distinct values of each column of a relation's rows; and a table of two rows,
    the least and the greatest values, or of none."""
    counts: list[int] = []
    ends: list[Array] = []
    for at, kind in enumerate(relation.types):
        keys = [np.asarray(block[at]) for block in blocks]
        distinct = np.unique(np.concatenate(keys)) if keys else np.empty(0, np.int32)
        counts.append(len(distinct))
        if kind == "symbol":  # the order of codes has no meaning
            ranks = symbols.ranks()[distinct]
            ends.append(distinct[[ranks.argmin(), ranks.argmax()]] if len(ranks) else distinct)
        else:
            ends.append(distinct[[0, -1]] if len(distinct) else distinct)
    rows = len(ends[0]) if ends else 0
    columns = decode_blocks([tuple(ends)], relation.types, symbols)
    return counts, Table(relation.columns, relation.types, columns, rows, relation.kinds)
