"""The symbol table of a database: from texts to codes and back.

Codes are given in the order in which texts are first met and never change or go away, so that
readers need no lock: a code that a reader holds is in the table for good. Where most texts are in
use no more, the database takes another table (`keeping`); who holds this one goes on with it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from threading import Lock

import numpy as np

from gdatalog.account import TEXTS
from gdatalog.storage.table import Array, Texts
from gdatalog.watching import OBJECT, patiently, watching, working_space

# What a text takes beside its characters: its entries in a list and in a dict, which holds up to
# twice as much for a moment when it grows, and what the allocator rounds up.
ENTRY = 136
RANKING = 56  # bytes for each text while texts are ordered
STEP = 1 << 20  # bytes of new texts that are charged together
MANY = 1 << 19  # texts, from which on Arrow sorts them
PIECE = 1 << 16  # texts that it is given at once
AT_ONCE = 1 << 13  # texts that are given codes without a look at who waits


class SymbolTable:
    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._texts: list[str] = []
        self.made = 0  # bytes of texts that programs and their evaluation brought
        self._lock = Lock()
        self._array: Array = np.empty(0, dtype=object)
        self._ranks: Array = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._texts)

    def __getstate__(self) -> list[str]:
        return self._texts

    def __setstate__(self, texts: list[str]) -> None:
        self.__init__()  # type: ignore[misc]
        self._texts = list(texts)
        self._codes = {text: code for code, text in enumerate(self._texts)}

    def intern(self, text: str) -> int:
        """The code of a text, which is given one if it has none."""
        code = self._codes.get(text)
        if code is None:
            with self._lock:
                code = self._codes.get(text)
                if code is None:
                    code = len(self._texts)
                    self._texts.append(text)
                    self._codes[text] = code
                    self.made += sys.getsizeof(text) + ENTRY
        return code

    def keeping(self, used: Array) -> SymbolTable:
        """A table with the texts of the codes that are marked, which have the same codes there."""
        table, codes = SymbolTable(), np.flatnonzero(used).tolist()
        table._texts = [""] * (codes[-1] + 1 if codes else 0)
        for code in codes:
            text = table._texts[code] = self._texts[code]
            table._codes[text] = code
        return table

    def intern_new(self, texts: Iterable[str]) -> Array:
        """The codes of texts that an evaluation makes; those that are new are charged to it."""
        account, known = watching().account, len(self._texts)
        codes, more = [], 0
        for text in texts:
            codes.append(self.intern(text))
            if len(self._texts) > known:
                known = len(self._texts)
                more += sys.getsizeof(text) + ENTRY
                if more >= STEP:
                    account.add(TEXTS, more)
                    more = 0
        account.add(TEXTS, more)
        return np.array(codes, dtype=np.int32)

    def text(self, code: int) -> str:
        return self._texts[code]

    def encode(self, column: Texts) -> Array:
        """Codes of this table for a column of texts, one a row."""
        if len(column.texts) == 0:
            return np.empty(0, dtype=np.int32)
        intern, watch, texts, made = self.intern, watching(), column.texts, self.made
        codes = np.empty(len(texts), dtype=np.int32)
        for start in range(0, len(texts), AT_ONCE):
            watch.poll()
            piece = texts[start : start + AT_ONCE]
            codes[start : start + len(piece)] = [intern(text) for text in piece]
        self.made = made
        return codes[column.codes]

    def decode(self, codes: Array) -> Texts:
        """A column of texts that holds no more texts than it needs."""
        if len(codes) == 0:
            return Texts(np.empty(0, dtype=np.int32), np.empty(0, dtype=object))
        texts = self.array()
        if len(texts) > 16 * len(codes):
            used, rows = np.unique(codes, return_inverse=True)
            return Texts(rows.astype(np.int32), texts[used])
        marks = np.zeros(len(texts), dtype=np.bool_)
        marks[codes] = True
        places = np.cumsum(marks, dtype=np.int32) - np.int32(1)
        return Texts(places[codes], texts[marks])

    def array(self) -> Array:
        """All texts, as an array of objects, by code."""
        array = self._array  # another thread may put a shorter one there meanwhile
        if len(array) != len(self._texts):
            array = np.empty(len(self._texts), dtype=object)
            array[:] = self._texts[: len(array)]
            self._array = array
        return array

    def ranks(self) -> Array:
        """For each code its place among all texts in the order of code points."""
        ranks = self._ranks
        if len(ranks) != len(self._texts):
            with working_space("the order of texts", RANKING * len(self._texts)):
                texts = self._texts[:]
                ranks = np.empty(len(texts), dtype=np.int64)
                ranks[_order(texts)] = np.arange(len(texts))
                self._ranks = ranks
        return ranks


def _order(texts: list[str]) -> Array | list[int]:
    """Where texts are, in the order of code points. Python's sort of very many could not be
    stopped."""
    if len(texts) >= MANY:
        import pyarrow as pa
        import pyarrow.compute as pc

        watch, pieces = watching(), []
        try:
            for start in range(0, len(texts), PIECE):
                watch.poll()
                pieces.append(pa.array(texts[start : start + PIECE], pa.large_string()))
        except UnicodeEncodeError:  # half a surrogate pair
            pass
        else:
            column = pa.chunked_array(pieces)
            held = column.nbytes + RANKING * len(texts)
            with working_space("the order of texts", held):
                order = patiently(len(texts) * OBJECT, lambda: pc.sort_indices(column))
            return np.asarray(order)
    return sorted(range(len(texts)), key=texts.__getitem__)
