"""Evaluates expressions over rows on a device: keys to values, functions, values to keys.

The device version of `cpu_ops/functions.py`, which defines columns of values. Constant expressions
are computed on the host. Strings are codes, as everywhere: comparisons use ranks, and a function of
one string is a table of all codes, computed on the host and cached here. Functions that make new
strings, or need the texts of two strings, do not run on a device.

A mask says which rows failed; nothing tests whether any did, which would cost a round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from gdatalog.account import spending
from gdatalog.calls import NotOnDevice
from gdatalog.cpu_ops.functions import EQUALITY, Scope
from gdatalog.cpu_ops.functions import evaluate as on_host
from gdatalog.gpu_ops import Driver
from gdatalog.gpu_ops.rows import Array, DeviceMarkedRows, RowOperations
from gdatalog.plan import Apply, Expr, Slot, slots
from gdatalog.printer import fill
from gdatalog.printer.expressions import printable
from gdatalog.storage.symbols import SymbolTable
from gdatalog.values import INT_MIN, TypeName

ColumnOf = Callable[[str], Array]
_KEPT = 256  # maximum entries of the caches of constants and of tables; a full one is cleared


class ExpressionOperations(RowOperations):
    """Operations on expressions."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        self.functions = Functions(self.xp)
        self.float_to_key = self.functions.float_to_key
        self.key_to_float = self.functions.key_to_float
        self._constants: dict[int, Array] = {}
        self._ranks: WeakKeyDictionary[SymbolTable, Array] = WeakKeyDictionary()
        self._tables: dict[int, tuple[object, Array]] = {}  # by id of the host's table, kept alive

    def evaluate(
        self, expr: Expr, column: ColumnOf, size: int, scope: Scope
    ) -> tuple[Array, Array | None]:
        """The key of an expression for each row, and a mask of the rows where it failed (None:
        nowhere)."""
        if isinstance(expr, Slot):
            return column(expr.name), None
        values, failed = self._values(expr, column, scope)
        if expr.type == "float":
            values = self.float_to_key(values)
        elif expr.type == "bool":
            values = values.astype(self.xp.int32)
        return self._long(values, size), None if failed is None else self._long(failed, size)

    def test(self, expr: Expr, column: ColumnOf, size: int, scope: Scope) -> Array:
        """A mask of the rows that pass a test. Tests do not fail: their operands have been computed
        before."""
        return self._long(self._values(expr, column, scope)[0], size)

    def ranks_of(self, symbols: SymbolTable, codes: Array) -> Array:
        """The rank of each symbol among all texts, in the order of code points."""
        ranks = self._ranks.get(symbols)
        if ranks is None or len(ranks) != len(symbols):
            host = symbols.ranks()
            with spending("moving", host.nbytes):
                ranks = self.xp.asarray(host)
            self._ranks[symbols] = ranks
        return ranks[codes]

    def marked_rows(self, most: int) -> DeviceMarkedRows:
        """An empty set of rows, with at most `most` bytes of marks."""
        return DeviceMarkedRows(self, most)

    def _long(self, values: Array, size: int) -> Array:
        if len(values) == size:
            return values
        return self.xp.ascontiguousarray(self.xp.broadcast_to(values, (size,)))

    def _to_values(self, keys: Array, kind: TypeName) -> Array:
        if kind == "float":
            return self.key_to_float(keys)
        if kind == "bool":
            return keys != 0
        return keys if kind == "symbol" else keys.astype(self.xp.int64)

    def _values(self, expr: Expr, column: ColumnOf, scope: Scope) -> tuple[Array, Array | None]:
        if isinstance(expr, Slot):
            return self._to_values(column(expr.name), expr.type), None
        if not slots(expr):
            keys, failed = on_host(expr, _no_column, 1, scope)
            values = self._to_values(self._constant(int(keys[0])), expr.type)
            if failed is None or not failed[0]:
                return values, None
            return values, self.xp.ones(1, dtype=bool)
        assert isinstance(expr, Apply)
        kind = expr.args[0].type
        ordered = expr.function in self.functions.order
        symbols = "symbol" in (arg.type for arg in expr.args)
        if symbols and not ordered and expr.function not in ("ord", *_EXTREME):
            return self._table(expr, column, scope)
        args, failed = [], None
        for arg in expr.args:
            values, bad = self._values(arg, column, scope)
            if kind == "symbol" and expr.function not in EQUALITY and expr.function not in _EXTREME:
                values = self.ranks_of(scope.symbols, values)
            args.append(values)
            failed = _either(failed, bad)
        if ordered:
            return self.functions.order[expr.function](*args), failed
        if kind == "symbol":
            found = args[0] if expr.function == "ord" else self._extreme(expr, args, scope)
            return found, failed
        values, bad = self.functions.call(expr.function, args, kind)
        return values, _either(failed, bad)

    def _extreme(self, expr: Apply, args: list[Array], scope: Scope) -> Array:
        best = args[0]
        for other in args[1:]:
            lower = self.ranks_of(scope.symbols, other) < self.ranks_of(scope.symbols, best)
            best = self.xp.where(lower if expr.function == "min" else ~lower, other, best)
        return best

    def _table(self, expr: Apply, column: ColumnOf, scope: Scope) -> tuple[Array, Array | None]:
        """A function of one string that varies, as a table of all codes."""
        reason = printable(expr)
        if reason is not None:
            raise NotOnDevice(reason)
        (varying,) = (arg for arg in expr.args if slots(arg))
        codes, failed = self._values(varying, column, scope)
        keys, bad = fill(expr, scope)
        values = self._uploaded(keys)[codes]
        if expr.type == "bool":
            values = values != 0
        elif expr.type == "float":
            values = self.key_to_float(values)
        if bad.any():
            failed = _either(failed, self._uploaded(bad)[codes] != 0)
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


