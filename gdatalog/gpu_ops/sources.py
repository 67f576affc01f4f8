"""Sources with their includes expanded, which come without comments."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from gdatalog.gpu_ops.cupy_kernel import bare

_INCLUDE = re.compile(r'^#include "(\w+\.cuh)"\n', re.MULTILINE)


@cache
def _file(name: str) -> str:
    return bare((files("gdatalog.gpu_ops") / "kernels" / name).read_text(encoding="utf-8"))


def whole(text: str) -> str:
    """A source in which each `#include` is replaced by the file, the first time."""
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
