"""The loop language of printed loops and helpers.

It is a small, typed part of Python. Its semantics are those of Python, which can run it; codegen
translates it to LLVM IR, and `gpu_ops` to CUDA.

Types: `bool`, `i64`, `u64`, `f64`, tuples of these as results, and contiguous arrays of `i8`, `u8`,
`i32`, `u32`, `i64`, `u64`, `f64` and `bool`, written `i32[]`. A scalar read from an array has 64
bits. Integers wrap. `i64` and `u64` do not mix, except for literals; ints and floats are not
compared. `//` and `%` by 0 give 0. Each local has one type, the widest that is assigned to it.

Statements: assignments (to names, elements, tuples of them; with an operator), `if`, `while`, `for`
over a `range`, `break`, `continue`, `return`, calls. A tuple of ints that is assigned to a name is
an array, whose elements are only read. Expressions: literals, names, elements, arithmetic,
comparisons, `and`, `or`, `not`, conditional expressions, calls of helpers and intrinsics, and of
`len`, `min`, `max`, `abs`, `int`, `bool`, `float`, `np.int64`, `np.uint64`.

Helpers are functions marked `part` (compiled once for all callers, and called) or `inlined`
(compiled into each caller). An `intrinsic` is a few machine instructions: its Python body defines
it, and `machine.py` and the CUDA headers have the instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numpy.typing import NDArray

Array = NDArray[Any]
F = TypeVar("F", bound=Callable[..., object])
Scalar = Any  # an i64, u64 or f64: Python's number, or NumPy's, with which Python's mix

SCALARS = ("bool", "i64", "u64", "f64")  # from narrow to wide
ELEMENTS = {
    "bool": 1, "i8": 1, "u8": 1, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "f64": 8
}  # fmt: skip
ARRAYS = frozenset(f"{element}[]" for element in ELEMENTS)

_KIND = "__loop_kind__"


def part(function: F) -> F:
    """Marks a helper that is compiled once for each combination of types, and called."""
    setattr(function, _KIND, "part")
    return function


def seldom(function: F) -> F:
    """Marks a `part` that is called too rarely to be worth optimising."""
    setattr(function, _KIND, "seldom")
    return function


def inlined(function: F) -> F:
    """Marks a helper of a few instructions, which is compiled into its callers."""
    setattr(function, _KIND, "inlined")
    return function


def intrinsic(function: F) -> F:
    """Marks a function that every translator implements."""
    setattr(function, _KIND, "intrinsic")
    return function


def kind_of(function: object) -> str | None:
    """`part`, `seldom`, `inlined` or `intrinsic`; None if it is not a function of the language."""
    return getattr(function, _KIND, None)


class LoopError(Exception):
    """A text that is not in the loop language: a bug of the printer or of a helper."""


class CompileError(LoopError):
    """LLVM rejects a module."""
