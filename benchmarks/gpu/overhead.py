"""What a query costs beside its kernels, when it is asked again: as a text, and prepared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.gpu.clocks import medians
from benchmarks.gpu.forced import Ours, device_of
from benchmarks.gpu.setting import Setting
from benchmarks.records import Ask, Case, Figure

SUITE = "overhead"
TEXT, PREPARED = 0.25e-3, 0.06e-3  # seconds beside the kernels
RUNS = 200

# Texts, and how many seconds an answer may take; None: those above.
QUERIES = {
    "triangles": ("n(count()) <- E(x, y), E(y, z), E(x, z), x < y < z.", None),
    "K4": (
        "n(count()) <- E(x, y), E(y, z), E(x, z), E(x, w), E(y, w), E(z, w), x < y < z < w.",
        None,
    ),
    "P1": ("n(count()) <- E(x, y), E(y, z), E(z, w), x != z, y != w, x != w.", None),
    "two hops from a constant": ("n(count()) <- E(5, y), E(y, _z).", 0.4e-3),
    "triangles at a constant, listed": ("l(y, z) <- E(5, y), E(y, z), E(z, 5).", 0.5e-3),
}


def run(setting: Setting) -> Iterator[Case]:
    edges = setting.graph("email-Enron")
    bare = Ours(edges, device_of(setting.fresh()), setting.xp)  # clocks beside kernels take time
    clocked = setting.ours(edges, gpu=True)
    for what, (text, most) in QUERIES.items():
        if setting.wants(f"overhead of {what}", 2):
            yield _case(setting, f"{what} of {edges.name}", text, most, bare, clocked)
    bare.close()


def _case(
    setting: Setting, what: str, text: str, most: float | None, bare: Ours, clocked: Ours
) -> Case:
    figures, asks = [], []
    again = _asked(clocked.db, lambda: clocked.db.query(text))
    kernels = medians(setting.driver, again, setting.budget, 50).kernels or 0.0
    prepared = bare.db.prepare(text)
    ways: dict[str, tuple[Callable[[], Any], float]] = {
        "asked again": (lambda: bare.db.query(text), TEXT),
        "prepared": (prepared, PREPARED),
    }
    for way, (ask, beside) in ways.items():
        work = _asked(bare.db, ask)
        runs = 3 if setting.small else RUNS
        wall = median(_seconds(work) for _ in range(runs))
        figures.append(Figure(way, warm=wall, kernels=kernels, runs=runs, answer=len(ask())))
        limit = kernels + beside if most is None else most
        asks.append(_milliseconds(f"{what}, {way}", wall, kernels, limit))
    return Case(SUITE, what, figures, asks)


def _milliseconds(what: str, wall: float, kernels: float, limit: float) -> Ask:
    seen = f"{wall * 1e3:.3f} ms, of which kernels {kernels * 1e3:.3f}"
    return Ask(what, "a clock", f"under {limit * 1e3:.3f} ms", seen, wall <= limit)


def _asked(db: Any, ask: Callable[[], Any]) -> Callable[[], object]:
    """Asks, and reads the rows; answers are not kept. Kernels of small joins are compiled before
    it returns."""

    def work() -> object:
        db.workspace.results.clear()
        return ask().fetchall()

    for _ in range(3):
        work()
    for coming in [*db.workspace.device.walks._coming.values()]:
        coming.result()
    work()
    return work


def _seconds(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began
