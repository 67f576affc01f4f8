"""Contextual keywords, invalid words, and the names of directives.

`max` opens an aggregate only if a colon follows; `bnot` is an operator only before a value.
"""

from __future__ import annotations

import re
from typing import Any

from gdatalog.errors import Caution, SourceText, Span, UsageError
from gdatalog.parser.tokens import ENDS_OPERAND, OPENING, STARTS_OPERAND, Token, error_token

AGGREGATES = ("count", "sum", "min", "max", "mean", "count_distinct", "any_value")
INFIX_WORDS = frozenset({"lor", "lxor", "land", "bor", "bxor", "band", "bshl", "bshr", "bshru"})
PREFIX_WORDS = frozenset({"bnot", "lnot"})

# Type and value of words that are not a NAME. Where no operator can stand, `in` is a name.
NAMED: dict[str, tuple[str, Any]] = {
    "_": ("WILDCARD", "_"),
    "true": ("BOOL", True),
    "false": ("BOOL", False),
    "inf": ("NUMBER", float("inf")),
    **{word: ("NULL", word) for word in ("null", "nil")},
    "not": ("NOT", "not"),
    "in": ("IN", "in"),
    **{word: ("NAME", word) for word in PREFIX_WORDS},
}
RESERVED = frozenset({"true", "false", "not", "inf", "null", "nil", "_"})  # not valid as names
_NAME = re.compile(r"[^\W\d][\w?]*(\.[\w?]+)*'*")
NO_NULL = (
    "every column of a row has a value: give the rows that have one a relation of their own, "
    'or write a value that stands for none, such as -1 or ""'
)


def check_relation_name(name: object) -> None:
    if isinstance(name, str):
        if _NAME.fullmatch(name) and name not in RESERVED:
            return
        other = re.sub(r"\W", "_", name)
    else:
        other = ""
    hint = "a name is a letter or `_`, then letters, digits and `_`"
    if _NAME.fullmatch(other) and other not in RESERVED:
        hint += f": {other!r}"
    raise UsageError(f"not a relation's name: {name!r}", hint=hint)


def find_aggregates(tokens: list[Token]) -> None:
    """Marks names that open an aggregate as AGGREGATE: a colon follows at their depth.

    A name directly followed by a value must open one (`sum x`); before `(` or `-` it may also be a
    function or a variable (`sum x * min(x, y) : ...`), so these are tried second.
    """
    depth = 0
    open_: list[tuple[int, int, bool]] = []  # depth, index, whether it must open an aggregate
    for at, token in enumerate(tokens):
        kind = token.type
        if kind == "NAME":
            if token.value in AGGREGATES and at + 1 < len(tokens):
                after = tokens[at + 1]
                follows_one = bool(open_) and open_[-1][1] == at - 1
                if after.type == "COLON":
                    if token.value == "count" and not follows_one:
                        open_.append((depth, at, True))
                elif after.type == "LPAR" or after.text == "-":
                    open_.append((depth, at, False))
                elif after.type in STARTS_OPERAND:
                    open_.append((depth, at, True))
        elif kind in OPENING:
            depth += 1
        elif kind == "RPAR" or kind == "RBRACE":
            depth -= 1
            while open_ and open_[-1][0] > depth:
                open_.pop()
        elif kind == "COLON":
            _open_aggregate(tokens, open_, depth)
        elif kind in ("COMMA", "SEMICOLON", "ARROW", "QUERY", "COMPARE", "EQUAL"):
            while (
                open_
                and open_[-1][0] == depth
                and not (kind == "COMMA" and tokens[open_[-1][1]].value == "count_distinct")
            ):
                open_.pop()


def _open_aggregate(tokens: list[Token], open_: list[tuple[int, int, bool]], depth: int) -> None:
    """Assigns a colon to an open name: the last one that needs it, otherwise the last that can
    have it."""
    second: int | None = None
    while open_ and open_[-1][0] == depth:
        _, owner, certain = open_.pop()
        if certain:
            break
        if second is None:
            second = owner
    else:
        if second is None:
            return
        owner = second
    tokens[owner].type = "AGGREGATE"
    if tokens[owner + 1].text == "-":
        tokens[owner + 1].type = "SIGN"


def find_prefix_words(tokens: list[Token]) -> None:
    """`bnot x` and `lnot x` are operators where an operand may start; `bnot(x)` is a call.

    `bnot -x` is one too, `bnot - x` a difference.
    """
    for at in range(len(tokens) - 1):
        token, after = tokens[at], tokens[at + 1]
        if token.type != "NAME" or token.value not in PREFIX_WORDS:
            continue
        if at and tokens[at - 1].type in ENDS_OPERAND:
            continue
        touches = at + 2 < len(tokens) and tokens[at + 2].start == after.end
        if after.value == "-" and after.start > token.end and touches:
            token.type = after.type = "SIGN"
        elif after.type in STARTS_OPERAND and after.type != "LPAR":
            token.type = "SIGN"


