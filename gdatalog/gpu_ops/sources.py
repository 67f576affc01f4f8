"""The text of a kernel's source, with all that it includes put in its place.

The files in `kernels/` include each other by name. NVRTC reads no files, and a source that is
whole needs no folder to be told of.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

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
    """A file of `kernels/`, whole."""
    return whole(f'#include "{name}"\n')
