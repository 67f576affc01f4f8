"""What an owner has between two rounds, as it is written down and read again: on a worker.

It is written block by block, so that an owner never holds it twice: into files of a folder that all
workers see, or into rows that this worker stores, and another copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from uuid import uuid4

from gdatalog.cluster.pool.worker_cache import read, write
from gdatalog.cluster.recursion.hash_partition import (
    HashPartition,
    Parcel,
    PartitionTask,
    StaleState,
    StepOutput,
    TableBlocks,
    given,
    rows_by_partition,
)
from gdatalog.cluster.rows.stored_rows import StoredRows
from gdatalog.engine.derived import Rows
from gdatalog.limits import Limits
from gdatalog.plan.nodes import TrieRef
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns, concatenate
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.trie import Trie

AT_ONCE = 1 << 20  # rows that are written together
OUT = "out"


class SavedRows(NamedTuple):
    """Rows in a checkpoint. `of`: which table of an owner's they are of; or `OUT`: they are on
    their way. `rows`: a file, or the rows; None if they have no columns."""

    of: str
    name: str
    length: int
    rows: str | StoredRows | None


def saved(found: StepOutput, out: bool, folder: str | None) -> list[SavedRows]:
    """Writes what an owner has; and what it has for others, if that is on its way. `folder`: one
    that all workers see; else this worker keeps it."""
    limits = Limits()
    lain = []
    for table, name, count, blocks in (*found["state"].blocks(), *(_out(found) if out else ())):
        if count and not blocks:
            lain.append(SavedRows(table, name, count, None))
        for columns in _packed(blocks):
            limits.poll()
            lain.append(SavedRows(table, name, len(columns[0]), _stored(columns, folder)))
    return lain


def _out(found: StepOutput) -> Iterator[TableBlocks]:
    """What is on its way to all owners together, who are known by the rows."""
    parcels = [each.value for to, each in found.items() if isinstance(to, int)]
    for name in dict.fromkeys(name for parcel in parcels for name in parcel):
        rows = [parcel[name] for parcel in parcels if name in parcel]
        blocks = [columns for columns, _ in rows if columns]
        yield OUT, name, sum(count for _, count in rows), blocks


def _packed(blocks: Iterable[Columns]) -> Iterator[Columns]:
    """The rows of some blocks: many of these together if they are small, one bit by bit if it is
    large."""
    small: list[Columns] = []
    for block in blocks:
        for start in range(0, len(block[0]), AT_ONCE):
            small.append(tuple(column[start : start + AT_ONCE] for column in block))
            if sum(len(columns[0]) for columns in small) >= AT_ONCE:
                yield concatenate(small)
                small = []
    if small:
        yield concatenate(small)


def _stored(columns: Columns, folder: str | None) -> str | StoredRows:
    if folder is None:
        return StoredRows(columns)
    path = f"{folder}/{uuid4().hex}"
    write(columns, path)
    return path


def restored(
    task: PartitionTask,
    number: int,
    tries: Mapping[TrieRef, Trie],
    fragments: Mapping[str, Relation],
    symbols: SymbolTable,
    lain: Sequence[SavedRows],
) -> StepOutput:
    """An owner as it was."""
    owner, limits = HashPartition(task, number, tries, fragments, symbols), Limits()
    owner.called_by(limits)
    derived: dict[str, list[Rows]] = {}
    for of, name, count, rows in lain:
        limits.poll()
        read_back = _taken(rows), count
        if of == OUT:
            derived.setdefault(name, []).append(read_back)
        else:
            owner.load(of, name, read_back)
    out: dict[int, Parcel] = {}
    for name, parts in derived.items():
        columns = concatenate([columns for columns, _ in parts])
        together = columns, sum(count for _, count in parts)
        for to, part in rows_by_partition(together, task.routes.homes[name], task.owners).items():
            out.setdefault(to, {})[name] = part
    return given(owner, None, out)


def _taken(rows: str | StoredRows | None) -> Columns:
    if rows is None:
        return ()
    if isinstance(rows, StoredRows):
        return rows.read()
    try:
        # Copied: the file goes with the next checkpoint, and what is mapped may be gone then.
        return tuple(column.copy() for column in read(rows))
    except OSError as error:
        raise StaleState from error