_EXTREME = ("min", "max")


def _either(one: Array | None, other: Array | None) -> Array | None:
    return one if other is None else other if one is None else one | other


def _no_column(name: str) -> Array:
    raise AssertionError(name)


# The functions of the language on a device's columns of values.


Outcome = tuple[Array, Array | None]  # the column, and where it failed
Function = Callable[..., Outcome]

_DAY = 86_400_000_000_000  # nanoseconds
_SIGN = 0x7FFF_FFFF_FFFF_FFFF


class Functions:
    def __init__(self, xp: Any) -> None:
        self.xp = xp
        self.order = {
            "<": xp.less,
            "<=": xp.less_equal,
            ">": xp.greater,
            ">=": xp.greater_equal,
            "=": xp.equal,
            "!=": xp.not_equal,
        }
        self.on_ints: dict[str, Function] = {
            "+": _sound(lambda a, b: a + b),
            "-": _sound(lambda a, b=None: -a if b is None else a - b),
            "*": _sound(lambda a, b: a * b),
            "/": self._divide,
            "%": self._remainder,
            "^": self._power,
            "band": _sound(lambda a, b: a & b),
            "bor": _sound(lambda a, b: a | b),
            "bxor": _sound(lambda a, b: a ^ b),
            "bnot": _sound(lambda a: ~a),
            "bshl": _sound(lambda a, b: a << (b & 63)),
            "bshr": _sound(lambda a, b: a >> (b & 63)),
            "bshru": _sound(self._shift_right_unsigned),
            "land": _sound(lambda a, b: ((a != 0) & (b != 0)).astype(xp.int64)),
            "lor": _sound(lambda a, b: ((a != 0) | (b != 0)).astype(xp.int64)),
            "lxor": _sound(lambda a, b: ((a != 0) ^ (b != 0)).astype(xp.int64)),
            "lnot": _sound(lambda a: (a == 0).astype(xp.int64)),
            "abs": _sound(xp.abs),
            "to_int": _sound(lambda a: a),
            "to_number": _sound(lambda a: a),
            "to_float": _sound(lambda a: a.astype(xp.float64)),
            "ord": _sound(lambda a: a),
            "year": _sound(lambda a: self._date(a)[0]),
            "month": _sound(lambda a: self._date(a)[1]),
            "day": _sound(lambda a: self._date(a)[2]),
            "seconds_between": _sound(lambda a, b: (b - a).astype(xp.float64) / 1e9),
        }
        self.on_bools: dict[str, Function] = {
            "land": _sound(lambda a, b: a & b),
            "lor": _sound(lambda a, b: a | b),
            "lxor": _sound(lambda a, b: a ^ b),
            "lnot": _sound(lambda a: ~a),
            "ord": _sound(lambda a: a.astype(xp.int64)),
            "to_int": _sound(lambda a: a.astype(xp.int64)),
            "to_number": _sound(lambda a: a.astype(xp.int64)),
            "to_float": _sound(lambda a: a.astype(xp.float64)),
        }
        self.on_floats: dict[str, Function] = {
            "+": self._real(lambda a, b: a + b),
            "-": self._real(lambda a, b=None: -a if b is None else a - b),
            "*": self._real(lambda a, b: a * b),
            "/": self._divide_floats,
            "%": self._real(xp.fmod),
            "^": self._real(xp.power),
            "abs": self._real(xp.abs),
            "floor": self._real(xp.floor),
            "ceil": self._real(xp.ceil),
            "sqrt": self._real(xp.sqrt),
            "exp": self._real(xp.exp),
            "log": self._real(xp.log),
            "to_int": self._truncate,
            "to_number": self._truncate,
            "to_float": _sound(lambda a: a),
            "ord": _sound(self.float_to_key),
        }

    def call(self, name: str, args: Sequence[Array], kind: TypeName) -> Outcome:
        """Calls function `name` on columns other than strings; `kind` is the type of the first."""
        if kind == "float" and name in self.on_floats:
            return self.on_floats[name](*args)
        if kind == "bool" and name in self.on_bools:
            return self.on_bools[name](*args)
        if name in ("min", "max"):
            return self._extreme(name, args), None
        return self.on_ints[name](*args)

    def _extreme(self, name: str, args: Sequence[Array]) -> Array:
        best = args[0]
        for other in args[1:]:
            best = (self.xp.minimum if name == "min" else self.xp.maximum)(best, other)
        return best

    # ------------------------------------------------------------------------------- floats

    def float_to_key(self, values: Array) -> Array:
        bits = (values.astype(self.xp.float64) + 0.0).view(self.xp.int64)  # -0.0 + 0.0 is 0.0
        return bits ^ ((bits >> 63) & _SIGN)

    def key_to_float(self, keys: Array) -> Array:
        bits = keys.astype(self.xp.int64)
        return (bits ^ ((bits >> 63) & _SIGN)).view(self.xp.float64)

    def _real(self, function: Callable[..., Array]) -> Function:
        """A function of floats: NaN is a failure, -0.0 becomes 0.0."""

        def real(*args: Array) -> Outcome:
            values = function(*args) + 0.0
            return values, self.xp.isnan(values)

        return real

    def _divide_floats(self, a: Array, b: Array) -> Outcome:
        values = a / b + 0.0
        return values, self.xp.isnan(values) | (b == 0)

    def _truncate(self, a: Array) -> Outcome:
        xp = self.xp
        whole = xp.trunc(a)
        # the least float above every int64 is 2^63 itself
        outside = ~((whole >= float(INT_MIN)) & (whole < -float(INT_MIN)))
        return xp.where(outside, 0.0, whole).astype(xp.int64), outside

    # --------------------------------------------------------------------------------- ints

    def _quotient(self, a: Array, b: Array) -> Array:
        """a / b, truncated; b is not 0. (CuPy's fmod of ints converts to doubles.)"""
        xp = self.xp
        turned = b == -1  # the least int divided by it overflows
        safe = xp.where(turned, 1, b)
        down = a // safe
        up = (down < 0) & (down * safe != a)
        return xp.where(turned, -a, down + up)

    def _divide(self, a: Array, b: Array) -> Outcome:
        zero = b == 0
        return self._quotient(a, self.xp.where(zero, 1, b)), zero

    def _remainder(self, a: Array, b: Array) -> Outcome:
        zero = b == 0
        safe = self.xp.where(zero, 1, b)
        return a - self._quotient(a, safe) * safe, zero

    def _power(self, a: Array, b: Array) -> Outcome:
        """Wraps. A negative power truncates to 0, except of 1 and -1; of 0 it fails."""
        xp = self.xp
        a, b = xp.broadcast_arrays(a, b)
        result, base, rest = xp.ones(a.shape, dtype=xp.int64), a, xp.maximum(b, 0)
        for _ in range(63):
            result = xp.where(rest & 1 == 1, result * base, result)
            base = base * base
            rest = rest >> 1
        negative = b < 0
        sign = xp.where(b & 1 == 1, -1, 1)
        unit = xp.where(a == 1, 1, xp.where(a == -1, sign, 0))
        return xp.where(negative, unit, result), negative & (a == 0)

    def _shift_right_unsigned(self, a: Array, b: Array) -> Array:
        xp = self.xp
        a, b = xp.broadcast_arrays(a, b)
        by = b & 63
        # clears the copies of the sign that an arithmetic shift brings in
        mask = xp.where(by == 0, -1, (1 << (64 - xp.maximum(by, 1))) - 1)
        return (a >> by) & mask

    def _date(self, time: Array) -> tuple[Array, Array, Array]:
        """Year, month and day of nanoseconds since 1970, in eras of 400 years from March on."""
        xp = self.xp
        days = time // _DAY + 719_468
        era = days // 146_097
        of_era = days - era * 146_097
        year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
        of_year = of_era - (365 * year + year // 4 - year // 100)
        month = (5 * of_year + 2) // 153  # 0 is March
        day = of_year - (153 * month + 2) // 5 + 1
        month = xp.where(month < 10, month + 3, month - 9)
        return year + era * 400 + (month <= 2), month, day


def _sound(function: Callable[..., Array]) -> Function:
    """A function that cannot fail."""
    return lambda *args: (function(*args), None)
