"""Completion in cells and lines of the magics."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from gdatalog.database import Database
from gdatalog.errors import Error
from gdatalog.notebook.options import MagicOptions
from gdatalog.options import STRATEGIES
from gdatalog.plan.functions import FUNCTIONS
from gdatalog.records import dataclass, replace
from gdatalog.shell.editor.completion import complete, files_at
from gdatalog.shell.editor.known import look
from gdatalog.user_settings import AT_START, all_settings

_CELL = re.compile(r"\s*%%(datalog\w*)([^\n]*)(\n?)")
_LINE = re.compile(r"\s*(?:[\w.\[\], ]+=\s*)?%(datalog\w*)[ \t](.*)", re.DOTALL)
_NAME = re.compile(r"\w*\Z")
# The text of a completion, how many characters before the cursor it replaces, and its kind, by
# which front-ends choose an icon.
Offered = tuple[str, int, str]


@dataclass(eq=False)
class Completer:
    """Completes in the magics of these names.

    `texts` are the magics that take Datalog text. Variables and the database are looked up on each
    call.
    """

    shell: Any
    options: Mapping[str, MagicOptions]
    texts: Collection[str]
    database: Callable[[], Database]
    _matcher: Any = None

    def register(self) -> None:
        from IPython.core.completer import SimpleCompletion, context_matcher

        # Before Python's completer, which would parse Datalog as Python.
        @context_matcher(identifier="gdatalog", priority=1000)
        def matcher(context: Any) -> dict[str, Any]:
            lines = context.full_text.split("\n")
            before = "\n".join([*lines[: context.cursor_line], context.text_until_cursor])
            try:
                found = self.offered(before, context.full_text)
            except Error:  # a closed database: running the cell reports it
                found = []
            if found == []:
                # Offer the word itself: otherwise IPython offers Python names and files.
                word = _NAME.findall(before)[0]
                found = [(word, len(word), "")]
            over = found[0][1] if found else 0
            return {
                "completions": [
                    SimpleCompletion(text, type=kind) for text, n, kind in found or () if n == over
                ],
                "matched_fragment": before[len(before) - over :],
                "ordered": True,
                "suppress": bool(found),
            }

        self._matcher = matcher
        self.shell.Completer.custom_matchers.append(matcher)

    def unregister(self) -> None:
        self.shell.Completer.custom_matchers.remove(self._matcher)

    def offered(self, before: str, text: str) -> list[Offered] | None:
        """The completions after `before`, the part of the cell's `text` before the cursor; None
        outside of our magics."""
        cell = _CELL.match(before)
        if cell is not None:
            if cell[1] not in self.options:
                return None
            if cell[3]:
                return self._in_text(before[cell.end() :], text[cell.end() :])
            return self._of_line(cell[1], cell[2], cell=True)
        line = _LINE.fullmatch(before[before.rfind("\n") + 1 :])
        if line is None or line[1] not in self.options:
            return None
        found = self._of_line(line[1], line[2], cell=False)
        if found or line[1] not in self.texts or _last_words(line[2])[1].startswith("--"):
            return found
        after = text[len(before) :].split("\n")[0]
        return self._in_text(line[2], line[2] + after)

    def _in_text(self, before: str, text: str) -> list[Offered]:
        known, _ = look(self.database())
        # Without the prompt's commands and settings.
        known = replace(known, commands={}, settings={})
        found = []
        for one in complete(text, len(before), known):
            name = one.text.rstrip("( ")
            kind = "instance"
            if name in known.relations:
                kind = "class"
            elif name in FUNCTIONS:
                kind = "function"
            found.append((one.text, len(before) - one.start, kind))
        return found

    def _of_line(self, magic: str, line: str, *, cell: bool) -> list[Offered]:
        """Completes options and words on a magic's line; empty where Datalog text begins."""
        options = self.options[magic]
        last, word = _last_words(line)
        if last == "--strategy":
            return _fitting(word, STRATEGIES, "keyword")
        if last == "--params":
            names = self._variables(lambda value: isinstance(value, Mapping))
            return _fitting(word, names, "instance")
        if options.takes_value(last):
            return []
        if word.startswith("--"):
            return _fitting(word, options.names(), "keyword")
        if magic == "datalog_load":
            frames = _fitting(word, self._variables(_is_frame), "instance")
            return [*frames, *_fitting(word, files_at(word), "path")]
        if magic == "datalog_db":
            names = self._variables(lambda value: isinstance(value, Database))
            return _fitting(word, names, "instance")
        if magic == "datalog_set":
            known = all_settings()
            names = [name for name in known if name not in AT_START]
            if line.split()[:1] == [last]:
                names = [*known[last].words] if last in known else []
            return _fitting(word, names, "keyword") if len(line.split()) <= 2 else []
        if magic == "datalog_rules":
            return _fitting(word, self.database().relations, "class")
        return []

    def _variables(self, fits: Callable[[object], bool]) -> list[str]:
        return [
            name
            for name, value in self.shell.user_ns.items()
            if not name.startswith("_") and name not in ("In", "Out") and fits(value)
        ]


def _is_frame(value: object) -> bool:
    kinds = ("__dataframe__", "__arrow_c_stream__", "__array__")
    return any(hasattr(type(value), kind) for kind in kinds)


def _last_words(line: str) -> tuple[str, str]:
    """The last complete word of a line, and the word being typed."""
    *earlier, typed = re.split(r"\s+", line)
    return earlier[-1] if earlier else "", typed


def _fitting(word: str, names: Iterable[str], kind: str) -> list[Offered]:
    return [(name, len(word), kind) for name in names if name.startswith(word)]
