"""A stand-in for the module `cupy`, made of NumPy: `xp`, as strict as CuPy is, or stricter.

It has only functions that CuPy has, with parameters that CuPy's have; `arrays.py` has the arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from gdatalog.gpu_ops.array_module import ArrayModule
from tests.cuda_host import cupy_names
from tests.cuda_host.arrays import COUNTER, bare_of, index_of, kept, ndarray, waits, wrapped


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
        bare = [bare_of(value) for value in args]
        if "shift" in self.__name__:
            bits = 8 * np.result_type(bare[0]).itemsize
            if not np.all((np.asarray(bare[1]) >= 0) & (np.asarray(bare[1]) < bits)):
                raise OverflowError(f"{self.__name__} by more bits than there are")
        with np.errstate(all="ignore"):
            made = self._ufunc(*bare, **given)
        return kwargs["out"] if kwargs.get("out") is not None else wrapped(made)

    def at(self, a: Any, indices: Any, b: Any = None) -> None:
        if self.__name__ not in self._AT:
            raise NotImplementedError(f"{self.__name__}.at")
        if not isinstance(a, ndarray):
            raise TypeError("a must be an array of the device")
        a.scatter(self._ufunc, indices, b)

    def reduce(
        self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        if self.__name__ not in ("add", "multiply"):
            raise NotImplementedError(f"{self.__name__}.reduce")
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


def _argument(function: str, name: str, value: Any) -> Any:
    """What NumPy's function is given for an argument."""
    if isinstance(value, ndarray):
        if name in cupy_names.PLAIN.split():
            raise TypeError(f"{function}: {name} is of the host, not an array of the device")
        return value.read()
    if isinstance(value, np.ndarray):
        raise TypeError(f"{function}: {name}: Unsupported type {type(value)}")
    if name == "tup" and isinstance(value, tuple | list):
        for item in value:
            if not isinstance(item, ndarray):
                raise TypeError(f"Only cupy arrays can be concatenated, not {type(item)}")
        return [item.read() for item in value]
    return value


def _litter(array: np.ndarray[Any, Any]) -> None:
    """What was in memory before: often zeros from NumPy, which would hide who reads it."""
    array.reshape(-1).view(np.uint8)[...] = 1 if array.dtype == np.bool_ else 0xA5


def _function(name: str) -> Callable[..., Any]:
    params = cupy_names.SIGNATURES[name].split()
    many = params[0] in ("args", "arys")
    numpys, check = getattr(np, name), _CHECKS.get(name)

    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(params) and not many:
            raise TypeError(f"{name}() takes {len(params)} arguments, {len(args)} were given")
        if kwargs.keys() - set(params):
            raise TypeError(f"{name}() has no {sorted(kwargs.keys() - set(params))}")
        told = [params[0]] * len(args) if many else params
        given = dict(zip(told, args, strict=False)) | kwargs
        if name in cupy_names.FIRST_IS_ARRAY.split() and not isinstance(given[params[0]], ndarray):
            raise TypeError(f"{name}: Unsupported type {type(given[params[0]])}")
        if check is not None:
            kwargs = check(given, dict(kwargs))
        if name in cupy_names.WAITING or (name == "where" and len(given) == 1):
            waits()
        bare = [_argument(name, param, value) for param, value in zip(told, args, strict=False)]
        named = {key: _argument(name, key, value) for key, value in kwargs.items()}
        if params[0] in named:  # some of NumPy's take it by place only
            bare.insert(0, named.pop(params[0]))
        with np.errstate(all="ignore"):
            made = numpys(*bare, **named)
        if name.startswith("empty"):
            _litter(made)
        out = kwargs.get("out")
        return out if out is not None else wrapped(made)

    call.__name__ = name
    return call


