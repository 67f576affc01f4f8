"""Numba's decorators, typed: what they decorate keeps its type.

Everything is compiled when first called (or by the caller that it becomes part of), without the
interpreter's lock. Floating point keeps its meaning: no fast math. Division by zero gives what
NumPy gives, and checks nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core import extending

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}
_NO_WRAPPERS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    """The function, compiled, to be called from Python."""
    compiled: F = numba.njit(**_OPTIONS)(function)
    return compiled


def part(function: F) -> F:
    """The function, compiled, for other compiled functions to call.

    Python must not call it (it would crash): what that takes is a fifth of a compilation.
    """
    compiled: F = numba.njit(**_OPTIONS, **_NO_WRAPPERS)(function)
    return compiled


def inlined(function: F) -> F:
    """The same, always made part of its callers: for what is a few instructions long."""
    compiled: F = numba.njit(**_OPTIONS, **_NO_WRAPPERS, forceinline=True)(function)
    return compiled


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that writes LLVM instructions into its callers."""
    written: Callable[..., Any] = extending.intrinsic(function)
    return written
