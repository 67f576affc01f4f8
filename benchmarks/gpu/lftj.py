"""One thread to a subtree against our loops on all cores: triangles, from 10 million edges up."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.gpu.cliques import AUTO, CPU, RMAT, tiled
from benchmarks.gpu.forced import Forced
from benchmarks.gpu.race import at_least, ours, race
from benchmarks.gpu.setting import Setting
from benchmarks.patterns import clique
from benchmarks.records import Case

WANTED = 10


def run(setting: Setting) -> Iterator[Case]:
    triangles = clique(3)
    makes = (partial(setting.wu, 10_000_000, 3), partial(setting.rmat, *RMAT))
    for number, make in enumerate(setting.few((*makes, partial(setting.wu, 30_000_000, 3)))):
        if not setting.wants(f"one thread to a subtree, graph {number + 1}", 20):
            continue
        edges = make()
        sides = [
            tiled(triangles, 1),
            ours(triangles, AUTO, Forced()),
            ours(triangles, CPU, Forced(), gpu=False),
        ]
        case = race(setting, "tile 1 and the CPU", f"triangles, {edges.name}", edges, sides)
        case.asks = [at_least(case, ["tile 1"], [CPU], WANTED, wall=True)]
        yield case
        setting.forget()
