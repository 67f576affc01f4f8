"""Numba's decorators, typed: what they decorate keeps its type.

Everything is compiled when first called (or by the caller that it becomes part of), without the
interpreter's lock. Floating point keeps its meaning: no fast math. Division by zero gives what
NumPy gives, and checks nothing.

Nothing is counted either: Numba counts, atomically, who uses an array, around each call that an
array is handed to. In a loop of short calls that was seen to be half of the time. So compiled
functions get all arrays from their callers, who keep them; there is no way to make one inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core import extending

from gdatalog.cpu_ops.compiled.parts import Parts

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
    "_nrt": False,
}
_NO_WRAPPERS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def jit(function: F) -> F:
    """The function, compiled, to be called from Python."""
    compiled: F = numba.njit(**OPTIONS, forceinline=False)(function)
    return compiled


def part(function: F) -> F:
    """The function, compiled, for other compiled functions to call.

    Python must not call it (it would crash): what that takes is a fifth of a compilation. That
    it need not be inlined has to be said, for else a function takes that from its first caller.
    """
    compiled: F = _kept(numba.njit(**OPTIONS, **_NO_WRAPPERS, forceinline=False)(function))
    return compiled


def inlined(function: F) -> F:
    """The same, always made part of its callers: for what is a few instructions long."""
    compiled: F = _kept(numba.njit(**OPTIONS, **_NO_WRAPPERS, forceinline=True)(function))
    return compiled


def _kept(dispatcher: Any) -> Any:
    dispatcher._cache = Parts(dispatcher.py_func)
    return dispatcher


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that writes LLVM instructions into its callers."""
    written: Callable[..., Any] = extending.intrinsic(function)
    return written
