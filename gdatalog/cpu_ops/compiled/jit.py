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

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
    "_nrt": False,
}


def jit(function: F) -> F:
    """The function, compiled.

    It says that it need not be inlined, for else it would take that from the first caller that
    must be: whoever compiles a function hands its own options on.
    """
    compiled: F = numba.njit(**OPTIONS, forceinline=False)(function)
    return compiled


def inlined(function: F) -> F:
    """The same, always made part of its callers: for what is a few instructions long."""
    compiled: F = numba.njit(**OPTIONS, forceinline=True)(function)
    return compiled


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that writes LLVM instructions into its callers."""
    written: Callable[..., Any] = extending.intrinsic(function)
    return written
