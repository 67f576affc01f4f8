"""The same questions to the CPU and to a GPU: `make demo`, where a GPU is."""

from __future__ import annotations

import sys
from time import perf_counter

import numpy as np

import gdatalog as gd

VERTICES, EDGES = 20_000, 400_000
QUERIES = {
    "triangles": "n(count()) <- E(a,b), E(b,c), E(a,c), a < b < c.",
    "4-cycles": "n(count()) <- E(a,b), E(b,c), E(c,d), E(d,a), distinct(a, b, c, d).",
    "4-cliques": "n(count()) <- E(a,b), E(a,c), E(a,d), E(b,c), E(b,d), E(c,d), a < b < c < d.",
    "reached from 0": "r(y) <- y = 0 ; r(x), E(x, y). n(count()) <- r(_).",
}


def graph() -> np.ndarray:
    """Both ways of every edge; some vertices have many."""
    random = np.random.default_rng(1)
    pairs = (random.random((EDGES, 2)) ** 2 * VERTICES).astype(np.int64)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)


def main(devices: tuple[str, ...] = ("cpu", "cuda")) -> int:
    edges = graph()
    found: dict[str, dict[str, tuple[int, float, float]]] = {}
    for device in devices:
        with gd.connect(device=device) as db:
            db["E"] = edges
            for name, text in QUERIES.items():
                found.setdefault(name, {})[db.device] = _asked(db, text)
    shown = list(next(iter(found.values())))
    print(f"\na graph of {VERTICES:,} vertices, {len(edges) // 2:,} edges; seconds")
    heads = "".join(f"{f'{device}, first':>15}{'then':>9}" for device in shown)
    print(f"{'':<16}{'answer':>14}{heads}")
    wrong = False
    for name, of in found.items():
        answers = {answer for answer, _, _ in of.values()}
        wrong |= len(answers) != 1
        told = " or ".join(f"{answer:,}" for answer in sorted(answers))
        times = "".join(f"{first:>15.3f}{then:>9.3f}" for _, first, then in of.values())
        print(f"{name:<16}{told:>14}{times}")
    print("first: with indexes, compilation, and what is loaded for it")
    return int(wrong)


def _asked(db: gd.Database, text: str) -> tuple[int, float, float]:
    """The answer; the seconds of the first time, and the least of three more."""
    seconds = []
    for _ in range(4):
        started = perf_counter()
        ((answer,),) = db.query(text).fetchall()
        seconds.append(perf_counter() - started)
    return answer, seconds[0], min(seconds[1:])


if __name__ == "__main__":
    sys.exit(main())
