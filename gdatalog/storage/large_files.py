"""CSV and TSV files that exceed memory, read block by block.

The type of a column depends on all of its cells, and so may the header. If these are not given, the
file is read twice: first to infer them, then for its rows. A file with line breaks within quotes is
read whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice

from gdatalog.cancellation import current_watch
from gdatalog.records import dataclass, replace
from gdatalog.storage.cells import Kinds
from gdatalog.storage.column_matching import match_columns
from gdatalog.storage.delimited import Delimited, Record, no_break_in_quotes
from gdatalog.storage.file_sets import PACKED, File
from gdatalog.storage.frames import table_of_file
from gdatalog.storage.headers import (
    CellsBelow,
    come_again,
    header_names,
    is_year,
    other_numbers,
    tell,
    verdict,
)
from gdatalog.storage.imported_later import pa
from gdatalog.storage.line_blocks import Block, blocks_of, bytes_of_block, each_block, report_size
from gdatalog.storage.load_options import LoadOptions, TypedColumns, check_delimiter
from gdatalog.storage.missing import unmarked
from gdatalog.storage.parquet_groups import with_keys
from gdatalog.storage.raw import Raw
from gdatalog.storage.table import Table
from gdatalog.storage.text_files import SAMPLE, UTF16, check_width, sniffed, texts_among
from gdatalog.values import TypeName


def by_position(options: LoadOptions) -> LoadOptions:
    """The options for all columns of a text: a declaration describes these only if the options
    select none."""
    if options.columns is None:
        return options
    return replace(options, declared=None, marking=options.marks)


WHOLE = 4  # least bytes of memory for each byte of a file that is read whole
FIRST = 0.4  # the share of work of the first of two passes


def tables_of_large(
    file: File, delimiter: str | None, quoted: bool, options: LoadOptions
) -> Iterator[Table] | None:
    """The rows of a file in blocks; None if it has to be read whole."""
    path = file.path
    if options.declared is None and (options.nulls == "drop" or options.null is not None):
        return None  # types are inferred from the rows or cells that are left
    try:
        size = os.path.getsize(path) if os.path.isfile(path) else 0
        packed = path.lower().endswith(PACKED)
        if packed or WHOLE * size <= current_watch().account.spare():
            return None
        blocks = blocks_of(path)
        if len(blocks) == 1:
            return None
        found = _large(file, blocks, delimiter, quoted, by_position(options))
    except OSError:  # reading it whole raises the error
        return None
    return None if found is None else _tables(found, options)


@dataclass(frozen=True, slots=True)
class _Large:
    """A file, and how it is split. `options`: those for all its columns; `head`: its first
    records."""

    file: File
    blocks: Sequence[Block]
    delimiter: str
    quoted: bool
    options: LoadOptions
    head: Sequence[Record] = ()

    @property
    def width(self) -> int:
        return len(self.head[0].fields)

    def texts(self, header: bool) -> Iterator[Delimited]:
        """The rows of each block; `header`: without the first line."""
        line = 1
        for block in each_block(self.blocks):
            data = bytes_of_block(self.file.path, block)
            text = self.cut(data, line)
            line += data.count(b"\n")
            del data
            yield text if block[0] or not header else text.after(self.head[0])

    def cut(self, data: bytes, line: int = 1) -> Delimited:
        blank, marks = self.options.blank_is_row(self.quoted), self.options.marks and self.quoted
        how = self.delimiter, self.quoted, blank
        return Delimited(self.file.path, data, *how, first_line=line, marks=marks)

    def raws(self, names: tuple[str, ...] | None, texts: Sequence[int]) -> Iterator[Raw]:
        """The columns of each block; `names`: those of the header, if there is one. `texts`: which
        of them hold texts."""
        first = self.head[0]
        source = None if names is None else self.cut(b"").span(first)
        for text in self.texts(names is not None):
            columns = text.columns(self.width, texts)
            raw = Raw(names, tuple(columns), len(columns[0]), "text", text.place, source)
            whole = with_keys(raw, self.file)
            yield replace(whole, whole=lambda: self.raws(names, texts))


class _Seen:
    """The inferred content of the cells below the first line, block by block (`headers.Below`)."""

    def __init__(self, large: _Large) -> None:
        fields = [field.strip() for field in large.head[0].fields]
        self.columns = [Kinds() for _ in fields]
        self._others = {at: False for at, field in enumerate(fields) if is_year(field)}
        self._again = False  # whether a text of the first line occurs in a column of texts
        for text in large.texts(True):
            cells = list(map(unmarked, text.columns(large.width)))
            for at, column in enumerate(cells):
                self.columns[at].see(column)
            for at, other in self._others.items():
                self._others[at] = other or other_numbers(cells[at])
            texts = all(kinds.kind() == "symbol" for kinds in self.columns)
            self._again = self._again or (texts and come_again(cells, fields))

    def kind(self, at: int) -> TypeName:
        return self.columns[at].kind()

    def other_numbers(self, at: int) -> bool:
        return self._others[at]

    def come_again(self, _: Sequence[str]) -> bool:
        return self._again


def _large(
    file: File, blocks: Sequence[Block], delimiter: str | None, quoted: bool, options: LoadOptions
) -> _Large | None:
    """How a file is split; None if it has to be read whole."""
    data = bytes_of_block(file.path, blocks[0])
    if data.startswith(UTF16) or (options.declared is not None and not options.declared.types):
        return None
    delimiter = check_delimiter(delimiter or sniffed(data, quoted, options))
    large = _Large(file, blocks, delimiter, quoted, options)
    if quoted and not all(
        b'"' not in text.data or no_break_in_quotes(text.data) for text in large.texts(False)
    ):
        return None
    head = list(islice(large.cut(data).records(), SAMPLE))
    return replace(large, head=head) if head else None


def _tables(large: _Large, options: LoadOptions) -> Iterator[Table]:
    work, first = current_watch().innermost, large.head[0]
    report_size(large.blocks[-1][1])
    # With a declaration the first lines decide whether there is a header.
    twice = large.options.declared is None and (options.declared is None or options.header is None)
    seen: _Seen | None = None
    if twice:
        with work.within(0.0, FIRST):
            seen = _Seen(large)
    rows = [record.fields for record in large.head[1:]]
    found = verdict(first, rows, large.options, CellsBelow(()) if seen is None else seen)
    tell(found, first, options)
    text = large.cut(b"")
    names = header_names(first, text, large.options) if found.header else None
    if names is None:
        check_width(text, large.head, large.options.declared)
    texts = texts_among(large.head, large.options)
    types: list[TypeName] = []
    if seen is not None:
        types = _types(seen, None if found.header else first)
        plain = not (options.mends or options.marks)
        texts = [at for at, k in enumerate(types) if k == "symbol"] if plain else []
    with work.within(FIRST if twice else 0.0, 1.0):
        for raw in large.raws(names, texts):
            if options.declared is None:
                declared = _as_found(raw, types, options, large.file)
                options = replace(options, columns=declared.columns, declared=declared)
            yield table_of_file(raw, options)


def _types(seen: _Seen, row: Record | None) -> list[TypeName]:
    """The types of the columns; `row`: the first line, if it is a row."""
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
    names, picked = match_columns(raw.names, len(raw.columns), options, raw.header)
    return TypedColumns(tuple(names), tuple(types[at] for at in picked))
