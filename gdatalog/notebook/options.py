"""The lines of magics: options before a text, and what they mean.

`$name` in a text is the language's own, so nothing on such a line is expanded by IPython.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence
from typing import NoReturn

from gdatalog.engine.knobs import STRATEGIES
from gdatalog.errors import UsageError
from gdatalog.notebook.variables import near

# An option at the beginning of a line, and a word after it, which may be quoted.
_OPTION = re.compile(r"\s*(--[a-z]+)(?:=|\s+|$)")
_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|\S)+""")


class MagicOptions(argparse.ArgumentParser):
    """The options of one magic; what is wrong with them is an error of ours."""

    def __init__(self, magic: str, summary: str, more: str = "") -> None:
        super().__init__(
            magic,
            description=summary,
            epilog=more,
            add_help=False,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def parse_args(self, words: Sequence[str]) -> argparse.Namespace:  # type: ignore[override]
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
        """As argparse has it, but at a width that no terminal decides."""
        return "\n".join(line.rstrip() for line in super().format_help().splitlines())

    def _get_formatter(self) -> argparse.HelpFormatter:
        return argparse.RawDescriptionHelpFormatter(self.prog, max_help_position=26, width=96)

    def read(self, line: str) -> argparse.Namespace:
        """A line that holds nothing but options and words."""
        return self.parse_args(self._words(line))

    def read_before(self, line: str) -> tuple[argparse.Namespace, str]:
        """The options at the beginning of a line, and the text behind them."""
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

    def choices(self, option: str) -> Sequence[str]:
        """What an option may be set to, if it is one of a few."""
        return list(self._option_string_actions[option].choices or ())

    def names(self) -> Sequence[str]:
        """The options' names."""
        return sorted(self._option_string_actions)


def with_answers(options: MagicOptions) -> MagicOptions:
    """Adds what a text that is evaluated may be given."""
    with_parameters(options)
    options.add_argument("--strategy", choices=STRATEGIES, default="auto", help="how rules are run")
    return options


def with_parameters(options: MagicOptions) -> MagicOptions:
    options.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help='a value for $NAME; "..." inside quotes is text',
    )
    options.add_argument(
        "--params", metavar="VARIABLE", help="a dict of the notebook, with values for $names"
    )
    return options
