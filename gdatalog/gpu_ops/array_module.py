"""The array module of a device (`xp`): NumPy's functions, as far as gdatalog uses them, with our
kernels.

CuPy allocates, copies, sorts and scans, by code that it ships compiled. All other functions launch
`elementwise.cuh`, one small source, so that no query waits until CuPy has compiled a kernel.
Arrays have one dimension, or are rows (`stack`) of which each is used alone. Functions take what
their callers here give them, no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gdatalog.gpu_ops.array_operators import Operators
from gdatalog.gpu_ops.elementwise import HEAD, TILE, Elementwise

Array = Any  # a device array
Shape = int | tuple[int, ...]

_BOOL, _INT, _FLOAT = np.dtype(bool), np.dtype(np.int64), np.dtype(np.float64)
_COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isnan"}
_OF_DOUBLES = {"divide", "floor", "ceil", "trunc", "sqrt", "isnan"}
_SAME = ("bool_", "int8", "int32", "int64", "uint8", "uint32", "uint64", "float64", "dtype",
         "promote_types")  # fmt: skip
_TWO = ("add", "subtract", "multiply", "floor_divide", "remainder", "bitwise_and", "bitwise_or",
        "bitwise_xor", "left_shift", "right_shift", "equal", "not_equal", "less", "less_equal",
        "greater", "greater_equal", "minimum", "maximum", "divide")  # fmt: skip
_ONE = ("negative", "absolute", "floor", "ceil", "trunc", "sqrt", "isnan")


class ArrayModule:
    """The module of a `CupyDriver`'s arrays. `raw`: what makes and copies them, CuPy on a GPU."""

    # These and others are defined below, from their names.
    absolute: Callable[..., Any]
    minimum: Callable[..., Any]
    maximum: Callable[..., Any]
    multiply: Callable[..., Any]

    def __init__(self, driver: Any, raw: Any) -> None:
        self.raw = raw
        self.driver = driver
        self.kernels = Elementwise(driver)
        # By an operation and the types of its operands: as what it computes, and what it gives.
        self._types: dict[tuple[Any, ...], tuple[np.dtype[Any], np.dtype[Any]]] = {}
        self.ndarray: Any = type("ndarray", (Operators, raw.ndarray), {"xp": self})
        self.abs = self.absolute

    def empty(self, shape: Shape, dtype: Any = _FLOAT) -> Array:
        return self.ndarray(shape, dtype)

    def zeros(self, shape: Shape, dtype: Any = _FLOAT) -> Array:
        made = self.ndarray(shape, dtype)
        if made.nbytes:
            self.driver.clear(made)  # a quarter of the time of CuPy's `fill`
        return made

    def zeros_like(self, a: Array) -> Array:
        return self.zeros(a.shape, a.dtype)

    def ones(self, shape: Shape, dtype: Any = _FLOAT) -> Array:
        return self.full(shape, 1, dtype)

    def full(self, shape: Shape, fill_value: Any, dtype: Any = None) -> Array:
        made = self.ndarray(shape, np.result_type(fill_value) if dtype is None else dtype)
        made.fill(fill_value)
        return made

    def arange(self, start: int, stop: int | None = None, dtype: Any = _INT) -> Array:
        start, stop = (0, start) if stop is None else (start, stop)
        made = self.ndarray(max(0, stop - start), dtype)
        self.kernels.apply("range", made, (), _INT, (start, 1, 0))
        return made

    def asarray(self, a: Any, dtype: Any = None) -> Array:
        """An array of this device: of the host's, another library's on this device, or numbers."""
        if not isinstance(a, self.ndarray):
            host = not hasattr(a, "__cuda_array_interface__")
            given = np.asarray(a, dtype) if host else a
            a = self.raw.asarray(given).view(type=self.ndarray)
        return a if dtype is None else a.astype(dtype, copy=False)

    def plain(self, a: Array) -> Array:
        """The same array with CuPy's own operators, for users."""
        return a.view(type=self.raw.ndarray)

    def asnumpy(self, a: Array) -> Any:
        return a.get()

    def ascontiguousarray(self, a: Array) -> Array:
        return a if a.flags.c_contiguous else self.cast(a, a.dtype)

    def copy(self, a: Array) -> Array:
        """A copy on this device, also of another device's array."""
        if not a.flags.c_contiguous:
            return self.cast(a, a.dtype)
        made = self.ndarray(a.shape, a.dtype)
        if a.size:
            made.data.copy_from_device_async(a.data, a.nbytes)
        return made

    def cast(self, a: Array, dtype: np.dtype[Any]) -> Array:
        """A copy, as this type."""
        if a.dtype == dtype and a.flags.c_contiguous:
            return self.copy(a)
        made = self.ndarray(a.shape, dtype)
        step = a.strides[0] // a.itemsize if a.ndim == 1 and a.size else 1
        if step < 0 or (a.ndim != 1 and not a.flags.c_contiguous):
            given = self.raw.ndarray.get(a)  # through the host
            a, step = self.raw.asarray(given).view(type=self.ndarray), 1
        self.kernels.apply("copy", made, (a,), a.dtype, (0, step, 0))
        return made

    def result_type(self, *of: Any) -> np.dtype[Any]:
        return np.result_type(*(a.dtype if isinstance(a, Operators) else a for a in of))

    def copyto(self, dst: Array, src: Any) -> None:
        """Fills an array with a number, or with the entries of another."""
        dst, src = self._flat(dst), self._flat(src)
        common = src.dtype if isinstance(src, Operators) else dst.dtype
        self.kernels.apply("copy", dst, (src,), common, (0, 1, 0))

    def take(self, a: Array, indices: Array) -> Array:
        """Entries by their indices, or by a mask. Waits for the number of marks."""
        if indices.dtype == _BOOL:
            indices = self.flatnonzero(indices)
        made = self.ndarray(indices.shape, a.dtype)
        given = self._flat(a), self._flat(indices)
        self.kernels.apply("gather", made, given, a.dtype, (0, 0, a.size))
        return made

    def put(self, a: Array, indices: Array, values: Any) -> None:
        """Assigns to entries by their indices, or by a mask."""
        values = self._flat(values)
        if indices.dtype == _BOOL:
            if not isinstance(values, Operators) or values.size == 1:
                self._select(a, indices, values, a)
                return
            indices = self.flatnonzero(indices)
        common = values.dtype if isinstance(values, Operators) else a.dtype
        given = values, self._flat(indices)
        self.kernels.apply("scatter", a, given, common, (0, 0, a.size), indices.size)

    def where(self, condition: Array, x: Any, y: Any) -> Array:
        size = self._size(condition, x, y)
        made = self.ndarray(size, self.result_type(x, y))
        self._select(made, condition, x, y)
        return made

    def _select(self, out: Array, condition: Array, x: Any, y: Any) -> None:
        given = tuple(map(self._flat, (condition, x, y)))
        self.kernels.apply("select", out, given, out.dtype)

    def broadcast_to(self, array: Array, shape: tuple[int, ...]) -> Array:
        made = self.ndarray(shape, array.dtype)
        self.copyto(made, array)
        return made

    def broadcast_arrays(self, *args: Array) -> list[Array]:
        shape = (self._size(*args),)
        return [a if a.shape == shape else self.broadcast_to(a, shape) for a in args]

    def concatenate(self, tup: Sequence[Array]) -> Array:
        made = self.ndarray(sum(a.size for a in tup), self.result_type(*tup))
        start = 0
        for part in tup:
            self.copyto(made[start : start + part.size], part)
            start += part.size
        return made

    def stack(self, tup: Sequence[Array]) -> Array:
        return self.concatenate(tup).reshape(len(tup), *tup[0].shape)

    def append(self, arr: Array, values: Array) -> Array:
        return self.concatenate([arr, values])

    def computed(self, name: str, args: Sequence[Any], out: Array | None = None) -> Array:
        """An operation of these operands; into `out`, if it is given."""
        kinds = (name, *[getattr(a, "dtype", type(a)) for a in args])
        types = self._types.get(kinds)
        if types is None:
            common = self.result_type(*args)
            if name in _OF_DOUBLES and common.kind != "f":
                common = _FLOAT
            types = self._types[kinds] = common, _BOOL if name in _COMPARISONS else common
        if out is None:
            shapes = {a.shape for a in args if isinstance(a, Operators)}
            shape: tuple[int, ...] = shapes.pop()
            if shapes or len(shape) > 1:
                shape = (self._size(*args),)
            out = self.ndarray(shape, types[1])
        self.kernels.apply(name, out, [self._flat(a) for a in args], types[0])
        return out

    def invert(self, a: Array, out: Array | None = None) -> Array:
        return self.computed("logical_not" if a.dtype == _BOOL else "invert", (a,), out)

    def clip(self, a: Array, a_min: Any, a_max: Any) -> Array:
        return self.minimum(self.maximum(a, a_min), a_max)

    def power(self, a: Array, b: Any, out: Array | None = None) -> Array:
        if isinstance(b, int) and b == 2:
            return self.multiply(a, a, out=out)
        return self._real("power", a, b)

    def fmod(self, a: Array, b: Array) -> Array:
        return self._real("fmod", a, b)

    def exp(self, a: Array) -> Array:
        return self._real("exp", a, a)

    def log(self, a: Array) -> Array:
        return self._real("log", a, a)

    def _real(self, name: str, a: Any, b: Any) -> Array:
        size = self._size(a, b)
        if self.result_type(a, b) != _FLOAT:
            raise TypeError(f"{name} of ints")
        given = [
            self.broadcast_to(a.astype(_FLOAT, copy=False), (size,))
            if isinstance(a, Operators)
            else self.full(size, a, _FLOAT)
            for a in (a, b)
        ]
        made = self.ndarray(size, _FLOAT)
        self.kernels.real(name, made, *given)
        return made

    def sum(self, a: Array, dtype: Any = None) -> Array:
        """In 64 bits."""
        kind = (a.dtype if dtype is None else np.dtype(dtype)).kind
        common = _FLOAT if kind == "f" else np.dtype(np.uint64) if kind == "u" else _INT
        return self._reduced("add", a, common) if a.size else self.zeros((), common)

    def min(self, a: Array) -> Array:
        return self._extreme("minimum", a)

    def max(self, a: Array) -> Array:
        return self._extreme("maximum", a)

    def _extreme(self, name: str, a: Array) -> Array:
        if not a.size:
            raise ValueError(f"the {name} of no entries")
        return self._reduced(
            name, a, np.promote_types(a.dtype, _INT) if a.dtype.kind != "u" else np.dtype(np.uint64)
        )

    def _reduced(self, name: str, a: Array, common: np.dtype[Any]) -> Array:
        return self.kernels.reduced(name, self._flat(a), common).reshape(())

    def cumsum(self, a: Array, out: Array | None = None) -> Array:
        """In 64 bits."""
        if out is None:
            out = self.cast(a, _FLOAT if a.dtype.kind == "f" else _INT)
        elif out is not a:
            self.copyto(out, a)
        self.driver.scan(out)
        return out

    def diff(self, a: Array) -> Array:
        return a[1:] - a[:-1]

    def bincount(self, x: Array, minlength: int = 0) -> Array:
        """Waits for the greatest value unless all are below `minlength`."""
        length = max(minlength, int(self.max(x)) + 1) if x.size else minlength
        made = self.zeros(length, _INT)
        self.kernels.apply("tally", made, (1, self._flat(x)), _INT, (0, 0, length), x.size)
        return made

    def flatnonzero(self, a: Array) -> Array:
        """The indices of the entries that are not 0. Waits for their number."""
        size = a.size
        found = self.ndarray(size, np.int32 if size < 1 << 31 else np.int64)
        state = self.zeros(HEAD + -(-size // TILE), _INT)
        self.kernels.survivors(self._flat(a), found, state)
        count = int(state[1])
        return found[:count].copy() if 2 * count < size else found[:count]

    def sort(self, a: Array) -> Array:
        made = a.copy()
        if made.size > 1:
            made.sort()
        return made

    def argsort(self, a: Array, kind: str = "stable") -> Array:
        """Equal values stay in their order."""
        if a.size < 2:
            return self.arange(a.size)
        return self.raw.ndarray.argsort(a).view(type=self.ndarray)

    def lexsort(self, keys: Array) -> Array:
        return self.raw.lexsort(keys).view(type=self.ndarray)

    def searchsorted(self, a: Array, v: Array, side: str = "left") -> Array:
        made = self.ndarray(v.shape, _INT)
        self.kernels.search(made, self._flat(a), self._flat(v), side == "right")
        return made

    def unique(self, ar: Array, return_inverse: bool = False, return_counts: bool = False) -> Any:
        """Waits for the number of values."""
        order = self.argsort(ar) if return_inverse else None
        ordered = self.sort(ar) if order is None else ar[order]
        marks = self.ones(ordered.size, _BOOL)
        marks[1:] = ordered[1:] != ordered[:-1]
        starts = self.flatnonzero(marks)
        found = [ordered[starts]]
        if order is not None:
            numbers = self.ndarray(ar.size, _INT)
            numbers[order] = self.cumsum(marks) - 1
            found.append(numbers)
        if return_counts:
            found.append(self.diff(self.append(starts, self.full(1, ar.size, _INT))))
        return tuple(found) if len(found) > 1 else found[0]

    def _flat(self, value: Any) -> Any:
        """An operand without gaps; a number as it is."""
        if not isinstance(value, Operators) or value.flags.c_contiguous:
            return value
        return self.cast(value, value.dtype)

    def _size(self, *args: Any) -> int:
        """The number of entries of operands, of which each has that many, or one."""
        sizes: set[int] = {a.size for a in args if isinstance(a, Operators)}
        found = sizes - {1} or sizes
        if len(found) != 1:
            raise ValueError(f"arrays of {sizes} entries")
        return found.pop()


def _function(name: str, count: int) -> Callable[..., Any]:
    def call(self: ArrayModule, *args: Any, out: Array | None = None) -> Array:
        if len(args) != count:
            raise TypeError(f"{name} of {len(args)} arguments")
        return self.computed(name, args, out)

    return call


for _names, _count in ((_TWO, 2), (_ONE, 1)):
    for _name in _names:
        setattr(ArrayModule, _name, _function(_name, _count))
for _name in _SAME:
    setattr(ArrayModule, _name, staticmethod(getattr(np, _name)))
