"""Splits typed text into commands and statements, whole and unfinished ones.

Nothing here uses a database, nor imports modules that do: the prompt calls it at each key.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import takewhile

from gdatalog.errors import SourceText
from gdatalog.parser.completeness import is_ended
from gdatalog.parser.directive_words import DIRECTIVES, REFUSED_DIRECTIVES
from gdatalog.parser.scanner import scan
from gdatalog.parser.sql_mistakes import is_sql
from gdatalog.parser.tokens import Token
from gdatalog.records import dataclass
from gdatalog.shell.messages import GOES_ON, PROMPT

INDENT = "    "
FARTHEST = 40  # maximum indentation, in columns

_COMMAND = re.compile(r"\s*\.([A-Za-z_]\w*)(.*)", re.DOTALL)
_COMMENTS = re.compile(r"//[^\n]*|/\*[\s\S]*?\*/|^[#%][^\n]*", re.MULTILINE)
_BEFORE = re.compile(r"(?:[ \t\r\n\f\v\ufeff]+|//[^\n]*|/\*[\s\S]*?\*/)*")
_PLAIN = {"quit": "quit", "exit": "quit", "quit()": "quit", "exit()": "quit", "help": "help"}
# Commands whose argument is a query, possibly of several lines.
TAKE_TEXT = frozenset({"explain", "profile"})
# The options before that query: the part of a plan to show, and of `.explain` the passes.
OF_PART = re.compile(r"--of(?:\s+|=)(\S+)\s*")
WITH_PASSES = re.compile(r"((?:--of(?:\s+|=)\S+\s+)?)--passes\b\s*")
_OPEN_END = frozenset({"COMMA", "SEMICOLON", "ARROW", "QUERY", "NOT", "OPERATOR", "COLON", "EQUAL"})


@dataclass(frozen=True, slots=True)
class StatementPart:
    """A command or statement, with the comments and blanks before it; it begins itself at `begins`.

    `whole`: the statement is complete. `heads`: the relations that it defines.
    """

    start: int
    begins: int
    end: int
    command: bool
    whole: bool
    heads: tuple[str, ...] = ()


def command_of(line: str) -> tuple[str, str] | None:
    """The command and its argument, if the line is a command. A directive is not a command.

    >>> command_of(".load E e.csv"), command_of(".input E"), command_of("quit")
    (('load', 'E e.csv'), None, ('quit', ''))
    """
    plain = _PLAIN.get(line.strip())
    if plain is not None:
        return plain, ""
    found = _COMMAND.fullmatch(line)
    if found is None or found[1] in DIRECTIVES or found[1] in REFUSED_DIRECTIVES:
        return None
    return found[1], found[2].strip()


def part_at(source: SourceText, at: int, commands: Collection[str] = ()) -> StatementPart:
    """The part that starts at `at`. A line with one of `commands` ends a statement that lacks its
    dot."""
    text = source.text
    before = _BEFORE.match(text, at)
    begins = before.end() if before else at
    if _first_on_line(text, begins):
        found = _command_at(text, begins)
        if found is not None:
            end, whole = found
            return StatementPart(at, begins, end, True, whole)
    scanned = scan(source, at)
    end = scanned.end
    cut = _cut_by_command(text, scanned.tokens, end, commands)
    if cut is not None:
        return StatementPart(at, begins, cut, False, False, _heads(scanned.tokens))
    whole = is_ended(scanned, end >= len(text))
    return StatementPart(at, begins, end, False, whole, _heads(scanned.tokens))


def parts_of(text: str, commands: Collection[str] = ()) -> Iterator[StatementPart]:
    source = SourceText("<text>", text)
    at = 0
    while at < len(text):
        part = part_at(source, at, commands)
        yield part
        at = part.end


@dataclass(frozen=True, slots=True)
class Divided:
    """The whole statements and commands of a text, in pieces (text, whether it is a command).

    Each piece is preceded by as many empty lines as lines precede it in the text, so that errors
    have the right line numbers. `begun`: a command follows an unfinished statement.
    """

    pieces: tuple[tuple[str, bool], ...]
    end: int
    begun: bool = False


def divide(text: str, commands: Collection[str] = ()) -> Divided:
    """Splits a text: each command is a piece, and so are consecutive statements together, because
    rules may refer to later ones.

    >>> divided = divide("e(1). e(2).\\n.relations\\np(x) <- e(x),")
    >>> divided.pieces, divided.end
    ((('e(1). e(2).\\n', False), ('.relations', True)), 22)
    """
    pieces: list[tuple[str, bool]] = []
    start = end = 0  # of the statements that follow each other
    begun = False

    def statements() -> None:
        if text[start:end].strip():
            pieces.append(("\n" * text.count("\n", 0, start) + text[start:end], False))

    for part in parts_of(text, commands):
        if not part.whole:
            # SQL typed by habit never gets its dot: the parser suggests what to write instead.
            if is_sql(scan(SourceText("<text>", text), part.begins).tokens):
                end = len(text)
            begun = part.end < len(text)
            break
        if part.command:
            end = part.begins
            statements()
            pieces.append((text[part.begins : part.end].strip(), True))
            start = part.end
        end = part.end
    statements()
    return Divided(tuple(pieces), end, begun)


def indentation(before: str) -> str:
    """The indentation of the next line: aligned with a body's first literal, or as the line before.

    >>> len(indentation("path(x, z) <- E(x, y),"))
    14
    >>> indentation("e(1)."), indentation("p(x) <-")
    ('', '    ')
    """
    divided = divide(before)
    begun = before[divided.end :]
    line = before[before.rfind("\n") + 1 :]
    blanks = line[: len(line) - len(line.lstrip())]
    if not begun.strip() or not line.strip():
        return blanks
    tokens = scan(SourceText("<text>", begun), 0).tokens
    arrow = next((at for at, token in enumerate(tokens) if token.type == "ARROW"), len(tokens))
    if arrow + 1 < len(tokens) and tokens[arrow].start + divided.end >= len(before) - len(line):
        column = tokens[arrow + 1].start + divided.end - (len(before) - len(line))
        return " " * (column if column <= FARTHEST else len(INDENT))
    return blanks or INDENT


def comments(between: str) -> Iterator[tuple[int, int]]:
    """The positions of comments in the text between words."""
    return (found.span() for found in _COMMENTS.finditer(between))


def without_prompts(text: str) -> str:
    """Extracts the input from a pasted session.

    >>> without_prompts("gdatalog> e(1,\\n     ...>   2).\\ne: 1 fact added\\n")
    'e(1,\\n  2).'
    """
    if not text.lstrip().startswith(PROMPT):
        return text
    prompts = (PROMPT, GOES_ON)
    lines = text.splitlines()
    return "\n".join(line.lstrip()[len(PROMPT) :] if line.lstrip().startswith(PROMPT)
                     else line[len(GOES_ON) :]
                     for line in lines if line.startswith(prompts))  # fmt: skip


def _command_at(text: str, begins: int) -> tuple[int, bool] | None:
    """The end of the command that begins here, and whether it is complete."""
    end = _line_end(text, begins)
    found = command_of(text[begins:end])
    if found is None:
        return None
    if found[0] not in TAKE_TEXT:
        return end, True
    argument = begins + 1 + len(found[0])
    while True:
        scanned = scan(SourceText("<text>", text[argument:end]), 0)
        depth = sum(DEPTH.get(token.type, 0) for token in scanned.tokens)
        goes_on = scanned.stop == "open comment" or (
            scanned.stop == "end"
            and bool(scanned.tokens)
            and (depth > 0 or scanned.tokens[-1].type in _OPEN_END)
        )
        if not goes_on:
            return end, True
        if end >= len(text):
            return end, False
        end = _line_end(text, end + 1)


DEPTH = {"LPAR": 1, "LBRACE": 1, "RPAR": -1, "RBRACE": -1}


def _cut_by_command(
    text: str, tokens: list[Token], end: int, commands: Collection[str]
) -> int | None:
    """The position of a known command on its own line, if its dot was taken for the statement's."""
    dot = end - 1
    if not tokens or not commands or text[dot:end] != "." or not _first_on_line(text, dot):
        return None
    found = command_of(text[dot : _line_end(text, dot)])
    return dot if found is not None and found[0] in commands else None


def _heads(tokens: list[Token]) -> tuple[str, ...]:
    """The relations that a statement defines."""
    if not tokens:
        return ()
    if tokens[0].type in ("DECL", "IO"):
        listed = takewhile(lambda token: token.type in ("NAME", "COMMA"), tokens[1:])
        return tuple(token.value for token in listed if token.type == "NAME")
    found: list[str] = []
    depth, ground = 0, True
    for at, token in enumerate(tokens):
        if token.type in ("QUERY", "RETRACT"):
            return ()
        if token.type == "ARROW":
            return tuple(found)
        if token.type == "NAME":
            if depth == 0 and _opens(tokens, at):
                found.append(token.value)
            elif depth > 0:
                ground = False
        depth += DEPTH.get(token.type, 0)
    return tuple(found) if ground else ()  # a ground atom is a fact, otherwise a query


def _opens(tokens: list[Token], at: int) -> bool:
    return at + 1 < len(tokens) and tokens[at + 1].type == "LPAR"


def _first_on_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip()


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
