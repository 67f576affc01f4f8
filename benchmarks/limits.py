"""Peak memory under a limit: many kinds of query, each in a process of its own.

A query is answered or refused. Either way the process may hold no more than what it held after
loading, the limit, 15 % and 64 MiB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import memory
from benchmarks.records import Ask, Case
from benchmarks.setting import Setting

ROOT = Path(__file__).resolve().parents[1]
MIB = 1 << 20
LIMITS = (50 * MIB, 200 * MIB)
SHARE, EXTRA = 0.15, 64 * MIB
SECONDS = 300  # after which a query is stopped
USUAL = 5  # seconds that one takes

Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A query, the data that it runs over, and what is forced on the engine for it."""

    what: str
    text: str
    data: Callable[[float], Data] = lambda scale: {}
    strategy: str = "auto"
    knobs: tuple[tuple[str, str], ...] = ()


def _scaled(count: int, scale: float) -> int:
    return max(3, int(count * scale))


def _texts(scale: float) -> Data:
    return {"T": [(f"text number {at}",) for at in range(_scaled(20_000, scale))]}


def _values(scale: float) -> Data:
    return {"V": np.arange(_scaled(2_000, scale), dtype=np.int64)[:, None]}


def _floats(scale: float) -> Data:
    values = np.random.default_rng(5).random(_scaled(2_000, scale))
    return {"V": values[:, None]}


