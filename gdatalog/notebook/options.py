"""The options of magics.

IPython does not expand variables on these lines: `$name` belongs to the language.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence
from typing import NoReturn

from gdatalog.errors import UsageError
from gdatalog.notebook.variables import near
from gdatalog.options import STRATEGIES

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
