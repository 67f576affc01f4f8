"""Readers: a file becomes tables, of which each has some of its rows.

    .csv .tsv .txt           RFC 4180; the delimiter is sniffed (but of .tsv), the header too
    .facts                   tab-separated, no header, no quoting
    .parquet                 .arrow .feather .ipc: Arrow's file or stream format
    .json                    a list of records, of rows or of values; or one record of columns
    .jsonl .ndjson           a record, row or value a line

each also as .gz or .zst. A folder of Parquet files is read as one, and so are all files that a
pattern names ("edges/*.csv"). Parquet files are read some rows at a time, others whole. Nothing but
an Error comes out of a file that is damaged.

Above 300 lines, for every way to read a file begins here.
"""

from __future__ import annotations

import difflib
import gzip
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from gdatalog.errors import DataError, TimeLimitError, UsageError
from gdatalog.records import replace
from gdatalog.storage.cutting import Layout, cut_columns
from gdatalog.storage.file_sets import File, files_of, is_set, joined, read_set
from gdatalog.storage.frames import table_of
from gdatalog.storage.json_files import raw_of_json, raw_of_json_lines
from gdatalog.storage.load_options import (
    PLAIN,
    Findings,
    LoadOptions,
    check_delimiter,
    options_of_text,
)
from gdatalog.storage.parquet import damaged, raws_of_parquet, with_keys
from gdatalog.storage.phases import READING, TYPING
from gdatalog.storage.place import FilePlace
from gdatalog.storage.raw import Declared, Raw, raw_of_arrow
from gdatalog.storage.row_ids import with_row_ids
from gdatalog.storage.table import Table
from gdatalog.storage.text_files import UTF16, raw_of_text
from gdatalog.storage.text_set import Kernels, TextSet
from gdatalog.watching import watching

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
PACKED = (".gz", ".zst")
TEXTS = ("csv", "tsv", "facts")
PIECE = 1 << 24  # bytes that are read at a time
MARK = b"\xef\xbb\xbf"  # of UTF-8, which a file may begin with
_HEAD = 1 << 16  # bytes that have the names of columns

# Gives the set that the texts of a file are added to.
TextsFor = Callable[[Kernels], TextSet]
Kept = Sequence[int] | None  # the columns that somebody will ask for; None: all


def read_table(
    path: str | os.PathLike[str],
    options: LoadOptions = PLAIN,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    quoting: bool | None = None,
    declared: Declared | None = None,
) -> Table:
    """The table that a file holds, or files that are one relation (see `read_tables`)."""
    said = {"format": format, "delimiter": delimiter, "quoting": quoting}
    return joined(list(read_tables(path, options, declared=declared, **said)))  # type: ignore[arg-type]


def read_tables(
    path: str | os.PathLike[str],
    options: LoadOptions = PLAIN,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    quoting: bool | None = None,
    declared: Declared | None = None,
) -> Iterator[Table]:
    """The tables that a file holds, or files that are one relation: all Parquet files of a folder,
    or those that a pattern names. They have the same columns, and there is at least one. What is
    not said follows from the name and the content."""
    name = os.fspath(path)
    said = partial(_read_file, format=format, delimiter=delimiter, quoting=quoting)

    def loaded(declared: Declared | None) -> Iterator[Table]:
        if not is_set(name):
            return said(File(name), options, declared)
        files = files_of(name)
        work, ends = watching().innermost, [0, *accumulate(map(_size_of, files))]
        if work.stage == "loading" and ends[-1]:
            work.total, work.unit = ends[-1], "bytes"
        stretches = iter(pairwise(ends))

        def read(file: File, options: LoadOptions, declared: Declared | None) -> Iterator[Table]:
            start, end = next(stretches)
            if ends[-1] and len(files) > 1:
                work.stretch(start / ends[-1], end / ends[-1])
            return said(file, options, declared)

        return read_set(files, options, declared, read)

    return with_row_ids(loaded, options, declared, name)


def _size_of(file: File) -> int:
    try:
        return os.stat(file.path).st_size
    except OSError:  # who reads it says so
        return 0


