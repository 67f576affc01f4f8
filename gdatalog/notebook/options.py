"""The options of magics, and completion in cells.

IPython does not expand variables on these lines: `$name` belongs to the language.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from gdatalog.database import Database
from gdatalog.errors import Error, UsageError, meant
from gdatalog.options import STRATEGIES
from gdatalog.plan.functions import FUNCTIONS
from gdatalog.records import dataclass, replace
from gdatalog.shell.editor.completion import complete, files_at
from gdatalog.shell.editor.known import look
from gdatalog.shell.program import read_parameters
from gdatalog.user_settings import AT_START, all_settings

# An option at the start of a line, and its value, possibly quoted.
_OPTION = re.compile(r"\s*(--[a-z]+)(?:=|\s+|$)")
_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|\S)+""")


class MagicOptions(argparse.ArgumentParser):
    """The option parser of one magic; wrong options raise `UsageError`."""

    def __init__(
        self, magic: str, summary: str, *, params: bool = False, strategy: bool = False
    ) -> None:
        """`params`, `strategy`: it has the options of parameters, and of evaluating a text."""
        super().__init__(magic, description=summary, add_help=False, allow_abbrev=False)
        if params:
            values = 'a value for $NAME; "..." inside quotes is text'
            self.add_argument(
                "--param", action="append", default=[], metavar="NAME=VALUE", help=values
            )
            named = "a dict of the notebook, with values for $names"
            self.add_argument("--params", metavar="VARIABLE", help=named)
        if strategy:
            how = "how rules are run"
            self.add_argument("--strategy", choices=STRATEGIES, default="auto", help=how)

    def parse_args(self, words: Sequence[str]) -> argparse.Namespace:  # type: ignore[override]  # it takes no namespace
        given, rest = self.parse_known_args(words)
        for word in rest:
            if word.startswith("--"):
                name = word.partition("=")[0]
                hint = near(name, self.names()) or f"{self.prog}? shows how it is used"
                raise UsageError(f"{self.prog} has no option {name}", hint=hint)
        if rest:
            self.error(f"there is a word too many: {' '.join(rest)}")
        return given

    def error(self, message: str) -> NoReturn:
        name = self.prog.lstrip("%")
        raise UsageError(f"{self.prog}: {message}", hint=f"%{name}? shows how it is used")

    def format_help(self) -> str:
        """argparse's help, at a fixed width."""
        return "\n".join(line.rstrip() for line in super().format_help().splitlines())

    def _get_formatter(self) -> argparse.HelpFormatter:
        return argparse.RawDescriptionHelpFormatter(self.prog, max_help_position=26, width=96)

    def read(self, line: str) -> argparse.Namespace:
        """Parses a line of only options and words."""
        return self.parse_args(self._words(line))

    def read_before(self, line: str) -> tuple[argparse.Namespace, str]:
        """Parses the options at the start of a line; also returns the text after them."""
        at, words = 0, []
        while found := _OPTION.match(line, at):
            at = found.end()
            words.append(found[1])
            if self.takes_value(found[1]):
                word = _WORD.match(line, at)
                if word is not None:
                    words += self._words(word[0])
                    at = word.end()
        return self.parse_args(words), line[at:].strip()

    def _words(self, text: str) -> list[str]:
        try:
            return shlex.split(text)
        except ValueError:
            self.error(f"a quote is not closed: {text.strip()}")

    def takes_value(self, option: str) -> bool:
        action = self._option_string_actions.get(option)
        return action is not None and action.nargs != 0

    def names(self) -> Sequence[str]:
        """The names of the options."""
        return sorted(self._option_string_actions)


# Variables of the notebook that a line names.


def parameters(given: argparse.Namespace, variables: Mapping[str, object]) -> dict[str, object]:
    """The values of parameters: from the dict of `--params`, then from `--param`."""
    found: dict[str, object] = {}
    if given.params is not None:
        named = _named(given.params, variables)
        if not isinstance(named, Mapping):
            raise UsageError(
                f"--params: {given.params!r} is of type {type(named).__name__}, not a dict",
                hint="one value is given as --param name=value",
            )
        found.update(named)
    return {**found, **read_parameters(given.param, "--param")}


def database_named(name: str, variables: Mapping[str, object]) -> Database:
    db = _named(name, variables)
    if not isinstance(db, Database):
        raise UsageError(f"{name!r} is of type {type(db).__name__}, not a Database")
    db.workspace.check_open()
    return db


def data_named(word: str, variables: Mapping[str, object]) -> object:
    """The variable of that name, if there is one; otherwise the path of a file."""
    if word in variables and not word.startswith("_"):
        return variables[word]
    if word.isidentifier() and not os.path.exists(word):
        hint = near(word, variables)
        raise UsageError(f"there is neither a variable nor a file {word!r}", hint=hint)
    if not os.path.exists(word) and re.search(r"[(\[]", word):
        raise UsageError(
            f"{word!r} is no file, and expressions are not evaluated here",
            hint=f"give it a name first, as in: df = {word}",
        )
    return os.path.expanduser(word)


def _named(name: str, variables: Mapping[str, object]) -> object:
    if name not in variables:
        hint = near(name, variables)
        raise UsageError(f"the notebook has no variable {name!r}", hint=hint)
    return variables[name]


def near(word: str, names: Iterable[str]) -> str | None:
    """A spelling hint."""
    close = meant(word, [name for name in names if not name.startswith("_")])
    return f"did you mean {close}?" if close else None


# Completion in cells and lines of the magics.

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
