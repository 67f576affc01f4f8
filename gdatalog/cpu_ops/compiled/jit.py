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

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    """The function, compiled."""
    compiled: F = numba.njit(nogil=True, error_model="numpy", boundscheck=False)(function)
    return compiled


def inlined(function: F) -> F:
    """The same, always made part of its callers: for what is a few instructions long."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}
    compiled: F = numba.njit(**options, forceinline=True)(function)
    return compiled


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that writes LLVM instructions into its callers."""
    written: Callable[..., Any] = extending.intrinsic(function)
    return written
