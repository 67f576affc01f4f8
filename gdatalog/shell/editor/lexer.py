"""Pygments lexers for Datalog, used by the documentation, notebooks and `pygmentize`.

They colour as the prompt does, so they accept incomplete and invalid programs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pygments import token
from pygments.lexer import Lexer

from gdatalog.shell.editor.highlighting import Highlighter
from gdatalog.shell.messages import GOES_ON, PROMPT

Piece = tuple[int, token._TokenType, str]

KINDS = {
    "comment": token.Comment,
    "string": token.String,
    "number": token.Number,
    "constant": token.Keyword.Constant,
    "variable": token.Name.Variable,
    "wildcard": token.Name.Variable,
    "parameter": token.Name.Variable.Global,
    "relation": token.Name.Function,
    "unknown": token.Name.Function,  # a relation defined elsewhere
    "function": token.Name.Builtin,
    "aggregate": token.Name.Builtin,
    "keyword": token.Keyword,
    "operator": token.Operator,
    "arrow": token.Operator,
    "punctuation": token.Punctuation,
    "directive": token.Keyword,
    "command": token.Keyword,
    "argument": token.Text,
    "type": token.Keyword.Type,
    "column": token.Name.Attribute,
    "option": token.Name.Attribute,
    "wrong": token.Error,
    "pair": token.Punctuation,
}


class DatalogLexer(Lexer):
    """A lexer for programs.

    >>> pieces = DatalogLexer().get_tokens("p(x) <- q(x), x > 1.")
    >>> [text for kind, text in pieces if kind in token.Name.Function]
    ['p', 'q']
    """

    name = "Datalog"
    aliases = ("datalog", "gdatalog", "souffle")
    filenames = ("*.dl",)

    def get_tokens_unprocessed(self, text: str) -> Iterator[Piece]:
        colours = Highlighter()
        colours.look(text)
        at = 0
        for begins, ends, kind in colours.stretches(0, len(text)):
            yield from _plain(text, at, begins)
            if ends > begins:
                yield begins, KINDS[kind], text[begins:ends]
            at = ends
        yield from _plain(text, at, len(text))


class SessionLexer(Lexer):
    """A lexer for terminal sessions: shell commands after `$`, and input and output of the
    prompt."""

    name = "Datalog session"
    aliases = ("gdatalog-console",)

    def get_tokens_unprocessed(self, text: str) -> Iterator[Piece]:
        at = 0
        for line in text.splitlines(keepends=True):
            prompt = next((p for p in ("$ ", PROMPT, GOES_ON) if line.startswith(p)), "")
            typed = line[len(prompt) :]
            if prompt:
                yield at, token.Generic.Prompt, prompt
                if prompt == "$ ":
                    yield at + len(prompt), token.Text, typed
                else:
                    for start, kind, piece in DatalogLexer().get_tokens_unprocessed(typed):
                        yield at + len(prompt) + start, kind, piece
            else:
                yield at, token.Generic.Error if _WRONG.match(line) else token.Generic.Output, line
            at += len(line)


class CellLexer(Lexer):
    """A lexer for a notebook's cell: a line for IPython, then a program."""

    name = "Datalog cell"
    aliases = ("gdatalog-cell",)

    def get_tokens_unprocessed(self, text: str) -> Iterator[Piece]:
        line = re.match(r"(%%\w+)([^\n]*\n)?", text)
        if line is not None:
            yield 0, token.Keyword, line[1]
            if line[2]:
                yield line.end(1), token.Text, line[2]
        first = line.end() if line is not None else 0
        for start, kind, piece in DatalogLexer().get_tokens_unprocessed(text[first:]):
            yield first + start, kind, piece


_WRONG = re.compile(r"(\S[^\n]*? )?(error|unsafe rule|not stratified|memory limit): ")


def _plain(text: str, at: int, end: int) -> Iterator[Piece]:
    """The text between words: blanks and dots."""
    for found in re.compile(r"\s+|\S+").finditer(text, at, end):
        yield found.start(), token.Whitespace if found[0].isspace() else token.Punctuation, found[0]
