"""Helpers that are compiled once for all modules that they become part of.

To Numba this is the cache of one function. Its own would do, but that it does not notice when a
helper's helper changes, keeps files beside the package, and takes damaged ones for whole. What
is kept is a library with its LLVM code, so that it is inlined into callers as if it were new.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from numba.core import compiler, serialize

from gdatalog.cpu_ops import code_cache


class Parts:
    """What a dispatcher asks before it compiles its function for arguments of some types."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    @property
    def cache_path(self) -> str:
        return str(code_cache.folder())

    def load_overload(self, sig: Any, target: Any) -> Any:
        target.refresh()
        data = code_cache.read_part(self._name(sig, target.codegen()))
        if data is not None:
            with suppress(Exception):  # not what this Numba reads: it is compiled instead
                return compiler.CompileResult._rebuild(target, *pickle.loads(data))
        return None

    def save_overload(self, sig: Any, result: Any) -> None:
        if not result.library.has_dynamic_globals:
            data = serialize.dumps(result._reduce())
            code_cache.keep_part(self._name(sig, result.library.codegen), data)

    def _name(self, sig: Any, codegen: Any) -> str:
        """By function, types, and processor."""
        function = self.function
        code = repr((function.__module__, function.__qualname__, str(sig), codegen.magic_tuple()))
        return code_cache.versioned(function.__name__, code)
