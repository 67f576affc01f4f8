"""Completion: what can stand at the cursor.

A pure function of the text, the cursor and a snapshot of names; only file names are looked up on
disk.
"""

from __future__ import annotations

import os
import re
from collections import deque

from gdatalog.errors import SourceText
from gdatalog.parser.directive_mistakes import FORMS
from gdatalog.parser.directive_words import DIRECTIVES
from gdatalog.parser.scanner import scan
from gdatalog.records import replace
from gdatalog.shell.editor.known import KnownNames
from gdatalog.shell.editor.signatures import columns_text
from gdatalog.shell.editor.statement_completion import (
    Completion,
    Files,
    Found,
    completions_of,
    file_in_string,
    in_statement,
    starting_with,
)
from gdatalog.shell.typed import StatementPart, parts_of
from gdatalog.terminal_text import visible

MOST_FILES = 200  # names offered of one folder


def files_at(typed: str, ending: str = "") -> list[str]:
    """The files and folders whose path starts with `typed`; folders end with a slash. Names with
    control characters are left out, because the terminal cannot show them.

    `ending`: only files with this ending, if there are any.
    """
    folder, slash, begun = typed.rpartition("/")
    try:
        with os.scandir(os.path.expanduser(folder + slash) or ".") as entries:
            found = sorted(
                (entry.name, entry.is_dir())
                for entry in entries
                if entry.name.startswith(begun)
                and entry.name == visible(entry.name)
                and (begun.startswith(".") or not entry.name.startswith("."))
            )
    except OSError:
        return []
    wanted = [(name, is_folder) for name, is_folder in found if is_folder or name.endswith(ending)]
    kept = wanted if any(not is_folder for _, is_folder in wanted) else found
    return [f"{folder}{slash}{name}{'/' * is_folder}" for name, is_folder in kept[:MOST_FILES]]


_COMMAND_PARTS = re.compile(r"\.?(\w*)\s([\s\S]*)")
_COMMAND_WORD = re.compile(r"\.(\w*)\Z")
_COMMENT = re.compile(r"(?://[^\n]*|/\*(?:(?!\*/)[\s\S])*)\Z")


def complete(
    text: str, cursor: int, known: KnownNames, files: Files = files_at
) -> list[Completion]:
    """The completions at the cursor, the most likely first.

    >>> edges = KnownNames({"E": (("src", "int"), ("dst", "int"))})
    >>> [found.text for found in complete("p(x) <- E", 9, edges)]
    ['E(']
    >>> [found.text for found in complete("p(x) <- E(x, ", 13, edges)][:2]
    ['dst', 'x']
    """
    before = text[:cursor]
    part = _last_part(before, known)
    begins = part.begins if part is not None else cursor
    head = before[begins:]
    found = _COMMAND_WORD.fullmatch(head)
    if found is not None and not text[text.rfind("\n", 0, begins) + 1 : begins].strip():
        return completions_of(_commands(found[1], known), found[1], cursor)
    if part is not None and not head and _COMMENT.search(before[part.start :]):
        return []
    if part is not None and part.whole and not part.command and head.endswith("."):
        head, begins = "", cursor  # after the statement's dot
    if part is not None and part.command:
        return _of_command(head, text, cursor, known, files)
    tokens = scan(SourceText("", head), 0, fast=False).tokens
    gap = head[tokens[-1].end if tokens else 0 :]
    if _COMMENT.search(gap):
        return []
    if tokens and tokens[-1].type == "ERROR" and tokens[-1].end == len(head) and head[-1] != "$":
        if not tokens[-1].text.startswith('"'):
            return []
        path = tokens[-1].text[1:]
        return completions_of(file_in_string(tokens, path, files), path, cursor)
    return in_statement(tokens, head, begins, text, cursor, known)


def _last_part(before: str, known: KnownNames) -> StatementPart | None:
    """The part that the cursor is in or directly after."""
    return next(iter(deque(parts_of(before, known.commands), maxlen=1)), None)


def _commands(word: str, known: KnownNames) -> Found:
    for name in starting_with(word, known.commands):
        arguments, summary = known.commands[name]
        yield name + " " * bool(arguments), summary, f".{name} {arguments}"
    for name in starting_with(word, DIRECTIVES):
        yield f"{name} ", f"as in {FORMS[name]}", f".{name}"


def _of_command(
    head: str, text: str, cursor: int, known: KnownNames, files: Files
) -> list[Completion]:
    """Completes a command's arguments by their kinds in the registry: `RELATION FILE`,
    `[on|off]`."""
    parts = _COMMAND_PARTS.fullmatch(head)
    if parts is None or parts[1] not in known.commands:
        return []
    name, rest = parts.groups()
    quoted = rest.count('"') % 2 == 1
    if quoted:
        earlier, _, word = rest.rpartition('"')
        words = earlier.split()
    else:
        *words, word = re.split(r"\s+", rest.lstrip())
    arguments = known.commands[name][0]
    wanted = arguments.replace("[", " ").replace("]", " ").split()
    if "QUERY" in wanted:
        skipped = cursor - len(rest)
        inner = complete(text[skipped:], len(rest), known, files)
        return [replace(one, start=one.start + skipped) for one in inner]
    if name == "set" or name in known.settings:
        asked = [name, *words] if name in known.settings else words
        values = known.settings.get(asked[0], ()) if asked else known.settings
        fitting = starting_with(word, values if len(asked) < 2 else ())
        return completions_of(((value, "", "") for value in fitting), word, cursor)
    at = len(words)
    kinds = wanted[at : at + 1]
    if at == 0 and arguments.startswith("[RELATION] "):
        kinds = wanted[:2]  # the first is optional
    elif at >= max(1, len(wanted) - 1) and "..." in arguments:
        kinds = [kind.rstrip(".") for kind in wanted[:1]]
    found = (
        one
        for kind in kinds
        for choice in kind.split("|")
        for one in _argument(choice, word, quoted, known, files)
    )
    return completions_of(found, word, cursor)


def _argument(kind: str, word: str, quoted: bool, known: KnownNames, files: Files) -> Found:
    """The arguments of a kind; file names are quoted where they contain blanks."""
    if kind == "RELATION":
        for name in starting_with(word, known.relations):
            yield name, columns_text(name, known.relations[name]), ""
    elif kind == "COMMAND":
        for name in starting_with(word.lstrip("."), known.commands):
            yield name, known.commands[name][1], ""
    elif kind.startswith("FILE"):
        for path in files(word, kind.removeprefix("FILE")):
            opening = '"' if " " in path and not quoted else ""
            closing = '"' if (opening or quoted) and not path.endswith("/") else ""
            yield opening + path + closing, "", path
    elif kind == kind.lower():
        for name in starting_with(word, [kind]):
            yield name, "", ""
