"""Literals that stand for several types: numbers for floats or decimals, days for dates."""

from __future__ import annotations

from typing import Any

from gdatalog.decimals import DECIMALS, decimal_of, digits_after, scale_of, scaled
from gdatalog.parser import syntax as s
from gdatalog.values import DAY


def is_flexible(literal: s.Const | s.Values, decimals: bool) -> bool:
    """Whether a literal may stand for several types: an int, a day, or a float in a program with
    decimals."""
    if literal.type == "timestamp":
        return not any(int(value) % DAY for value in _values(literal))
    return literal.type == "int" or (decimals and literal.type == "float")


def decimals_of(literal: s.Const | s.Values) -> list[str]:
    """The decimals that have all digits of literals of numbers."""
    if literal.type not in ("int", "float"):
        return []
    found = [decimal_of(value) for value in _values(literal)]
    if not all(value.is_finite() for value in found):
        return []
    least, most = max(map(digits_after, found)), max(map(abs, found))
    fits = (
        scale_of(kind) >= least and scaled(most, scale_of(kind), rounded=True) is not None
        for kind in DECIMALS
    )
    return [kind for kind, fit in zip(DECIMALS, fits, strict=True) if fit]


def _values(literal: s.Const | s.Values) -> tuple[Any, ...]:
    return (literal.value,) if isinstance(literal, s.Const) else literal.values
