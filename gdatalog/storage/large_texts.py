"""CSV and TSV files that exceed memory: read block by block.

The type of a column depends on all of its cells, and so may the header. If these are not given, the
file is read twice: first to infer them, then for its rows. A file with line breaks within quotes is
read whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from gdatalog.cancellation import current_watch
from gdatalog.records import dataclass, replace
from gdatalog.storage.cells import Kinds
from gdatalog.storage.delimited import MARK, CellPlace, Delimited, Record, no_break_in_quotes
from gdatalog.storage.file_sets import PACKED, File, TypedColumns
from gdatalog.storage.frames import table_of_file
from gdatalog.storage.headers import come_again, header_names, match_columns, tell, verdict
from gdatalog.storage.load_options import DataPlace, Declared, LoadOptions, check_delimiter
from gdatalog.storage.parquet import with_keys
from gdatalog.storage.raw import Raw
from gdatalog.storage.table import Table
from gdatalog.storage.text_files import (
    SAMPLE,
    UTF16,
    Block,
    blocks_of,
    bytes_of,
    check_width,
    report_size,
    sniffed,
    texts_among,
)
from gdatalog.values import TypeName

WHOLE = 4  # least bytes of memory for each byte of a file that is read whole
FIRST = 0.4  # the share of work of the first of two passes


def tables_of_large(
    file: File,
    delimiter: str | None,
    quoted: bool,
    declared: Declared | None,
    options: LoadOptions,
) -> Iterator[Table] | None:
    """The rows of a file in blocks; None if it has to be read whole."""
    path = file.path
    if options.nulls == "drop" and declared is None:
        return None  # types are inferred from the rows that are not dropped
    try:
        size = os.path.getsize(path) if os.path.isfile(path) else 0
        packed = path.lower().endswith(PACKED)
        if packed or WHOLE * size <= current_watch().account.spare():
            return None
        blocks = blocks_of(path)
        if len(blocks) == 1:
            return None
        said = declared if options.columns is None else None
        found = _large(file, blocks, delimiter, quoted, said, options)
    except OSError:  # reading it whole raises the error
        return None
    return None if found is None else _tables(found, declared, options)


@dataclass(frozen=True, slots=True)
class _Large:
    """A file, and how it is cut. `head`: its first records; `declared`: what is said of its columns
    in their order."""

    file: File
    blocks: Sequence[Block]
    delimiter: str
    quoted: bool
    blank_is_row: bool
    head: Sequence[Record]
    declared: Declared | None

    @property
    def width(self) -> int:
        return len(self.head[0].fields)

    def texts(self, header: bool) -> Iterator[Delimited]:
        """The rows of each block; `header`: without the first line."""
        line, size = 1, self.blocks[-1][1]
        work = current_watch().innermost
        for start, end in self.blocks:
            current_watch().poll()
            with open(self.file.path, "rb", buffering=0) as file:
                file.seek(start)
                data = bytes_of(file, end - start)
            lines = data.count(b"\n")
            text = self.cut(data if start else data.removeprefix(MARK), line)
            line += lines
            del data
            with work.within(start / size, end / size):
                yield text if start or not header else text.after(self.head[0])

    def cut(self, data: bytes, line: int = 1) -> Delimited:
        name, blank = self.file.path, self.blank_is_row
        return Delimited(name, data, self.delimiter, self.quoted, blank, first_line=line)

    def raws(self, names: tuple[str, ...] | None, texts: Sequence[int]) -> Iterator[Raw]:
        """The columns of each block; `names`: those of the header, if there is one. `texts`: which
        of them hold texts."""
        first = self.head[0]
        source = None if names is None else self.cut(b"").span(first)
        for text in self.texts(names is not None):
            columns = text.columns(self.width, texts)
            place = _ColumnPlaces(self.file.path, text)
            raw = Raw(names, tuple(columns), len(columns[0]), "text", place, source)
            whole = with_keys(raw, self.file)
            yield replace(whole, whole=lambda: self.raws(names, texts))


@dataclass(frozen=True, slots=True)
class _ColumnPlaces:
    """The places of columns, for errors."""

    name: str
    text: Delimited

    def __call__(self, position: int, column: str) -> DataPlace:
        return CellPlace(self.name, column, self.text, position)


class _Seen:
    """The inferred content of the cells below the first line, block by block."""

    def __init__(self, large: _Large) -> None:
        fields = [field.strip() for field in large.head[0].fields]
        self.columns = [Kinds() for _ in fields]
        self._again = False
        for text in large.texts(True):
            cells = text.columns(large.width)
            for kinds, column in zip(self.columns, cells, strict=True):
                kinds.see(column)
            texts = all(kinds.kind() == "symbol" for kinds in self.columns)
            self._again = self._again or (texts and come_again(fields, cells))

    def kinds(self) -> Iterator[TypeName]:
        return (kinds.kind() for kinds in self.columns)

    def again(self, fields: Sequence[str]) -> bool:
        return self._again


def _large(
    file: File,
    blocks: Sequence[Block],
    delimiter: str | None,
    quoted: bool,
    declared: Declared | None,
    options: LoadOptions,
) -> _Large | None:
    """How a file is split; None if it has to be read whole."""
    name = file.path
    with open(name, "rb", buffering=0) as opened:
        data = bytes_of(opened, blocks[0][1]).removeprefix(MARK)
    if data.startswith(UTF16) or (declared is not None and not declared.types):
        return None
    if delimiter is None:
        delimiter = sniffed(name, data, quoted, declared)
    blank = declared is not None and declared.types == ("symbol",) and not quoted
    large = _Large(file, blocks, check_delimiter(delimiter), quoted, blank, (), declared)
    if quoted and any(map(_breaks, large.texts(False))):
        return None
    head = list(islice(large.cut(data).records(), SAMPLE))
    return replace(large, head=head) if head else None


def _breaks(text: Delimited) -> bool:
    """Whether a line of a block may end within quotes."""
    return b'"' in text.data and not no_break_in_quotes(text.data)


def _tables(large: _Large, declared: Declared | None, options: LoadOptions) -> Iterator[Table]:
    work, first = current_watch().innermost, large.head[0]
    report_size(large.blocks[-1][1])
    # With a declaration the first lines decide whether there is a header.
    twice = declared is None or (large.declared is None and options.header is None)
    seen: Any = None
    if twice:
        with work.within(0.0, FIRST):
            seen = _Seen(large)
    below = [record.fields for record in large.head[1:]]
    found = verdict(first, below, seen, large.declared, options)
    tell(found, large.file.path, first, options)
    text = large.cut(b"")
    names = header_names(first, text, large.declared, options) if found.header else None
    if names is None:
        check_width(text, large.head, large.declared)
    texts = [] if options.mends else texts_among(large.head, large.declared)
    kinds: list[TypeName] = []
    if seen is not None:
        kinds = _types(seen, None if found.header else first)
        texts = [] if options.mends else [at for at, k in enumerate(kinds) if k == "symbol"]
    with work.within(FIRST if twice else 0.0, 1.0):
        for raw in large.raws(names, texts):
            if declared is None:
                declared = _as_found(raw, kinds, options, large.file)
                options = replace(options, columns=declared.columns)
            yield table_of_file(raw, options, declared, large.file.path)


def _types(seen: _Seen, row: Record | None) -> list[TypeName]:
    """The types of the columns; `row`: the first line, if it is a row."""
    import pyarrow as pa

    if row is not None:
        for kinds, cell in zip(seen.columns, row.fields, strict=True):
            kinds.see(pa.chunked_array([pa.array([cell], pa.string())]))
    return [kinds.kind(identifiers=True) for kinds in seen.columns]


def _as_found(
    raw: Raw, kinds: Sequence[TypeName], options: LoadOptions, file: File
) -> TypedColumns:
    """The selected columns, and their types."""
    types = [*kinds]
    for _, value in file.keys[: len(raw.columns) - len(kinds)]:
        types.append("int" if isinstance(value, int) else "symbol")
    names, picked = match_columns(
        raw.names, len(raw.columns), options.columns, None, file.path, raw.header
    )
    return TypedColumns(tuple(names), tuple(types[at] for at in picked))
