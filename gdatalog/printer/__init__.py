"""The arguments of a printed function (arrays of tries, scratch, scalars), and the properties of
tries that its text depends on.

An argument says which array it needs; `executors` pass that array of a run.

The text depends on the order of magnitude of lengths only. The exact lengths are arguments, so that
compiled code can be reused. Tries that grow each round count as of unknown size: one text serves
all rounds.

A function of one string becomes a table, which is an argument too: its result for each code of the
symbol table. Tables are cached. They are extended when the symbol table grows; codes never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np

from gdatalog.cpu_ops.functions import Scope, call, constant, to_keys, to_values
from gdatalog.plan import Apply, slots
from gdatalog.records import dataclass, replace
from gdatalog.storage.loop_tables import HashLevel, HashTrie, Tallied
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie, TrieLevel

_TYPES = {"int32": "i32[]", "int64": "i64[]", "uint8": "u8[]", "uint32": "u32[]",
          "uint64": "u64[]", "float64": "f64[]", "bool": "bool[]"}  # fmt: skip


# Element types of scratch arrays that hold no values.
SCRATCH = {
    "marks": "uint8", "places": "uint8", "rows": "uint64", "words": "uint64", "bitmap": "uint64",
    "filled": "uint64", "slots": "int64", "waiting": "int64", "tally": "int64",
    "tallied": "int64", "local": "int64", "kept": "int64",
}  # fmt: skip


def type_of(dtype: object) -> str:
    return _TYPES[np.dtype(dtype).name]  # type: ignore[call-overload]  # dtypes of arrays are among these


@dataclass(frozen=True, slots=True)
class LevelArgument:
    """A level of a trie. `trie` is its number among the plan's distinct tries."""

    trie: int
    depth: int


@dataclass(frozen=True, slots=True)
class Argument:
    """An array argument. `kind` says what the array holds:

    - of a level: values, offsets, index (the dense index of a root), starts (where the children of
      each value start), weighed (the weight of each value)
    - of a level of a hash trie: spans, below, keys, ids
    - of a trie: weights, sums (prefix sums of the weights), labels
    - scratch with a byte for each value in a level's range: marks, places
    - scratch with bits: rows (one for each pair of positions of a list), words (one for each
      position), bitmap (one for each combination of several levels' values), filled (one for each
      word of the bitmap)
    - buffer: scratch as long as the shortest of the longest lists of `levels`
    - tally and tallied: counts indexed by a level's values, and the values whose count is not 0
    - local: a count for each entry of a level; for a root, for each rank
    - kept and lists: where the cached list of each entry starts, and these lists
    - slots (of a hash set) and waiting (a short queue), which belong to no level
    - given: an input of the run. own: an array that the run allocates for each worker. result: an
      array of the run that the function writes. output: a column of a block. counts: the counters
      of a worker's profile.
    """

    name: str
    type: str
    kind: str
    levels: tuple[LevelArgument, ...] = ()
    length: int = 0  # for scratch of a fixed length


class Arguments:
    """The arguments of one function, without duplicates."""

    def __init__(self, tries: Sequence[TrieLayout]) -> None:
        self.tries = tries
        self.found: dict[str, Argument] = {}
        self.scalars: list[tuple[str, LevelArgument]] = []  # in the order of the array `sizes`

    def _add(self, argument: Argument) -> str:
        self.found.setdefault(argument.name, argument)
        return argument.name

    def values(self, level: LevelArgument) -> str:
        kind = type_of(self.tries[level.trie].levels[level.depth].values)
        return self._add(Argument(f"v{level.trie}_{level.depth}", kind, "values", (level,)))

    def offsets(self, level: LevelArgument) -> str:
        kind = type_of(self.tries[level.trie].levels[level.depth].offsets)
        return self._add(Argument(f"o{level.trie}_{level.depth}", kind, "offsets", (level,)))

    def of_hash(self, level: LevelArgument, kind: str) -> str:
        """An array of a hash trie's level; `kind` is spans, below, keys or ids."""
        dtype = "int64" if kind == "keys" else "int32"
        name = f"{kind}{level.trie}_{level.depth}"
        return self._add(Argument(name, type_of(dtype), kind, (level,)))

    def of_trie(self, trie: int, kind: str) -> str:
        """An array of a trie: weights, sums or labels; or of a root with dense values: index,
        starts (where each value's children start), or weighed (the weight of each value, or 0)."""
        widths = {"index": "int32", "starts": "int32", "labels": self.tries[trie].labels}
        dtype = widths.get(kind, "int64")
        assert dtype is not None
        return self._add(Argument(f"{kind}{trie}", type_of(dtype), kind, (LevelArgument(trie, 0),)))

    def scratch(
        self,
        name: str,
        kind: str,
        levels: tuple[LevelArgument, ...],
        length: int = 0,
        dtype: str | None = None,
    ) -> str:
        kind_of = type_of(dtype or SCRATCH.get(kind) or self.width(levels))
        return self._add(Argument(name, kind_of, kind, levels, length))

    def width(self, levels: tuple[LevelArgument, ...]) -> str:
        """The dtype that holds the values common to all these levels."""
        dtypes = [self.tries[at.trie].levels[at.depth].values for at in levels]
        return "int32" if np.dtype(np.int32) in dtypes else "int64"

    def plain(self, kind: str, name: str, dtype: str = "int64") -> str:
        """An array that belongs to no level; `kind` is given, own, result, output or counts."""
        return self._add(Argument(name, type_of(dtype), kind))

    def scalar(self, kind: str, level: LevelArgument) -> str:
        """A number of a level; `kind` is low (the value at which the dense index starts), base (the
        least value), bits (the width of values minus the least) or total (rows of the trie)."""
        entry = (kind, level)
        if entry not in self.scalars:
            self.scalars.append(entry)
        return f"{kind}{level.trie}_{level.depth}"


