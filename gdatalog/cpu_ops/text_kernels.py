"""The compiled functions that cut delimited text, which `storage` is offered."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

from gdatalog.storage.text_set import TextSetFunctions

# From how many bytes on a text alone is worth the start of the compiler.
WORTH_STARTING = 1 << 20
WORTH = 1 << 14  # and where its functions are at hand


class _Kernels(NamedTuple):
    scan: Any
    measure: Any
    look_up: Any
    join: Any
    index_texts: Any
    move_slots: Any


_made: list[TextSetFunctions] = []


def text_kernels_for(count: int) -> TextSetFunctions | None:
    """The functions, for texts of so many bytes if they are worth it."""
    if count < (WORTH if _made else WORTH_STARTING):
        return None
    if not _made:
        from gdatalog.codegen.language import LoopError

        try:
            _made.append(_compiled())
        except LoopError as problem:
            warnings.warn(RuntimeWarning(str(problem)), stacklevel=2)
            return None
    return _made[0]


def _compiled() -> TextSetFunctions:
    from gdatalog.codegen import native
    from gdatalog.codegen.helpers import lines, spelling

    rows = ("u8[]", "i64", "i64", "bool", "i64[]", "i64")
    cells = ("u8[]", "i64[]", "i64[]", "i64", "i64")
    texts = ("u8[]", "i64[]", "i64[]", "i64", "i64[]")
    return _Kernels(
        native.of(lines.scan, *rows, "i64[]", "i64[]", "i64[]", "i64[]"),
        native.of(spelling.measure, "u8[]", "i64[]", "i64[]"),
        native.of(spelling.look_up, *cells, *texts, "i32[]"),
        native.of(lines.join, "i64[]", "i64[]", "i64", "u8[]", "i64[]", "u8[]", "i64[]"),
        native.of(spelling.index_texts, "u8[]", "i64[]", "bool[]", "i64", "i64[]", "i64"),
        native.of(spelling.move_slots, "i64[]", "i64[]", "i64"),
    )
