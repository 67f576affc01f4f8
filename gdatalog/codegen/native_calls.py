"""A compiled function, and its calls from Python."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from weakref import ref

import numpy as np

from gdatalog.codegen.loop_language import Scalar
from gdatalog.records import dataclass

if TYPE_CHECKING:
    from gdatalog.codegen.loop_language import Array
    from gdatalog.codegen.machine import Tier


_CHARS = {"bool[]": "?", "i8[]": "b", "u8[]": "B", "i32[]": "i", "u32[]": "I", "i64[]": "lq",
          "u64[]": "LQ", "f64[]": "d"}  # fmt: skip
_WHOLE = 0x0101  # NumPy's flags for contiguous and aligned
_WORD = 0xFFFF_FFFF_FFFF_FFFF
_ROOM = [0] * 8  # for results, which replace the arguments
_DROPPED = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class Native:
    """A compiled function. `given`: the types of its arguments. `result`: the type of its result,
    or the types of several.

    Arrays must be contiguous, aligned and of their type; otherwise a call raises TypeError.
    """

    name: str
    entry: Callable[[int], int]
    given: tuple[str, ...]
    result: str | tuple[str, ...]
    tier: Tier

    def __call__(self, *args: Array | Scalar) -> Scalar:
        words: list[int] = []
        for arg, kind in zip(args, self.given, strict=True):
            words += (int(arg) & _WORD,) if kind == "i64" else self.words(arg, kind)
        packed = array("Q", words + _ROOM)
        status = self.entry(packed.buffer_info()[0])
        if self.result in ("i64", "void"):
            return status if self.result == "i64" else None
        return _unpacked(np.frombuffer(packed, dtype=np.uint64), status, self.result)

    def words(self, arg: Array | Scalar, kind: str) -> tuple[int, ...]:
        """The words that pass an argument: a number, or an array's address and length."""
        chars = _CHARS.get(kind)
        if chars is None:
            return (int(np.float64(arg).view(np.uint64) if kind == "f64" else arg) & _WORD,)
        dtype, whole = arg.dtype, arg.flags.num & _WHOLE == _WHOLE
        if dtype.char not in chars or not dtype.isnative or arg.ndim != 1 or not whole:
            raise TypeError(f"{self.name}: {arg.dtype} {arg.shape} is no {kind}")
        return arg.__array_interface__["data"][0], len(arg)


class Bound:
    """A function and its arguments, all arrays, which stay the same from call to call.

    `function`: a `Native`, or any function that takes the arrays. `arrays`: those that it keeps
    alive.
    """

    __slots__ = ("_address", "_dropped", "_places", "_words", "arrays", "function")

    def __init__(self, function: Callable[..., int], arrays: Mapping[str, Array]) -> None:
        self.function = function
        self.arrays: dict[str, Array] = {}
        self._dropped: dict[str, ref[Array]] = {}  # whose words are still there
        self._places = {name: 2 * at for at, name in enumerate(arrays)}
        self._words = array("Q", bytes(16 * len(arrays)))
        self._address, _ = self._words.buffer_info()
        for name, value in arrays.items():
            self.set(name, value)

    def set(self, name: str, value: Array) -> None:
        if name in self.arrays and self.arrays[name] is value:
            return
        self.arrays[name] = value
        dropped = self._dropped.pop(name, None)
        if dropped is not None and dropped() is value:
            return
        self.lend(name, value)

    def lend(self, name: str, value: Array) -> None:
        """Sets an argument whose owner keeps it alive until the next calls have ended."""
        function = self.function
        if isinstance(function, Native):
            at, words = self._places[name], self._words
            words[at], words[at + 1] = function.words(value, function.given[at >> 1])
        else:
            self.arrays[name] = value

    def let_go(self, name: str) -> None:
        """Drops an argument, which must be set before the next call."""
        if self.arrays[name] is not _DROPPED:
            self._dropped[name] = ref(self.arrays[name])
            self.arrays[name] = _DROPPED

    def __call__(self) -> int:
        if isinstance(self.function, Native):
            return self.function.entry(self._address)
        status: int = self.function(*self.arrays.values())
        return status


def _unpacked(words: Array, status: int, result: str | tuple[str, ...]) -> Scalar:
    if result == "u64":
        return status & _WORD
    if result == "bool":
        return status != 0
    views = {"f64": np.float64, "u64": np.uint64}
    kinds = (result,) if isinstance(result, str) else result
    found = tuple(words[at : at + 1].view(views.get(k, np.int64))[0] for at, k in enumerate(kinds))
    values = tuple(each.item() for each in found)
    return values[0] if isinstance(result, str) else values
