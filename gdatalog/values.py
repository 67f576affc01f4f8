"""The logical types, the texts of timestamps and strings, the names of relations that are lists.

Below every layer, beside `errors`.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Literal

from gdatalog.records import dataclass

TypeName = Literal["int", "float", "symbol", "bool", "timestamp"]
TYPE_NAMES: tuple[TypeName, ...] = ("int", "float", "symbol", "bool", "timestamp")
Value = int | float | str | bool


@dataclass(frozen=True, slots=True)
class ListOf:
    """The type of a parameter that is a list of such values.

    `empty`: then its use decides about the type, and only where that says nothing, what held it.
    """

    type: TypeName | None
    empty: bool = False


ParamType = TypeName | ListOf

INT_MIN, INT_MAX = -(1 << 63), (1 << 63) - 1

_LIST = re.compile(r"\?([{$][^#]*)#[0-9a-f]+'*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})"
    r"(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?\s*(Z|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)


def list_name(shown: str, digest: str) -> str:
    """The name of a relation that holds a list's values; `shown`: what people read of it.

    >>> shown_name(list_name("{600 values}", "a1b2"))
    '{600 values}'
    """
    return f"?{shown}#{digest}"


def is_list(relation: str) -> bool:
    """Whether a relation holds a list's values."""
    return relation.startswith(("?{", "?$"))


def shown_name(text: str) -> str:
    """A relation's name, or a text that has such in it, as people read it."""
    return _LIST.sub(r"\1", text) if "#" in text else text


def timestamp_from_text(text: str) -> int | None:
    """Nanoseconds since 1970 in UTC of an ISO 8601 date or time; None if it is none.

    >>> timestamp_from_text("1970-01-02")
    86400000000000
    >>> timestamp_from_text("1970-01-01T01:00:00.5+01:00")
    500000000
    """
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    try:
        whole = datetime(
            int(year),
            int(month),
            int(day),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            tzinfo=UTC,
        )
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
    """The shortest ISO 8601 text: a date where the time is midnight.

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
    """Whether a text has no half of a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
