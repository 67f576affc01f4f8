"""Words that no program may hold: what to write instead."""

from __future__ import annotations

_INSTEAD = {
    "->": "the arrow of a rule is `<-`: head <- body",
    ":=": "write `=`, or `<-` for the arrow of a rule",
    "==": "write `=`",
    "===": "write `=`",
    "=:=": "write `=`",
    "=\\=": "write `!=`",
    "!==": "write `!=`",
    "<>": "write `!=`",
    "=<": "write `<=`",
    "&&": "and is `,`",
    "||": "or is `;`; texts are joined by `+` or cat(a, b)",
    "\\+": "write `!` or `not`",
    "\\=": "write `!=`",
    "\\==": "write `!=`",
}
_CHARACTERS = {
    "&": "and is `,`; for bits write `band`",
    "~": "write `!` for not, `bnot` for bits",
    "#": "a comment begins with `//`; `#` does so only in column one",
    "\\": "a backslash stands only inside strings",
    "“": 'write straight quotes: "abc"',
    "”": 'write straight quotes: "abc"',
    "‘": 'write straight double quotes: "abc"',
    "’": 'write straight double quotes: "abc"',
    "'": "a prime stands only at the end of a relation's name",
    "@": "a timestamp is written @2026-11-20",
    "≤": "write `<=`",
    "≥": "write `>=`",
    "≠": "write `!=`",
    "←": "write `<-`",
    "¬": "write `!` or `not`",
    "∧": "and is `,`",
    "∨": "or is `;`",
}


def wrong_word(kind: str, word: str, arrow: bool) -> tuple[str, str | None, int]:
    """What is wrong, a hint, and how many characters of the word to point at.

    `arrow`: the statement's arrow has been seen, so that this is none.
    """
    if kind == "JUNK":
        hint = "a name does not begin with a digit; an operator or a comma is missing"
        if word.endswith("_") or "__" in word:
            hint = "underscores stand between digits, one at a time: 1_000"
        elif word[:2] in ("0x", "0X", "0b", "0B"):
            hint = "as in 0xff and 0b101"
        return f"`{word}` is not a number", hint, 0
    if kind == "OPEN_STRING":
        hint = 'a string ends with `"` on the line it begins; a line break inside it is \\n'
        return "this string is not closed", hint, len(word.rstrip())
    if kind == "OPEN_COMMENT":
        return "this comment is not closed", "it ends with `*/`", 0
    if word == "=>":
        hint = "write `>=`" if arrow else "the arrow of a rule is `<-`: head <- body"
        return "there is no operator `=>`", hint, 0
    if word in _INSTEAD:
        return f"there is no operator `{word}`", _INSTEAD[word], 0
    if word.startswith(".."):
        hint = "a range is a generator: i = range(1, 11) counts from 1 to 10"
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
    return f"`{word}` means nothing here", _CHARACTERS.get(word), 0
