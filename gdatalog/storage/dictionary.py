"""Dictionaries: the distinct keys of some columns, each with a code from 0 on.

If keys are sparse (real ids of 64 bits), every look-up in an index is a search. Codes are dense
and fit 32 bits, so that a look-up is one read of an array.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import numpy as np
from numpy.typing import DTypeLike

from gdatalog.records import dataclass
from gdatalog.storage.imported_later import pa, pc
from gdatalog.storage.rows import sorted_set
from gdatalog.storage.table import Array

ABSENT = -1
# With n ordered keys, a dictionary has at most (n + UNORDERED_LEAST) / UNORDERED_SHARE others.
UNORDERED_SHARE, UNORDERED_LEAST = 16, 10_000
# Columns with fewer keys than a dictionary by this factor, or fewer than SHORT, are looked up by
# binary search: importing Arrow for its hash tables takes longer, and 80 MiB.
SEARCHED, SHORT = 8, 1 << 17


class Dictionary:
    """Keys in ascending order, whose codes are their positions; `more` keys follow in any order.

    A key's code never changes: keys can be added, and encoded rows stay valid.
    """

    def __init__(self, keys: Array, more: Sequence[int] = (), lasting: bool = True) -> None:
        """`lasting`: False if it is only for the constants of one call."""
        self.keys = keys
        self.more = {key: len(keys) + at for at, key in enumerate(more)}
        self.lasting = lasting
        self._every = keys  # all keys by code, as of the last `decode`
        self._lock = Lock()

    @staticmethod
    def of(columns: Sequence[Array]) -> Dictionary:
        """The dictionary of all keys that occur in these columns."""
        parts = [_distinct(column) for column in columns]  # most keys occur many times
        keys = np.concatenate(parts).astype(np.int64, copy=False)
        return Dictionary(sorted_set(keys, own=True))

    def __len__(self) -> int:
        return len(self.keys) + len(self.more)

    def __bool__(self) -> bool:
        return True

    @property
    def nbytes(self) -> int:
        return int(self.keys.nbytes)

    def add(self, column: Array) -> bool:
        """Assigns codes to new keys. Returns False, and changes nothing, if there are so many that
        a new dictionary is better."""
        absent = dict.fromkeys(column[self.encode(column) == ABSENT].tolist())
        if not absent:
            return True
        with self._lock:
            unordered = len(self.more) + len(absent)
            if UNORDERED_SHARE * unordered > len(self.keys) + UNORDERED_LEAST:
                return False
            for key in absent:
                self.more.setdefault(key, len(self))
        return True

    def extended(self, keys: Array) -> Dictionary:
        """The same codes, and more for these keys if they have none: for one call."""
        absent = keys[self.encode(keys) == ABSENT].tolist()
        if not absent:
            return self
        return Dictionary(self.keys, tuple(dict.fromkeys((*self.more, *absent))), lasting=False)

    def encode(self, column: Array) -> Array:
        """The codes of keys; ABSENT if a key has none."""
        few = len(column) < SHORT or SEARCHED * len(column) < len(self.keys)
        codes = self._searched(column) if few else self._hashed(column)
        if self.more:
            rows = np.flatnonzero(codes == ABSENT)
            codes[rows] = [self.more.get(key, ABSENT) for key in column[rows].tolist()]
        return codes

    def _hashed(self, column: Array) -> Array:
        wide = pa.array(column.astype(np.int64, copy=False))
        found = pc.index_in(wide, value_set=pa.array(self.keys)).fill_null(ABSENT)
        return np.array(found.to_numpy(), dtype=np.int32)

    def _searched(self, column: Array) -> Array:
        """The same for few keys, which are not worth a hash table of all."""
        places = np.searchsorted(self.keys, column)
        found = self.keys.take(places, mode="clip") == column
        return np.where(found, places, ABSENT).astype(np.int32)

    def bound(self, key: int, op: str) -> int:
        """The code for a comparison `x op key` on codes.

        Not with `more`, whose codes have no order.
        """
        if op in ("=", "!="):
            return int(self.encode(np.array([key], dtype=np.int64))[0])
        assert not self.more
        if op in ("<", ">="):
            return int(np.searchsorted(self.keys, key, "left"))
        return int(np.searchsorted(self.keys, key, "right")) - 1

    def decode(self, codes: Array, into: Array | None = None) -> Array:
        """The keys of codes; written `into` an array of 64 bits, if one is given."""
        every = self._every
        if len(every) < len(self):
            more = list(self.more)
            every = self._every = np.concatenate([self.keys, np.array(more, dtype=np.int64)])
        found: Array = np.take(every, codes, out=into, mode="clip")  # all codes are valid
        return found


def _distinct(column: Array) -> Array:
    if len(column) < SHORT:
        return sorted_set(column)

    found: Array = pc.unique(pa.array(column)).to_numpy()
    return found


@dataclass(frozen=True, slots=True, eq=False)
class CodedColumn:
    """A column of keys as codes, decoded when NumPy makes an array of it."""

    codes: Array
    dictionary: Dictionary

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice) -> CodedColumn:
        return CodedColumn(self.codes[rows], self.dictionary)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        return self.dictionary.decode(self.codes).astype(dtype or np.int64, copy=False)

    def decode(self, into: Array) -> None:
        """Writes the keys into an array of 64 bits."""
        self.dictionary.decode(self.codes, into)
