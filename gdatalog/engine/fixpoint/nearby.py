"""The rows of long relations that a few given rows join with, if there is no index for them.

New rows are few, and so are their matches in a relation of millions of rows that has no index on
the column. If the relation has a bitmap, the matches are read from it. Otherwise a pass over the
column finds them, once; the second request builds the index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from gdatalog.engine.semi_joins import note_part_indexed, part_indexed
from gdatalog.plan.join_plan import JoinPlan, Seek, Slot, TrieRef
from gdatalog.settings import Thresholds
from gdatalog.storage.keys import narrow
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns, sorted_set
from gdatalog.storage.selection import rows_among
from gdatalog.storage.table import Array

# The rows with one of some values in a column; None if no bitmap has them.
ByBitmap = Callable[[int, Array], Columns | None]


def led_to(join: JoinPlan, rows: Columns) -> dict[int, Array]:
    """The tries that given rows search by their first level, and the values they search for."""
    assert join.given is not None
    columns: Mapping[str, Array] = dict(
        zip((slot.name for slot in join.given.slots), rows, strict=True)
    )
    searched: dict[int, Array] = {}
    for step in join.steps:
        if isinstance(step, Seek) and isinstance(step.value, Slot) and step.value.name in columns:
            for part in step.participants:
                if part.depth == 0:
                    searched[part.trie] = columns[step.value.name]
    return searched


def nearby(
    relation: Relation, ref: TrieRef, by_bitmap: ByBitmap, values: Array, thresholds: Thresholds
) -> Relation | None:
    """The rows that hold one of the values in the first column of a trie; None if an index of all
    rows is better, or exists. `by_bitmap` looks rows up in a bitmap."""
    if relation.at_most < thresholds.narrowed_from or ref.ranked or ref.weighted:
        return None
    large = relation.parts[0]
    if large.indexed(ref.columns, ref.tests) or (ref.columns[0] == 0 and large.sorted):
        return None
    wanted = sorted_set(values)
    rows = by_bitmap(ref.columns[0], wanted)
    if rows is None:
        few = len(wanted) * thresholds.looked_up_share <= relation.at_most
        if part_indexed(large, ref.columns) or not few:
            return None
        note_part_indexed(large, ref.columns)
        matches: list[Columns] = []
        for block in (block for part in relation.parts for block in part.blocks()):
            kept = rows_among(block[ref.columns[0]], wanted)
            matches.append(tuple(key[kept] for key in block))
        rows = tuple(np.concatenate(keys) for keys in zip(*matches, strict=True))
    count = len(rows[0])
    blocks = [tuple(map(narrow, rows))]
    return Relation.of_blocks(relation.columns, relation.types, blocks, count, True)
