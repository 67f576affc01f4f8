"""The errors of invalid words, each with a hint."""

from __future__ import annotations

import re

from gdatalog.errors import Caution, SourceText, Span
from gdatalog.parser.tokens import Token, error_token

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


_LONG_UNIT = re.compile(
    r"[0-9.]+(?:[wdhms]|[mun]s|y|mo|min|sec|(?:week|day|hour|minute|second|month|year)s?)", re.ASCII
)
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
        elif _LONG_UNIT.fullmatch(word):
            hint = "a duration is written 3h, 7d, 90s, 2w, 1500ms or 1d12h; "
            hint += "months and years have no fixed length"
        return f"`{word}` is not a number", hint, 0
    if kind == "FLOAT":
        hint = f"a number has digits on both sides of the point: `0{word}`"
        return f"`{word}` is not a number", hint, 0
    if kind == "OPEN_STRING":
        hint = 'a string ends with `"` on the line it begins; a line break inside it is \\n'
        return "this string is not closed", hint, len(word.rstrip())
    if kind == "OPEN_COMMENT":
        return "this comment is not closed", "it ends with `*/`", 0
    if kind == "NIL":
        return "`nil` is a reserved word: there are no records yet", "write `null`", 0
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
