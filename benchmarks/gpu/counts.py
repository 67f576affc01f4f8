"""Counts of patterns on a GPU: by sums of homomorphism counts where they are chosen, and without.

    python -m benchmarks.gpu.counts [--only C4 P1] [--most 20] [--times 5]

For each case: seconds of the first query (statistics, indexes, compilation), the median of the next
ones, and the time of the kernels among these. Then the same with `algebra="never"`, which
enumerates. Counts must agree. Graphs come from the data folder, or are made up.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from threading import Timer
from time import perf_counter
from typing import Any

import gdatalog as gd
from benchmarks.gpu.clocks import Clocked, Medians, medians
from benchmarks.gpu.forced import NoGpu, device_of, gpu_driver
from benchmarks.graphs import graph
from benchmarks.pattern_counts import KNOWN_HERE, SHAPES
from benchmarks.patterns import KNOWN
from gdatalog import patterns
from gdatalog.errors import Error, Interrupted


@dataclass(frozen=True, slots=True)
class Case:
    """`wanted`: seconds of kernels for patterns, of the whole query for motifs."""

    graph: str
    name: str
    wanted: float

    @property
    def motifs(self) -> bool:
        return self.name.endswith("motifs")

    def asked(self) -> Callable[[gd.Database], Any]:
        if self.motifs:
            return lambda db: db.motifs(int(self.name.split()[0]))
        pattern = patterns.from_edges(SHAPES[self.name], name="pattern")
        return lambda db: db.count(pattern)

    def known(self) -> int | None:
        return {**KNOWN, **KNOWN_HERE}.get((self.graph, self.name))


def cases() -> Iterator[Case]:
    for where, wanted in (("email-Enron", 0.0012), ("ego-Twitter", 0.021)):
        yield Case(where, "C4", wanted)
    for where, wanted in (("email-Enron", 15e-5), ("ego-Twitter", 93e-5), ("cnr-2000", 0.0023)):
        yield Case(where, "P1", wanted)
    for where in ("ego-Twitter", "cnr-2000"):
        for name in ("house", "P3", "P4", "P5", "P6"):
            yield Case(where, name, 0.1)
    for where, wanted in (("email-Enron", 1.0), ("ego-Twitter", 5.0), ("cnr-2000", 5.0)):
        yield Case(where, "4 motifs", wanted)
        yield Case(where, "5 motifs", wanted)


@dataclass(frozen=True, slots=True)
class Measured:
    found: Any
    first: float
    next: Medians

    def __str__(self) -> str:
        kernels = self.next.kernels or 0.0
        return f"{self.first:.3f} | {1e3 * self.next.wall:.2f} | {1e3 * kernels:.2f}"


def measured(driver: Any, case: Case, algebra: str, most: float, times: int) -> Measured | str:
    """What was found and how long it took, or why there is nothing."""
    clocks = Clocked(driver)
    with closing(gd.connect(device="cpu")) as db:
        db.workspace.device = device_of(clocks)
        db.workspace.force(algebra=algebra)
        for name, data in graph(case.graph).columns().items():
            db[name] = data
        ask = case.asked()
        timer = Timer(most, db.interrupt)
        timer.start()
        try:
            started = perf_counter()
            found = ask(db)
            driver.synchronize()
            first = perf_counter() - started
            return Measured(found, first, medians(clocks, lambda: ask(db), most / 4, times))
        except Interrupted:
            return f"over {most:g} s"
        except Error as error:
            return f"FAILED: {error}"
        finally:
            timer.cancel()


def compared(driver: Any, case: Case, most: float, times: int) -> bool:
    """Prints a row; whether nothing failed and the counts agree."""
    sides = [measured(driver, case, algebra, most, times) for algebra in ("auto", "never")]
    done = [side for side in sides if isinstance(side, Measured)]
    told = [str(side) if isinstance(side, Measured) else f"{side} | |" for side in sides]
    counts = [side.found for side in done]
    known = case.known()
    right = all(count == counts[0] for count in counts) and (
        known is None or case.motifs or all(count == known for count in counts)
    )
    late = True
    if done and done[0] is sides[0]:
        took = done[0].next.wall if case.motifs else done[0].next.kernels or 0.0
        late = took > case.wanted
    mark = "WRONG" if not right else "not met" if late else "met"
    print(f"| {case.graph} | {case.name} | {' | '.join(told)} | {1e3 * case.wanted:g} | {mark} |",
          flush=True)  # fmt: skip
    return right and not any(str(side).startswith("FAILED") for side in sides)


def main(arguments: Sequence[str] | None = None, driver: Any = None) -> int:
    parser = ArgumentParser(prog="python -m benchmarks.gpu.counts", description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="parts of names of cases")
    parser.add_argument("--most", type=float, default=20, help="seconds that a side may take")
    parser.add_argument("--times", type=int, default=5)
    told = parser.parse_args(arguments)
    try:
        driver = driver or gpu_driver()
    except (NoGpu, Error) as reason:
        print(f"cannot be measured here: {reason}", file=sys.stderr)
        return 2
    print("| graph | pattern | first s | next ms | kernels ms "
          "| enumerated: first s | next ms | kernels ms | asked ms | |")  # fmt: skip
    print("|" + " --- |" * 10)
    right = True
    for case in cases():
        if not told.only or any(part in f"{case.graph} {case.name}" for part in told.only):
            right &= compared(driver, case, told.most, told.times)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
