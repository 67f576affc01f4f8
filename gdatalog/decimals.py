"""Decimals: types of numbers with a fixed number of digits after the point, kept as scaled ints.

All decimals with as many digits after the point are one type, `decimal(18,s)`, whatever number of
digits is declared. Without digits after the point they are ints.

Python's own `decimal` is imported by the functions that need it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decimal import Context, Decimal

DIGITS = 18
LIMIT = 10**DIGITS  # scaled ints are less
DECIMALS: tuple[str, ...] = tuple([f"decimal({DIGITS},{at + 1})" for at in range(DIGITS)])
_SCALES = {"int": 0, **{name: scale for scale, name in enumerate(DECIMALS, 1)}}
# As they are written: decimal(12,2) is the type decimal(18,2).
WRITTEN_DECIMALS: dict[str, str] = {
    f"decimal({digits},{scale})": name
    for digits in range(1, DIGITS + 1)
    for name, scale in _SCALES.items()
    if scale <= digits
}


def scale_of(kind: str | None) -> int:
    """The digits after the point of a type of decimals; 0 for other types.

    >>> scale_of("decimal(18,2)"), scale_of("int")
    (2, 0)
    """
    return 0 if kind is None else _SCALES.get(kind, 0)


def decimal_type(scale: int) -> str:
    """The type of decimals with so many digits after the point.

    >>> decimal_type(2), decimal_type(0)
    ('decimal(18,2)', 'int')
    """
    return DECIMALS[scale - 1] if scale else "int"


def result_scale(name: str, one: int, other: int) -> int:
    """The digits after the point of what `+`, `-`, `*` or `%` gives."""
    return one + other if name == "*" else max(one, other)


def scaled(value: Decimal, scale: int, *, rounded: bool = False) -> int | None:
    """A decimal as an int, times 10^scale; None if it has other digits, or more than `DIGITS`.

    `rounded`: more digits after the point are rounded, halves away from zero.

    >>> from decimal import Decimal
    >>> scaled(Decimal("1.10"), 2), scaled(Decimal("1.105"), 2)
    (110, None)
    >>> scaled(Decimal("-1.105"), 2, rounded=True)
    -111
    """
    if not value.is_finite() or value.adjusted() + scale >= DIGITS:
        return 0 if not value else None
    exact = value.scaleb(scale, _exact())
    whole = exact.to_integral_value("ROUND_HALF_UP")
    if not rounded and whole != exact:
        return None
    return int(whole) if abs(whole) < LIMIT else None


def decimal_of(literal: float) -> Decimal:
    """The decimal that a literal of a number stands for, exactly as it is written.

    >>> decimal_of(1.1), decimal_of(exact_float("0.12345678901234567891"))
    (Decimal('1.1'), Decimal('0.12345678901234567891'))
    """
    from decimal import Decimal

    return Decimal(literal.text if isinstance(literal, LongFloat) else repr(literal))


class LongFloat(float):
    """A literal with more digits than a float keeps."""

    __slots__ = ("text",)
    text: str

    def __neg__(self) -> LongFloat:
        found = LongFloat(-float(self))
        found.text = "-" + self.text
        return found


def exact_float(text: str) -> float:
    """The float of a literal, which remembers its text where it has more digits."""
    value = float(text)
    if len(text) > 15 and repr(value) != text:
        from decimal import Decimal

        if Decimal(text) != Decimal(repr(value)):
            value = LongFloat(value)
            value.text = text
    return value


def digits_after(value: Decimal) -> int:
    """The digits after the point that a decimal needs.

    >>> from decimal import Decimal
    >>> digits_after(Decimal("1.10")), digits_after(Decimal("1e3"))
    (1, 0)
    """
    exponent = value.normalize(_exact()).as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else DIGITS + 1


def decimal_to_text(key: int, scale: int) -> str:
    """
    >>> decimal_to_text(-5, 2), decimal_to_text(110, 2)
    ('-0.05', '1.10')
    """
    digits = f"{abs(key):0{scale + 1}}"
    return f"{'-' * (key < 0)}{digits[:-scale]}.{digits[-scale:]}"


def decimal_from_text(text: str, scale: int, *, rounded: bool = False) -> int | None:
    """The scaled int of a text; more digits after the point are `rounded`, or None.

    >>> decimal_from_text("1.1", 2), decimal_from_text("1.105", 2), decimal_from_text("abc", 2)
    (110, None, None)
    """
    from decimal import Decimal

    return scaled(Decimal(text), scale, rounded=rounded) if _NUMBER.fullmatch(text) else None


@cache
def _exact() -> Context:
    from decimal import Context

    return Context(prec=400)


_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,99}\.?[0-9]{0,99}|\.[0-9]{1,99})(?:[eE][+-]?[0-9]{1,3})?")
