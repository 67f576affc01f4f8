"""How near breadth-first kernels come to the memory's own speed, by the bytes that they must move.

Measured beside a large copy on the same device, in the same run. What must be moved is counted from
the very positions, in sectors of 32 bytes:

- of arrays that are read or written from end to end, each sector: rows, what is looked up, places;
- of lists, each sector that any row needs, once: what comes back from a cache is not moved.

So a kernel that reads a list again, or that searches where a merge would do, gains nothing by it;
and a share is never more than what the memory did. (Earlier figures counted each sector that the
binary searches of a warp touch. Most of these are the same for all warps and stay in the caches,
which flattered searches.)

Case 1 looks the values of one sorted list up in another; case 3 looks (parent, value) pairs up in
the lists of the parents, which ascend. Case 2, values looked up by index, is a gather: shown, not
judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.gpu.clocks import medians
from benchmarks.gpu.forced import device_of
from benchmarks.gpu.made import mix, wu
from benchmarks.gpu.sectors import SECTOR, gathered, streamed, touched
from benchmarks.gpu.setting import Setting
from benchmarks.records import Ask, Case, Figure
from gdatalog.gpu_ops.fused_level import FusedLevel
from gdatalog.storage.trie import Choice, ListEntries, Lookup

SUITE = "bandwidth"
WANTED = 0.6  # of the copy's
EDGES, ENTRIES = 30_000_000, 1 << 25


@dataclass(frozen=True, slots=True)
class Work:
    """A verb on arrays that are ready; `check` says whether what it gave is right."""

    name: str
    run: Callable[[], Any]
    check: Callable[[Any], bool]
    sectors: Callable[[], int]
    judged: bool = True


def run(setting: Setting) -> Iterator[Case]:
    rate, copy = copied(setting)
    case = Case(SUITE, "bytes that must be moved", [copy])
    case.asks = [Ask("a copy on the device", "", "", f"{rate / 1e9:,.0f} GB/s", None)]
    ops = device_of(setting.driver).ops
    for work in works(setting, ops):
        figure = Figure(work.name)
        case.figures.append(figure)
        work.run()
        ops.kernels.settle()  # the first run may do without kernels that are compiled meanwhile
        if not work.check(work.run()):
            figure.trouble = "WRONG: it differs from what array functions give"
            continue
        seen = medians(setting.driver, work.run, setting.budget, 20)
        moved = work.sectors() * SECTOR
        seconds = seen.kernels if seen.kernels is not None else seen.wall
        figure.warm, figure.kernels, figure.runs = seen.wall, seen.kernels, seen.runs
        share = moved / seconds / rate
        told = f"{moved / seconds / 1e9:,.0f} GB/s, {100 * share:.0f} % of the copy"
        figure.side = f"{work.name}: {moved / 1e9:.2f} GB, {told}"
        if work.judged:
            wanted = f"{100 * WANTED:.0f} %"
            case.asks.append(Ask(work.name, "the copy", wanted, told, share >= WANTED))
        print(figure.side, flush=True)
    yield case


def copied(setting: Setting) -> tuple[float, Figure]:
    """Bytes read and written in a second by a copy of what no cache can hold."""
    xp, driver = setting.xp, setting.driver
    size = 1 << 12 if setting.small else 1 << 29  # of 8 bytes: 4 GiB
    values, out = xp.arange(size), xp.full(size, -1)

    def copy() -> None:
        xp.copyto(out, values)

    copy()
    assert bool((out == values).all())
    seen = medians(driver, copy, setting.budget, 20)
    seconds = seen.kernels or seen.wall
    moved = 2 * values.nbytes
    told = f"copy: {moved / 1e9:,.2f} GB, {moved / seconds / 1e9:,.0f} GB/s"
    return moved / seconds, Figure(told, warm=seen.wall, kernels=seconds, runs=seen.runs)


def works(setting: Setting, ops: Any) -> Iterator[Work]:
    """The verbs, as a join of random edges with themselves asks for them."""
    xp = setting.xp
    edges, entries = (600, 1 << 11) if setting.small else (EDGES, ENTRIES)
    graph = wu(xp, edges, 4)
    vertices = int(graph.v.max()) + 1
    offsets = xp.searchsorted(graph.u, xp.arange(vertices + 1, dtype=xp.int32)).astype(xp.int32)
    level = ops.level_of(graph.v, offsets)
    # Rows of the frontier: the first edges (a, b) whose b have as many neighbours together.
    lengths = xp.diff(offsets)[graph.v].astype(xp.int64)
    count = int(xp.searchsorted(xp.cumsum(lengths), xp.asarray([entries], dtype=xp.int64))[0]) + 1
    above, lengths = graph.u[:count], lengths[:count]
    starts = offsets[graph.v[:count]].astype(xp.int64)
    ends = xp.cumsum(lengths)
    size = int(ends[-1])
    row = xp.searchsorted(ends, xp.arange(size), side="right")
    position = xp.arange(size) - (ends - lengths)[row] + starts[row]
    values, parents = graph.v[position], above[row]
    lists = touched(xp, position, len(graph.v), 4)
    alone = Choice(ListEntries(graph.v, starts, lengths, size), Lookup(level, None, False))
    yield Work(
        "expand",
        lambda: FusedLevel(ops, [alone], (), (), len(lengths)).expand(0, size),
        lambda found: bool((found.values == values).all() & (found.rows == row).all()),
        lambda: 2 * streamed(len(lengths), 8) + lists + 2 * streamed(size, 4),
    )
    yield from _looked_up(setting, ops, entries)
    packed = graph.u.astype(xp.int64) * vertices + graph.v
    wanted = parents.astype(xp.int64) * vertices + values
    last = int(above[-1]) + 1  # parents before it: their lists are the first ones
    searched = streamed(last + 1, 4) + streamed(int(offsets[last]), 4)
    yield Work(
        "case 3: (parent, value) pairs",
        lambda: ops.find_in(level, parents, values),
        lambda found: _right(xp, packed, wanted, found),
        lambda: 3 * streamed(size, 4) + searched,
    )


def _looked_up(setting: Setting, ops: Any, entries: int) -> Iterator[Work]:
    """Values in a list of the root: sorted ones by search, others by index."""
    xp = setting.xp
    size = entries // 2
    drawn = [mix(xp, xp.arange(count), 11 + count) >> xp.uint64(33) for count in (size, entries)]
    among, sought = (xp.unique(draw.astype(xp.int32)) for draw in drawn)
    starts = xp.asarray([0, len(among)])
    root = ops.level_of(among, starts)
    yield Work(
        "case 1: a sorted list in another",
        lambda: ops.find(root, sought),
        lambda found: _right(xp, among, sought, found),
        lambda: 2 * streamed(len(sought), 4) + streamed(len(among), 4),
    )
    # Dense: every value below a bound, which is what most columns of vertices are.
    dense = xp.arange(size, dtype=xp.int32)
    level = ops.level_of(dense, xp.asarray([0, size]))
    order = (mix(xp, xp.arange(entries), 5) % xp.uint64(size)).astype(xp.int32)
    yield Work(
        "case 2: values by index (a gather)",
        lambda: ops.find(level, order),
        lambda found: bool((found == order).all()),
        lambda: 2 * streamed(entries, 4) + gathered(xp, order, 4),
        judged=False,
    )


def _right(xp: Any, among: Any, sought: Any, found: Any) -> bool:
    """Whether places are where values stand in a sorted array, -1 where they do not."""
    at = xp.searchsorted(among, sought)
    there = xp.minimum(at, len(among) - 1)
    return bool((found == xp.where(among[there] == sought, there, -1)).all())
