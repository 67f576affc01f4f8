"""What values are to the oracle, and what each function does to them: plain Python, no NumPy.

Ints, floats, strings and bools are themselves; a timestamp or a date is a `Ts`, a duration a `Dur`,
a null None. `Failure` is an evaluation error of LANGUAGE.md; `Void` says "there is no value": the
minimum of nothing, or a match with a pattern that is none.

One entry for each function of the language.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Any

SIGN = 1 << 63
MODULUS = 1 << 64


class Failure(Exception):
    """The program has no answer: division by zero, NaN, an overflowing sum..."""


class Void(Exception):
    """There is no value here, so no test of it holds, nor does the negation of one."""


@dataclass(frozen=True, order=True)
class Ts:
    """A timestamp: nanoseconds since 1970, UTC."""

    ns: int

    def moment(self) -> datetime:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.ns // 1000)


@dataclass(frozen=True, order=True)
class Dur:
    """A duration of nanoseconds."""

    ns: int


Value = int | float | str | bool | Ts | Dur | Decimal | None


def wrap(number: int) -> int:
    """The 64-bit signed integer that is equal to `number` modulo 2^64."""
    return (number + SIGN) % MODULUS - SIGN


def whole(number: int) -> int:
    """The integer, if it fits into 64 bits."""
    if not -SIGN <= number < SIGN:
        raise Failure("outside 64 bits")
    return number


def clean(number: float) -> float:
    """The float as it is stored: never NaN, never -0.0."""
    if math.isnan(number):
        raise Failure("NaN")
    return number + 0.0


def exact(number: Decimal) -> Decimal:
    """The decimal, if it has no more than 18 digits."""
    if len(number.as_tuple().digits) > 18:
        raise Failure("too many digits")
    return number


def as_decimal(number, scale):
    """`as(x, decimal(18, 2))` of a literal, and `to_decimal(x, 2)`."""
    with localcontext(_DIGITS):
        return exact(Decimal(str(number)).quantize(Decimal(1).scaleb(-scale)))


def of_decimals(function: Callable[..., Decimal], *numbers):
    """What a function gives if one of the numbers is a decimal; None if none is."""
    if not any(isinstance(number, Decimal) for number in numbers):
        return None
    with localcontext(_DIGITS):
        return exact(function(*numbers))


_DIGITS = Context(prec=60, rounding=ROUND_HALF_UP)


def both_int(a: Value, b: Value) -> bool:
    return isinstance(a, int) and isinstance(b, int)


def add(a, b):
    if isinstance(a, str):
        return a + b
    found = of_decimals(operator.add, a, b)
    if found is not None:
        return found
    if isinstance(a, Ts | Dur):
        return (Ts if Ts in (type(a), type(b)) else Dur)(wrap(a.ns + b.ns))
    return wrap(a + b) if both_int(a, b) else clean(a + b)


def subtract(a, *rest):
    if isinstance(a, Ts | Dur):
        ns = [part.ns for part in (a, *rest)]
        kind = Ts if isinstance(a, Ts) and rest and isinstance(rest[0], Dur) else Dur
        return kind(wrap(ns[0] - ns[1] if rest else -ns[0]))
    if not rest:
        return -a if isinstance(a, Decimal) else wrap(-a) if isinstance(a, int) else clean(-a)
    found = of_decimals(operator.sub, a, rest[0])
    if found is not None:
        return found
    return wrap(a - rest[0]) if both_int(a, rest[0]) else clean(a - rest[0])


def multiply(a, b):
    found = of_decimals(operator.mul, a, b)
    if found is not None:
        return found
    if isinstance(a, Dur) or isinstance(b, Dur):
        return Dur(multiply(*(part.ns if isinstance(part, Dur) else part for part in (a, b))))
    return wrap(a * b) if both_int(a, b) else clean(a * b)


def divide(a, b):
    if isinstance(a, Dur):
        return divide(float(a.ns), float(b.ns)) if isinstance(b, Dur) else Dur(divide(a.ns, b))
    if b == 0:
        raise Failure("division by zero")
    if not both_int(a, b):
        return clean(float(a) / float(b))
    quotient = abs(a) // abs(b)
    return whole(quotient if (a < 0) == (b < 0) else -quotient)


def remainder(a, b):
    if isinstance(a, Dur):
        return Dur(remainder(a.ns, b.ns))
    if b == 0:
        raise Failure("division by zero")
    found = of_decimals(operator.mod, a, b)
    if found is not None:
        return found
    if not both_int(a, b):
        if math.isinf(a):
            raise Failure("NaN")
        return clean(math.fmod(a, b))
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def power(a, b):
    if a == 0 and b < 0:
        raise Failure("division by zero")
    if both_int(a, b):
        if abs(a) == 1:
            return a if b % 2 else 1
        return whole(a ** min(b, 64)) if b >= 0 else 0
    try:
        result = math.pow(a, b)
    except OverflowError:
        odd = float(b).is_integer() and int(b) % 2
        result = -math.inf if a < 0 and odd else math.inf
    except ValueError:
        raise Failure("NaN") from None
    return clean(result)


def shift_left(a, b):
    return wrap(a << (b & 63))


def shift_right(a, b):
    return a >> (b & 63)


def shift_right_unsigned(a, b):
    return wrap((a % MODULUS) >> (b & 63))


def logical(test: Callable[[bool, bool], bool]):
    """An operator of Soufflé's: on bools, and on ints, where anything but 0 is true."""

    def operator(a, b):
        result = test(a != 0, b != 0)
        return result if isinstance(a, bool) else int(result)

    return operator