# Hints for invalid words.

_INSTEAD = {
    "->": "the arrow of a rule is `<-`: head <- body",
    ":=": "write `=`, or `<-` for the arrow of a rule",
    **dict.fromkeys(("==", "===", "=:="), "write `=`"),
    **dict.fromkeys(("=\\=", "!==", "<>", "\\=", "\\=="), "write `!=`"),
    "=<": "write `<=`",
    "&&": "and is `,`",
    "||": "or is `;`; texts are joined by `+` or cat(a, b)",
    "\\+": "write `!` or `not`",
}
_CHARACTERS = {
    "&": "and is `,`; for bits write `band`",
    "~": "write `!` for not, `bnot` for bits",
    "#": "a comment begins with `//`; `#` does so only in column one",
    "\\": "a backslash is only allowed in strings",
    **dict.fromkeys("“”", 'write straight quotes: "abc"'),
    **dict.fromkeys("‘’", 'write straight double quotes: "abc"'),
    "'": "a prime is only allowed at the end of a relation's name",
    "@": "a timestamp is written @2026-11-20",
    **dict.fromkeys("−–", "write `-`"),
    "≤": "write `<=`",
    "≥": "write `>=`",
    "≠": "write `!=`",
    "←": "write `<-`",
    "¬": "write `!` or `not`",
    "∧": "and is `,`",
    "∨": "or is `;`",
}


def wrong_token(source: SourceText, kind: str, start: int, end: int, arrow: bool) -> Token:
    """The error token of an invalid word. `arrow`: the statement's arrow was seen."""
    word = source.text[start:end]
    after = source.text[end : end + 1]
    message, hint, length = _explained(kind, word, after, arrow)
    return error_token(source, start, start + length if length else end, message, hint)


_PREPROCESSOR = re.compile(
    r"#(include|define|undef|ifdef|ifndef|if|elif|else|endif|pragma)\b", re.ASCII
)


def column_one(source: SourceText, start: int, end: int) -> Token | Caution:
    """A line that starts with `#` or `%`: the caution to show if it is inside a statement.

    A line of the C preprocessor is always an error.
    """
    line = source.text[start:end]
    word = _PREPROCESSOR.match(line)
    if word:
        hint = {
            "include": 'write `.include "file.dl"`',
            "define": "a value comes from outside: write `$name`, and give it with -M name=value",
        }.get(word[1], "include files with `.include`, and give values with -M name=value")
        message = f"there is no preprocessor: `#{word[1]}` means nothing here"
        return error_token(source, start, start + len(word[0]), message, hint)
    return Caution(
        f"this line is a comment, for it starts with `{line[0]}`, but it is inside a statement",
        Span(source, start, start + len(line.rstrip())),
        "write `//` for a comment, or end the statement before it with a dot"
        + ("; put a space before a `%` that means modulo" if line[0] == "%" else ""),
    )


def _explained(kind: str, word: str, after: str, arrow: bool) -> tuple[str, str | None, int]:
    """The message, a hint, and the number of characters of the word to underline (0: all)."""
    if kind == "JUNK":
        hint = "a name does not begin with a digit; an operator or a comma is missing"
        if word.endswith("_") or "__" in word:
            hint = "each underscore needs a digit on both sides: 1_000"
        elif word[:2] in ("0x", "0X", "0b", "0B"):
            hint = "as in 0xff and 0b101"
        return f"`{word}` is not a number", hint, 0
    if kind == "FLOAT":
        hint = f"a number has digits on both sides of the point: `0{word}`"
        return f"`{word}` is not a number", hint, 0
    if kind == "OPEN_STRING":
        hint = 'a string ends with `"` on the line it begins; a line break inside it is \\n'
        return "this string is not closed", hint, len(word.rstrip())
    if kind == "OPEN_COMMENT":
        return "this comment is not closed", "it ends with `*/`", 0
    if kind == "NULL":
        return f"`{word}` is a reserved word: there is no null yet", NO_NULL, 0
    if word == "=>":
        hint = "write `>=`" if arrow else "the arrow of a rule is `<-`: head <- body"
        return "there is no operator `=>`", hint, 0
    if word in _INSTEAD:
        return f"there is no operator `{word}`", _INSTEAD[word], 0
    if word.startswith(".."):
        hint = "a range is a generator: i = range(1, 11) counts from 1 to 10"
        if not (after.isalnum() or after in ("_", "-", "(", "$")):
            hint = "one dot ends a statement"
        return f"there is no operator `{word}`", hint, 0
    if word in "[]":
        hint = "give each field a column of its own"
        return "records and lists are not in the language", hint, 0
    if word.startswith("'") and len(word) > 1:
        inner = word.strip("'")
        return f"`{word}` is not a string", f'write "{inner}"', 0
    if word.startswith("@") and len(word) > 1:
        hint = "compute the values before they are loaded, or use the language's functions"
        return "user-defined functors are not in the language", hint, 0
    if word == "$":
        hint = "a parameter is written $name; rows are numbered in the data"
        return "`$` is not in the language", hint, 0
    if word.startswith("$"):
        hint = "give each field a column of its own; a parameter is written $name"
        return f"variants such as `{word}(...)` are not in the language", hint, 0
    if word == "#" and after.isalpha():
        hint = "an aggregate is written `n = count : { R(x) }`; a comment begins with `//`"
        return "`#` means nothing here", hint, 0
    if not word.isprintable():
        return f"the character U+{ord(word):04X} means nothing here", "type a plain space", 0
    return f"`{word}` means nothing here", _CHARACTERS.get(word), 0


