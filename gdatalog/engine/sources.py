"""What a plan reads while it runs: tries, and the new rows that it is run for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gdatalog.engine.derived import Rows
from gdatalog.plan.nodes import TrieRef
from gdatalog.storage.trie import Trie

TrieOf = Callable[[TrieRef], Trie]
RowsOf = Callable[[str], Rows]


def no_rows(relation: str) -> Rows:
    raise AssertionError(f"nothing is new in {relation}")


@dataclass(frozen=True, slots=True)
class Sources:
    """`rows_of`: what is new of a relation, on the device, in any order."""

    trie_of: TrieOf
    rows_of: RowsOf = no_rows