def logical_not(a):
    return not a if isinstance(a, bool) else int(a == 0)


def absolute(a):
    if isinstance(a, Decimal):
        return abs(a)
    if isinstance(a, Dur):
        return Dur(absolute(a.ns))
    return wrap(abs(a)) if isinstance(a, int) else clean(abs(a))


def square_root(a):
    if a < 0:
        raise Failure("NaN")
    return clean(math.sqrt(a))


def exponential(a):
    try:
        return clean(math.exp(a))
    except OverflowError:
        return math.inf


def logarithm(a):
    if a < 0:
        raise Failure("NaN")
    return clean(math.log(a)) if a > 0 else -math.inf


def rounding(how: Callable[[float], int]):
    def rounded(a):
        if isinstance(a, Decimal):  # as many digits after the point
            return of_decimals(lambda x: Decimal(how(x)).quantize(x), a)
        return a if math.isinf(a) else clean(float(how(a)))

    return rounded


def to_int(a):
    if isinstance(a, bool):
        return int(a)
    if isinstance(a, Ts | Dur):
        return a.ns
    if isinstance(a, str):
        if re.fullmatch(r"[+-]?[0-9]+", a) is None:
            raise Failure("not a number")
        a = int(a)
    if isinstance(a, float | Decimal):
        if math.isinf(a):
            raise Failure("not an integer")
        a = math.trunc(a)
    if not -SIGN <= a < SIGN:
        raise Failure("not a 64-bit integer")
    return a


def to_float(a):
    if isinstance(a, str):
        number = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?inf"
        if re.fullmatch(number, a) is None:
            raise Failure("not a number")
    return clean(float(a))


def to_string(a):
    if isinstance(a, bool):
        return "true" if a else "false"
    if isinstance(a, Ts):
        text = a.moment().strftime("%Y-%m-%dT%H:%M:%S")
        fraction = a.ns % 1_000_000_000
        if fraction:
            return f"{text}.{fraction:09}".rstrip("0")
        return text.removesuffix("T00:00:00")
    if isinstance(a, Decimal):
        return f"{a:f}"
    return a if isinstance(a, str) else repr(a)


def substring(text, start, length):
    """Soufflé's: from 0, cut at the end, empty where the place makes no sense."""
    return text[start : start + length] if start >= 0 and length >= 0 else ""


