"""Parquet files that workers read: a part of a relation is some row groups of a file.

Files stay where they are; workers read them whenever they need the rows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Any

import numpy as np

from gdatalog.cancellation import current_watch
from gdatalog.cluster.pool.calls import Call
from gdatalog.cluster.rows.loading import Loading, keys_or_places, own_keys, texts_of
from gdatalog.cluster.rows.survey import SAMPLE, PartSketch, sketch_of, survey_of
from gdatalog.cluster.workers.own_process import own_address
from gdatalog.errors import DataError
from gdatalog.records import dataclass, replace
from gdatalog.storage import file_sets, parquet_groups
from gdatalog.storage.file_sets import File
from gdatalog.storage.frames import table_of
from gdatalog.storage.load_options import LoadOptions, TypedColumns
from gdatalog.storage.parquet_groups import Footer, RowGroups
from gdatalog.storage.raw import listed
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import RemotePart
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array, Table, TextColumn

# The driver reads smaller data itself, because asking workers would take longer.
LOADED_HERE_BELOW = 32 << 20
ROWS, BYTES = 1 << 22, 64 << 20  # that a worker reads at a time, at most
SHARE = 16  # what a worker reads at a time takes at most this fraction of its memory


def files_relation(asked: Loading, path: str) -> Relation | None:
    """The relation of the Parquet files at a path; None if the driver should read them."""
    files = file_sets.files_of(path) if file_sets.is_set(path) else [File(path)]
    if not all(file.path.lower().endswith(file_sets.PARQUET) for file in files):
        return None
    wanted = asked.wanted
    whole = [replace(file, path=os.path.abspath(file.path)) for file in files]
    with ThreadPoolExecutor(8) as threads:
        footers = list(threads.map(parquet_groups.footer_of, whole))
    names = wanted.declared.columns if wanted.declared is not None else None
    columns = names if wanted.columns is None else wanted.columns
    found = parquet_groups.typed_by(footers, columns)
    rows = sum(rows for footer in footers for rows, _ in footer.groups)
    if wanted.declared is not None:
        typed = TypedColumns(wanted.declared.columns, wanted.declared.types)
    elif found is not None:
        typed = found
    else:
        return None  # reading them in the driver reports what is wrong
    if (
        not rows
        or not typed.types
        or (8 * rows * len(typed.types) < LOADED_HERE_BELOW and not wanted.forced)
    ):
        return None
    # A declaration may rename the columns; then they match by position.
    columns = None if wanted.columns is None else tuple(wanted.columns)
    if found is not None and columns is None:
        columns = found.columns
    if columns is not None:
        _check_names(footers, columns)
    most = min([BYTES, *(limit // SHARE for limit in asked.keeping.pool.memory)])
    blocks = [
        FileSplit(groups, columns, typed)
        for footer in footers
        for groups in parquet_groups.groups_of(footer, ROWS, most)
    ]
    return _files_relation(asked, blocks, typed)


def _check_names(footers: Sequence[Footer], columns: Sequence[str]) -> None:
    """Raises if a file lacks a column, because columns match by name."""
    for footer in footers:
        names = [name for name, _ in footer.types]
        lost = [name for name in columns if name not in names]
        if lost and footer.groups:
            raise DataError(
                f"{footer.file.path}: there is no column {lost[0]!r}, only {listed(names)}",
                hint="all files of a relation have its columns; columns=[...] selects some",
            )


def _files_relation(asked: Loading, blocks: Sequence[FileSplit], typed: TypedColumns) -> Relation:
    import pyarrow as pa

    rows = [block.groups.rows for block in blocks]
    step = max(1, sum(rows) // SAMPLE)
    stage = asked.stage("load")
    current_watch().innermost.new_rows = sum(rows)
    for number, before in enumerate(accumulate(rows[:-1], initial=0)):
        stage.add(Call(seen, (blocks[number], -before % step, step), tag=number))
    found: dict[int, tuple[PartSketch, dict[int, Any]]] = {}
    texts: dict[str, None] = {}
    for call, one in stage:
        found[call.tag] = one
        for some in one[1].values():
            texts.update(dict.fromkeys(some.to_pylist()))
        asked.check_texts(len(texts))
    placed = None
    if "symbol" in typed.types:
        codes = TextCodes(pa.array(texts, pa.large_string()), asked.codes_of(list(texts)))
        placed = asked.keeping.pool.broadcast(None, codes)
    all_seen = [found[at] for at in range(len(blocks))]
    parts = [
        RemotePart({"read": block, "texts": placed}, look.rows, look.nbytes)
        for block, (look, _) in zip(blocks, all_seen, strict=True)
    ]
    relation = Relation.of_parts(typed.columns, typed.types, parts, asked.keeping)
    # Without codes, a sketch cannot tell whether edges between texts are symmetric.
    if relation.remote is not None and typed.types != ("symbol", "symbol"):
        looks = []
        for look, own in all_seen:
            for at, some in own.items():
                look = look.with_keys(at, asked.codes_of(some.to_pylist()))
            looks.append(look)
        relation.remote.know(survey_of(looks, step))
    return relation


@dataclass(frozen=True, slots=True)
class FileSplit:
    """Some row groups of a Parquet file, and their columns that the relation has."""

    groups: RowGroups
    columns: tuple[str, ...] | None
    declared: TypedColumns

    def table(self, only: Sequence[int] | None = None) -> Table:
        """The rows: all columns, or some. Columns that match by position are read together."""
        path = self.groups.file.path
        if not os.path.exists(path):
            raise DataError(
                f"{path}: the worker {own_address()} does not see this file",
                hint="workers read files themselves: put it where all of them see it, or load "
                "pyarrow.parquet.read_table(...)",
            )
        names, typed = self.columns, self.declared
        if only is not None and names is not None:
            names = tuple(names[at] for at in only)
            types = tuple(typed.types[at] for at in only)
            typed = TypedColumns(tuple(typed.columns[at] for at in only), types)
        wanted = typed.columns if names is None else names
        options = LoadOptions(names, nulls="error", declared=typed, what=path)
        return table_of(parquet_groups.raw_of_groups(self.groups, wanted), options)

    def read(self, texts: TextCodes | None, columns: Sequence[int] | None = None) -> Columns:
        """The rows as keys: all columns, or some."""
        table = self.table(columns)
        found = keys_or_places(table) if texts is None else keys_of(table, texts)
        pick = columns is not None and self.columns is None
        return tuple(found[at] for at in columns or ()) if pick else found


@dataclass(frozen=True, slots=True, eq=False)
class TextCodes:
    """The codes of texts, which are in an Arrow array."""

    texts: Any
    codes: Array

    def of(self, column: TextColumn) -> Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        places = pc.index_in(pa.array(column.texts, pa.large_string()), value_set=self.texts)
        found: Array = self.codes[np.asarray(places)][column.codes]
        return found


def seen(block: FileSplit, start: int, step: int) -> tuple[PartSketch, dict[int, Any]]:
    """Reads and checks a split. Returns its sketch, and the distinct texts of its text columns, as
    Arrow arrays; in these columns, the sketch has places in the texts."""
    import pyarrow as pa

    table = block.table()
    texts = {at: pa.array(some, pa.large_string()) for at, some in texts_of(table).items()}
    return sketch_of(keys_or_places(table), start, step), texts


def keys_of(table: Table, texts: TextCodes) -> Columns:
    return tuple(
        texts.of(column) if isinstance(column, TextColumn) else own_keys(column, kind)
        for column, kind in zip(table.columns, table.types, strict=True)
    )
