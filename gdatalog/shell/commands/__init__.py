"""Runs commands of the prompt, and generates `.help` from their registry."""

from __future__ import annotations

from textwrap import wrap
from typing import get_args

from gdatalog.errors import UsageError, meant
from gdatalog.parser.directive_words import DIRECTIVES
from gdatalog.shell.commands import (  # noqa: F401  they register their commands
    database,
    plans,
    rules,
    settings,
)
from gdatalog.shell.conversation import Conversation
from gdatalog.shell.registry import COMMANDS, Command, Group, Leave, command

__all__ = ["COMMANDS", "Command", "Leave", "run_command"]

STATEMENTS = """\
e(1, 2).                     adds a fact
p(x) <- e(x, y), y > 1.      adds a rule, and evaluates it
p(x, y) <- e(x, _), optional f(x, y).  y is null where nothing matches
?- p(x).   or just   p(x).   queries
.decl .input .output         and the other directives work too"""


def run_command(repl: Conversation, name: str, rest: str) -> None:
    """Runs a command; for an unknown one, raises with a suggestion."""
    found = _found("quit" if name == "exit" else name)
    if found.trusted:
        repl.check_trusted(f".{found.name}")
    found.run(repl, found.words(rest))


def _found(name: str) -> Command:
    found = COMMANDS.get(name)
    if found is None:
        close = meant(name, [*COMMANDS, *DIRECTIVES])
        hint = f"did you mean .{close}?" if close else ".help lists the commands"
        raise UsageError(f"there is no command .{name}", hint=hint)
    return found


@command("help", "help", "[COMMAND]", "this list, or details of a command", ".help save")
def _help(repl: Conversation, words: list[str]) -> None:
    repl.output.text(_help_of(_found(words[0].lstrip("."))) if words else help_text())


def help_text() -> str:
    """All commands, by group."""
    wide = max(len(found.usage) for found in COMMANDS.values()) + 2
    lines = [STATEMENTS]
    for group in get_args(Group):
        lines += ["", group]
        for found in COMMANDS.values():
            if found.group == group:
                lines.append(f"  {found.usage:<{wide}}{found.summary}")
    return "\n".join(lines)


def _help_of(found: Command) -> str:
    lines = [found.usage, f"  {found.summary}"]
    if found.more:
        lines += wrap(found.more, 78, initial_indent="  ", subsequent_indent="  ")
    if found.examples:
        lines += ["for example", *(f"  {example}" for example in found.examples)]
    return "\n".join(lines)


@command("help", "quit", "", "leave (Ctrl-D does too)")
def _quit(repl: Conversation, words: list[str]) -> None:
    raise Leave
