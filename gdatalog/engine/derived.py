"""What rules give: rows as an executor leaves them, and the relation that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gdatalog.storage.keys import narrow
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns, concatenate, sort_rows
from gdatalog.values import TypeName

# Distinct rows in order, and how many they are.
Rows = tuple[Columns, int]


@dataclass(frozen=True, slots=True)
class Blocks:
    """Distinct rows in no order, as several threads give them: `count` together."""

    blocks: Sequence[Columns]
    count: int


Derived = Rows | Blocks


def in_order(derived: Derived) -> Rows:
    """The rows, sorted."""
    if not isinstance(derived, Blocks):
        return derived
    filled = [block for block in derived.blocks if block and len(block[0])]
    if not filled:
        return (derived.blocks[0] if derived.blocks else ()), derived.count
    return sort_rows(concatenate(filled)), derived.count


def relation_of(
    columns: tuple[str, ...], types: tuple[TypeName, ...], parts: Sequence[Derived]
) -> Relation:
    """The union of rows to which no more will be added; sorted when somebody needs that."""
    filled = [part for part in parts if (part.count if isinstance(part, Blocks) else part[1])]
    if len(filled) == 1 and not isinstance(filled[0], Blocks):
        rows, count = filled[0]
        return Relation(columns, types, tuple(map(narrow, rows)), count)
    blocks: list[Columns] = []
    count = 0
    for part in filled:
        more = part if isinstance(part, Blocks) else Blocks([part[0]], part[1])
        blocks += more.blocks
        count += more.count
    return Relation.of_blocks(columns, types, blocks, count, distinct=len(filled) == 1)
