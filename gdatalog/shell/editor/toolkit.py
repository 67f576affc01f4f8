"""Colours and completion as prompt_toolkit asks for them, and how its parts look.

What reads the language is imported at the first key, so that the prompt need not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer
from prompt_toolkit.completion import Completion as Choice
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.lexers import Lexer

from gdatalog.shell.editor.known import KnownNames
from gdatalog.widths import visible

if TYPE_CHECKING:
    from gdatalog.shell.editor.highlighting import Highlighter

# What a stretch is, and how it looks: prompt_toolkit's words for it. Colours are the terminal's.
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
    """`reads`: what reads the language is there. `checks`: the grammar may be asked as well."""

    def __init__(self, known: Callable[[], KnownNames], buffer: Callable[[], Buffer]) -> None:
        self.reads = self.checks = False
        self._known = known
        self._buffer = buffer
        self._highlighter: Highlighter | None = None

    def invalidation_hash(self) -> Hashable:
        text = self._buffer().text
        return self._looking_at(text).state(self._cursor()) if text and self.reads else None

    def statement_before(self) -> str:
        """What there is of the statement at the cursor, before it."""
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
            looking = self._looking_at(text)  # it may have looked at another one since
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
