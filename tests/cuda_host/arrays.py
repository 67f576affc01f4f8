"""Arrays of the device that is not there: NumPy's memory behind CuPy's manners.

They refuse to be mixed with NumPy's arrays, and become one by `get` or `asnumpy` only. A result is
never a NumPy scalar. What waits for the device is counted. Where CuPy does not look (an index out
of range wraps round there) these raise.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gdatalog.errors import DeviceError
from tests.cuda_host import cupy_names


class Counter:
    """How often something waited for the device, and what went there and back."""

    def __init__(self) -> None:
        self.synchronisations = 0
        self.uploads = 0
        self.recording = 0  # graphs at present

    def reset(self) -> None:
        self.synchronisations = self.uploads = 0


COUNTER = Counter()


class _Current(threading.local):
    """The device on which a thread works; and whether several are told apart, which they are where
    a driver's `use` was entered."""

    number = 0


CURRENT = _Current()


@contextmanager
def working_on(number: int) -> Iterator[None]:
    """Within, arrays are made on this device, and only its own may be read."""
    before, CURRENT.number = CURRENT.number, number
    try:
        yield
    finally:
        CURRENT.number = before


def waits() -> None:
    if COUNTER.recording:
        raise DeviceError("cudaErrorStreamCaptureUnsupported")
    COUNTER.synchronisations += 1


