"""Tokens, the values of constants, and operator precedence."""

from __future__ import annotations

import re
from typing import Any

from gdatalog.decimals import exact_float
from gdatalog.errors import ParseError, SourceText, Span
from gdatalog.records import dataclass
from gdatalog.values import INT_MAX, duration_from_text, timestamp_from_text

VALUES = frozenset(
    {
        "NAME",
        "WILDCARD",
        "NUMBER",
        "STRING",
        "TIMESTAMP",
        "DURATION",
        "BOOL",
        "NULL",
        "PARAM",
        "VALUES",
    }
)
MANY_CONSTANTS = frozenset({"VALUES", "COMPARISONS"})  # tokens of the fast path
ENDS_OPERAND = VALUES | {"RPAR", "RBRACE", "ERROR", "COMPARISONS"}
STARTS_OPERAND = VALUES | {"LPAR", "SIGN", "AGGREGATE", "ERROR"}
OPENING = frozenset({"LPAR", "LBRACE"})


@dataclass(slots=True, eq=False)
class Token:
    """A token: its type, its value (a constant's value, otherwise its text), and its place."""

    type: str
    value: Any
    source: SourceText
    start: int
    end: int

    @property
    def span(self) -> Span:
        return Span(self.source, self.start, self.end)

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def __repr__(self) -> str:
        return f"{self.type} {self.text!r}"


def error_token(
    source: SourceText, start: int, end: int, message: str, hint: str | None = None
) -> Token:
    """The token of an invalid word; its value is the error."""
    error = ParseError(message, Span(source, start, end), hint=hint)
    return Token("ERROR", error, source, start, end)


def number_token(source: SourceText, start: int, end: int, minus: bool) -> Token:
    """A number. `minus`: it follows a minus sign, so 2^63 is valid."""
    text = source.text[start:end]
    plain = text.replace("_", "")
    value: int | float
    if plain[:2] in ("0x", "0X", "0b", "0B"):
        value = int(plain.removesuffix("u"), 0)
    elif "." in plain or "e" in plain or "E" in plain:
        value = exact_float(plain)
        if value == float("inf"):
            hint = "the largest is about 1.8e308; infinity is `inf`"
            return error_token(source, start, end, "this float is beyond 64 bits", hint)
        return Token("NUMBER", value, source, start, end)
    else:
        digits = plain.removesuffix("u")
        value = int(digits) if len(digits) < 30 else INT_MAX + 2
    if value > INT_MAX + minus:
        hint = (
            "ints go from -9223372036854775808 to 9223372036854775807; "
            "write a float (1e20) or a symbol (in quotes)"
        )
        return error_token(source, start, end, "this int is beyond 64 bits", hint)
    return Token("NUMBER", value, source, start, end)


_ESCAPES = dict(zip("\"'\\abfnrtv", "\"'\\\a\b\f\n\r\t\v", strict=True))
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def string_token(source: SourceText, start: int, end: int) -> Token:
    inner = source.text[start + 1 : end - 1]
    if "\\" not in inner:
        return Token("STRING", inner, source, start, end)
    bad: list[int] = []

    def decode(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 16))
        if found[2] not in _ESCAPES:
            bad.append(found.start())
            return ""
        return _ESCAPES[found[2]]

    value = _ESCAPE.sub(decode, inner)
    # Two escapes form a surrogate pair, as in JSON.
    value = _SURROGATES.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"),
                            value)  # fmt: skip
    if not bad:
        lone = next((ch for ch in value if "\ud800" <= ch <= "\udfff"), None)
        if lone is None:
            return Token("STRING", value, source, start, end)
        message = f"`\\u{ord(lone):04x}` is half of a character"
        return error_token(source, start, end, message, "write both halves, or the character")
    at = start + 1 + bad[0]
    if source.text[at + 1] == "u":
        message, hint = "`\\u` needs four hexadecimal digits", "write it as in \\u00e9"
    else:
        message = f"there is no escape `{source.text[at : at + 2]}`"
        hint = (
            "the escapes are \\\" \\' \\\\ \\a \\b \\f \\n \\r \\t \\v \\uXXXX; "
            "a backslash itself is `\\\\`"
        )
    return error_token(source, at, at + 2, message, hint)


def timestamp_token(source: SourceText, start: int, end: int) -> Token:
    value = timestamp_from_text(source.text[start + 1 : end])
    if value is None:
        message = f"`{source.text[start:end]}` is not a timestamp"
        hint = "write @2026-11-20 or @2026-11-20T08:30:00.5, from 1677-09-22 to 2262-04-11"
        return error_token(source, start, end, message, hint)
    return Token("TIMESTAMP", value, source, start, end)


def duration_token(source: SourceText, start: int, end: int) -> Token:
    text = source.text[start:end]
    value = duration_from_text(text.replace("_", ""))
    if value is None:
        message = f"`{text}` is not a duration"
        hint = "units are w d h m s ms us ns, the longest first, as in 1d12h, up to 292 years"
        return error_token(source, start, end, message, hint)
    return Token("DURATION", value, source, start, end)


BINARY = {
    "lor": 1,
    "lxor": 2,
    "land": 3,
    "bor": 4,
    "bxor": 5,
    "band": 6,
    **dict.fromkeys(("bshl", "bshr", "bshru"), 7),
    **dict.fromkeys("+-", 8),
    **dict.fromkeys("*/%", 9),
    "^": 11,
}
PREFIX = 10  # - bnot lnot: looser than ^, tighter than *
POWER = 11  # right-associative
