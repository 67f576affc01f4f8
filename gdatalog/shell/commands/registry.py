"""The registry of the prompt's commands."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from typing import Literal

from gdatalog.errors import NameResolutionError, UsageError
from gdatalog.parser.syntax import Statement
from gdatalog.planner.check.walk import is_fact
from gdatalog.records import dataclass
from gdatalog.shell.conversation import Conversation

Group = Literal["data", "rules", "plans", "settings", "help"]
Run = Callable[[Conversation, str], None]


class Leave(Exception):
    """Raised to end the prompt."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command. `.help` shows `arguments` and `summary`, `.help COMMAND` also `examples` and
    `more`. `trusted`: refused with --untrusted, because it uses files, other machines or limits."""

    name: str
    arguments: str
    summary: str
    group: Group
    examples: tuple[str, ...]
    run: Run
    more: str = ""
    trusted: bool = False

    @property
    def usage(self) -> str:
        return f".{self.name} {self.arguments}".rstrip()


COMMANDS: dict[str, Command] = {}


def command(
    group: Group,
    name: str,
    arguments: str,
    summary: str,
    *examples: str,
    more: str = "",
    trusted: bool = False,
) -> Callable[[Run], Run]:
    """Registers a function as a command."""

    def register(run: Run) -> Run:
        COMMANDS[name] = Command(name, arguments, summary, group, examples, run, more, trusted)
        return run

    return register


def check_trusted(repl: Conversation, what: str) -> None:
    """Raises if the prompt runs with --untrusted."""
    if repl.db.workspace.untrusted:
        raise UsageError(f"{what} is not allowed with --untrusted")


def words_of(rest: str, name: str, least: int, most: int) -> list[str]:
    """Splits a command's arguments; quotes keep spaces together."""
    try:
        words = shlex.split(rest)
    except ValueError:
        raise UsageError(f"a quote is not closed: {rest}") from None
    if not least <= len(words) <= most:
        raise UsageError(f"usage: {COMMANDS[name].usage}", hint=example_of(name))
    return words


def example_of(name: str) -> str | None:
    examples = COMMANDS[name].examples
    return f"for example {examples[0]}" if examples else None


# ------------------------------------------------------------------------------- relations


def known(repl: Conversation, name: str) -> str:
    """Returns the name if such a relation exists; otherwise raises."""
    if name not in repl.db.relations:
        raise NameResolutionError(
            f"there is no relation {name!r}",
            hint=repl.db.workspace.near(name) or ".relations lists them",
        )
    return name


def numbered(statements: Iterable[Statement]) -> list[Statement]:
    """The statements that `.rules` lists, in its order: all but facts."""
    return [statement for statement in statements if not is_fact(statement)]
