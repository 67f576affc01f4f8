"""The symbol table of a database: from texts to codes and back.

A small table holds Python strings. Once a large file was read, the texts are bytes (`table.py`),
and Python strings are made on demand.

Codes are assigned in the order in which texts first occur, and never change or disappear, so
readers need no lock. If most texts are no longer used, the database switches to a smaller table
(`keeping`); whoever holds this one continues with it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock

import numpy as np

from gdatalog.account import TEXTS
from gdatalog.cancellation import OBJECT, cancellable, current_watch, working_space
from gdatalog.storage.imported_later import pa, pc
from gdatalog.storage.table import Array, TextColumn, TextSet, TextSetFunctions, used_codes

# The bytes of a text beside its characters: its entries in a list and in a dict (which briefly has
# up to twice as many when it grows), and the allocator's rounding.
ENTRY = 136
RANKING = 56  # bytes for each text while texts are sorted
STEP = 1 << 20  # characters of new texts that are charged at once
MANY = 1 << 19  # texts: more are sorted by Arrow
PIECE = 1 << 16  # texts in one batch for Arrow
AT_ONCE = 1 << 13  # texts that get codes between two polls


class SymbolTable:
    def __init__(self) -> None:
        self._codes: dict[str, int] = {}  # with a set: only a cache
        self._texts: list[str] = []
        self._set: TextSet | None = None  # replaces the list
        self.made = 0  # bytes of texts from programs and their evaluation
        self._lock = Lock()
        self._array: Array = np.empty(0, dtype=object)
        self._ranks: Array = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._texts if self._set is None else self._set)

    def __getstate__(self) -> list[str]:
        texts = self._texts
        return texts if self._set is None else self._set.texts()

    def __setstate__(self, texts: list[str]) -> None:
        self.__init__()  # type: ignore[misc]  # a copy starts as a new object does
        self._texts = list(texts)
        self._codes = {text: code for code, text in enumerate(self._texts)}

    def intern(self, text: str) -> int:
        """The code of a text; a new text gets one."""
        code = self._codes.get(text)
        if code is None:
            with self._lock:
                before = len(self)
                code = self._added(text)
                if code == before:
                    self.made += sys.getsizeof(text) + ENTRY
        return code

    def has(self, text: str) -> bool:
        """Whether a text is known to have a code; otherwise `intern` may give it one."""
        return text in self._codes

    def _added(self, text: str) -> int:
        """As `intern`, for callers that hold the lock."""
        code = self._codes.get(text)
        if code is None:
            if self._set is None:
                code = len(self._texts)
                self._texts.append(text)
            else:
                code = int(self._set.add([text])[0])
            self._codes[text] = code
        return code

    def _intern_all(self, texts: list[str]) -> Array:
        """The codes of texts; new texts get one."""
        with self._lock:
            if self._set is not None:
                return self._set.add(texts)
            found = list(map(self._codes.get, texts))
            for at in [at for at, code in enumerate(found) if code is None]:
                found[at] = self._added(texts[at])
            return np.array(found, dtype=np.int32)

    def intern_many(self, texts: list[str]) -> Array:
        """The codes of a program's texts; new texts get one."""
        known = len(self)
        found = self._intern_all(texts)
        self.made += _size_of_new(texts, found, known)
        return found

    def keeping(self, used: Array) -> SymbolTable:
        """A table of the marked codes' texts, with the same codes."""
        table, codes = SymbolTable(), np.flatnonzero(used)
        kept = codes.tolist()
        table._texts = [""] * (kept[-1] + 1 if kept else 0)
        for code, text in zip(kept, self.texts_of(codes), strict=True):
            table._texts[code] = text
            table._codes[text] = code
        return table

    def intern_new(self, texts: Iterable[str]) -> Array:
        """The codes of texts that an evaluation makes; new texts are charged to its account."""
        account, codes = current_watch().account, [np.empty(0, dtype=np.int32)]
        for piece in _pieces(texts):
            known = len(self)
            found = self._intern_all(piece)
            more = _size_of_new(piece, found, known)
            self.made += more
            account.add(TEXTS, more)
            codes.append(found)
        return np.concatenate(codes)

    def text(self, code: int) -> str:
        texts = self._texts  # before the set is read, which replaces the list
        return texts[code] if self._set is None else self._set.text_of(code)

    def texts_of(self, codes: Array) -> list[str]:
        """The texts of some codes."""
        texts = self._texts
        if self._set is not None:
            return self._set.texts(codes)
        return list(map(texts.__getitem__, codes.tolist()))

    def encode(self, column: TextColumn) -> Array:
        """This table's code for each row of a column of texts."""
        if len(column) == 0:
            return np.empty(0, dtype=np.int32)
        if column.spelled is not None and column.spelled is self._set:
            return column.numbers
        if column.spelled is not None:
            return self._taken_in(column.spelled)[column.numbers]
        watch, texts = current_watch(), column.texts
        codes = np.empty(len(texts), dtype=np.int32)
        for start in range(0, len(texts), AT_ONCE):
            watch.poll()
            piece = texts[start : start + AT_ONCE].tolist()
            codes[start : start + len(piece)] = self._intern_all(piece)
        return codes[column.codes]

    def _taken_in(self, texts: TextSet) -> Array:
        """The codes of a set's texts, in the set's order."""
        if texts.coded is None or texts.coded[0] is not self:
            texts.coded = self, self.as_set(texts.kernels).take_in(texts)
        return texts.coded[1]

    def as_set(self, kernels: TextSetFunctions) -> TextSet:
        """Moves this table's texts to a set, whose numbers are the codes."""
        with self._lock:
            if self._set is None:
                known = self._texts
                there = (self._codes.get(text) == code for code, text in enumerate(known))
                used = np.fromiter(there, np.bool_, len(known))
                self._set = TextSet.of(known, used, kernels)
                self._texts = []
            return self._set

    def decode(self, codes: Array) -> TextColumn:
        """A column of texts, from their codes."""
        texts = self._texts
        if self._set is not None:
            return TextColumn(codes, self._set)
        if len(codes) == 0:
            return TextColumn(np.empty(0, dtype=np.int32), np.empty(0, dtype=object))
        used, places = used_codes(codes, len(texts))
        return TextColumn(places, self.array()[used])

    def array(self) -> Array:
        """All texts, as an array of objects, by code."""
        array = self._array  # another thread may replace it by a shorter one
        if len(array) != len(self):
            array = np.empty(len(self), dtype=object)
            array[:] = self.__getstate__()[: len(array)]
            self._array = array
        return array

    def ranks(self) -> Array:
        """The rank of each code in the order of all texts by code points."""
        ranks = self._ranks
        if len(ranks) != len(self):
            with working_space("the order of texts", RANKING * len(self)):
                order = self._order()
                ranks = np.empty(len(order), dtype=np.int64)
                ranks[order] = np.arange(len(order))
                self._ranks = ranks
        return ranks

    def _order(self) -> Array | list[int]:
        """Where texts are, in the order of code points. Python's sort of very many could not be
        stopped."""
        many = len(self) >= MANY
        if many and self._set is not None:
            return _sorted(self._set.arrow(pa.large_binary()))
        texts = self.__getstate__()[:]
        column = _column(texts) if many else None
        if column is not None:
            return _sorted(column)
        return sorted(range(len(texts)), key=texts.__getitem__)