def kept(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if array.dtype.kind not in "biufc":
        raise ValueError(f"Unsupported dtype {array.dtype}")
    return array


def wrapped(value: Any) -> Any:
    """What a function of NumPy gave, as the device's."""
    if isinstance(value, np.ndarray | np.generic):
        return ndarray(kept(np.asarray(value)))
    if isinstance(value, tuple):
        return tuple(wrapped(item) for item in value)
    if isinstance(value, list):
        return [wrapped(item) for item in value]
    return value


def bare_of(value: Any) -> Any:
    """An operand: an array of the device, or a scalar."""
    if isinstance(value, ndarray):
        return value.read()
    if isinstance(value, bool | int | float | complex):
        return value
    if isinstance(value, np.generic) and value.dtype.kind in "biufc":
        return value
    raise TypeError(f"Unsupported type {type(value)}")


def index_of(key: Any) -> Any:
    """What stands in brackets."""
    if isinstance(key, tuple):
        return tuple(index_of(part) for part in key)
    if isinstance(key, ndarray):
        array = key.read()
        if array.dtype.kind not in "biu":
            raise IndexError("arrays used as indices must be of integer or boolean type")
        return array
    if key is None or key is Ellipsis or isinstance(key, int | np.integer | np.bool_):
        return key
    if isinstance(key, slice):
        for part in (key.start, key.stop, key.step):
            if not (part is None or isinstance(part, int | np.integer)):
                raise TypeError("slice indices must be integers or None")
        return key
    raise IndexError(f"Unsupported type {type(key)}")


def _has_mask(key: Any) -> bool:
    parts = key if isinstance(key, tuple) else (key,)
    return any(isinstance(part, ndarray) and part.dtype == np.bool_ for part in parts)


def _check_once(places: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> None:
    """Which of two values for one place stays, nobody knows: threads write them."""
    if values.shape != places.shape:
        return
    order = np.argsort(places, axis=None, kind="stable")
    places, values = places.ravel()[order], values.ravel()[order]
    if ((places[1:] == places[:-1]) & (values[1:] != values[:-1])).any():
        raise ValueError("two values are assigned to one place")


# What atomics there are for; 64 bits with a sign are not among them.
_SCATTERED = [np.dtype(name) for name in ("int32", "uint32", "uint64", "float32", "float64")]


class _Memory:
    """`array.data`."""

    def __init__(self, ptr: int) -> None:
        self.ptr = ptr

    def copy_from_device_async(self, other: _Memory, nbytes: int) -> None:
        ctypes.memmove(self.ptr, other.ptr, nbytes)


class ndarray:
    """An array of the device."""

    __slots__ = ("__weakref__", "_array", "device")
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        if not isinstance(array, np.ndarray):
            raise TypeError("arrays are made by functions of the module")
        self._array = array
        self.device = CURRENT.number

    def _alike(self, array: np.ndarray[Any, Any]) -> Any:
        """An array of the same class."""
        return type(self)(array)

    def read(self) -> np.ndarray[Any, Any]:
        """The memory, for what runs on the thread's device."""
        if self.device != CURRENT.number:
            raise ValueError(f"an array of device {self.device} is read on {CURRENT.number}")
        return self._array

    def get_view(self) -> np.ndarray[Any, Any]:
        """The memory itself, for the driver and for this module."""
        return self._array

    # ------------------------------------------------------------------------ what it is

    dtype = property(lambda self: self._array.dtype)
    shape = property(lambda self: self._array.shape)
    size = property(lambda self: self._array.size)
    ndim = property(lambda self: self._array.ndim)
    nbytes = property(lambda self: self._array.nbytes)
    itemsize = property(lambda self: self._array.itemsize)
    strides = property(lambda self: self._array.strides)
    flags = property(lambda self: self._array.flags)
    T = property(lambda self: ndarray(self._array.T))
    base = property(lambda self: None if self._array.base is None else ndarray(self._array.base))
    data = property(lambda self: _Memory(self._array.ctypes.data))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        said = self._array.__array_interface__
        return {
            "shape": said["shape"],
            "typestr": said["typestr"],
            "descr": said["descr"],
            "data": (said["data"][0] if self._array.size else 0, False),
            "strides": said["strides"],
            "version": 3,
            "stream": 1,
        }

    def __len__(self) -> int:
        return len(self._array)

    def __repr__(self) -> str:
        return f"stand_in.{self._array!r}"

    # ------------------------------------------------------------------------ to the host

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed."
            " Please use `.get()` to construct a NumPy array explicitly."
        )

    def get(
        self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True
    ) -> np.ndarray[Any, Any]:
        waits()
        if out is not None:
            out[...] = self._array
            return out  # type: ignore[no-any-return]
        return np.array(self._array, order="A" if order == "A" else "C")

    def set(self, arr: np.ndarray[Any, Any], stream: Any = None) -> None:
        if arr.dtype != self.dtype or arr.shape != self.shape:
            raise ValueError("Shape or dtype mismatch")
        COUNTER.uploads += 1
        self._array[...] = arr

    def item(self) -> Any:
        waits()
        return self._array.item()

    def tolist(self) -> Any:
        waits()
        return self._array.tolist()

    def tobytes(self, order: str = "C") -> bytes:
        waits()
        return self._array.tobytes()

    def __bool__(self) -> bool:
        waits()
        return bool(self._array)

    def __int__(self) -> int:
        waits()
        return int(self._array.item())

    def __float__(self) -> float:
        waits()
        return float(self._array.item())

    # ------------------------------------------------------------------------ elements

    def __iter__(self) -> Any:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> ndarray:
        if _has_mask(key):
            waits()
        bare = index_of(key)
        parts = bare if isinstance(bare, tuple) else (bare,)
        if not any(part is Ellipsis for part in parts):
            parts = (*parts, Ellipsis)
        return self._alike(self.read()[parts])

    def __setitem__(self, key: Any, value: Any) -> None:
        given = bare_of(value)
        if _has_mask(key) and np.ndim(given):
            waits()
        if isinstance(key, ndarray) and key.dtype.kind in "iu" and np.ndim(given):
            _check_once(key.get_view(), np.asarray(given))
        with np.errstate(all="ignore"):
            self.read()[index_of(key)] = given

    def scatter(self, ufunc: Any, slices: Any, value: Any) -> None:
        """As CuPy, by atomics: those of some types only."""
        if self.dtype not in _SCATTERED:
            raise TypeError(f"scattering into {self.dtype}: no atomics of this type")
        ufunc.at(self._array, index_of(slices), bare_of(value))

    def scatter_add(self, slices: Any, value: Any) -> None:
        self.scatter(np.add, slices, value)

    def scatter_max(self, slices: Any, value: Any) -> None:
        self.scatter(np.maximum, slices, value)

    def scatter_min(self, slices: Any, value: Any) -> None:
        self.scatter(np.minimum, slices, value)

    def fill(self, value: Any) -> None:
        self._array.fill(bare_of(value))

    # ------------------------------------------------------------------------ other arrays

    def astype(
        self,
        dtype: Any,
        order: str = "K",
        casting: Any = None,
        subok: Any = None,
        copy: bool = True,
    ) -> ndarray:
        kept(np.empty(0, dtype))
        with np.errstate(all="ignore"):
            return ndarray(self.read().astype(dtype, copy=copy))

    def copy(self, order: str = "C") -> ndarray:
        """Of another device's, too: then a copy on this one."""
        return ndarray(self._array.copy())

    def view(self, dtype: Any = None, type: Any = None) -> ndarray:
        bare = kept(self.read().view() if dtype is None else self._array.view(dtype))
        return self._alike(bare) if type is None else type(bare)

    def reshape(self, *shape: Any, order: str = "C") -> ndarray:
        return self._alike(self.read().reshape(*shape))

    def ravel(self, order: str = "C") -> ndarray:
        return ndarray(self.read().ravel())

    def flatten(self, order: str = "C") -> ndarray:
        return ndarray(self.read().flatten())

    def transpose(self, *axes: Any) -> ndarray:
        return ndarray(self.read().transpose(*axes))

    def squeeze(self, axis: Any = None) -> ndarray:
        return ndarray(self.read().squeeze(axis))

    def sort(self, axis: int = -1, kind: Any = None) -> None:
        self._array.sort(axis, kind="stable")

    # ------------------------------------------------------------------------ NumPy's protocols

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from tests.cuda_host.stand_in import xp

        if method != "__call__" or ufunc.__name__ not in cupy_names.UFUNCS.split():
            return NotImplemented
        return getattr(xp, ufunc.__name__)(*inputs, **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from tests.cuda_host.stand_in import xp

        if func.__module__ != "numpy" or func.__name__ not in cupy_names.SIGNATURES:
            return NotImplemented
        return getattr(xp, func.__name__)(*args, **kwargs)
