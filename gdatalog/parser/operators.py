"""How tightly operators bind, for reading and for printing."""

from __future__ import annotations

BINARY = {
    "lor": 1,
    "lxor": 2,
    "land": 3,
    "bor": 4,
    "bxor": 5,
    "band": 6,
    "bshl": 7,
    "bshr": 7,
    "bshru": 7,
    "+": 8,
    "-": 8,
    "*": 9,
    "/": 9,
    "%": 9,
    "^": 11,
}
PREFIX = 10  # - bnot lnot: looser than ^, tighter than *
POWER = 11  # the one that goes to the right
