"""Writes the relations of `.output`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Protocol

from gdatalog.engine.catalog.folders import Folders
from gdatalog.engine.facts.files import Files, beside, placed, writable
from gdatalog.errors import UsageError
from gdatalog.parser.syntax import Directive
from gdatalog.records import dataclass
from gdatalog.storage.load_options import delimiter_of, flag_of
from gdatalog.storage.table import Table


class Answer(Protocol):
    """The interface of rows to write, wherever they are stored."""

    def __len__(self) -> int: ...

    def tables(self) -> Iterator[Table]: ...

    def to_parquet(self, path: str) -> None: ...


def write_answer(
    answer: Answer,
    path: str,
    delimiter: str | None = None,
    header: bool | None = None,
    null: str | None = None,
) -> None:
    """Writes rows to a file in the format of its ending, or to a folder of Parquet files if the
    path ends with a slash. `delimiter`, `header`, `null`: of text files."""
    from gdatalog.storage.file_bytes import format_of
    from gdatalog.storage.parquet_folder import names_a_folder
    from gdatalog.storage.writers import write_tables

    plain = (delimiter, header, null) == (None, None, None)
    if plain and (
        names_a_folder(path)
        or (format_of(path) == "parquet" and path.endswith((".parquet", ".pq")))
    ):
        answer.to_parquet(path)
    else:
        form = "parquet" if names_a_folder(path) else None
        how: dict[str, Any] = {"format": form, "delimiter": delimiter, "header": header}
        write_tables(answer.tables(), len(answer), path, **how, null=null)


@dataclass(frozen=True, slots=True)
class Written:
    """The path that was written, and the `folder` that was created for it."""

    path: str
    folder: str | None

    @staticmethod
    def at(path: str) -> Written:
        """Describes a path before it is written."""
        folder = os.path.dirname(path.rstrip("/")) or "."
        return Written(path, None if os.path.isdir(folder) else folder)

    def __str__(self) -> str:
        return self.path if self.folder is None else f"{self.path} (new folder {self.folder})"


def write_relation(
    directive: Directive, name: str, answer: Answer, files: Files, folders: Folders
) -> Written:
    """Writes the file of an `.output`; returns its path."""
    from gdatalog.storage.writers import write_tables

    with placed(directive):
        options = dict(directive.options)
        delimiter, header = delimiter_of(options), flag_of(options, "headers", "header")
        null = options.get("null")
        kind = options.get("IO", "file")
        if kind != "file":
            raise UsageError(
                f"{name}: cannot write to IO={kind}",
                hint="IO=file writes a file, IO=stdout to the terminal",
            )
        if directive.path is not None:
            slash = "/" if directive.path.endswith("/") else ""
            path = beside(directive.span, directive.path) + slash
            writable(path, files, directive.span)
            written = Written.at(path)
            write_answer(answer, path, delimiter, header, null)
            return written
        given = options.get("filename", options.get("name"))
        path = os.path.normpath(os.path.join(folders.out, given or f"{name}.csv"))
        writable(path, files, directive.span)
        form = "csv" if flag_of(options, "rfc4180") else "facts"
        written = Written.at(path)
        how: dict[str, Any] = {"format": form, "delimiter": delimiter, "header": bool(header)}
        write_tables(answer.tables(), len(answer), path, **how, null=null)
        return written


def to_stdout(directive: Directive) -> bool:
    return dict(directive.options).get("IO") == "stdout"


def destination(directive: Directive) -> tuple[str | None, frozenset[tuple[str, str]]]:
    """Where an `.output` goes, and how: the same for directives that do the same."""
    path = None if directive.path is None else beside(directive.span, directive.path)
    return path, frozenset(directive.options)
