"""Facts files, and other files of `.input` without a path: delimited text as Soufflé reads it.

A large file is read in blocks of whole lines. A block is split in one pass if it is plain
(`delimited.py`), else cell by cell.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import BinaryIO

from gdatalog.errors import DataError, TimeLimitError, UsageError
from gdatalog.records import dataclass, field, replace
from gdatalog.storage import line_blocks, text_files
from gdatalog.storage.delimited import MARK
from gdatalog.storage.file_bytes import FORMATS, format_of, read_bytes, similar
from gdatalog.storage.file_sets import PACKED
from gdatalog.storage.frames import table_of_file
from gdatalog.storage.load_options import (
    PLAIN,
    Declared,
    FilePath,
    Findings,
    KeptPipes,
    LoadOptions,
    broken_link,
    check_delimiter,
    delimiter_of,
    flag_of,
    options_of_text,
)
from gdatalog.storage.places import MissingValue
from gdatalog.storage.plain_text import ColumnLayout, cut_columns
from gdatalog.storage.raw import Raw
from gdatalog.storage.readers import TEXTS, read_tables
from gdatalog.storage.row_ids import with_row_ids
from gdatalog.storage.table import Table, TextSet, TextSetFunctions

# Returns the set to add the texts of a file to.
TextsFor = Callable[[TextSetFunctions], TextSet]
Kept = Sequence[int] | None  # the columns that the program uses; None: all

_HEAD = 1 << 16  # bytes: contains the header


def read_facts(
    name: str,
    folder: FilePath,
    declared: Declared,
    texts_for: TextsFor = TextSet,
    kept: Kept = None,
    pipes: KeptPipes | None = None,
) -> Iterator[Table]:
    """Reads a bare `.input R`: R.facts, else R.csv, R.parquet, R.arrow, from the facts folder."""
    path = find_facts(name, folder)
    options = replace(PLAIN, declared=declared, what=path, pipes=pipes)
    if format_of(path) in TEXTS:
        options = replace(options, nulls="error")
        return _FactsText(options, texts_for=texts_for, kept=kept).tables()
    return read_tables(path, options)


def find_facts(name: str, folder: FilePath) -> str:
    """The file that the bare `.input R` reads."""
    endings = [e + p for e in (".facts", ".csv", ".parquet", ".arrow") for p in ("", *PACKED)]
    for ending in endings:
        path = _within(folder, name + ending)
        if os.path.exists(path):
            return path
    for ending in endings:
        if broken := broken_link(_within(folder, name + ending)):
            raise DataError(broken)
    path = _within(folder, name + ".facts")
    raise DataError(
        f"{path}: there is no such file, nor {name}.csv, {name}.parquet or {name}.arrow",
        hint=similar(path) or f'-F names the folder, .input {name}("path") a file',
    )


def _within(folder: FilePath, name: str) -> str:
    """A path in a folder; absolute paths stay, and the working directory is left out."""
    return os.path.normpath(os.path.join(os.fspath(folder), name))


def read_input(
    name: str,
    options: Mapping[str, str],
    folder: FilePath,
    declared: Declared,
    findings: Findings | None = None,
    texts_for: TextsFor = TextSet,
    kept: Kept = None,
    pipes: KeptPipes | None = None,
) -> Iterator[Table]:
    """Reads the keyword form: IO=file, filename, delimiter, headers, columns, rfc4180, and our own
    options."""
    kind = options.get("IO", "file")
    if kind != "file":
        raise UsageError(
            f"{name}: cannot read from IO={kind}",
            hint="IO=file reads a file; other sources are loaded from Python",
        )
    given = options.get("filename", options.get("name"))
    path = _within(folder, given) if given else find_facts(name, folder)
    own = {key: options[key] for key in ("nulls", "null", "fill", "row_id") if key in options}
    ours = replace(options_of_text(own, findings), declared=declared, what=path, pipes=pipes)
    packed = os.path.splitext(path.removesuffix(".gz").removesuffix(".zst"))[1].lower()
    delimiter = delimiter_of(options)
    header = flag_of(options, "headers", "header")
    quoted = flag_of(options, "rfc4180")
    if FORMATS.get(packed, "facts") not in TEXTS:
        if (delimiter, header, quoted, options.get("columns")) != (None, None, None, None):
            raise UsageError(
                f"{path}: delimiter, headers, columns and rfc4180 are of text files, and have no "
                "meaning here"
            )
        return read_tables(path, ours)
    if ours.null is None and ours.nulls == "keep":  # nothing in such a file is a null
        ours = replace(ours, nulls="error")

    def loaded(ours: LoadOptions) -> Iterator[Table]:
        assert ours.declared is not None
        return _FactsText(
            ours,
            delimiter,
            bool(header),
            _positions(name, options.get("columns"), ours.declared),
            bool(quoted),
            texts_for,
            kept,
        ).tables()

    return with_row_ids(loaded, ours)


def _positions(name: str, text: str | None, declared: Declared) -> list[int] | None:
    """`columns="0:2"`: the file's column for each column of the relation."""
    if not text:
        return None
    parts = text.split(":")
    if not all(part.strip().isdecimal() for part in parts) or len(parts) != len(declared.types):
        raise UsageError(
            f"{name}: columns={text!r} does not name {len(declared.types)} columns of the file",
            hint='columns="0:2" takes the first and the third, counted from 0',
        )
    return [int(part) for part in parts]


