"""Rows grouped by their first column, in no order within: an index for walks, in two passes.

It has the shape of a trie, and can stand for one where all that a plan does with the lists below
the root is to walk them: they are not sorted, and rows may be there twice. From the third column
on, a row's values stand where its second column's does: there are no offsets.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from gdatalog.codegen import native
from gdatalog.codegen.helpers.sorting import count_keys
from gdatalog.codegen.language import LoopError
from gdatalog.storage.relation import Relation
from gdatalog.storage.table import Array
from gdatalog.storage.threads import LONG, cores, spread
from gdatalog.storage.trie import Trie, TrieLevel

MOST_ROWS = (1 << 31) - 2

_ELEMENTS = {"int32": "i32", "int64": "i64"}


def _scatter(dtypes: tuple[str, ...]) -> str:
    """The text of the second pass, for columns of these dtypes."""
    count = len(dtypes) - 1
    given = {"keys": dtypes[0], "places": "int32"}
    given |= {f"values{at}": dtypes[at + 1] for at in range(count)}
    given |= {f"out{at}": dtypes[at + 1] for at in range(count)}
    types = {name: f"{_ELEMENTS[dtype]}[]" for name, dtype in given.items()}
    return "\n".join([
        "from gdatalog.codegen.helpers.elements import at, put",
        "",
        "",
        "def scatter(",
        *(f'    {name}: "{kind}",' for name, kind in types.items()),
        '    low: "i64",',
        ") -> None:",
        "    for i in range(len(keys)):",
        "        key = at(keys, i) - low",
        "        place = at(places, key)",
        "        put(places, key, place + 1)",
        *(f"        put(out{at}, place, at(values{at}, i))" for at in range(count)),
        "",
    ])  # fmt: skip


def loose_trie(columns: Sequence[Array]) -> Trie | None:
    """The rows of some columns by the first of them; None where its values are far apart, or
    where the compiler does not work."""
    keys, *rest = [np.ascontiguousarray(column) for column in columns]
    count = len(keys)
    if count == 0 or count > MOST_ROWS:
        return None
    low, high = int(keys.min()), int(keys.max())
    if high - low > 4 * count + 1024:
        return None
    span = high - low + 1
    source = _scatter(tuple(column.dtype.name for column in (keys, *rest)))
    try:
        scatter = native.load(native.named("scatter", source), source)
        tally = native.of(count_keys, f"{_ELEMENTS[keys.dtype.name]}[]", "i64", "i32[]")
    except LoopError as problem:
        warnings.warn(RuntimeWarning(str(problem)), stacklevel=2)
        return None
    workers = cores() if count >= LONG else 1
    cuts = [count * at // workers for at in range(workers + 1)]
    parts = [slice(*cut) for cut in pairwise(cuts)]
    counts = np.zeros((workers, span), dtype=np.int32)
    spread(lambda at: tally(keys[parts[at]], low, counts[at]), range(workers), workers > 1)
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
        scatter(keys[parts[at]], places[at], *mine, *outs, low)

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