# The properties of indexes that printed text depends on.


MOST_ROWS, MOST_MARKS = 1 << 28, 1 << 27  # most bytes of a worker's scratch
UNKNOWN = 1 << 16  # the size of an index that changes each round
ROOM_FOR_BITS_BELOW = 1 << 11  # a list with fewer values always has room for its rows of bits
MOST_TILE_ROWS = 1 << 22  # most bytes of a tile's scratch; there are thousands of tiles


@dataclass(frozen=True, slots=True)
class LevelLayout:
    """`size`, `longest`: the number of values of the level and of its longest list, rounded up to a
    power of four. `dense`: whether a root has an index by value.

    `marks_fit`: whether scratch has room for one byte for each value between the least and the
    greatest. `rows_fit`, `tile_rows_fit`: whether a worker's or a tile's scratch has room for one
    bit for each pair of values of the longest list.
    """

    values: np.dtype[np.generic]
    offsets: np.dtype[np.generic]
    size: int
    longest: int
    dense: bool
    marks_fit: bool
    rows_fit: bool
    tile_rows_fit: bool


@dataclass(frozen=True, slots=True)
class TrieLayout:
    """`number`: the trie's number in the plan; atoms may share a trie. `labels`: the dtype of
    labels, if ranks replace values. `loose`: the values of the third and later columns stand beside
    those of the second, without offsets (`cpu_ops/best_values.py`). `hashed`: a hash trie, whose
    lists are unsorted. `tallied`: an unsorted table of counts that loops fill. `weight`: a bound of
    the sum of the weights, rounded up to a power of four.

    Equal layouts are the same object, so that callers can use its `id` as a key. Layouts are never
    freed; there are few.
    """

    number: int
    levels: tuple[LevelLayout, ...]
    labels: str | None
    loose: bool
    hashed: bool = False
    tallied: bool = False
    weight: float = inf


_layouts: dict[TrieLayout, TrieLayout] = {}


def layouts_of(
    tries: Sequence[Trie | HashTrie | Tallied], growing: bool = False
) -> tuple[TrieLayout, ...]:
    """Layouts of a plan's tries. `growing`: the tries grow each round."""
    first: dict[int, int] = {}
    numbered = [(trie, first.setdefault(id(trie), at)) for at, trie in enumerate(tries)]
    return tuple(_layout_of(trie, number, growing) for trie, number in numbered)


def _layout_of(trie: Trie | HashTrie | Tallied, number: int, grows: bool) -> TrieLayout:
    width = np.dtype(np.int64)
    if isinstance(trie, Tallied):
        few = LevelLayout(width, width, 1, 1, False, False, False, False)
        made = TrieLayout(number, (few,) * trie.columns, None, False, True, True)
        return _layouts.setdefault(made, made)
    keeper, key = trie, tuple[object, ...]()
    if isinstance(trie, HashTrie):
        key = (number, *(level.dense for level in trie.levels[:1]))
    elif trie.whole is not None:
        keeper, key = trie.whole, (number, "sliced")
    else:
        key = (number, grows)
    found: TrieLayout | None = keeper.layouts.get(key)
    if found is None:
        made = _made(trie, number, grows)
        found = keeper.layouts[key] = _layouts.setdefault(made, made)
    return found


