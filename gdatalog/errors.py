"""The errors that gdatalog raises, and the places in the source that they point at.

    Error
    +-- ParseError            the text is not a program
    +-- NameResolutionError   a relation, column, function or parameter that is not there
    +-- TypeMismatchError     two places that disagree on a type, or an arity
    +-- SafetyError           a variable that nothing binds
    +-- StratificationError   negation or aggregation inside a cycle
    +-- DataError             data that is not what was declared; a file that cannot be read
    +-- EvaluationError       division by zero, overflow, NaN, a cycle that improves for ever
    +-- DeviceError           a device or a cluster that is not there, or fails
    +-- MemoryLimitError      (also a MemoryError) the memory limit was met
    +-- TimeLimitError        (also a TimeoutError) a call took longer than its timeout
    +-- RowLimitError         an answer has more rows than max_rows
    +-- UsageError            an option or argument that makes no sense
    +-- Interrupted           db.interrupt() was called

gdatalog reports all errors of a program together: it raises the first one, which has the rest in
`others` and prints the first ten, in the order of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from linecache import getline
from operator import index
from os.path import basename
from types import TracebackType
from typing import TYPE_CHECKING, Any

from gdatalog.records import cached_property, dataclass, field
from gdatalog.terminal_text import brief, visible, visible_lines, width

MOST_SHOWN = 10  # errors that are printed
LONGEST = 1000  # characters of a message
_OWN = __name__.partition(".")[0]
NOTEBOOK = 10  # lines that a notebook shows of an error in its Python code


@dataclass(frozen=True)
class SourceText:
    """A text with a name: a file's path, or `<query>`.

    For a data file, the text is only the excerpt around an error; its first line is `first`.
    """

    name: str
    text: str = field(repr=False)
    first: int = 1

    @cached_property
    def line_starts(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer("\n", self.text))]

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both counted from 1."""
        line = bisect_right(self.line_starts, offset)
        return self.first + line - 1, offset - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line, counted from `first`, without its line break."""
        start = self.line_starts[number - self.first]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a source: offsets `start` to `end`, the end excluded."""

    source: SourceText = field(repr=False)
    start: int
    end: int

    @property
    def line(self) -> int:
        return self.source.place(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.place(self.start)[1]

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        """From the start of this span to the end of the other."""
        return Span(self.source, self.start, other.end)

    def where(self) -> str:
        return f"{visible(brief(self.source.name))}:{self.line}:{self.column}"

    def excerpt(self) -> str:
        """The line with carets below the span (its first line, if it has several)."""
        line, column = self.source.place(self.start)
        full, start = self.source.line(line), column - 1
        end = max(start, min(start + self.end - self.start, len(full)))
        # A very long line shows the stretch around the span only.
        lead = 0
        if len(full) > 160:
            lead = max(0, start - 60)
            full = full[lead : lead + 120]
        before, marked = full[: start - lead], full[start - lead : end - lead]
        after = full[end - lead :]
        shown = "".join(map(visible_lines, (before, marked, after)))
        # Tabs stay, because their width depends on the terminal.
        pad = "\t".join(" " * width(visible(part)) for part in before.split("\t"))
        carets = "^" * max(1, width(visible(marked.expandtabs(1))))
        gutter = str(line)
        blank = " " * len(gutter)
        return f" {gutter} | {shown}\n {blank} | {pad}{carets}"


NOWHERE = Span(SourceText("<none>", ""), 0, 0)


def _short(message: str) -> str:
    """A message without the middle of long names, nor its own if it is very long."""
    text = brief(message)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 300]} … {text[-280:]}"


@dataclass(frozen=True)
class Note:
    """A second place of an error, such as the other side of a disagreement."""

    message: str
    span: Span | None = None

    def format(self) -> str:
        if self.span is None or self.span.source == NOWHERE.source:
            return f"  note: {visible_lines(_short(self.message))}"
        message = visible_lines(_short(self.message))
        return f"  note: {self.span.where()}: {message}\n{self.span.excerpt()}"