def _read_file(
    file: File,
    options: LoadOptions,
    declared: Declared | None,
    *,
    format: str | None,
    delimiter: str | None,
    quoting: bool | None,
) -> Iterator[Table]:
    name, columns = file.path, options.columns
    if format is None:
        if not os.path.exists(name) and not os.path.splitext(name)[1]:
            raise _missing(name)  # as likely a folder
        format = format_of(name)
    elif format not in FORMATS.values():
        known = ", ".join(sorted(set(FORMATS.values())))
        raise UsageError(f"there is no format {format!r}", hint=f"formats are {known}")
    if format not in TEXTS and (delimiter, options.header, quoting) != (None, None, None):
        raise UsageError(f"{name}: delimiter, header and quoting have no meaning for {format}")
    if format == "parquet":
        wanted = columns if columns is not None else declared.columns if declared else None
        for raw in raws_of_parquet(name, _source_of(name), wanted):
            yield _typed(with_keys(raw, file), options, declared, name)
        return
    data = read_bytes(name)
    if format == "arrow":
        raw = raw_of_arrow(_arrow(name, data), name)
    elif format == "json":
        raw = raw_of_json(name, data)
    elif format == "jsonl":
        raw = raw_of_json_lines(name, data)
    else:
        facts = format == "facts"
        raw = raw_of_text(
            name,
            data.removeprefix(MARK),
            delimiter=delimiter or (None if format == "csv" else "\t"),
            quoted=not facts if quoting is None else quoting,
            declared=_of_names(declared, columns),
            options=replace(options, header=False) if facts and options.header is None else options,
        )
    yield _typed(with_keys(raw, file), options, declared, name)


def _source_of(name: str) -> Callable[[], Any]:
    """What opens a file for Arrow: where it lies, or what it holds if it is packed or a pipe."""
    import pyarrow as pa

    if name.lower().endswith(PACKED) or not os.path.isfile(name):
        return partial(pa.BufferReader, read_bytes(name))
    with _told_of(name), open(name, "rb") as file:  # whether it can be read at all
        size = os.fstat(file.fileno()).st_size
        _has_bytes(size)
    # Arrow would keep what it reads of a file until its end; what is mapped takes no memory.
    return partial(pa.memory_map if size else pa.OSFile, name)


def _typed(raw: Raw, options: LoadOptions, declared: Declared | None, name: str) -> Table:
    if raw.place is None:
        raw = replace(raw, place=lambda _, column: FilePlace(name, column))
    with watching().innermost.within(*TYPING):
        return table_of(raw, options, declared, name)


def _of_names(declared: Declared | None, columns: Sequence[str] | None) -> Declared | None:
    """The declaration, unless the columns are chosen by the caller."""
    return declared if columns is None else None


def read_facts(
    name: str,
    folder: str | os.PathLike[str],
    declared: Declared,
    texts_for: TextsFor = TextSet,
    kept: Kept = None,
) -> Iterator[Table]:
    """The bare `.input R`: R.facts, else R.csv, R.parquet, R.arrow, from the facts folder."""
    path = find_facts(name, folder)
    if format_of(path) in TEXTS:
        return iter([_verbatim(path, None, False, None, False, declared, PLAIN, texts_for, kept)])
    return read_tables(path, declared=declared)


def find_facts(name: str, folder: str | os.PathLike[str]) -> str:
    """The file that the bare `.input R` reads."""
    endings = [e + p for e in (".facts", ".csv", ".parquet", ".arrow") for p in ("", *PACKED)]
    for ending in endings:
        path = _within(folder, name + ending)
        if os.path.exists(path):
            return path
    path = _within(folder, name + ".facts")
    raise DataError(
        f"{path}: there is no such file, nor {name}.csv, {name}.parquet or {name}.arrow",
        hint=_similar(path) or f'-F names the folder, .input {name}("path") a file',
    )


def _within(folder: str | os.PathLike[str], name: str) -> str:
    """A path below a folder; an absolute one stays, and the working directory is not named."""
    return os.path.normpath(os.path.join(os.fspath(folder), name))


