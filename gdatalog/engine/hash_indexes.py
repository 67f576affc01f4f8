"""The hash tries of a relation that grows: those that compiled loops read (`storage/hash_trie.py`).

A round follows the new rows of one relation after the other. An index gets a relation's new rows
when it is that relation's turn; a join that reads the relation's `old` rows while it follows its
new ones has an index that gets them behind the turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from gdatalog.storage.hash_trie import HashTrie, TooLong
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns

ROW_BYTES = 64  # that a row may take in an index


class HashIndexes:
    """By the order of columns, and whether they get new rows behind the turn of the relation.

    None: there cannot be such an index, for a column is wide or there is too little memory.
    """

    def __init__(self, arity: int) -> None:
        self.arity = arity
        self.tries: dict[tuple[tuple[int, ...], bool], HashTrie | None] = {}
        self._complete = {False: True, True: True}  # whether they have the rows that are new

    @property
    def nbytes(self) -> int:
        return sum(trie.nbytes for trie in self.tries.values() if trie is not None)

    def wait(self) -> None:
        """There are new rows, whose turn has not come."""
        self._complete = {False: False, True: False}

    def trie(
        self,
        columns: tuple[int, ...],
        behind: bool,
        runs: Sequence[Relation],
        last: Relation | None,
        spare: int,
    ) -> HashTrie | None:
        """An index, made of all runs if it is not there; `last`: the one that is new."""
        key = columns, behind
        if key not in self.tries:
            rows = [run for run in runs if run is not last or self._complete[behind]]
            fits = self._fit(sum(run.length for run in rows), spare)
            trie = HashTrie(columns, self.arity, _function) if fits else None
            self.tries[key] = trie
            for run in rows:
                for block in run.blocks():
                    self._add(key, block)
        return self.tries[key]

    def take_turn(self, last: Relation | None, behind: bool, spare: int) -> None:
        """The indexes get the rows that are new."""
        if last is not None and not self._complete[behind]:
            for key, trie in self.tries.items():
                if key[1] == behind and trie is not None:
                    if not self._fit(last.length, spare):
                        self.tries[key] = None
                    for block in last.blocks():
                        self._add(key, block)
        self._complete[behind] = True

    def _fit(self, more: int, spare: int) -> bool:
        """Whether all indexes, with so many more rows, take half of the memory that is left at the
        most: plans read sorted indexes in their place, which may lie in files."""
        return 2 * ROW_BYTES * more + self.nbytes <= spare

    def _add(self, key: tuple[tuple[int, ...], bool], block: Columns) -> None:
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


_LISTS = ("i32[]", "i32[]", "i32[]", "i64[]")
_TYPES = {
    "add_indexed": ("i32[]", "i64", "i32[]", "i64", "i64", *_LISTS, "i32[]"),
    "add_children": ("i32[]", "i32[]", "i64", "i64", "i64[]", "i32[]", *_LISTS, "i32[]"),
    "add_different": ("i32[]", "i32[]", "i64", "i64", *_LISTS),
    "fill_table": ("i32[]", "i64", "i32[]", "i64[]"),
    "move_pairs": ("i64[]", "i32[]", "i64[]", "i32[]"),
}


@cache
def _function(name: str) -> Any:
    from gdatalog.codegen import native
    from gdatalog.codegen.helpers import hash_tries

    return native.of(getattr(hash_tries, name), *_TYPES[name])
