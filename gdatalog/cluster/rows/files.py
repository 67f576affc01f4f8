"""Parquet files that workers read themselves.

They stay where they are: a part of such a relation is how some groups of a file are read, and they
are read again whenever rows are needed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from gdatalog.cancellation import current_watch
from gdatalog.cluster.pool import Call
from gdatalog.cluster.rows.loading import Loading, own_keys, places_of
from gdatalog.cluster.rows.sketches import SAMPLE, PartSketch, sketch_of, survey_of
from gdatalog.cluster.workers.worker import own_address
from gdatalog.errors import DataError
from gdatalog.records import dataclass, replace
from gdatalog.storage.data_files import (
    PARQUET,
    File,
    Footer,
    RowGroups,
    TypedColumns,
    files_of,
    footer_of,
    groups_of,
    is_set,
    raw_of_groups,
    typed_by,
)
from gdatalog.storage.frames import table_of
from gdatalog.storage.load_options import LoadOptions
from gdatalog.storage.raw import listed
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import RemotePart
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array, Table, TextColumn

# Fewer bytes than these are read here: to ask workers for them would take longer.
FEW = 32 << 20
ROWS, BYTES = 1 << 22, 64 << 20  # that a worker reads at a time, at the most
SHARE = 16  # of a worker's memory that what it reads at a time may take: one part of so many


def files_relation(asked: Loading, path: str) -> Relation | None:
    """The relation of the Parquet files at a path; None if that is better read here."""
    files = files_of(path) if is_set(path) else [File(path)]
    if not all(file.path.lower().endswith(PARQUET) for file in files):
        return None
    return _Dataset(asked).relation(files)


@dataclass(frozen=True, slots=True)
class _Dataset:
    """Parquet files that workers read."""

    asked: Loading

    def relation(self, files: Sequence[File]) -> Relation | None:
        asked = self.asked.wanted
        whole = [replace(file, path=os.path.abspath(file.path)) for file in files]
        with ThreadPoolExecutor(8) as threads:
            footers = list(threads.map(footer_of, whole))
        names = asked.declared.columns if asked.declared is not None else None
        found = typed_by(footers, asked.columns if asked.columns is not None else names)
        rows = sum(rows for footer in footers for rows, _ in footer.groups)
        if asked.declared is not None:
            typed = TypedColumns(asked.declared.columns, asked.declared.types)
        elif found is not None:
            typed = found
        else:
            return None  # what is wrong is told where they are read
        if not rows or not typed.types or (8 * rows * len(typed.types) < FEW and not asked.forced):
            return None
        # A relation that is declared may call the columns otherwise: then they go by place.
        columns = None if asked.columns is None else tuple(asked.columns)
        if found is not None and columns is None:
            columns = found.columns
        if columns is not None:
            self._check_names(footers, columns)
        blocks = [
            FileSplit(groups, columns, typed)
            for footer in footers
            for groups in groups_of(footer, ROWS, self._bytes())
        ]
        return self._of(blocks, typed)

    def _check_names(self, footers: Sequence[Footer], columns: Sequence[str]) -> None:
        """Raises if a file has not all columns: it is matched by their names."""
        for footer in footers:
            names = [name for name, _ in footer.types]
            lost = [name for name in columns if name not in names]
            if lost and footer.groups:
                raise DataError(
                    f"{footer.file.path}: there is no column {lost[0]!r}, only {listed(names)}",
                    hint="all files of a relation have its columns; columns=[...] selects some",
                )

    def _bytes(self) -> int:
        return min([BYTES, *(limit // SHARE for limit in self.asked.keeping.pool.memory)])

    def _of(self, blocks: Sequence[FileSplit], typed: TypedColumns) -> Relation:
        asked, keeping = self.asked, self.asked.keeping
        step = max(1, sum(block.groups.rows for block in blocks) // SAMPLE)
        stage = asked.stage("load")
        before = 0
        current_watch().innermost.new_rows = sum(block.groups.rows for block in blocks)
        for number, block in enumerate(blocks):
            stage.add(Call(seen, (block, -before % step, step), tag=number))
            before += block.groups.rows
        found: dict[int, SplitSummary] = {}
        texts: dict[str, None] = {}
        for call, one in stage:
            found[call.tag] = one
            for some in one.texts.values():
                texts.update(dict.fromkeys(some.to_pylist()))
            asked.check_texts(len(texts))
        placed = self._placed(list(texts)) if "symbol" in typed.types else None
        all_seen = [found[at] for at in range(len(blocks))]
        parts = [
            RemotePart({"read": block, "texts": placed}, one.look.rows, one.look.nbytes)
            for block, one in zip(blocks, all_seen, strict=True)
        ]
        relation = Relation.of_parts(typed.columns, typed.types, parts, keeping)
        # Whether texts are there both ways is not seen before they have codes.
        if relation.remote is not None and typed.types != ("symbol", "symbol"):
            looks = [one.coded(asked.symbols) for one in all_seen]
            relation.remote.know(survey_of(looks, step))
        return relation

    def _placed(self, texts: Sequence[str]) -> Any:
        """The codes of texts, on all workers."""
        import pyarrow as pa

        codes = np.fromiter(map(self.asked.symbols.intern, texts), np.int32, len(texts))
        known = TextCodes(pa.array(texts, pa.large_string()), codes)
        return self.asked.keeping.pool.broadcast(None, known, known.nbytes)


# ------------------------------------------------------------------------------- on a worker


@dataclass(frozen=True, slots=True)
class FileSplit:
    """Some groups of a Parquet file, and which of their columns are the relation's."""

    groups: RowGroups
    columns: tuple[str, ...] | None
    declared: TypedColumns

    def table(self, only: Sequence[int] | None = None) -> Table:
        """The rows, all columns or some. Those that go by their places are read together."""
        path = self.groups.file.path
        if not os.path.exists(path):
            raise DataError(
                f"{path}: the worker {own_address()} does not see this file",
                hint="workers read files themselves: put it where all of them see it, or load "
                "what pyarrow.parquet.read_table(...) reads here",
            )
        names, typed = self.columns, self.declared
        if only is not None and names is not None:
            names = tuple(names[at] for at in only)
            types = tuple(typed.types[at] for at in only)
            typed = TypedColumns(tuple(typed.columns[at] for at in only), types)
        wanted = typed.columns if names is None else names
        return table_of(raw_of_groups(self.groups, wanted), LoadOptions(names), typed, path)

    def read(self, texts: TextCodes | None, columns: Sequence[int] | None = None) -> Columns:
        """The rows, as keys: all columns, or some of them."""
        found = keys_of(self.table(columns), texts)
        pick = columns is not None and self.columns is None
        return tuple(found[at] for at in columns or ()) if pick else found


