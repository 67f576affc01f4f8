"""Rows grouped by their first column, unordered within a group: an index for walks, built in two
passes.

It has the shape of a trie, and can replace one where a plan only walks the lists below the root:
they are not sorted, and may contain duplicates. From the third column on, a row's value has the
same position as its second column's value: there are no offsets.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from gdatalog.codegen import native
from gdatalog.codegen.function_names import named
from gdatalog.codegen.helpers.numbered_groups import count_keys
from gdatalog.codegen.loop_language import LoopError
from gdatalog.storage.kept import Kept
from gdatalog.storage.relation import Relation
from gdatalog.storage.table import Array
from gdatalog.storage.threads import LONG, cores, spread
from gdatalog.storage.trie import Trie, TrieLevel

LooseTries = Mapping[tuple[int, ...], Trie | None]  # by columns; None: not possible
_LOOSE = Kept[LooseTries](lambda made: sum(t.nbytes for t in made.values() if t is not None))

MOST_ROWS = (1 << 31) - 2

_ELEMENTS = {"int32": "i32", "int64": "i64"}


def _scatter(dtypes: tuple[str, ...]) -> str:
    """The source of the second pass, for columns of these dtypes."""
    count = len(dtypes) - 1
    given = {"keys": dtypes[0], "places": "int32"}
    given |= {f"values{at}": dtypes[at + 1] for at in range(count)}
    given |= {f"out{at}": dtypes[at + 1] for at in range(count)}
    types = {name: f"{_ELEMENTS[dtype]}[]" for name, dtype in given.items()}
    return "\n".join([
        "from gdatalog.codegen.helpers import at, put",
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
    """Groups rows by their first column; None if its values are far apart, or the compiler does not
    work."""
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
        scatter = native.load(named("scatter", source), source)
        tally = native.of(count_keys, f"{_ELEMENTS[keys.dtype.name]}[]", "i64", "i32[]")
    except LoopError as problem:
        warnings.warn(RuntimeWarning(str(problem)), stacklevel=2)
        return None
    workers = cores() if count >= LONG else 1
    cuts = [count * at // workers for at in range(workers + 1)]
    parts = [slice(*cut) for cut in pairwise(cuts)]
    counts = np.zeros((workers, span), dtype=np.int32)
    spread(lambda at: tally(keys[parts[at]], low, counts[at]), range(workers), workers > 1)
    # Where the rows of each value and part go: in the order of values, and of parts within a value.
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
    """The same for a relation's columns, cached."""
    known = loose_tries(relation)
    if order not in known:
        keys = relation.store.as_they_are()
        known = {**known, order: loose_trie([keys[column] for column in order])}
        _LOOSE.put(relation.store, known)
    return known[order]


def loose_tries(relation: Relation) -> LooseTries:
    """The loose tries of a relation that have been asked for."""
    return _LOOSE.of(relation.store) or {}
