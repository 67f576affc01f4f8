"""The hash tries of a growing relation, which compiled loops read (`storage/loop_tables.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.engine.fixpoint.row_hash_set import hash_function
from gdatalog.storage.loop_tables import HashTrie, TooLong
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns
from gdatalog.storage.threads import spread

ROW_BYTES = 64  # of a row in an index, at most
MANY = 1 << 13  # rows: several indexes get fewer one after another

Key = tuple[tuple[int, ...], bool]


class HashIndexes:
    """Indexes by column order, and by whether they get new rows after the relation's turn.

    None: no index is possible, because a column is wide or memory is short.
    """

    def __init__(self, arity: int) -> None:
        self.arity = arity
        self.tries: dict[Key, HashTrie | None] = {}
        self._complete = {False: True, True: True}  # whether they have the new rows

    @property
    def nbytes(self) -> int:
        return sum(trie.nbytes for trie in self.tries.values() if trie is not None)

    def wait(self) -> None:
        """Records new rows, whose turn comes later."""
        self._complete = {False: False, True: False}

    def made(
        self, key: Key, runs: Sequence[Relation], last: Relation | None, spare: int
    ) -> HashTrie | None:
        """Builds an index of all runs; `last`: the new run."""
        columns, behind = key
        rows = [run for run in runs if run is not last or self._complete[behind]]
        fits = self._fit(sum(run.length for run in rows), spare)
        self.tries[key] = HashTrie(columns, self.arity, hash_function) if fits else None
        for run in rows:
            for block in run.blocks():
                self._add(key, block)
        return self.tries[key]

    def take_turn(self, last: Relation | None, behind: bool, spare: int) -> None:
        """Adds the new rows to the indexes."""
        if last is not None and not self._complete[behind]:
            tries = [key for key, trie in self.tries.items() if key[1] == behind and trie]
            for at, key in enumerate(tries, 1):
                if not self._fit(at * last.length, spare):
                    self.tries[key] = None

            def add(key: Key) -> None:
                for block in last.blocks():
                    self._add(key, block)

            spread(add, tries, last.length >= MANY)
        self._complete[behind] = True

    def _fit(self, more: int, spare: int) -> bool:
        """Whether all indexes, with this many more rows, take at most half of the free memory.
        Otherwise plans read sorted indexes, which may be in files."""
        return 2 * ROW_BYTES * more + self.nbytes <= spare

    def _add(self, key: Key, block: Columns) -> None:
        trie = self.tries[key]
        if trie is None:
            return
        if any(block[at].dtype.itemsize > 4 for at in trie.columns):
            self.tries[key] = None
            return
        try:
            trie.add(block)
        except TooLong:
            self.tries[key] = None
