"""Values inside compiled loops: floats and their keys, arithmetic as in NumPy, dates.

Each function does for one value what `cpu_ops.functions` does for columns. The calling code tests
whether a computation fails; here a result is only never undefined.
"""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.loop_language import Scalar, inlined, intrinsic, part

_ALL_BUT_SIGN = 0x7FFF_FFFF_FFFF_FFFF
_LIMIT = 1_000_000_000_000_000_000  # of decimals
_NANOSECONDS_A_DAY = 86_400_000_000_000
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # of dates
_MOST_DAYS = 106_751  # of a duration


@inlined
def float_of_key(key: int) -> Scalar:
    return np.int64(key ^ ((key >> 63) & _ALL_BUT_SIGN)).view(np.float64)


@inlined
def key_of_float(value: float) -> Scalar:
    bits = np.float64(value + 0.0).view(np.int64)  # -0.0 + 0.0 is 0.0
    return bits ^ ((bits >> 63) & _ALL_BUT_SIGN)


@intrinsic
def plus(a: int, b: int) -> Scalar:
    """a + b, which wraps."""
    return np.add(np.int64(a), np.int64(b))


@intrinsic
def minus(a: int, b: int) -> Scalar:
    """a - b, which wraps."""
    return np.subtract(np.int64(a), np.int64(b))


@intrinsic
def times(a: int, b: int) -> Scalar:
    """a * b, which wraps."""
    return np.multiply(np.int64(a), np.int64(b))


@inlined
def quotient_fails(a: int, b: int) -> bool:
    """Whether a / b is a division by 0, or outside 64 bits."""
    return b == 0 or (b == -1 and a == ~_ALL_BUT_SIGN)


@inlined
def divide(a: int, b: int) -> int:
    """Truncates. Division by -1 wraps, instead of trapping."""
    if b == -1:
        return -a
    quotient = a // b
    if quotient < 0 and quotient * b != a:
        quotient += 1
    return quotient


@inlined
def remainder(a: int, b: int) -> int:
    """Has the sign of the dividend."""
    if b == -1:
        return 0
    rest = a % b
    if rest != 0 and (a < 0) != (b < 0):
        rest -= b
    return rest


@inlined
def product_fails(a: int, b: int) -> bool:
    """Whether a decimal a * b has more than 18 digits."""
    if a == 0 or b == 0:
        return False
    if not (-_LIMIT < a < _LIMIT and -_LIMIT < b < _LIMIT):
        return True
    return abs(a) > (_LIMIT - 1) // abs(b)


@inlined
def floored(a: int, tens: int) -> int:
    """a / tens, where tens > 0."""
    return a // tens


