"""The logical types, and values as text.

Below every layer, beside `errors`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

from gdatalog.decimals import decimal_of, decimal_to_text, scale_of, scaled
from gdatalog.records import dataclass

# One of `TYPE_NAMES`, or of `decimals.DECIMALS`.
TypeName = str
TYPE_NAMES: tuple[TypeName, ...] = (
    "int", "float", "symbol", "bool", "timestamp", "date", "duration",
)  # fmt: skip
# The types by the names that other languages have for them; a `.type` of such a name wins.
TYPE_SYNONYMS: dict[str, TypeName] = {
    **dict.fromkeys(("string", "String", "str", "text", "varchar"), "symbol"),
    **dict.fromkeys(("integer", "long", "bigint", "uint", "i32", "i64", "u32", "u64"), "int"),
    **dict.fromkeys((f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "int"),
    **dict.fromkeys(("double", "real", "float32", "float64", "f32", "f64"), "float"),
    "boolean": "bool",
    "datetime": "timestamp",
    "date": "date",
    "duration": "duration",
    "timedelta": "duration",
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
DAY = 86_400_000_000_000  # nanoseconds
FIRST_DAY, LAST_DAY = -719_162, 2_932_896  # the years 1 to 9999, counted from 1970-01-01
INT_MIN, INT_MAX = -(1 << 63), (1 << 63) - 1
NULL = INT_MAX  # the key of a null: above all keys of values in a nullable column
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


def is_hidden(relation: str) -> bool:
    """Whether no program can name a relation: that of a query or a list, or one that the checks
    have added."""
    return relation.startswith("?") or "~" in relation


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


def days_of(nanoseconds: Any) -> int:
    """The days since 1970 of the midnight that a literal of a date stands for."""
    return int(nanoseconds) // DAY


def date_to_text(days: int) -> str:
    """
    >>> date_to_text(0), date_to_text(2_932_896)
    ('1970-01-01', '9999-12-31')
    """
    return (_EPOCH.date() + timedelta(days=days)).isoformat()


def date_from_text(text: str) -> int | None:
    """The days since 1970 of an ISO 8601 date; None if invalid.

    >>> date_from_text("1970-01-02"), date_from_text("1970-01-02T00:00")
    (1, None)
    """
    if _DATE.fullmatch(text) is None:
        return None
    try:
        return (date.fromisoformat(text) - _EPOCH.date()).days
    except ValueError:
        return None


def duration_to_text(nanoseconds: int) -> str:
    """Days, hours, minutes, seconds and their parts, those that are not zero.

    >>> duration_to_text(90_061_500_000_000), duration_to_text(0), duration_to_text(-DAY)
    ('1d1h1m1s500ms', '0s', '-1d')
    """
    text, left = "", abs(nanoseconds)
    for unit, size in _UNITS.items():
        count, left = divmod(left, size)
        text += f"{count}{unit}" if count else ""
    return ("-" if nanoseconds < 0 else "") + (text or "0s")


def duration_from_text(text: str) -> int | None:
    """The nanoseconds of such a text; None if invalid.

    >>> duration_from_text("1d1h"), duration_from_text("2w"), duration_from_text("1.5h")
    (90000000000000, 1209600000000000, None)
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    parts = zip(("w", *_UNITS), found.groups()[1:], strict=True)
    sizes = {"w": 7 * DAY, **_UNITS}
    counts = [(sizes[unit], int(count)) for unit, count in parts if count is not None]
    total = sum(size * count for size, count in counts) * (-1 if found[1] else 1)
    return total if counts and INT_MIN <= total <= INT_MAX else None


_UNITS = {
    "d": DAY, "h": DAY // 24, "m": DAY // 1440, "s": 10**9, "ms": 10**6, "us": 1000, "ns": 1,
}  # fmt: skip
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DURATION = re.compile(
    "(-)?" + "".join(rf"(?:(\d{{1,18}}){unit})?" for unit in ("w", *_UNITS)), re.ASCII
)


# The text of a key, for each type of times.
TIME_TEXTS: dict[TypeName, Callable[[int], str]] = {
    "timestamp": timestamp_to_text, "date": date_to_text, "duration": duration_to_text,
}  # fmt: skip


def meant_as(kind: TypeName, literal: Any) -> Any:
    """The value of a literal of a number or a day in a column of floats, decimals or dates; None
    for a number that no such decimal is.

    >>> meant_as("float", 1), meant_as("decimal(18,2)", 1.1), meant_as("date", DAY)
    (1.0, 110, 1)
    """
    if kind == "date":
        return days_of(literal)
    return float(literal) if kind == "float" else scaled(decimal_of(literal), scale_of(kind))


def text_of_key(kind: TypeName) -> Callable[[int], str] | None:
    """The text of a key, for types of times and decimals; None for others."""
    if scale_of(kind):
        return partial(decimal_to_text, scale=scale_of(kind))
    return TIME_TEXTS.get(kind)


def type_texts(types: Sequence[str], nullable: Sequence[bool]) -> list[str]:
    """Types as `.decl` writes them; `nullable`: of each, or empty for none.

    >>> type_texts(("int", "float"), (True, False)), type_texts(("int",), ())
    (['int?', 'float'], ['int'])
    """
    pairs = zip(types, nullable or [False] * len(types), strict=True)
    return [f"{kind}?" if null else kind for kind, null in pairs]


def constant_text(kind: TypeName, value: Value) -> str:
    """A constant of the language.

    >>> constant_text("bool", True), constant_text("timestamp", 0), constant_text("symbol", "a")
    ('true', '@1970-01-01', '"a"')
    """
    if kind == "symbol":
        return quoted(str(value))
    if kind in TIME_TEXTS:
        return ("" if kind == "duration" else "@") + TIME_TEXTS[kind](int(value))
    if scale_of(kind):
        return decimal_to_text(int(value), scale_of(kind))
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
