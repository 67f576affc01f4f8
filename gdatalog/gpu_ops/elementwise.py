"""Launches the kernels of `elementwise.cuh`, which serve all operations and types of arrays."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from gdatalog.gpu_ops.array_operators import Operators
from gdatalog.gpu_ops.cupy_kernel import CupyKernel
from gdatalog.gpu_ops.sources import source_of
from gdatalog.overhead import spending

if TYPE_CHECKING:
    from gdatalog.storage.trie import TrieLevel

Array = Any  # a device array

THREADS = 256  # of a block, as in search.cuh
TILE = 4 * THREADS  # entries that a block takes at a time, as in search.cuh
HEAD = 4  # words of a state of tiles before those of tiles, as in search.cuh
MOST_PARTS = 2048  # blocks of a reduction: the same number on all devices, for the same sums

# As in elementwise.cuh.
OPERATIONS = (
    "copy", "range", "gather", "scatter", "tally", "select",
    "add", "subtract", "multiply", "floor_divide", "remainder", "bitwise_and", "bitwise_or",
    "bitwise_xor", "invert", "logical_not", "left_shift", "right_shift", "equal", "not_equal",
    "less", "less_equal", "greater", "greater_equal", "minimum", "maximum", "negative", "absolute",
    "divide", "floor", "ceil", "trunc", "sqrt", "isnan",
)  # fmt: skip
_CODES = {name: at for at, name in enumerate(OPERATIONS)}
_KINDS = {
    np.dtype(name): at
    for at, name in enumerate(("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"))
}
_REAL, _UNSIGNED = 1 << 8, 1 << 9
_OUT, _OPERANDS, _MODES = 16, (24, 32, 40), (48, 50, 52)
_OUT_KINDS = {dtype: kind << _OUT for dtype, kind in _KINDS.items()}
_OPERAND_KINDS = [{dtype: kind << at for dtype, kind in _KINDS.items()} for at in _OPERANDS]
_ONE, _NUMBER = 1, 2
_KERNELS: Sequence[str] = (
    "apply",
    "reduce",
    "search",
    "survivors",
    "look_up",
    "ranges",
)
_OF_PARENTS, _DENSE, _FOUND, _AFTER = 1, 2, 4, 8
_BEGIN, _BOUNDED, _UPPER = 1, 2, 4
_CUTS = {
    "": 0,
    "<": _BOUNDED | _UPPER,
    "<=": _BOUNDED | _UPPER | _AFTER,
    ">": _BOUNDED | _AFTER,
    ">=": _BOUNDED,
}
_FLAGS = {
    dtype: _REAL if dtype.kind == "f" else _UNSIGNED if dtype == np.uint64 else 0
    for dtype in _KINDS
}
_REAL_FUNCTIONS = ("exp", "log", "power", "fmod")  # as in real_functions.cuh


class Elementwise:
    """The kernels of one `CupyDriver`, compiled on first use. Arrays have no gaps."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self._kernels: dict[str, CupyKernel] = {}
        self._loading = Lock()

    def apply(
        self,
        name: str,
        out: Array,
        operands: Sequence[Any],
        common: np.dtype[Any],
        numbers: Sequence[int] = (0, 0, 0),
        size: int | None = None,
    ) -> None:
        """Computes `out` from arrays and numbers, as values of the type `common`. An operand of one
        entry serves all entries of `out`."""
        size = out.size if size is None else size
        if not size:
            return
        what = _CODES[name] | _FLAGS[common] | _OUT_KINDS[out.dtype]
        args = [out, out, out, out, 0, *numbers, size]
        for at, value in enumerate(operands):
            if isinstance(value, Operators):
                args[1 + at] = value
                what |= _OPERAND_KINDS[at][value.dtype]
                if value.size == 1:
                    what |= _ONE << _MODES[at]
            else:
                args[5 + at] = _bits(value, common.kind == "f")
                what |= _NUMBER << _MODES[at]
        args[4] = what
        self._launch("apply", size, args)

    def reduced(self, name: str, values: Array, common: np.dtype[Any]) -> Array:
        """The sum ("add"), the "minimum" or the "maximum", as an array of one 64-bit entry."""
        xp, left = self.driver.xp, values
        while True:
            blocks = min(MOST_PARTS, -(-left.size // TILE))
            found = xp.empty(blocks, dtype=common)
            what = _CODES[name] | _FLAGS[common] | _KINDS[left.dtype] << _OPERANDS[0]
            self._kernel("reduce").launch(blocks, THREADS, [found, left, what, left.size])
            if blocks == 1:
                return found
            left = found

    def search(self, out: Array, among: Array, values: Array, after_equal: bool) -> None:
        """The position of each value in a sorted array."""
        if not values.size:
            return
        common = np.promote_types(among.dtype, values.dtype)
        kinds = _KINDS[among.dtype] << _OPERANDS[0] | _KINDS[values.dtype] << _OPERANDS[1]
        numbers = _FLAGS[common] | kinds, int(after_equal), among.size, values.size
        self._launch("search", values.size, [out, among, values, *numbers])

    def survivors(self, mask: Array, found: Array, state: Array) -> None:
        """Writes the indices of the entries that are not 0, and their number to `state[1]`."""
        what = _KINDS[mask.dtype] << _OPERANDS[0] | _KINDS[found.dtype] << _OUT
        self._launch("survivors", mask.size, [mask, found, state, what, mask.size])

    def look_up(
        self,
        found: Array,
        level: TrieLevel,
        parents: Array | None,
        sought: Array,
        after_equal: bool | None,
    ) -> None:
        """The position of each value in its parent's list, or with None in the whole level: -1 if
        it is absent, or, if `after_equal` is given, where it would stand."""
        how, least, values = 0, 0, level.values
        if after_equal is None:
            how = _FOUND
        elif after_equal:
            how = _AFTER
        if parents is not None:
            how |= _OF_PARENTS
        elif (dense := level.dense_index()) is not None:
            how, (least, values) = _DENSE, dense
        given = values, level.offsets, sought if parents is None else parents, sought
        what = _KINDS[found.dtype] << _OUT | _lists(given)
        args = [found, *given, what, how, least, len(values), sought.size]
        self._launch("look_up", sought.size, args)

    def ranges(
        self,
        level: TrieLevel,
        parents: Array,
        cuts: Sequence[tuple[str, Array]],
        starts: Array,
        lengths: Array,
    ) -> None:
        """The start and the length of each parent's list, cut by (operator, bounds)."""
        begin = _BEGIN
        for op, bounds in cuts or [("", parents)]:
            how, begin = begin | _CUTS[op], 0
            given = level.values, level.offsets, parents, bounds
            args = [*given, starts, lengths, _lists(given), how, parents.size]
            self._launch("ranges", parents.size, args)

    def real(self, name: str, out: Array, a: Array, b: Array) -> None:
        """A function of doubles that takes long to compile."""
        if out.size:
            args = [out, a, b, _REAL_FUNCTIONS.index(name), out.size]
            self._launch("real_function", out.size, args)

    def _launch(self, name: str, size: int, args: Sequence[Any]) -> None:
        kernel = self._kernels.get(name) or self._kernel(name)
        blocks = 1 if size <= TILE else min(-(-size // TILE), kernel.resident(THREADS))
        kernel.launch(blocks, THREADS, args, True)

    def _kernel(self, name: str) -> CupyKernel:
        if name not in self._kernels:
            with spending("compiling"), self._loading:
                self._load(name)
        return self._kernels[name]

    def _load(self, name: str) -> None:
        if name in self._kernels:  # another thread has
            return
        alone = name == "real_function"
        names, file = ([name], "real_functions.cuh") if alone else (_KERNELS, "elementwise.cuh")
        self._kernels |= self.driver.kernels(source_of(file), names, "operations on arrays")


def _lists(of: Sequence[Array]) -> int:
    """The kinds of values, offsets, parents and keys."""
    return sum(_KINDS[array.dtype] << 24 + 8 * at for at, array in enumerate(of))


def _bits(value: Any, real: bool) -> int:
    """A number as kernels take it: an int of 64 bits, or the bits of a double."""
    if real:
        found: int = struct.unpack("<q", struct.pack("<d", float(value)))[0]
        return found
    low = int(value) & (1 << 64) - 1
    return low - (low >> 63 << 64)