@inlined
def rounded(a: int, tens: int) -> int:
    """a / tens, where tens > 0; halves away from zero."""
    size = (abs(a) + tens // 2) // tens
    return -size if a < 0 else size


@part
def power_fails(a: int, b: int) -> bool:
    """Whether a ^ b is outside 64 bits, or a negative power of 0."""
    if b < 0 or -1 <= a <= 1:
        return b < 0 and a == 0
    size = np.uint64(-a) if a < 0 else np.uint64(a)
    most = np.uint64(_ALL_BUT_SIGN)
    if a < 0 and b & 1:
        most += np.uint64(1)
    most //= size
    result, rest = np.uint64(1), b
    while rest > 0 and result <= most:  # at most 63 times
        result *= size
        rest -= 1
    return rest > 0


@part
def power(a: int, b: int) -> int:
    """Wraps. A negative power truncates to 0, except of 1 and -1."""
    if b < 0:
        if a == 1:
            return 1
        if a == -1:
            return -1 if b & 1 else 1
        return 0
    result, base, rest = 1, a, b
    while rest:
        if rest & 1:
            result = times(result, base)
        base = times(base, base)
        rest >>= 1
    return result


@inlined
def shift_right_unsigned(a: int, b: int) -> Scalar:
    return np.int64(np.uint64(a) >> np.uint64(b & 63))


@inlined
def truncate(value: float) -> Scalar:
    """A float as an int; 0 if it is out of range."""
    if -9223372036854775808.0 <= value < 9223372036854775808.0:
        return np.int64(value)
    return np.int64(0)


@part
def _civil(since: int) -> tuple[int, int, int]:
    """Year, month and day of days since 1970.

    Years are counted from March, so that a leap day is the last of its year, in eras of 400
    years, which have 146097 days; day 719468 of that count is 1970-01-01.
    """
    days = since + 719_468
    era = days // 146_097
    day = days - era * 146_097
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153  # of a year that starts in March
    day -= (153 * month + 2) // 5
    year += 400 * era
    if month >= 10:
        return year + 1, month - 9, day + 1
    return year, month + 3, day + 1


@inlined
def year_of(time: int) -> int:
    return _civil(time // _NANOSECONDS_A_DAY)[0]


@inlined
def year_of_date(days: int) -> int:
    return _civil(days)[0]


@inlined
def month_of(time: int) -> int:
    return _civil(time // _NANOSECONDS_A_DAY)[1]


@inlined
def month_of_date(days: int) -> int:
    return _civil(days)[1]


@inlined
def day_of(time: int) -> int:
    return _civil(time // _NANOSECONDS_A_DAY)[2]


@inlined
def day_of_date(days: int) -> int:
    return _civil(days)[2]


@inlined
def hour_of(time: int) -> int:
    return time % _NANOSECONDS_A_DAY // 3_600_000_000_000


@inlined
def minute_of(time: int) -> int:
    return time % 3_600_000_000_000 // 60_000_000_000


@inlined
def second_of(time: int) -> int:
    return time % 60_000_000_000 // 1_000_000_000


@inlined
def weekday_of(time: int) -> int:
    """From 0, Monday."""
    return (time // _NANOSECONDS_A_DAY + 3) % 7


@inlined
def weekday_of_date(days: int) -> int:
    return (days + 3) % 7


@inlined
def down_to(value: int, size: int, start: int) -> Scalar:
    """The greatest `start + n * size`, for a whole n, that is not above the value."""
    return minus(value, minus(value, start) % size)


@part
def first_day(days: int, months: int) -> int:
    """The first day of the month, or of the period of so many months of a year."""
    _, month, day = _civil(days)
    first = days - day + 1
    for _ in range((month - 1) % months):
        first -= _civil(first - 1)[2]
    return first


@inlined
def first_day_of(time: int, months: int) -> Scalar:
    return times(first_day(time // _NANOSECONDS_A_DAY, months), _NANOSECONDS_A_DAY)


@inlined
def round_of(value: float) -> Scalar:
    """To a whole number, halves away from zero."""
    size = abs(value)
    down = np.floor(size)
    up = down + 1.0 if size - down >= 0.5 else down
    return -up if value < 0.0 else up


@inlined
def round_to(value: float, scale: float) -> Scalar:
    """To a number of digits; what is too large for them stays."""
    scaled = value * scale
    return round_of(scaled) / scale if abs(scaled) < 9007199254740992.0 else value


@inlined
def later_date(days: int, duration: int) -> Scalar:
    return plus(days, duration // _NANOSECONDS_A_DAY)


@inlined
def later_date_fails(days: int, duration: int) -> bool:
    """Whether the duration has parts of days, or the date is outside the years 1 to 9999."""
    later = days + duration // _NANOSECONDS_A_DAY
    return duration % _NANOSECONDS_A_DAY != 0 or later < _FIRST_DAY or later > _LAST_DAY


@inlined
def between_dates(a: int, b: int) -> Scalar:
    return times(a - b, _NANOSECONDS_A_DAY)


@inlined
def between_dates_fails(a: int, b: int) -> bool:
    return a - b > _MOST_DAYS or b - a > _MOST_DAYS


LONGEST = 1 << 50  # of a range: practically endless


@part
def length_of(start: int, stop: int, step: int) -> int:
    """How many values a range has. Unsigned, because the distance of two ints may not fit into
    one."""
    if step == 0 or (start >= stop if step > 0 else start <= stop):
        return 0
    distance = (
        np.uint64(stop) - np.uint64(start) if step > 0 else np.uint64(start) - np.uint64(stop)
    )
    stride = np.uint64(step) if step > 0 else np.uint64(-step)
    return int(min((distance - np.uint64(1)) // stride, np.uint64(LONGEST - 1))) + 1