def _edges(scale: float, edges: int = 300_000) -> Data:
    count = _scaled(edges, scale)
    ends = np.random.default_rng(3).integers(0, max(2, count // 3), (count, 2))
    return {"E": np.unique(ends, axis=0)}


def _sparse(scale: float) -> Data:
    """Edges between ids of which no two are near each other."""
    edges = _edges(scale, 100_000)["E"]
    ids = np.random.default_rng(4).integers(0, 1 << 62, int(edges.max()) + 1)
    return {"E": np.unique(ids[edges], axis=0)}


def _dense(scale: float) -> Data:
    """Few vertices with many edges each."""
    count = _scaled(3_000, scale)
    ends = np.random.default_rng(6).integers(0, count, (100 * count, 2))
    return {"E": np.unique(ends, axis=0)}


def _many(scale: float) -> Data:
    return _edges(scale, 3_000_000)


CLOSURE = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z)."
SHORTEST = "d(x, y, min(1)) <- E(x, y). d(x, z, min(n + 1)) <- d(x, y, n), E(y, z)."

KINDS = (
    Kind("texts joined pair by pair", "t(cat(x, y)) <- T(x), T(y).", _texts),
    Kind("a text that doubles", 's("ab"). s(cat(x, x)) <- s(x), strlen(x) < 2000000000.'),
    Kind(
        "texts that are only looked at",
        'n(count()) <- T(x), T(y), z = cat(upper(x), substr(y, 5, 20)), contains("77", z).',
        _texts,
    ),
    Kind("numbers as texts", "t(s) <- x = range(0, 100000000), s = to_string(x)."),
    Kind("a long range", "?- x = range(0, 1000000000000)."),
    Kind("product, breadth-first", "p(x, y, z) <- V(x), V(y), V(z).", _values, "levelwise"),
    Kind("product, depth-first", "p(x, y, z) <- V(x), V(y), V(z).", _values, "lftj"),
    Kind("product of floats", "p(x, y, z) <- V(x), V(y), V(z).", _floats, "levelwise"),
    Kind("pairs with a common neighbour", "p(x, z) <- E(x, y), E(z, y).", _dense, "levelwise"),
    Kind("paths that are projected", "p(x, z) <- E(x, y), E(y, z), E(z, w).", _many),
    Kind("negation", "p(x, y, z) <- V(x), V(y), V(z), !V(x * y + z).", _values, "levelwise"),
    Kind("triangles over a large index", "n(count()) <- E(x, y), E(y, z), E(x, z).", _many),
    Kind("closure, breadth-first", CLOSURE, _edges, "levelwise"),
    Kind("closure, depth-first", CLOSURE, _edges, "lftj"),
    Kind("closure, sorted rows", CLOSURE, _edges, "levelwise", (("telling", "sort"),)),
    Kind("closure, hashed rows", CLOSURE, _edges, "auto", (("telling", "hash"),)),
    Kind("closure, marks", CLOSURE, _dense, "auto", (("telling", "marks"),)),
    Kind("closure, split", CLOSURE, _edges, "auto", (("split", "always"),)),
    Kind("closure of sparse ids", CLOSURE, _sparse),
    Kind(
        "same generation",
        "g(x, y) <- E(p, x), E(p, y). g(x, y) <- E(p, x), g(p, q), E(q, y).",
        lambda scale: _edges(scale, 30_000),
        "auto",
        (("dead_variables", "always"),),
    ),
    Kind("shortest paths of all pairs", SHORTEST, _edges),
    Kind("shortest paths, in rounds", SHORTEST, _edges, "levelwise", (("split", "never"),)),
    Kind("a count for each pair", "n(x, z, count()) <- E(x, y), E(y, z).", _many, "levelwise"),
    Kind("sums, depth-first", "n(x, z, sum(y), max(y)) <- E(x, y), E(y, z).", _many, "lftj"),
    Kind("distinct pairs counted", "n(y, count_distinct(x, z)) <- E(x, y), E(y, z).", _many),
    Kind("numbers without end", "n(1). n(2*x) <- n(x). n(2*x+1) <- n(x)."),
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of a query, and the bytes that its process held before it and at the most."""

    outcome: str
    told: str
    before: int
    peak: int
    seconds: float

    @property
    def grown(self) -> int:
        return self.peak - self.before


def allowed(limit: int) -> int:
    """The bytes that a process may grow by."""
    return int(limit * (1 + SHARE)) + EXTRA


def run(setting: Setting) -> Iterator[Case]:
    limits = LIMITS[:1] if setting.small else LIMITS
    for kind in KINDS:
        if not setting.wants(kind.what, len(limits) * USUAL):
            continue
        asks = []
        for limit in limits:
            seen = measured(kind, limit, 0.02 if setting.small else 1.0)
            told = f"{seen.grown / MIB:.0f} MiB, {seen.outcome}"
            print(f"{kind.what}, {limit // MIB} MiB: {told}: {seen.told}", file=sys.stderr)
            wanted = f"at most {allowed(limit) / MIB:.0f} MiB"
            met = seen.grown <= allowed(limit) and seen.outcome in ("answered", "refused")
            asks.append(Ask(kind.what, f"a limit of {limit // MIB} MiB", wanted, told, met))
        yield Case("limits", kind.what, [], asks)


def measured(kind: Kind, limit: int, scale: float = 1.0) -> Seen:
    """Runs a query in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.limits", kind.what, str(limit), str(scale)]
    path = {**os.environ, "PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=path, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return Seen("stopped", f"not done in {SECONDS} s", 0, 0, SECONDS)
    if done.returncode:
        return Seen("broken", done.stderr.strip()[-400:], 0, 0, 0.0)
    return Seen(**json.loads(done.stdout))


def _measure(kind: Kind, limit: int, scale: float) -> Seen:
    """What the process does: loads, warms up what is made once in its life, asks."""
    from time import process_time

    import gdatalog as gd

    for strategy in ("levelwise", "lftj"):
        tiny = gd.connect(device="cpu")
        tiny["E"] = np.arange(600_000).reshape(-1, 2) % 1000
        tiny.query("n(count()) <- E(x, y), E(y, z).", strategy=strategy)
    db = gd.connect(device="cpu", memory_limit=limit, temp_directory="")
    rows = None
    for name, rows in kind.data(scale).items():
        db[name] = rows
    db.workspace.force(**dict(kind.knobs))
    del tiny, rows
    memory.forget()
    before, began = memory.resident(), process_time()
    try:
        outcome, told = "answered", f"{len(db.query(kind.text, strategy=kind.strategy))} rows"
    except gd.MemoryLimitError as refused:
        outcome, told = "refused", str(refused)
    return Seen(outcome, told, before, memory.peak(), process_time() - began)


if __name__ == "__main__":
    what, limit, scale = sys.argv[1:]
    (chosen,) = (kind for kind in KINDS if kind.what == what)
    found = _measure(chosen, int(limit), float(scale))
    print(json.dumps({name: getattr(found, name) for name in Seen.__slots__}))
