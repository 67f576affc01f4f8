"""Evaluates expressions over rows on a device: keys to values, functions, values to keys.

The functions are those of `cpu_ops/functions.py`, on a device's arrays. The host computes constant
expressions. Strings are codes: comparisons use their ranks, and a function of one string is a table
of all codes, which the host computes and this module caches. Functions that make new strings, or
need the texts of two strings, do not run on a device.

A mask says which rows failed. Nothing here reads it, since that would cost a round trip.
"""

from __future__ import annotations

from functools import partial
from weakref import WeakKeyDictionary

from gdatalog.calls import NotOnDevice
from gdatalog.cpu_ops.expressions import (
    ByName,
    Scope,
    constant,
    either,
    may_be_null,
    nulling,
    to_keys,
    to_values,
)
from gdatalog.cpu_ops.functions import EQUALITY, EXTREMES, Functions, extreme_symbol
from gdatalog.gpu_ops.byte_marks import DeviceByteMarks
from gdatalog.gpu_ops.cupy_driver import CupyDriver
from gdatalog.gpu_ops.rows import Array, RowOperations
from gdatalog.overhead import spending
from gdatalog.plan.join_plan import Apply, Constant, Expr, Slot, slots
from gdatalog.printer.expressions import printable
from gdatalog.printer.filled_tables import fill
from gdatalog.storage.keys import float_to_key, key_to_float
from gdatalog.storage.symbols import SymbolTable
from gdatalog.values import NULL

_KEPT = 256  # maximum entries of the caches of constants and of tables; a full one is cleared


