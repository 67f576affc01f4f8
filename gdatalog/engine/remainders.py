"""Large integers as remainders modulo 31-bit primes."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt, log2, prod

from gdatalog.plan.effects import all_steps, participants
from gdatalog.plan.join_plan import Branch, JoinPlan, Tally, TrieRef

FIRST_PRIME = (1 << 31) - 1  # products of two remainders have 62 bits


def most_bits(join: JoinPlan, bits_of: Callable[[TrieRef], float]) -> float:
    """An upper bound of the bits of a join's count. `bits_of`: an upper bound of the bits of a
    trie's number of rows."""
    inner: dict[str, set[int]] = {}
    for step in join.steps:
        if isinstance(step, Tally):
            parts = (part for each in all_steps(step.steps) for part in participants(each))
            inner[step.table] = {part.trie for part in parts}
    bits: dict[str, float] = {}
    whole = [0.0] * len(join.tries)
    for at, ref in enumerate(join.tries):  # tallies also read later tries
        if ref.relation not in inner:
            whole[at] = bits_of(ref)
    for table, tries in inner.items():  # in the order of filling
        bits[table] = sum(bits.get(join.tries[at].relation, whole[at]) for at in tries)
    own = set().union(*inner.values())
    several = log2(join.orbit)
    for step in all_steps(join.steps):
        if isinstance(step, Branch) and step.terms:  # the first term is the greatest
            for number in step.terms[0][1]:
                inside = all_steps(step.alternatives[number])
                tries = {part.trie for each in inside for part in participants(each)}
                several += sum(whole[at] for at in tries)
        elif isinstance(step, Branch):
            several += log2(len(step.alternatives))
    return several + sum(
        bits.get(ref.relation, whole[at]) for at, ref in enumerate(join.tries) if at not in own
    )


def primes_below(count: int) -> list[int]:
    """The largest primes below 2^31, in descending order."""
    found: list[int] = []
    candidate = FIRST_PRIME
    while len(found) < count:
        if all(candidate % divisor for divisor in range(3, isqrt(candidate) + 1, 2)):
            found.append(candidate)
        candidate -= 2
    return found


def combined(remainders: list[int], primes: list[int]) -> int:
    """The number below the product of the primes with these remainders (Chinese remainder theorem).

    >>> combined([2, 3], [5, 7])
    17
    """
    whole = prod(primes)
    parts = zip(remainders, primes, strict=True)
    return sum(left * (whole // p) * pow(whole // p, -1, p) for left, p in parts) % whole
