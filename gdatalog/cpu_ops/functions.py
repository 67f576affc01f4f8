"""The functions of the language on columns of values, of NumPy's arrays or of a device's.

A column of values is int64 for int and times, float64 for float, bool for bool, and codes of
the symbol table for symbol. Columns are as long as the current rows, or have length 1 if all rows
have the same value. A function returns its column, and a mask of the rows where it failed, or None.

Functions of texts are in `texts.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from gdatalog.cpu_ops.texts import Outcome, Warn, on_texts, tabulate
from gdatalog.decimals import LIMIT
from gdatalog.storage.keys import float_to_key
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.values import DAY, FIRST_DAY, INT_MAX, INT_MIN, LAST_DAY, TypeName

HOUR = DAY // 24
MINUTE, SECOND = HOUR // 60, HOUR // 3600
# Units of time: their sizes, and when one starts; and units of months.
TRUNCATED = {
    "second": (SECOND, 0), "minute": (MINUTE, 0), "hour": (HOUR, 0), "day": (DAY, 0),
    "week": (7 * DAY, -3 * DAY),  # a Monday
}  # fmt: skip
MONTHS = {"month": 1, "quarter": 3, "year": 12}
ORDER = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
EQUALITY = {"=": np.equal, "!=": np.not_equal}


def compare(op: str, left: Array, right: Array, kind: TypeName, symbols: SymbolTable) -> Array:
    """Compares two columns. Symbols are ordered by code points."""
    if op in EQUALITY:
        equal: Array = EQUALITY[op](left, right)
        return equal
    if kind == "symbol":
        ranks = symbols.ranks()
        left, right = ranks[left], ranks[right]
    ordered: Array = ORDER[op](left, right)
    return ordered


def call(
    name: str,
    args: Sequence[Array],
    kind: TypeName,
    symbols: SymbolTable,
    warn: Warn,
    bounded: bool = False,
) -> Outcome:
    """Calls function `name` on columns; `kind` is the type of the first."""
    with np.errstate(all="ignore"):
        if on_texts(name, kind):
            return tabulate(name, args, kind, symbols, warn, bounded)
        if kind == "symbol" and name in EXTREMES:
            return extreme_symbol(np, name, args, symbols.ranks().__getitem__), None
        return _FUNCTIONS.call(name, args, kind)


def extreme_symbol(
    xp: Any, name: str, args: Sequence[Array], ranks_of: Callable[[Array], Array]
) -> Array:
    """The least (or greatest) symbol of each row."""
    best = args[0]
    for other in args[1:]:
        lower = ranks_of(other) < ranks_of(best)
        best = xp.where(lower if name == "min" else ~lower, other, best)
    return best


Function = Callable[..., Outcome]

EXTREMES = ("min", "max")


def _down_to(a: Array, size: int, start: int) -> Array:
    """The greatest `start + n * size`, for a whole n, that is not above the value."""
    down: Array = a - (a - start) % size
    return down


def _sound(function: Callable[..., Array]) -> Function:
    """A function that cannot fail."""
    return lambda *args: (function(*args), None)


class Functions:
    """Functions on arrays of the module `xp`. `found`: the mask of failed rows, or None if the mask
    is known to be empty."""

    def __init__(self, xp: Any, found: Callable[[Array], Array | None]) -> None:
        self.xp, self.found = xp, found
        self.order = {op: getattr(xp, ufunc.__name__) for op, ufunc in (ORDER | EQUALITY).items()}
        self.on_ints: dict[str, Function] = {
            "+": _sound(lambda a, b: a + b),
            "-": _sound(lambda a, b=None: -a if b is None else a - b),
            "*": _sound(lambda a, b: a * b),
            "/": self._divide,
            "%": self._remainder,
            "^": self._power,
            "+!": self._checked(lambda a, b: a + b),
            "-!": self._checked(lambda a, b: a - b),
            "*!": self._exact_product,
            "floored": _sound(lambda a, tens: a // tens),
            "rounded": _sound(self._rounded),
            "unscaled": _sound(lambda a, tens: a.astype(xp.float64) / tens),
            "band": _sound(lambda a, b: a & b),
            "bor": _sound(lambda a, b: a | b),
            "bxor": _sound(lambda a, b: a ^ b),
            "bnot": _sound(lambda a: ~a),
            "bshl": _sound(lambda a, b: a << (b & 63)),
            "bshr": _sound(lambda a, b: a >> (b & 63)),
            "bshru": _sound(self._shift_right_unsigned),
            "land": _sound(lambda a, b: ((a != 0) & (b != 0)).astype(xp.int64)),
            "lor": _sound(lambda a, b: ((a != 0) | (b != 0)).astype(xp.int64)),
            "lxor": _sound(lambda a, b: ((a != 0) ^ (b != 0)).astype(xp.int64)),
            "lnot": _sound(lambda a: (a == 0).astype(xp.int64)),
            "abs": _sound(xp.abs),
            "to_int": _sound(lambda a: a),
            "to_number": _sound(lambda a: a),
            "to_float": _sound(lambda a: a.astype(xp.float64)),
            "ord": _sound(lambda a: a),
            "year": _sound(lambda a: self._year(a // DAY)),
            "month": _sound(lambda a: self._month(a // DAY)),
            "day": _sound(lambda a: self._day(a // DAY)),
            "seconds_between": _sound(lambda a, b: (b - a).astype(xp.float64) / 1e9),
            "hour": _sound(lambda a: a % DAY // HOUR),
            "minute": _sound(lambda a: a % HOUR // MINUTE),
            "second": _sound(lambda a: a % MINUTE // SECOND),
            "weekday": _sound(lambda a: (a // DAY + 3) % 7),
        }
        for unit, (size, start) in TRUNCATED.items():
            self.on_ints[f"date_trunc_{unit}"] = _sound(partial(_down_to, size=size, start=start))
        self.on_dates: dict[str, Function] = {
            "+": self._later,
            "-": self._between_days,
            "year": _sound(self._year),
            "month": _sound(self._month),
            "day": _sound(self._day),
            "seconds_between": _sound(lambda a, b: (b - a).astype(xp.float64) * 86_400),
            "weekday": _sound(lambda a: (a + 3) % 7),
            "date_trunc_week": _sound(lambda a: a - (a + 3) % 7),
        }
        for unit, months in MONTHS.items():
            first = partial(self._first_day, months=months)
            self.on_dates[f"date_trunc_{unit}"] = _sound(first)
            self.on_ints[f"date_trunc_{unit}"] = _sound(lambda a, f=first: f(a // DAY) * DAY)
        self.on_bools: dict[str, Function] = {
            "land": _sound(lambda a, b: a & b),
            "lor": _sound(lambda a, b: a | b),
            "lxor": _sound(lambda a, b: a ^ b),
            "lnot": _sound(lambda a: ~a),
            "ord": _sound(lambda a: a.astype(xp.int64)),
            "to_int": _sound(lambda a: a.astype(xp.int64)),
            "to_number": _sound(lambda a: a.astype(xp.int64)),
            "to_float": _sound(lambda a: a.astype(xp.float64)),
        }
        self.on_floats: dict[str, Function] = {
            "+": self._real(lambda a, b: a + b),
            "-": self._real(lambda a, b=None: -a if b is None else a - b),
            "*": self._real(lambda a, b: a * b),
            "/": self._divide_floats,
            "%": self._real(xp.fmod),
            "^": self._real(xp.power),
            "abs": self._real(xp.abs),
            "floor": self._real(xp.floor),
            "ceil": self._real(xp.ceil),
            "sqrt": self._real(xp.sqrt),
            "exp": self._real(xp.exp),
            "log": self._real(xp.log),
            "round": _sound(self._round),
            "round_to": _sound(self._round_to),
            "to_int": self._truncate,
            "to_number": self._truncate,
            "to_decimal": self._scaled,
            "to_float": _sound(lambda a: a),
            "ord": _sound(float_to_key),
        }

    def call(self, name: str, args: Sequence[Array], kind: TypeName) -> Outcome:
        """Calls function `name` on columns other than strings; `kind` is the type of the first."""
        if kind == "float" and name in self.on_floats:
            return self.on_floats[name](*args)
        if kind == "date" and name in self.on_dates:
            return self.on_dates[name](*args)
        if kind == "bool" and name in self.on_bools:
            return self.on_bools[name](*args)
        if name in EXTREMES:
            return reduce(self.xp.minimum if name == "min" else self.xp.maximum, args), None
        return self.on_ints[name](*args)

    # ------------------------------------------------------------------------------- floats

    def _real(self, function: Callable[..., Array]) -> Function:
        """A function of floats: NaN is a failure, -0.0 becomes 0.0."""

        def real(*args: Array) -> Outcome:
            values = function(*args) + 0.0
            return values, self.found(self.xp.isnan(values))

        return real

    def _round(self, a: Array) -> Array:
        """To whole numbers, halves away from zero."""
        size = self.xp.abs(a)
        down = self.xp.floor(size)
        up = down + (size - down >= 0.5)
        found: Array = self.xp.where(a < 0, -up, up) + 0.0
        return found

    def _round_to(self, a: Array, scale: Array) -> Array:
        """To a number of digits; what is too large for them stays."""
        scaled = a * scale
        found: Array = self.xp.where(self.xp.abs(scaled) < 2.0**53, self._round(scaled) / scale, a)
        return found

    def _divide_floats(self, a: Array, b: Array) -> Outcome:
        values = a / b + 0.0
        return values, self.found(self.xp.isnan(values) | (b == 0))

    def _truncate(self, a: Array) -> Outcome:
        xp = self.xp
        whole = xp.trunc(a)
        # the least float above every int64 is 2^63 itself
        outside = ~((whole >= float(INT_MIN)) & (whole < -float(INT_MIN)))
        return xp.where(outside, 0.0, whole).astype(xp.int64), self.found(outside)

    # --------------------------------------------------------------------------------- ints

    def quotient(self, a: Array, b: Array) -> Array:
        """a / b, truncated; b is not 0."""
        found: Array = (a - self.xp.fmod(a, b)) // b
        return found

    def modulo(self, a: Array, b: Array) -> Array:
        found: Array = self.xp.fmod(a, b)
        return found

    def _divide(self, a: Array, b: Array) -> Outcome:
        """Fails where the divisor is 0, and where the least int is divided by -1."""
        bad = (b == 0) | ((b == -1) & (a == INT_MIN))
        return self.quotient(a, self.xp.where(bad, 1, b)), self.found(bad)

    def _remainder(self, a: Array, b: Array) -> Outcome:
        zero = b == 0
        return self.modulo(a, self.xp.where(zero, 1, b)), self.found(zero)

    def _power(self, a: Array, b: Array) -> Outcome:
        """A negative power truncates to 0, except of 1 and -1. Fails outside 64 bits, and for a
        negative power of 0."""
        xp = self.xp
        a, b = xp.broadcast_arrays(a, b)
        size = xp.abs(a).view(xp.uint64)  # of the least int too
        odd, unit = b & 1 == 1, size == 1
        # 1 and -1 depend on whether the power is odd; the 64th of all others is too large, or 0
        rest = xp.where(unit, 2 - odd, xp.clip(b, 0, 64))
        result = xp.ones(a.shape, dtype=xp.uint64)
        outside = xp.zeros(a.shape, dtype=bool)  # of what has been multiplied
        wide = outside  # `size` is at least 2^64
        for _ in range(7):  # bits of 64
            used = rest & 1 == 1
            most = ~xp.uint64(0) // xp.maximum(size, xp.uint64(1))
            outside = outside | (used & (wide | (result > most)))
            result = xp.where(used, result * size, result)
            wide = wide | (size >= xp.uint64(1 << 32))
            size = size * size
            rest = rest >> 1
        below = (a < 0) & odd
        outside = outside | (result > xp.where(below, xp.uint64(1 << 63), xp.uint64(INT_MAX)))
        whole = result.view(xp.int64)
        whole = xp.where((b < 0) & ~unit, 0, xp.where(below, -whole, whole))
        return whole, self.found(outside | ((b < 0) & (a == 0)))

    def _shift_right_unsigned(self, a: Array, b: Array) -> Array:
        unsigned = self.xp.uint64
        shifted: Array = (a.view(unsigned) >> (b & 63).astype(unsigned)).view(self.xp.int64)
        return shifted

    # ----------------------------------------------------------------------------- decimals

    def _checked(self, function: Callable[..., Array]) -> Function:
        """A function of scaled ints that cannot leave 64 bits; too many digits are a failure."""

        def checked(*args: Array) -> Outcome:
            values = function(*args)
            return values, self.found(self._beyond(values))

        return checked

    def _beyond(self, values: Array) -> Array:
        found: Array = (values <= -LIMIT) | (values >= LIMIT)
        return found

    def _exact_product(self, a: Array, b: Array) -> Outcome:
        """Of any ints."""
        xp = self.xp
        most = (LIMIT - 1) // xp.maximum(xp.abs(b), 1)
        beyond = self._beyond(a) | self._beyond(b) | (xp.abs(a) > most)
        return a * b, self.found(beyond & (a != 0) & (b != 0))

    def _rounded(self, a: Array, tens: Array) -> Array:
        """Halves away from zero."""
        size = (self.xp.abs(a) + tens // 2) // tens
        found: Array = self.xp.where(a < 0, -size, size)
        return found

    def _scaled(self, a: Array, tens: Array) -> Outcome:
        xp = self.xp
        whole = xp.floor(xp.abs(a) * tens + 0.5)
        beyond = ~(whole < float(LIMIT))
        found = xp.where(beyond, 0.0, whole).astype(xp.int64)
        return xp.where(a < 0, -found, found), self.found(beyond)

    # -------------------------------------------------------------------------------- dates

    def _later(self, days: Array, duration: Array) -> Outcome:
        """A date and whole days of a duration. Fails outside the years 1 to 9999."""
        found = days + duration // DAY
        bad = (duration % DAY != 0) | (found < FIRST_DAY) | (found > LAST_DAY)
        return found, self.found(bad)

    def _between_days(self, a: Array, b: Array) -> Outcome:
        """The duration between dates. Fails outside 64 bits."""
        days = a - b
        return days * DAY, self.found(self.xp.abs(days) > INT_MAX // DAY)

    def _since_march(self, days: Array) -> tuple[Array, Array]:
        """The year that began in the last March before days since 1970, and the day of that year;
        in eras of 400 years."""
        days = days + 719_468
        era = days // 146_097
        of_era = days - era * 146_097
        year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
        return year + era * 400, of_era - (365 * year + year // 4 - year // 100)

    def _first_day(self, days: Array, months: int) -> Array:
        """The first day of the month, or of the period of so many months of a year."""
        back = (self._month(days) - 1) % months
        found: Array = days - self._day(days) + 1
        for step in range(1, months):
            before = found - 1  # the last day of a month
            found = self.xp.where(back >= step, found - self._day(before), found)
        return found

    def _year(self, days: Array) -> Array:
        year, day = self._since_march(days)
        found: Array = year + (day >= 306)  # from January on
        return found

    def _month(self, days: Array) -> Array:
        month = (5 * self._since_march(days)[1] + 2) // 153  # 0 is March
        found: Array = month + self.xp.where(month < 10, 3, -9)
        return found

    def _day(self, days: Array) -> Array:
        _, day = self._since_march(days)
        found: Array = day - (153 * ((5 * day + 2) // 153) + 2) // 5 + 1
        return found


_FUNCTIONS = Functions(np, lambda mask: mask if mask.any() else None)