class Error(Exception):
    """The base class of gdatalog's errors. It has a place (`span`), a `hint`, `notes`, and
    `others`. `profile`: the `Profile` of a call that a limit or `db.interrupt()` ended, or None."""

    kind = "error"
    profile: Any = None  # a module of errors cannot import `Profile`
    rendered = False  # whether a notebook has shown it

    def __init__(
        self,
        message: str,
        span: Span | None = None,
        *,
        hint: str | None = None,
        notes: Iterable[Note] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.span = None if span is not None and span.source == NOWHERE.source else span
        self.hint = hint
        self.notes = tuple(notes)
        self.others: tuple[Error, ...] = ()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles the error with all attributes, except for its profile."""
        attributes = {name: value for name, value in vars(self).items() if name != "profile"}
        return _same_error, (type(self), self.message, attributes)

    @property
    def all(self) -> tuple[Error, ...]:
        """This error, and the errors reported with it."""
        return (self, *self.others)

    def format(self) -> str:
        """Formats this error alone: place, message, the line with carets, notes and hint.

        Control characters are escaped here, and long names cut; `message` keeps them.
        """
        lines = [f"{self.kind}: {visible(_short(self.message))}"]
        if self.span is not None:
            lines = [f"{self.span.where()}: {lines[0]}", self.span.excerpt()]
        lines += [note.format() for note in self.notes]
        if self.hint:
            lines.append(f"  hint: {visible(_short(self.hint))}")
        return "\n".join(lines)

    def __str__(self) -> str:
        parts = [error.format() for error in self.all[:MOST_SHOWN]]
        more = len(self.all) - MOST_SHOWN
        if more > 0:
            parts.append(f"and {more:,} more error{'s' if more > 1 else ''}")
        return "\n\n".join(parts)

    if not TYPE_CHECKING:  # which would take any attribute for granted

        def __getattr__(self, name: str) -> Any:
            """IPython shows an exception by its `_render_traceback_` if it has one. An error has
            one until that was called: `%tb` shows the traceback."""
            if name == "_render_traceback_" and not self.rendered:
                return self._in_a_notebook
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _in_a_notebook(self) -> list[str]:
        """The line that called gdatalog and the error, in few lines."""
        self.rendered = True
        lines = [*_calling_line(self.__traceback__), *str(self).splitlines()]
        more = len(lines) - NOTEBOOK + 1
        if more < 2:
            return lines
        first = NOTEBOOK - 4
        return [*lines[:first], f"  … {more} more lines: %tb shows them", *lines[first + more :]]


def _calling_line(found: TracebackType | None) -> list[str]:
    """The last line of a traceback before the calls of this package."""
    user = None
    while found is not None and str(found.tb_frame.f_globals.get("__name__")).split(".")[0] != _OWN:
        found, user = found.tb_next, found
    if user is None or found is None:
        return []
    code, number = user.tb_frame.f_code, user.tb_lineno
    here = user.tb_frame.f_globals.get("__name__") == "__main__"
    place = f"{'' if here else basename(code.co_filename) + ', '}line {number}"
    place += "" if code.co_name == "<module>" else f" in {code.co_name}"
    text = getline(code.co_filename, number, user.tb_frame.f_globals).strip()
    return [visible(f"{place}: {text if len(text) <= 100 else text[:99] + '…'}")]


def _same_error(kind: type[Error], message: str, attributes: dict[str, object]) -> Error:
    error = kind(message)
    error.__dict__.update(attributes)
    return error


class ParseError(Error):
    """The text cannot be parsed."""

    kind = "syntax error"


class NameResolutionError(Error):
    """There is no such relation, column, function or parameter."""

    kind = "name error"


class TypeMismatchError(Error):
    """Two types, or two numbers of columns, disagree."""

    kind = "type error"


class SafetyError(Error):
    """A variable is not bound."""

    kind = "unsafe rule"


class StratificationError(Error):
    """There is a negation or an aggregate in a cycle."""

    kind = "not stratified"


class DataError(Error):
    """Data cannot be read or does not fit; with file, line and column."""

    kind = "data error"


class EvaluationError(Error):
    """A value cannot be computed: a division by zero, a sum beyond 64 bits, an endless `min`."""

    kind = "evaluation error"


class DeviceError(Error):
    """A requested GPU cannot be used; the error says how to fix that."""

    kind = "device error"


class MemoryLimitError(Error, MemoryError):
    """A query needs more memory than it may use; the error says what was largest."""

    kind = "memory limit"


class TimeLimitError(Error, TimeoutError):
    """A call took longer than its `timeout`; the error says what it was doing."""

    kind = "time limit"


class RowLimitError(Error):
    """An answer has more rows than `max_rows`."""

    kind = "row limit"


class UsageError(Error):
    """The arguments of a call are wrong."""

    kind = "usage error"


class Interrupted(Error):
    """`db.interrupt()` ended the call."""

    kind = "interrupted"


@dataclass(frozen=True)
class Caution:
    """A warning about a valid program that probably means something else."""

    message: str
    span: Span | None = None
    hint: str | None = None
    cause: str = ""  # cautions with the same cause are reported once per text

    def format(self) -> str:
        error = Error(self.message, self.span, hint=self.hint)
        error.kind = "warning"
        return error.format()


def meant(name: str, known: Iterable[str]) -> str | None:
    """The known name that the user probably meant: it differs in case, or in a letter or two.

    >>> meant("Edge", ["edge", "path"]), meant("levelwize", ["lftj", "levelwise"])
    ('edge', 'levelwise')
    """
    from difflib import get_close_matches

    names = [other for other in known if other != name]
    by_case = {other.lower(): other for other in names}
    if name.lower() in by_case:
        return by_case[name.lower()]
    found = get_close_matches(name, names, n=1, cutoff=0.6)
    return found[0] if found else None


def check_rows(what: str, given: object) -> None:
    """Checks a number of rows; None is no limit."""
    if given is None:
        return
    try:
        count = index(given)  # type: ignore[arg-type]  # what has no index is an error
    except TypeError:
        raise UsageError(f"{what} is a number of rows, not {given!r}") from None
    if count < 0:
        raise UsageError(f"{what} cannot be negative: {given}")


def raise_together(errors: Sequence[Error]) -> None:
    """Raise the first of `errors` (in source order) with the rest attached; nothing if none."""
    if not errors:
        return
    spans = [error.span for error in errors if error.span is not None]
    # Sources, numbered by their first error.
    sources = {id(span.source): at for at, span in reversed(list(enumerate(spans)))}

    def place(error: Error) -> tuple[int, int]:
        span = error.span
        return (len(spans), 0) if span is None else (sources[id(span.source)], span.start)

    ordered = sorted(errors, key=place)
    first = ordered[0]
    first.others = tuple(ordered[1:])
    raise first
