"""Helpers of compiled loops. Those of `elements` and `atomics` are used everywhere."""

from gdatalog.codegen.helpers.atomics import (
    add,
    compare_swap,
    load,
    mark_first,
    set_bits,
    stopped,
    store,
    take,
)
from gdatalog.codegen.helpers.elements import at, prefetch, put, put_word, word

__all__ = [
    "add", "at", "compare_swap", "load", "mark_first", "prefetch", "put", "put_word", "set_bits",
    "stopped", "store", "take", "word",
]  # fmt: skip
