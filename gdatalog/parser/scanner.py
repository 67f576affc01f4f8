"""The scanner: splits a text into statements, and these into tokens.

One regular expression finds the words. The context decides the rest: after an operand `land` is an
operator, elsewhere a name; `-` is an operator or a sign; `<-` after the statement's arrow is `<`
and `-`; a dot ends the statement or starts a directive. An invalid word becomes a token of type
ERROR, whose value is the error.
"""

from __future__ import annotations

import re

from gdatalog.errors import Caution, ParseError, SourceText, Span
from gdatalog.parser.directive_words import (
    DIRECTIVE_TYPES,
    DIRECTIVES,
    REFUSED_DIRECTIVES,
    directive_length,
)
from gdatalog.parser.invalid_words import column_one, wrong_token
from gdatalog.parser.lists import FIRST, comparisons, constants
from gdatalog.parser.tokens import (
    ENDS_OPERAND,
    Token,
    duration_token,
    error_token,
    number_token,
    string_token,
    timestamp_token,
)
from gdatalog.parser.words import (
    CLAUSES,
    INFIX_WORDS,
    NAMED,
    find_aggregates,
    find_clauses,
    find_prefix_words,
)
from gdatalog.records import dataclass

NESTING = 200  # maximum depth of brackets and of nodes

PATTERN = re.compile(
    r"""
    (?P<COLUMN_ONE> ^[#%][^\n]* )
  | (?P<SPACE> (?: [ \t\r\n\f\v\ufeff]++ | //[^\n]* | /\*[\s\S]*?\*/ )++ )
  | (?P<NAME> (?: [^\W\d] | \?(?!-) ) [\w?]* (?: \. (?: \w | \?(?!-) ) [\w?]* )* '* )
  | (?P<DURATION> (?: [0-9]+(?:_[0-9]+)*(?:ms|us|ns|[wdhms]) )+ (?![\w?]) )
  | (?P<NUMBER> 0[xX][0-9a-fA-F]+(?:_[0-9a-fA-F]+)*u? | 0[bB][01]+(?:_[01]+)*u?
      | [0-9]+(?:_[0-9]+)* (?: \.[0-9]+(?:_[0-9]+)*(?:[eE][+-]?[0-9]+)? | [eE][+-]?[0-9]+ | u )? )
    (?P<JUNK> [\w?]+ )?
  | (?P<STRING> "[^"\\\n]*(?:\\.[^"\\\n]*)*" )
  | (?P<OPEN_STRING> "[^\n]* )
  | (?P<TIMESTAMP> @[0-9]+(?:-[0-9]+)* (?: T[0-9]+(?::[0-9]+)*(?:\.[0-9]+)?
      (?: Z | [+-][0-9][0-9]:?[0-9][0-9] )? )? \w* )
  | (?P<PARAM> \$[^\W\d]\w*+(?!\s*\() )
  | (?P<OPEN_COMMENT> /\* )
  | (?P<WRONG> =>|->|:=|={2,3}|=<|<>|&&|\|\||\\\+|\\==?|=:=|=\\=|!==|\.{2,}|'[^'\n]*'?
      | @[^\W\d]\w* | \$[^\W\d]\w* | \$ )
  | (?P<FLOAT> \.[0-9]+ )
  | (?P<DIRECTIVE> \.[a-zA-Z_]\w* )
  | (?P<PUNCTUATION> <-|:-|\?-|<=|>=|!=|<:|\*\*|[-(){},.;:|!=<>+*/%^] )
  | (?P<OTHER> [\s\S] )
    """,
    re.VERBOSE | re.MULTILINE,
)

_BRACKETS = {"(": "LPAR", ")": "RPAR", "{": "LBRACE", "}": "RBRACE"}
_SEPARATORS = {",": "COMMA", ";": "SEMICOLON", ":": "COLON", "|": "VBAR"}
_TYPES = {
    **_BRACKETS,
    **_SEPARATORS,
    **{"<-": "ARROW", ":-": "ARROW", "?-": "QUERY", "!": "NOT", "=": "EQUAL", "<:": "SUBTYPE"},
    **dict.fromkeys(("!=", "<", "<=", ">", ">="), "COMPARE"),
    **dict.fromkeys(("+", "-", "*", "/", "%", "^", "**"), "OPERATOR"),
}
_BEFORE_MANY = frozenset({"LPAR", "LBRACE", "COMMA", "SEMICOLON", "ARROW", "QUERY"})
_HEAD_FOLLOWS = re.compile(r"\s*(?:!\s*)?[^\W\d][\w?.]*'*\s*\(")


@dataclass(slots=True)
class Scanned:
    """The tokens of one statement, and where the next one starts.

    `stop` is the end of the statement: "dot", "directive" (which needs no dot), "lost" (cut short
    by a directive or an unclosed string), "open comment", or "end" of the text.
    """

    tokens: list[Token]
    end: int
    stop: str
    cautions: list[Caution]


