"""Text on terminals: escaping control characters, and width."""

from __future__ import annotations

import re
from collections.abc import Iterator
from unicodedata import category, east_asian_width

_JOINER, _AS_EMOJI = "\u200d", "\ufe0f"
_KEPT = "\u200c\u200d"  # joiners: invisible, but they change the text's appearance
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SKINS = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_UNSEEN = re.compile(r"[^\x20-\x7e]")
_UNSEEN_IN_LINES = re.compile(r"[^\x20-\x7e\n\t]")


def visible(text: str) -> str:
    """The text on one line. Control, bidi and other invisible characters, line breaks and lone
    surrogates are escaped as in a string literal.

    >>> visible("a\\tb\\x1b[31m")
    'a\\\\tb\\\\u001b[31m'
    """
    return text if text.isascii() and text.isprintable() else _UNSEEN.sub(_seen, text)


def visible_lines(text: str) -> str:
    """Like `visible`, but line feeds and tabs stay.

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


_LONG_WORD = re.compile(r"\w{101,}")


def brief(text: str) -> str:
    """The text of a message, with long names cut in the middle.

    >>> brief("no relation " + "a" * 500)
    'no relation aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…aaaaaaaaaaaaaaaaaaaa'
    """
    return _LONG_WORD.sub(lambda found: f"{found[0][:60]}…{found[0][-20:]}", text)


def width(text: str) -> int:
    """The width of a text in terminal cells.

    >>> width("abc"), width("中文"), width("e\\u0301"), width("👩\\u200d🚀")
    (3, 4, 1, 2)
    """
    return len(text) if text.isascii() else sum(size for _, size in _signs(text))


def cut(text: str, most: int) -> str:
    """The text, cut to a width, with an ellipsis if it is cut; no grapheme is split.

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
    """The graphemes of a text, with their widths."""
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
                at += 1  # and the joined character
            elif _cells(text[at]) and not (size == 2 and text[at] in _SKINS):
                break
            at += 1
        yield text[start:at], size
        start = at


def _cells(character: str) -> int:
    if category(character) in ("Mn", "Me", "Mc", "Cf") or "\u1160" <= character <= "\u11ff":
        return 0  # the range is Korean vowels and finals, drawn with their consonant
    return 2 if east_asian_width(character) in "WF" or _is_of_flags(character) else 1


def _is_of_flags(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
