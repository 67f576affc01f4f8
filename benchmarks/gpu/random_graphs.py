"""The random graphs of Wu et al. (2014), by all executors and by pairwise joins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.gpu.breakdown import dissected
from benchmarks.gpu.cliques import AUTO, BREADTH, CPU, tiled
from benchmarks.gpu.forced import Forced
from benchmarks.gpu.race import Pairwise, Side, ours, race
from benchmarks.gpu.setting import Setting
from benchmarks.patterns import clique
from benchmarks.records import Case

SUITE = "random graphs"
SIZES = (100_000_000, 10_000_000, 1_000_000)
PAIRWISE = "sort-merge"


def run(setting: Setting) -> Iterator[Case]:
    for cliques in setting.few((3, 4)):
        pattern = clique(cliques)
        for size in setting.few(SIZES):
            # so many rows a second are loaded and indexed
            if not setting.wants(f"{pattern.name}, {size:,} random edges", 5 + size / 5e6):
                continue
            edges = setting.wu(size, cliques)
            sides: list[Side] = [
                ours(pattern, AUTO, Forced()),
                tiled(pattern, 1),
                tiled(pattern, 32),
                ours(pattern, BREADTH, Forced("levelwise")),
                Pairwise(cliques, PAIRWISE),
                ours(pattern, CPU, Forced(), gpu=False),
            ]
            case = race(setting, SUITE, f"{pattern.name}, {edges.name}", edges, sides)
            case.edges = size
            yield case
            if size == max(SIZES) or setting.small:
                able = [s for s, f in zip(sides, case.figures, strict=True) if not f.trouble][1:]
                for part in dissected(setting, case.what, edges, able):
                    yield replace(part, notes=("one run with a clock at every border",))
            setting.forget()
