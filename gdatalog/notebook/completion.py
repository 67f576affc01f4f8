"""Completion in cells and lines of ours, by the completer that IPython asks."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gdatalog.database import Database
from gdatalog.errors import Error
from gdatalog.plan.functions import FUNCTIONS
from gdatalog.records import dataclass, replace
from gdatalog.shell.editor.completion import complete, files_at
from gdatalog.shell.editor.known import look

if TYPE_CHECKING:
    from gdatalog.notebook.options import MagicOptions

_CELL = re.compile(r"\s*%%(datalog\w*)([^\n]*)(\n?)")
_LINE = re.compile(r"\s*(?:[\w.\[\], ]+=\s*)?%(datalog\w*)[ \t](.*)", re.DOTALL)
_WORD = re.compile(r"\S*\Z")
_NAME = re.compile(r"\w*\Z")
_LAST_WORDS = re.compile(r"(\S*)\s+\S*\Z")


@dataclass(frozen=True, slots=True)
class Offered:
    """`text` in the place of the last `over` characters; `kind`, by which front-ends choose a
    picture."""

    text: str
    over: int
    kind: str


class Completer:
    """What Tab offers in the magics of these names.

    `texts` are those that take a text of the language. `variables` and `database` are looked up
    anew each time.
    """

    def __init__(
        self,
        shell: Any,
        options: Mapping[str, MagicOptions],
        texts: Collection[str],
        database: Callable[[], Database],
    ) -> None:
        self.shell = shell
        self.options = options
        self.texts = texts
        self.database = database
        self._matcher: Any = None

    def register(self) -> None:
        from IPython.core.completer import SimpleCompletion, context_matcher

        # Before all others: Python's would parse what is no Python.
        @context_matcher(identifier="gdatalog", priority=1000)
        def matcher(context: Any) -> dict[str, Any]:
            lines = context.full_text.split("\n")
            before = "\n".join([*lines[: context.cursor_line], context.text_until_cursor])
            try:
                found = self.offered(before, context.full_text)
            except Error:  # of a database that is closed: it is told of when the cell runs
                found = []
            if found == []:  # what stands there is offered, or else others offer Python and files
                word = _end(_NAME, before)
                found = [Offered(word, len(word), "")]
            over = found[0].over if found else 0
            return {
                "completions": [
                    SimpleCompletion(one.text, type=one.kind)
                    for one in found or ()
                    if one.over == over
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
        """What may stand behind `before`, with which the cell's `text` begins; None where that is
        not for us to say."""
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
        if found or line[1] not in self.texts or _end(_WORD, line[2]).startswith("--"):
            return found
        after = text[len(before) :].split("\n")[0]
        return self._in_text(line[2], line[2] + after)

    def _in_text(self, before: str, text: str) -> list[Offered]:
        known, _ = look(self.database())
        # Neither the prompt's commands nor its settings are known here.
        known = replace(known, commands={}, settings={})
        found = []
        for one in complete(text, len(before), known):
            name = one.text.rstrip("( ")
            kind = "instance"
            if name in known.relations:
                kind = "class"
            elif name in FUNCTIONS:
                kind = "function"
            found.append(Offered(one.text, len(before) - one.start, kind))
        return found

    def _of_line(self, magic: str, line: str, *, cell: bool) -> list[Offered]:
        """Options and words of a magic's line; nothing where a text of the language stands."""
        options = self.options[magic]
        word = _end(_WORD, line)
        earlier = _LAST_WORDS.search(line)
        last = earlier[1] if earlier is not None else ""
        if last == "--strategy":
            return _fitting(word, options.choices(last), "keyword")
        if last == "--params":
            return _fitting(word, self._variables(Mapping), "instance")
        if options.takes_value(last):
            return []
        if word.startswith("--"):
            return _fitting(word, options.names(), "keyword")
        if magic == "datalog_load":
            frames = self._variables_with("__dataframe__", "__arrow_c_stream__", "__array__")
            return [
                *_fitting(word, frames, "instance"),
                *_fitting(word, files_at(word), "path"),
            ]
        if magic == "datalog_db":
            return _fitting(word, self._variables(Database), "instance")
        if magic == "datalog_rules":
            return _fitting(word, self.database().relations, "class")
        return []

    def _variables(self, kind: type) -> list[str]:
        variables = self.shell.user_ns.items()
        return [name for name, value in variables if _public(name) and isinstance(value, kind)]

    def _variables_with(self, *attributes: str) -> list[str]:
        return [
            name
            for name, value in self.shell.user_ns.items()
            if _public(name) and any(hasattr(type(value), one) for one in attributes)
        ]


def _end(pattern: re.Pattern[str], text: str) -> str:
    """What of a text's end is of a pattern; nothing, if none is."""
    found = pattern.search(text)
    return "" if found is None else found[0]


def _public(name: str) -> bool:
    return not name.startswith("_") and name not in ("In", "Out")


def _fitting(word: str, names: Iterable[str], kind: str) -> list[Offered]:
    return [Offered(name, len(word), kind) for name in names if name.startswith(word)]
