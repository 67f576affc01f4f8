"""The loop language: what printed loops and their helpers are written in.

It is a small, typed part of Python. Python itself can run it, which defines what it means; codegen
translates it to LLVM IR, and `gpu_ops` to CUDA.

Types: `bool`, `i64`, `u64`, `f64`, tuples of these as results, and contiguous arrays of `i8`,
`u8`, `i32`, `u32`, `i64`, `u64`, `f64` and `bool`, written `i32[]`. A scalar read from an array has
64 bits. Integers wrap. `i64` and `u64` do not mix, but for literals; ints and floats are not
compared. `//` and `%` by 0 give 0. Locals have one type each, the widest that is assigned to them.

Statements: assignments (to names, elements, tuples of them; with an operator), `if`, `while`,
`for` over a `range`, `break`, `continue`, `return`, calls. A tuple of ints that gets a name is an
array, whose elements are only read. Expressions: literals, names, elements,
arithmetic, comparisons, `and`, `or`, `not`, conditional expressions, calls of helpers and
intrinsics, and of `len`, `min`, `max`, `abs`, `int`, `bool`, `float`, `np.int64`, `np.uint64`.

Helpers are functions marked `part` (compiled once for all callers, and called) or `inlined` (made
part of each caller). An `intrinsic` is a few machine instructions: its body here says what it
does, and `llvm.py` and the CUDA headers have the instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

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
    """Marks a `part` that is called so seldom that compiling it well would take longer."""
    setattr(function, _KIND, "seldom")
    return function


def inlined(function: F) -> F:
    """Marks a helper of a few instructions, which becomes part of its callers."""
    setattr(function, _KIND, "inlined")
    return function


def intrinsic(function: F) -> F:
    """Marks a function that each translator knows."""
    setattr(function, _KIND, "intrinsic")
    return function


def kind_of(function: object) -> str | None:
    """`part`, `seldom`, `inlined` or `intrinsic`; None if it is no function of the language."""
    return getattr(function, _KIND, None)


class LoopError(Exception):
    """A text that is not in the loop language: a bug of the printer or of a helper."""


class CompileError(LoopError):
    """LLVM refuses a module."""
