"""One GPU and two, side by side in one run: the same answers, and how many times as fast.

    python -m benchmarks.several_gpus [--times 5] [--only closure] [--no-dask]

Counts: K5, P3 and P4 of ego-Twitter, and the closures of usroads and fe_ocean; made-up graphs where
the data are not there. `--devices` names what is compared, `--dask` what workers use: one for each
GPU. The answers are compared before anything is timed. Of each side the best of so many times
counts; the sides take turns.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from time import perf_counter

import gdatalog as gd
from benchmarks import graphs, patterns
from benchmarks.graphs import Graph
from gdatalog.errors import Error

CLOSURE = "path(x, y) <- E(x, y). path(x, z) <- path(x, y), E(y, z). n(count()) <- path(_, _)."
GRAPH, CLOSURES = "ego-Twitter", ("usroads", "fe_ocean")
WANTED = 1.8  # times as fast: P4, and the closures together
SLOWER = 0.001  # seconds that two may take longer than one
BESIDE = 0.020  # ... and workers
SMALL = 400  # vertices of the graphs of a try-out
ONE, TWO, DASK = "one GPU", "two GPUs", "through Dask"

Connect = Callable[..., gd.Database]


@dataclass(frozen=True, slots=True)
class Work:
    """A count over a graph: each edge both ways, or as it is `directed`."""

    name: str
    graph: str
    text: str
    directed: bool = False

    def edges(self, small: bool) -> Graph:
        if small:
            return Graph("a small graph", *graphs.skewed(SMALL, 4 * SMALL, seed=3), real=False)
        return graphs.closure(self.graph) if self.directed else graphs.graph(self.graph)


WORKS = (
    Work("K5", GRAPH, patterns.clique(5).rule()),
    Work("P3", GRAPH, patterns.P3.rule()),
    Work("P4", GRAPH, patterns.P4.rule()),
    *(Work(f"closure of {name}", name, CLOSURE, directed=True) for name in CLOSURES),
)


def seconds_of(db: gd.Database, text: str) -> tuple[int, float]:
    """The count, and how long it took."""
    started = perf_counter()
    ((count,),) = db.query(text).fetchall()
    return int(count), perf_counter() - started


def compared(
    work: Work, sides: dict[str, gd.Database], times: int, small: bool
) -> tuple[str, dict[str, float]] | None:
    """The graph's name, and each side's best time; None if the answers differ."""
    graph = work.edges(small)
    data = {"a": graph.u, "b": graph.v} if work.directed else graph.columns()["E"]
    for db in sides.values():
        db["E"] = data
    found = {name: seconds_of(db, work.text)[0] for name, db in sides.items()}
    if len(set(found.values())) > 1:
        print(f"{work.name}, {graph.name}: the answers differ: {found}")
        return None
    best = dict.fromkeys(sides, float("inf"))
    for _ in range(times):
        for name, db in sides.items():
            best[name] = min(best[name], seconds_of(db, work.text)[1])
    told = ", ".join(f"{name} {best[name] * 1e3:.1f} ms" for name in sides)
    print(f"{work.name}, {graph.name}: {found[ONE]:,}; {told}: {best[ONE] / best[TWO]:.2f}x")
    return graph.name, best


def verdicts(best: dict[str, dict[str, float]]) -> Iterator[tuple[str, bool]]:
    """What was asked for, and whether it is so; only of works that ran."""
    groups = {"P4": ["P4"], "the closures together": [f"closure of {name}" for name in CLOSURES]}
    for told, names in groups.items():
        if all(name in best for name in names):
            one, two = (sum(best[name][side] for name in names) for side in (ONE, TWO))
            yield f"{told}: {one / two:.2f}x, {WANTED:g}x was asked for", one / two >= WANTED
    for name, seconds in best.items():
        for side, most in ((TWO, SLOWER), (DASK, BESIDE)):
            if side in seconds:
                more = seconds[side] - seconds[ONE]
                told = f"{name}, {side}: {more * 1e3:+.1f} ms beside {ONE}"
                yield f"{told}, at most {most * 1e3:+.0f} ms was asked for", more <= most


@contextmanager
def opened(
    devices: Sequence[str], dask: str | None, connect: Connect
) -> Iterator[dict[str, gd.Database]]:
    """The sides, by name."""
    with ExitStack() as stack:
        sides: dict[str, gd.Database] = {}
        for name, device in zip((ONE, TWO), devices, strict=True):
            sides[name] = stack.enter_context(connect(device=device))
        if dask is not None:
            db = stack.enter_context(connect(device=dask, cluster="local", threads=2))
            sides[DASK] = db
        yield sides


def main(arguments: Sequence[str] | None = None, connect: Connect = gd.connect) -> int:
    parser = ArgumentParser(prog="python -m benchmarks.several_gpus", description=__doc__)
    parser.add_argument("--devices", nargs=2, default=["cuda:0", "cuda:0,1"])
    parser.add_argument("--dask", default="cuda", metavar="DEVICE", help="default: cuda")
    parser.add_argument("--no-dask", action="store_true", help="no workers")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--only", default="", help="works whose names have this in them")
    parser.add_argument("--small", action="store_true", help="tiny data: to see that all runs")
    told = parser.parse_args(arguments)
    best: dict[str, dict[str, float]] = {}
    works = [work for work in WORKS if told.only in work.name]
    try:
        with opened(told.devices, None if told.no_dask else told.dask, connect) as sides:
            for work in works:
                found = compared(work, sides, told.times, told.small)
                if found is not None:
                    best[work.name] = found[1]
    except Error as reason:
        print(f"cannot be measured here: {reason}", file=sys.stderr)
        return 2
    wrong = len(best) < len(works)
    if not told.small:
        for text, met in verdicts(best):
            print(f"{'met' if met else 'NOT MET'}: {text}")
            wrong = wrong or not met
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
