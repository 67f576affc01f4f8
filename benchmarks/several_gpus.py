"""One GPU and several, side by side in one run: the same answers, and how many times as fast.

    python -m benchmarks.several_gpus [--times 5] [--only closure] [--huge] [--dask cuda]

Counts: K5, P3 and P4 of ego-Twitter, and the closures of usroads and fe_ocean; made-up graphs where
the data are not there. `--huge` adds K4 of 10^8 random edges. `--devices` names what is compared
with the first of them: two GPUs, and four where there are so many. `--dask` says what workers use:
one for each GPU. The answers are compared before anything is timed. Of each side the best of so
many times counts; the sides take turns.
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
from gdatalog.gpu_ops.probe import look_at_driver

CLOSURE = "path(x, y) <- E(x, y). path(x, z) <- path(x, y), E(y, z). n(count()) <- path(_, _)."
GRAPH, CLOSURES = "ego-Twitter", ("usroads", "fe_ocean")
HUGE = "K4 of 10^8 random edges"
# Times as fast, by the number of GPUs: the closures together, and K4 of many edges.
WANTED = {"the closures together": {2: 1.8, 4: 3.2}, HUGE: {2: 1.86, 4: 3.1}}
SLOWER = 0.001  # seconds that several may take longer than one
BESIDE = 0.020  # ... and workers
SMALL = 400  # vertices of the graphs of a try-out
DASK = "through Dask"

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
        if self.name == HUGE:
            return graphs.wu(10**8, 4)
        return graphs.closure(self.graph) if self.directed else graphs.graph(self.graph)


WORKS = (
    Work("K5", GRAPH, patterns.clique(5).rule()),
    Work("P3", GRAPH, patterns.P3.rule()),
    Work("P4", GRAPH, patterns.P4.rule()),
    *(Work(f"closure of {name}", name, CLOSURE, directed=True) for name in CLOSURES),
    Work(HUGE, "", patterns.clique(4).rule()),
)


def seconds_of(db: gd.Database, text: str) -> tuple[int, float]:
    """The count, and how long it took; answers are not kept."""
    db.workspace.results.clear()
    db.workspace.catalog.bound.clear()
    started = perf_counter()
    ((count,),) = db.query(text).fetchall()
    return int(count), perf_counter() - started


def compared(
    work: Work, sides: dict[str, gd.Database], times: int, small: bool
) -> dict[str, float] | None:
    """Each side's best time; None if the answers differ."""
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
    one, *_ = best.values()
    told = [f"{name} {best[name] * 1e3:.1f} ms ({one / best[name]:.2f}x)" for name in sides]
    print(f"{work.name}, {graph.name}: {next(iter(found.values())):,}; {', '.join(told)}")
    return best


def verdicts(best: dict[str, dict[str, float]]) -> Iterator[tuple[str, bool]]:
    """What was asked for, and whether it is so; only of works that ran."""
    groups = {"the closures together": [f"closure of {name}" for name in CLOSURES], HUGE: [HUGE]}
    for told, names in groups.items():
        if not all(name in best for name in names):
            continue
        one, *others = best[names[0]]
        for side in others:
            wanted = WANTED[told].get(1 + side.count(","))
            if wanted is not None and side != DASK:
                alone, together = (sum(best[name][at] for name in names) for at in (one, side))
                times = alone / together
                yield f"{told}, {side}: {times:.2f}x, {wanted:g}x was asked for", times >= wanted
    for name, seconds in best.items():
        one, *others = seconds
        for side in others:
            most, more = BESIDE if side == DASK else SLOWER, seconds[side] - seconds[one]
            told = f"{name}, {side}: {more * 1e3:+.1f} ms beside {one}"
            yield f"{told}, at most {most * 1e3:+.0f} ms was asked for", more <= most


def all_devices() -> list[str]:
    """One GPU, two, and four if there are so many."""
    count = max(2, len(look_at_driver().cards))
    return [f"cuda:{','.join(map(str, range(n)))}" for n in (1, 2, 4) if n <= count]


@contextmanager
def opened(
    devices: Sequence[str], dask: str | None, connect: Connect
) -> Iterator[dict[str, gd.Database]]:
    """The sides, by name."""
    with ExitStack() as stack:
        sides = {name: stack.enter_context(connect(device=name)) for name in devices}
        if dask is not None:
            db = stack.enter_context(connect(device=dask, cluster="local", threads=2))
            sides[DASK] = db
        yield sides


def main(arguments: Sequence[str] | None = None, connect: Connect = gd.connect) -> int:
    parser = ArgumentParser(prog="python -m benchmarks.several_gpus", description=__doc__)
    parser.add_argument("--devices", nargs="+", help="default: cuda:0 cuda:0,1 ...")
    parser.add_argument("--dask", metavar="DEVICE", help="workers, too, with this device")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--only", default="", help="works whose names have this in them")
    parser.add_argument("--huge", action="store_true", help=f"{HUGE}, too")
    parser.add_argument("--small", action="store_true", help="tiny data: to see that all runs")
    told = parser.parse_args(arguments)
    best: dict[str, dict[str, float]] = {}
    works = [work for work in WORKS if told.only in work.name and (told.huge or work.name != HUGE)]
    try:
        with opened(told.devices or all_devices(), told.dask, connect) as sides:
            for work in works:
                found = compared(work, sides, told.times, told.small)
                if found is not None:
                    best[work.name] = found
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
