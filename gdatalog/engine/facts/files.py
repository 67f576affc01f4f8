"""The files of a program: which it may read and write, and the paths of `.input`, `.output` and
`.include`.

The positional form and `.include` resolve paths relative to the file that holds the directive; the
bare and keyword forms relative to the facts and output folders.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from gdatalog.cancellation import current_watch
from gdatalog.engine.catalog.folders import Folders
from gdatalog.errors import (
    Caution,
    DataError,
    Error,
    Interrupted,
    Note,
    Span,
    TimeLimitError,
    UsageError,
    meant,
)
from gdatalog.parser import Program, parse_with_cautions
from gdatalog.parser.syntax import Directive
from gdatalog.planner.check import Schema
from gdatalog.records import replace
from gdatalog.storage.load_options import (
    TEXT_OPTIONS,
    Findings,
    KeptPipes,
    broken_link,
    delimiter_of,
    options_of_text,
)
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Table

# The files that programs may read and write: "all", "read", "none", or those in a folder.
Files = str | os.PathLike[str]


def readable(path: str, files: Files, span: Span | None = None) -> str:
    """Returns the path if a program may read it."""
    return _allowed(path, files, span, "read", files in ("all", "read"))


def all_readable(path: str, files: Files, span: Span | None = None) -> str:
    """Like `readable`, for a path that may stand for several files: checks each of them."""
    from gdatalog.storage.file_sets import files_of, is_set

    readable(path, files, span)
    if files not in ("all", "read") and is_set(path):
        for file in files_of(path):
            readable(file.path, files, span)
    return path


def writable(path: str, files: Files, span: Span | None = None) -> str:
    """Returns the path if a program may write it."""
    return _allowed(path, files, span, "write", files == "all")


def _allowed(path: str, files: Files, span: Span | None, what: str, allowed: bool) -> str:
    try:
        possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:  # a lone surrogate
        possible = False
    if not possible:
        raise DataError(f"cannot {what} {path!r}: no file can have such a path", span)
    if allowed:
        return path
    if files in ("read", "none"):
        raise UsageError(
            f"this database may not {what} files, so not {path!r}",
            span,
            hint=f'it was opened with files="{files}"',
        )
    folder = os.path.realpath(files)
    inside = os.path.realpath(path)
    if os.path.commonpath([folder, inside]) != folder:
        raise UsageError(
            f"this database may {what} files in {os.fspath(files)!r} only, so not {path!r}", span
        )
    return path


def beside(span: Span, path: str) -> str:
    """Resolves a path relative to the file that holds the directive."""
    return os.path.normpath(os.path.join(os.path.dirname(span.source.name), path))


def read_program(
    path: str, files: Files, warn: Callable[[Caution], None], span: Span | None = None
) -> Program:
    """Parses a file; its errors name the file as `path`."""
    program, cautions = parse_with_cautions(read_text(path, files, span), path, stored=True)
    for caution in cautions:
        warn(caution)
    return program


def read_text(path: str, files: Files, span: Span | None = None) -> str:
    """Reads a program's file; the call can be stopped meanwhile, on a slow disk or at a pipe."""
    readable(path, files, span)

    def read() -> str:
        try:
            with open(path, encoding="utf-8-sig", newline="") as file:
                return file.read()
        except (OSError, UnicodeDecodeError, ValueError) as problem:
            why, hint = getattr(problem, "strerror", None) or "it is not UTF-8 text", None
            if isinstance(problem, FileNotFoundError):
                broken = broken_link(path)
                why, hint = (broken, None) if broken else (why, _near(path))
            raise DataError(f"cannot read {path!r}: {why}", span, hint=hint) from None

    return current_watch().aside(read).replace("\r\n", "\n")


def _near(path: str) -> str | None:
    try:
        names = os.listdir(os.path.dirname(path) or ".")
    except (OSError, ValueError):
        return None
    close = meant(os.path.basename(path), names)
    return f"did you mean {os.path.join(os.path.dirname(path), close)!r}?" if close else None


def find_include(path: str, span: Span, folders: Folders) -> str:
    """The file of an `.include`: relative to its own file, otherwise in an include folder."""
    near = beside(span, path)
    if os.path.exists(near):
        return near
    for folder in folders.include:
        if os.path.exists(os.path.join(folder, path)):
            return os.path.join(folder, path)
    return near


def locate(directive: Directive, name: str, files: Files, folders: Folders) -> str:
    """The file of an `.input`."""
    from gdatalog.storage.facts_files import find_facts

    options = dict(directive.options)
    given = options.get("filename", options.get("name"))
    if directive.path is not None:
        path = beside(directive.span, directive.path)
    elif given:
        path = os.path.normpath(os.path.join(folders.facts, given))
    else:
        readable(os.path.join(folders.facts, name), files, directive.span)
        path = find_facts(name, folders.facts)
    return all_readable(path, files, directive.span)


def read_relation(
    directive: Directive,
    name: str,
    path: str,
    schema: Schema | None,
    folders: Folders,
    findings: Findings,
    symbols: SymbolTable,
    kept: Sequence[int] | None = None,
    pipes: KeptPipes | None = None,
) -> Iterator[Table]:
    """Reads the file of an `.input` in batches: all columns, or those in `kept`. Texts of large
    files go directly to the symbol table. `pipes`: keeps the content of pipes."""
    from gdatalog.storage.facts_files import read_facts, read_input
    from gdatalog.storage.readers import read_tables

    given = dict(directive.options)
    if directive.path is not None:
        ours = {key: value for key, value in given.items() if key in TEXT_OPTIONS}
        options = replace(options_of_text(ours, findings), declared=schema, pipes=pipes)
        return read_tables(path, options, delimiter_of(given))
    assert schema is not None
    how = symbols.as_set, kept, pipes
    if given:
        tables = read_input(name, given, folders.facts, schema, findings, *how)
    else:
        tables = read_facts(name, folders.facts, schema, *how)
    return (t if kept is None or len(t.types) == len(kept) else t.only(kept) for t in tables)


@contextmanager
def placed(directive: Directive) -> Iterator[None]:
    """A context in which errors of files get the directive's place, or a note with it."""
    try:
        yield
    except (Interrupted, TimeLimitError):
        raise  # not an error of the file
    except Error as error:
        if error.span is None:
            error.span = directive.span
        elif error.span.source is not directive.span.source:
            what = "read" if directive.kind == "input" else "written"
            error.notes = (*error.notes, Note(f"the file is {what} here", directive.span))
        raise
