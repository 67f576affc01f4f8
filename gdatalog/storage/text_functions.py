"""The compiled functions on many texts as bytes: they cut delimited text, and number texts."""

from __future__ import annotations

import warnings

from gdatalog.storage.table import TextSetFunctions

# From this many bytes on, one text pays for starting the compiler.
WORTH_CUTTING = 1 << 20
WORTH = 1 << 14  # and if the functions are compiled already


_made: list[TextSetFunctions] = []


def text_functions_for(count: int) -> TextSetFunctions | None:
    """The functions, if a text of `count` bytes is worth them."""
    if count < (WORTH if _made else WORTH_CUTTING):
        return None
    if not _made:
        from gdatalog.codegen.loop_language import LoopError

        try:
            _made.append(_compiled())
        except LoopError as problem:
            warnings.warn(RuntimeWarning(str(problem)), stacklevel=2)
            return None
    return _made[0]


def _compiled() -> TextSetFunctions:
    from gdatalog.codegen import native
    from gdatalog.codegen.helpers import lines, text_sets

    rows = ("u8[]", "i64", "i64", "bool", "i64[]", "i64")
    cells = ("u8[]", "i64[]", "i64[]", "i64", "i64")
    texts = ("u8[]", "i64[]", "i64[]", "i64", "i64[]")
    return TextSetFunctions(
        native.of(lines.scan, *rows, "i64[]", "i64[]", "i64[]", "i64[]"),
        native.of(text_sets.measure, "u8[]", "i64[]", "i64[]"),
        native.of(text_sets.look_up, *cells, *texts, "i32[]"),
        native.of(lines.join, "i64[]", "i64[]", "i64", "u8[]", "i64[]", "u8[]", "i64[]"),
        native.of(text_sets.index_texts, "u8[]", "i64[]", "bool[]", "i64", "i64[]", "i64"),
        native.of(text_sets.move_slots, "i64[]", "i64[]", "i64"),
    )
