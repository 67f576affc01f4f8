"""Writes answers to a terminal, a pipe or a file."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, TextIO

from gdatalog.engine.facts.files import placed
from gdatalog.parser.syntax import Directive
from gdatalog.present import box_lines, text_rows
from gdatalog.relations import limited
from gdatalog.result import Result
from gdatalog.storage.as_text import begun, facts_text, quoted, table_text
from gdatalog.storage.load_options import check_delimiter, delimiter_of, flag_of
from gdatalog.terminal_text import visible, visible_lines

if TYPE_CHECKING:
    from gdatalog.report import Shown

FEWEST_ROWS, MANY_ROWS = 4, 20  # bounds for an answer that does not fit the terminal
AROUND = 9  # lines of a terminal for the box, the prompts and the bottom bar


class Output:
    """Formats and writes answers.

    On a terminal an answer is a box with its first and last rows; elsewhere all rows are written,
    tab-separated with a header, unless a format was chosen. The terminal is measured for each
    answer.

    Control characters are escaped on a terminal, in every format. Files and pipes get them as the
    format writes them.

    In JSON, several answers of one program form one `document`: an array of objects, each with the
    `name` of a relation or query and its `rows` (or whether it `holds`, or its `size`).
    """

    def __init__(self, stream: TextIO, format: str | None = None, *, spaced: bool = True) -> None:
        self.stream = stream
        self.given = format is not None
        self.format = format or ("box" if stream.isatty() else "tsv")
        self.max_rows: int | None = None  # of a box; None: as many as fit, in a file all
        self.limit: int | None = None  # maximum rows per answer
        self.timed = False  # whether a box shows the time of its answer
        self.spaced = spaced  # a blank line between answers
        self._last = ""  # kind of the last output: "", "answer" or "listing"
        self._array: str | None = None  # separator before the next element of a JSON array

    @contextmanager
    def document(self, answers: int) -> Iterator[None]:
        """Encloses a program's answers: in JSON, several become one array."""
        if self.format != "json" or answers < 2:
            yield
            return
        self._array = "[\n"
        yield
        self._write(["[]\n" if self._array == "[\n" else "\n]\n"])
        self._array = None

    def answer(self, name: str, result: Result, took: str | None = None) -> None:
        """Writes the answer of a query in the chosen format. `took`: its time."""
        result = limited(result, self.limit)
        if self._array is not None:
            self._element(name, "rows" if result.columns else "holds", self._pieces(result))
            return
        self._begin("answer")
        self._write(self._pieces(result, took))

    def relation(self, name: str, result: Result, directive: Directive) -> None:
        """Writes an `.output` to stdout: framed as in Soufflé, unless a format was chosen."""
        result = limited(result, self.limit)
        if self._array is not None:
            self.answer(name, result)
        elif self.given or self.format == "box":
            self._begin("answer")
            titled = self.format in ("box", "markdown")
            self._write(chain([f"{name}\n"] * titled, self._pieces(result)))
        else:
            self._begin("listing")
            options = dict(directive.options)
            tables = _sorted(result).tables()
            with placed(directive):
                header, delimiter = flag_of(options, "headers", "header"), delimiter_of(options)
                null = options.get("null")
                if flag_of(options, "rfc4180"):
                    delimiter = check_delimiter(delimiter or ",")
                    pieces = quoted(tables, delimiter, False, null or "")
                else:
                    delimiter = delimiter or "\t"
                    pieces = facts_text(tables, name, delimiter=delimiter, null=null)
            # The first piece is computed before the frame is written: an error leaves none open.
            rows = begun(pieces)
            names = "\n" + delimiter.join(result.columns) if header else ""
            frame = f"---------------\n{name}{names}\n===============\n"
            self._write(chain([frame], rows, ["===============\n"]))

    def size(self, name: str, count: int) -> None:
        """Writes a `.printsize`."""
        if self._array is not None:
            self._element(name, "size", [str(count)])
            return
        self._begin("listing")
        if self.format in ("json", "jsonl"):
            self._write([f'{{"name": {json.dumps(name, ensure_ascii=False)}, "size": {count}}}\n'])
        else:
            self._write([f"{name}\t{count}\n"])

    def plan(self, plan: Shown, form: str | None = None) -> None:
        """Writes a plan or a profile: as text that fits the terminal, or in the given format."""
        if form is not None:
            self._begin("answer")
            self._write([plan.render(form), "\n"])
        elif self.stream.isatty():
            self.text(plan.to_text(shutil.get_terminal_size().columns))
        else:
            self.text(str(plan))

    def text(self, text: str) -> None:
        """Writes other text, such as help."""
        self._begin("answer")
        self._write([visible_lines(text), "\n"])

    def _element(self, name: str, key: str, pieces: Iterable[str]) -> None:
        """Writes one element of a JSON array. An error in its first piece writes nothing."""
        value = iter(pieces)
        before = next(value)
        title = f'{{"name": {json.dumps(name, ensure_ascii=False)}, "{key}": '
        self._write([self._array or "", title])
        self._array = ",\n"
        for piece in value:
            self._write([before])
            before = piece
        self._write([before.rstrip("\n"), "}"])

    def _write(self, pieces: Iterable[str]) -> None:
        for piece in pieces:
            self.stream.write(visible_lines(piece) if self.stream.isatty() else piece)
        self.stream.flush()

    def _begin(self, kind: str) -> None:
        if self.spaced and self._last and "answer" in (kind, self._last):
            self.stream.write("\n")
        self._last = kind

    def _pieces(self, result: Result, took: str | None = None) -> Iterator[str]:
        if self.format == "box":
            yield from self._box(result, took if self.timed else None)
        elif not result.columns:
            words = ("true", "false") if self.format in ("json", "jsonl") else ("yes", "no")
            yield words[0 if result else 1] + "\n"
        elif self.format == "markdown":
            yield from _markdown(_sorted(result))
        else:
            yield from table_text(_sorted(result).tables(), self.format)

    def _box(self, result: Result, took: str | None) -> Iterator[str]:
        columns, rows = sys.maxsize, len(result)
        if self.stream.isatty():
            columns, lines = shutil.get_terminal_size()
            fits = max(lines - AROUND, FEWEST_ROWS)
            rows = rows if rows <= fits else min(fits, MANY_ROWS)
        most = rows if self.max_rows is None else self.max_rows
        return (f"{line}\n" for line in box_lines(_sorted(result), most, columns, took))


def _sorted(result: Result) -> Result:
    """Sorts symbols by value, for text output, unless a query has ordered the rows. Other types are
    in the order of values already."""
    return result.sorted() if "symbol" in result.dtypes and not result.ordered else result


def _markdown(result: Result) -> Iterator[str]:
    def line(texts: tuple[str, ...] | list[str]) -> str:
        safe = (text.replace("\\", "\\\\").replace("|", "\\|") for text in texts)
        return "| " + " | ".join(visible(" ".join(text.splitlines())) for text in safe) + " |\n"

    yield line(result.columns)
    yield "|" + "|".join("--:" if k in ("int", "float") else "---" for k in result.dtypes) + "|\n"
    yield from map(line, text_rows(result))
