"""Counts and sums that may leave 64 bits become Python's ints.

Sums of ints have two halves that cannot overflow; values near the limit are in an array of
objects.
"""

from __future__ import annotations

import numpy as np

from gdatalog.cpu_ops.groups import add_at, sums_by
from gdatalog.errors import EvaluationError
from gdatalog.storage.ordered import ranks_of as ranks_by_code
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array


def times(counts: Array, weight: Array) -> Array:
    """Multiplies counts; an error if a product does not fit into 64 bits."""
    if float(counts.max(initial=1)) * float(weight.max(initial=1)) >= 2.0**63:
        return _fitting(counts.astype(object) * weight.astype(object))
    product: Array = counts * weight
    return product


def add_counts(totals: Array, rows: Array, amounts: Array | None) -> Array:
    """The totals, with the amounts (1 each if None) added to those of `rows`, which ascend.

    An error if one does not fit into 64 bits. May change `totals` in place.
    """
    if amounts is None or (
        float(totals.max(initial=0)) + float(amounts.sum(dtype=float)) < 2.0**62
    ):
        add_at(totals, rows, amounts)
        return totals
    exact = totals.astype(object)
    add_at(exact, rows, amounts.astype(object))
    return _fitting(exact)


def _fitting(counts: Array) -> Array:
    """Counts from Python's ints; an error if one does not fit into 64 bits."""
    if len(counts) and counts.max() >= 1 << 63:
        raise EvaluationError("a count does not fit into 64 bits")
    return counts.astype(np.int64)


def exact_sums(groups: Array, count: int, amounts: Array | None) -> Array:
    """Sums of ints by group, with Python's ints if 64 bits may not suffice."""
    if amounts is not None and float(np.abs(amounts.astype(float)).sum()) >= 2.0**62:
        amounts = amounts.astype(object)
    return sums_by(groups, count, amounts)


def counts_by(groups: Array, count: int, weight: Array | None) -> Array:
    """The number of rows of each group; an error if it does not fit into 64 bits."""
    counts = exact_sums(groups, count, weight)
    return _fitting(counts) if counts.dtype == object else counts


def halves(values: Array, weight: Array | None) -> tuple[Array, Array]:
    """value * weight as high * 2^32 + low, with both halves far from an overflow."""
    high, low = values >> 32, values & 0xFFFF_FFFF
    if weight is None:
        return high, low
    # (h * 2^32 + l) * w = (h * w + (l * w >> 32)) * 2^32 + (l * w & mask), w below 2^31
    if len(weight) and int(weight.max()) >= 1 << 31:
        # Rare (products of large counts), so let Python's ints do it.
        exact = values.astype(object) * weight.astype(object)
        return exact >> 32, (exact & 0xFFFF_FFFF).astype(np.int64)
    product = low * weight
    return high * weight + (product >> 32), product & 0xFFFF_FFFF


def split_sums(
    groups: Array, count: int, values: Array, weight: Array | None
) -> tuple[Array, Array]:
    """The sum of value * weight of each group, as high * 2^32 + low, which cannot overflow."""
    if weight is None and len(values):
        most = max(-int(values.min()), int(values.max()))
        if most * len(values) < 1 << 63:
            whole = sums_by(groups, count, values.astype(np.int64, copy=False))
            return whole >> 32, whole & 0xFFFF_FFFF
    high, low = halves(values.astype(np.int64, copy=False), weight)
    return exact_sums(groups, count, high), sums_by(groups, count, low)


def means(high: Array, low: Array, counts: Array) -> Array:
    """(high * 2^32 + low) / count, rounded once."""
    if high.dtype == counts.dtype == np.int64 and (np.abs(high) < 1 << 20).all():
        exact: Array = ((high << 32) + low) / counts  # floats have both sides of the division
        return exact
    rows = zip(high.tolist(), low.tolist(), counts.tolist(), strict=True)
    return np.array([((h << 32) + lo) / n for h, lo, n in rows], dtype=np.float64)


def ranks_of(symbols: SymbolTable, codes: Array) -> Array:
    """The rank of each symbol among all texts, in the order of code points."""
    return ranks_by_code(codes, symbols.ranks())
