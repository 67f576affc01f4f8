"""The precedence of operators, for parsing and formatting."""

from __future__ import annotations

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