def _searched(given: dict[str, Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    a, v = given["a"], given["v"]
    if not isinstance(a, ndarray) or not isinstance(v, ndarray):
        raise NotImplementedError("Only int or ndarray are supported for a and v")
    if np.promote_types(a.dtype, v.dtype).kind not in (a.dtype.kind, v.dtype.kind):
        raise TypeError(f"searchsorted in {a.dtype} for {v.dtype}: compared as C++ does it")
    return kwargs


def _repeated(given: dict[str, Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(given["repeats"], int | np.integer | tuple | list):
        raise ValueError("`repeats` is an int or a sequence of ints, no array")
    return kwargs


def _sorted(given: dict[str, Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Equal values stay in their order."""
    if given.get("kind") not in (None, "stable"):
        raise ValueError("kind can only be None or 'stable'")
    return kwargs | {"kind": "stable"}


def _counted(given: dict[str, Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    if kwargs.get("minlength", 0) is None:
        del kwargs["minlength"]
    return kwargs


def _keys(given: dict[str, Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    if given["keys"].ndim > 2:
        raise NotImplementedError("Keys with the rank of three or more")
    return kwargs


_CHECKS: dict[str, Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]] = {
    "searchsorted": _searched,
    "repeat": _repeated,
    "lexsort": _keys,
    "sort": _sorted,
    "argsort": _sorted,
    "bincount": _counted,
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
        bare = a.read()
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
    if hasattr(obj, "__cuda_array_interface__"):  # another library's: the same memory
        there = obj.__cuda_array_interface__
        made = ndarray(kept(np.asarray(SimpleNamespace(__array_interface__=there, owner=obj))))
        return made if dtype is None else made.astype(dtype, copy=False)
    COUNTER.uploads += 1
    return ndarray(kept(np.array(obj, dtype=dtype, ndmin=ndmin)))


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    given = (one.dtype if isinstance(one, ndarray) else one for one in arrays_and_dtypes)
    return np.result_type(*given)


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(from_.dtype if isinstance(from_, ndarray) else from_, to, casting=casting)


def shares_memory(a: ndarray, b: ndarray, max_work: Any = None) -> bool:
    return np.shares_memory(a.get_view(), b.get_view())


def get_array_module(*args: Any) -> Any:
    return xp if any(isinstance(value, ndarray) for value in args) else np


xp = SimpleNamespace(
    ndarray=ndarray,
    array=array,
    asarray=asarray,
    asnumpy=asnumpy,
    result_type=result_type,
    can_cast=can_cast,
    isscalar=lambda element: np.isscalar(element),
    shares_memory=shares_memory,
    get_array_module=get_array_module,
    plain=lambda a: a,
    **{name: _function(name) for name in cupy_names.SIGNATURES},
    **{name: _Ufunc(name) for name in cupy_names.UFUNCS.split()},
    **{name: getattr(np, name) for name in cupy_names.SAME.split()},
)


class BareArray(ndarray):
    """What the real array module builds on: memory. What CuPy would compile a kernel for is refused
    (`_refuse`)."""

    def __init__(self, shape: Any, dtype: Any = None) -> None:
        if not isinstance(shape, np.ndarray):
            shape = kept(np.empty(shape, dtype))
            _litter(shape)
        super().__init__(shape)

    def get(self, *args: Any, **kwargs: Any) -> np.ndarray[Any, Any]:
        assert self.flags.c_contiguous, "CuPy would compile a kernel for a copy without gaps"
        return super().get(*args, **kwargs)

    def sort(self, axis: int = -1, kind: Any = None) -> None:
        self.read().sort(axis, kind="stable")

    def argsort(self) -> ndarray:
        return ndarray(self.read().argsort(kind="stable"))


def own_module(driver: Any) -> ArrayModule:
    """The real array module over this machine's memory: its kernels run here."""
    raw = SimpleNamespace(
        ndarray=BareArray,
        asarray=asarray,
        lexsort=lambda keys: ndarray(np.lexsort(keys.read())),
    )
    return ArrayModule(driver, raw)


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


def _refuse() -> None:
    """Leaves `BareArray` nothing that computes."""

    def refused(name: str) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError(f"CuPy would compile a kernel for {name}")

        return call

    special = [name for name in vars(ndarray) if name.startswith("__") and name not in _BARE]
    for name in (*special, *cupy_names.METHODS.split(), "astype", "copy", "scatter"):
        if name not in vars(BareArray):
            setattr(BareArray, name, refused(name))


# Special methods that compute nothing.
_BARE = {
    "__module__", "__doc__", "__slots__", "__weakref__", "__hash__", "__init__", "__len__",
    "__repr__", "__array__", "__bool__", "__int__", "__float__", "__iter__", "__getitem__",
    "__array_priority__", "__cuda_array_interface__",
}  # fmt: skip

_operators()
_methods()
_refuse()
