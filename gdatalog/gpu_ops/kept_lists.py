"""Computes what loops read by edge, for all edges, before the loops run: intersections, rows of
bits, the order of the edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gdatalog.calls import DTYPES, SHARED, NoRoomForLists
from gdatalog.gpu_ops.kernels import EACH, type_of
from gdatalog.gpu_ops.rows import Array
from gdatalog.gpu_ops.trie_cache import DeviceTries
from gdatalog.limits import Limits
from gdatalog.printer.arguments import Argument, LevelArgument
from gdatalog.storage.row_ops import DeviceOps
from gdatalog.storage.trie import Trie, TrieLevel

KEPT_LISTS = "kept lists"
KEPT_SHARE = 2  # lists take at most this part of the free memory
LEAST_TURNED = 1 << 12  # entries
TURNING = 40  # bytes for each entry while entries are turned
LANES = 32  # lanes of a tile, which takes one edge at a time


def kept_lists(
    ops: DeviceOps,
    indexes: DeviceTries,
    arguments: Sequence[Argument],
    tries: Sequence[Trie],
    limits: Limits,
) -> dict[str, Trie]:
    """The intersections that a plan's loops read, by the argument's name, as tries of one level.
    They are cached among the `indexes`, like the tries that they are computed from."""
    found: dict[str, Trie] = {}
    for lists in (each for each in arguments if each.kind in ("lists", "joined")):

        def make(lists: Argument = lists) -> Trie:
            made = _made if lists.kind == "lists" else _made_rows
            starts, kept = made(ops, lists, tries, limits)
            _charge(limits, starts.nbytes + kept.nbytes)
            return Trie([TrieLevel(kept, starts, ops.xp)], len(kept), None)

        sources = [tries[at.trie] for at in lists.levels if lists.kind == "lists" or at.depth]
        found[lists.name] = indexes.derived(sources, make)
    return found


def _charge(limits: Limits, size: int) -> None:
    limits.charge(KEPT_LISTS, limits.account.held.get(KEPT_LISTS, 0) + size)


def turned(ops: DeviceOps, indexes: DeviceTries, trie: Trie, depth: int, limits: Limits) -> Array:
    """The entries of a level in the order of their values: the parents of all, then their places,
    from the level's first on. Empty if that is not worth while. Cached like lists."""
    level, xp = trie.levels[depth], ops.xp
    entries = len(level)
    room = min(ops.driver.free_memory(), limits.spare())
    if entries < LEAST_TURNED or KEPT_SHARE * TURNING * entries > room:
        return xp.empty(0, dtype=xp.int32)

    def make() -> Trie:
        offsets = level.offsets.astype(xp.int64, copy=False)
        first, last = int(offsets[0]), int(offsets[-1])
        places = xp.argsort(level.values[first:last], kind="stable") + first
        parents = ops.expand(offsets[:-1], xp.diff(offsets), last - first)[0]
        found = xp.concatenate([parents[places - first], places]).astype(xp.int32)
        _charge(limits, found.nbytes)
        return Trie([TrieLevel(found, xp.zeros(1, dtype=xp.int64), xp)], entries, None)

    return indexes.derived([trie], make).levels[0].values


def _made(ops: Any, lists: Argument, tries: Sequence[Trie], limits: Limits) -> tuple[Array, Array]:
    """The starts of the lists, and their values."""
    xp, (*ends, edge), dtype = ops.xp, lists.levels, np.dtype(DTYPES[lists.type])
    roots, below = tries[edge.trie].levels[:2]
    edges = len(below)
    args: list[Array] = [roots.values, below.offsets, len(below.offsets), below.values, edges]
    types = {"ROOT": type_of(args[0]), "OFFSET": type_of(args[1]), "EDGE": type_of(args[3])}
    types["VALUE"] = "i32" if dtype == np.int32 else "i64"
    for name, at in zip("AB", ends, strict=True):
        its = _list(tries, at)
        of = zip(("_ROOT", "_OFFSET", "_VALUE"), (its[0], *its[-2:]), strict=True)
        types |= {name + kind: type_of(array) for kind, array in of}
        args += its

    def launch(starts: Array, kept: Array, writes: int) -> None:
        size = edges * LANES * EACH
        given = [*args, starts, kept, writes]
        ops.kernels.launch('#include "kept.cuh"\n', "keep_lists", types, size, given)

    room = min(ops.driver.free_memory(), limits.spare()) // KEPT_SHARE
    if 16 * (edges + 1) > room:
        raise NoRoomForLists
    counts = xp.zeros(edges + 1, dtype=xp.int64)
    launch(counts, xp.empty(1, dtype=dtype), 0)
    starts = xp.cumsum(counts)
    total = int(starts[-1])
    if total * dtype.itemsize + 2 * starts.nbytes > room:
        raise NoRoomForLists
    kept = xp.empty(max(1, total), dtype=dtype)
    launch(starts, kept, 1)
    return starts, kept


def _made_rows(
    ops: Any, rows: Argument, tries: Sequence[Trie], limits: Limits
) -> tuple[Array, Array]:
    """The starts of the rows of bits of each list, and the rows."""
    xp, (within, root, _) = ops.xp, rows.levels
    lists, its = tries[within.trie].levels[within.depth], _list(tries, root)
    words = (xp.diff(lists.offsets.astype(xp.int64, copy=False)) + 63) >> 6
    sizes = words * xp.diff(lists.offsets.astype(xp.int64, copy=False))
    starts = xp.concatenate([xp.zeros(1, dtype=xp.int64), xp.cumsum(sizes)])
    total = int(starts[-1])
    room = min(ops.driver.free_memory(), limits.spare()) // KEPT_SHARE
    if 8 * total + 2 * starts.nbytes > room:
        raise NoRoomForLists
    kept = xp.zeros(max(1, total), dtype=xp.uint64)
    args: list[Any] = [lists.offsets, len(lists.offsets), lists.values, len(lists), *its]
    types = {"OFFSET": type_of(args[0]), "VALUE": type_of(args[2])}
    of = zip(("ROOT", "CHILD_OFFSET", "CHILD"), (its[0], *its[-2:]), strict=True)
    types |= {kind: type_of(array) for kind, array in of}
    size = len(lists) * LANES * EACH
    ops.kernels.launch(
        '#include "kept_rows.cuh"\n', "keep_rows", types, size, [*args, starts, kept]
    )
    return starts, kept


def _list(tries: Sequence[Trie], at: LevelArgument) -> list[Array]:
    """The kernel's arguments for the lists below a root."""
    root, level = tries[at.trie].levels[:2]
    index = SHARED["index"](tries[at.trie], 0)
    index = index if len(index) else root.xp.asarray(index)
    return [root.values, len(root.values), int(root.low), index, len(index),
            level.offsets, level.values]  # fmt: skip
