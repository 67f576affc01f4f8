"""The logical types, values as text, and text for terminals.

Below every layer, beside `errors`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal
from unicodedata import category, east_asian_width

from gdatalog.records import dataclass

TypeName = Literal["int", "float", "symbol", "bool", "timestamp"]
TYPE_NAMES: tuple[TypeName, ...] = ("int", "float", "symbol", "bool", "timestamp")
# The types by the names that other languages have for them; a `.type` of such a name wins.
TYPE_SYNONYMS: dict[str, TypeName] = {
    **dict.fromkeys(("string", "String", "str", "text", "varchar"), "symbol"),
    **dict.fromkeys(("integer", "long", "bigint", "uint", "i32", "i64", "u32", "u64"), "int"),
    **dict.fromkeys((f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "int"),
    **dict.fromkeys(("double", "real", "float32", "float64", "f32", "f64"), "float"),
    "boolean": "bool",
    "datetime": "timestamp",
}
Value = int | float | str | bool


@dataclass(frozen=True, slots=True)
class ListOf:
    """The type of a parameter that is a list.

    `empty`: the type is inferred from its use, or otherwise from the container's type.
    """

    type: TypeName | None
    empty: bool = False


# None: its use says which type it has.
ParamType = TypeName | ListOf | None

INT_MIN, INT_MAX = -(1 << 63), (1 << 63) - 1

_LIST = re.compile(r"\?([{$][^#]*)#[0-9a-f]+'*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})"
    r"(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?\s*(Z|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)


def plain(value: Any) -> Any:
    """An int, float, text or bool of Python itself, from one of a subclass, such as a member of an
    enumeration: what it holds counts, not what its own `__str__` says.

    >>> from enum import Enum
    >>> plain(Enum("Size", {"SMALL": "s"}, type=str).SMALL)
    's'
    """
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int.__int__(value)
    return float.__float__(value) if isinstance(value, float) else value


def nanoseconds_of(value: date) -> int:
    """A date or time, also pandas', as nanoseconds since 1970; in UTC without a time zone."""
    if isinstance(value, datetime):
        zone = UTC if value.utcoffset() is None else value.tzinfo
        clock = value.hour, value.minute, value.second, value.microsecond
        moment = datetime(value.year, value.month, value.day, *clock, zone, fold=value.fold)
    else:
        moment = datetime(value.year, value.month, value.day, tzinfo=UTC)
    since = moment - _EPOCH
    microseconds = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    # pandas.Timestamp is a datetime with nanoseconds
    return microseconds * 1000 + int(getattr(value, "nanosecond", 0))


def list_name(shown: str, digest: str) -> str:
    """The name of a relation that holds the values of a list. `shown`: its readable part.

    >>> shown_name(list_name("{600 values}", "a1b2"))
    '{600 values}'
    """
    return f"?{shown}#{digest}"


def is_list(relation: str) -> bool:
    """Whether a relation holds the values of a list."""
    return relation.startswith(("?{", "?$"))


def shown_name(text: str) -> str:
    """Replaces the internal names of list relations in a text by their readable parts."""
    return _LIST.sub(r"\1", text) if "#" in text else text


def timestamp_from_text(text: str) -> int | None:
    """The nanoseconds since 1970 in UTC of an ISO 8601 date or time; None if invalid.

    >>> timestamp_from_text("1970-01-02")
    86400000000000
    >>> timestamp_from_text("1970-01-01T01:00:00.5+01:00")
    500000000
    """
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    *parts, fraction, zone = found.groups()
    year, month, day, hour, minute, second = (int(part or 0) for part in parts)
    try:
        whole = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    seconds = (whole - _EPOCH) // timedelta(seconds=1)
    if zone and zone != "Z":
        digits = zone[1:].replace(":", "")
        offset = int(digits[:2]) * 3600 + int(digits[2:]) * 60
        seconds -= offset if zone[0] == "+" else -offset
    nanoseconds = seconds * 1_000_000_000 + int((fraction or "").ljust(9, "0"))
    return nanoseconds if INT_MIN <= nanoseconds <= INT_MAX else None


def timestamp_to_text(nanoseconds: int) -> str:
    """The shortest ISO 8601 text: a date if the time is midnight.

    >>> timestamp_to_text(500_000_000)
    '1970-01-01T00:00:00.5'
    """
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    days, rest = divmod(seconds, 86_400)
    day = (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    if rest == 0 and fraction == 0:
        return day
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    tail = f".{fraction:09}".rstrip("0") if fraction else ""
    return f"{day}T{clock}{tail}"


def constant_text(kind: TypeName, value: Value) -> str:
    """A constant of the language.

    >>> constant_text("bool", True), constant_text("timestamp", 0), constant_text("symbol", "a")
    ('true', '@1970-01-01', '"a"')
    """
    if kind == "symbol":
        return quoted(str(value))
    if kind == "timestamp":
        return "@" + timestamp_to_text(int(value))
    return str(bool(value)).lower() if kind == "bool" else repr(value)


def quoted(text: str) -> str:
    """A string literal.

    >>> print(quoted('two "lines"\\n'))
    "two \\"lines\\"\\n"
    """
    return '"' + _SPECIAL.sub(_escape, text) + '"'


_SPECIAL = re.compile(r'["\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return _SHORT.get(character) or f"\\u{ord(character):04x}"


def is_unicode(text: str) -> bool:
    """Whether a text has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# Text on terminals: escaping control characters, and width.


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
