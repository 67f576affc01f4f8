"""From text to the tokens of one statement after the other.

One regular expression cuts the text. What it cannot know is decided here from the token before:
whether an operator or an operand may come next (so `land` is an operator in `x land y` and a
name elsewhere, and `-` is an operator or a sign), whether the statement's arrow has been seen
(then `<-` is `<` and `-`), and whether a dot ends the statement, or opens a directive.
A word that no program may hold becomes a token of type ERROR, whose value is the error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from gdatalog.errors import Caution, ParseError, Source, Span
from gdatalog.parser.tokens import (
    Token,
    error_token,
    number_token,
    string_token,
    timestamp_token,
)
from gdatalog.parser.wrong_words import wrong_word

NESTING = 200  # brackets within brackets, and nodes within nodes

AGGREGATES = frozenset({"count", "sum", "min", "max", "mean", "count_distinct", "any_value"})
INFIX_WORDS = frozenset({"lor", "lxor", "land", "bor", "bxor", "band", "bshl", "bshr", "bshru"})
PREFIX_WORDS = frozenset({"bnot", "lnot"})
QUALIFIERS = frozenset(
    [
        "input",
        "output",
        "printsize",
        "inline",
        "no_inline",
        "btree",
        "btree_delete",
        "brie",
        "magic",
        "no_magic",
        "overridable",
        "eqrel",
        "override",
    ]
)

# A directive's name, and the type of its token.
DIRECTIVES = {
    "decl": "DECL",
    "type": "TYPE",
    "number_type": "OLD_TYPE",
    "symbol_type": "OLD_TYPE",
    "input": "IO",
    "output": "IO",
    "printsize": "IO",
    "limitsize": "IO",
    "include": "INCLUDE",
    "pragma": "PRAGMA",
    "plan": "PLAN",
}
# Soufflé's, which are refused by name; known, so that they end a statement that lacks its dot.
REFUSED_DIRECTIVES = frozenset({"comp", "init", "functor", "lattice", "override", "once"})

PATTERN = re.compile(
    r"""
    (?P<COLUMN_ONE> ^[#%][^\n]* )
  | (?P<SPACE> (?: [ \t\r\n\f\v\ufeff]++ | //[^\n]* | /\*[\s\S]*?\*/ )++ )
  | (?P<NAME> (?: [^\W\d] | \?(?!-) ) [\w?]* (?: \. (?: \w | \?(?!-) ) [\w?]* )* '* )
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

_TYPES = {
    "(": "LPAR",
    ")": "RPAR",
    "{": "LBRACE",
    "}": "RBRACE",
    ",": "COMMA",
    ";": "SEMICOLON",
    ":": "COLON",
    "|": "VBAR",
    "<-": "ARROW",
    ":-": "ARROW",
    "?-": "QUERY",
    "!": "NOT",
    "=": "EQUAL",
    "<:": "SUBTYPE",
    **dict.fromkeys(("!=", "<", "<=", ">", ">="), "COMPARE"),
    **dict.fromkeys(("+", "-", "*", "/", "%", "^", "**"), "OPERATOR"),
}
_ENDS_OPERAND = frozenset(
    [
        "NAME",
        "WILDCARD",
        "NUMBER",
        "STRING",
        "TIMESTAMP",
        "BOOL",
        "PARAM",
        "RPAR",
        "RBRACE",
        "ERROR",
    ]
)
_OPENING = frozenset({"LPAR", "LBRACE"})
_STARTS_OPERAND = frozenset(
    [
        "NAME",
        "WILDCARD",
        "NUMBER",
        "STRING",
        "TIMESTAMP",
        "BOOL",
        "PARAM",
        "LPAR",
        "SIGN",
        "AGGREGATE",
        "ERROR",
    ]
)


@dataclass(slots=True)
class Scanned:
    """The tokens of one statement, and where the next one starts.

    `stop`: "dot", "directive" (a directive needs no dot), "lost" (cut short by a directive or
    by a string that is not closed), "open comment", or "end" of the text.
    """

    tokens: list[Token]
    end: int
    stop: str
    cautions: list[Caution]


def scan(source: Source, at: int) -> Scanned:
    """The tokens of the statement that starts at `at`."""
    text = source.text
    tokens: list[Token] = []
    cautions: list[Caution] = []
    arrow = False
    operand = False  # the token before ends an operand
    words = False  # some names may turn out to be words of the language
    depth = 0
    for found in PATTERN.finditer(text, at):
        kind = found.lastgroup or ""
        if kind == "SPACE":
            continue
        start, end = found.span()
        value: Any = found.group()
        if kind == "NAME":
            if operand and value in INFIX_WORDS:
                kind = "OPERATOR"
            elif value in _NAMED:
                kind, value = _NAMED[value]
                if kind == "IN" and not operand:
                    kind = "NAME"
                elif kind == "NAME":
                    words = True
        elif kind == "PUNCTUATION":
            kind = _TYPES.get(value, "DOT")
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
                    tokens.append(too_deep(Span(source, start, end)))
                    operand = False
                    continue
            elif kind == "RPAR" or kind == "RBRACE":
                depth -= 1
            elif kind == "COLON":
                words = True
        elif kind == "NUMBER":
            minus = bool(tokens) and tokens[-1].type == "SIGN" and tokens[-1].value == "-"
            tokens.append(number_token(source, start, end, minus))
            operand = True
            continue
        elif kind == "STRING":
            tokens.append(string_token(source, start, end))
            operand = True
            continue
        elif kind == "TIMESTAMP":
            tokens.append(timestamp_token(source, start, end))
            operand = True
            continue
        elif kind == "PARAM":
            value = value[1:]
        elif kind == "DIRECTIVE":
            name = value[1:]
            known = name in DIRECTIVES or name in REFUSED_DIRECTIVES
            if not tokens:
                kind, value = DIRECTIVES.get(name, "UNKNOWN"), name
            elif known and (tokens[0].type in _DIRECTIVE_TYPES or _first_on_line(text, start)):
                stop = "directive" if tokens[0].type in _DIRECTIVE_TYPES else "lost"
                return _done(tokens, start, stop, cautions, words)
            else:
                return _done(tokens, start + 1, "dot", cautions, words)
        elif kind == "FLOAT":
            if operand:
                return _done(tokens, start + 1, "dot", cautions, words)
            tokens.append(
                error_token(
                    source,
                    start,
                    end,
                    f"`{value}` is not a number",
                    f"a number has digits on both sides of the point: `0{value}`",
                )
            )
            operand = True
            continue
        elif kind == "COLUMN_ONE":
            problem = _column_one(source, start, end, bool(tokens))
            if isinstance(problem, Token):
                tokens.append(problem)
                return _done(tokens, end, "lost", cautions, False)
            if problem is not None:
                cautions.append(problem)
            continue
        else:
            tokens.append(_wrong(source, kind, value, start, end, arrow))
            if kind == "OPEN_STRING":
                return _done(tokens, end, "lost", cautions, words)
            if kind == "OPEN_COMMENT":
                return _done(tokens, len(text), "open comment", cautions, words)
            operand = True
            continue
        tokens.append(Token(kind, value, source, start, end))
        operand = kind in _ENDS_OPERAND
    return _done(tokens, len(text), "end", cautions, words)


_DIRECTIVE_TYPES = frozenset(DIRECTIVES.values()) | {"UNKNOWN"}
_NAMED: dict[str, tuple[str, Any]] = {
    "_": ("WILDCARD", "_"),
    "true": ("BOOL", True),
    "false": ("BOOL", False),
    "inf": ("NUMBER", float("inf")),
    "not": ("NOT", "not"),
    "in": ("IN", "in"),
    "bnot": ("NAME", "bnot"),
    "lnot": ("NAME", "lnot"),
}


def _done(
    tokens: list[Token], end: int, stop: str, cautions: list[Caution], words: bool
) -> Scanned:
    if tokens and tokens[0].type in _DIRECTIVE_TYPES:
        kept = _directive_length(tokens)
        if tokens[0].type == "PLAN":
            for token in tokens[1:kept]:
                token.type = "PLAN_TEXT"
        if kept < len(tokens):
            tokens, end, stop = tokens[:kept], tokens[kept].start, "directive"
        elif stop == "end":
            stop = "directive"
    else:
        if words:
            _find_aggregates(tokens)
            _find_prefix_words(tokens)
    return Scanned(tokens, end, stop, cautions)


def too_deep(span: Span) -> Token:
    error = ParseError(
        f"this is nested more than {NESTING} deep",
        span,
        hint="split the rule: give a part of it a relation of its own",
    )
    return Token("ERROR", error, span.source, span.start, span.end)


def _starts_statement(tokens: list[Token], text: str, end: int) -> bool:
    """Whether the `<-` after a statement's arrow is an arrow all the same.

    After `r(y)` and before `s(...)` it is one: then a dot is missing before `r(y)`, and
    the grammar stops at the second arrow.
    """
    if not tokens or tokens[-1].type != "RPAR":
        return False
    after = re.compile(r"\s*(?:!\s*)?[^\W\d][\w?.]*'*\s*\(").match(text, end)
    return after is not None


def _first_on_line(text: str, start: int) -> bool:
    return not text[text.rfind("\n", 0, start) + 1 : start].strip()


def _column_one(source: Source, start: int, end: int, inside: bool) -> Token | Caution | None:
    """A line that starts with `#` or `%`: a comment, unless the C preprocessor is meant."""
    line = source.text[start:end]
    word = re.match(r"#(include|define|undef|ifdef|ifndef|if|elif|else|endif|pragma)\b", line)
    if word:
        hint = {
            "include": 'write `.include "file.dl"`',
            "define": "a value comes from outside: write `$name`, and give it with -M name=value",
        }.get(word[1], "include files with `.include`, and give values with -M name=value")
        message = f"there is no preprocessor: `#{word[1]}` means nothing here"
        return error_token(source, start, start + len(word[0]), message, hint)
    if inside:
        return Caution(
            f"this line is a comment, for it starts with `{line[0]}`, but it is inside a statement",
            Span(source, start, start + len(line.rstrip())),
            "write `//` for a comment, or end the statement before it with a dot"
            + ("; put a space before a `%` that means modulo" if line[0] == "%" else ""),
        )
    return None


def _wrong(source: Source, kind: str, value: str, start: int, end: int, arrow: bool) -> Token:
    message, hint, length = wrong_word(kind, value, arrow)
    return error_token(source, start, start + (length or end - start), message, hint)


def _find_aggregates(tokens: list[Token]) -> None:
    """Turn the names that open an aggregate into AGGREGATE: a colon follows at their depth."""
    depth = 0
    open_: list[tuple[int, int]] = []  # depth and index of names that may open one
    for at, token in enumerate(tokens):
        kind = token.type
        if kind == "NAME":
            if token.value in AGGREGATES and at + 1 < len(tokens):
                after = tokens[at + 1]
                if (
                    after.type == "COLON"
                    if token.value == "count"
                    else after.type in _STARTS_OPERAND or after.text == "-"
                ) or (token.value == "count" and after.type in _STARTS_OPERAND):
                    open_.append((depth, at))
        elif kind in _OPENING:
            depth += 1
        elif kind == "RPAR" or kind == "RBRACE":
            depth -= 1
            while open_ and open_[-1][0] > depth:
                open_.pop()
        elif kind == "COLON":
            while open_:
                owner_depth, owner = open_.pop()
                if owner_depth == depth:
                    tokens[owner].type = "AGGREGATE"
                    if tokens[owner + 1].type == "OPERATOR":
                        tokens[owner + 1].type = "SIGN"
                    break
        elif kind in ("COMMA", "SEMICOLON", "ARROW", "QUERY", "COMPARE", "EQUAL"):
            while (
                open_
                and open_[-1][0] == depth
                and not (kind == "COMMA" and tokens[open_[-1][1]].value == "count_distinct")
            ):
                open_.pop()


def _find_prefix_words(tokens: list[Token]) -> None:
    """`bnot x` and `lnot x` are operators where an operand may start; `bnot(x)` is a call."""
    for at in range(len(tokens) - 1):
        token = tokens[at]
        if token.type == "NAME" and token.value in PREFIX_WORDS:
            after = tokens[at + 1].type
            before = tokens[at - 1].type if at else "COMMA"
            if before not in _ENDS_OPERAND and after in _STARTS_OPERAND and after != "LPAR":
                token.type = "SIGN"


def _directive_length(tokens: list[Token]) -> int:
    """How many of the tokens belong to the directive that the first one opens.

    It ends where it is complete and what follows cannot go on with it.
    """
    kind = tokens[0].type
    depth = 0
    for at in range(1, len(tokens)):
        token, before = tokens[at], tokens[at - 1]
        if token.type in _OPENING:
            depth += 1
        elif token.type in ("RPAR", "RBRACE"):
            depth -= 1
        if depth > 0 or token.type in ("RPAR", "RBRACE"):
            continue
        if not _goes_on(kind, tokens, at):
            return at
    return len(tokens)


def _goes_on(kind: str, tokens: list[Token], at: int) -> bool:
    """Whether the token at `at`, outside brackets, still belongs to its directive."""
    token, before = tokens[at], tokens[at - 1]
    new_line = "\n" in token.source.text[before.end : token.start]
    if kind == "PLAN":
        ends_line = before.type in ("PLAN", "NUMBER", "RPAR")
        return token.type in ("NUMBER", "COLON", "LPAR", "COMMA") and not (new_line and ends_line)
    if kind == "PRAGMA" or kind == "INCLUDE":
        many = kind == "PRAGMA" and not new_line
        return token.type in ("STRING", "ERROR") and (many or at == 1)
    if kind == "UNKNOWN":
        return not new_line
    if before.type in ("COMMA", "VBAR", "EQUAL", "SUBTYPE") or token.type == "COMMA":
        return True
    if at == 1:
        # Without a name the directive is broken; the next line is not part of that.
        return token.type == "NAME" or not new_line
    if kind == "TYPE":
        if token.type in ("EQUAL", "SUBTYPE", "VBAR", "ERROR", "LBRACE"):
            return True
        return False
    if kind == "DECL":
        if token.type == "NAME" and before.type in ("NAME", "RPAR", "ERROR"):
            after = tokens[at + 1].type if at + 1 < len(tokens) else "DOT"
            opens = after not in ("NAME", "DOT")
            return not opens and (token.value in QUALIFIERS or not new_line)
        return token.type in ("LPAR", "ERROR") or (not new_line and token.type == "OPERATOR")
    return token.type == "LPAR" and before.type == "NAME"
