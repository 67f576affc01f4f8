"""Colours and completion as prompt_toolkit asks for them, and how its parts look."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer
from prompt_toolkit.completion import Completion as Choice
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.lexers import Lexer

from gdatalog.shell.completion import complete
from gdatalog.shell.highlighting import STYLES, Highlighter
from gdatalog.shell.known import Known

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


class Names(Completer):
    def __init__(self, known: Callable[[], Known]) -> None:
        self._known = known

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Choice]:
        cursor = document.cursor_position
        for found in complete(document.text, cursor, self._known()):
            yield Choice(
                found.text,
                found.start - cursor,
                display=found.shown or found.text,
                display_meta=found.about,
            )


class Colours(Lexer):
    def __init__(self, colours: Highlighter, buffer: Callable[[], Buffer]) -> None:
        self._colours = colours
        self._buffer = buffer

    def invalidation_hash(self) -> Hashable:
        self._colours.look(self._buffer().text)
        return self._colours.state(self._cursor())

    def _cursor(self) -> int:
        return -1 if get_app().is_done else self._buffer().cursor_position

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        text, cursor = document.text, self._cursor()

        def line(number: int) -> StyleAndTextTuples:
            if not 0 <= number < document.line_count:
                return []
            self._colours.look(text)  # it may have looked at another one since
            at = document.translate_row_col_to_index(number, 0)
            end = at + len(document.lines[number])
            shown: StyleAndTextTuples = []
            for begins, ends, kind in self._colours.stretches(at, end, cursor):
                begins, ends = max(begins, at), min(ends, end)
                if begins > at:
                    shown.append(("", text[at:begins]))
                shown.append((f"class:dl-{kind}", text[begins:ends]))
                at = ends
            if at < end:
                shown.append(("", text[at:end]))
            return shown

        return line
