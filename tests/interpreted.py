"""Printed loops run by Python itself, which defines what they mean: thousands of plans in no time.

Of the texts and the helpers nothing is changed; an intrinsic has a body in Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from gdatalog.codegen import native


def load(name: str, source: str, rows: float = 0.0) -> Any:
    """The function of a printed text, as `native.load` gives it, but not compiled."""
    world: dict[str, Any] = {}
    exec(compile(source, f"<{name}>", "exec"), world)
    (function,) = re.findall(r"^def (\w+)", source, flags=re.M)
    return _quietly(world[function])


def _quietly(function: Callable[..., Any]) -> Callable[..., int]:
    def call(*args: Any) -> int:
        with np.errstate(all="ignore"):
            return int(function(*args) or 0)

    return call


@contextmanager
def interpreted() -> Iterator[None]:
    """Within, printed plans are run by Python."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "load", load)
        patch.setattr(native, "load_soon", load)
        yield
