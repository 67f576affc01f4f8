"""A relation of a stratum that goes on from the rows that it had before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gdatalog.engine.best import Best
from gdatalog.storage.keys import narrow
from gdatalog.storage.membership import Bits
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array


def together(parts: Sequence[Relation]) -> Relation:
    """The rows of sets that share none."""
    first, *others = parts
    return first.joined(*others) if others else first


class Extending:
    """A relation that goes on from known rows.

    Bits that tell which rows there are belong to the latest version of a relation: who makes the
    next one takes them along.
    """

    def __init__(self, known: Relation, ops: Any) -> None:
        self.known = known
        self.ops = ops
        self.came = 0
        self._all = known
        self._new: list[Relation] = []
        self._waiting = 0  # the last of these, which are not among all yet
        self._bits, known.bits = known.bits, None

    @property
    def length(self) -> int:
        return self.known.at_most + self.came

    @property
    def nbytes(self) -> int:
        return self._all.nbytes

    def full(self) -> Relation:
        if self._waiting:
            self._all = self._all.beside(together(self._new[-self._waiting :]))
            self._waiting = 0
        return self._all

    def add(self, rows: Columns, count: int) -> Relation:
        """Adds sorted distinct rows; gives those that are new."""
        known = self.known
        if known.types and count:
            news = self._news(rows)
            rows, count = tuple(narrow(column[news]) for column in rows), len(news)
        elif not known.types:
            count = min(count, 1 - self.length)
        if not count:
            return Relation.empty(known.columns, known.types)
        new = Relation(known.columns, known.types, rows, count)
        self.came += count
        self._new.append(new)
        self._waiting += 1
        return new

    def _news(self, rows: Columns) -> Array:
        """The indices of the rows that are not there yet."""
        bits = self.bits()
        if bits is not None and not bits.fits(rows):
            bits = self._bits = Bits.of(self.full(), rows)
        if bits is None:
            return np.flatnonzero(~self.full().holds(rows))
        return bits.add(rows)

    def bits(self) -> Bits | None:
        """The bits of all rows, if they are worth their room."""
        if self._bits is None:
            self._bits = Bits.of(self.full())
        return self._bits

    def finished(self) -> Relation:
        if not self.came:
            self.known.bits = self._bits
            return self.known
        found = self.full().coming_from(self.known, self._new)
        found.bits = self._bits
        return found


class Improving(Best):
    """One of which the best values per group are kept, that goes on from known rows."""

    def __init__(
        self, known: Relation, kinds: Mapping[int, str], symbols: SymbolTable, ops: Any
    ) -> None:
        super().__init__(known.columns, known.types, kinds, symbols, ops)
        super().add(known.keys, known.length)
        self.known = known
        self.came = 0
        self._new: list[Relation] = []

    def add(self, rows: Columns, count: int) -> Relation:
        delta = super().add(rows, count)
        if delta.length:
            self.came += delta.length
            self._new.append(delta)
        return delta

    def finished(self) -> Relation:
        if not self.came:
            return self.known
        full = self.full()
        # Where no group has become better, those that are new have only come.
        only_new = self.came == full.length - self.known.length
        return full.coming_from(self.known, self._new) if only_new else full
