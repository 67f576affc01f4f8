"""Rows grouped by their first column, in no order within: an index for walks, in two passes.

It has the shape of a trie, and can stand for one where all that a plan does with the lists below
the root is to walk them: they are not sorted, and rows may be there twice. From the third column
on, a row's values stand where its second column's does: there are no offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from gdatalog.cpu_ops import code_cache
from gdatalog.storage.relation import Relation
from gdatalog.storage.table import Array
from gdatalog.storage.threads import LONG, cores, spread
from gdatalog.storage.trie import Trie, TrieLevel

MOST_ROWS = (1 << 31) - 2

_made: dict[tuple[str, ...], str] = {}


def _source(dtypes: tuple[str, ...]) -> str:
    """The compiled passes, for columns of these dtypes."""
    if dtypes not in _made:
        # Columns may be a user's, which nobody may write to.
        reads = [f"Array({dtype}, 1, 'C', readonly=True)" for dtype in dtypes]
        writes = [f"{dtype}[::1]" for dtype in dtypes[1:]]
        values = [f"values{at}" for at in range(1, len(dtypes))]
        outs = [f"out{at}" for at in range(1, len(dtypes))]
        fills = (reads[0], "int64", "int32[::1]", *reads[1:], *writes)
        options = "cache=True, nogil=True, _nrt=False"
        lines = [
            '"""Rows grouped by their first column, compiled."""',
            "",
            "import numba",
            "from numba.core.types import Array, int32, int64, void",
            "",
            "from gdatalog.cpu_ops.compiled.elements import at, put",
            "",
            "",
            f"@numba.njit(void({reads[0]}, int64, int32[::1]), {options})",
            "def tally(keys, low, counts):",
            "    for i in range(len(keys)):",
            "        key = at(keys, i) - low",
            "        put(counts, key, at(counts, key) + 1)",
            "",
            "",
            f"@numba.njit(void({', '.join(fills)}), {options})",
            f"def scatter({', '.join(('keys', 'low', 'places', *values, *outs))}):",
            "    for i in range(len(keys)):",
            "        key = at(keys, i) - low",
            "        place = at(places, key)",
            "        put(places, key, place + 1)",
            *(f"        put({o}, place, at({v}, i))" for o, v in zip(outs, values, strict=True)),
            "",
        ]
        _made[dtypes] = "\n".join(lines)
    return _made[dtypes]


def loose_trie(columns: Sequence[Array]) -> Trie | None:
    """The rows of some columns by the first of them; None where its values are far apart."""
    keys, *rest = [np.ascontiguousarray(column) for column in columns]
    count = len(keys)
    if count == 0 or count > MOST_ROWS:
        return None
    low, high = int(keys.min()), int(keys.max())
    if high - low > 4 * count + 1024:
        return None
    span = high - low + 1
    source = _source(tuple(column.dtype.name for column in (keys, *rest)))
    code = code_cache.load(code_cache.versioned("loose", source), source)
    workers = cores() if count >= LONG else 1
    cuts = [count * at // workers for at in range(workers + 1)]
    parts = [slice(*cut) for cut in pairwise(cuts)]
    counts = np.zeros((workers, span), dtype=np.int32)
    spread(lambda at: code.tally(keys[parts[at]], low, counts[at]), range(workers), workers > 1)
    # Where the rows of each part and value go: value by value, and part by part within.
    offsets = np.zeros(span + 1, dtype=np.int32)
    np.cumsum(counts.sum(axis=0, dtype=np.int32), out=offsets[1:])
    places, before = np.empty_like(counts), offsets[:-1]
    for at in range(workers):
        places[at] = before
        before = before + counts[at]
    outs = [np.empty_like(column) for column in rest]

    def fill(at: int) -> None:
        mine = [column[parts[at]] for column in rest]
        code.scatter(keys[parts[at]], low, places[at], *mine, *outs)

    spread(fill, range(workers), workers > 1)
    root = TrieLevel(np.arange(low, high + 1, dtype=keys.dtype), np.array([0, span]))
    levels = [root]
    for at, values in enumerate(outs):
        levels.append(TrieLevel(values, offsets if at == 0 else np.empty(0, dtype=np.int32)))
    return Trie(levels, count, None)


def loose_of(relation: Relation, order: tuple[int, ...]) -> Trie | None:
    """The same of a relation's columns, made once."""
    found = relation.loose.get(order)
    if found is None and order not in relation.loose:
        keys = relation.store.as_they_are()
        found = relation.loose[order] = loose_trie([keys[column] for column in order])
    return found
