"""One core and two: the same counts, by one thread and by two."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.machine import cores
from benchmarks.patterns import KNOWN, clique
from benchmarks.records import Ask, Case, faster
from benchmarks.setting import Setting
from benchmarks.sides import Gdatalog

ONE, TWO = "ours, one thread", "ours, two threads"
WORKS = (("ego-Twitter", 5, 1.8), ("cnr-2000", 3, 1.6))


def run(setting: Setting) -> Iterator[Case]:
    for name, size, wanted in WORKS:
        graph, pattern = setting.graph(name), clique(size)
        what = f"{pattern.name}, {graph.name}, two threads"
        if cores() < 2:
            ask = Ask(what, ONE, f"{wanted:g}x", "one core is all there is", None)
            yield Case("cores", what, [], [ask])
            continue
        if not setting.wants(what, 20):
            continue
        rule = pattern.rule()
        sides = [Gdatalog(rule, threads=2, label=TWO), Gdatalog(rule, threads=1, label=ONE)]
        data = setting.graph_data(graph)
        expected = KNOWN.get((graph.name, pattern.name))
        case = setting.race("cores", what, data, sides, expected, timed_compiling=False)
        case.asks = [faster(case, TWO, [ONE], wanted)]
        yield case
