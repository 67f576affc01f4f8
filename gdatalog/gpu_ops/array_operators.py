"""The operators and methods of a device's arrays that would launch CuPy's own kernels.

They launch ours (`array_module.py`) instead: CuPy compiles each of its kernels when it first runs,
in up to half a second. Memory, views and copies are CuPy's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_TWO = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
    "floordiv": "floor_divide", "mod": "remainder", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
_COMPARED = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
    "eq": "equal", "ne": "not_equal",
}  # fmt: skip
_ONE = {"neg": "negative", "abs": "absolute", "invert": "invert"}


class Operators:
    """A mixin before the class of CuPy's arrays. `xp`: the array module."""

    xp: Any
    dtype: np.dtype[Any]
    size: int
    flags: Any
    shape: tuple[int, ...]
    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # `==` compares entries

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, Operators):
            return self.xp.take(self, key)
        return super().__getitem__(key)  # type: ignore[misc]  # that of CuPy's class

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, Operators):
            self.xp.put(self, key, value)
        else:
            self.xp.copyto(super().__getitem__(key), value)  # type: ignore[misc]  # as above

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """NumPy's functions are the module's."""
        own = getattr(self.xp, func.__name__, None)
        return NotImplemented if own is None else own(*args, **kwargs)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        own = getattr(self.xp, ufunc.__name__, None)
        if own is None or method != "__call__" or kwargs:
            return NotImplemented
        return own(*inputs)

    def __pow__(self, other: Any) -> Any:
        return self.xp.power(self, other)

    def fill(self, value: Any) -> None:
        if not isinstance(value, Operators) and value == 0:
            super().fill(0)  # type: ignore[misc]  # clears the memory
        else:
            self.xp.copyto(self, value)

    # CuPy calls these two as well, with its own arguments.

    def astype(
        self,
        dtype: Any,
        order: Any = "K",
        casting: Any = None,
        subok: Any = None,
        copy: bool = True,
    ) -> Any:
        if np.dtype(dtype) == self.dtype and not copy:
            return self
        return self.xp.cast(self, np.dtype(dtype))

    def copy(self, order: Any = "C") -> Any:
        return self.xp.copy(self)

    def sum(self, dtype: Any = None) -> Any:
        return self.xp.sum(self, dtype=dtype)

    def min(self) -> Any:
        return self.xp.min(self)

    def max(self) -> Any:
        return self.xp.max(self)

    def any(self) -> Any:
        return self.xp.max(self.astype(bool, copy=False)) if self.size else self.xp.full((), 0)

    def all(self) -> Any:
        return self.xp.min(self.astype(bool, copy=False)) if self.size else self.xp.full((), 1)

    def get(self, *args: Any, **kwargs: Any) -> Any:
        """A NumPy array. CuPy would compile a kernel to copy an array with gaps."""
        whole = self if self.flags.c_contiguous else self.xp.copy(self)
        return self.xp.raw.ndarray.get(whole, *args, **kwargs)

    def argsort(self) -> Any:
        return self.xp.argsort(self)


def _define(special: str, name: str, inplace: bool) -> None:
    def forward(self: Any, other: Any) -> Any:
        return self.xp.computed(name, (self, other))

    def reflected(self: Any, other: Any) -> Any:
        return self.xp.computed(name, (other, self))

    def updated(self: Any, other: Any) -> Any:
        return self.xp.computed(name, (self, other), self)

    setattr(Operators, f"__{special}__", forward)
    if inplace:
        setattr(Operators, f"__r{special}__", reflected)
        setattr(Operators, f"__i{special}__", updated)


def _define_one(special: str, name: str) -> None:
    setattr(Operators, f"__{special}__", lambda self: getattr(self.xp, name)(self))


for _special, _name in _TWO.items():
    _define(_special, _name, inplace=True)
for _special, _name in _COMPARED.items():
    _define(_special, _name, inplace=False)
for _special, _name in _ONE.items():
    _define_one(_special, _name)
