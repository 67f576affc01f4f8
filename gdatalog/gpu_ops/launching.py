"""Compiles kernels on first use, and launches as many blocks as a size needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from gdatalog.account import spending
from gdatalog.gpu_ops.driver import Driver, Kernel

THREADS = 256  # of a block, as in compact.cuh
TILE = 4 * THREADS  # entries that a block takes at a time, as in compact.cuh
_TYPES = {"int32": "i32", "int64": "i64", "float64": "double", "uint8": "u8"}


def type_of(array: Any) -> str:
    """What kernels call the type of an array's entries."""
    return _TYPES[str(array.dtype)]


class Kernels:
    """The kernels of one driver, each compiled on first use."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._known: dict[tuple[str, str], Kernel] = {}
        self._resident: dict[tuple[str, str], int] = {}

    def launch(
        self, text: str, name: str, types: dict[str, str], size: int, args: Sequence[Any]
    ) -> None:
        """Launches blocks for `size` entries, TILE of them each, but no more than run at once.

        `types` defines the type names that the text leaves open.
        """
        lines = [f"#define {alias} {kind}\n" for alias, kind in types.items()]
        key = "".join([*lines, text]), name
        kernel = self._known.get(key)
        if kernel is None:
            with spending("compiling"):
                kernel = self.driver.kernels(whole(key[0]), [name], f"the kernel {name}")[name]
            self._known[key] = kernel
            self._resident[key] = kernel.resident(THREADS)
        blocks = max(1, min(-(-size // TILE), self._resident[key]))
        kernel.launch(blocks, THREADS, args)


# Sources with their includes expanded.


_INCLUDE = re.compile(r'^#include "(\w+\.cuh)"\n', re.MULTILINE)


@cache
def _file(name: str) -> str:
    return (files("gdatalog.gpu_ops") / "kernels" / name).read_text(encoding="utf-8")


def whole(text: str) -> str:
    """A source with each file that it includes in its place, once."""
    seen: set[str] = set()

    def put(found: re.Match[str]) -> str:
        name = found[1]
        if name in seen:
            return ""
        seen.add(name)
        return _INCLUDE.sub(put, _file(name).replace("#pragma once\n", ""))

    return _INCLUDE.sub(put, text)


def source_of(name: str) -> str:
    """A file of `kernels/` with its includes expanded."""
    return whole(f'#include "{name}"\n')
