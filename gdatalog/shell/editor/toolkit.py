"""Highlighting, completion and history for prompt_toolkit, and the prompt's styles.

The scanner is imported at the first key, so that the prompt appears without it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer
from prompt_toolkit.completion import Completion as Choice
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.lexers import Lexer

from gdatalog.own_files import open_own
from gdatalog.shell.editor.known import KnownNames
from gdatalog.terminal_text import visible

if TYPE_CHECKING:
    from gdatalog.shell.editor.highlighting import Highlighter

# prompt_toolkit's style for each kind of stretch, in the terminal's own colours.
STYLES = {
    "comment": "ansibrightblack italic",
    "string": "ansigreen",
    "number": "ansicyan",
    "constant": "ansicyan",
    "variable": "",
    "wildcard": "ansibrightblack",
    "parameter": "ansibrightcyan",
    "relation": "ansibrightblue bold",
    "unknown": "ansiyellow",
    "function": "ansibrightcyan",
    "aggregate": "ansibrightmagenta bold",
    "keyword": "ansimagenta bold",
    "operator": "ansimagenta",
    "arrow": "ansimagenta bold",
    "punctuation": "",
    "directive": "ansibrightmagenta bold",
    "command": "ansibrightgreen bold",
    "argument": "",
    "type": "ansicyan",
    "column": "",
    "option": "ansibrightcyan",
    "wrong": "ansibrightred underline",
    "pair": "ansibrightyellow bold underline",
}

LOOK = {f"dl-{name}": style for name, style in STYLES.items()} | {
    "prompt": "bold",
    "goes-on": "ansibrightblack",
    "bottom-toolbar": "noreverse ansibrightblack",
    "bar-device": "noreverse ansigreen",
    "bar-busy": "noreverse ansiyellow",
    "bar-argument": "noreverse bold ansidefault",
    "bar-hint": "noreverse ansiyellow",
    "auto-suggestion": "ansibrightblack",
    "completion-menu": "noreverse",
    "completion-menu.completion": "bg:ansibrightblack ansiwhite",
    "completion-menu.completion.current": "bg:ansiblue ansiwhite bold noreverse",
    "completion-menu.meta.completion": "bg:ansibrightblack ansigray",
    "completion-menu.meta.completion.current": "bg:ansiblue ansigray noreverse",
}


class NameCompleter(Completer):
    def __init__(self, known: Callable[[], KnownNames]) -> None:
        self._known = known

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Choice]:
        from gdatalog.shell.editor.completion import complete

        cursor = document.cursor_position
        for found in complete(document.text, cursor, self._known()):
            yield Choice(
                found.text,
                found.start - cursor,
                display=visible(found.shown or found.text),
                display_meta=visible(found.about),
            )


class Colours(Lexer):
    """The lexer of the prompt. `reads`: the scanner is imported; `checks`: the grammar is
    loaded."""

    def __init__(self, known: Callable[[], KnownNames], buffer: Callable[[], Buffer]) -> None:
        self.reads = self.checks = False
        self._known = known
        self._buffer = buffer
        self._highlighter: Highlighter | None = None

    def invalidation_hash(self) -> Hashable:
        text = self._buffer().text
        return self._looking_at(text).state(self._cursor()) if text and self.reads else None

    def statement_before(self) -> str:
        """The current statement's text before the cursor."""
        buffer = self._buffer()
        if not buffer.text or not self.reads:
            return ""
        return self._looking_at(buffer.text).statement_before(buffer.cursor_position)

    def _looking_at(self, text: str) -> Highlighter:
        if self._highlighter is None:
            from gdatalog.shell.editor.highlighting import Highlighter

            self._highlighter = Highlighter()
        self._highlighter.known, self._highlighter.checks = self._known(), self.checks
        self._highlighter.look(text)
        return self._highlighter

    def _cursor(self) -> int:
        return -1 if get_app().is_done else self._buffer().cursor_position

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        text, cursor = document.text, self._cursor()

        def line(number: int) -> StyleAndTextTuples:
            if not 0 <= number < document.line_count:
                return []
            if not self.reads:
                return [("", document.lines[number])]
            looking = self._looking_at(text)  # it may have seen another text since
            at = document.translate_row_col_to_index(number, 0)
            end = at + len(document.lines[number])
            shown: StyleAndTextTuples = []
            for begins, ends, kind in looking.stretches(at, end, cursor):
                begins, ends = max(begins, at), min(ends, end)
                if begins > at:
                    shown.append(("", text[at:begins]))
                shown.append((f"class:dl-{kind}", text[begins:ends]))
                at = ends
            if at < end:
                shown.append(("", text[at:end]))
            return shown

        return line


# The history file: one entry per line, as JSON, the latest last.
#
# Concurrent sessions append to the same file. Duplicates and the oldest entries are removed when
# the file is loaded.

MOST_ENTRIES = 2000  # entries
LONGEST = 20_000  # characters of an entry; longer ones were pasted from a file


class KeptHistory(History):
    """A persistent history for prompt_toolkit. `trouble`: the error if it cannot be kept."""

    def __init__(self, path: Path | None = None) -> None:
        super().__init__()
        self.trouble = ""
        self._path = path

    def load_history_strings(self) -> Iterator[str]:
        """The entries, the latest first."""
        try:
            if self._path is None:
                self._path = state_folder() / "history"
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(self._path) as file:
                entries = _entries(file.read())
                kept = list(dict.fromkeys(reversed(entries)))[:MOST_ENTRIES]
                if len(entries) > 2 * MOST_ENTRIES:
                    file.seek(0)
                    file.write(b"".join(map(_line, reversed(kept))))
                    file.truncate()
        except OSError as problem:
            self._fail(problem)
            return iter(())
        # Entries typed before the file was loaded are the latest.
        return iter(list(dict.fromkeys([*self._loaded_strings, *kept])))

    def append_string(self, string: str) -> None:
        string = string.strip()
        if string in self._loaded_strings:
            self._loaded_strings.remove(string)
        if string:
            super().append_string(string)

    def store_string(self, string: str) -> None:
        if self.trouble or self._path is None or len(string) > LONGEST:
            return
        try:
            with _locked(self._path) as file:
                file.seek(0, os.SEEK_END)
                file.write(_line(string))
        except OSError as problem:
            self._fail(problem)

    def _fail(self, problem: OSError) -> None:
        why = problem.strerror or type(problem).__name__
        self.trouble = f"(what you type is not kept for later sessions: {self._path}: {why})"


def state_folder() -> Path:
    """The folder for files that outlive a session; $GDATALOG_STATE overrides it."""
    given = os.environ.get("GDATALOG_STATE")
    if given:
        return Path(given)
    from platformdirs import user_state_path

    return user_state_path("gdatalog", appauthor=False)


def _line(entry: str) -> bytes:
    # JSON escapes the lone surrogates that a terminal may send.
    return (json.dumps(entry) + "\n").encode("ascii")


def _entries(data: bytes) -> list[str]:
    """The entries of a file; invalid lines, such as a truncated one, are left out."""
    found = []
    for line in data.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, str):
            found.append(entry)
    return found


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Opens the file for one process at a time; creates it if missing."""
    with os.fdopen(open_own(path, os.O_RDWR | os.O_CREAT), "r+b") as file:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed
        yield file
