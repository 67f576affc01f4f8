"""Functions of the loop language, compiled when Python calls them."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from gdatalog.codegen import native
from gdatalog.codegen.loop_language import kind_of, part

ELEMENTS = {"?": "bool", "b": "i8", "B": "u8", "i": "i32", "I": "u32", "l": "i64", "q": "i64",
            "L": "u64", "Q": "u64", "d": "f64"}  # fmt: skip


def type_of(value: Any) -> str:
    """The type of an argument."""
    if isinstance(value, np.ndarray):
        return f"{ELEMENTS[value.dtype.char]}[]"
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if isinstance(value, np.uint64):
        return "u64"
    return "f64" if isinstance(value, float) else "i64"


def compiled(function: Any) -> Any:
    """The same function as machine code for the arguments that it is called with."""
    if kind_of(function) is None:
        part(function)  # its arrays may be the same
    assert kind_of(function) != "intrinsic"

    def call(*args: Any) -> Any:
        return native.of(function, *map(type_of, args))(*args)

    return call


class Entries:
    """Modules of helpers whose functions are compiled when they are called."""

    def __init__(self, *modules: ModuleType) -> None:
        self._names = {name: found for each in modules for name, found in vars(each).items()}

    def __getattr__(self, name: str) -> Any:
        found = self._names[name]
        return compiled(found) if kind_of(found) in ("part", "seldom", "inlined") else found
