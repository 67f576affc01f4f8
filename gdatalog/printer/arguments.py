"""The arguments of a printed function: arrays of tries, scratch, scalars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdatalog.printer.layouts import TrieLayout
from gdatalog.records import dataclass

_TYPES = {"int32": "i32[]", "int64": "i64[]", "uint8": "u8[]", "uint16": "u16[]", "uint32": "u32[]",
          "uint64": "u64[]", "float64": "f64[]", "bool": "bool[]"}  # fmt: skip


# Element types of scratch arrays that hold no values.
SCRATCH = {
    "marks": "uint8", "places": "uint8", "rows": "uint64", "words": "uint64", "bitmap": "uint64",
    "filled": "uint64", "slots": "int64", "waiting": "int64", "tally": "int64",
    "tallied": "int64", "local": "int64", "kept": "int64", "joined": "uint64",
    "joined_at": "int64",
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
    - joined and joined_at: the rows of bits of all lists of a level, and where those of each list
      begin
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
