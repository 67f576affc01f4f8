"""Tables of counts by key: an array of counts, and a list of the keys that have one."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdatalog.codegen.helpers.elements import at, put
from gdatalog.codegen.language import inlined
from gdatalog.storage.table import Array


@inlined
def find_tally(counts: Array, low: int, key: Any) -> int:
    """Where a key's count is, in an array of the counts of all keys from `low` on; -1 without."""
    # Unsigned, so that one comparison serves both ends.
    place = np.uint64(key) - np.uint64(low)
    inside = place < np.uint64(len(counts))
    return int(place) if inside and at(counts, place) != 0 else -1


@inlined
def clear_tally(counts: Array, values: Array, length: int, low: int) -> int:
    """Forgets what was counted; gives 0, how many keys have a count now."""
    for i in range(length):
        put(counts, at(values, i) - low, 0)
    return 0
