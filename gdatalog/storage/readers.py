"""Readers: the rows of a file as tables.

CSV and TSV files that exceed memory are read block by block. The type of a column depends on all of
its cells, and so may the header. If these are not given, the file is read twice: first to infer
them, then for its rows. A file with line breaks within quotes is read whole.
"""

from __future__ import annotations

import difflib
import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate, islice, pairwise

from gdatalog.cancellation import current_watch
from gdatalog.errors import DataError, TimeLimitError, UsageError
from gdatalog.records import dataclass, replace
from gdatalog.storage.cells import Kinds
from gdatalog.storage.column_matching import match_columns
from gdatalog.storage.data_files import damaged, raws_of_parquet
from gdatalog.storage.delimited import MARK, READING, Delimited, Record, no_break_in_quotes
from gdatalog.storage.file_sets import PACKED, File, files_of, is_set, read_set
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
from gdatalog.storage.json_files import raw_of_json, raw_of_json_lines
from gdatalog.storage.line_blocks import (
    PIECE,
    Block,
    blocks_of,
    bytes_of_block,
    each_block,
    report_size,
)
from gdatalog.storage.load_options import (
    PLAIN,
    FilePath,
    KeptPipes,
    LoadOptions,
    TypedColumns,
    broken_link,
    check_delimiter,
)
from gdatalog.storage.parquet_groups import with_keys
from gdatalog.storage.raw import Raw, raw_of_arrow
from gdatalog.storage.row_ids import with_row_ids
from gdatalog.storage.table import Table
from gdatalog.storage.text_files import (
    SAMPLE,
    UTF16,
    check_width,
    raw_of_text,
    sniffed,
    texts_among,
)
from gdatalog.values import TypeName

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "csv",
    ".facts": "facts",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
TEXTS = ("csv", "tsv", "facts")


def read_tables(
    path: FilePath, options: LoadOptions = PLAIN, delimiter: str | None = None
) -> Iterator[Table]:
    """The tables of a file, or of several files that are one relation: all Parquet files of a
    folder, or the files that match a pattern. There is at least one table, and all have the same
    columns. Options that are not given follow from the name and the content."""
    name = os.fspath(path)
    options = replace(options, what=name)
    if not is_set(name):
        return with_row_ids(partial(_read_file, File(name), delimiter=delimiter), options)
    return with_row_ids(partial(_read_files, name, delimiter=delimiter), options)


def _read_files(name: str, options: LoadOptions, delimiter: str | None) -> Iterator[Table]:
    files = files_of(name)
    work, ends = current_watch().innermost, [0, *accumulate(map(_size_of, files))]
    if work.stage == "loading" and ends[-1]:
        work.total, work.unit = ends[-1], "bytes"
    stretches = iter(pairwise(ends))

    def read(file: File, options: LoadOptions) -> Iterator[Table]:
        start, end = next(stretches)
        if ends[-1] and len(files) > 1:
            work.stretch(start / ends[-1], end / ends[-1])
        return _read_file(file, replace(options, what=file.path), delimiter)

    return read_set(files, options, read)


def _size_of(file: File) -> int:
    try:
        return os.stat(file.path).st_size
    except OSError:  # reading it raises the error
        return 0


def _read_file(file: File, options: LoadOptions, delimiter: str | None) -> Iterator[Table]:
    name, columns, declared = file.path, options.columns, options.declared
    if not os.path.exists(name) and not os.path.splitext(name)[1]:
        raise _missing(name)  # a file or a folder
    format = format_of(name)
    if format not in TEXTS and (delimiter, options.header) != (None, None):
        raise UsageError(f"{name}: delimiter and header have no meaning for {format}")
    if format == "parquet":
        wanted = columns if columns is not None else declared.columns if declared else None
        for raw in raws_of_parquet(name, _source_of(name, options.pipes), wanted):
            yield table_of_file(with_keys(raw, file), options)
        return
    quoted = format != "facts"
    if format in TEXTS:
        if columns is not None:  # names are trimmed
            options = replace(options, columns=[column.strip() for column in columns])
        delimiter = delimiter or (None if format == "csv" else "\t")
        if not quoted and options.header is None:
            options = replace(options, header=False)
        tables = tables_of_large(file, delimiter, quoted, options)
        if tables is not None:
            yield from tables
            return
    data = read_bytes(name, options.pipes)
    if format == "arrow":
        raw = raw_of_arrow(_arrow(name, data), name)
    elif format == "json":
        raw = raw_of_json(name, data)
    elif format == "jsonl":
        raw = raw_of_json_lines(name, data)
    else:
        raw = raw_of_text(data.removeprefix(MARK), _by_position(options), delimiter, quoted)
    yield table_of_file(with_keys(raw, file), options)


def _by_position(options: LoadOptions) -> LoadOptions:
    """The options for all columns of a text: a declaration describes these only if the options
    select none."""
    return options if options.columns is None else replace(options, declared=None)