def read_input(
    name: str,
    options: Mapping[str, str],
    folder: str | os.PathLike[str],
    declared: Declared,
    findings: Findings | None = None,
    texts_for: TextsFor = TextSet,
    kept: Kept = None,
) -> Iterator[Table]:
    """The keyword form: IO=file, filename, delimiter, headers, columns, rfc4180, and ours."""
    kind = options.get("IO", "file")
    if kind != "file":
        raise UsageError(
            f"{name}: cannot read from IO={kind}",
            hint="IO=file reads a file; other sources are loaded from Python",
        )
    given = options.get("filename", options.get("name"))
    path = _within(folder, given) if given else find_facts(name, folder)
    ours = options_of_text(
        {key: options[key] for key in ("nulls", "fill", "row_id") if key in options}, findings
    )
    packed = os.path.splitext(path.removesuffix(".gz").removesuffix(".zst"))[1].lower()
    if FORMATS.get(packed, "facts") not in TEXTS:
        return read_tables(path, ours, declared=declared)
    delimiter = options.get("delimiter")

    def loaded(declared: Declared | None) -> Iterator[Table]:
        assert declared is not None
        yield _verbatim(
            path,
            "\t" if delimiter == "\\t" else delimiter,
            options.get("headers", options.get("header", "false")).lower() == "true",
            _positions(name, options.get("columns"), declared),
            options.get("rfc4180", "false").lower() == "true",
            declared,
            ours,
            texts_for,
            kept,
        )

    return with_row_ids(loaded, ours, declared, path)


def _positions(name: str, text: str | None, declared: Declared) -> list[int] | None:
    """`columns="0:2"`: which column of the file each column of the relation is."""
    if not text:
        return None
    parts = text.split(":")
    if not all(part.strip().isdecimal() for part in parts) or len(parts) != len(declared.types):
        raise UsageError(
            f"{name}: columns={text!r} does not name {len(declared.types)} columns of the file",
            hint='columns="0:2" takes the first and the third, counted from 0',
        )
    return [int(part) for part in parts]


def _verbatim(
    path: str,
    delimiter: str | None,
    header: bool,
    positions: list[int] | None,
    quoted: bool,
    declared: Declared,
    options: LoadOptions = PLAIN,
    texts_for: TextsFor = TextSet,
    kept: Kept = None,
) -> Table:
    """A text as Soufflé reads it; R.csv has commas only where no line holds a tab."""
    plain = positions is None and not options.mends
    found = _cut(path, delimiter, header, quoted, declared, texts_for, kept) if plain else None
    if found is not None:
        return found
    data = read_bytes(path).removeprefix(MARK)
    several = len(declared.types) > 1 or positions is not None
    delimiter = delimiter or _delimiter(path, quoted, several, [data])
    raw = raw_of_text(
        path,
        data,
        delimiter=delimiter,
        quoted=quoted,
        declared=declared,
        # By position, whatever the header says: its names may even be all the same.
        options=replace(options, header=header, columns=declared.columns),
        picked=positions,
    )
    return _typed(replace(raw, names=None), options, declared, path)


def _delimiter(path: str, quoted: bool, several: bool, pieces: Iterable[bytes]) -> str:
    is_csv = quoted or format_of(path, "facts") == "csv"
    return "," if is_csv and several and not any(b"\t" in piece for piece in pieces) else "\t"


def _cut(
    path: str,
    delimiter: str | None,
    header: bool,
    quoted: bool,
    declared: Declared,
    texts_for: TextsFor,
    kept: Kept,
) -> Table | None:
    """The same of a plain text that is as it should be, in one pass; without the texts of columns
    that are not `kept`."""
    if path.lower().endswith(PACKED) or not os.path.isfile(path):
        return None
    several = len(declared.types) > 1
    try:
        with open(path, "rb", buffering=0) as file:
            pieces = iter(partial(file.read, PIECE), b"")
            delimiter = check_delimiter(delimiter or _delimiter(path, quoted, several, pieces))
            file.seek(0)
            head = file.read(_HEAD)
            start = len(MARK) if head.startswith(MARK) else 0
            if header:
                end = head.find(b"\n", start)
                names = head[start:end].removesuffix(b"\r")
                odd = b"\r" in names or (quoted and b'"' in names)
                wide = names.count(delimiter.encode()) + 1 == len(declared.types)
                if end < 0 or not names or odd or not wide:
                    return None
                start = end + 1
            if head.startswith(UTF16):
                return None
            length = os.fstat(file.fileno()).st_size - file.seek(start)
            work = watching().innermost
            if work.stage == "loading" and not work.several:
                work.total, work.unit = length, "bytes"
            blank = declared.types == ("symbol",) and not quoted
            # Other values are looked at all the same: one that is none of its type is an error.
            wanted = [
                at
                for at, kind in enumerate(declared.types)
                if kind != "symbol" or kept is None or at in kept
            ]
            types = tuple(t if at in wanted else None for at, t in enumerate(declared.types))
            layout = Layout(delimiter, types, quoted, blank)
            found = cut_columns(file, length, layout, texts_for)
    except TimeLimitError:
        raise
    except OSError:  # who reads it says what is wrong
        return None
    if found is None:
        return None
    names, kinds = ([part[at] for at in wanted] for part in (declared.columns, declared.types))
    table = Table(tuple(names), tuple(kinds), *found)  # type: ignore[arg-type]
    return table if kept is None else table.only([wanted.index(at) for at in kept])


