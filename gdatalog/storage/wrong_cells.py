"""Cells that are not of their column's type: what they probably are, and what to do."""

from __future__ import annotations

import re

from gdatalog.values import TypeName

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "none", "NaT")
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}([,.' _\u00a0\u2009\u202f])[0-9]{3}(?:\1[0-9]{3})*")
_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_POINT = re.compile(r"[+-]?[0-9]*\.[0-9]*(?:[eE][+-]?[0-9]+)?|[+-]?[0-9]+[eE][+-]?[0-9]+")
_WITH_MORE = re.compile(r"[^0-9+-]{0,3}([+-]?[0-9]+(?:\.[0-9]+)?) ?[^0-9]{1,12}|[^0-9+-]([0-9.]+)")
_DAY_FIRST = re.compile(r"[0-9]{1,2}([./-])[0-9]{1,2}\1[0-9]{2,4}\b.*")
_YEAR_FIRST = re.compile(r"([0-9]{4})[./]([0-9]{1,2})[./]([0-9]{1,2})\b.*")


def why_unreadable(text: str, kind: TypeName) -> str | None:
    """The hint for a text that is not of this type.

    >>> why_unreadable("2,5", "float")
    'a decimal point is a dot: 2.5'
    """
    if text in MISSING:
        return None  # missing values are reported together
    if kind == "float" and text.lower().lstrip("+-") == "nan":
        return "a NaN is not a value"
    if len(text) > 1 and text[0] == text[-1] == '"':
        return "quotes mean nothing in a facts file: take them away, or read the file as .csv"
    if kind == "bool":
        if text.lower() in ("yes", "no", "y", "n", "t", "f", "0", "1", "on", "off"):
            other = "int" if text.isdigit() else "symbol"
            return f"a bool is written true or false; as it is, the column is {other}"
        return "a bool is written true or false"
    if kind == "timestamp":
        return _time(text)
    if kind == "float" and _COMMA.fullmatch(text):
        return f"a decimal point is a dot: {text.replace(',', '.')}"
    grouped = _GROUPED.fullmatch(text)
    if grouped is not None and not (kind == "float" and grouped[1] == "."):
        return f"write digits together: {text.replace(grouped[1], '')}"
    if kind == "int" and (_POINT.fullmatch(text) or _COMMA.fullmatch(text)):
        return "declare the column float if it holds fractions"
    found = _WITH_MORE.fullmatch(text)
    if found is not None:
        return f"write the number alone: {found[1] or found[2]}"
    return None


def _time(text: str) -> str:
    form = "a timestamp is written 2026-11-20 or 2026-11-20T08:30:00.5"
    year = _YEAR_FIRST.fullmatch(text)
    if year is not None:
        return f"{form}: here {year[1]}-{year[2]:0>2}-{year[3]:0>2}"
    if _DAY_FIRST.fullmatch(text):
        return f"{form}: the year first, then the month"
    if text.lstrip("-").isdigit():
        return f'{form}; of seconds since 1970 pandas.to_datetime(..., unit="s") makes times'
    return form