def matches(pattern, text):
    for name, members in (("digit", "0-9"), ("alpha", "a-zA-Z"), ("alnum", "a-zA-Z0-9")):
        pattern = pattern.replace(f"[:{name}:]", members)
    without = re.sub(r"\\.|\[[^]]*\]|\{\d+(,\d*)?\}|\{,\d*\}", "", pattern)
    if "{" in without:
        raise Void
    try:
        return re.fullmatch(pattern, text) is not None
    except re.error:
        raise Void from None


def split_part(text, separator, at):
    """The part number `at`, counted from 1; empty where there is none."""
    parts = text.split(separator) if separator else [text]
    return parts[at - 1] if 1 <= at <= len(parts) else ""


def round_to(number, digits=0):
    """Halves away from zero."""
    if digits < 0:
        return clean(round_to(number / 10.0**-digits) * 10.0**-digits)
    scaled = number * 10.0**digits
    if abs(scaled) >= 2**53:
        return number
    whole = math.floor(abs(scaled))
    whole += abs(scaled) - whole >= 0.5
    return clean((-whole if scaled < 0 else whole) / 10.0**digits)


def truncate(unit, time):
    moment = time.moment()
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    found = {
        "second": moment.replace(microsecond=0),
        "minute": moment.replace(second=0, microsecond=0),
        "hour": moment.replace(minute=0, second=0, microsecond=0),
        "day": midnight,
        "week": midnight - timedelta(days=midnight.weekday()),
        "month": midnight.replace(day=1),
        "quarter": midnight.replace(day=1, month=(moment.month - 1) // 3 * 3 + 1),
        "year": midnight.replace(day=1, month=1),
    }[unit]
    since = found - datetime(1970, 1, 1, tzinfo=UTC)
    return Ts((since.days * 86_400 + since.seconds) * 10**9)


def extract(text, pattern, group=0):
    try:
        found = re.compile(pattern).search(text)
        return "" if found is None else found[group] or ""
    except (re.error, IndexError):
        raise Failure("no such match") from None


def parse_time(text, pattern=None):
    try:
        moment = datetime.strptime(text, pattern) if pattern else datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC)
    except ValueError:
        raise Failure("not a time") from None
    return Ts(round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * 10**9)


def formatted(template, *values):
    return template.format(
        *(
            v if isinstance(v, int | float) and not isinstance(v, bool) else to_string(v)
            for v in values
        )
    )


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "%": remainder,
    "^": power,
    "band": lambda a, b: a & b,
    "bor": lambda a, b: a | b,
    "bxor": lambda a, b: a ^ b,
    "bnot": lambda a: ~a,
    "bshl": shift_left,
    "bshr": shift_right,
    "bshru": shift_right_unsigned,
    "land": logical(lambda a, b: a and b),
    "lor": logical(lambda a, b: a or b),
    "lxor": logical(lambda a, b: a != b),
    "lnot": logical_not,
    "abs": absolute,
    "min": min,
    "max": max,
    "floor": rounding(math.floor),
    "ceil": rounding(math.ceil),
    "sqrt": square_root,
    "exp": exponential,
    "log": logarithm,
    "to_int": to_int,
    "to_float": to_float,
    "to_number": to_int,
    "to_decimal": as_decimal,
    "to_string": to_string,
    # Only the order of `ord` is said, and a value keeps its own.
    "ord": lambda a: a,
    "cat": lambda *texts: "".join(texts),
    "strlen": len,
    "substr": substring,
    "contains": lambda needle, text: needle in text,
    "match": matches,
    "starts_with": lambda text, prefix: text.startswith(prefix),
    "upper": str.upper,
    "lower": str.lower,
    "split_part": split_part,
    "year": lambda a: a.moment().year,
    "month": lambda a: a.moment().month,
    "day": lambda a: a.moment().day,
    "seconds_between": lambda a, b: clean((b.ns - a.ns) / 1e9),
    "hour": lambda a: a.moment().hour,
    "minute": lambda a: a.moment().minute,
    "second": lambda a: a.moment().second,
    "weekday": lambda a: a.moment().weekday(),
    "date_trunc": truncate,
    "parse_time": parse_time,
    "format_time": lambda a, pattern: a.moment().strftime(pattern),
    "round": round_to,
    "trim": lambda text, *characters: text.strip(*characters),
    "replace": lambda text, old, new: text.replace(old, new),
    "position": lambda needle, text: text.find(needle),
    "regex_extract": extract,
    "format": formatted,
}
SOUFFLE = {"to_symbol": "to_string", "to_unsigned": "to_number"}
SOUFFLE |= dict.fromkeys(("itof", "utof", "stof"), "to_float")
SOUFFLE |= dict.fromkeys(("ftoi", "ftou", "itou", "utoi"), "to_int")
SOUFFLE |= dict.fromkeys(("stoi", "stou"), "to_number")
SOUFFLE |= dict.fromkeys(("itos", "utos", "ftos"), "to_string")


