"""What the knobs do: lanes to a subtree, the time after which a task is split, rows of a chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.gpu.cliques import NAMED, SPARSE
from benchmarks.gpu.forced import MILLISECOND, NEVER, TILES, Forced
from benchmarks.gpu.race import Side, ours, race
from benchmarks.gpu.setting import Setting
from benchmarks.patterns import KNOWN
from benchmarks.records import Case

LIMITS = {
    "0.1 ms": MILLISECOND // 10,
    "1 ms": MILLISECOND,
    "10 ms": 10 * MILLISECOND,
    "100 ms": 100 * MILLISECOND,
    "off": NEVER,
}
CHUNKS = tuple(1 << bits for bits in (16, 18, 20, 22, 24, 26))
TILE, LIMIT, CHUNK = "sweep of the tile", "sweep of the time limit", "sweep of the chunk"


def run(setting: Setting) -> Iterator[Case]:
    tiles = setting.few(TILES[::-1])[::-1]
    for graph in setting.few(SPARSE):
        for name in setting.few(("triangles", "P2", "P3")):
            sides = [ours(NAMED[name], str(tile), Forced(tile=tile)) for tile in tiles]
            yield from _swept(setting, TILE, name, graph, sides)
    works = (("P2", "cnr-2000"), ("P3", "cnr-2000"), ("P7", "ego-Twitter"))
    for name, graph in setting.few(works):
        sides = [
            ours(NAMED[name], told, Forced(tile=32, time_limit=limit))
            for told, limit in LIMITS.items()
        ]
        yield from _swept(setting, LIMIT, name, graph, sides)
    for name in setting.few(("triangles", "P2")):
        sides = [
            ours(NAMED[name], f"{chunk:,}", Forced("levelwise", chunk=chunk)) for chunk in CHUNKS
        ]
        yield from _swept(setting, CHUNK, name, "ego-Twitter", sides)


def _swept(
    setting: Setting, suite: str, name: str, graph: str, sides: Sequence[Side]
) -> Iterator[Case]:
    if setting.wants(f"{suite}: {name}, {graph}", 6):
        edges = setting.graph(graph)
        expected = KNOWN.get((edges.name, NAMED[name].name))
        yield race(setting, suite, f"{name}, {edges.name}", edges, sides, expected)
