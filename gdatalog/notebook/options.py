"""The lines of magics: options before a text, and what they mean.

`$name` in a text is the language's own, so nothing on such a line is expanded by IPython.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from gdatalog.database import Database
from gdatalog.engine.session.knobs import STRATEGIES
from gdatalog.errors import UsageError, meant
from gdatalog.shell.parameters import read_parameters

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


# The lines of the magics: what each may be given, and the help that lists them.


HELP = """\
%%datalog [NAME]             the cell is a program: its rules are kept, its `?-` or last rule is
                             answered. With NAME the answer goes into that variable.
%datalog TEXT                the same for a line; fans = %datalog ?- follows(x, "ann").
%datalog_load [R] DATA       a file, or a DataFrame of the notebook, as the relation R
%datalog_explain TEXT        the plan of a text; nothing is evaluated
%datalog_profile TEXT        evaluates a text, and tells rows and time of each step of its plan
%datalog_relations           the relations, with columns and numbers of rows
%datalog_rules [R]           the rules that are kept, with sizes
%datalog_db [VARIABLE]       the database of the magics; with VARIABLE, that one from now on
%datalog_help                this list

%%datalog_explain and %%datalog_profile take a cell. `?` after a magic shows its options, as in
%datalog?"""

DATALOG = with_answers(
    MagicOptions(
        "%datalog", "Keeps the rules of a cell or a line, and answers its `?-` or last rule."
    )
)
DATALOG.add_argument("name", nargs="?", help="of a cell: the variable that gets the answer")
DATALOG.add_argument("--limit", type=int, metavar="N", help="at most so many rows")
DATALOG.add_argument("--explain", action="store_true", help="show the plan, evaluate nothing")
DATALOG.add_argument("--profile", action="store_true", help="show what each step of it did too")
DATALOG.add_argument("--show", action="store_true", help="show an answer that gets a name too")
DATALOG.add_argument("--quiet", action="store_true", help="keep the rules, and show nothing")

EXPLAIN = with_parameters(
    MagicOptions("%datalog_explain", "Shows the plan of a text; nothing is evaluated.")
)
PROFILE = with_answers(
    MagicOptions("%datalog_profile", "Evaluates a text, and tells rows and time of each step.")
)
LOAD = MagicOptions(
    "%datalog_load", "Puts data under a relation's name, in place of what was there."
)
LOAD.add_argument(
    "data",
    nargs="+",
    metavar="[RELATION] DATA",
    help="a variable of the notebook, or a file; it gives the relation's name if there is none",
)
LOAD.add_argument("--columns", metavar="A,B,...", help="names for the columns")

RELATIONS = MagicOptions("%datalog_relations", "The relations, with columns and numbers of rows.")
RULES = MagicOptions("%datalog_rules", "The rules and declarations that are kept.")
RULES.add_argument("relation", nargs="?", help="only those that define this one")
DB = MagicOptions("%datalog_db", "The database of the magics.")
DB.add_argument("variable", nargs="?", help="a Database of the notebook: the one from now on")
HELP_OPTIONS = MagicOptions("%datalog_help", "The list of the magics.")


# Variables of the notebook: those that a line names, and no others.


def parameters(given: argparse.Namespace, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The values for `$name`s: those of the dict that is named, then those on the line."""
    found: dict[str, Any] = {}
    if given.params is not None:
        named = _named(given.params, variables)
        if not isinstance(named, Mapping):
            raise UsageError(
                f"--params: {given.params!r} is of type {type(named).__name__}, not a dict",
                hint="one value is given as --param name=value",
            )
        found.update(named)
    return {**found, **read_parameters(given.param, "--param")}


def database_named(name: str, variables: Mapping[str, Any]) -> Database:
    db = _named(name, variables)
    if not isinstance(db, Database):
        raise UsageError(f"{name!r} is of type {type(db).__name__}, not a Database")
    db.workspace.check_open()
    return db


def data_named(word: str, variables: Mapping[str, Any]) -> Any:
    """A variable, if there is one of that name; else the path of a file."""
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


def _named(name: str, variables: Mapping[str, Any]) -> Any:
    if name not in variables:
        hint = near(name, variables)
        raise UsageError(f"the notebook has no variable {name!r}", hint=hint)
    return variables[name]


def near(word: str, names: Iterable[str]) -> str | None:
    """A spelling hint."""
    close = meant(word, [name for name in names if not name.startswith("_")])
    return f"did you mean {close}?" if close else None
