"""Answers on their way to a terminal, a pipe or a file."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, TextIO

from gdatalog.parser.syntax import Directive
from gdatalog.present import box_lines, text_rows
from gdatalog.result import Result
from gdatalog.storage.as_text import begun, facts_text, table_text
from gdatalog.values import visible, visible_lines

if TYPE_CHECKING:
    from gdatalog.report.shown import Shown

FEWEST_ROWS, MANY_ROWS = 4, 20  # of an answer that does not fit the terminal
AROUND = 9  # lines of a terminal that are not rows: the box, the prompts around it, a bar below


class Output:
    """Where answers go, and how they look there.

    On a terminal an answer is a box with its first and last rows; elsewhere it is whole, with a
    header and tabs, unless a format was asked for. A terminal is measured for each answer.

    What goes to a terminal is to be seen, whatever the format: control characters are escaped
    there. In a file or a pipe they stay, as the format has them.

    Several answers of one program are one `document` in JSON: an array of objects, each with the
    `name` of a relation or query and its `rows` (or whether it `holds`, or its `size`).
    """

    def __init__(self, stream: TextIO, format: str | None = None, *, spaced: bool = True) -> None:
        self.stream = stream
        self.given = format is not None
        self.format = format or ("box" if stream.isatty() else "tsv")
        self.max_rows: int | None = None  # of a box; None: as many as fit, and all into a file
        self.limit: int | None = None  # rows that an answer has at the most
        self.timed = False  # whether a box tells how long its answer took
        self.spaced = spaced  # a blank line between answers
        self._last = ""  # what was written last: nothing, an "answer", or a "listing"
        self._array: str | None = None  # what stands before the next element of a JSON array

    @contextmanager
    def document(self, answers: int) -> Iterator[None]:
        """Within, a program gives so many answers: in JSON several of them are one array."""
        if self.format != "json" or answers < 2:
            yield
            return
        self._array = "[\n"
        yield
        self._write(["[]\n" if self._array == "[\n" else "\n]\n"])
        self._array = None

    def answer(self, name: str, result: Result, took: str | None = None) -> None:
        """An answer to a query, in the format that was chosen; `took`: how long."""
        result = self._limited(result)
        if self._array is not None:
            self._element(name, "rows" if result.columns else "holds", self._pieces(result))
            return
        self._begin("answer")
        self._write(self._pieces(result, took))

    def relation(self, name: str, result: Result, directive: Directive) -> None:
        """An `.output` to stdout: framed as Soufflé does, unless a format was chosen."""
        result = self._limited(result)
        if self._array is not None:
            self.answer(name, result)
        elif self.given or self.format == "box":
            self._begin("answer")
            titled = self.format in ("box", "markdown")
            self._write(chain([f"{name}\n"] * titled, self._pieces(result)))
        else:
            self._begin("listing")
            options = dict(directive.options)
            header = options.get("headers", "false").lower() == "true"
            delimiter = options.get("delimiter", "\t").replace("\\t", "\t")
            # The first piece is made before the frame: an error leaves no open frame behind.
            rows = begun(facts_text(_sorted(result).tables(), name, delimiter=delimiter))
            names = "\n" + delimiter.join(result.columns) if header else ""
            frame = f"---------------\n{name}{names}\n===============\n"
            self._write(chain([frame], rows, ["===============\n"]))

    def size(self, name: str, count: int) -> None:
        """A `.printsize`."""
        if self._array is not None:
            self._element(name, "size", [str(count)])
            return
        self._begin("listing")
        if self.format in ("json", "jsonl"):
            self._write([f'{{"name": {json.dumps(name, ensure_ascii=False)}, "size": {count}}}\n'])
        else:
            self._write([f"{name}\t{count}\n"])

    def plan(self, plan: Shown, form: str | None = None) -> None:
        """An explanation or a profile: as a text that fits the terminal, or in a form."""
        if form is not None:
            self._begin("answer")
            self._write([plan.render(form), "\n"])
        elif self.stream.isatty():
            self.text(plan.to_text(shutil.get_terminal_size().columns))
        else:
            self.text(str(plan))

    def text(self, text: str) -> None:
        """What was asked for and is no answer: an explanation, help."""
        self._begin("answer")
        self._write([visible_lines(text), "\n"])

    def _element(self, name: str, key: str, pieces: Iterable[str]) -> None:
        """One answer of several, in JSON. An error in its first piece leaves nothing behind."""
        value = iter(pieces)
        before = next(value)
        title = f'{{"name": {json.dumps(name, ensure_ascii=False)}, "{key}": '
        self._write([self._array or "", title])
        self._array = ",\n"
        for piece in value:
            self._write([before])
            before = piece
        self._write([before.rstrip("\n"), "}"])

    def _limited(self, result: Result) -> Result:
        """At the most so many rows; whether a proposition holds is no matter of rows."""
        return result.head(self.limit) if self.limit is not None and result.columns else result

    def _write(self, pieces: Iterable[str]) -> None:
        """Writes what was begun."""
        for piece in pieces:
            self.stream.write(visible_lines(piece) if self.stream.isatty() else piece)
        self.stream.flush()

    def _begin(self, kind: str) -> None:
        if self.spaced and self._last and "answer" in (kind, self._last):
            self.stream.write("\n")
        self._last = kind

    def _pieces(self, result: Result, took: str | None = None) -> Iterator[str]:
        if self.format == "box":
            met = result.columns and len(result) == self.limit
            parts = [f"limit {self.limit:,}"] if met else []
            parts += [took] if self.timed and took is not None else []
            yield from self._box(result, ", ".join(parts) or None)
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
    """Rows are kept in the order of their keys; only for texts that is not the order of values."""
    return result.sorted() if "symbol" in result.dtypes else result


def _markdown(result: Result) -> Iterator[str]:
    def line(texts: tuple[str, ...] | list[str]) -> str:
        safe = (text.replace("\\", "\\\\").replace("|", "\\|") for text in texts)
        return "| " + " | ".join(visible(" ".join(text.splitlines())) for text in safe) + " |\n"

    yield line(result.columns)
    yield "|" + "|".join("--:" if k in ("int", "float") else "---" for k in result.dtypes) + "|\n"
    yield from map(line, text_rows(result))
