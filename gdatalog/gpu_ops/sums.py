"""Counts, sums and optima by group, on a device."""

from __future__ import annotations

from gdatalog.calls import NotOnDevice
from gdatalog.gpu_ops.intersection import Intersections
from gdatalog.gpu_ops.kernels import type_of
from gdatalog.gpu_ops.rows import Array
from gdatalog.storage.row_ops import DeviceOps
from gdatalog.values import INT_MAX

_TOO_LARGE = "counts or sums may leave 62 bits"
_EACH = 16  # rows that a thread adds up before it adds to a group's total


class Sums(Intersections):
    """Operations on groups."""

    @property
    def on_device(self) -> DeviceOps:
        return self

    def sums_by(self, groups: Array, count: int, amounts: Array | None) -> Array:
        """The sum of each group's amounts (1 each if None)."""
        xp = self.xp
        if amounts is not None and amounts.dtype == xp.float64:
            return self._sums_of_floats(groups, count, amounts)
        if count == 1:  # the most frequent case: no group
            if amounts is None:
                return xp.full(1, len(groups))
            return amounts.sum(dtype=xp.int64).reshape(1)
        totals = xp.zeros(count, dtype=xp.int64)
        self.add_at(totals, groups, amounts)
        return totals

    def add_at(self, totals: Array, rows: Array, amounts: Array | None) -> None:
        """Adds each amount (1 if None) to `totals[row]`."""
        size = len(rows)
        if not size:
            return
        given = amounts if amounts is not None else self.xp.empty(0, dtype=self.xp.int64)
        rows, given = map(self.xp.ascontiguousarray, (rows, given))
        args = [rows, given.astype(self.xp.int64, copy=False), totals]
        types = {"GROUP": type_of(rows)}
        args += [int(amounts is not None), _EACH, size]
        self.kernels.launch('#include "sums.cuh"\n', "sum_ints", types, size, args)

    def _sums_of_floats(self, groups: Array, count: int, amounts: Array) -> Array:
        xp = self.xp
        totals = xp.zeros(count, dtype=xp.float64)
        if count == 1:
            totals[0] = amounts.sum()
        elif count:
            order = xp.argsort(groups, kind="stable")
            starts = xp.searchsorted(groups[order], xp.arange(count + 1))
            args = [starts, amounts[order], totals, count]
            types = {"GROUP": "i64"}
            self.kernels.launch('#include "sums.cuh"\n', "sum_doubles", types, 128 * count, args)
        return totals

    def best_by(self, groups: Array, count: int, values: Array, least: bool) -> Array:
        """The row with the least (or greatest) int of each group. No group is empty."""
        xp, size = self.xp, len(groups)
        values = (values if least else ~values).astype(xp.int64, copy=False)
        best, rows = xp.full(count, INT_MAX), xp.full(count, size)
        groups, values = map(xp.ascontiguousarray, (groups, values))
        types = {"GROUP": type_of(groups)}
        args = [groups, values, best, _EACH, size]
        self.kernels.launch('#include "sums.cuh"\n', "best_values", types, size, args)
        args = [groups, values, best, rows, size]
        self.kernels.launch('#include "sums.cuh"\n', "best_rows", types, size, args)
        return rows

    # ------------------------------------------------------------------ exact counts and sums

    def times(self, counts: Array, weight: Array) -> Array:
        """Multiplies counts, if the products certainly fit. Waits for the greatest counts."""
        if len(counts) and len(weight):
            xp = self.xp
            most = counts.max().astype(xp.float64) * weight.max().astype(xp.float64)
            if float(most) >= 2.0**63:
                raise NotOnDevice(_TOO_LARGE)
        return counts * weight

    def add_counts(self, totals: Array, rows: Array, amounts: Array | None) -> Array:
        """The totals, with the amounts (1 each if None) added to those of `rows`."""
        if amounts is not None and len(totals):
            self._check(totals.max() + amounts.sum(dtype=self.xp.float64))
        self.add_at(totals, rows, amounts)
        return totals

    def exact_sums(self, groups: Array, count: int, amounts: Array | None) -> Array:
        """Sums of ints by group."""
        if amounts is not None:
            self._check(abs(amounts.astype(self.xp.float64)).sum())
        return self.sums_by(groups, count, amounts)

    counts_by = exact_sums

    def _check(self, bound: Array) -> None:
        if float(bound) >= 2.0**62:
            raise NotOnDevice(_TOO_LARGE)

    def halves(self, values: Array, weight: Array | None) -> tuple[Array, Array]:
        """value * weight as high * 2^32 + low, with both halves far from an overflow."""
        high, low = values >> 32, values & 0xFFFF_FFFF
        if weight is None or not len(weight):
            return high, low
        if int(weight.max()) >= 1 << 31:
            raise NotOnDevice(_TOO_LARGE)
        product = low * weight
        return high * weight + (product >> 32), product & 0xFFFF_FFFF

    def split_sums(
        self, groups: Array, count: int, values: Array, weight: Array | None
    ) -> tuple[Array, Array]:
        """The sum of value * weight of each group, as high * 2^32 + low."""
        high, low = self.halves(values.astype(self.xp.int64), weight)
        return self.exact_sums(groups, count, high), self.sums_by(groups, count, low)

    def means(self, high: Array, low: Array, counts: Array) -> Array:
        """(high * 2^32 + low) / count, rounded once. Python computes it, group by group."""
        rows = zip(*self.xp.stack([high, low, counts]).tolist(), strict=True)
        return self.xp.asarray([((h << 32) + lo) / n for h, lo, n in rows], dtype=self.xp.float64)