# ---------------------------------------------------------------- bytes


def format_of(name: str, default: str | None = None) -> str:
    """The format that a file's name tells."""
    plain = name
    for ending in PACKED:
        if plain.lower().endswith(ending):
            plain = plain[: -len(ending)]
    found = FORMATS.get(os.path.splitext(plain)[1].lower(), default)
    if found is None:
        known = " ".join(FORMATS)
        raise UsageError(
            f"{name}: the name does not tell the format",
            hint=f"known are {known}, each also as .gz or .zst; or say format=...",
        )
    return found


def read_bytes(name: str) -> bytes:
    """All of a file, unpacked."""
    with _told_of(name):
        _has_bytes(os.stat(name).st_size)  # 0 of a pipe, whose end nobody knows
        with watching().innermost.within(*READING):
            data = _read(name)
    try:
        if name.lower().endswith(".gz"):
            return gzip.decompress(data)
        if name.lower().endswith(".zst"):
            return _unpacked_zst(data)
    except (OSError, EOFError, zlib.error, MemoryError, ValueError) as error:
        raise damaged(name, error) from error
    return data


def _has_bytes(size: int) -> None:
    """Tells how large the file is that is read."""
    work = watching().innermost
    if work.stage == "loading" and size and not work.several:
        work.total, work.unit = size, "bytes"


@contextmanager
def _told_of(name: str) -> Iterator[None]:
    """Within, what stops a file from being read names it."""
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
    """What a file holds; it may be longer than it says, or be no file but a pipe."""
    work = watching().innermost
    with open(name, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size <= PIECE:
            return file.readall()
        parts = []
        while part := file.read(PIECE):
            parts.append(part)
            work.share(len(parts) * PIECE / size)
            watching().poll()
    return b"".join(parts)


def _unpacked_zst(data: bytes) -> bytes:
    import pyarrow as pa

    if not data:
        raise EOFError("the file is empty")
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        found: bytes = stream.read()
    return found


def _missing(name: str) -> DataError:
    what = "file" if os.path.splitext(name)[1] else "file or folder"
    return DataError(f"{name}: there is no such {what}", hint=_similar(name.rstrip("/")))


def _similar(name: str) -> str | None:
    """A hint: files with a like name in the same folder, or that the folder is not there."""
    folder, base = os.path.split(name)
    try:
        there = os.listdir(folder or ".")
    except (OSError, ValueError):
        return f"there is no folder {folder!r} either"
    # By the part before the dot: all facts files end alike.
    stems = {file.split(".")[0]: file for file in sorted(there, reverse=True)}
    close = difflib.get_close_matches(base.split(".")[0], stems, n=1, cutoff=0.6)
    return f"did you mean {os.path.join(folder, stems[close[0]])!r}?" if close else None


# ---------------------------------------------------------------- Arrow


def _arrow(name: str, data: bytes) -> Any:
    import pyarrow as pa

    try:
        is_file = data.startswith(b"ARROW1")
        open_it = pa.ipc.open_file if is_file else pa.ipc.open_stream
        table = open_it(pa.py_buffer(data)).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
        raise damaged(name, error) from error
    return table
