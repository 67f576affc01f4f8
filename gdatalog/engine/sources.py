"""The inputs of a running plan: tries, and given rows."""

from __future__ import annotations

from collections.abc import Callable

from gdatalog.engine.derived import Rows
from gdatalog.plan.nodes import JoinPlan, TrieRef
from gdatalog.records import dataclass
from gdatalog.storage.trie import Trie

TrieOf = Callable[[TrieRef], Trie]
RowsOf = Callable[[JoinPlan], Rows]


def no_rows(join: JoinPlan) -> Rows:
    raise AssertionError("nothing is given to this plan")


@dataclass(frozen=True, slots=True)
class Sources:
    """`rows_of`: the rows that a join starts from, on the device, in any order: a delta, or all
    rows of a scanned relation. `once`: whether a scan outputs no duplicates of the columns that it
    reads."""

    trie_of: TrieOf
    rows_of: RowsOf = no_rows
    once: Callable[[JoinPlan], bool] = lambda join: False