class ExpressionOperations(RowOperations):
    """Operations on expressions."""

    float_to_key = staticmethod(float_to_key)
    key_to_float = staticmethod(key_to_float)

    def __init__(self, driver: CupyDriver) -> None:
        super().__init__(driver)
        self.functions = DeviceFunctions(self.xp, lambda mask: mask)
        self._constants: dict[int, Array] = {}
        self._ranks: WeakKeyDictionary[SymbolTable, Array] = WeakKeyDictionary()
        self._tables: dict[int, tuple[object, Array]] = {}  # by id of the host's table, kept alive

    def evaluate(
        self, expr: Expr, columns: ByName, size: int, scope: Scope
    ) -> tuple[Array, Array | None]:
        """The key of an expression for each row, and a mask of the rows where it failed, or None if
        it cannot fail."""
        if isinstance(expr, Slot):
            return columns[expr.name], None
        keys, failed = self._keys(expr, columns, scope)
        return self._long(keys, size), None if failed is None else self._long(failed, size)

    def test(self, expr: Expr, columns: ByName, size: int, scope: Scope) -> Array:
        """A mask of the rows that pass a test. Tests cannot fail, since earlier steps have computed
        their operands."""
        return self._long(self._values(expr, columns, scope)[0], size)

    def ranks_of(self, symbols: SymbolTable, codes: Array) -> Array:
        """The rank of each symbol among all texts, in the order of code points; nulls stay
        nulls."""
        if codes.dtype != self.xp.int64:
            return self._ranks_of(symbols, codes)
        null = codes == NULL
        symbols.intern("")  # a text is there, and read where a null is
        ranks = self._ranks_of(symbols, self.xp.where(null, 0, codes))
        return self.xp.where(null, self.xp.int64(NULL), ranks)

    def _ranks_of(self, symbols: SymbolTable, codes: Array) -> Array:
        ranks = self._ranks.get(symbols)
        if ranks is None or len(ranks) != len(symbols):
            host = symbols.ranks()
            with spending("moving", host.nbytes):
                ranks = self.xp.asarray(host)
            self._ranks[symbols] = ranks
        return ranks[codes]

    def seen_rows(self, most: int) -> DeviceByteMarks:
        """An empty set of rows, with at most `most` bytes of marks."""
        return DeviceByteMarks(self, most)

    def _long(self, values: Array, size: int) -> Array:
        if len(values) == size:
            return values
        return self.xp.ascontiguousarray(self.xp.broadcast_to(values, (size,)))

    def _keys(self, expr: Expr, columns: ByName, scope: Scope) -> tuple[Array, Array | None]:
        if isinstance(expr, Slot):
            return columns[expr.name], None
        if isinstance(expr, Constant):
            return self._constant(constant(expr, scope)[0]), None
        if isinstance(expr, Apply) and may_be_null(expr):
            return nulling(self.xp, partial(self._keys, scope=scope), expr, columns)
        values, failed = self._values(expr, columns, scope)
        return to_keys(values, expr.type), failed

    def _values(self, expr: Expr, columns: ByName, scope: Scope) -> tuple[Array, Array | None]:
        if isinstance(expr, Slot):
            return to_values(columns[expr.name], expr.type), None
        if may_be_null(expr):
            keys, failed = self._keys(expr, columns, scope)
            return to_values(keys, expr.type), failed
        if (
            isinstance(expr, Apply)
            and expr.function in EQUALITY
            and any(map(may_be_null, expr.args))
        ):
            left, right = (self._keys(arg, columns, scope)[0] for arg in expr.args)
            return self.functions.order[expr.function](left, right), None
        if not slots(expr):
            key, fails = constant(expr, scope)
            values = to_values(self._constant(key), expr.type)
            return values, self.xp.ones(1, dtype=bool) if fails else None
        assert isinstance(expr, Apply)
        kind = expr.args[0].type
        ordered = expr.function in self.functions.order
        symbols = "symbol" in (arg.type for arg in expr.args)
        if symbols and not ordered and expr.function not in ("ord", *EXTREMES):
            return self._table(expr, columns, scope)
        args, failed = [], None
        for arg in expr.args:
            values, bad = self._values(arg, columns, scope)
            if kind == "symbol" and expr.function not in EQUALITY and expr.function not in EXTREMES:
                values = self._ranks_of(scope.symbols, values)
            args.append(values)
            failed = either(failed, bad)
        if ordered:
            return self.functions.order[expr.function](*args), failed
        if kind == "symbol":
            if expr.function == "ord":
                return args[0], failed
            ranks_of = partial(self._ranks_of, scope.symbols)
            return extreme_symbol(self.xp, expr.function, args, ranks_of), failed
        values, bad = self.functions.call(expr.function, args, kind)
        return values, either(failed, bad)

    def _table(self, expr: Apply, columns: ByName, scope: Scope) -> tuple[Array, Array | None]:
        """A function of one string that varies, looked up in a table of all codes."""
        reason = printable(expr)
        if reason is not None:
            raise NotOnDevice(reason)
        (varying,) = (arg for arg in expr.args if slots(arg))
        codes, failed = self._values(varying, columns, scope)
        keys, bad = fill(expr, scope)
        values = self._uploaded(keys)[codes]
        if expr.type == "bool":
            values = values != 0
        elif expr.type == "float":
            values = self.key_to_float(values)
        if bad.any():
            failed = either(failed, self._uploaded(bad)[codes] != 0)
        return values, failed

    def _uploaded(self, table: Array) -> Array:
        known = self._tables.get(id(table))
        if known is None:
            if len(self._tables) >= _KEPT:
                self._tables.clear()
            with spending("moving", table.nbytes):
                known = table, self.xp.asarray(table)
            self._tables[id(table)] = known
        return known[1]

    def _constant(self, key: int) -> Array:
        found = self._constants.get(key)
        if found is None:
            if len(self._constants) >= _KEPT:
                self._constants.clear()
            found = self._constants[key] = self.xp.full(1, key, dtype=self.xp.int64)
        return found


class DeviceFunctions(Functions):
    """Functions without `fmod` of ints, which CuPy computes with doubles."""

    def quotient(self, a: Array, b: Array) -> Array:
        xp = self.xp
        turned = b == -1  # the least int divided by it overflows
        safe = xp.where(turned, 1, b)
        down = a // safe
        up = (down < 0) & (down * safe != a)
        return xp.where(turned, -a, down + up)

    def modulo(self, a: Array, b: Array) -> Array:
        return a - self.quotient(a, b) * b