# Directives: their names, and where they end without a dot.

QUALIFIERS = frozenset({
    "input", "output", "printsize", "inline", "no_inline", "btree", "btree_delete", "brie", "magic",
    "no_magic", "overridable", "eqrel",
})  # fmt: skip


# A directive's name, and the type of its token.
DIRECTIVES = {
    "decl": "DECL",
    "type": "TYPE",
    **dict.fromkeys(("number_type", "symbol_type"), "OLD_TYPE"),
    **dict.fromkeys(("input", "output", "printsize", "limitsize"), "IO"),
    "include": "INCLUDE",
    "pragma": "PRAGMA",
    "plan": "PLAN",
}
# Soufflé's directives that we reject by name; they also end a statement that lacks its dot.
REFUSED_DIRECTIVES = frozenset({"comp", "init", "functor", "lattice", "override", "once"})
DIRECTIVE_TYPES = frozenset(DIRECTIVES.values()) | {"UNKNOWN"}


def directive_length(tokens: list[Token]) -> int:
    """The number of tokens of the directive that starts here.

    It ends once it is complete and the next token cannot continue it.
    """
    kind = tokens[0].type
    depth = 0
    for at in range(1, len(tokens)):
        token = tokens[at]
        if token.type in OPENING or (token.type == "ERROR" and token.text == "["):
            depth += 1
        elif token.text in (")", "}", "]"):
            depth -= 1
            continue
        if depth > 0:
            continue
        if not _goes_on(kind, tokens, at):
            return at
    return len(tokens)


def _goes_on(kind: str, tokens: list[Token], at: int) -> bool:
    """Whether the token at `at`, outside brackets, belongs to the directive."""
    token, before = tokens[at], tokens[at - 1]
    new_line = "\n" in token.source.text[before.end : token.start]
    if kind == "PLAN":
        ends_line = before.type in ("PLAN", "NUMBER", "RPAR")
        return token.type in ("NUMBER", "COLON", "LPAR", "COMMA") and not (new_line and ends_line)
    if kind == "PRAGMA" or kind == "INCLUDE":
        many = kind == "PRAGMA" and not new_line
        if token.type == "NAME":
            return at == 1 and not new_line  # its quotes are missing
        return token.type in ("STRING", "ERROR") and (many or at == 1)
    if kind == "UNKNOWN":
        return not new_line
    if before.type in ("COMMA", "VBAR", "EQUAL", "SUBTYPE") or token.type == "COMMA":
        return True
    if at == 1:
        # Without a name the directive is invalid; it ends at its line.
        return token.type == "NAME" or not new_line
    if kind == "TYPE":
        return token.type in ("EQUAL", "SUBTYPE", "VBAR", "ERROR", "LBRACE")
    if kind == "DECL":
        if not new_line and any(part.value == "choice" for part in tokens[4:at]):
            return True  # Soufflé's choice-domain, rejected later
        if token.type == "NAME" and before.type in ("NAME", "RPAR", "ERROR"):
            # A name that could also start the next statement is a qualifier only if the next
            # token does not continue such a statement.
            after = tokens[at + 1] if at + 1 < len(tokens) else None
            goes_on = (
                after is None
                or after.type in ("NAME", "QUERY")
                or token.value == "choice"
                or "\n" in token.source.text[token.end : after.start]
            )
            return goes_on and (token.value in QUALIFIERS or not new_line)
        return token.type in ("LPAR", "ERROR") or (not new_line and token.type == "OPERATOR")
    return token.type == "LPAR" and before.type == "NAME"