@dataclass(frozen=True, slots=True, eq=False)
class TextCodes:
    """The codes of some texts, which are an Arrow array."""

    texts: Any
    codes: Array

    def of(self, column: TextColumn) -> Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        places = pc.index_in(pa.array(column.texts, pa.large_string()), value_set=self.texts)
        found: Array = self.codes[np.asarray(places)][column.codes]
        return found

    @property
    def nbytes(self) -> int:
        return int(self.texts.nbytes) + self.codes.nbytes


@dataclass(frozen=True, slots=True)
class SplitSummary:
    """What a worker has seen of a block; `texts`: those of columns that hold texts, each once, as
    Arrow arrays. In these columns the look is at their places."""

    look: PartSketch
    texts: Mapping[int, Any]

    def coded(self, symbols: SymbolTable) -> PartSketch:
        """The look, when all texts have codes."""
        look = self.look
        for at, texts in self.texts.items():
            codes = np.fromiter(map(symbols.intern, texts.to_pylist()), np.int32, len(texts))
            look = look.with_keys(at, codes)
        return look


def seen(block: FileSplit, start: int, step: int) -> SplitSummary:
    """Reads a block, to see whether all is right with it."""
    import pyarrow as pa

    table = block.table()
    texts = {
        at: pa.array(column.texts, pa.large_string())
        for at, column in enumerate(table.columns)
        if isinstance(column, TextColumn)
    }
    keys = tuple(
        places_of(column) if isinstance(column, TextColumn) else own_keys(column, kind)
        for column, kind in zip(table.columns, table.types, strict=True)
    )
    return SplitSummary(sketch_of(keys, start, step), texts)


def keys_of(table: Table, texts: TextCodes | None) -> Columns:
    columns = []
    for column, kind in zip(table.columns, table.types, strict=True):
        if isinstance(column, TextColumn):
            columns.append(texts.of(column) if texts is not None else column.codes[:0])
        else:
            columns.append(own_keys(column, kind))
    return tuple(columns)
