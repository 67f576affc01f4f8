"""The same questions to one process and to the workers of a Dask cluster: `make demo-cluster`."""

from __future__ import annotations

import os
import signal
import sys
from threading import Timer
from time import perf_counter, sleep

import numpy as np

import gdatalog as gd

VERTICES, EDGES = 20_000, 500_000
QUERIES = {
    "triangles": "n(count()) <- E(a,b), E(b,c), E(a,c), a < b < c.",
    "4-cycles": "n(count()) <- E(a,b), E(b,c), E(c,d), E(d,a), a < b, a < c, b < d.",
    "within 2 steps": "two(x, z) <- E(x, y), E(y, z), x < 2000. n(count()) <- two(_, _).",
}
LONGEST = "4-cycles"
KILLED_AFTER = 0.5  # seconds of the longest query
ENDING = 5.0  # seconds for the workers to be gone, once they are told to


def graph() -> np.ndarray:
    """Both ways of every edge; some vertices have many."""
    random = np.random.default_rng(1)
    pairs = (random.random((EDGES, 2)) ** 2 * VERTICES).astype(np.int64)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)


def asked(db: gd.Database, text: str) -> tuple[int, float]:
    started = perf_counter()
    ((answer,),) = db.query(text).fetchall()
    return answer, perf_counter() - started


def main(edges: np.ndarray | None = None) -> int:
    edges = graph() if edges is None else edges
    print(f"a graph of {len(edges) // 2:,} edges")
    here: dict[str, tuple[int, float]] = {}
    with gd.connect(device="cpu", threads=1) as db:
        db["E"] = edges
        for name, text in QUERIES.items():
            asked(db, text)  # so that indexes and compiled loops are there
            here[name] = asked(db, text)
    started = perf_counter()
    with gd.connect(device="cpu", cluster="local", threads=max(2, os.cpu_count() or 2)) as db:
        print(f"started in {perf_counter() - started:.1f} s: {db.cluster!r}")
        print(*(f"  {worker}" for worker in db.cluster.workers), sep="\n")
        print(f"  dashboard: {db.cluster.dashboard}")
        print(f"\n{'':<16}{'answer':>14}{'one thread':>14}{db.cluster!s:>14}")
        db["E"] = edges
        wrong = False
        for name, text in QUERIES.items():
            asked(db, text)
            answer, seconds = asked(db, text)
            wrong |= answer != here[name][0]
            print(f"{name:<16}{answer:>14,}{here[name][1]:>12.2f} s{seconds:>12.2f} s")
        processes = db.cluster.client.run(os.getpid)
        print(f"\nworker {db.cluster.workers[0].name} is killed while {LONGEST} are counted")
        Timer(
            KILLED_AFTER, os.kill, (processes[db.cluster.workers[0].address], signal.SIGKILL)
        ).start()
        answer, seconds = asked(db, QUERIES[LONGEST])
        wrong |= answer != here[LONGEST][0]
        print(f"{LONGEST:<16}{answer:>14,}{'':>14}{seconds:>12.2f} s")
        now = db.cluster.client.run(os.getpid, on_error="ignore")  # one may be on its way
        left = {*now.values(), *processes.values()}
    until = perf_counter() + ENDING
    while any(map(runs, left)) and perf_counter() < until:
        sleep(0.05)  # to give its memory back takes a process a moment
    print(f"stopped; {sum(map(runs, left)) or 'none'} of the workers left")
    return int(wrong)


def runs(process: int) -> bool:
    import psutil

    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


if __name__ == "__main__":
    sys.exit(main())
