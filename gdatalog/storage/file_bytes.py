"""The bytes of a file, and its format."""

from __future__ import annotations

import difflib
import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from gdatalog.cancellation import current_watch
from gdatalog.errors import DataError, TimeLimitError, UsageError
from gdatalog.storage.data_files import damaged
from gdatalog.storage.delimited import READING
from gdatalog.storage.file_sets import PACKED
from gdatalog.storage.imported_later import pa
from gdatalog.storage.line_blocks import PIECE, report_size
from gdatalog.storage.load_options import KeptPipes, broken_link

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
    with file_errors(name):
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
def file_errors(name: str) -> Iterator[None]:
    """Within, errors of the operating system become errors that name the file."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise missing_file(name) from None
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


def missing_file(name: str) -> DataError:
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
