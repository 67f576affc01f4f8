"""Large integers represented by their remainders modulo 31-bit primes."""

from __future__ import annotations

from math import isqrt, prod

FIRST_PRIME = (1 << 31) - 1  # products of two remainders have 62 bits


def primes_below(count: int) -> list[int]:
    """Returns this many primes below 2^31, in descending order."""
    found: list[int] = []
    candidate = FIRST_PRIME
    while len(found) < count:
        if all(candidate % divisor for divisor in range(3, isqrt(candidate) + 1, 2)):
            found.append(candidate)
        candidate -= 2
    return found


def combined(remainders: list[int], primes: list[int]) -> int:
    """The number below the product of the primes that has these remainders.

    >>> combined([2, 3], [5, 7])
    17
    """
    whole = prod(primes)
    parts = zip(remainders, primes, strict=True)
    return sum(left * (whole // p) * pow(whole // p, -1, p) for left, p in parts) % whole
