"""A relation of a stratum that is maintained incrementally."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gdatalog.engine.fixpoint.lattice_rounds import LatticeRounds
from gdatalog.executors.frontier import Ops
from gdatalog.storage.keys import narrow
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_store import RowBits, places_in
from gdatalog.storage.rows import Columns, order_rows
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array


def together(parts: Sequence[Relation]) -> Relation:
    """Concatenates disjoint row sets."""
    first, *others = parts
    return first.joined(*others) if others else first


class MaintainedRelation:
    """A relation that continues from known rows.

    The bitmap of its rows belongs to the latest version of a relation; the next version takes it
    over.
    """

    def __init__(self, known: Relation, ops: Ops) -> None:
        self.known = known
        self.ops = ops
        self.came = 0
        self._all = known
        self._new: list[Relation] = []
        self._waiting = 0  # the last parts, which are not merged yet
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
        """Adds sorted distinct rows; returns those that are new."""
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
        """The positions of the rows that are new."""
        bits = self.bits()
        if bits is not None and not bits.space.holds(rows):
            bits = self._bits = RowBits.of(self.full().store, rows)
        if bits is None:
            return np.flatnonzero(~self.full().holds(rows))
        return bits.add(rows)

    def bits(self) -> RowBits | None:
        """The bitmap of all rows, if it is worth its memory."""
        if self._bits is None:
            self._bits = RowBits.of(self.full().store)
        return self._bits

    def finished(self) -> Relation:
        if not self.came:
            self.known.bits = self._bits
            return self.known
        found = self.full().coming_from(self.known, self._new)
        found.bits = self._bits
        return found


class MaintainedLattice(LatticeRounds):
    """A relation that keeps the best value of each group and continues from known rows.

    Known groups stay in order where they are, and their values improve in place; new groups are
    stored beside them.
    """

    def __init__(
        self, known: Relation, kinds: Mapping[int, str], symbols: SymbolTable, ops: Ops
    ) -> None:
        super().__init__(known.columns, known.types, kinds, symbols, ops)
        self.known = known
        self.came = 0
        self._more = LatticeRounds(known.columns, known.types, kinds, symbols, ops)
        self._news: list[Relation] = []
        self._improved = False
        self._now: Relation | None = known
        self._by = [at for at in range(len(known.types)) if at not in kinds]
        # If the values follow the groups, as is usual, rows are in the order of groups.
        self._in_order = self._by == list(range(len(self._by)))
        keys = known.keys
        if not self._in_order and self._by:
            order = order_rows([keys[at] for at in self._by])
            keys = tuple(key[order] for key in keys)
        self._keys = [keys[at] if at in self._by else keys[at].copy() for at in range(len(keys))]

    @property
    def length(self) -> int:
        return self.known.length + self._more.length

    @property
    def nbytes(self) -> int:
        return self.known.nbytes + self._more.nbytes

    def add(self, rows: Columns, count: int) -> Relation:
        """Adds rows; returns those of groups that are new or improved."""
        if not count:
            return Relation.empty(self.columns, self.types)
        best = LatticeRounds(self.columns, self.types, self.kinds, self.symbols, self.ops)
        rows = best.add(rows, count).keys
        groups = [rows[at] for at in self._by]
        if groups:
            places, there = places_in(tuple(self._keys[at] for at in self._by), tuple(groups))
        else:
            there = np.full(1, self.known.length > 0)
            places = np.zeros(1, dtype=np.int64)
        better = self._improve(places[there], [column[there] for column in rows])
        new = self._more.add(tuple(column[~there] for column in rows), int((~there).sum()))
        found = [(better, len(better[0])), (new.keys, new.length)]
        blocks = [block for block, length in found if length]
        length = sum(length for _, length in found)
        if not length:
            return Relation.empty(self.columns, self.types)
        self.came += length
        self._now = None
        delta = Relation.of_blocks(self.columns, self.types, blocks, length, True)
        self._news.append(delta)
        return delta

    def _improve(self, places: Array, rows: Sequence[Array]) -> Columns:
        """Improves values in place; returns the rows that changed."""
        changed = np.zeros(len(places), dtype=np.bool_)
        for at, kind in self.kinds.items():
            old, new = self._keys[at][places], rows[at]
            pair = self._ranked(new, at), self._ranked(old, at)
            better = np.flatnonzero(pair[0] < pair[1] if kind == "min" else pair[0] > pair[1])
            if len(better):
                wide = np.promote_types(self._keys[at].dtype, new.dtype)
                self._keys[at] = self._keys[at].astype(wide, copy=False)
                self._keys[at][places[better]] = new[better]
                changed[better] = True
        self._improved = self._improved or bool(changed.any())
        return tuple(key[places[changed]] for key in self._keys)

    def full(self) -> Relation:
        if self._now is None:
            made = self.known
            if self._improved:
                keys = tuple(narrow(key.copy()) for key in self._keys)
                names, kinds, count = self.columns, self.types, self.known.length
                made = (
                    Relation(names, kinds, keys, count)
                    if self._in_order
                    else Relation.of_blocks(names, kinds, [keys], count, True)
                )
            self._now = made.beside(self._more.full()) if self._more.length else made
        return self._now

    def finished(self) -> Relation:
        full = self.full()
        # If no group has improved, rows were only added.
        only_new = not self._improved and self.came == self._more.length
        return full.coming_from(self.known, self._news) if only_new and self.came else full