def _source_of(name: str, pipes: KeptPipes | None) -> Callable[[], pa.NativeFile]:
    """What Arrow opens: the path, or the content of a compressed file or a pipe."""
    if name.lower().endswith(PACKED) or not os.path.isfile(name):
        return partial(pa.BufferReader, read_bytes(name, pipes))
    with _reading(name), open(name, "rb") as file:  # raises if it cannot be read
        size = os.fstat(file.fileno()).st_size
        report_size(size)
    # Arrow keeps what it reads of a file until it closes it; mapped pages take no memory.
    return partial(pa.memory_map if size else pa.OSFile, name)


# ---------------------------------------------------------------- bytes


def format_of(name: str, default: str | None = None) -> str:
    """The format of a file, by its name."""
    plain = name
    for ending in PACKED:
        if plain.lower().endswith(ending):
            plain = plain[: -len(ending)]
    found = FORMATS.get(os.path.splitext(plain)[1].lower(), default)
    if found is None:
        known = " ".join(FORMATS)
        raise UsageError(
            f"{name}: the name does not tell the format",
            hint=f"known are {known}, each also as .gz or .zst",
        )
    return found


def read_bytes(name: str, pipes: KeptPipes | None = None) -> bytes:
    """The whole content of a file, decompressed. `pipes`: keeps what can be read only once."""
    with _reading(name):
        report_size(os.stat(name).st_size)  # 0 for a pipe, whose size is unknown
        with current_watch().innermost.within(*READING):
            data = _read(name) if pipes is None else pipes.read(name, _read)
    try:
        if name.lower().endswith(".gz"):
            return gzip.decompress(data)
        if name.lower().endswith(".zst"):
            if not data:
                raise EOFError("the file is empty")
            with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
                unpacked: bytes = stream.read()
            return unpacked
    except (OSError, EOFError, zlib.error, MemoryError, ValueError) as error:
        raise damaged(name, error) from error
    return data


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Within, errors of the operating system become errors that name the file."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(name) from None
    except IsADirectoryError:
        raise DataError(
            f"{name}: this is a folder, not a file",
            hint=f'name a file in it, or several: "{os.path.join(name, "*.csv")}"',
        ) from None
    except TimeLimitError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"{name}: cannot be read: {reason}") from error


def _read(name: str) -> bytes:
    """The content of a file, which may be longer than its reported size, or a pipe."""
    work = current_watch().innermost
    with open(name, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size <= PIECE:
            return file.readall()
        parts = []
        while part := file.read(PIECE):
            parts.append(part)
            work.share(len(parts) * PIECE / size)
            current_watch().poll()
    return b"".join(parts)


def _missing(name: str) -> DataError:
    if not name:
        return DataError("the path of a file is empty")
    if broken := broken_link(name):
        return DataError(broken)
    what = "file" if os.path.splitext(name)[1] else "file or folder"
    return DataError(f"{name}: there is no such {what}", hint=similar(name.rstrip("/")))


def similar(name: str) -> str | None:
    """A hint: files with a similar name in the same folder, or that the folder does not exist."""
    folder, base = os.path.split(name)
    try:
        there = os.listdir(folder or ".")
    except (OSError, ValueError):
        return f"there is no folder {folder!r} either"
    # Compares the parts before the dot, because all facts files have the same ending.
    stems = {file.split(".")[0]: file for file in sorted(there, reverse=True)}
    close = difflib.get_close_matches(base.split(".")[0], stems, n=1, cutoff=0.6)
    return f"did you mean {os.path.join(folder, stems[close[0]])!r}?" if close else None


# ---------------------------------------------------------------- Arrow


def _arrow(name: str, data: bytes) -> pa.Table:
    try:
        is_file = data.startswith(b"ARROW1")
        open_it = pa.ipc.open_file if is_file else pa.ipc.open_stream
        table = open_it(pa.py_buffer(data)).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
        raise damaged(name, error) from error
    return table


# CSV and TSV files that exceed memory: read block by block.


WHOLE = 4  # least bytes of memory for each byte of a file that is read whole
FIRST = 0.4  # the share of work of the first of two passes


def tables_of_large(
    file: File, delimiter: str | None, quoted: bool, options: LoadOptions
) -> Iterator[Table] | None:
    """The rows of a file in blocks; None if it has to be read whole."""
    path = file.path
    if options.nulls == "drop" and options.declared is None:
        return None  # types are inferred from the rows that are not dropped
    try:
        size = os.path.getsize(path) if os.path.isfile(path) else 0
        packed = path.lower().endswith(PACKED)
        if packed or WHOLE * size <= current_watch().account.spare():
            return None
        blocks = blocks_of(path)
        if len(blocks) == 1:
            return None
        found = _large(file, blocks, delimiter, quoted, _by_position(options))
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
        name, declared = self.file.path, self.options.declared
        blank = declared is not None and declared.types == ("symbol",) and not self.quoted
        return Delimited(name, data, self.delimiter, self.quoted, blank, first_line=line)

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
            cells = text.columns(large.width)
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
        texts = [] if options.mends else [at for at, k in enumerate(types) if k == "symbol"]
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
