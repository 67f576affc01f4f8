"""What a plan reads while it runs: tries, and the rows that it is given."""

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
    """`rows_of`: the rows that a join is given, on the device, in any order: what is new of a
    relation, or all rows of one that it scans. `once`: whether no row of a scan is given twice,
    as the scan sees it."""

    trie_of: TrieOf
    rows_of: RowsOf = no_rows
    once: Callable[[JoinPlan], bool] = lambda join: False
