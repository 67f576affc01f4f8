"""What loops written by hand are made of: Numba's functions, the second opinion on our compiler.

Nothing here is shared with the package. Elements are read and written as C does it: Numba compares
a signed index with zero first, which in a loop over sorted lists is a good part of the work.
Nothing is counted either: Numba counts who uses an array around each call that is handed one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core import extending, types
from numba.np.arrayobj import load_item, make_array, store_item

from tests.data import Array

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {
    "nogil": True, "error_model": "numpy", "boundscheck": False, "_nrt": False
}  # fmt: skip


def jit(function: F) -> F:
    """The function, compiled when it is first called."""
    compiled: F = numba.njit(**_OPTIONS)(function)
    return compiled


def _pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    data = make_array(signature.args[0])(context, builder, args[0]).data
    index = context.cast(builder, args[1], signature.args[1], types.intp)
    return builder.gep(data, [index], inbounds=True)


@extending.intrinsic
def at(_: Any, array: Any, i: Any) -> Any:
    """array[i], where 0 <= i < len(array)."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        where = _pointer(context, builder, signature, args)
        return load_item(context, builder, signature.args[0], where)

    return array.dtype(array, i), write


@extending.intrinsic
def put(_: Any, array: Any, i: Any, value: Any) -> Any:
    """array[i] = value, where 0 <= i < len(array)."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        cast = context.cast(builder, args[2], signature.args[2], array.dtype)
        store_item(context, builder, array, cast, _pointer(context, builder, signature, args))
        return context.get_dummy_value()

    return types.void(array, i, value), write


@extending.intrinsic
def popcount(_: Any, word: Any) -> Any:
    """How many bits of an unsigned word are set."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(word), write


@extending.intrinsic
def trailing_zeros(_: Any, word: Any) -> Any:
    """The place of the lowest bit that is set; 64 if there is none."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], context.get_constant(types.boolean, False))

    return types.int64(word), write


@extending.intrinsic
def _add(_: Any, array: Any, value: Any) -> Any:
    """array[0] += value, at once; gives what was there before."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = make_array(signature.args[0])(context, builder, args[0]).data
        more = context.cast(builder, args[1], signature.args[1], types.int64)
        return builder.atomic_rmw("add", data, more, "monotonic")

    return types.int64(array, value), write


@jit
def take(control: Array, threads: int, total: int, grain: int) -> tuple[int, int]:
    """The next interval of `total` units of work: [start, stop), empty when none is left.

    Many short ones for several threads, so that they end at about the same time.
    """
    size = max(grain, total // (64 * threads)) if threads > 1 else max(1, total)
    start = min(_add(control, size), total)
    return start, min(start + size, total)
