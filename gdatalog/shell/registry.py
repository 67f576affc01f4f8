"""The registry of the prompt's commands."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Literal

from gdatalog.errors import UsageError
from gdatalog.records import dataclass
from gdatalog.shell.conversation import Conversation

Group = Literal["rules", "data", "plans", "settings", "help"]  # in the order of `.help`
Run = Callable[[Conversation, list[str]], None]


class Leave(Exception):
    """Raised to end the prompt."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command. `.help` shows `arguments` and `summary`, `.help COMMAND` also `examples` and
    `more`. `trusted`: refused with --untrusted, because it uses files, other machines or limits.
    `raw`: it takes all that follows its name as one argument."""

    name: str
    arguments: str
    summary: str
    group: Group
    examples: tuple[str, ...]
    run: Run
    more: str = ""
    trusted: bool = False
    raw: bool = False

    @property
    def usage(self) -> str:
        return f".{self.name} {self.arguments}".rstrip()

    @property
    def example(self) -> str | None:
        return f"for example {self.examples[0]}" if self.examples else None

    def misused(self) -> UsageError:
        return UsageError(f"expected {self.usage}", hint=self.example)

    def words(self, rest: str) -> list[str]:
        """Splits what follows the name into as many arguments as `arguments` shows, of which those
        in brackets may be missing; quotes keep spaces together."""
        if self.raw:
            return [rest]
        try:
            words = shlex.split(rest)
        except ValueError:
            raise UsageError(f"a quote is not closed: {rest}") from None
        shown = self.arguments.split()
        least = sum(not word.startswith(("[", "...")) for word in shown)
        if not least <= len(words) <= (1000 if "..." in shown else len(shown)):
            raise self.misused()
        return words


COMMANDS: dict[str, Command] = {}


def command(
    group: Group,
    name: str,
    arguments: str,
    summary: str,
    *examples: str,
    more: str = "",
    trusted: bool = False,
    raw: bool = False,
) -> Callable[[Run], Run]:
    """Registers a function as a command."""

    def register(run: Run) -> Run:
        COMMANDS[name] = Command(name, arguments, summary, group, examples, run, more, trusted, raw)
        return run

    return register
