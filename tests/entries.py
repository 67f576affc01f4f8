"""Compiled functions that only compiled functions call, made callable for tests."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from gdatalog.cpu_ops.compiled.jit import jit


class Entries:
    """A module of `cpu_ops/compiled` whose functions Python can call."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        part = getattr(self._module, name)
        found = jit(_caller(part)) if hasattr(part, "py_func") else part
        setattr(self, name, found)
        return found


def _caller(part: Any) -> Any:
    def call(*args: Any) -> Any:
        return part(*args)

    return call
