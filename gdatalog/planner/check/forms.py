"""Functions that are written in terms of others: `date_trunc`, `format`, `case` and `round`.

What says how they work is a constant: the unit, the template, the number of digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from string import Formatter

from gdatalog.errors import Span
from gdatalog.parser import syntax as s
from gdatalog.plan.functions import CALENDAR_UNITS, CLOCK_UNITS
from gdatalog.planner.check.wording import did_you_mean

UNITS = (*CLOCK_UNITS, *CALENDAR_UNITS)
MOST_DIGITS = 15
_WIDE = re.compile(r"[0-9]{4}")

Fail = Callable[[str, Span, str], None]


def expanded(call: s.FunctionCall, fail: Fail) -> s.Expr:
    """A call in terms of other functions; the call itself if it needs none, or is wrong."""
    match call:
        case s.FunctionCall("date_trunc", (unit, time)):
            return _date_trunc(call, unit, time, fail)
        case s.FunctionCall("round", (value, digits)):
            return _round(call, value, digits, fail)
        case s.FunctionCall("format", (template, *values)):
            return _format(call, template, values, fail)
        case s.FunctionCall("case", args):
            return _case(call, args, fail)
    return call


def _date_trunc(call: s.FunctionCall, unit: s.Expr, time: s.Expr, fail: Fail) -> s.Expr:
    if isinstance(unit, s.Const) and unit.value in UNITS:
        return s.FunctionCall(f"date_trunc_{unit.value}", (time,), call.span)
    written = str(unit.value) if isinstance(unit, s.Const) else ""
    near = did_you_mean(written, UNITS)
    units = ", ".join([f'"{each}"' for each in UNITS])
    fail("`date_trunc` takes a unit", unit.span, near or f"the units are {units}")
    return call


def _round(call: s.FunctionCall, value: s.Expr, digits: s.Expr, fail: Fail) -> s.Expr:
    number = digits.value if isinstance(digits, s.Const) and digits.type == "int" else None
    if number is None or abs(int(number)) > MOST_DIGITS:
        hint = f"a number from -{MOST_DIGITS} to {MOST_DIGITS}, as in `round(x, 2)`"
        fail("`round` takes a constant number of digits", digits.span, hint)
        return call
    scale = s.Const("float", 10.0 ** abs(int(number)), digits.span)
    if int(number) >= 0:
        return s.FunctionCall("round_to", (value, scale), call.span)
    tens = s.FunctionCall("/", (value, scale), call.span)
    return s.FunctionCall("*", (s.FunctionCall("round", (tens,), call.span), scale), call.span)


def _case(call: s.FunctionCall, args: tuple[s.Expr, ...], fail: Fail) -> s.Expr:
    if len(args) % 2 == 0:
        hint = 'after the pairs comes what is chosen otherwise: `case(x < 3, "few", "many")`'
        fail("`case` takes pairs of a condition and a value, and one more value", call.span, hint)
        return call
    found = args[-1]
    for at in range(len(args) - 3, -1, -2):
        found = s.FunctionCall("if", (args[at], args[at + 1], found), call.span)
    return found


def _format(call: s.FunctionCall, template: s.Expr, values: list[s.Expr], fail: Fail) -> s.Expr:
    hint = 'as in `format("{} of {:.2f}", x, y)`, with Python\'s formats'
    if not isinstance(template, s.Const) or template.type != "symbol":
        fail("the first argument of `format` is a constant text", template.span, hint)
        return call
    try:
        parts = list(Formatter().parse(str(template.value)))
    except ValueError as problem:
        fail(f"the template is not valid: {problem}", template.span, f"{hint}; a brace is {{{{")
        return call
    places = [spec or "" for _, name, spec, _ in parts if name is not None]
    if len(places) != len(values):
        wrong = f"the number of places in the template is {len(places)}, of values {len(values)}"
        fail(wrong, template.span, hint)
        return call
    pieces: list[s.Expr] = []
    waiting = list(values)
    for text, name, spec, turned in parts:
        if text:
            pieces.append(s.Const("symbol", text, template.span))
        if name is None:
            continue
        if name or turned or not kinds_of_spec(spec or ""):
            written = "{" + name + (f"!{turned}" if turned else "") + (f":{spec}" if spec else "")
            fail(f"`{written}}}` is no place of a value", template.span, hint)
            return call
        value = waiting.pop(0)
        said = (s.Const("symbol", spec, template.span),) if spec else ()
        shown = "format_value" if spec else "to_string"
        pieces.append(s.FunctionCall(shown, (value, *said), value.span))
    if len(pieces) < 2:
        return pieces[0] if pieces else s.Const("symbol", "", template.span)
    return s.FunctionCall("cat", tuple(pieces), call.span)


def kinds_of_spec(spec: str) -> frozenset[str]:
    """The types whose values such a format takes, of int, float and symbol; none if it is none."""
    found = set()
    for kind, sample in (("int", 1), ("float", 1.5), ("symbol", "a")):
        try:
            if not _WIDE.search(spec) and spec[-1:] not in ("c", "n"):
                format(sample, spec)
                found.add(kind)
        except ValueError:
            continue
    return frozenset(found)
