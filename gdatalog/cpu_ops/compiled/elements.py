"""Elements of arrays, read and written as C does it.

A signed index would be compared with zero first, for Python counts negative ones from the end;
in a loop over sorted lists that comparison is a good part of the work.
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.np.arrayobj import load_item, make_array, store_item

from gdatalog.cpu_ops.compiled.jit import intrinsic


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, at: Any, at_type: Any) -> Any:
    data = make_array(array_type)(context, builder, array).data
    index = context.cast(builder, at, at_type, types.intp)
    return builder.gep(data, [index], inbounds=True)


def pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Where the element is that the first two arguments, an array and an index, name."""
    return _pointer(context, builder, signature.args[0], args[0], args[1], signature.args[1])


def is_vector(array: Any, *wanted: Any) -> bool:
    """Whether a type is that of a contiguous array of one dimension (of these elements)."""
    if not isinstance(array, types.Array) or array.ndim != 1 or array.layout != "C":
        return False
    return not wanted or array.dtype in wanted


@intrinsic
def at(_: Any, array: Any, i: Any) -> Any:
    """array[i], where 0 <= i < len(array)."""
    if not is_vector(array) or not isinstance(i, types.Integer):
        return None

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        where = pointer(context, builder, signature, args)
        return load_item(context, builder, signature.args[0], where)

    return array.dtype(array, i), write


@intrinsic
def put(_: Any, array: Any, i: Any, value: Any) -> Any:
    """array[i] = value, where 0 <= i < len(array)."""
    if not is_vector(array) or not array.mutable or not isinstance(i, types.Integer):
        return None

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        where = pointer(context, builder, signature, args)
        cast = context.cast(builder, args[2], signature.args[2], array.dtype)
        store_item(context, builder, array, cast, where)
        return context.get_dummy_value()

    return types.void(array, i, value), write
