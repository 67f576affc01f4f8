"""Statistics of groups by compiled code, over columns that are brought into the order of groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from gdatalog.cancellation import cancellable
from gdatalog.codegen import native
from gdatalog.codegen.helpers.grouped_values import centred_in_groups, select_in_groups
from gdatalog.cpu_ops.loose_tries import loose_trie
from gdatalog.records import dataclass
from gdatalog.storage.table import Array
from gdatalog.storage.threads import spread

PARTS = 64  # ranges of groups, which threads take


@dataclass(frozen=True, slots=True)
class ColumnsByGroup:
    """Columns of rows, group after group, and where each group begins."""

    starts: Array
    columns: Sequence[Array]

    def _each(self, work: Callable[[int, int], object]) -> None:
        """Calls `work` with all groups, in ranges that have about as many rows each."""
        count, groups = len(self.columns[0]), len(self.starts) - 1
        places = np.linspace(0, count, PARTS + 1)[1:-1]
        cuts = sorted({0, groups, *np.searchsorted(self.starts[:-1], places).tolist()})
        cancellable(count, lambda: spread(lambda ends: work(*ends), pairwise(cuts), True))

    def at_places(self, places: Array) -> tuple[Array, Array]:
        """The key at each group's place in the order of its keys, and the next one if there is
        one. Reorders the first column."""
        values, starts = self.columns[0], self.starts
        lower, upper = (np.zeros(len(starts) - 1, dtype=np.int64) for _ in range(2))
        kinds = _kind(values), "i32[]", "i64[]", "i64", "i64", "i64[]", "i64[]"
        select = native.of(select_in_groups, *kinds)
        self._each(lambda *part: select(values, starts, places, *part, lower, upper))
        return lower, upper

    def centred(self, are_floats: Sequence[bool]) -> Sequence[Array]:
        """Of the first column and the last, each less its mean in the group: the sums of products,
        and those of the squares of each."""
        ends, starts = [(self.columns[at], int(are_floats[at])) for at in (0, -1)], self.starts
        kinds = [kind for column, _ in ends for kind in (_kind(column), "i64")]
        sums = [np.zeros(len(starts) - 1) for _ in range(3)]
        add = native.of(centred_in_groups, *kinds, "i32[]", "i64", "i64", *["f64[]"] * 3)
        self._each(lambda *part: add(*ends[0], *ends[1], starts, *part, *sums))
        return sums


def columns_by_group(of: Array, size: int, columns: Sequence[Array]) -> ColumnsByGroup | None:
    """`of`: the number of each row's group, below `size`. None if the groups are too many, or the
    compiler does not work."""
    count = len(of)
    trie = cancellable(count, lambda: loose_trie([of, *columns]))
    if trie is None:
        return None
    root, *levels = trie.levels
    low, offsets = int(root.values[0]), levels[0].offsets
    starts = np.full(size + 1, count, dtype=np.int32)
    starts[:low], starts[low : low + len(offsets)] = 0, offsets
    return ColumnsByGroup(starts, [level.values for level in levels])


def _kind(column: Array) -> str:
    return f"i{8 * column.itemsize}[]"