def chosen(args: Sequence[Any], holds: Callable[[Any], Any]) -> int:
    """The place of the value that `if` or `case` chooses: the others are not computed."""
    tests = range(0, len(args) - 1, 2)
    return next((at + 1 for at in tests if holds(args[at])), len(args) - 1)


def apply(name: str, args: list[Value]) -> Value:
    if name in COMPARE:
        return COMPARE[name](*args)
    if name == "coalesce":
        return next((arg for arg in args if arg is not None), None)
    return None if None in args else FUNCTIONS[SOUFFLE.get(name, name)](*args)


def _of_values(test: Callable[[Any, Any], bool]) -> Callable[..., bool]:
    """A comparison, which does not hold for a null."""
    return lambda a, b: a is not None and b is not None and test(a, b)


COMPARE: dict[str, Callable[..., bool]] = {
    "=": _of_values(lambda a, b: a == b),
    "!=": _of_values(lambda a, b: a != b),
    "<": _of_values(lambda a, b: a < b),
    "<=": _of_values(lambda a, b: a <= b),
    ">": _of_values(lambda a, b: a > b),
    ">=": _of_values(lambda a, b: a >= b),
}


def nulls_last(value: Value) -> tuple[Any, ...]:
    """A key that sorts values, and nulls behind them."""
    return (True,) if value is None else (False, value)


def aggregate(kind: str, rows: list[tuple[Value, ...]]) -> Value:
    """The aggregate of one row of target values per distinct binding."""
    if kind == "count":
        return len(rows)
    if kind == "count_distinct":
        return len({row for row in rows if None not in row})
    values = [row[0] for row in rows if row[0] is not None]
    if rows and not values and kind != "sum":
        return None
    if values and isinstance(values[0], Dur) and kind == "sum":
        return Dur(whole(sum(value.ns for value in values)))
    if kind in ("sum", "mean"):
        with localcontext(_DIGITS):
            total = sum(values)
        if isinstance(total, float):
            total = clean(total)
        elif isinstance(total, Decimal):
            total = exact(total) if kind == "sum" else float(total)
        elif kind == "sum" and not -SIGN <= total < SIGN:
            raise Failure("a sum overflows")
        if kind == "sum":
            return total
        if not values:
            raise Void
        return clean(total / len(values))
    if not values:
        raise Void
    return max(values) if kind == "max" else min(values)


def canonical(rows: Iterable[tuple[Value, ...]]) -> set[tuple[object, ...]]:
    """Rows to compare: bools are no ints, and floats need not agree in their last digits."""

    def plain(value: Value) -> object:
        if isinstance(value, bool):
            return str(value)
        if isinstance(value, float) and value != 0:  # the oracle's empty sums are ints
            return f"{value:.12g} float"
        return value

    return {tuple(map(plain, row)) for row in rows}
