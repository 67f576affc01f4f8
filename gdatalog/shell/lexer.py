"""Datalog for Pygments, which colours it in documentation, in notebooks and for `pygmentize`.

The words are those of our scanner, so that what is coloured is what is read. Half a program, or
a wrong one, has colours too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pygments.lexer import Lexer
from pygments.token import (
    Comment,
    Error,
    Generic,
    Keyword,
    Literal,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Text,
    Whitespace,
    _TokenType,
)

from gdatalog.errors import Source
from gdatalog.parser.directives import DIRECTIVE_TYPES, DIRECTIVES, QUALIFIERS
from gdatalog.parser.scanner import scan
from gdatalog.parser.tokens import Token
from gdatalog.plan.functions import AGGREGATES, ALIASES, FUNCTIONS, GENERATORS, TYPES

Piece = tuple[int, _TokenType, str]

_KINDS = {
    "WILDCARD": Name.Variable,
    "NUMBER": Number,
    "STRING": String,
    "TIMESTAMP": Literal.Date,
    "BOOL": Keyword.Constant,
    "PARAM": Name.Variable.Global,
    "AGGREGATE": Name.Builtin,
    "ERROR": Error,
    "ARROW": Operator,
    "QUERY": Operator,
    "NOT": Operator,
    "IN": Operator,
    "EQUAL": Operator,
    "COMPARE": Operator,
    "OPERATOR": Operator,
    "SIGN": Operator,
    "SUBTYPE": Operator,
}
_CALLED = AGGREGATES | GENERATORS | frozenset((*FUNCTIONS, *ALIASES, "distinct", "as"))
_TYPES = frozenset((*TYPES, "number", "unsigned"))
_GAP = re.compile(r"//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)|^[#%][^\n]*|\s+|.", re.MULTILINE)


class DatalogLexer(Lexer):
    """Programs.

    >>> pieces = DatalogLexer().get_tokens("p(x) <- q(x), x > 1.")
    >>> [text for kind, text in pieces if kind in Name.Function]
    ['p', 'q']
    """

    name = "Datalog"
    aliases = ("datalog", "gdatalog", "souffle")
    filenames = ("*.dl",)
    mimetypes = ()

    def get_tokens_unprocessed(self, text: str) -> Iterator[Piece]:
        source = Source("<text>", text)
        at = 0
        while at < len(text):
            scanned = scan(source, at)
            for place, token in enumerate(scanned.tokens):
                yield from _between(text, at, token.start)
                if token.type == "ERROR" and token.text.startswith("/*"):
                    yield token.start, Comment, text[token.start :]
                    return
                yield token.start, _kind(scanned.tokens, place), token.text
                at = token.end
            end = max(scanned.end, at + (not scanned.tokens))
            yield from _between(text, at, end)
            at = end


class SessionLexer(Lexer):
    """What a terminal showed: commands after `$`, and conversations with the prompt."""

    name = "Datalog session"
    aliases = ("gdatalog-console",)
    filenames = ()
    mimetypes = ()

    def get_tokens_unprocessed(self, text: str) -> Iterator[Piece]:
        at = 0
        for line in text.splitlines(keepends=True):
            prompt = _PROMPT.match(line)
            if prompt is None:
                wrong = _WRONG.match(line)
                yield at, Generic.Error if wrong else Generic.Output, line
            else:
                yield at, Generic.Prompt, prompt[0]
                yield from self._typed(line, at, prompt.end())
            at += len(line)

    def _typed(self, line: str, at: int, start: int) -> Iterator[Piece]:
        typed = line[start:]
        command = _COMMAND.match(typed)
        name = command[0] if command is not None and command[1] not in DIRECTIVES else ""
        if name:
            yield at + start, Keyword, name
        rest = at + start + len(name)
        if line.startswith("$") or (name and name[1:] not in _OF_TEXT):
            yield rest, Text, typed[len(name) :]
        else:
            for place, kind, text in DatalogLexer().get_tokens_unprocessed(typed[len(name) :]):
                yield rest + place, kind, text


_COMMAND = re.compile(r"\.(\w+)")
_OF_TEXT = frozenset({"explain", "profile"})  # commands whose argument is a text of the language
_PROMPT = re.compile(r"\$ |gdatalog> |     \.\.\.> ")
_WRONG = re.compile(r"\S[^\n]*? error: |error: ")


def _kind(tokens: list[Token], place: int) -> _TokenType:
    token = tokens[place]
    if token.type in DIRECTIVE_TYPES:
        return Keyword
    if token.type == "NAME":
        return _kind_of_name(tokens, place)
    kind = _KINDS.get(token.type, Punctuation)
    return Operator.Word if kind is Operator and token.text[0].isalpha() else kind


def _kind_of_name(tokens: list[Token], place: int) -> _TokenType:
    name = tokens[place].value
    called = place + 1 < len(tokens) and tokens[place + 1].type == "LPAR"
    opens = tokens[0].type
    if opens in DIRECTIVE_TYPES and opens != "PLAN":
        before = tokens[place - 1].type
        if opens in ("TYPE", "OLD_TYPE") or (before == "COLON" and opens == "DECL"):
            return Keyword.Type
        if _depth(tokens, place):
            return Name.Attribute
        return Keyword if name in QUALIFIERS and before != opens else Name.Function
    if not called:
        return Name.Variable
    return Name.Builtin if name in _CALLED and place else Name.Function


def _depth(tokens: list[Token], place: int) -> int:
    """In how many brackets a token stands that hold arguments."""
    kinds = [token.type for token in tokens[:place]]
    return kinds.count("LPAR") - kinds.count("RPAR")


def _between(text: str, at: int, end: int) -> Iterator[Piece]:
    """What stands between words: blanks, comments, and the dot."""
    for found in _GAP.finditer(text, at, end):
        piece = found[0]
        if piece.isspace():
            kind = Whitespace
        elif piece.startswith(("//", "/*")) or (piece[0] in "#%" and len(piece) > 1):
            kind = Comment
        else:
            kind = Punctuation
        yield found.start(), kind, piece
