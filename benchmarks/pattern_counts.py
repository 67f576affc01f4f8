"""How long counts of patterns take, motifs and orbits too: one process for each, and no code kept.

    python -m benchmarks.pattern_counts                  # all, some minutes
    python -m benchmarks.pattern_counts --only C4 house  # cases whose names hold one of these

Each case is asked twice: in a new process with an empty code cache, then in the same process by a
new database. So the second figure is without compilation, but with statistics, indexes and plans.
Python's byte code is made beforehand, as an installation does it.
Counts are compared with those that are known. Graphs come from the data folder, or are made up.
"""

from __future__ import annotations

import os
import resource
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from compileall import compile_dir
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import gdatalog as gd
from benchmarks.graphs import graph
from benchmarks.patterns import KNOWN
from gdatalog import patterns
from gdatalog.patterns.orbits import onto, orbits

# Edges, by the names that papers give the patterns.
SHAPES = {
    "triangles": "ab ac bc", "C4": "ab bc cd da", "P1": "ab ac ad bc bd",
    "K4": "ab ac ad bc bd cd", "P3": "ab ac ad ae bc bd be cd", "P4": "ab ac ad bc bd ce de",
    "P5": "ab ac ad ae bc be cd de", "P6": "ab ac ad ae bc bd be cd de",
    "K5": "ab ac ad ae bc bd be cd ce de", "house": "ab ac ae bc bd de",
    "q10": "ab ac ad bc bd cf de", "5-chain": "ab bc cd de", "6-chain": "ab bc cd de ef",
}  # fmt: skip
SUITE = ("P1", "K4", "P3", "P4", "P5", "P6", "K5")
KNOWN_HERE = {
    ("wiki-Vote", "6-chain"): 34_775_389_201_469,
    ("wiki-Vote", "C4"): 57_654_491,
    ("email-Enron", "C4"): 36_262_229,
}


@dataclass(frozen=True, slots=True)
class Case:
    """`wanted`: seconds that it may take."""

    graph: str
    name: str
    wanted: float
    edges: str = ""

    def asked(self) -> Callable[[Any], Any]:
        if self.name.endswith("by loops"):
            return lambda db: _by_loops(db, int(self.name.split()[0]))
        if self.edges:
            pattern = patterns.from_edges(self.edges, name="pattern")
            return lambda db: db.count(pattern)
        kind, size = self.name.split()[-1], int(self.name.split()[0])
        return (lambda db: db.motifs(size)) if kind == "motifs" else (lambda db: db.orbits(size))


def cases() -> Iterator[Case]:
    for name, wanted in (("5-chain", 2), ("6-chain", 10)):
        yield Case("wiki-Vote", name, wanted, SHAPES[name])
    yield Case("ego-Twitter", "C4", 0.5, SHAPES["C4"])
    for name in ("C4", "P4", "P5", "house"):
        yield Case("email-Enron", name, 0.3, SHAPES[name])
    yield Case("email-Enron", "q10", 2, SHAPES["q10"])
    yield Case("cnr-2000", "house", 10, SHAPES["house"])
    for where in ("email-Enron", "ego-Twitter", "cnr-2000"):
        yield Case(where, "4 motifs", {"email-Enron": 0.2, "ego-Twitter": 1}.get(where, 2))
        yield Case(where, "5 motifs", 3 if where == "email-Enron" else 60)
    # Orbits, and beside them plain nests of loops, which should take ten times as long.
    for where, size, wanted in (
        ("ca-GrQc", 4, 1), ("ca-GrQc", 5, 10), ("lab-yeast", 5, 10), ("email-Enron", 4, 10),
        ("email-Enron", 5, 60), ("soc-Slashdot0902", 4, 10), ("soc-Slashdot0902", 5, 120),
        ("dblp-2010", 4, 10), ("dblp-2010", 5, 120),
    ):  # fmt: skip
        yield Case(where, f"{size} orbits", wanted)
        yield Case(where, f"{size} orbits by loops", 10 * wanted)
    for where in ("ca-GrQc", "lab-yeast", "email-Enron"):
        for name in SUITE:
            yield Case(where, name, 10, SHAPES[name])
        for one in patterns.suite("cuts"):
            yield Case(where, one.name, 10, " ".join(u + v for u, v in one.edges))


def _by_loops(db: Any, size: int) -> dict[str, int]:
    """What orbits come to, each by a nest of loops over induced subgraphs and their roots."""
    db.workspace.force(algebra="never")
    found = {}
    for orbit in orbits():
        if orbit.size <= size:
            pattern = orbit.pattern
            body = [*pattern.body(induced=True), f"distinct({', '.join(pattern.vertices)})"]
            rows = db.query(f"n({orbit.root}, count()) <- {', '.join(body)}.").df()
            count = int(rows.iloc[:, 1].sum())
            found[f"O{orbit.number}"] = count // onto(orbit.number)[orbit.number]
    return found


def _run(case: Case, folder: str, sent: Any) -> None:
    os.environ["GDATALOG_CACHE"] = folder
    columns = graph(case.graph).columns()
    for _ in range(2):
        with gd.connect(device="cpu") as db:
            for relation, data in columns.items():
                db[relation] = data
            started, spent = perf_counter(), _spent()
            found = case.asked()(db)
            sent.send((perf_counter() - started, _spent() - spent, _told(found)))


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _told(found: Any) -> Any:
    if hasattr(found, "columns"):  # of orbits: what they come to
        return {name: int(found[name].sum()) for name in found.columns[1:]}
    return found


def measure(case: Case, most: float) -> tuple[list[tuple[float, float, Any]], bool]:
    """Seconds, seconds of processors, and what was found, first and then again; and whether the
    process failed."""
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    found, failed = [], False
    with TemporaryDirectory() as folder:
        process = context.Process(target=_run, args=(case, folder, theirs))
        process.start()
        theirs.close()
        try:
            for _ in range(2):
                if not ours.poll(most):
                    break
                found.append(ours.recv())
        except EOFError:
            failed = True
        process.kill()
        process.join()
    return found, failed


def main() -> int:
    parser = ArgumentParser(prog="python -m benchmarks.pattern_counts", description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="parts of names of cases")
    parser.add_argument("--most", type=float, default=60, help="seconds that a case may take")
    options = parser.parse_args()
    wrong = 0
    compile_dir(Path(gd.__file__).parent, quiet=1)
    print("| graph | what | wanted s | first s | again s | CPU s | count |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for case in cases():
        if options.only and not any(part in f"{case.graph} {case.name}" for part in options.only):
            continue
        runs, failed = measure(case, options.most)
        told = [f"{seconds:.2f}" for seconds, _, _ in runs] + ["-"] * (2 - len(runs))
        known = {**KNOWN, **KNOWN_HERE}.get((case.graph, case.name))
        counts = {str(count) for _, _, count in runs}
        right = len(counts) <= 1 and (known is None or counts <= {str(known)})
        wrong += failed or not right
        found = runs[-1][2] if runs else "-"
        count = sum(found.values()) if isinstance(found, dict) else found
        spent = f"{runs[-1][1]:.2f}" if runs else "-"
        fault = " FAILED" if failed else "" if right else " WRONG"
        late = "" if runs and runs[0][0] <= case.wanted else " !"
        print(f"| {case.graph} | {case.name} | {case.wanted:g} | {told[0]}{late} | {told[1]} "
              f"| {spent} | {count}{fault} |", flush=True)  # fmt: skip
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
