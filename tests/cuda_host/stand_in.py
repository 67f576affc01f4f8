"""A stand-in for the module `cupy`, made of NumPy: `xp`, as strict as CuPy is, or stricter.

It has only functions that CuPy has, with parameters that CuPy's have; `arrays.py` has the arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.cuda_host import cupy_names
from tests.cuda_host.arrays import COUNTER, bare_of, index_of, kept, ndarray, waits, wrapped

# Functions of a sequence of arrays.
OF_MANY = {"column_stack", "concatenate", "hstack", "stack", "vstack"}


class _Ufunc:
    """One of CuPy's: arrays of the device and scalars in, arrays of the device out."""

    _KEYWORDS = frozenset({"out", "dtype", "casting", "where"})
    _AT = frozenset({"add", "subtract", "maximum", "minimum"})

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self._ufunc = getattr(np, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs.keys() - self._KEYWORDS:
            raise TypeError(f"{self.__name__}: wrong arguments {sorted(kwargs)}")
        given = {
            key: bare_of(value) if key in ("out", "where") and value is not None else value
            for key, value in kwargs.items()
        }
        with np.errstate(all="ignore"):
            made = self._ufunc(*(bare_of(value) for value in args), **given)
        return kwargs["out"] if kwargs.get("out") is not None else wrapped(made)

    def at(self, a: Any, indices: Any, b: Any = None) -> None:
        if self.__name__ not in self._AT:
            raise NotImplementedError(f"{self.__name__}.at")
        if not isinstance(a, ndarray):
            raise TypeError("a must be an array of the device")
        self._ufunc.at(a.get_view(), index_of(indices), bare_of(b))

    def reduce(
        self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        return wrapped(self._ufunc.reduce(bare_of(array), axis, dtype, None, keepdims))

    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        if self.__name__ not in ("add", "multiply"):
            raise NotImplementedError(f"{self.__name__}.accumulate")
        return wrapped(self._ufunc.accumulate(bare_of(array), axis, dtype))

    def reduceat(
        self, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None
    ) -> Any:
        if self.__name__ != "add":
            raise NotImplementedError(f"{self.__name__}.reduceat")
        return wrapped(self._ufunc.reduceat(bare_of(array), index_of(indices), axis, dtype))


def _argument(name: str, value: Any) -> Any:
    if isinstance(value, ndarray):
        return value.get_view()
    if isinstance(value, np.ndarray):
        raise TypeError(f"{name}: Unsupported type {type(value)}")
    if name in OF_MANY and isinstance(value, tuple | list):
        for item in value:
            if not isinstance(item, ndarray):
                raise TypeError(f"Only cupy arrays can be concatenated, not {type(item)}")
        return [item.get_view() for item in value]
    return value


def _function(name: str) -> Callable[..., Any]:
    params = cupy_names.SIGNATURES[name].split()
    numpys = getattr(np, name)
    check = _CHECKS.get(name)

    def call(*args: Any, **kwargs: Any) -> Any:
        many = params[-1] in ("args", "arys")
        if len(args) > len(params) and not many:
            raise TypeError(f"{name}() takes {len(params)} arguments")
        if kwargs.keys() - set(params):
            raise TypeError(f"{name}() has no {sorted(kwargs.keys() - set(params))}")
        if check is not None:
            check(*args, **kwargs)
        if name in cupy_names.WAITING:
            waits()
        given = [_argument(name, value) for value in args]
        named = {key: _argument(name, value) for key, value in kwargs.items()}
        if name == "where" and len(args) == 1:
            waits()
        if "tup" in named:
            given, named = [named.pop("tup"), *given], named
        if name == "bincount" and given[2:3] == [None]:
            del given[2]
        elif name == "bincount" and named.get("minlength", 0) is None:
            del named["minlength"]
        with np.errstate(all="ignore"):
            made = numpys(*given, **named)
        out = kwargs.get("out")
        return out if out is not None else wrapped(made)

    call.__name__ = name
    return call


def _searched(a: Any, v: Any, side: str = "left", sorter: Any = None) -> None:
    if not isinstance(a, ndarray) or not isinstance(v, ndarray):
        raise NotImplementedError("Only int or ndarray are supported for a and v")
    if a.dtype != v.dtype and np.promote_types(a.dtype, v.dtype).kind != a.dtype.kind:
        raise TypeError(f"searchsorted in {a.dtype} for {v.dtype}: by way of floats")


def _repeated(a: Any, repeats: Any, axis: Any = None) -> None:
    if not isinstance(repeats, int | tuple | list):
        raise ValueError("repeats is an int or a sequence of ints, no array")


def _keys(keys: Any) -> None:
    if not isinstance(keys, ndarray):
        raise TypeError("lexsort needs one array, of two dimensions")


def _arrays(*args: Any, **kwargs: Any) -> None:
    first = args[0] if args else next(iter(kwargs.values()))
    if not isinstance(first, ndarray):
        raise TypeError(f"Unsupported type {type(first)}")


_CHECKS: dict[str, Callable[..., None]] = {
    "searchsorted": _searched,
    "repeat": _repeated,
    "lexsort": _keys,
    **dict.fromkeys(cupy_names.FIRST_IS_ARRAY.split(), _arrays),
}


def asnumpy(
    a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True
) -> np.ndarray[Any, Any]:
    """The one way back, besides `get`."""
    return a.get(out=out) if isinstance(a, ndarray) else np.asarray(a)


def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, blocking: bool = False
) -> ndarray:
    """The way to the device."""
    if isinstance(a, ndarray):
        bare = a.get_view()
        if copy or (dtype is not None and bare.dtype != np.dtype(dtype)):
            return a.astype(dtype if dtype is not None else bare.dtype)
        return a
    return array(a, dtype)


def array(
    obj: Any,
    dtype: Any = None,
    copy: Any = True,
    order: str = "K",
    subok: bool = False,
    ndmin: int = 0,
    *,
    blocking: bool = False,
) -> ndarray:
    if isinstance(obj, ndarray):
        return obj.astype(obj.dtype if dtype is None else dtype)
    if isinstance(obj, list | tuple) and any(isinstance(item, ndarray) for item in obj):
        return xp.stack([asarray(item) for item in obj]).astype(
            dtype if dtype is not None else np.result_type(*(item.dtype for item in obj))
        )
    COUNTER.uploads += 1
    return ndarray(kept(np.array(obj, dtype=dtype, ndmin=ndmin)))


def shares_memory(a: ndarray, b: ndarray, max_work: Any = None) -> bool:
    return np.shares_memory(a.get_view(), b.get_view())


def get_array_module(*args: Any) -> Any:
    return xp if any(isinstance(value, ndarray) for value in args) else np


xp = SimpleNamespace(
    ndarray=ndarray,
    array=array,
    asarray=asarray,
    asnumpy=asnumpy,
    shares_memory=shares_memory,
    get_array_module=get_array_module,
    **{name: _function(name) for name in cupy_names.SIGNATURES},
    **{name: _Ufunc(name) for name in cupy_names.UFUNCS.split()},
    **{name: getattr(np, name) for name in cupy_names.SAME.split()},
)


def _operators() -> None:
    """The operators of Python, as ufuncs."""
    two = {
        "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide",
        "floordiv": "floor_divide", "mod": "remainder", "pow": "power", "and": "bitwise_and",
        "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "left_shift",
        "rshift": "right_shift",
    }  # fmt: skip
    compare = {
        "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
        "eq": "equal", "ne": "not_equal",
    }  # fmt: skip
    one = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}

    def binary(name: str) -> None:
        ufunc = getattr(xp, {**two, **compare}[name])
        setattr(ndarray, f"__{name}__", lambda self, other: ufunc(self, other))
        if name in compare:
            return
        setattr(ndarray, f"__r{name}__", lambda self, other: ufunc(other, self))

        def inplace(self: ndarray, other: Any) -> ndarray:
            ufunc(self, other, out=self)
            return self

        setattr(ndarray, f"__i{name}__", inplace)

    def unary(name: str) -> None:
        ufunc = getattr(xp, one[name])
        setattr(ndarray, f"__{name}__", lambda self: ufunc(self))

    for name in (*two, *compare):
        binary(name)
    for name in one:
        unary(name)


def _methods() -> None:
    def method(name: str) -> None:
        function = getattr(xp, name)
        setattr(ndarray, name, lambda self, *args, **kwargs: function(self, *args, **kwargs))

    for name in cupy_names.METHODS.split():
        method(name)


_operators()
_methods()
