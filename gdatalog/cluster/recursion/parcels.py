"""Parcels: rows of several relations that one worker sends another, and the owners of rows."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.cluster.rows.shuffle import ShuffleBlock, columns_of, rows_by_owner
from gdatalog.engine.derived import Rows
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import concatenate
from gdatalog.storage.sorting import sort_rows
from gdatalog.values import TypeName

# Rows by relation or distribution: columns, and the number of rows, which matters without columns.
Parcel = dict[str, Rows]


def rows_by_partition(rows: Rows, home: Sequence[int], owners: int) -> dict[int, Rows]:
    """Rows by owner, by a hash of the `home` columns. Without columns there is one owner."""
    columns, count = rows
    if not count:
        return {}
    if not home or owners == 1:
        return {0: rows}
    parts = rows_by_owner(tuple(columns[at] for at in home), columns, owners)
    return {to: (mine, len(mine[0])) for to, mine in enumerate(parts) if len(mine[0])}


def size_of(parcel: Parcel) -> int:
    return 64 + sum(column.nbytes for columns, _ in parcel.values() for column in columns)


def parcels_of(
    values: Sequence[object], owners: int, name: str, home: Sequence[int]
) -> list[Parcel]:
    """The distinct rows of values on this worker, as parcels for their home owners."""
    rows = sort_rows(concatenate([columns_of(value) for value in values]))
    parts = rows_by_partition((rows, len(rows[0])), home, owners)
    return [{name: parts[owner]} if owner in parts else {} for owner in range(owners)]


def fragment_of(
    pieces: Sequence[ShuffleBlock], name: str, columns: tuple[str, ...], types: tuple[TypeName, ...]
) -> Relation:
    """An owner's part of a relation, from parcels."""
    some = [piece.value[name] for piece in pieces if name in piece.value]
    blocks, count = [rows for rows, _ in some], sum(count for _, count in some)
    return Relation.of_blocks(columns, types, blocks, count, len(blocks) < 2)
