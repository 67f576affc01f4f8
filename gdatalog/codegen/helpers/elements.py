"""Elements of arrays: read and written as in C, without bounds checks."""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.loop_language import Array, Scalar, intrinsic

_WORD = np.dtype(np.uint64)
_BYTES = np.dtype("<u8")


@intrinsic
def at(array: Array, i: Scalar) -> Scalar:
    """array[i], where 0 <= i < len(array)."""
    assert 0 <= i < len(array), f"{i} of {len(array)}"
    value = array[i]
    return value if array.dtype == _WORD or array.dtype.kind == "f" else int(value)


@intrinsic
def put(array: Array, i: Scalar, value: Scalar) -> None:
    """array[i] = value, where 0 <= i < len(array)."""
    assert 0 <= i < len(array), f"{i} of {len(array)}"
    if array.dtype != _WORD and array.dtype.kind != "f":
        value = np.int64(value).astype(array.dtype)
    array[i] = value


@intrinsic
def word(array: Array, i: Scalar) -> Scalar:
    """The eight bytes of a byte array from i on, as a little-endian number."""
    assert 0 <= i <= len(array) - 8, f"{i} of {len(array)}"
    return np.uint64(array[i : i + 8].view(_BYTES)[0])


@intrinsic
def put_word(array: Array, i: Scalar, value: Scalar) -> None:
    """Writes eight bytes from i on."""
    assert 0 <= i <= len(array) - 8, f"{i} of {len(array)}"
    array[i : i + 8] = np.array([value], dtype=_BYTES).view(np.uint8)


@intrinsic
def prefetch(array: Array, i: Scalar) -> None:
    """Starts loading array[i] into the cache."""
    assert 0 <= i < len(array), f"{i} of {len(array)}"
