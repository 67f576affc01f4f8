"""Printed loops run by Python itself: no compilation, so that thousands of plans can be tried.

The text of a printed module and of the functions that it calls is the very text that Numba
compiles; only what writes LLVM instructions is replaced, by Python that does the same.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gdatalog
from gdatalog.engine import device

FOLDER = Path(gdatalog.__file__).parent / "cpu_ops" / "compiled"
HERE = "interpreted_loops"
WORD = np.dtype(np.uint64)


def _at(array: Any, i: int) -> Any:
    assert 0 <= i < len(array), f"{i} of {len(array)}"
    value = array[i]
    return value if array.dtype == WORD or array.dtype.kind == "f" else int(value)


def _put(array: Any, i: int, value: Any) -> None:
    assert 0 <= i < len(array), f"{i} of {len(array)}"
    array[i] = value if array.dtype == WORD else np.int64(value).astype(array.dtype)


def _add(array: Any, i: int, value: int) -> int:
    old = int(array[i])
    array[i] = old + value
    return old


def _compare_swap(array: Any, i: int, expected: int, new: int) -> int:
    old = int(array[i])
    if old == expected:
        array[i] = new
    return old


def _set_bits(array: Any, i: int, bits: int) -> int:
    old = int(array[i])
    new = old | bits  # the highest bit is the sign
    array[i] = new - (1 << 64) if new >= 1 << 63 else new
    return old


INTRINSICS: dict[str, Callable[..., Any]] = {
    "at": _at,
    "put": _put,
    "load": lambda array, i: int(array[i]),
    "store": _put,
    "add": _add,
    "compare_swap": _compare_swap,
    "set_bits": _set_bits,
    "bit_length": lambda number: 64 if number < 0 else int(number).bit_length(),
    "popcount": lambda word: int(word).bit_count(),
    "trailing_zeros": lambda word: (int(word) & -int(word)).bit_length() - 1 if word else 64,
}


def _wrapping(name: str) -> Callable[..., Any]:
    operation = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name]
    return lambda a, b: operation(np.int64(a), np.int64(b))


def _elsewhere(source: str) -> str:
    return source.replace("gdatalog.cpu_ops.compiled", HERE)


def _helpers() -> None:
    """The folder of compiled functions, as a package of plain ones."""
    if HERE in sys.modules:
        return
    package = types.ModuleType(HERE)
    package.__path__ = []
    sys.modules[HERE] = package
    jit = types.ModuleType(f"{HERE}.jit")
    jit.jit = jit.part = jit.inlined = lambda function: function  # type: ignore[attr-defined]
    jit.intrinsic = lambda function: INTRINSICS.get(function.__name__)  # type: ignore[attr-defined]
    sys.modules[jit.__name__] = jit
    left = {
        path.stem: path
        for path in FOLDER.glob("*.py")
        if path.stem not in ("jit", "parts", "__init__")
    }
    while left:
        for name, path in list(left.items()):
            source = _elsewhere(path.read_text())
            asked = set(re.findall(rf"from {HERE}\.(\w+) import", source))
            if asked & left.keys():
                continue
            module = types.ModuleType(f"{HERE}.{name}")
            sys.modules[module.__name__] = module
            exec(compile(source, str(path), "exec"), module.__dict__)
            if name == "values":
                module.__dict__.update(plus=_wrapping("add"), minus=_wrapping("sub"))
                module.__dict__.update(times=_wrapping("mul"))
            del left[name]


def load(name: str, source: str, *_: Any) -> Any:
    """The module of a printed text, as `code_cache.load` gives it, but not compiled."""
    _helpers()
    text = _elsewhere(source)
    text = re.sub(r"@nb\.njit\(.*?\n\)\n", "", text, flags=re.S).replace("import numba as nb\n", "")
    text = re.sub(r"@numba\.njit\(.*\)\n", "", text).replace("import numba\n", "")
    text = re.sub(r"from numba\.core\.types import .*\n", "", text)
    module = types.ModuleType(name)
    exec(compile(text, f"<{name}>", "exec"), module.__dict__)
    for each in re.findall(r"^def (\w+)", text, flags=re.M):
        setattr(module, each, _quietly(getattr(module, each)))
    return module


def _quietly(function: Callable[..., Any]) -> Callable[..., int]:
    def call(*args: Any) -> int:
        with np.errstate(all="ignore"):
            return int(function(*args) or 0)

    return call


@contextmanager
def interpreted() -> Iterator[None]:
    """Within, printed plans are run by Python."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device.code_cache, "load", load)
        patch.setattr(device.code_cache, "compiled", lambda name: True)
        yield
