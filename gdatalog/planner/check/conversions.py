"""Hints where two types conflict: the function, or the spelling, that would help."""

from __future__ import annotations

from gdatalog.decimals import DECIMALS, scale_of
from gdatalog.planner.check.signatures import (
    BIT,
    DECIMAL,
    FLOAT,
    INT,
    MOMENT,
    NUMBER,
    ONLY,
    TIMESTAMP,
    words_of,
)
from gdatalog.planner.check.wording import either
from gdatalog.values import TYPE_NAMES


def conversion(subject: str, words: str, mask: int) -> str | None:
    """The function, or the spelling, that would help where two types conflict."""
    if subject.startswith("`$"):
        return f"give {subject} as {either([name for name in TYPE_NAMES if mask & BIT[name]])}"
    written = subject.strip('`"')
    if words == "symbol" and not mask & ~NUMBER and subject.startswith('`"'):
        number = written.replace(".", "", 1).lstrip("-").isdigit()
        return f"without quotes it is a number: `{written}`" if number else None
    if words == "int" and mask == BIT["symbol"] and written.lstrip("-").isdigit():
        return f'in quotes it is a text: `"{written}"`'
    if words in ("int", "float") and not mask & ~DECIMAL and not written.strip("-.0123456789"):
        return f"{words_of(mask)} has other digits: round it, or declare more"
    if words.startswith("decimal") and mask & (FLOAT | INT):
        made = "a float" if mask & FLOAT else "an int"
        return f"`to_{made.split()[1]}(...)` makes {made} of a decimal"
    if mask & DECIMAL and mask in ONLY and words in ("symbol", "int", "float", *DECIMALS):
        return f"`to_decimal(..., {scale_of(ONLY[mask])})` makes a {ONLY[mask]} of it"
    if words == "int" and mask == BIT["float"]:
        return "`to_float(...)` makes a float of an int"
    if words == "float" and mask == INT:
        return "`to_int(...)` makes an int of a float, `to_float(...)` a float of an int"
    if (words, mask) in (("date", TIMESTAMP), ("timestamp", BIT["date"])):
        hint = "load both as times or both as dates: in pandas, pandas.to_datetime(...) makes times"
        return f"{hint} of dates, and .dt.date dates of times"
    if words == "symbol" and mask & MOMENT and not mask & ~MOMENT:
        return "a timestamp has no quotes and starts with `@`: @2026-11-20"
    if words == "symbol" and mask & NUMBER and not mask & ~(NUMBER | BIT["duration"]):
        return "`to_number(...)` reads an int from a text, `to_float(...)` a float"
    if words == "int" and mask == BIT["duration"]:
        unit = f"{written}h" if written.isdigit() else f"{written} * 1s"
        return f"a duration has a unit, as in `{unit}`"
    if words in ("int", "float") and mask == BIT["symbol"]:
        return "`to_string(...)` makes a text of a number"
    return None
