"""Texts as people see them: without control characters, and how wide they are on a terminal.

Names, values, program texts and file names come from anywhere. Whatever shows them to a person, on
a terminal or in a notebook, passes them through `visible`, `visible_lines` or `visible_html`: else
an escape sequence could repaint the screen, and a bidi override could show another text than is
there. Files and pipes in a data format hold the values themselves.

A terminal has cells. Chinese and most emoji take two of them, marks that stand above a letter
none, and some sequences are shown as one sign: flags, families, letters with several marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from unicodedata import category, east_asian_width

_JOINER, _AS_EMOJI = "\u200d", "\ufe0f"
_KEPT = "\u200c\u200d"  # invisible, but texts are misread without them
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNSEEN = re.compile(r"[^\x20-\x7e]")
_UNSEEN_IN_LINES = re.compile(r"[^\x20-\x7e\n\t]")


def visible(text: str) -> str:
    """The text on one line. Control, bidi and other invisible characters, line breaks and lone
    surrogates are escaped, as a program would write them.

    >>> visible("a\\tb\\x1b[31m")
    'a\\\\tb\\\\u001b[31m'
    """
    return text if text.isascii() and text.isprintable() else _UNSEEN.sub(_seen, text)


def visible_lines(text: str) -> str:
    """The same of a text that has lines of its own: line feeds and tabs stay.

    >>> visible_lines("a\\n\\tb\\x1b[31m")
    'a\\n\\tb\\\\u001b[31m'
    """
    return _UNSEEN_IN_LINES.sub(_seen, text)


def visible_html(text: str) -> str:
    """The text on one line, as HTML.

    >>> visible_html("<b>\\u202e")
    '&lt;b&gt;\\\\u202e'
    """
    from html import escape

    return escape(visible(text))


def _seen(found: re.Match[str]) -> str:
    character = found[0]
    if character.isprintable() or character in _KEPT or category(character) == "Zs":
        return character
    code = ord(character)
    return _ESCAPES.get(character) or (f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}")


def width(text: str) -> int:
    """How many cells a text takes.

    >>> width("abc"), width("中文"), width("e\\u0301"), width("👩\\u200d🚀")
    (3, 4, 1, 2)
    """
    return len(text) if text.isascii() else sum(size for _, size in _signs(text))


def cut(text: str, most: int) -> str:
    """The text, or as much of it as fits with a mark behind it; no sign is cut in two.

    >>> cut("table", 4), cut("中文字", 4), cut("abc", 3)
    ('tab…', '中…', 'abc')
    """
    if width(text) <= most:
        return text
    room, end = most - 1, 0
    for sign, size in _signs(text):
        room -= size
        if room < 0:
            break
        end += len(sign)
    return text[:end] + "…"


def _signs(text: str) -> Iterator[tuple[str, int]]:
    """What is shown as one sign each, and its cells."""
    start, end = 0, len(text)
    while start < end:
        first, at = text[start], start + 1
        size = _cells(first)
        if at < end and _is_of_flags(first) and _is_of_flags(text[at]):
            at += 1
        while at < end:
            if text[at] == _AS_EMOJI and not first.isalpha():
                size = 2
            elif text[at] == _JOINER and size == 2 and at + 1 < end:
                at += 1  # with what it joins
            elif _cells(text[at]) and not (size == 2 and _is_skin(text[at])):
                break
            at += 1
        yield text[start:at], size
        start = at


def _cells(character: str) -> int:
    if category(character) in ("Mn", "Me", "Mc", "Cf") or "\u1160" <= character <= "\u11ff":
        return 0  # the last are vowels and endings of Korean, within the sign of their consonant
    return 2 if east_asian_width(character) in "WF" or _is_of_flags(character) else 1


def _is_of_flags(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _is_skin(character: str) -> bool:
    return "\U0001f3fb" <= character <= "\U0001f3ff"