@dataclass(frozen=True, slots=True)
class _FactsText:
    """A text as Soufflé reads it. R.csv has commas unless a line contains a tab."""

    options: LoadOptions  # of a declared relation
    delimiter: str | None = None
    header: bool = False
    positions: list[int] | None = None
    quoted: bool = False
    texts_for: TextsFor = TextSet
    kept: Kept = None
    lines: dict[int, int] = field(default_factory=lambda: {0: 1})  # of blocks, by their starts

    @property
    def path(self) -> str:
        return self.options.what

    @property
    def declared(self) -> Declared:
        assert self.options.declared is not None
        return self.options.declared

    def tables(self) -> Iterator[Table]:
        """The rows in blocks; at least one table."""
        blocks = self._blocks()
        if len(blocks) == 1:
            yield self._table(blocks[0])
            return
        line_blocks.report_size(blocks[-1][1])
        with open(self.path, "rb", buffering=0) as file:  # a tab in any block decides for all
            delimiter = self._cut_by(iter(partial(file.read, line_blocks.PIECE), b""))
        known = replace(self, delimiter=delimiter)
        for block in line_blocks.each_block(blocks):
            yield known._table(block, blocks)

    def _table(self, block: line_blocks.Block, blocks: Sequence[line_blocks.Block] = ()) -> Table:
        """The rows of one of several blocks, or of the whole file."""
        null = self.options.null is not None or any(self.declared.nullable)
        plain = self.positions is None and not self.options.mends and not null
        found = self._cut(block, bool(blocks)) if plain else None
        if found is not None:
            return found
        raw = self._raw(block, bool(blocks))
        if blocks:
            raw = replace(raw, whole=lambda: (self._raw(each, True) for each in blocks))
        try:
            return table_of_file(raw, self._options(block))
        except MissingValue as error:
            if self.options.null is None:
                cure = 'null="..." is a word for nulls, in columns of types such as int?'
                error.hint = f"{cure}; {error.hint}"
            raise

    def _blocks(self) -> list[line_blocks.Block]:
        """Blocks of whole lines. A single block if the file is small or compressed, or if line
        breaks may be within quotes."""
        path = self.path
        if self.quoted or path.lower().endswith(PACKED) or not os.path.isfile(path):
            return [(0, 0)]
        try:
            return line_blocks.blocks_of(path)
        except OSError:  # reading it reports the error
            return [(0, 0)]

    def _options(self, block: line_blocks.Block) -> LoadOptions:
        # Columns match by position: the names of the header may even be equal.
        header = self.header and not block[0]
        return replace(self.options, header=header, columns=self.declared.columns)

    def _cut_by(self, pieces: Iterable[bytes]) -> str:
        """The delimiter of a text, given in pieces."""
        if self.delimiter is not None:
            return self.delimiter
        several = len(self.declared.types) > 1 or self.positions is not None
        is_csv = self.quoted or format_of(self.path, "facts") == "csv"
        return "," if is_csv and several and not any(b"\t" in piece for piece in pieces) else "\t"

    def _raw(self, block: line_blocks.Block, several: bool) -> Raw:
        """The cells of a block, as texts."""
        first_line = 1
        if several:
            with open(self.path, "rb", buffering=0) as file:
                last = max(at for at in self.lines if at <= block[0])
                first_line = self.lines[last] + line_blocks.lines_between(file, last, block[0])
            self.lines[block[0]] = first_line
            data = line_blocks.bytes_of_block(self.path, block)
        else:
            data = read_bytes(self.path, self.options.pipes).removeprefix(MARK)
        raw = text_files.raw_of_text(
            data,
            self._options(block),
            self._cut_by([data]),
            self.quoted,
            self.positions,
            first_line,
        )
        return replace(raw, names=None)

    def _cut(self, block: line_blocks.Block, several: bool) -> Table | None:
        """The rows of a plain block, split in one pass, without the texts of columns that are not
        `kept`."""
        path, declared = self.path, self.declared
        if path.lower().endswith(PACKED) or not os.path.isfile(path):
            return None
        try:
            with open(path, "rb", buffering=0) as file:
                delimiter = check_delimiter(
                    self._cut_by(iter(partial(file.read, line_blocks.PIECE), b""))
                )
                start = block[0]
                if not start:
                    found = self._rows_begin(file, delimiter)
                    if found is None:
                        return None
                    start = found
                end = block[1] if several else os.fstat(file.fileno()).st_size
                length = end - file.seek(start)
                if not several:
                    line_blocks.report_size(length)
                blank = declared.types == ("symbol",) and not self.quoted
                # Other columns are read in any case: a value of another type is an error.
                wanted = [
                    at
                    for at, kind in enumerate(declared.types)
                    if kind != "symbol" or self.kept is None or at in self.kept
                ]
                types = tuple(t if at in wanted else None for at, t in enumerate(declared.types))
                layout = ColumnLayout(delimiter, types, self.quoted, blank)
                cut = cut_columns(file, length, layout, self.texts_for)
        except TimeLimitError:
            raise
        except OSError:  # reading it reports the error
            return None
        if cut is None:
            return None
        names, kinds = ([part[at] for at in wanted] for part in (declared.columns, declared.types))
        table = Table(tuple(names), tuple(kinds), *cut)
        return table if self.kept is None else table.only([wanted.index(at) for at in self.kept])

    def _rows_begin(self, file: BinaryIO, delimiter: str) -> int | None:
        """Where the rows of a file begin; None if its head is not plain."""
        file.seek(0)
        head = file.read(_HEAD)
        start = len(MARK) if head.startswith(MARK) else 0
        if self.header:
            end = head.find(b"\n", start)
            names = head[start:end].removesuffix(b"\r")
            odd = b"\r" in names or (self.quoted and b'"' in names)
            wide = names.count(delimiter.encode()) + 1 == len(self.declared.types)
            if end < 0 or not names or odd or not wide:
                return None
            start = end + 1
        return None if head.startswith(text_files.UTF16) else start