def _size_of_new(texts: Sequence[str], codes: Array, known: int) -> int:
    """The bytes of those texts that got a code from `known` on."""
    new = {int(codes[at]): texts[at] for at in np.flatnonzero(codes >= known).tolist()}
    return sum(sys.getsizeof(text) + ENTRY for text in new.values())


def _pieces(texts: Iterable[str]) -> Iterator[list[str]]:
    """The texts in pieces of limited total length."""
    piece: list[str] = []
    size = 0
    for text in texts:
        piece.append(text)
        size += len(text)
        if len(piece) == AT_ONCE or size >= STEP:
            yield piece
            piece, size = [], 0
    yield piece


def _column(texts: list[str]) -> pa.Array:
    """Texts as an Arrow array; None if one contains half a surrogate pair."""
    watch, pieces = current_watch(), []
    try:
        for start in range(0, len(texts), PIECE):
            watch.poll()
            pieces.append(pa.array(texts[start : start + PIECE], pa.large_string()))
    except UnicodeEncodeError:
        return None
    return pa.chunked_array(pieces)


def _sorted(column: pa.Array) -> Array:
    """The positions of an Arrow array's texts in sorted order."""
    with working_space("the order of texts", column.nbytes + RANKING * len(column)):
        order = cancellable(len(column) * OBJECT, lambda: pc.sort_indices(column))
    return np.asarray(order)