def _made(trie: Trie | HashTrie, number: int, grows: bool) -> TrieLayout:
    if isinstance(trie, HashTrie):
        return TrieLayout(number, tuple(map(_hash_level, trie.levels)), None, False, True)
    if trie.whole is not None:  # all slices share one text, which depends on the whole trie's sizes
        made = _layout_of(trie.whole, number, False)
        both = zip(made.levels, trie.levels, strict=True)
        levels = tuple(replace(layout, offsets=level.offsets.dtype) for layout, level in both)
        return replace(made, levels=levels)
    loose = len(trie.levels) > 2 and not len(trie.levels[2].offsets)
    levels = tuple(_level(level, not depth, grows) for depth, level in enumerate(trie.levels))
    labels = None if trie.labels is None else trie.labels.dtype.name
    weight = inf if grows or trie.weights is None else rounded(trie.total)
    return TrieLayout(number, levels, labels, loose, weight=weight)


def _hash_level(level: HashLevel) -> LevelLayout:
    width = np.dtype(np.int32)
    return LevelLayout(width, width, UNKNOWN, UNKNOWN, level.dense, False, False, False)


def _level(level: TrieLevel, root: bool, grows: bool) -> LevelLayout:
    low, high = level.span
    # A small level that grows needs no exact maximum.
    longest = len(level) if grows and len(level) < ROOM_FOR_BITS_BELOW else level.longest
    bits = longest**2 // 8
    return LevelLayout(
        level.values.dtype,
        level.offsets.dtype,
        UNKNOWN if grows else rounded(len(level)),
        UNKNOWN if grows else rounded(longest),
        root and not grows and level.is_dense,
        high - low < MOST_MARKS,
        bits <= MOST_ROWS,
        bits <= MOST_TILE_ROWS,
    )


def rounded(number: int) -> int:
    """
    >>> [rounded(number) for number in (0, 1, 2, 4, 5, 16, 17)]
    [0, 1, 4, 4, 16, 16, 64]
    """
    bits = max(0, number - 1).bit_length()
    return 1 << bits + (bits & 1) if number else 0


# Functions of one string, computed once for each code of the symbol table.


_KEPT = 32  # cached tables of a symbol table; the least recently used is evicted


@dataclass(frozen=True, slots=True)
class _Filled:
    values: Array
    failed: Array
    warnings: tuple[str, ...]


_Tables = dict[tuple[object, ...], _Filled]
_filled: WeakKeyDictionary[SymbolTable, _Tables] = WeakKeyDictionary()
_lock = Lock()


def fill(expr: Apply, scope: Scope) -> tuple[Array, Array]:
    """The value of `expr` for each code of its one argument with a variable, and a flag for each
    code for which it fails. Values are keys; bools are bytes of 0 and 1."""
    fixed = tuple(None if slots(arg) else constant(arg, scope)[0] for arg in expr.args)
    what = (expr.function, fixed)
    size = len(scope.symbols)
    with _lock:
        done = _filled.setdefault(scope.symbols, {}).get(what)
    if done is None or len(done.values) < size:
        done = _extended(done, size, expr, fixed, scope)
    with _lock:
        kept = _filled[scope.symbols]
        kept.pop(what, None)
        kept[what] = done  # now the most recently used
        if len(kept) > _KEPT:
            del kept[next(iter(kept))]
    for warning in done.warnings:
        scope.warn(warning, expr.span)
    return done.values, done.failed


def _extended(
    done: _Filled | None, size: int, expr: Apply, fixed: tuple[int | None, ...], scope: Scope
) -> _Filled:
    """The table with results for all codes below `size`."""
    warnings: list[str] = []
    codes = np.arange(0 if done is None else len(done.values), size)
    args = [
        codes if key is None else to_values(np.array([key]), arg.type)
        for key, arg in zip(fixed, expr.args, strict=True)
    ]
    kind = expr.args[0].type
    values, failed = call(expr.function, args, kind, scope.symbols, warnings.append, scope.bounded)
    keys = values.view(np.uint8) if expr.type == "bool" else to_keys(values, expr.type)
    bad = np.zeros(len(codes), np.uint8) if failed is None else failed.view(np.uint8)
    if done is None:
        return _Filled(np.ascontiguousarray(keys), np.ascontiguousarray(bad), tuple(warnings))
    return _Filled(
        np.concatenate([done.values, keys]), np.concatenate([done.failed, bad]), done.warnings
    )