def scan(source: SourceText, at: int, fast: bool = True) -> Scanned:
    """Scans the statement that starts at `at`. `fast`: a long list of constants becomes one
    token."""
    text = source.text
    tokens: list[Token] = []
    cautions: list[Caution] = []
    arrow = False
    operand = False  # whether the previous token ends an operand
    words = False  # whether some names may be contextual keywords
    depth = 0
    listing = 0  # bracket depth of the current list
    cut = PATTERN.finditer(text, at)
    while (found := next(cut, None)) is not None:
        kind = found.lastgroup or ""
        if kind == "SPACE":
            continue
        start, end = found.span()
        word = found.group()
        value: str | bool | float = word
        if kind == "NAME":
            if operand and value in INFIX_WORDS:
                kind = "OPERATOR"
            elif value in NAMED:
                kind, value = NAMED[value]
                if kind == "NIL":
                    tokens.append(wrong_token(source, kind, start, end, arrow))
                    operand = True
                    continue
                if kind == "IN" and not operand:
                    kind = "NAME"
                elif kind == "NAME":
                    words = True
            elif value in CLAUSES:
                words = True
        elif kind == "PUNCTUATION":
            kind = _TYPES.get(word, "DOT")
            if kind == "DOT":
                if not tokens:
                    tokens.append(
                        error_token(source, start, end, "there is no statement before this dot")
                    )
                return _done(tokens, end, "dot", cautions, words)
            if kind == "OPERATOR":
                if value == "-" and not operand:
                    kind = "SIGN"
                elif value == "**":
                    value = "^"
            elif kind == "ARROW":
                if arrow and value == "<-" and not _starts_statement(tokens, text, end):
                    tokens.append(Token("COMPARE", "<", source, start, start + 1))
                    start, value, kind = start + 1, "-", "SIGN"
                arrow = True
            elif kind == "QUERY":
                arrow = True
            elif kind == "LPAR" or kind == "LBRACE":
                depth += 1
                if depth == NESTING + 1:
                    error = too_deep(Span(source, start, end))
                    tokens.append(Token("ERROR", error, source, start, end))
                    operand = False
                    continue
                if kind == "LBRACE" and tokens and tokens[-1].type == "IN":
                    listing = depth
            elif kind == "RPAR" or kind == "RBRACE":
                listing = 0 if depth == listing else listing
                depth -= 1
            elif kind == "COLON":
                words = True
        elif kind == "PARAM":
            value = word[1:]
        elif kind == "DIRECTIVE":
            name = word[1:]
            known = name in DIRECTIVES or name in REFUSED_DIRECTIVES
            if not tokens:
                kind, value = DIRECTIVES.get(name, "UNKNOWN"), name
            elif known and (tokens[0].type in DIRECTIVE_TYPES or _first_on_line(text, start)):
                stop = "directive" if tokens[0].type in DIRECTIVE_TYPES else "lost"
                return _done(tokens, start, stop, cautions, words)
            else:
                return _done(tokens, start + 1, "dot", cautions, words)
        elif kind == "FLOAT" and operand:
            return _done(tokens, start + 1, "dot", cautions, words)
        elif kind == "COLUMN_ONE":
            problem = column_one(source, start, end)
            if isinstance(problem, Token):
                tokens.append(problem)
                return _done(tokens, end, "lost", cautions, words)
            cautions.append(problem)
            continue
        else:
            tokens.append(_literal(source, kind, tokens, start, end, arrow))
            if kind == "OPEN_STRING":
                return _done(tokens, end, "lost", cautions, words)
            if kind == "OPEN_COMMENT":
                return _done(tokens, len(text), "open comment", cautions, words)
            operand = True
            continue
        tokens.append(Token(kind, value, source, start, end))
        operand = kind in ENDS_OPERAND
        if kind in _BEFORE_MANY and fast:
            if listing and listing == depth:
                many = constants(source, end)
            else:
                first = FIRST.match(text, end)
                many = None if first is None else comparisons(source, first, kind == "COMMA")
            if many is not None:
                tokens.append(many)
                operand = True
                cut = PATTERN.finditer(text, many.end)
    return _done(tokens, len(text), "end", cautions, words)


def _literal(
    source: SourceText, kind: str, tokens: list[Token], start: int, end: int, arrow: bool
) -> Token:
    """The token of a constant or of an invalid word."""
    if kind == "NUMBER":
        minus = bool(tokens) and tokens[-1].value == "-"
        return number_token(source, start, end, minus)
    if kind == "STRING":
        return string_token(source, start, end)
    if kind == "TIMESTAMP":
        return timestamp_token(source, start, end)
    if kind == "DURATION":
        return duration_token(source, start, end)
    return wrong_token(source, kind, start, end, arrow)


def _done(
    tokens: list[Token], end: int, stop: str, cautions: list[Caution], words: bool
) -> Scanned:
    if tokens and tokens[0].type in DIRECTIVE_TYPES:
        kept = directive_length(tokens)
        if tokens[0].type == "PLAN":
            for token in tokens[1:kept]:
                token.type = "PLAN_TEXT"
        if kept < len(tokens):
            tokens, end, stop = tokens[:kept], tokens[kept].start, "directive"
        elif stop == "end":
            stop = "directive"
    elif words:
        find_clauses(tokens)
        find_aggregates(tokens)
        find_prefix_words(tokens)
    if cautions:
        first = tokens[0].start if tokens else end
        last = end if stop == "dot" else tokens[-1].end if tokens else 0
        cautions = [c for c in cautions if c.span and first < c.span.start < last]
    return Scanned(tokens, end, stop, cautions)


def too_deep(span: Span) -> ParseError:
    hint = "split the rule: give a part of it a relation of its own"
    return ParseError(f"this is nested more than {NESTING} deep", span, hint=hint)


def _starts_statement(tokens: list[Token], text: str, end: int) -> bool:
    """Whether a second `<-` in a statement is an arrow rather than `<` and `-`.

    It is if it stands between `r(y)` and `s(...)`: then a dot is missing before `r(y)`, and the
    grammar reports the second arrow.
    """
    if not tokens or tokens[-1].type != "RPAR":
        return False
    return _HEAD_FOLLOWS.match(text, end) is not None


def _first_on_line(text: str, start: int) -> bool:
    return not text[text.rfind("\n", 0, start) + 1 : start].strip()
